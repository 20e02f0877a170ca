// What the replay (replay.h) has to know of each instruction of a program: issue, result latency, registers.
#pragma once
#include "isa/facts.h"
#include "program/program.h"

struct Registers {
  u16 first, count;  // count 0: none
};
struct Timing {
  u8 unit, issue;       // issue: cycles until the wave's next instruction
  u16 cycles, latency;  // of its unit; until another instruction may read the result
  u16 accumulates;      // latency where the reader adds to the result: source C of a matrix instruction
  bool eight_bits;      // a matrix instruction with an operand of 8 bits
  bool non_temporal;    // a load that says so
  Registers reads[4], writes[2], source_c;
};
Timing timing_of(const Inst&, u32 arch);
