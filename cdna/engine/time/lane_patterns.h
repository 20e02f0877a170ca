// What follows from where lanes lie behind the first of them, kept for accesses seen before: a kernel's loops ask alike.
#pragma once
#include "isa/core.h"

// Of one thread; zeros at first.
template <class Result, u32 BITS> struct LanePatterns {
  // Where an access's result is if it is `known`, and is to be put if not; null where lanes are too far apart to be kept. kind:
  // what else it depends on, the first lane's alignment too. Some lane is on.
  Result* of(const u64* address, u64 lanes, u32 kind, bool& known) {
    const u64 first = address[__builtin_ctzll(lanes)];
    u32 places[WAVE], hash = 0, far = 0;
    LANES {
      const u64 place = lanes >> i & 1 ? address[i] - first : 0;
      places[i] = (u32)place;
      far |= (u32)((place + (1ull << 31)) >> 32);
      hash += places[i] * (2u * i + 1u);
    }
    if (far) return nullptr;
    hash = (hash ^ kind ^ (u32)lanes ^ (u32)(lanes >> 32)) * 2654435761u;  // Knuth's multiplier
    Pattern& p = at[hash >> (32 - BITS)];
    known = p.lanes == lanes && p.kind == kind && !memcmp(p.places, places, sizeof places);
    if (!known) {
      p.lanes = lanes;
      p.kind = kind;
      memcpy(p.places, places, sizeof places);
    }
    return &p.result;
  }

 private:
  struct Pattern {
    u64 lanes;  // 0: none yet
    u32 kind, places[WAVE];
    Result result;
  };
  Pattern at[1 << BITS];
};
