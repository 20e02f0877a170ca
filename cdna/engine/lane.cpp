// Instructions that move values between lanes, or between lanes and scalar registers.
#include "cores.h"

static void readfirstlane(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  int lane = exec ? __builtin_ctzll(exec) : 0;
  w.s[in.dst[0].reg] = in.src[0].kind == VGPR ? w.vreg(in.src[0].reg)[lane] : scalar32(w, in.src[0]);
}
static void readlane(Wave& w, const Inst& in) { w.s[in.dst[0].reg] = w.vreg(in.src[0].reg)[scalar32(w, in.src[1]) & 63]; }
static void writelane(Wave& w, const Inst& in) {  // ignores exec
  u32 value = scalar32(w, in.src[0]);
  w.vreg(in.dst[0].reg)[scalar32(w, in.src[1]) & 63] = value;
}
static void swap(Wave& w, const Inst& in) {
  u32 *a = w.vreg(in.dst[0].reg), *b = w.vreg(in.dst[1].reg);
  EACH_LANE(w, i) { u32 x = a[i]; a[i] = b[i]; b[i] = x; }
}

// Exchanges the upper ROW lanes of the first register with the lower ROW lanes of the second, in each group of
// 2*ROW lanes (CDNA4 ISA). A lane off in exec supplies its value only with fi; else the receiving lane reads 0
// with bound_ctrl and keeps its value without.
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

static const OpInfo OPS[] = {
  {"v_readfirstlane_b32", "D:b32 S:b32", readfirstlane}, {"v_readlane_b32", "D:b32 S:b32 S:b32", readlane},
  {"v_writelane_b32", "D:b32 S:b32 S:b32", writelane}, {"v_swap_b32", "D:b32 D:b32", swap},
  {"v_permlane16_swap_b32@gfx950", "D:b32 D:b32", permlane_swap<16>}, {"v_permlane32_swap_b32@gfx950", "D:b32 D:b32", permlane_swap<32>},
};
TABLE(LANE_OPS);
