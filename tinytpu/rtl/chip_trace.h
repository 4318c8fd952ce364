// What the harness of a traced chip records: an event for each group, and cycles by cause. Fields and causes are numbered as in
// isa/stalls.py, which machine/rtl.py defines before this text: FIELD_<field>, FIELDS, CAUSE_<cause>, CAUSES, FIRST_DRAIN, FIRST_WAIT,
// GROUP_EVENT, FAULT_EVENT.
#pragma once
#include "Vchip.h"
#include <cstdint>
#include <cstring>
#include <deque>

struct Trace {
  int64_t* events = nullptr;   // of Python: capacity rows of FIELDS
  int64_t* tally = nullptr;    // of Python: cycles by cause, then the number of events, those without room included; null: off
  int64_t capacity = 0;
  int64_t spare[FIELDS];       // the row of those
  int64_t now, fetched, waited;
  uint64_t held_up;            // waits of the last cycle in which the group waited
  int64_t *vmem, *direct, *direct_before;  // rows of the last groups with such accesses; `before`: as of the cycle before
  std::deque<int64_t*> in, out;            // rows of the transfers that are unfinished

  void begin() {
    now = fetched = waited = 0;
    vmem = direct = direct_before = spare;
    in.clear();
    out.clear();
  }

  // The first of the causes from number `first` on whose bit is set.
  static int64_t cause(int64_t first, uint64_t bits) {
    for (; !(bits & 1); bits >>= 1) first++;
    return first;
  }

  int64_t* event(int64_t kind, int64_t pc, int64_t slots) {
    const int64_t number = tally[CAUSES]++;
    int64_t* row = number < capacity ? events + number * FIELDS : spare;
    memset(row, 0, sizeof spare);
    row[FIELD_kind] = kind;
    row[FIELD_cycle] = now;
    row[FIELD_pc] = pc;
    row[FIELD_slots] = slots;
    row[FIELD_fetch] = fetched;
    row[FIELD_wait] = waited;
    tally[CAUSE_fetch] += fetched;
    if (waited) {
      row[FIELD_cause] = cause(FIRST_WAIT, held_up);
      tally[row[FIELD_cause]] += waited;
    }
    fetched = waited = 0;
    return row;
  }

  // An end or a line that belongs to no transfer goes nowhere: hardware that is wrong shows in the trace, and must not end the process.
  void transfers(std::deque<int64_t*>& queue, bool done, bool line) {
    if (done && !queue.empty()) {
      queue.front()[FIELD_end] = now;
      queue.pop_front();
    }
    if (line && !queue.empty()) queue.front()[FIELD_lines]++;
  }

  // A cycle, before its clock edge.
  void cycle(const Vchip& m) {
#define T(name) m.trace___05F##name
    if (!tally || !(T(running) || T(draining))) return;
    if (T(first)) begin();
    vmem[FIELD_vmem] += T(vmem_cycles);
    direct_before[FIELD_lines] += T(hbm_line);
    direct_before = direct;
    transfers(in, T(dma_in_done), T(dma_in_line));
    transfers(out, T(dma_out_done), T(dma_out_line));
    if (T(first)) {
      tally[CAUSE_launch]++;
    } else if (T(fault)) {
      event(FAULT_EVENT, T(pc), 0);
      tally[CAUSE_fault]++;
    } else if (T(issue)) {
      int64_t* row = event(GROUP_EVENT, T(pc), T(slots));
      if (T(vmem)) vmem = row;
      if (T(hbm)) direct = row;
      if (T(dma_in)) in.push_back(row);
      if (T(dma_out)) out.push_back(row);
      tally[CAUSE_issue]++;
    } else if (T(running) && T(present)) {
      waited++;
      held_up = T(waits);
    } else if (T(running)) {
      fetched++;
    } else if (T(drains)) {
      tally[cause(FIRST_DRAIN, T(drains))]++;
    }
    now++;
#undef T
  }
};
