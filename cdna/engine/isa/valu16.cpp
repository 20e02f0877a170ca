// Lane-wise 16-bit integer and f16 instructions. Results clear the upper half of their register, but for the
// VOP3 forms that take op_sel (mad, fma, min3, ...), which keep it (CDNA3 ISA, V_MAD_F16).
#include "cores.h"
#include "minmax.h"

// clang-format off
CORE_U16(add, a + b) CORE_U16(sub, a - b) CORE_U16(subrev, b - a) CORE_U16(mul_lo, a * b)
CORE_U16(add_u16_clamp, clamp_u16(a + b)) CORE_U16(sub_u16_clamp, a > b ? a - b : 0)
CORE_U16(subrev_u16_clamp, b > a ? b - a : 0)
CORE_U16_KEEP(add_i16, a + b) CORE_U16_KEEP(sub_i16, a - b) CORE_I16_KEEP(add_i16_clamp, clamp_i16(a + b))
CORE_I16_KEEP(sub_i16_clamp, clamp_i16(a - b))
CORE_U16(mad_legacy, a * b + c) CORE_U16_KEEP(mad, a * b + c)
CORE_U16(mad_legacy_u16_clamp, clamp_u32((u64)a * b + c) > 0xffff ? 0xffff : a * b + c)
CORE_U16_KEEP(mad_u16_clamp, (u64)a * b + c > 0xffff ? 0xffff : a * b + c)
CORE_I16(mad_legacy_i16_clamp, clamp_i16((i64)a * b + c)) CORE_I16_KEEP(mad_i16_clamp, clamp_i16((i64)a * b + c))
CORE_U16(lshlrev, b << (a & 15)) CORE_U16(lshrrev, b >> (a & 15)) CORE_I16(ashrrev, b >> (a & 15))
CORE_I16(min_i16, a < b ? a : b) CORE_I16(max_i16, a > b ? a : b) CORE_U16(min_u16, a < b ? a : b)
CORE_U16(max_u16, a > b ? a : b)
CORE_I16_KEEP(min3_i16, least(least(a, b), c)) CORE_I16_KEEP(max3_i16, most(most(a, b), c))
CORE_I16_KEEP(med3_i16, middle(a, b, c))
CORE_U16_KEEP(min3_u16, least(least(a, b), c)) CORE_U16_KEEP(max3_u16, most(most(a, b), c))
CORE_U16_KEEP(med3_u16, middle(a, b, c))

CORE_F16(add_f16, a + b) CORE_F16(sub_f16, a - b) CORE_F16(subrev_f16, b - a) CORE_F16(mul_f16, a * b)
// v_mad and v_mac round the product before they add.
static inline float rounded(float x) { return (float)(f16)x; }
CORE_F16(mad_legacy_f16, rounded(a * b) + c)
#define LOAD_F16 float a = as_f16(pa[i]); float b = as_f16(pb[i]); float c = as_f16(pc[i]); (void)c;
CORE_LOOP(mad_f16, LOAD_F16, d[i] = KEEP(d[i], bits((f16)(rounded(a * b) + c))))
CORE_LOOP(mac_f16, AB(float, read_f16), d[i] = bits((f16)(rounded(a * b) + (float)as_f16(d[i]))))
CORE_LOOP(fma_f16_keep, LOAD_F16, d[i] = KEEP(d[i], bits(fma_f16(a, b, c))))
CORE_LOOP(fma_legacy_f16, LOAD_F16, d[i] = bits(fma_f16(a, b, c)))
#define CORE_BITS16(NAME, EXPR) \
  CORE_LOOP(NAME, u16 a = (u16)pa[i]; u16 b = (u16)pb[i]; u16 c = (u16)pc[i]; (void)c;, d[i] = (u16)(EXPR))
#define CORE_BITS16_KEEP(NAME, EXPR) \
  CORE_LOOP(NAME, u16 a = (u16)pa[i]; u16 b = (u16)pb[i]; u16 c = (u16)pc[i];, d[i] = KEEP(d[i], EXPR))
