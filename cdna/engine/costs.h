// What an instruction costs the unit that executes it.
#pragma once
#include "card.h"
#include "core.h"

// In the order of counters.py's UNITS.
enum Unit : u32 {
  SCALAR_UNIT,
  VECTOR_UNIT,
  MATRIX_UNIT,
  MEMORY_UNIT,
  LDS_UNIT,
  SCALAR_MEMORY_UNIT,
  BRANCH_UNIT,
  WAITS,
  BARRIERS,
  IDLE,
  END_OF_WAVE
};

struct Cost {
  u32 unit;
  u32 cycles;  // of that unit; those of memory and LDS depend on addresses: 0 here
};
Cost instruction_cost(const OpInfo& op, const Inst& in, const Card& card);

// LDS cycles of one element a lane at byte offsets `address`, and how many of them bank conflicts cost.
struct LdsCycles {
  u32 cycles, conflicts;
};
LdsCycles lds_cycles(const u64* address, u64 lanes, u32 bytes, bool writes, bool atomic, const Card& card);
