#pragma once
#include "isa/card.h"

// LDS cycles of one element a lane at byte offsets `address`, and how many of them bank conflicts cost.
struct LdsCycles {
  u32 cycles, conflicts;
};
LdsCycles lds_cycles(const u64* address, u64 lanes, u32 bytes, bool writes, bool atomic, const Card& card);
