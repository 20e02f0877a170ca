// What an instruction costs the unit that executes it.
#pragma once
#include "isa/card.h"
#include "isa/facts.h"
#include "program/program.h"

struct Cost {
  u8 unit;
  u32 cycles;  // of that unit; those of memory and LDS depend on addresses: 0 here
};
Cost instruction_cost(const Inst& in, u32 arch);  // arch: index into ARCHS

constexpr u32 ISSUE_CYCLES = 4;  // of a wave: one instruction in so many

// What a launch executed: wave instructions by unit; cycles of their units if the lanes' addresses lay side by side; and
// what its products and sums can have been at most, all lanes active.
struct Executed {
  u64 by_unit[N_UNITS], cycles, flops;
};
extern "C" void cdna_executed(const Program*, const char* card, const u64* executed, Executed* out);
