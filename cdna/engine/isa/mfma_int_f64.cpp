// Dense matrix instructions with i32 and f64 results.
#include "mfma.h"

// Sums of at most 64 products of bytes stay below 2^24: exact in f32. C is added in i32.
template <int N, int BLOCKS, int REGISTERS> static void mfma_i8(Wave& w, const Inst& in) {
  constexpr int REGISTERS_D = D_REGISTERS<N, BLOCKS>;
  static const float ZERO[REGISTERS_D * WAVE] __attribute__((aligned(64))) = {};
  alignas(64) float product[REGISTERS_D * WAVE];
  alignas(64) u32 tmp[REGISTERS_D * WAVE];
  MatrixMode mode(w);
  tile_product<N, BLOCKS, REGISTERS, I8, I8>(w, in, ZERO, product);
  const u32* c = accumulator(w, in.src[2], in.dst[0], tmp, REGISTERS_D);
  u32* d = w.vreg(in.dst[0].reg);
  bool clamps = w.mode & FP16_OVFL;
  for (int i = 0; i < REGISTERS_D * WAVE; i++) d[i] = add_i32(c[i], (i32)product[i], clamps);
}

static void f64_source(Wave& w, const Inst& in, int k, int register_pair, double* out) {
  const Operand& o = in.src[k];
  u64 flip = (u64)(in.neg_lo >> k & 1) << 63;
  if (o.kind == VGPR) {
    const u32* v = w.vreg(o.reg + 2 * register_pair);
    for (int l = 0; l < WAVE; l++) out[l] = as_f64(pair(v, l) ^ flip);
  } else {
    for (int l = 0; l < WAVE; l++) out[l] = as_f64(scalar64(w, o) ^ flip);
  }
}

// N = 16: A, B lane 16*k + row; D register pair p holds row 4*p + l/16. N = 4, four blocks: A, B lane
// 16*k + 4*block + row, D lane 16*row + 4*block + column (AMD's matrix instruction calculator).
template <int N> static void mfma_f64(Wave& w, const Inst& in) {
  constexpr int PAIRS = N == 16 ? 4 : 1;
  alignas(64) double a[WAVE], b[WAVE], d[PAIRS][WAVE];
  MatrixMode mode(w);
  f64_source(w, in, 0, 0, a);
  f64_source(w, in, 1, 0, b);
  for (int p = 0; p < PAIRS; p++) {
    f64_source(w, in, 2, p, d[p]);
    for (int q = 0; q < WAVE; q += 4) {                      // four lanes: columns of one row
      int row = N == 16 ? 4 * p + q / 16 : q % 16 + q / 16;  // of A, within its 16 lanes
      for (int k = 0; k < 4; k++)
        for (int l = q; l < q + 4; l++) d[p][l] = __builtin_fma(a[16 * k + row], b[16 * k + l % 16], d[p][l]);
    }
  }
  for (int p = 0; p < PAIRS; p++)
    for (int l = 0; l < WAVE; l++) set_pair(w.vreg(in.dst[0].reg + 2 * p), l, bits(d[p][l]));
}

// clang-format off
static const OpInfo OPS[] = {
  {"v_mfma_i32_32x32x4_2b_i8", mfma_i8<32, 2, 1>}, {"v_mfma_i32_16x16x4_4b_i8", mfma_i8<16, 4, 1>},
  {"v_mfma_i32_4x4x4_16b_i8", mfma_i8<4, 16, 1>}, {"v_mfma_i32_32x32x16_i8", mfma_i8<32, 1, 2>},
  {"v_mfma_i32_16x16x32_i8", mfma_i8<16, 1, 2>}, {"v_mfma_i32_32x32x32_i8", mfma_i8<32, 1, 4>},
  {"v_mfma_i32_16x16x64_i8", mfma_i8<16, 1, 4>}, {"v_mfma_f64_16x16x4_f64", mfma_f64<16>},
  {"v_mfma_f64_4x4x4_4b_f64", mfma_f64<4>},
};
// clang-format on
extern const OpTable MATRIX_INT_F64_OPS = {OPS, sizeof OPS / sizeof *OPS};
