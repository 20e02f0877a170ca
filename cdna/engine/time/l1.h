// The vector L1 that the counters see.
#pragma once
#include "caches.h"

// A workgroup's part of the CU's vector L1, no allocation by stores: those that share the CU have as much each.
struct L1 {
  static constexpr u32 SETS = CARDS[0].l1_sets, WAYS = CARDS[0].l1_bytes / SETS / LINE_BYTES;
  u64 tags[SETS][WAYS];
  u32 used[SETS][WAYS];
  u32 clock;
  bool load(u64 line, u32 ways) {
    u64* t = tags[line % SETS];
    u32* u = used[line % SETS];
    u32 found = ways, oldest = 0;
    for (u32 k = 0; k < ways; k++) found = t[k] == line + 1 ? k : found;
    clock++;
    if (found < ways) {
      u[found] = clock;
      return true;
    }
    for (u32 k = 1; k < ways; k++) oldest = u[k] < u[oldest] ? k : oldest;
    t[oldest] = line + 1;
    u[oldest] = clock;
    return false;
  }
};
