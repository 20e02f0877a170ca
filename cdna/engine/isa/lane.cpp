// Instructions that move values between lanes, between lanes and scalar registers, or to and from a register
// that an index picks.
#include "cores.h"

static void readfirstlane(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  int lane = exec ? __builtin_ctzll(exec) : 0;
  w.s[in.dst[0].reg] = in.src[0].kind == VGPR ? w.vreg(in.src[0].reg)[lane] : scalar32(w, in.src[0]);
}
static void readlane(Wave& w, const Inst& in) {
  w.s[in.dst[0].reg] = w.vreg(in.src[0].reg)[scalar32(w, in.src[1]) & 63];
}
static void writelane(Wave& w, const Inst& in) {  // ignores exec
  u32 value = scalar32(w, in.src[0]);
  w.vreg(in.dst[0].reg)[scalar32(w, in.src[1]) & 63] = value;
}
static void swap(Wave& w, const Inst& in) {
  u32 *a = w.vreg(in.dst[0].reg), *b = w.vreg(in.dst[1].reg);
  EACH_LANE(w, i) {
    u32 x = a[i];
    a[i] = b[i];
    b[i] = x;
  }
}

// Exchanges the upper ROW lanes of the first register with the lower ROW lanes of the second, in each group
// of 2*ROW lanes (CDNA4 ISA). A lane off in exec supplies its value only with fi; else the receiving lane
// reads 0 with bound_ctrl and keeps its value without.
template <int ROW> static void permlane_swap(Wave& w, const Inst& in) {
  u32 *first = w.vreg(in.dst[0].reg), *second = w.vreg(in.dst[1].reg), old_first[WAVE], old_second[WAVE];
  memcpy(old_first, first, sizeof old_first);
  memcpy(old_second, second, sizeof old_second);
  u64 exec = w.exec();
  auto take = [&](u32& to, const u32* from, int lane) {
    if ((exec >> lane & 1) || (in.bound_ctrl & BOUND_FI)) to = from[lane];
    else if (in.bound_ctrl & BOUND_ZERO) to = 0;
  };
  for (int low = 0; low < WAVE; low++) {
    if (low & ROW) continue;
    int high = low + ROW;
    if (exec >> low & 1) take(second[low], old_first, high);
    if (exec >> high & 1) take(first[high], old_second, low);
  }
}

// Between s_set_gpr_idx_on and _off a v_mov's registers are relative to the index in M0[7:0]; M0[15:12] says
// which.
enum IndexedOperand { INDEX_SRC0 = 1, INDEX_DST = 8 };
static void set_gpr_idx_on(Wave& w, const Inst& in) {
  w.s[M0] = (w.s[M0] & ~0xf0ffu) | (scalar32(w, in.src[0]) & 0xff) | (in.offset & 15) << 12;
}
static void set_gpr_idx_idx(Wave& w, const Inst& in) { w.s[M0] = (w.s[M0] & ~0xffu) | (scalar32(w, in.src[0]) & 0xff); }
static void set_gpr_idx_mode(Wave& w, const Inst& in) { w.s[M0] = (w.s[M0] & ~0xf000u) | (in.offset & 15) << 12; }
static void set_gpr_idx_off(Wave&, const Inst&) {}
static void indexed_mov(Wave& w, const Inst& in) {
  u32 index = w.s[M0] & 0xff, mask = w.s[M0] >> 12 & 15;
  Operand from = in.src[0];
  u32 to = in.dst[0].reg + (mask & INDEX_DST ? index : 0);
  if (from.kind == VGPR && (mask & INDEX_SRC0)) from.reg = (u16)(from.reg + index);
  if (to >= w.n_vgpr || (from.kind == VGPR && from.reg >= w.n_vgpr)) {
    fault(w, "indexed v_mov reaches past the last vector register, v%u: the index is %u", w.n_vgpr - 1, index);
    return;
  }
  alignas(64) u32 t[WAVE];
  blend(w.vreg(to), lanes(w, from, t, 1), w.exec());
}

// clang-format off
static const OpInfo OPS[] = {
  {"s_set_gpr_idx_on", "S:b32 I", set_gpr_idx_on}, {"s_set_gpr_idx_idx", "S:b32", set_gpr_idx_idx},
  {"s_set_gpr_idx_off", "", set_gpr_idx_off}, {"s_set_gpr_idx_mode", "I", set_gpr_idx_mode},
  {"v_mov_b32 indexed", "D:b32 S:b32 +", indexed_mov},
  {"v_readfirstlane_b32", "D:b32 S:b32", readfirstlane}, {"v_readlane_b32", "D:b32 S:b32 S:b32", readlane},
  {"v_writelane_b32", "D:b32 S:b32 S:b32", writelane}, {"v_swap_b32", "D:b32 D:b32", swap},
  {"v_permlane16_swap_b32", "D:b32 D:b32", permlane_swap<16>},
  {"v_permlane32_swap_b32", "D:b32 D:b32", permlane_swap<32>},
};
// clang-format on
TABLE(LANE_OPS);
