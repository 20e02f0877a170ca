// Dense matrix instructions with f32 results: f32, xf32, f16, bf16 and fp8 operands.
#include "mfma.h"
#include "mfma_pairs.h"

// XF32: f32 cut off to 10 bits of mantissa, as measured on an MI300X (microsoft/MMA-Sim).
struct XF32 {
  static constexpr int BITS = 32;
};
template <> inline float decode<XF32>(u32 x) { return as_f32((x & 0x7f800000) == 0x7f800000 ? x : x & 0xffffe000); }

template <int N, int BLOCKS, int REGISTERS, class FA, class FB> static void mfma(Wave& w, const Inst& in) {
  alignas(64) u32 tmp[D_REGISTERS<N, BLOCKS> * WAVE];
  MatrixMode mode(w);
  const float* c = (const float*)accumulator(w, in.src[2], in.dst[0], tmp, D_REGISTERS<N, BLOCKS>);
  float* d = (float*)w.vreg(in.dst[0].reg);
  u32 done = 0;
  if constexpr (same<FA, BF16> && N != 4) {
    done = multiply_pairs<N, BLOCKS, REGISTERS>(w, &in, 1, c, d);
    if (done == ALL_PIECES<N, BLOCKS>) return;
  }
  tile_product<N, BLOCKS, REGISTERS, FA, FB>(w, in, c, d, done);
}

// The first of products that are done together, and the others.
template <int N, int REGISTERS> static void joined(Wave& w, const Inst& in) {
  MatrixMode mode(w);
  float* d = (float*)w.vreg(in.dst[0].reg);
  int n = 1;
  for (const Inst* i = &in; i->offset1; i += i->offset1) n++;
  const u32 done = multiply_pairs<N, 1, REGISTERS>(w, &in, n, d, d);
  if (done == ALL_PIECES<N, 1>) return;
  for (const Inst* i = &in; n--; i += i->offset1) tile_product<N, 1, REGISTERS, BF16, BF16>(w, *i, d, d, done);
}
static void joined_before(Wave&, const Inst&) {}

Handler joined_product(Handler alone, bool first) {
  static const struct {
    Handler alone, first;
  } PRODUCTS[] = {{mfma<32, 1, 2, BF16, BF16>, joined<32, 2>},
                  {mfma<16, 1, 2, BF16, BF16>, joined<16, 2>},
                  {mfma<32, 1, 4, BF16, BF16>, joined<32, 4>},
                  {mfma<16, 1, 4, BF16, BF16>, joined<16, 4>}};
  for (auto& p : PRODUCTS)
    if (has_two_steps && p.alone == alone) return first ? p.first : joined_before;
  return nullptr;
}

#define MULTI(K, T, REGS, F)                                       \
  {"v_mfma_f32_32x32x" K "_2b_" T, mfma<32, 2, REGS, F, F>},       \
      {"v_mfma_f32_16x16x" K "_4b_" T, mfma<16, 4, REGS, F, F>}, { \
    "v_mfma_f32_4x4x" K "_16b_" T, mfma<4, 16, REGS, F, F>         \
  }
#define SINGLE(K32, K16, T, REGS, FA, FB)                       \
  {"v_mfma_f32_32x32x" K32 "_" T, mfma<32, 1, REGS, FA, FB>}, { \
    "v_mfma_f32_16x16x" K16 "_" T, mfma<16, 1, REGS, FA, FB>    \
  }
#define FP8_PAIRS(FP8, BF8, ARCH)                                                                   \
  SINGLE("16", "32", "fp8_fp8" ARCH, 2, FP8, FP8), SINGLE("16", "32", "fp8_bf8" ARCH, 2, FP8, BF8), \
      SINGLE("16", "32", "bf8_fp8" ARCH, 2, BF8, FP8), SINGLE("16", "32", "bf8_bf8" ARCH, 2, BF8, BF8)

// clang-format off
static const OpInfo OPS[] = {
  MULTI("1", "f32", 1, F32), MULTI("4", "f16", 2, F16), MULTI("4", "bf16", 2, BF16),
  SINGLE("2", "4", "f32", 1, F32, F32), SINGLE("4", "8", "xf32", 2, XF32, XF32), SINGLE("8", "16", "f16", 2, F16, F16),
  SINGLE("8", "16", "bf16", 2, BF16, BF16), SINGLE("16", "32", "f16", 4, F16, F16),
  SINGLE("16", "32", "bf16", 4, BF16, BF16), FP8_PAIRS(FP8_FNUZ, BF8_FNUZ, "@fnuz"),
  FP8_PAIRS(FP8_OCP, BF8_OCP, "@ocp"),
};
// clang-format on
extern const OpTable MATRIX_OPS = {OPS, sizeof OPS / sizeof *OPS};
