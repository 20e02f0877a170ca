// The way of vector memory instructions out of a CU: the L1's queue, its cycles, the lines in flight beyond it, and the
// CU's share of what all CUs ask of the L2, the fabric, HBM and the links to peers.
#pragma once
#include "replay.h"

struct MemoryPath {
  static constexpr u32 QUEUE = 64, FLIGHTS = 512;
  double l1_free, beyond_free, last_done;
  double links_in_free, links_out_free;
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

  // When an instruction's data are there, or its stores acknowledged.
  double take(const Machine& m, double now, u32 cycles, const Asked& asked, bool tail, double link_shares) {
    const u32 reads = asked.lines, writes = asked.halves, level = asked.level;
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
    if (writes || level > IN_L1) {  // also lines that are not among `reads`: another workgroup has just asked for them
      double begin = start > beyond_free ? start : beyond_free;
      beyond_free = begin + reads * m.read_line[tail] + writes * m.write_half[tail];
      double there = (beyond_free > l1_free ? beyond_free : l1_free) + (writes ? m.store_latency : 0);
      if (level && there < begin + m.latency[level]) there = begin + m.latency[level];
      if (level && beyond_free + m.latency[level] > there) there = beyond_free + m.latency[level];
      if (there > done) done = there;
    }
    const double in = asked.link_reads * m.link_read[tail], out = asked.link_writes * m.link_write[tail];
    if (asked.link_reads) cross(start, links_in_free, in / link_shares, m.latency[IN_PEER], done);
    if (asked.link_writes) cross(start, links_out_free, out / link_shares, m.latency[IN_PEER], done);
    if (writes && !reads) return done;
    if (done < last_done) done = last_done;  // data return in the order of the requests
    last_done = done;
    if (reads) {
      flights[flight_end++ % FLIGHTS] = {done, reads};
      lines_in_flight += reads;
    }
    return done;
  }

  // The links in one direction, which are `free` again after `cycles`.
  static void cross(double start, double& free, double cycles, double latency, double& done) {
    free = (start > free ? start : free) + cycles;
    if (free + latency > done) done = free + latency;
  }
};
