// Sparse matrix instructions: D += A*B where every four consecutive k of a row of A hold at most two
// values. A has those two; for each four k ("group") the index register has their places, two bits each,
// lower bits first.
//
// Lane l of lane group g = l / N holds GROUPS_A groups of row l % N of A, the nibbles of the index that go
// with them, in order, and four times as many k of column l % N of B. Which k those are:
//   gfx942's shapes       groups g*GROUPS_A + n; B k = 4*GROUPS_A*g + e (AMD's matrix instruction calculator)
//   twice the depth       B k in runs of 8: 8*(G*(e/8) + g) + e%8, G lane groups. Groups of A as above for
//   (gfx950)              16-bit data, as in wide_group() for 8-bit data: measured on an MI350 by AMD's FpSan
//                         tests. They have no integer shape; i8 is taken to lie as fp8 does.
#include "mfma.h"

// 8-bit data at twice the depth: the group of A that is n-th in lane group g.
template <int N> static int wide_group(int g, int n) {
  int within = 2 * (n / 4) + n % 2;
  return N == 16 ? 16 * (g / 2) + 4 * (g % 2) + 8 * (n / 2 % 2) + within : 8 * g + 4 * (n / 2 % 2) + within;
}

template <class F, int N, int REGISTERS, bool WIDE> static void load_b(const u32* v, float* out) {
  constexpr int LANE_GROUPS = WAVE / N, RUN = REGISTERS * (32 / F::BITS);
  for (int e = 0; e < RUN; e++)
    for (int g = 0; g < LANE_GROUPS; g++) {
      int k = WIDE ? 8 * (LANE_GROUPS * (e / 8) + g) + e % 8 : g * RUN + e;
      for (int j = 0; j < N; j++) out[k * N + j] = decode<F>(packed_code<F>(v, e, g * N + j));
    }
}

// d[row] = c[row] + the row's products, in ascending order of k.
template <int N, int REGISTERS, class FA, class FB, bool WIDE>
static void sparse_product(Wave& w, const Inst& in, const float* c, float* d) {
  constexpr int PER_LANE = REGISTERS * (32 / FA::BITS), GROUPS_A = PER_LANE / 2, LANE_GROUPS = WAVE / N;
  constexpr int GROUPS = GROUPS_A * LANE_GROUPS, INDEX_BITS = 4 * GROUPS_A;
  alignas(64) float a[PER_LANE * WAVE], b[4 * GROUPS * N];
  const u32* va = w.vreg(in.src[0].reg);
  for (int e = 0; e < PER_LANE; e++)
    for (int l = 0; l < WAVE; l++) a[e * WAVE + l] = decode<FA>(packed_code<FA>(va, e, l));
  load_b<FB, N, 2 * REGISTERS, WIDE>(w.vreg(in.src[1].reg), b);
  const u32* index = w.vreg(in.src[2].reg);
  // CBSZ = 0: ABID picks the index set, where the register has room for several.
  int set = in.cbsz ? 0 : in.abid & (32 / INDEX_BITS - 1);
  int lane_group[GROUPS], nth[GROUPS];  // where each group of A lies
  for (int g = 0; g < LANE_GROUPS; g++)
    for (int n = 0; n < GROUPS_A; n++) {
      int q = WIDE && FA::BITS == 8 ? wide_group<N>(g, n) : g * GROUPS_A + n;
      lane_group[q] = g;
      nth[q] = n;
    }
  bool clamps = !same<FA, I8> && __builtin_expect(w.mode & FP16_OVFL, 0);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j += 16) {
      int at = (N == 16 ? i % 4 * WAVE + i / 4 * 16 : (i / 8 * 4 + i % 4) * WAVE + i / 4 % 2 * 32) + j;
      f32x16 x = *(const f32x16*)(c + at), before = x;
      for (int q = 0; q < GROUPS; q++) {
        int lane = lane_group[q] * N + i, n = nth[q];
        u32 places = index[lane] >> set * INDEX_BITS >> 4 * n;
        f32x16 first = a[2 * n * WAVE + lane], second = a[(2 * n + 1) * WAVE + lane];
        x = __builtin_elementwise_fma(first, *(const f32x16*)(b + (4 * q + (places & 3)) * N + j), x);
        x = __builtin_elementwise_fma(second, *(const f32x16*)(b + (4 * q + (places >> 2 & 3)) * N + j), x);
      }
      if (clamps)
        for (int k = 0; k < 16; k++) {
          bool given = infinite(before[k]);
          for (int q = 0; q < GROUPS && !given && infinite(x[k]); q++)
            for (int e = 0; e < 4; e++)
              given |= infinite(b[(4 * q + e) * N + j + k]) ||
                       (e < 2 && infinite(a[(2 * nth[q] + e) * WAVE + lane_group[q] * N + i]));
          if (infinite(x[k]) && !given) x[k] = largest(x[k]);
        }
      *(f32x16*)(d + at) = x;
    }
}

