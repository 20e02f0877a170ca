// Lane-wise 64-bit integer and f64 instructions.
#include "cores.h"
#include "minmax.h"

// clang-format off
CORE_U64(mov64, a)
CORE_AMOUNT_U64(lshlrev, b << (a & 63)) CORE_AMOUNT_U64(lshrrev, b >> (a & 63))
CORE_AMOUNT_U64(ashrrev, (i64)b >> (a & 63))
// Counts above 4 are not supported and count as 0.
CORE_LOOP(lshl_add, u64 a = pair(pa, i); u64 c = pair(pc, i);, set_pair(d, i, (a << (pb[i] > 4 ? 0 : pb[i])) + c))

CORE_F64(add, a + b) CORE_F64(mul, a * b) CORE_F64(fma_, __builtin_fma(a, b, c))
CORE_LOOP(fmac, AB(double, read_f64), set_pair(d, i, bits(__builtin_fma(a, b, as_f64(pair(d, i))))))
CORE_U64(min_, (min_max<false>(a, b))) CORE_U64(max_, (min_max<true>(a, b)))
CORE_F64(trunc_, __builtin_trunc(a)) CORE_F64(ceil_, __builtin_ceil(a)) CORE_F64(floor_, __builtin_floor(a))
CORE_F64(rndne, __builtin_roundeven(a))
static inline double fract_of(double a) {
  double f = a - __builtin_floor(a);
  return f >= 1.0 ? 0x1.fffffffffffffp-1 : f;
}
CORE_F64(fract, fract_of(a))
// clang-format on

static void ldexp_(u32* d, const u32* pa, const u32* pb, const u32*) {
  // As a vector loop it crashes clang 22 wherever there is AVX-512.
#pragma clang loop vectorize(disable)
  for (int i = 0; i < WAVE; i++) set_pair(d, i, bits(__builtin_ldexp(as_f64(pair(pa, i)), (int)pb[i])));
}
// frexp, as in float32.cpp: the mantissa is in [0.5, 1), also a denormal's.
static inline bool has_fraction(u64 x) {
  x &= ~0ull >> 1;
  return x && x < FloatBits<u64>::INF;
}
static void frexp_exp(u32* d, const u32* pa, const u32*, const u32*) {
  for (int i = 0; i < WAVE; i++) {
    u64 x = pair(pa, i) & ~0ull >> 1;
    d[i] = !has_fraction(x) ? 0 : (u32)(x >> 52 ? (i32)(x >> 52) - 1022 : -1010 - __builtin_clzll(x));
  }
}
static void frexp_mant(u32* d, const u32* pa, const u32*, const u32*) {
  for (int i = 0; i < WAVE; i++) {
    u64 a = pair(pa, i), x = a & ~0ull >> 1, m = x >> 52 ? x : x << (__builtin_clzll(x | 1) - 11);
    u64 r = (a & 1ull << 63) | (m & 0xfffffffffffffull) | 0x3fe0000000000000ull;
    set_pair(d, i, has_fraction(x) ? r : is_nan(a) ? quiet(a) : a);
  }
}

// v_pk_mov_b32: each result dword picks one of its source's two.
static void pk_mov(Wave& w, const Inst& in) {
  alignas(64) u32 ta[2 * WAVE], tb[2 * WAVE], t[2 * WAVE];
  const u32 *a = lanes(w, in.src[0], ta, 2), *b = lanes(w, in.src[1], tb, 2);
  memcpy(t, a + (in.op_sel & 1) * WAVE, WAVE * 4);
  memcpy(t + WAVE, b + (in.op_sel >> 1 & 1) * WAVE, WAVE * 4);
  for (int k = 0; k < 2; k++) blend(w.vreg(in.dst[0].reg) + k * WAVE, t + k * WAVE, w.exec());
}

// clang-format off
static const OpInfo OPS[] = {
  LANE("v_mov_b64", mov64), {"v_pk_mov_b32", pk_mov}, LANE("v_lshlrev_b64", lshlrev), LANE("v_lshrrev_b64", lshrrev),
  LANE("v_ashrrev_i64", ashrrev), LANE("v_lshl_add_u64", lshl_add), WIDE_LANE("v_add_f64", add),
  WIDE_LANE("v_mul_f64", mul), WIDE_LANE("v_fma_f64", fma_), WIDE_LANE("v_fmac_f64", fmac),
  WIDE_LANE("v_min_f64", min_), WIDE_LANE("v_max_f64", max_), WIDE_LANE("v_trunc_f64", trunc_),
  WIDE_LANE("v_ceil_f64", ceil_), WIDE_LANE("v_floor_f64", floor_), WIDE_LANE("v_rndne_f64", rndne),
  WIDE_LANE("v_fract_f64", fract), WIDE_LANE("v_ldexp_f64", ldexp_), LANE("v_frexp_exp_i32_f64", frexp_exp),
  WIDE_LANE("v_frexp_mant_f64", frexp_mant),
};
// clang-format on
TABLE(VALU64_OPS);
