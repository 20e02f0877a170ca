// Lane-wise f32 arithmetic, single and packed; f32 denormals are flushed by MXCSR where MODE says so
// (apply_mode).
#include "cores.h"
#include "minmax.h"

// clang-format off
CORE_F32(add, a + b) CORE_F32(sub, a - b) CORE_F32(subrev, b - a) CORE_F32(mul, a * b)
CORE_F32(mul_legacy, a == 0 || b == 0 ? 0.0f : a * b)
CORE_F32(fma_, __builtin_fmaf(a, b, c)) CORE_F32_OLD(fmac, __builtin_fmaf(a, b, old))

// A product with one flushes denormals where the mode asks for it; volatile keeps the compiler from dropping
// it.
static volatile float one_value = 1.0f;
#define CORE_CANONICAL(NAME, EXPR) \
  static void NAME(u32* d, const u32* pa, const u32* pb, const u32* pc) { \
    (void)pc; \
    const float one = one_value; \
    LANES { u32 a = pa[i], b = pb[i], c = pc[i]; (void)c; d[i] = bits(as_f32(EXPR) * one); } }
CORE_CANONICAL(min_, (min_max<false>(a, b))) CORE_CANONICAL(max_, (min_max<true>(a, b)))
CORE_CANONICAL(min3, (min_max3<false>(a, b, c))) CORE_CANONICAL(max3, (min_max3<true>(a, b, c)))
CORE_CANONICAL(med3_, med3(a, b, c))
CORE_CANONICAL(minimum3, (minimum_maximum3<false>(a, b, c)))
CORE_CANONICAL(maximum3, (minimum_maximum3<true>(a, b, c)))

CORE_F32(trunc_, __builtin_truncf(a)) CORE_F32(ceil_, __builtin_ceilf(a))
CORE_F32(floor_, __builtin_floorf(a)) CORE_F32(rndne, __builtin_roundevenf(a))
static inline float fract_of(float a) {
  float f = a - __builtin_floorf(a);
  return f >= 1.0f ? 0x1.fffffep-1f : f;
}
CORE_F32(fract, fract_of(a))

static inline float scaled(float a, i32 e) {
  return (float)((double)a * two_to(e < -400 ? -400 : e > 400 ? 400 : e));
}
CORE(ldexp_, bits(scaled(as_f32(a), (i32)b)))
// clang-format on

// frexp: a = mantissa * 2^exponent with the mantissa in [0.5, 1), denormals included; zero, inf and NaN have
// exponent 0.
static inline i32 frexp_exponent(u32 a) {
  u32 x = a & 0x7fffffff;
  i32 e = x >= 0x00800000 ? (i32)(x >> 23) - 126 : -117 - __builtin_clz(x | 1);
  return x == 0 || x >= 0x7f800000 ? 0 : e;
}
static inline u32 frexp_mantissa(u32 a) {
  u32 x = a & 0x7fffffff, m = x >= 0x00800000 ? x : x << ((__builtin_clz(x | 1) - 8) & 31);
  return x == 0 || x >= 0x7f800000 ? a : (a & 0x80000000u) | (m & 0x007fffff) | 0x3f000000;
}
#define CORE_FLUSHED(NAME, EXPR)                                    \
  static void NAME(u32* d, const u32* pa, const u32*, const u32*) { \
    const float one = one_value;                                    \
    LANES {                                                         \
      u32 a = bits(as_f32(pa[i]) * one);                            \
      d[i] = (u32)(EXPR);                                           \
    }                                                               \
  }
// clang-format off
CORE_FLUSHED(frexp_exp, frexp_exponent(a)) CORE_FLUSHED(frexp_mant, frexp_mantissa(a))
    // clang-format on

    // Cube maps: the face a direction (a, b, c) points at, its coordinates on it, and twice the major axis.
    static inline int major_axis(float a, float b, float c) {
  float x = __builtin_fabsf(a), y = __builtin_fabsf(b), z = __builtin_fabsf(c);
  return z >= x && z >= y ? 2 : y >= x ? 1 : 0;
}
static inline float cube_face(float a, float b, float c) {
  int axis = major_axis(a, b, c);
  return axis == 2 ? (c < 0 ? 5.0f : 4.0f) : axis == 1 ? (b < 0 ? 3.0f : 2.0f) : (a < 0 ? 1.0f : 0.0f);
}
static inline float cube_s(float a, float b, float c) {
  int axis = major_axis(a, b, c);
  return axis == 2 ? (c < 0 ? -a : a) : axis == 1 ? a : (a < 0 ? c : -c);
}
static inline float cube_t(float a, float b, float c) {
  int axis = major_axis(a, b, c);
  return axis == 1 ? (b < 0 ? -c : c) : -b;
}
static inline float cube_major(float a, float b, float c) {
  int axis = major_axis(a, b, c);
  return 2.0f * (axis == 2 ? c : axis == 1 ? b : a);
}
// clang-format off
CORE_F32(cubeid, cube_face(a, b, c)) CORE_F32(cubesc, cube_s(a, b, c)) CORE_F32(cubetc, cube_t(a, b, c))
CORE_F32(cubema, cube_major(a, b, c))

