// The order in which workgroups start and waves run: the card's, or one drawn by a seed.
//
// The card starts workgroups by their linear id, and so does a launch without a seed; its waves take turns. A seed
// draws which workgroup starts, which of those that live runs, in which order its waves do and for how long. What the
// card does not promise can then come out otherwise; what it promises cannot.
#pragma once
#include "isa/core.h"

constexpr u32 MAX_WAVES = 16;        // of a workgroup
constexpr u32 SHUFFLED_GROUPS = 64;  // live ones of a thread from which on it seldom starts another: those may all wait

struct Order {
  u64 seed, state;  // of the launch; of the host thread. 0: the card's order
};

static inline u64 drawn(Order& o) { return mixed(o.state += 0x9e3779b97f4a7c15ull); }

// Every launch of a process has an order of its own.
static inline u64 order_of_launch(u64 seed) {
  static u64 launches = 0;
  return seed ? mixed(seed ^ mixed(__atomic_fetch_add(&launches, 1, __ATOMIC_RELAXED))) | 1 : 0;
}
static inline Order order_begin(u64 seed, u32 thread) { return {seed, seed ? mixed(seed + thread) : 0}; }

// Whether to start a workgroup. passed: all that live have had their turn.
static inline bool order_starts(Order& o, u32 n_live, bool passed, bool all_wait) {
  if (!o.seed) return passed;
  return all_wait || drawn(o) % (n_live < SHUFFLED_GROUPS ? 2 : 16) == 0;
}
// The workgroup to start as the at-th: a permutation by Feistel rounds on the smallest even number of bits, walked on
// until it falls within the grid.
static inline u32 order_group(const Order& o, u32 at, u32 total) {
  if (!o.seed || total < 2) return at;
  u32 half = (33 - __builtin_clz(total - 1)) / 2, mask = (1u << half) - 1;
  u64 x = at;
  do {
    u32 left = x >> half & mask, right = x & mask;
    for (u32 round = 0; round < 4; round++) {
      u32 next = left ^ (mixed(o.seed + (u64)round * 0x10001 + ((u64)right << 20)) & mask);
      left = right;
      right = next;
    }
    x = (u64)left << half | right;
  } while (x >= total);
  return (u32)x;
}
static inline u32 order_turn(Order& o, u32 turn, u32 n_live) {
  return o.seed ? drawn(o) % n_live : turn < n_live ? turn : 0;
}
static inline void order_waves(Order& o, u8* waves, u32 n) {
  for (u32 i = 0; i < n; i++) waves[i] = i;
  for (u32 i = n; o.seed && i > 1; i--) {
    u32 k = drawn(o) % i;
    u8 moved = waves[i - 1];
    waves[i - 1] = waves[k];
    waves[k] = moved;
  }
}
// Whether a workgroup's turn ends behind a round of its waves.
static inline bool order_leaves(Order& o) { return o.seed && drawn(o) % 2; }
// Instructions until another wave's turn: mostly few, so that waves meet anywhere.
static inline u32 order_quantum(Order& o, u32 usual) { return o.seed ? 1u << drawn(o) % 14 : usual; }
