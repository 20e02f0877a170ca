// Global, flat and scratch memory: loads, stores, atomics.
#include "core.h"

// Address of a lane: 64-bit vector address, or scalar base + 32-bit vector offset.
static inline u64 address(Wave& w, const Inst& in, const Operand& vaddr, const Operand& saddr, int lane) {
  const u32* v = w.vreg(vaddr.reg);
  u64 base = saddr.kind == NONE ? pair(v, lane) : w.s64(saddr.reg) + (vaddr.kind == NONE ? 0 : v[lane]);
  return base + (i64)in.offset;
}

template <int DWORDS> static void load(Wave& w, const Inst& in) {
  u32* d = w.vreg(in.dst[0].reg);
  u32 x[DWORDS];
  EACH_LANE(w, i) {
    memcpy(x, (const void*)address(w, in, in.src[0], in.src[1], i), sizeof x);
    for (int k = 0; k < DWORDS; k++) d[k * WAVE + i] = x[k];
  }
}
template <int DWORDS> static void store(Wave& w, const Inst& in) {
  const u32* s = w.vreg(in.src[1].reg);
  u32 x[DWORDS];
  EACH_LANE(w, i) {
    for (int k = 0; k < DWORDS; k++) x[k] = s[k * WAVE + i];
    memcpy((void*)address(w, in, in.src[0], in.src[2], i), x, sizeof x);
  }
}

static const OpInfo OPS[] = {
  {"global_load_dword", "D:b32 A G", load<1>},
  {"global_store_dword", "A S:b32 G", store<1>},
};
extern const OpTable GLOBAL_OPS = {OPS, sizeof OPS / sizeof *OPS};
