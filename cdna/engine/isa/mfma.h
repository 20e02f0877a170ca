// What the matrix instructions share: operands to f32 tiles, the tile product, accumulators.
//
// Register layouts, N = 32, 16 or 4 rows (and columns), from AMD's matrix instruction calculator
// (github.com/ROCm/amd_matrix_instruction_calculator) and the CDNA3 ISA, "Matrix Arithmetic Instructions":
//   A, B   lane l holds row (column) l % N. 64/N lane groups share the depth: group g holds the g-th run of
//          consecutive k; of a shape with several blocks (matrices), group g is block g.
//   C, D   N = 16: row 4*(l/16) + r, column l % 16. N = 32: row 8*(r/4) + 4*(l/32) + r%4, column l % 32.
//          N = 4 (16 blocks): block l/4, row r, column l % 4. Blocks of N = 16, 32 follow one another.
// EXEC has no effect on any of them.
#pragma once
#include <stdlib.h>
#include "host.h"
#include "low_precision.h"

typedef float f32x16 __attribute__((ext_vector_type(16)));

// Matrix instructions round to nearest even and keep denormal results whatever MODE says.
struct MatrixMode {
  u32 saved = 0;
  bool changed = false;
  explicit MatrixMode(const Wave& w) {
    if (__builtin_expect((w.mode & 0x33) != 0x30, 0)) {
      saved = float_mode(), changed = true;
      set_float_mode(USUAL_FLOAT_MODE);
    }
  }
  ~MatrixMode() {
    if (__builtin_expect(changed, 0)) set_float_mode(saved);
  }
};

// Registers to out[k][row], k as above; `registers` of them. N = 4 keeps all 64 lanes: out[k][lane].
template <class F, int N> static inline void load_tile(const u32* v, int registers, float* out) {
  constexpr int PER = 32 / F::BITS, WIDTH = N == 4 ? WAVE : N;
  for (int r = 0; r < registers; r++, v += WAVE)
    for (int e = 0; e < PER; e++)
      for (int g = 0; g < WAVE / WIDTH; g++) {
        float* row = out + ((g * registers + r) * PER + e) * WIDTH;
        for (int i = 0; i < WIDTH; i++) row[i] = decode<F>(v[g * WIDTH + i] >> e * F::BITS);
      }
}
struct I8 {
  static constexpr int BITS = 8;
};
template <> inline float decode<I8>(u32 code) { return (float)(i8)code; }
static inline float flushed(float x) { return bits(x) & 0x7f800000 ? x : as_f32(bits(x) & 0x80000000); }
template <class F, class G> constexpr bool same = false;
template <class F> constexpr bool same<F, F> = true;

// C plus an exact sum of products: wraps, or with MODE.FP16_OVFL clamps.
static inline u32 add_i32(u32 c, i32 product, bool clamps) {
  i64 sum = (i64)(i32)c + product;
  return !clamps || sum == (i32)sum ? (u32)sum : sum < 0 ? 0x80000000u : 0x7fffffffu;
}

// ROWS x COLUMNS*16 of D: C plus a[k][row] * b[k][column] for k = 0, 1, ..., depth-1, each by a fused
// multiply-add. `offset(row)` is where a row lies in c and d.
template <int N, int ROWS, int COLUMNS, class Offset>
static inline void multiply_block(const float* a, const float* b, int depth, const float* c, float* d, Offset offset) {
  f32x16 acc[ROWS][COLUMNS];
#pragma unroll
  for (int i = 0; i < ROWS; i++)
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) acc[i][j] = *(const f32x16*)(c + offset(i) + 16 * j);
  for (int k = 0; k < depth; k++, a += N, b += N) {
    f32x16 column[COLUMNS];
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) column[j] = *(const f32x16*)(b + 16 * j);
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
      f32x16 row = a[i];
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) acc[i][j] = __builtin_elementwise_fma(row, column[j], acc[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < ROWS; i++)
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) *(f32x16*)(d + offset(i) + 16 * j) = acc[i][j];
}

#ifdef __AVX512F__
constexpr int BLOCK_VECTORS = 16;  // accumulators kept in registers: half of the 32
#else
constexpr int BLOCK_VECTORS = 4;  // a vector of 16 takes two of the 16 registers
#endif

