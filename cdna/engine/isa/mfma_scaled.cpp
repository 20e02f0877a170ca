// gfx950's matrix instructions on fp8, fp6 and fp4, with and without block scales.
//
// CBSZ and BLGP name the formats of A and B. Lane l of lane group g = l / N holds 32 values of row l % N:
// of fp6 and fp4 those of k = 32*g..32*g+31, packed from bit 0 up; of fp8 two runs of 16, from k = 16*g and
// from 64 (N = 16) or 32 (N = 32) further on. A scale is one E8M0 byte for 32 consecutive k of a row,
// whatever the format: lane l supplies that of k = 32*g..32*g+31 (AMD's "Matrix Core Programming on CDNA3
// and CDNA4"; Triton's dot_scaled counts on the same).
#include "mfma.h"

enum LowFormat { FORMAT_FP8, FORMAT_BF8, FORMAT_FP6, FORMAT_BF6, FORMAT_FP4 };

constexpr int RUN = 32;  // k that a lane holds, and that share a scale

template <class F, int N> static void load(const u32* v, float* out) {
  constexpr int GROUPS = WAVE / N;
  for (int t = 0; t < RUN; t++)
    for (int g = 0; g < GROUPS; g++) {
      int k = F::BITS == 8 ? t / 16 * 16 * GROUPS + g * 16 + t % 16 : g * RUN + t;
      for (int i = 0; i < N; i++) out[k * N + i] = decode<F>(packed_code<F>(v, t, g * N + i));
    }
}

template <int N> static void load_format(int format, const u32* v, float* out) {
  switch (format) {
    case FORMAT_FP8: return load<FP8_OCP, N>(v, out);
    case FORMAT_BF8: return load<BF8_OCP, N>(v, out);
    case FORMAT_FP6: return load<FP6, N>(v, out);
    case FORMAT_BF6: return load<BF6, N>(v, out);
    default: return load<FP4, N>(v, out);
  }
}

template <int N> static void mfma(Wave& w, const Inst& in) {
  constexpr int DEPTH = RUN * WAVE / N, REGISTERS_D = D_REGISTERS<N, 1>;
  alignas(64) float a[RUN * WAVE], b[RUN * WAVE];
  alignas(64) u32 tmp[REGISTERS_D * WAVE];
  MatrixMode mode(w);
  load_format<N>(in.cbsz, w.vreg(in.src[0].reg), a);
  load_format<N>(in.blgp, w.vreg(in.src[1].reg), b);
  const u32* c = accumulator(w, in.src[2], in.dst[0], tmp, REGISTERS_D);
  multiply<N>(a, b, DEPTH, (const float*)c, (float*)w.vreg(in.dst[0].reg));
}

// The E8M0 bytes of the scale operand `k`, one a lane: op_sel selects one of a vector register's, of anything else the
// card reads the exponent of an f32 (llvm/llvm-project pull request 158117).
static void scale_bytes(Wave& w, const Inst& in, int k, u32* out) {
  alignas(64) u32 tmp[WAVE];
  const u32* x = lanes(w, in.src[3 + k], tmp, 1);
  int selected = (in.op_sel >> k & 1) | (in.op_sel_hi >> k & 1) << 1;
  int shift = in.src[3 + k].kind == VGPR ? 8 * selected : 23;
  for (int i = 0; i < WAVE; i++) out[i] = x[i] >> shift & 0xff;
}
static inline float e8m0(u32 x) {
  u32 power = x ? x << 23 : 0x400000;
  return as_f32(x == 255 ? QUIET_NAN : power);
}

// Exact: an operand has at most four significant bits and is at least 2^-16, so even times 2^-127 it is an
// f32.
template <int N> static void scale_tile(const u32* scale, float* tile) {
  alignas(64) float factor[WAVE];
  for (int i = 0; i < WAVE; i++) factor[i] = e8m0(scale[i]);
  for (int q = 0; q < WAVE; q += 16) {  // 16 rows of one block
    f32x16 x = *(const f32x16*)(factor + q);
    float* at = tile + q / N * RUN * N + q % N;
    for (int k = 0; k < RUN; k++) *(f32x16*)(at + k * N) *= x;
  }
}

// Where a scaled operand could exceed f32's range although the product may not: the same sum over k in f64,
// rounded to f32 after each term.
template <int N>
static void multiply_wide(const float* a, const float* b, const u32* sa, const u32* sb, const float* c, float* d) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      int at = N == 16 ? i % 4 * WAVE + i / 4 * 16 + j : (i / 8 * 4 + i % 4) * WAVE + i / 4 % 2 * 32 + j;
      float x = c[at];
      for (int g = 0; g < WAVE / N; g++) {
        double scale = (double)e8m0(sa[g * N + i]) * (double)e8m0(sb[g * N + j]);
        for (int k = g * RUN; k < (g + 1) * RUN; k++)
          x = (float)__builtin_fma((double)a[k * N + i] * b[k * N + j], scale, (double)x);
      }
      d[at] = x;
    }
}

template <int N> static void mfma_scale(Wave& w, const Inst& in) {
  constexpr int DEPTH = RUN * WAVE / N, REGISTERS_D = D_REGISTERS<N, 1>;
  alignas(64) float a[RUN * WAVE], b[RUN * WAVE];
  alignas(64) u32 tmp[REGISTERS_D * WAVE], sa[WAVE], sb[WAVE];
  MatrixMode mode(w);
  load_format<N>(in.cbsz, w.vreg(in.src[0].reg), a);
  load_format<N>(in.blgp, w.vreg(in.src[1].reg), b);
  scale_bytes(w, in, 0, sa);
  scale_bytes(w, in, 1, sb);
  const float* c = (const float*)accumulator(w, in.src[2], in.dst[0], tmp, REGISTERS_D);
  float* d = (float*)w.vreg(in.dst[0].reg);
  constexpr u32 LARGEST_SAFE = 127 + 111;  // 57344 * 2^111 is below 2^127
  u32 large = 0;
  for (int i = 0; i < WAVE; i++)
    large |= (sa[i] > LARGEST_SAFE && sa[i] != 255) | (sb[i] > LARGEST_SAFE && sb[i] != 255);
  if (large) {
    multiply_wide<N>(a, b, sa, sb, c, d);
    return;
  }
  scale_tile<N>(sa, a);
  scale_tile<N>(sb, b);
  multiply<N>(a, b, DEPTH, c, d);
}

static void load_scales(Wave&, const Inst&) {}  // decode.py gives them to the instruction behind
// clang-format off
static const OpInfo OPS[] = {
  {"v_mfma_ld_scale_b32", load_scales}, {"v_mfma_f32_16x16x128_f8f6f4", mfma<16>},
  {"v_mfma_f32_32x32x64_f8f6f4", mfma<32>}, {"v_mfma_scale_f32_16x16x128_f8f6f4", mfma_scale<16>},
  {"v_mfma_scale_f32_32x32x64_f8f6f4", mfma_scale<32>},
};
// clang-format on
extern const OpTable MATRIX_SCALED_OPS = {OPS, sizeof OPS / sizeof *OPS};
