// Instructions that move values between lanes, between lanes and scalar registers, or to and from a register
// that an index picks.
#include "cores.h"
#include "facts.h"

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

// Between s_set_gpr_idx_on and _off registers are relative to the index in M0[7:0]; M0[15:12] says which: the first three
// sources', the result's.
constexpr u32 INDEX_DST = 8;
static void set_gpr_idx_on(Wave& w, const Inst& in) {
  w.s[M0] = (w.s[M0] & ~0xf0ffu) | (scalar32(w, in.src[0]) & 0xff) | (in.offset & 15) << 12;
}
static void set_gpr_idx_idx(Wave& w, const Inst& in) { w.s[M0] = (w.s[M0] & ~0xffu) | (scalar32(w, in.src[0]) & 0xff); }
static void set_gpr_idx_mode(Wave& w, const Inst& in) { w.s[M0] = (w.s[M0] & ~0xf000u) | (in.offset & 15) << 12; }
static void set_gpr_idx_off(Wave&, const Inst&) {}
void indexed_op(Wave& w, const Inst& in) {
  const u32 index = w.s[M0] & 0xff, mask = w.s[M0] >> 12 & 15;
  Inst moved = in;
  bool within = true;
  auto move = [&](Operand& o, u32 dwords) {
    if (o.kind != VGPR) return;
    o.reg = (u16)(o.reg + index);
    within = within && o.reg + dwords <= w.n_vgpr;
  };
  for (u32 k = 0; k < 3; k++)
    if (mask >> k & 1) move(moved.src[k], in.src_dwords[k]);
  if (mask & INDEX_DST) move(moved.dst[0], in.dst_dwords);
  const OpInfo& op = op_info(in.op);
  if (within) op.fn(w, moved);
  else fault(w, "indexed %s reaches past the last vector register, v%u: the index is %u", op.name, w.n_vgpr - 1, index);
}

// VSKIP leaves out vector instructions, those of memory and the LDS among them, until it is off again.
void skipped(Wave& w, const Inst&) { w.executed[w.pc - 1]--; }
static void setvskip(Wave& w, const Inst& in) {
  const bool skips = scalar32(w, in.src[0]) >> (scalar32(w, in.src[1]) & 31) & 1;
  w.code = skips ? w.skipping : w.issuing;
}

// clang-format off
static const OpInfo OPS[] = {
  {"s_set_gpr_idx_on", set_gpr_idx_on}, {"s_set_gpr_idx_idx", set_gpr_idx_idx}, {"s_set_gpr_idx_off", set_gpr_idx_off},
  {"s_set_gpr_idx_mode", set_gpr_idx_mode}, {"s_setvskip", setvskip}, {"v_readfirstlane_b32", readfirstlane},
  {"v_readlane_b32", readlane}, {"v_writelane_b32", writelane}, {"v_swap_b32", swap},
  {"v_permlane16_swap_b32", permlane_swap<16>}, {"v_permlane32_swap_b32", permlane_swap<32>},
};
// clang-format on
TABLE(LANE_OPS);
