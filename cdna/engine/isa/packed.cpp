// Packed 16-bit arithmetic (VOP3P) and the dot products.
#include "cores.h"
#include "minmax.h"

// clang-format off
CORE_PK_F16(pk_add_f16, a + b) CORE_PK_F16(pk_mul_f16, a * b) CORE_PK_F16(pk_fma_f16, (float)fma_f16(a, b, c))
CORE_LOOP(pk_fmac_f16, u32 a = pa[i]; u32 b = pb[i]; u32 old = d[i];,
          u32 low = bits(fma_f16(lo_f16(a), lo_f16(b), lo_f16(old)));
          d[i] = low | bits(fma_f16(hi_f16(a), hi_f16(b), hi_f16(old))) << 16)
#define CORE_PK_BITS(NAME, EXPR) \
  static inline u32 NAME##_half(u16 a, u16 b, u16 c) { (void)c; return (u16)(EXPR); } \
  CORE_LOOP(NAME, u32 x = pa[i]; u32 y = pb[i]; u32 z = pc[i];, \
    d[i] = NAME##_half((u16)x, (u16)y, (u16)z) | NAME##_half(x >> 16, y >> 16, z >> 16) << 16)
CORE_PK_BITS(pk_min_f16, (min_max<false>(a, b))) CORE_PK_BITS(pk_max_f16, (min_max<true>(a, b)))
CORE_PK_BITS(pk_minimum3_f16, (minimum_maximum3<false>(a, b, c)))
CORE_PK_BITS(pk_maximum3_f16, (minimum_maximum3<true>(a, b, c)))

CORE_PK_U16(pk_add, a + b) CORE_PK_U16(pk_sub, a - b) CORE_PK_U16(pk_mul_lo, a * b)
CORE_PK_U16(pk_mad, a * b + c)
CORE_PK_U16(pk_add_u16_clamp, clamp_u16(a + b)) CORE_PK_U16(pk_sub_u16_clamp, a > b ? a - b : 0)
CORE_PK_U16(pk_mad_u16_clamp, (u64)a * b + c > 0xffff ? 0xffff : a * b + c)
CORE_PK_I16(pk_add_i16_clamp, clamp_i16(a + b)) CORE_PK_I16(pk_sub_i16_clamp, clamp_i16(a - b))
CORE_PK_I16(pk_mad_i16_clamp, clamp_i16((i64)a * b + c))
CORE_PK_U16(pk_lshlrev, b << (a & 15)) CORE_PK_U16(pk_lshrrev, b >> (a & 15))
CORE_PK_I16(pk_ashrrev, b >> (a & 15))
CORE_PK_I16(pk_min_i16, a < b ? a : b) CORE_PK_I16(pk_max_i16, a > b ? a : b)
CORE_PK_U16(pk_min_u16, a < b ? a : b) CORE_PK_U16(pk_max_u16, a > b ? a : b)
    // clang-format on

    // Dot products: exact integers; for the floats each product is added to the f32 sum in the order of the ISA
    // text.
    static inline i64 dot2_i16(u32 a, u32 b) {
  return (i64)lo_i16(a) * lo_i16(b) + (i64)hi_i16(a) * hi_i16(b);
}
static inline u64 dot2_u16(u32 a, u32 b) { return (u64)lo_u16(a) * lo_u16(b) + (u64)hi_u16(a) * hi_u16(b); }
template <int BITS> static inline i64 part(u32 x, int k) { return (i32)(x << (32 - BITS - k)) >> (32 - BITS); }
template <int BITS> static inline i64 dot_signed(u32 a, u32 b) {
  i64 sum = 0;
  for (int k = 0; k < 32; k += BITS) sum += part<BITS>(a, k) * part<BITS>(b, k);
  return sum;
}
template <int BITS> static inline u64 dot_unsigned(u32 a, u32 b) {
  u64 sum = 0;
  u32 mask = (1u << BITS) - 1;
  for (int k = 0; k < 32; k += BITS) sum += (u64)(a >> k & mask) * (b >> k & mask);
  return sum;
}
// clang-format off
CORE(dot2_i32, dot2_i16(a, b) + (i32)c) CORE(dot2_u32, dot2_u16(a, b) + c)
CORE(dot4_i32, dot_signed<8>(a, b) + (i32)c) CORE(dot4_u32, dot_unsigned<8>(a, b) + c)
CORE(dot8_i32, dot_signed<4>(a, b) + (i32)c) CORE(dot8_u32, dot_unsigned<4>(a, b) + c)
CORE(dot2_i32_clamp, clamp_i32(dot2_i16(a, b) + (i32)c)) CORE(dot2_u32_clamp, clamp_u32(dot2_u16(a, b) + c))
CORE(dot4_i32_clamp, clamp_i32(dot_signed<8>(a, b) + (i32)c))
CORE(dot4_u32_clamp, clamp_u32(dot_unsigned<8>(a, b) + c))
CORE(dot8_i32_clamp, clamp_i32(dot_signed<4>(a, b) + (i32)c))
CORE(dot8_u32_clamp, clamp_u32(dot_unsigned<4>(a, b) + c))
CORE(dot2c_i32, dot2_i16(a, b) + (i32)d[i]) CORE(dot4c_i32, dot_signed<8>(a, b) + (i32)d[i])
CORE(dot8c_i32, dot_signed<4>(a, b) + (i32)d[i])

static inline float lo_bf16(u32 x) { return as_f32(x << 16); }
static inline float hi_bf16(u32 x) { return as_f32(x & 0xffff0000u); }
static inline float dot2_f16(u32 a, u32 b, float c) {
  return __builtin_fmaf(hi_f16(a), hi_f16(b), __builtin_fmaf(lo_f16(a), lo_f16(b), c));
}
static inline float dot2_bf16(u32 a, u32 b, float c) {
  return __builtin_fmaf(hi_bf16(a), hi_bf16(b), __builtin_fmaf(lo_bf16(a), lo_bf16(b), c));
}
CORE(dot2_f32_f16, bits(dot2_f16(a, b, as_f32(c)))) CORE(dot2_f32_bf16, bits(dot2_bf16(a, b, as_f32(c))))
CORE(dot2c_f32_f16, bits(dot2_f16(a, b, as_f32(d[i]))))
CORE(dot2c_f32_bf16, bits(dot2_bf16(a, b, as_f32(d[i]))))

// The modifiers of v_dot2_f32_bf16 do not reach its addend (CDNA4 ISA).
static void dot2_bf16_op(Wave& w, const Inst& in) {
  if (__builtin_expect(!((in.neg_lo | in.neg_hi) & 4), 1)) return lane_op(w, in);
  Inst plain = in;
  plain.neg_lo &= 3;
  plain.neg_hi &= 3;
  lane_op(w, plain);
}

static const OpInfo OPS[] = {
  WIDE_LANE("v_pk_add_f16", pk_add_f16), WIDE_LANE("v_pk_mul_f16", pk_mul_f16), WIDE_LANE("v_pk_fma_f16", pk_fma_f16),
  WIDE_LANE("v_pk_fmac_f16", pk_fmac_f16), WIDE_LANE("v_pk_min_f16", pk_min_f16), WIDE_LANE("v_pk_max_f16", pk_max_f16),
  WIDE_LANE("v_pk_minimum3_f16", pk_minimum3_f16), WIDE_LANE("v_pk_maximum3_f16", pk_maximum3_f16),
  LANE("v_pk_add_u16", pk_add), LANE("v_pk_sub_u16", pk_sub), LANE("v_pk_add_i16", pk_add),
  LANE("v_pk_sub_i16", pk_sub), LANE("v_pk_mul_lo_u16", pk_mul_lo), LANE("v_pk_mad_u16", pk_mad),
  LANE("v_pk_mad_i16", pk_mad), LANE("v_pk_lshlrev_b16", pk_lshlrev), LANE("v_pk_lshrrev_b16", pk_lshrrev),
  LANE("v_pk_ashrrev_i16", pk_ashrrev), LANE("v_pk_min_i16", pk_min_i16), LANE("v_pk_max_i16", pk_max_i16),
  LANE("v_pk_min_u16", pk_min_u16), LANE("v_pk_max_u16", pk_max_u16), LANE("v_pk_add_u16 clamp", pk_add_u16_clamp),
  LANE("v_pk_sub_u16 clamp", pk_sub_u16_clamp), LANE("v_pk_add_i16 clamp", pk_add_i16_clamp),
  LANE("v_pk_sub_i16 clamp", pk_sub_i16_clamp), LANE("v_pk_mad_u16 clamp", pk_mad_u16_clamp),
  LANE("v_pk_mad_i16 clamp", pk_mad_i16_clamp), LANE("v_dot2_i32_i16", dot2_i32), LANE("v_dot2_u32_u16", dot2_u32),
  LANE("v_dot4_i32_i8", dot4_i32), LANE("v_dot4_u32_u8", dot4_u32), LANE("v_dot8_i32_i4", dot8_i32),
  LANE("v_dot8_u32_u4", dot8_u32), LANE("v_dot2_i32_i16 clamp", dot2_i32_clamp),
  LANE("v_dot2_u32_u16 clamp", dot2_u32_clamp), LANE("v_dot4_i32_i8 clamp", dot4_i32_clamp),
  LANE("v_dot4_u32_u8 clamp", dot4_u32_clamp), LANE("v_dot8_i32_i4 clamp", dot8_i32_clamp),
  LANE("v_dot8_u32_u4 clamp", dot8_u32_clamp), LANE("v_dot2c_i32_i16", dot2c_i32), LANE("v_dot4c_i32_i8", dot4c_i32),
  LANE("v_dot8c_i32_i4", dot8c_i32), LANE("v_dot2_f32_f16", dot2_f32_f16),
  {"v_dot2_f32_bf16", dot2_bf16_op, dot2_f32_bf16}, LANE("v_dot2c_f32_f16", dot2c_f32_f16),
  LANE("v_dot2c_f32_bf16", dot2c_f32_bf16),
};
// clang-format on
TABLE(PACKED_OPS);
