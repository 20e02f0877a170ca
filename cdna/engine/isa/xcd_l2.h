// What the L2 caches of a card's XCDs hold otherwise than memory, of a launch that follows it: see xcd_l2.cpp.
#pragma once
#include "core.h"

// A load that has got less than what is newest.
struct StaleRead {
  bool found, unreleased;  // unreleased: the writer's L2 has it still; else the reader's has kept an older line
  int lane;                // -1: of a scalar load
  u64 address, from;       // from: the load's first one
  u32 writer_xcd, writer_group, writer_pc;
};

struct XcdL2 {
  struct Line* lines;
  u32 xcds;
  u32 kept_from[8], held_from[8];  // per XCD: how often it has dropped what it had read, and written back what it held
  StaleRead stale;                 // of the last load
};
XcdL2* l2_create(u32 xcds);
void l2_destroy(XcdL2*);

// Where a load's lanes find what they get: w.address, or those of older bytes.
const u64* l2_load(Wave& w, const Inst& in, u32 bytes, u64 lanes);
// What a scalar load gets instead of memory's newest dwords.
void l2_scalar_load(Wave& w, u64 address, u32 dwords, u32* data);
// Before a store or an atomic changes memory.
void l2_store(Wave& w, u32 bytes, u64 lanes, bool through);
void l2_atomic(Wave& w, u32 bytes, u64 lanes);
void l2_invalidate(Wave& w);
void l2_write_back(Wave& w);

static inline const u64* loaded_from(Wave& w, const Inst& in, u32 bytes, u64 lanes) {
  return __builtin_expect(!!w.wg->l2, 0) ? l2_load(w, in, bytes, lanes) : w.address;
}
static inline void stores_to(Wave& w, const Inst& in, u32 bytes, u64 lanes) {
  if (__builtin_expect(!!w.wg->l2, 0)) l2_store(w, bytes, lanes, in.flags & SC1);
}
