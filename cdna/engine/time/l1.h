// The vector L1 that the counters see: first a workgroup's part of it, then what workgroups of a CU find of each other's.
#pragma once
#include "caches.h"

// A workgroup's part of the CU's vector L1, no allocation by stores: those that share the CU have as much each.
struct L1 {
  static constexpr u32 SETS = CARDS[0].l1_sets, WAYS = CARDS[0].l1_bytes / SETS / LINE_BYTES;
  u64 tags[SETS][WAYS];
  u32 used[SETS][WAYS];
  u32 clock;
  static u32 part_of(u32 groups) { return groups < WAYS ? WAYS / groups : 1; }  // in ways
  bool load(u64 line, u32 ways, u32* way = nullptr) {
    u64* t = tags[line % SETS];
    u32* u = used[line % SETS];
    u32 found = ways, oldest = 0;
    for (u32 k = 0; k < ways; k++) found = t[k] == line + 1 ? k : found;
    clock++;
    if (found < ways) {
      u[found] = clock;
      if (way) *way = line % SETS * WAYS + found;
      return true;
    }
    u32 least = u[0];  // in two loops, each of which a compiler makes vectors of
    for (u32 k = 1; k < ways; k++) least = u[k] < least ? u[k] : least;
    for (u32 k = 0; k < ways; k++) oldest = u[k] == least ? k : oldest;
    t[oldest] = line + 1;
    u[oldest] = clock;
    if (way) *way = line % SETS * WAYS + oldest;
    return false;
  }
};

// All of a CU's L1, for lines that a workgroup's own part has not got.
struct SharedL1 {
  L1 l1;
  u32 filled[L1::SETS * L1::WAYS];  // the turn in which the line was asked for
  Level from[L1::SETS * L1::WAYS];
};
