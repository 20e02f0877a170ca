// Lane-wise 32-bit integer, logic and float arithmetic.
#include "core.h"

#define CORE(NAME, EXPR) static void NAME(u32* d, const u32* pa, const u32* pb, const u32* pc) { \
  LANES { u32 a = pa[i], b = pb[i], c = pc[i]; (void)a; (void)b; (void)c; d[i] = EXPR; } }
#define CORE_F32(NAME, EXPR) static void NAME(u32* d, const u32* pa, const u32* pb, const u32* pc) { \
  LANES { float a = as_f32(pa[i]), b = as_f32(pb[i]), c = as_f32(pc[i]); (void)a; (void)b; (void)c; d[i] = bits((float)(EXPR)); } }

CORE(mov, a)
CORE(add_u32, a + b)
CORE_F32(add_f32, a + b)

static const OpInfo OPS[] = {
  {"v_mov_b32", "D:b32 S:b32", lane_op, mov},
  {"v_add_u32", "D:b32 S:u32 S:u32", lane_op, add_u32},
  {"v_add_f32", "D:f32 S:f32 S:f32", lane_op, add_f32},
};
extern const OpTable VALU32_OPS = {OPS, sizeof OPS / sizeof *OPS};
