// Conversions between f32, f16, bf16 and the formats of 8, 6 and 4 bits (CDNA3 and CDNA4 ISA: v_cvt_*fp8*,
// v_cvt_scalef32_*).
//
// The scale of v_cvt_scalef32_* is the power of two in a float's exponent field: narrowing divides by it,
// widening multiplies. op_sel bits 3:2 pick the destination's byte (bit 3 its half), bits 1:0 the source's
// (bit 0 its half); what is not written stays.
#include "low_precision.h"

static inline u32 next_random(u32 x) { return x << 1 ^ (x >> 31 ? 197 : 0); }  // v_prng_b32

// Lanes of a source with its sign modifiers; op_sel has other meanings here than for lane_op.
static const u32* source(Wave& w, const Inst& in, int k, u32* tmp) {
  if (!in.src[k].mods) return lanes(w, in.src[k], tmp, in.src_dwords[k]);
  Inst plain = in;
  plain.flags &= ~OPSEL;
  return modified_source(w, plain, k, tmp);
}

// Bits of element `e` of a register run, as f32.
template <class S> static inline u32 element(const u32* p, int e, int lane) {
  return bits(decode<S>(packed_code<S>(p, e, lane)));
}

static inline int scale_field(u32 scale) { return scale >> 23 & 0xff; }

// COUNT elements of type S, from one source or from two in turn, to format F. The sources after those:
// random bits, scale.
template <class S, class F, int COUNT, int SOURCES, bool STOCHASTIC, bool SCALED>
static void narrow(Wave& w, const Inst& in) {
  constexpr int OUT_BITS = COUNT * F::BITS, OUT = (OUT_BITS + 31) / 32;
  constexpr int IN = (COUNT * S::BITS / SOURCES + 31) / 32;
  alignas(64) u32 ta[IN * WAVE], tb[IN * WAVE], tr[WAVE], ts[WAVE], out[OUT * WAVE];
  const u32* p[2] = {source(w, in, 0, ta), SOURCES == 2 ? source(w, in, 1, tb) : nullptr};
  const u32* random = STOCHASTIC ? source(w, in, SOURCES, tr) : nullptr;
  const u32* scale = SCALED ? source(w, in, SOURCES + STOCHASTIC, ts) : nullptr;
  bool saturate = w.mode & FP16_OVFL;
  memset(out, 0, sizeof out);
  u32 chain[WAVE];
  if constexpr (STOCHASTIC) memcpy(chain, random, sizeof chain);
  for (int e = 0; e < COUNT; e++) {
    const u32* from = p[e % SOURCES];
    int bit = e * F::BITS, shift = bit & 31;
    u32* to = out + (bit >> 5) * WAVE;
    for (int i = 0; i < WAVE; i++) {
      u32 x = element<S>(from, e / SOURCES, i), code;
      if constexpr (F::E == 8 && !SCALED && !STOCHASTIC) code = encode_bf16(x);
      else {
        int field = SCALED ? scale_field(scale[i]) : 127;
        x = field == 255 ? QUIET_NAN : x;
        code = encode<F, STOCHASTIC>(x, 127 - field, STOCHASTIC ? chain[i] : 0, saturate);
      }
      to[i] |= code << shift;
      if (32 % F::BITS && shift + F::BITS > 32) to[WAVE + i] |= code >> (32 - shift);
      if constexpr (STOCHASTIC) chain[i] = next_random(chain[i]);
    }
  }
  u32* d = w.vreg(in.dst[0].reg);
  if constexpr (OUT_BITS < 32) {
    int at = OUT_BITS == 8 ? in.op_sel >> 2 & 3 : in.op_sel >> 3 & 1;
    u32 mask = ((1u << OUT_BITS) - 1) << at * OUT_BITS;
    for (int i = 0; i < WAVE; i++) out[i] = (d[i] & ~mask) | out[i] << at * OUT_BITS;
  }
  for (int r = 0; r < OUT; r++) blend(d + r * WAVE, out + r * WAVE, w.exec());
}

// COUNT elements of format F to type D, times the scale.
template <class F, class D, int COUNT> static void widen(Wave& w, const Inst& in) {
  constexpr int OUT_BITS = COUNT * D::BITS, OUT = (OUT_BITS + 31) / 32, IN = (COUNT * F::BITS + 31) / 32;
  alignas(64) u32 ta[IN * WAVE], ts[WAVE], out[OUT * WAVE];
  const u32* p = source(w, in, 0, ta);
  const u32* scale = source(w, in, 1, ts);
  bool saturate = w.mode & FP16_OVFL;
  constexpr int IN_BITS = COUNT * F::BITS;
  int first = IN_BITS == 8 ? (in.op_sel & 3) * COUNT : IN_BITS == 16 ? (in.op_sel & 1) * COUNT : 0;
  memset(out, 0, sizeof out);
  for (int e = 0; e < COUNT; e++)
    for (int i = 0; i < WAVE; i++) {
      int field = scale_field(scale[i]);
      float x = field == 255 ? as_f32(QUIET_NAN) : decode<F>(packed_code<F>(p, first + e, i));
      double factor = as_f64((u64)(field - 127 + 1023) << 52);
      if constexpr (D::BITS == 32) out[e * WAVE + i] = bits((float)(x * factor));
      else out[e / 2 * WAVE + i] |= encode<D, false>(bits(x), field - 127, 0, saturate) << e % 2 * 16;
    }
  u32* d = w.vreg(in.dst[0].reg);
  if constexpr (OUT_BITS == 16)
    for (int i = 0; i < WAVE; i++)
      out[i] = in.op_sel & 8 ? (d[i] & 0xffff) | out[i] << 16 : (d[i] & 0xffff0000) | out[i];
  for (int r = 0; r < OUT; r++) blend(d + r * WAVE, out + r * WAVE, w.exec());
}

