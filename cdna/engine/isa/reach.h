// Whether a wave's addresses are the card's memory, where the host's lies beside it and no check of bounds looks: see
// checks/host_reach.cpp.
#pragma once
#include "core.h"

struct Span {
  u64 base, bytes;
};
struct Reach {
  Span* known;  // per instruction: memory of the card's where it was last
  // Of addresses elsewhere. False: the wave is faulted.
  bool (*look)(Reach&, Wave&, const u64* address, u64 lanes);
};

static inline u64 lanes_within(const u64* address, Span s) {
  typedef u64 u64x8 __attribute__((ext_vector_type(8)));
  typedef bool bool8 __attribute__((ext_vector_type(8)));
  u64 mask = 0;
  for (int q = 0; q < WAVE; q += 8) {
    u64x8 v;
    memcpy(&v, address + q, sizeof v);
    mask |= (u64) __builtin_bit_cast(u8, __builtin_convertvector(v - s.base < s.bytes, bool8)) << q;
  }
  return mask;
}

static inline bool reaches(Wave& w, u64 lanes) {
  Reach* r = w.reach;
  if (!r) return true;
  const u64 beyond = lanes & ~lanes_within(w.address, r->known[w.pc - 1]);
  return !beyond || r->look(*r, w, w.address, beyond);
}
static inline bool reaches_one(Wave& w, u64 address) {
  Reach* r = w.reach;
  return !r || address - r->known[w.pc - 1].base < r->known[w.pc - 1].bytes || r->look(*r, w, &address, 1);
}
