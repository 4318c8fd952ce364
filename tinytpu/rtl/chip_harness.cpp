// Owns the Verilated chip: its clocks, its HBM and the host's bus. The run loop is native; Python calls it per launch.
//
// Defined before this text (machine/rtl.py): HBM_LATENCY (cycles), LINE_BYTES, and GATED(X), which expands to X(domain) for
// every clock domain that rests while its enable output is low; for a build that writes waveforms HALF_CYCLE (picoseconds) WAVEFORM_FILE
// and WAVEFORM_HEADER, Verilator's class for their format and where it is declared. For a traced chip chip_trace.h comes before, with TRACED.
#include "Vchip.h"
#ifdef HALF_CYCLE
#include WAVEFORM_HEADER
#endif
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace {

// Writes all signals to a file, twice a cycle, while it is on. Of a build without waveforms nothing is left.
struct Waveform {
#ifdef HALF_CYCLE
  WAVEFORM_FILE file;
  uint64_t time = 0;
  bool on = false;
  void dump() {
    if (!on) return;
    file.dump(time);
    time += HALF_CYCLE;
  }
#else
  void dump() {}
#endif
};

#ifndef TRACED
struct Trace {
  template <class Chip> void cycle(const Chip&) {}
};
#endif

// One HBM port: requests of the last HBM_LATENCY cycles, in a ring indexed by cycle.
struct Delay {
  bool valid[HBM_LATENCY] = {};
  alignas(64) uint8_t line[HBM_LATENCY][LINE_BYTES] = {};
};

// Without Verilator's thread pool: one thread does the work, and a pool would not survive a fork.
struct Context : VerilatedContext {
  Context() { threads(1); }
};

struct Sim {
  Context context;
  Vchip m;
  uint8_t* hbm;
  uint64_t hbm_bytes;
  uint32_t now = 0;  // cycle modulo HBM_LATENCY
  Delay fetch, vector, dma_in, dma_out;
  Waveform waveform;
  Trace trace;

  Sim(uint8_t* memory, uint64_t bytes) : context(), m(&context), hbm(memory), hbm_bytes(bytes) {
#ifdef HALF_CYCLE
    context.traceEverOn(true);
#endif
  }

  template <class Port> void answer(Delay& delay, Port& rdata) {
    if (delay.valid[now]) memcpy(rdata.data(), delay.line[now], LINE_BYTES);
  }

  void read(Delay& delay, bool valid, uint32_t line) {
    delay.valid[now] = valid;
    if (!valid) return;
    const uint64_t address = uint64_t(line) * LINE_BYTES;
    if (address < hbm_bytes) memcpy(delay.line[now], hbm + address, LINE_BYTES);
    else memset(delay.line[now], 0, LINE_BYTES);
  }

  // The byte mask is a VlWide or an integer, whichever its width asks for.
  template <class Mask> static bool enabled(const Mask& mask, int byte) {
    if constexpr (sizeof(Mask) > 8) return mask.data()[byte / 32] >> (byte % 32) & 1;
    else return mask >> byte & 1;
  }

  template <class Tile, class Mask> void write(bool valid, uint32_t line, const Tile& data, const Mask& mask) {
    const uint64_t address = uint64_t(line) * LINE_BYTES;
    if (!valid || address >= hbm_bytes) return;
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(data.data());
    for (int i = 0; i < LINE_BYTES; i++)
      if (enabled(mask, i)) hbm[address + i] = bytes[i];
  }

  void cycle() {
#define ANSWER(port) answer(port, m.port##___05Frdata);
    ANSWER(fetch) ANSWER(vector) ANSWER(dma_in) ANSWER(dma_out)
    m.clk = 0;
#define LOW(domain) m.domain##_clk = 0;
    GATED(LOW)
    m.eval();
    waveform.dump();
    trace.cycle(m);
    // Reads see memory as it was before this cycle's writes.
#define READ(port) read(port, m.port##___05Fvalid && !m.port##___05Fwrite, m.port##___05Fline);
    READ(fetch) READ(vector) READ(dma_in) READ(dma_out)
#define WRITE(port) write(m.port##___05Fvalid && m.port##___05Fwrite, m.port##___05Fline, m.port##___05Fdata, m.port##___05Fbytemask);
    WRITE(vector) WRITE(dma_out)
    now = now + 1 == HBM_LATENCY ? 0 : now + 1;
    m.clk = 1;
#define HIGH(domain) m.domain##_clk = m.domain##_enable;
    GATED(HIGH)
    m.eval();
    waveform.dump();
  }

  // Forgets what is under way: its stores are dropped, its loads are not answered.
  void reset() {
    fetch = vector = dma_in = dma_out = Delay();
    m.csr___05Fwrite = 0;
    m.rst = 1;
#define RESET_ON(domain) m.domain##_rst = 1;
    GATED(RESET_ON)
    for (int i = 0; i < HBM_LATENCY + 2; i++) {  // as long as the chip waits for answers
      m.clk = 0;
#define RESET_LOW(domain) m.domain##_clk = 0;
      GATED(RESET_LOW)
      m.eval();
      m.clk = 1;
#define RESET_HIGH(domain) m.domain##_clk = 1;
      GATED(RESET_HIGH)
      m.eval();
    }
    m.rst = 0;
#define RESET_OFF(domain) m.domain##_rst = 0;
    GATED(RESET_OFF)
  }
};

}  // namespace

