// Dense matrix instructions with f32 results: f32, xf32, f16, bf16 and fp8 operands.
#include "matrix.h"

// XF32: f32 cut off to 10 bits of mantissa, as measured on an MI300X (microsoft/MMA-Sim).
struct XF32 { static constexpr int BITS = 32; };
template <> inline float decode<XF32>(u32 x) {
  return as_f32((x & 0x7f800000) == 0x7f800000 ? x : x & 0xffffe000);
}

template <int N, int BLOCKS, int REGISTERS, class FA, class FB> static void mfma(Wave& w, const Inst& in) {
  alignas(64) u32 tmp[D_REGISTERS<N, BLOCKS> * WAVE];
  MatrixMode mode(w);
  const u32* c = accumulator(w, in.src[2], in.dst[0], tmp, D_REGISTERS<N, BLOCKS>);
  tile_product<N, BLOCKS, REGISTERS, FA, FB>(w, in, (const float*)c, (float*)w.vreg(in.dst[0].reg));
}

#define D4_AB(AB, MODS) "D:b128 S:" AB " S:" AB " S:b128 " MODS
#define D16_AB(AB, MODS) "D:b512 S:" AB " S:" AB " S:b512 " MODS
#define D32_AB(AB, MODS) "D:b1024 S:" AB " S:" AB " S:b1024 " MODS
// Several blocks: A may be broadcast among blocks, B permuted among lanes. One block: neither.
#define BROADCAST "+cbsz,abid,blgp"
#define PLAIN "+"

// LLVM prints v_mfma_f32_32x32x8_bf16; older versions and gfx90a's spelling join the type to the shape.
#define MULTI(T, OLD, AB, REGS, F, K4) \
  {"v_mfma_f32_32x32x" K4 "_2b_" T, D32_AB(AB, BROADCAST), mfma<32, 2, REGS, F, F>}, {"v_mfma_f32_32x32x" K4 OLD, D32_AB(AB, BROADCAST), mfma<32, 2, REGS, F, F>}, \
  {"v_mfma_f32_16x16x" K4 "_4b_" T, D16_AB(AB, BROADCAST), mfma<16, 4, REGS, F, F>}, {"v_mfma_f32_16x16x" K4 OLD, D16_AB(AB, BROADCAST), mfma<16, 4, REGS, F, F>}, \
  {"v_mfma_f32_4x4x" K4 "_16b_" T, D4_AB(AB, BROADCAST), mfma<4, 16, REGS, F, F>}, {"v_mfma_f32_4x4x" K4 OLD, D4_AB(AB, BROADCAST), mfma<4, 16, REGS, F, F>}
#define SINGLE(T, OLD, AB, REGS, FA, FB, K32, K16, ARCH) \
  {"v_mfma_f32_32x32x" K32 "_" T ARCH, D16_AB(AB, PLAIN), mfma<32, 1, REGS, FA, FB>}, {"v_mfma_f32_32x32x" K32 OLD ARCH, D16_AB(AB, PLAIN), mfma<32, 1, REGS, FA, FB>}, \
  {"v_mfma_f32_16x16x" K16 "_" T ARCH, D4_AB(AB, PLAIN), mfma<16, 1, REGS, FA, FB>}, {"v_mfma_f32_16x16x" K16 OLD ARCH, D4_AB(AB, PLAIN), mfma<16, 1, REGS, FA, FB>}
#define FP8_PAIR(T, FA, FB, ARCH) \
  {"v_mfma_f32_32x32x16_" T ARCH, D16_AB("b64", PLAIN), mfma<32, 1, 2, FA, FB>}, {"v_mfma_f32_16x16x32_" T ARCH, D4_AB("b64", PLAIN), mfma<16, 1, 2, FA, FB>}
#define FP8_ALL(FP8, BF8, ARCH) \
  FP8_PAIR("fp8_fp8", FP8, FP8, ARCH), FP8_PAIR("fp8_bf8", FP8, BF8, ARCH), FP8_PAIR("bf8_fp8", BF8, FP8, ARCH), FP8_PAIR("bf8_bf8", BF8, BF8, ARCH)

static const OpInfo OPS[] = {
  MULTI("f32", "f32", "b32", 1, F32, "1"),
  MULTI("f16", "f16", "b64", 2, F16, "4"),
  MULTI("bf16", "bf16_1k", "b64", 2, BF16, "4"),
  SINGLE("f32", "f32", "b32", 1, F32, F32, "2", "4", ""),
  SINGLE("f16", "f16", "b64", 2, F16, F16, "8", "16", ""),
  SINGLE("bf16", "bf16_1k", "b64", 2, BF16, BF16, "8", "16", ""),
  SINGLE("xf32", "xf32", "b64", 2, XF32, XF32, "4", "8", "@gfx942"),
  SINGLE("f16", "f16", "b128", 4, F16, F16, "16", "32", "@gfx950"),
  SINGLE("bf16", "bf16", "b128", 4, BF16, BF16, "16", "32", "@gfx950"),
  FP8_ALL(FP8_FNUZ, BF8_FNUZ, "@gfx942"),
  FP8_ALL(FP8_OCP, BF8_OCP, "@gfx950"),
};
extern const OpTable MATRIX_OPS = {OPS, sizeof OPS / sizeof *OPS};
