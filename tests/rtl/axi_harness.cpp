// The chip with AXI buses, between a host and a memory that keep the protocol in its loosest sense: every ready and valid comes when it
// likes, reads see memory as late and writes reach it as late as AXI allows. What the chip does against the protocol is reported.
// Defined before: DATA_BYTES, BEATS, LINE_BYTES, MEMORY_BASE, STATUS, FETCHING, WINDOW_DATA.
#include "Vtinytpu_axi.h"

#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <string>

namespace {

template <class Port> uint8_t* bytes(Port& port) {
  if constexpr (sizeof(Port) > 8) return reinterpret_cast<uint8_t*>(port.data());
  else return reinterpret_cast<uint8_t*>(&port);
}

struct Read { uint64_t address, due; int beat; bool early; uint8_t line[LINE_BYTES]; };
struct Write { uint64_t address, due; uint8_t line[LINE_BYTES]; bool enabled[LINE_BYTES]; };

struct Context : VerilatedContext { Context() { threads(1); } };

struct Sim {
  Context context;
  Vtinytpu_axi m;
  uint8_t* hbm;
  uint64_t hbm_bytes, now = 0, bad = ~0ull;  // bad: line that answers with an error
  std::mt19937 random{1};
  int slowness = 0, latency = 0;  // of 256: how often a channel is not ready; most cycles until an answer
  std::deque<Read> reads;
  std::deque<uint64_t> addresses;  // of writes without all their data
  std::deque<Write> writes;
  Write collecting{};
  int collected = 0;
  std::string violation;
  std::string held[5];  // payload of AR, AW, W, R and B of the registers, while valid waits for ready

  Sim(uint8_t* memory, uint64_t n) : context(), m(&context), hbm(memory), hbm_bytes(n) {}

  bool may() { return int(random() & 255) >= slowness; }
  uint64_t later() { return now + (latency ? random() % latency : 0); }

  void complain(const std::string& what) { if (violation.empty()) violation = what + " in cycle " + std::to_string(now); }

  template <class... Part> void stable(int channel, const char* name, bool valid, bool ready, Part&... parts) {
    std::string payload;
    (payload.append(reinterpret_cast<const char*>(bytes(parts)), sizeof(parts)), ...);
    payload += 'v';
    if (!held[channel].empty() && (!valid || payload != held[channel])) complain(std::string(name) + " changed before it was accepted");
    held[channel] = valid && !ready ? payload : "";
  }

  uint64_t checked(uint64_t address, int len, int size, int burst, const char* channel) {
    if (len + 1 != BEATS || 1 << size != DATA_BYTES || burst != 1) complain(std::string(channel) + ": length, size or kind of burst");
    if ((address ^ (address + LINE_BYTES - 1)) >> 12) complain(std::string(channel) + ": a burst across 4 KiB");
    address -= MEMORY_BASE;
    if (address % LINE_BYTES || address >= hbm_bytes) { complain(std::string(channel) + ": address"); return 0; }
    return address;
  }

  void sample(Read& read) { memcpy(read.line, hbm + read.address, LINE_BYTES); }

  // What memory drives in this cycle.
  void drive() {
    m.m_axi_arready = may(); m.m_axi_awready = may(); m.m_axi_wready = may();
    if (!m.m_axi_rvalid && !reads.empty() && reads[0].due <= now && may()) {
      Read& read = reads[0];
      if (read.beat == 0 && !read.early) sample(read);
      memcpy(bytes(m.m_axi_rdata), read.line + read.beat * DATA_BYTES, DATA_BYTES);
      m.m_axi_rlast = read.beat == BEATS - 1;
      m.m_axi_rresp = read.address / LINE_BYTES == bad ? 2 : 0;
      m.m_axi_rvalid = 1;
    }
    if (!m.m_axi_bvalid && !writes.empty() && writes[0].due <= now && may()) {
      const Write& write = writes[0];
      for (int i = 0; i < LINE_BYTES; i++) if (write.enabled[i]) hbm[write.address + i] = write.line[i];
      m.m_axi_bresp = write.address / LINE_BYTES == bad ? 3 : 0;
      m.m_axi_bvalid = 1;
      writes.pop_front();
    }
  }

  // What has been handed over in this cycle.
  void settle() {
    stable(0, "AR", m.m_axi_arvalid, m.m_axi_arready, m.m_axi_araddr);
    stable(1, "AW", m.m_axi_awvalid, m.m_axi_awready, m.m_axi_awaddr);
    stable(2, "W", m.m_axi_wvalid, m.m_axi_wready, m.m_axi_wdata, m.m_axi_wstrb, m.m_axi_wlast);
    stable(3, "R", m.s_axil_rvalid, m.s_axil_rready, m.s_axil_rdata, m.s_axil_rresp);
    stable(4, "B", m.s_axil_bvalid, m.s_axil_bready, m.s_axil_bresp);
    if (m.m_axi_arvalid && m.m_axi_arready) {
      Read read{checked(m.m_axi_araddr, m.m_axi_arlen, m.m_axi_arsize, m.m_axi_arburst, "AR"), later(), 0, bool(random() & 1), {}};
      sample(read);
      reads.push_back(read);
    }
    if (m.m_axi_awvalid && m.m_axi_awready)
      addresses.push_back(checked(m.m_axi_awaddr, m.m_axi_awlen, m.m_axi_awsize, m.m_axi_awburst, "AW"));
    if (m.m_axi_wvalid && m.m_axi_wready && collected < BEATS) {
      memcpy(collecting.line + collected * DATA_BYTES, bytes(m.m_axi_wdata), DATA_BYTES);
      for (int i = 0; i < DATA_BYTES; i++) collecting.enabled[collected * DATA_BYTES + i] = bytes(m.m_axi_wstrb)[i / 8] >> (i % 8) & 1;
      if (bool(m.m_axi_wlast) != (++collected == BEATS)) complain("WLAST");
    }
    if (collected == BEATS && !addresses.empty()) {
      collecting.address = addresses.front();
      collecting.due = later();
      addresses.pop_front();
      writes.push_back(collecting);
      collected = 0;
    }
    if (m.m_axi_rvalid && m.m_axi_rready && ++reads[0].beat == BEATS) reads.pop_front();
  }