// Rows of a block that are multiplied at a time, and where a row lies in the block's registers.
template <int N> constexpr int ROWS_AT_A_TIME = N == 16 ? BLOCK_VECTORS : BLOCK_VECTORS / 2 < 4 ? 4 : BLOCK_VECTORS / 2;
template <int N> static inline int row_offset(int i) {
  return N == 16 ? i % 4 * WAVE + i / 4 * 16 : (i / 8 * 4 + i % 4) * WAVE + i / 4 % 2 * 32;
}

// D = A*B + C on one block. a, b: [depth][N]; c, d in register layout, distinct or equal. done: rows, ROWS_AT_A_TIME for a
// bit, that have their result.
template <int N>
__attribute__((always_inline)) static inline void multiply(const float* a, const float* b, int depth, const float* c,
                                                           float* d, u32 done = 0) {
  if constexpr (N == 32) {
    constexpr int ROWS = ROWS_AT_A_TIME<N>, COLUMNS = BLOCK_VECTORS / ROWS;
    for (int i0 = 0; i0 < 32; i0 += ROWS, done >>= 1)
      for (int j0 = 0; j0 < 32 && !(done & 1); j0 += 16 * COLUMNS) {
        auto offset = [=](int i) { return row_offset<N>(i0 + i) + j0; };
        multiply_block<32, ROWS, COLUMNS>(a + i0, b + j0, depth, c, d, offset);
      }
  } else if constexpr (N == 16) {
    for (int i0 = 0; i0 < 16; i0 += BLOCK_VECTORS, done >>= 1) {
      if (done & 1) continue;
      auto offset = [=](int i) { return row_offset<N>(i0 + i); };
      multiply_block<16, BLOCK_VECTORS, 1>(a + i0, b, depth, c, d, offset);
    }
  } else {  // sixteen blocks of 4x4 side by side: a, b are [depth][lane]
    for (int r = 0; r < 4; r++)
      for (int l = 0; l < WAVE; l++) {
        float x = c[r * WAVE + l];
        for (int k = 0; k < depth; k++) x = __builtin_fmaf(a[k * WAVE + l / 4 * 4 + r], b[k * WAVE + l], x);
        d[r * WAVE + l] = x;
      }
  }
}

// Source C: the registers themselves, or `tmp` ([registers][64]) where it is a constant or lies askew over D,
// whose early rows would overwrite C's late ones.
static inline const u32* accumulator(Wave& w, const Operand& c, const Operand& d, u32* tmp, int registers) {
  if (c.kind == VGPR) {
    int distance = (int)c.reg - (int)d.reg;
    if (distance == 0 || distance >= registers || -distance >= registers) return w.vreg(c.reg);
    memcpy(tmp, w.vreg(c.reg), (size_t)registers * WAVE * 4);
    return tmp;
  }
  u32 x = scalar32(w, c);
  for (int i = 0; i < registers * WAVE; i++) tmp[i] = x;
  return tmp;
}

// Source lane of B's lanes under BLGP: broadcast half or quarter of the wave, or rotate by 16 lanes.
static inline int blgp_lane(int blgp, int lane) {
  switch (blgp) {
    case 0: return lane;
    case 1: return lane % 32;
    case 2: return 32 + lane % 32;
    case 3: return (lane + 16) % WAVE;
    default: return lane % 16 + 16 * (blgp - 4);
  }
}

// A's registers under CBSZ and ABID: blocks of `width` lanes, in runs of 2^cbsz, read block `abid` of their
// run.
static inline const u32* broadcast_a(const Inst& in, const u32* v, int registers, int width, u32* tmp) {
  if (!in.cbsz) return v;
  int run = width << in.cbsz;
  for (int r = 0; r < registers; r++)
    for (int i = 0; i < WAVE; i++) tmp[r * WAVE + i] = v[r * WAVE + i / run * run + in.abid * width + i % width];
  return tmp;
}
static inline const u32* permute_b(const Inst& in, const u32* v, int registers, u32* tmp) {
  if (!in.blgp) return v;
  for (int r = 0; r < registers; r++)
    for (int i = 0; i < WAVE; i++) tmp[r * WAVE + i] = v[r * WAVE + blgp_lane(in.blgp, i)];
  return tmp;
}