template <int N, int REGISTERS, class FA, class FB, bool WIDE> static void smfmac(Wave& w, const Inst& in) {
  MatrixMode mode(w);
  float* d = (float*)w.vreg(in.dst[0].reg);
  sparse_product<N, REGISTERS, FA, FB, WIDE>(w, in, d, d);
}

template <int N, int REGISTERS, bool WIDE> static void smfmac_i8(Wave& w, const Inst& in) {
  static const float ZERO[N * N] __attribute__((aligned(64))) = {};
  alignas(64) float product[N * N];
  MatrixMode mode(w);
  sparse_product<N, REGISTERS, I8, I8, WIDE>(w, in, ZERO, product);  // exact: at most 64 products of bytes
  u32* d = w.vreg(in.dst[0].reg);
  bool clamps = w.mode & FP16_OVFL;
  for (int i = 0; i < N * N; i++) d[i] = add_i32(d[i], (i32)product[i], clamps);
}

#define ROW(NAME, ...) {"v_smfmac_" NAME, __VA_ARGS__}
#define NARROW(K16, K32, T, FA, FB, ARCH)                         \
  ROW("f32_16x16x" K16 "_" T ARCH, smfmac<16, 2, FA, FB, false>), \
      ROW("f32_32x32x" K32 "_" T ARCH, smfmac<32, 2, FA, FB, false>)
#define DEEP(K16, K32, T, FA, FB) \
  ROW("f32_16x16x" K16 "_" T, smfmac<16, 4, FA, FB, true>), ROW("f32_32x32x" K32 "_" T, smfmac<32, 4, FA, FB, true>)
#define FP8(ROWS, K16, K32, F, B, ...)                                                            \
  ROWS(K16, K32, "fp8_fp8", F, F, ##__VA_ARGS__), ROWS(K16, K32, "fp8_bf8", F, B, ##__VA_ARGS__), \
      ROWS(K16, K32, "bf8_fp8", B, F, ##__VA_ARGS__), ROWS(K16, K32, "bf8_bf8", B, B, ##__VA_ARGS__)

// clang-format off
static const OpInfo OPS[] = {
  NARROW("32", "16", "f16", F16, F16, ""), NARROW("32", "16", "bf16", BF16, BF16, ""),
  FP8(NARROW, "64", "32", FP8_FNUZ, BF8_FNUZ, "@fnuz"), FP8(NARROW, "64", "32", FP8_OCP, BF8_OCP, "@ocp"),
  ROW("i32_16x16x64_i8", smfmac_i8<16, 2, false>), ROW("i32_32x32x32_i8", smfmac_i8<32, 2, false>),
  DEEP("64", "32", "f16", F16, F16), DEEP("64", "32", "bf16", BF16, BF16), FP8(DEEP, "128", "64", FP8_OCP, BF8_OCP),
  ROW("i32_16x16x128_i8", smfmac_i8<16, 4, true>), ROW("i32_32x32x64_i8", smfmac_i8<32, 4, true>),
};
// clang-format on
extern const OpTable SPARSE_OPS = {OPS, sizeof OPS / sizeof *OPS};