CORE_BITS16(min_f16, (min_max<false>(a, b))) CORE_BITS16(max_f16, (min_max<true>(a, b)))
CORE_BITS16_KEEP(min3_f16, (min_max3<false>(a, b, c))) CORE_BITS16_KEEP(max3_f16, (min_max3<true>(a, b, c)))
CORE_BITS16_KEEP(med3_f16, med3(a, b, c))

CORE_F16(trunc_, __builtin_truncf(a)) CORE_F16(ceil_, __builtin_ceilf(a))
CORE_F16(floor_, __builtin_floorf(a)) CORE_F16(rndne, __builtin_roundevenf(a))
// The largest f16 below one bounds the result: a tiny negative number's fraction would round to one.
static inline float fract_of(float a) {
  float f = rounded(a - __builtin_floorf(a));
  return f >= 1.0f ? 0x1.ffcp-1f : f;
}
CORE_F16(fract, fract_of(a))
static inline f16 scaled(double a, i32 e) {
  return f16_of(a * two_to(e < -100 ? -100 : e > 100 ? 100 : e));
}
CORE(ldexp_, bits(scaled((double)(float)as_f16(a), (i16)b)))
// frexp, as in float32.cpp: a denormal has the exponent and mantissa of its value.
static inline bool has_fraction(u32 x) { return (x & 0x7fff) && (x & 0x7fff) < 0x7c00; }
static inline u32 value_bits(u32 x) { return bits((float)as_f16(x)); }
CORE(frexp_exp, has_fraction(a) ? (u16)((i32)(value_bits(a) >> 23 & 0xff) - 126) : 0)
static inline u32 mantissa_of(u16 x) {
  if (has_fraction(x)) return bits((f16)as_f32((value_bits(x) & 0x807fffff) | 0x3f000000));
  return is_nan(x) ? quiet(x) : x;
}
CORE(frexp_mant, mantissa_of((u16)a))

static inline u32 saturated_u8(i32 x) { return x < 0 ? 0 : x > 255 ? 255 : x; }
static inline u32 saturated_i8(i32 x) { return (u8)(x < -128 ? -128 : x > 127 ? 127 : x); }
CORE(sat_pk_u8, saturated_u8((i16)a) | saturated_u8((i32)a >> 16) << 8)
CORE(ashr_pk_i8, KEEP(d[i], saturated_i8((i32)a >> (c & 31)) | saturated_i8((i32)b >> (c & 31)) << 8))
CORE(ashr_pk_u8, KEEP(d[i], saturated_u8((i32)a >> (c & 31)) | saturated_u8((i32)b >> (c & 31)) << 8))

// Packs two halves that op_sel picks; the sources are floats to neg and abs.
CORE(pack, (a & 0xffff) | b << 16)
// clang-format on
static void pack_b32_f16(Wave& w, const Inst& in) {
  alignas(64) u32 ta[WAVE], tb[WAVE], t[WAVE];
  const u32 *a = modified_source(w, in, 0, ta), *b = modified_source(w, in, 1, tb);
  pack(t, a, b, b);
  blend(w.vreg(in.dst[0].reg), t, w.exec());
}

// v_bitop3: bit 4*a + 2*b + c of the table (the instruction's bitop3 word, in `offset`) is the result for
// those bits.
static void bitop3_lanes(const Inst& in, u32* t, const u32* a, const u32* b, const u32* c) {
  u32 m[8];
  for (int k = 0; k < 8; k++) m[k] = in.offset >> k & 1 ? ~0u : 0;
  LANES {
    u32 x = a[i], y = b[i], z = c[i];
    u32 low = (~y & ~z & m[0]) | (~y & z & m[1]) | (y & ~z & m[2]) | (y & z & m[3]);
    u32 high = (~y & ~z & m[4]) | (~y & z & m[5]) | (y & ~z & m[6]) | (y & z & m[7]);
    t[i] = (~x & low) | (x & high);
  }
}
template <bool HALF> static void bitop3(Wave& w, const Inst& in) {
  alignas(64) u32 ta[WAVE], tb[WAVE], tc[WAVE], t[WAVE];
  const u32 *a = modified_source(w, in, 0, ta), *b = modified_source(w, in, 1, tb);
  bitop3_lanes(in, t, a, b, modified_source(w, in, 2, tc));
  const u32* d = w.vreg(in.dst[0].reg);
  if (HALF) LANES t[i] = KEEP(d[i], t[i]);
  write_result(w, in, t);
}