// The same, where it is seldom asked for: one copy of the code.
template <int N>
__attribute__((noinline, cold)) static void multiply_seldom(const float* a, const float* b, int depth, const float* c,
                                                            float* d) {
  multiply<N>(a, b, depth, c, d);
}

static inline bool infinite(float x) { return (bits(x) & 0x7fffffff) == 0x7f800000; }
static inline float largest(float sign) { return as_f32((bits(sign) & 0x80000000) | 0x7f7fffff); }

// MODE.FP16_OVFL: sums that left f32's range become the largest f32 of their sign; what came of an infinite operand stays
// (CDNA4 ISA, rules of dense matrix instructions). c: as it was before.
template <int N, int BLOCKS>
__attribute__((noinline, cold)) static void clamp_overflow(const float* a, const float* b, int depth, const float* c,
                                                           float* d) {
  constexpr int SIZE = N * N * BLOCKS, WIDTH = N == 4 ? WAVE : N;
  bool any = false;
  for (int i = 0; i < SIZE; i++) any |= infinite(d[i]);
  if (!any) return;
  // How many infinite operands each sum has had, in the layout of D.
  alignas(64) float count[SIZE] = {};
  float* of_a = (float*)allocate(sizeof(float) * 3 * depth * WIDTH);
  float *of_b = of_a + depth * WIDTH, *ones = of_b + depth * WIDTH;
  for (int block = 0; block < (N == 4 ? 1 : BLOCKS); block++) {
    for (int i = 0; i < depth * WIDTH; i++) {
      of_a[i] = infinite(a[block * depth * WIDTH + i]);
      of_b[i] = infinite(b[block * depth * WIDTH + i]);
      ones[i] = 1;
    }
    float* at = count + (N == 4 ? 0 : block * N * N);
    multiply_seldom<N>(of_a, ones, depth, at, at);
    multiply_seldom<N>(ones, of_b, depth, at, at);
  }
  free(of_a);
  for (int i = 0; i < SIZE; i++)
    if (infinite(d[i]) && !infinite(c[i]) && count[i] == 0) d[i] = largest(d[i]);
}

// D = A*B + C over all blocks, A and B from the instruction's registers. REGISTERS: of A and of B, each. done: as above, the
// blocks' one behind the other.
template <int N, int BLOCKS, int REGISTERS, class FA, class FB>
static inline void tile_product(Wave& w, const Inst& in, const float* c, float* d, u32 done = 0) {
  constexpr int RUN = REGISTERS * (32 / FA::BITS), WIDTH = N == 4 ? WAVE : N;  // RUN: k that one lane holds
  constexpr int DEPTH = BLOCKS > 1 ? RUN : RUN * (WAVE / N);
  alignas(64) float a[RUN * WAVE], b[RUN * WAVE];
  alignas(64) u32 moved[REGISTERS * WAVE];
  load_tile<FA, N>(broadcast_a(in, w.vreg(in.src[0].reg), REGISTERS, N, moved), REGISTERS, a);
  load_tile<FB, N>(permute_b(in, w.vreg(in.src[1].reg), REGISTERS, moved), REGISTERS, b);
  if constexpr (same<FA, F32>) {
    if (__builtin_expect(!(w.mode & F32_DENORMALS), 0)) {  // CDNA3 ISA 7.4: of A and B; C and D keep theirs
      for (float& x : a) x = flushed(x);
      for (float& x : b) x = flushed(x);
    }
  }
  constexpr int SIZE = N * N * BLOCKS;
  bool clamps = !same<FA, I8> && __builtin_expect(w.mode & FP16_OVFL, 0);
  alignas(64) float before[SIZE];
  if (clamps) memcpy(before, c, sizeof before);
  if constexpr (N == 4) multiply<4>(a, b, DEPTH, c, d);
  else
    for (int block = 0; block < BLOCKS; block++) {
      int at = block * N * N, from = block * DEPTH * WIDTH;
      multiply<N>(a + from, b + from, DEPTH, c + at, d + at, done >> block * (N / ROWS_AT_A_TIME<N>));
    }
  if (clamps) clamp_overflow<N, BLOCKS>(a, b, DEPTH, before, d);
}

template <int N, int BLOCKS> constexpr int D_REGISTERS = N * N * BLOCKS / WAVE;