// Unscaled widening is lane-wise: SDWA's source select has put the byte or word at bit 0.
template <class F> static void f32_from(u32* d, const u32* a, const u32*, const u32*) {
  for (int i = 0; i < WAVE; i++) d[i] = bits(decode<F>(a[i]));
}
template <class F> static void pk_f32_from(u32* d, const u32* a, const u32*, const u32*) {
  alignas(64) u32 x[WAVE];
  memcpy(x, a, sizeof x);  // d may be the source
  for (int i = 0; i < WAVE; i++) d[i] = bits(decode<F>(x[i])), d[WAVE + i] = bits(decode<F>(x[i] >> 8));
}

#define FP8_OPS(NAME, F, ARCH)                                                                          \
  {"v_cvt_f32_" NAME ARCH, lane_op, f32_from<F>}, {"v_cvt_pk_f32_" NAME ARCH, lane_op, pk_f32_from<F>}, \
      {"v_cvt_pk_" NAME "_f32" ARCH, narrow<F32, F, 2, 2, false, false>}, {                             \
    "v_cvt_sr_" NAME "_f32" ARCH, narrow<F32, F, 1, 1, true, false>                                     \
  }
#define SCALE(NAME, ...) {"v_cvt_scalef32_" NAME, __VA_ARGS__}
#define SCALED_FP8(NAME, F)                                                                               \
  SCALE("pk_" NAME "_f32", narrow<F32, F, 2, 2, false, true>),                                            \
      SCALE("pk_" NAME "_f16", narrow<F16, F, 2, 1, false, true>),                                        \
      SCALE("pk_" NAME "_bf16", narrow<BF16, F, 2, 1, false, true>),                                      \
      SCALE("sr_" NAME "_f32", narrow<F32, F, 1, 1, true, true>),                                         \
      SCALE("sr_" NAME "_f16", narrow<F16, F, 1, 1, true, true>),                                         \
      SCALE("sr_" NAME "_bf16", narrow<BF16, F, 1, 1, true, true>), SCALE("f32_" NAME, widen<F, F32, 1>), \
      SCALE("f16_" NAME, widen<F, F16, 1>), SCALE("pk_f32_" NAME, widen<F, F32, 2>),                      \
      SCALE("pk_f16_" NAME, widen<F, F16, 2>), SCALE("pk_bf16_" NAME, widen<F, BF16, 2>)
#define SCALED_FP6(NAME, F)                                                                                           \
  SCALE("2xpk16_" NAME "_f32", narrow<F32, F, 32, 2, false, true>),                                                   \
      SCALE("pk32_" NAME "_f16", narrow<F16, F, 32, 1, false, true>),                                                 \
      SCALE("pk32_" NAME "_bf16", narrow<BF16, F, 32, 1, false, true>),                                               \
      SCALE("sr_pk32_" NAME "_f32", narrow<F32, F, 32, 1, true, true>),                                               \
      SCALE("sr_pk32_" NAME "_f16", narrow<F16, F, 32, 1, true, true>),                                               \
      SCALE("sr_pk32_" NAME "_bf16", narrow<BF16, F, 32, 1, true, true>), SCALE("pk32_f32_" NAME, widen<F, F32, 32>), \
      SCALE("pk32_f16_" NAME, widen<F, F16, 32>), SCALE("pk32_bf16_" NAME, widen<F, BF16, 32>)

// clang-format off
static const OpInfo OPS[] = {
  FP8_OPS("fp8", FP8_FNUZ, "@fnuz"), FP8_OPS("bf8", BF8_FNUZ, "@fnuz"), FP8_OPS("fp8", FP8_OCP, "@ocp"),
  FP8_OPS("bf8", BF8_OCP, "@ocp"), {"v_cvt_f32_bf16", lane_op, f32_from<BF16>},
  {"v_cvt_pk_bf16_f32", narrow<F32, BF16, 2, 2, false, false>},
  {"v_cvt_sr_bf16_f32", narrow<F32, BF16, 1, 1, true, false>},
  {"v_cvt_sr_f16_f32", narrow<F32, F16, 1, 1, true, false>}, SCALED_FP8("fp8", FP8_OCP), SCALED_FP8("bf8", BF8_OCP),
  SCALE("pk_fp4_f32", narrow<F32, FP4, 2, 2, false, true>), SCALE("pk_fp4_f16", narrow<F16, FP4, 2, 1, false, true>),
  SCALE("pk_fp4_bf16", narrow<BF16, FP4, 2, 1, false, true>),
  SCALE("sr_pk_fp4_f32", narrow<F32, FP4, 2, 1, true, true>),
  SCALE("sr_pk_fp4_f16", narrow<F16, FP4, 2, 1, true, true>),
  SCALE("sr_pk_fp4_bf16", narrow<BF16, FP4, 2, 1, true, true>), SCALE("pk_f32_fp4", widen<FP4, F32, 2>),
  SCALE("pk_f16_fp4", widen<FP4, F16, 2>), SCALE("pk_bf16_fp4", widen<FP4, BF16, 2>), SCALED_FP6("fp6", FP6),
  SCALED_FP6("bf6", BF6),
};
// clang-format on
extern const OpTable CONVERT_LOW_OPS = {OPS, sizeof OPS / sizeof *OPS};