CORE_PK_F32(pk_add, a + b) CORE_PK_F32(pk_mul, a * b) CORE_PK_F32(pk_fma, __builtin_fmaf(a, b, c))
    // clang-format on

    // v_fma_mix: each source is f32, or with its op_sel_hi bit the half of the register that op_sel picks, as
    // f16. Where MODE flushes f32 operands, denormal halves are as well (measured on gfx90a and gfx950, LLVM pull request
    // 205101).
    static const u32* mix_source(Wave& w, const Inst& in, int k, u32* tmp) {
  const u32* p = lanes(w, in.src[k], tmp, 1);
  bool half = in.op_sel_hi >> k & 1, high = in.op_sel >> k & 1;
  u32 keep = in.src[k].mods & ABS ? 0x7fffffff : ~0u, flip = in.src[k].mods & NEG ? 0x80000000u : 0;
  const u32 least = half && !(w.mode & MODE_F32_IN_DENORMALS) ? bits(0x1p-14f) : 0;
  LANES {
    u32 x = half ? bits((float)as_f16(high ? p[i] >> 16 : p[i])) : p[i];
    if ((x & 0x7fffffff) < least) x &= 0x80000000;
    tmp[i] = (x & keep) ^ flip;
  }
  return tmp;
}

enum MixResult { TO_F32, TO_LOW_F16, TO_HIGH_F16 };
template <MixResult RESULT> static void fma_mix(Wave& w, const Inst& in) {
  alignas(64) u32 ta[WAVE], tb[WAVE], tc[WAVE], t[WAVE];
  const u32 *a = mix_source(w, in, 0, ta), *b = mix_source(w, in, 1, tb), *c = mix_source(w, in, 2, tc);
  u32* d = w.vreg(in.dst[0].reg);
  bool clamp = in.flags & CLAMP;
  LANES {
    float r = __builtin_fmaf(as_f32(a[i]), as_f32(b[i]), as_f32(c[i]));
    if (clamp) r = clamped(w, r);
    u32 half = bits((f16)r);
    u32 merged = RESULT == TO_LOW_F16 ? (d[i] & 0xffff0000) | half : (d[i] & 0xffff) | half << 16;
    t[i] = RESULT == TO_F32 ? bits(r) : merged;
  }
  blend(d, t, w.exec());
}

// clang-format off
static const OpInfo OPS[] = {
  LANE("v_add_f32", add), LANE("v_sub_f32", sub), LANE("v_subrev_f32", subrev), LANE("v_mul_f32", mul),
  LANE("v_mul_legacy_f32", mul_legacy), LANE("v_fma_f32", fma_), LANE("v_fmaak_f32", fma_), LANE("v_fmamk_f32", fma_),
  LANE("v_fmac_f32", fmac), LANE("v_min_f32", min_), LANE("v_max_f32", max_), LANE("v_min3_f32", min3),
  LANE("v_max3_f32", max3), LANE("v_med3_f32", med3_), LANE("v_minimum3_f32", minimum3),
  LANE("v_maximum3_f32", maximum3), LANE("v_trunc_f32", trunc_), LANE("v_ceil_f32", ceil_), LANE("v_floor_f32", floor_),
  LANE("v_rndne_f32", rndne), LANE("v_fract_f32", fract), LANE("v_ldexp_f32", ldexp_),
  LANE("v_frexp_exp_i32_f32", frexp_exp), LANE("v_frexp_mant_f32", frexp_mant), LANE("v_cubeid_f32", cubeid),
  LANE("v_cubesc_f32", cubesc), LANE("v_cubetc_f32", cubetc), LANE("v_cubema_f32", cubema),
  LANE("v_pk_add_f32", pk_add), LANE("v_pk_mul_f32", pk_mul), LANE("v_pk_fma_f32", pk_fma),
  {"v_fma_mix_f32", fma_mix<TO_F32>}, {"v_fma_mixlo_f16", fma_mix<TO_LOW_F16>},
  {"v_fma_mixhi_f16", fma_mix<TO_HIGH_F16>},
};
// clang-format on
TABLE(FLOAT32_OPS);
