// The way of vector memory instructions out of a CU: the L1's queue, its cycles, the lines in flight beyond it, and the
// CU's share of what all CUs ask of the L2, the fabric and HBM.
#pragma once
#include "replay.h"

struct MemoryPath {
  static constexpr u32 QUEUE = 64, FLIGHTS = 512;
  double l1_free, beyond_free, last_done;
  double started[QUEUE];  // when the L1 took an instruction
  u32 n_started;
  struct {
    double done;
    u32 lines;
  } flights[FLIGHTS];  // loads beyond the L1, in order
  u32 flight_first, flight_end, lines_in_flight;

  // When the queue has a place for another instruction.
  double accepts(const Machine& m) const {
    return n_started < m.l1_queue ? 0 : started[(n_started - m.l1_queue) % QUEUE];
  }

  // An instruction that asks for `reads` lines, the farthest at `level`, and writes so many halves; when its data are there.
  double take(const Machine& m, double now, u32 cycles, u32 reads, u32 writes, Level level, bool tail) {
    double start = now > l1_free ? now : l1_free;
    while (flight_first != flight_end &&
           (lines_in_flight + reads > m.in_flight_lines || flight_end - flight_first == FLIGHTS ||
            flights[flight_first % FLIGHTS].done <= start)) {
      auto& oldest = flights[flight_first++ % FLIGHTS];
      lines_in_flight -= oldest.lines;
      if (oldest.done > start) start = oldest.done;
    }
    l1_free = start + cycles;
    started[n_started++ % QUEUE] = start;
    double done = start + cycles + m.latency[IN_L1];
    if (reads || writes) {
      double begin = start > beyond_free ? start : beyond_free;
      beyond_free = begin + reads * m.read_line[tail] + writes * m.write_half[tail];
      double there = (beyond_free > l1_free ? beyond_free : l1_free) + (writes ? m.store_latency : 0);
      if (reads && there < begin + m.latency[level]) there = begin + m.latency[level];
      if (reads && beyond_free + m.latency[level] > there) there = beyond_free + m.latency[level];
      if (there > done) done = there;
    }
    if (writes && !reads) return done;
    if (done < last_done) done = last_done;  // data return in the order of the requests
    last_done = done;
    if (reads) {
      flights[flight_end++ % FLIGHTS] = {done, reads};
      lines_in_flight += reads;
    }
    return done;
  }
};