// clang-format off
static const OpInfo OPS[] = {
  LANE("v_add_u16", add), LANE("v_sub_u16", sub), LANE("v_subrev_u16", subrev), LANE("v_mul_lo_u16", mul_lo),
  LANE("v_add_u16 clamp", add_u16_clamp), LANE("v_sub_u16 clamp", sub_u16_clamp),
  LANE("v_subrev_u16 clamp", subrev_u16_clamp), LANE("v_add_i16", add_i16), LANE("v_sub_i16", sub_i16),
  LANE("v_add_i16 clamp", add_i16_clamp), LANE("v_sub_i16 clamp", sub_i16_clamp), LANE("v_mad_legacy_u16", mad_legacy),
  LANE("v_mad_legacy_i16", mad_legacy), LANE("v_mad_u16", mad), LANE("v_mad_i16", mad),
  LANE("v_mad_legacy_u16 clamp", mad_legacy_u16_clamp), LANE("v_mad_legacy_i16 clamp", mad_legacy_i16_clamp),
  LANE("v_mad_u16 clamp", mad_u16_clamp), LANE("v_mad_i16 clamp", mad_i16_clamp), LANE("v_lshlrev_b16", lshlrev),
  LANE("v_lshrrev_b16", lshrrev), LANE("v_ashrrev_i16", ashrrev), LANE("v_min_i16", min_i16),
  LANE("v_max_i16", max_i16), LANE("v_min_u16", min_u16), LANE("v_max_u16", max_u16), LANE("v_min3_i16", min3_i16),
  LANE("v_max3_i16", max3_i16), LANE("v_med3_i16", med3_i16), LANE("v_min3_u16", min3_u16),
  LANE("v_max3_u16", max3_u16), LANE("v_med3_u16", med3_u16), WIDE_LANE("v_add_f16", add_f16),
  WIDE_LANE("v_sub_f16", sub_f16), WIDE_LANE("v_subrev_f16", subrev_f16), WIDE_LANE("v_mul_f16", mul_f16),
  WIDE_LANE("v_mad_f16", mad_f16), WIDE_LANE("v_mad_legacy_f16", mad_legacy_f16), WIDE_LANE("v_mac_f16", mac_f16),
  WIDE_LANE("v_madak_f16", mad_legacy_f16), WIDE_LANE("v_madmk_f16", mad_legacy_f16),
  WIDE_LANE("v_fma_f16", fma_f16_keep), WIDE_LANE("v_fma_legacy_f16", fma_legacy_f16), WIDE_LANE("v_min_f16", min_f16),
  WIDE_LANE("v_max_f16", max_f16), WIDE_LANE("v_min3_f16", min3_f16), WIDE_LANE("v_max3_f16", max3_f16),
  WIDE_LANE("v_med3_f16", med3_f16), WIDE_LANE("v_trunc_f16", trunc_), WIDE_LANE("v_ceil_f16", ceil_),
  WIDE_LANE("v_floor_f16", floor_), WIDE_LANE("v_rndne_f16", rndne), WIDE_LANE("v_fract_f16", fract),
  WIDE_LANE("v_ldexp_f16", ldexp_),  // an integer exponent, yet of a half's constants
  LANE("v_frexp_exp_i16_f16", frexp_exp), WIDE_LANE("v_frexp_mant_f16", frexp_mant), LANE("v_sat_pk_u8_i16", sat_pk_u8),
  {"v_pack_b32_f16", pack_b32_f16}, LANE("v_ashr_pk_i8_i32", ashr_pk_i8), LANE("v_ashr_pk_u8_i32", ashr_pk_u8),
  {"v_bitop3_b16", bitop3<true>}, {"v_bitop3_b32", bitop3<false>},
};
// clang-format on
TABLE(VALU16_OPS);