  // A cycle up to the point where all outputs are settled, and the rest of it.
  void begin() {
    drive();
    m.clk = 0;
    m.eval();
  }

  void end() {
    settle();
    const bool read = m.m_axi_rvalid && m.m_axi_rready, write = m.m_axi_bvalid && m.m_axi_bready;
    m.clk = 1;
    m.eval();
    if (read) m.m_axi_rvalid = 0;
    if (write) m.m_axi_bvalid = 0;
    now++;
  }

  void reset(int cycles) {
    m.memory_base = MEMORY_BASE;
    m.rst = 1;
    for (int i = 0; i < cycles; i++) { m.clk = 0; m.eval(); m.clk = 1; m.eval(); }
    m.rst = 0;
  }

  // A write by the host, address and data in any order: the response.
  int write(uint32_t address, uint32_t value, int strobes) {
    bool sent_address = false, sent_data = false;
    m.s_axil_awaddr = address; m.s_axil_wdata = value; m.s_axil_wstrb = strobes;
    for (;;) {
      m.s_axil_awvalid = !sent_address && (m.s_axil_awvalid || may());
      m.s_axil_wvalid = !sent_data && (m.s_axil_wvalid || may());
      m.s_axil_bready = may();
      begin();
      sent_address |= m.s_axil_awvalid && m.s_axil_awready;
      sent_data |= m.s_axil_wvalid && m.s_axil_wready;
      const bool done = m.s_axil_bvalid && m.s_axil_bready;
      const int response = m.s_axil_bresp;
      end();
      if (done) { m.s_axil_bready = 0; return response; }
    }
  }

  uint32_t read(uint32_t address) {
    bool sent = false;
    m.s_axil_araddr = address;
    for (;;) {
      m.s_axil_arvalid = !sent && (m.s_axil_arvalid || may());
      m.s_axil_rready = may();
      begin();
      sent |= m.s_axil_arvalid && m.s_axil_arready;
      const bool done = m.s_axil_rvalid && m.s_axil_rready;
      const uint32_t value = m.s_axil_rdata;
      if (done && m.s_axil_rresp) complain("RRESP of a register");
      end();
      if (done) { m.s_axil_rready = 0; return value; }
    }
  }
};

Sim& sim(void* handle) { return *static_cast<Sim*>(handle); }

}  // namespace

EXPORT void* chip_new(uint8_t* hbm, uint64_t hbm_bytes) { Sim* s = new Sim(hbm, hbm_bytes); s->reset(1); return s; }
EXPORT void chip_free(void* handle) { delete static_cast<Sim*>(handle); }
EXPORT void chip_write(void* handle, uint32_t address, uint32_t value) { sim(handle).write(address, value, 15); }
EXPORT uint32_t chip_read(void* handle, uint32_t address) { return sim(handle).read(address); }

EXPORT int chip_run(void* handle, uint64_t cycles) {
  Sim& s = sim(handle);
  for (; cycles && s.m.busy; cycles--) { s.begin(); s.end(); }
  return !s.m.busy;
}

EXPORT void chip_window(void* handle, uint32_t address, uint32_t select, uint32_t count, uint32_t* out) {
  Sim& s = sim(handle);
  for (uint32_t i = 0; i < count; i++) {
    s.write(address, select + i, 15);
    while (s.read(STATUS) & FETCHING) {}
    for (int k = 0; k < LINE_BYTES / 4; k++) *out++ = s.read(WINDOW_DATA + 4 * k);
  }
}

EXPORT int axi_write(void* handle, uint32_t address, uint32_t value, int strobes) { return sim(handle).write(address, value, strobes); }
EXPORT void axi_memory(void* handle, uint32_t seed, int slowness, int latency, uint64_t bad) {
  Sim& s = sim(handle);
  s.random.seed(seed); s.slowness = slowness; s.latency = latency; s.bad = bad;
}
EXPORT void chip_reset(void* handle) {
  Sim& s = sim(handle);
  s.reads.clear(); s.addresses.clear(); s.writes.clear(); s.collected = 0;
  for (auto& payload : s.held) payload.clear();
  s.m.m_axi_rvalid = s.m.m_axi_bvalid = 0;
  s.reset(1);
}
EXPORT uint64_t axi_now(void* handle) { return sim(handle).now; }
EXPORT const char* axi_violation(void* handle) { return sim(handle).violation.c_str(); }