EXPORT void* chip_new(uint8_t* hbm, uint64_t hbm_bytes) {
  Sim* sim = new Sim(hbm, hbm_bytes);
  sim->reset();
  return sim;
}

EXPORT void chip_reset(void* handle) { static_cast<Sim*>(handle)->reset(); }

EXPORT void chip_free(void* handle) { delete static_cast<Sim*>(handle); }

// Begin a waveform's file, off at first; 1 if it is open. 0 of a build without waveforms.
EXPORT int chip_waveform(void* handle, const char* path) {
#ifdef HALF_CYCLE
  Sim& sim = *static_cast<Sim*>(handle);
  sim.m.trace(&sim.waveform.file, 99);
  sim.waveform.file.open(path);
  return sim.waveform.file.isOpen();
#else
  return 0;
#endif
}

// Whether the cycles that follow go to the file; what it has is on disk when it goes off.
EXPORT void chip_waveform_on(void* handle, int on) {
#ifdef HALF_CYCLE
  Waveform& waveform = static_cast<Sim*>(handle)->waveform;
  waveform.on = on;
  if (!on) waveform.file.flush();
#endif
}

// Where the events and the tally of the next launch go (chip_trace.h), a tally of null: nowhere. 0 of a build that does not trace.
EXPORT int chip_trace(void* handle, int64_t* events, int64_t capacity, int64_t* tally) {
#ifdef TRACED
  Trace& trace = static_cast<Sim*>(handle)->trace;
  trace.events = events;
  trace.capacity = capacity;
  trace.tally = tally;
  return 1;
#else
  return 0;
#endif
}

EXPORT void chip_write(void* handle, uint32_t address, uint32_t value) {
  Sim& sim = *static_cast<Sim*>(handle);
  sim.m.csr___05Faddress = address;
  sim.m.csr___05Fwdata = value;
  sim.m.csr___05Fwrite = 1;
  sim.cycle();
  sim.m.csr___05Fwrite = 0;
}

EXPORT uint32_t chip_read(void* handle, uint32_t address) {
  Sim& sim = *static_cast<Sim*>(handle);
  sim.m.csr___05Faddress = address;
  sim.cycle();
  return sim.m.csr___05Frdata;
}

// Clock until the launch has ended, at most `cycles` times; 1 if it has.
EXPORT int chip_run(void* handle, uint64_t cycles) {
  Sim& sim = *static_cast<Sim*>(handle);
  for (; cycles && sim.m.busy; cycles--) sim.cycle();
  return !sim.m.busy;
}

// Fetch `count` tiles through the window from `select` on (csr.window_select) into `out`.
EXPORT void chip_window(void* handle, uint32_t address, uint32_t select, uint32_t count, uint8_t* out) {
  Sim& sim = *static_cast<Sim*>(handle);
  for (uint32_t i = 0; i < count; i++) {
    chip_write(handle, address, select + i);
    while (sim.m.window_busy) sim.cycle();
    memcpy(out + uint64_t(i) * sizeof(sim.m.window_tile), sim.m.window_tile.data(), sizeof(sim.m.window_tile));
  }
}
