// bf16 matrix instructions by the host's products of bf16 pairs: two multiply-adds in one, of registers as they are.
//
// vdpbf16ps adds the product of the upper halves, then that of the lower, each rounded to nearest even: the halves change
// places here, so that k comes in order. Where it may differ from two fused multiply-adds, mfma.h multiplies: it takes and
// gives 0 for denormals of f32, and what it makes of infinities and NaN nobody has promised.
#pragma once
#include "mfma.h"
#include "mfma_joined.h"
#include "memory.h"

template <int N, int BLOCKS> constexpr u32 ALL_PIECES = (1u << BLOCKS * (N / ROWS_AT_A_TIME<N>)) - 1;

#ifdef __AVX512BF16__
#include <immintrin.h>

typedef u16 u16x32 __attribute__((ext_vector_type(32)));
typedef bool bool32 __attribute__((ext_vector_type(32)));

// Exponents that no denormal, and no infinity, can come of. A product of operands is 0 or a multiple of
// 2^(2*(71-127-7)) = 2^-126, so is an addend (2^(24-127-23)), and so each sum. From above they leave room for 2^15 products.
constexpr u32 LEAST_OPERAND = 71, MOST_OPERAND = 127 + 48, LEAST_ADDEND = 24, MOST_ADDEND = 127 + 112;

// Numbers' sizes, as twice their codes: without the sign, and less 1 where 0 is to be no small number.
template <class V> struct Sizes {
  V least = (V)0 - 1, most = (V)0;
  void add(V codes) {
    V doubled = codes << 1;
    least = __builtin_elementwise_min(least, doubled - 1);
    most = __builtin_elementwise_max(most, doubled);
  }
};
static inline bool plain(const Sizes<u16x32>& s) {
  auto odd = s.least<(u16)((LEAST_OPERAND << 8) - 1) | s.most>(u16)(MOST_OPERAND << 8);
  return !__builtin_bit_cast(u32, __builtin_convertvector(odd, bool32));
}
static inline bool plain(const Sizes<u32x16>& s) {
  auto odd = s.least<(LEAST_ADDEND << 24) - 1 | s.most> MOST_ADDEND << 24;
  return !__builtin_bit_cast(u16, __builtin_convertvector(odd, bool16));
}

template <int REGISTERS> static inline void exchange_halves(const u32* v, u32* out, Sizes<u16x32>& sizes) {
  for (int i = 0; i < REGISTERS * WAVE; i += 16) {
    u32x16 x = peek<u32x16>(v + i);
    sizes.add(__builtin_bit_cast(u16x32, x));
    poke(out + i, x << 16 | x >> 16);
  }
}

static inline f32x16 add_pairs(f32x16 sum, u32x16 a, u32x16 b) {
  return _mm512_dpbf16_ps(sum, __builtin_bit_cast(__m512bh, a), __builtin_bit_cast(__m512bh, b));
}

// Whether C's rows hold such addends: asked only where not all have exponents of 64 to 191, as nearly all sums have.
template <int ROWS, int COLUMNS, class Offset>
__attribute__((noinline, cold)) static bool plain_addends(const float* c, Offset offset) {
  Sizes<u32x16> sizes;
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLUMNS; j++) sizes.add(peek<u32x16>(c + offset(i) + 16 * j));
  return plain(sizes);
}
template <int ROWS, int COLUMNS> static inline bool middling(const f32x16 (&c)[ROWS][COLUMNS]) {
  u32x16 all = ~(u32x16)0;  // bit 30: the exponent's upper two bits differ
#pragma unroll
  for (int i = 0; i < ROWS; i++)
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
      u32x16 x = __builtin_bit_cast(u32x16, c[i][j]);
      all &= x ^ x << 1;
    }
  auto other = (all & 1u << 30) == 0;
  return !__builtin_bit_cast(u16, __builtin_convertvector(other, bool16));
}

// As multiply_block of mfma.h, of n products; `at(pair)` is where a pair of k lies in a and in b, which take SIZE dwords a
// product. False, and nothing done: C is not plain.
template <int ROWS, int COLUMNS, int PAIRS, int SIZE, class At, class Offset>
__attribute__((always_inline)) static inline bool multiply_pairs_block(const u32* a, const u32* b, int n,
                                                                       const float* c, float* d, At at, Offset offset) {
  f32x16 sum[ROWS][COLUMNS];
#pragma unroll
  for (int i = 0; i < ROWS; i++)
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) sum[i][j] = *(const f32x16*)(c + offset(i) + 16 * j);
  if (__builtin_expect(!middling(sum), 0) && !plain_addends<ROWS, COLUMNS>(c, offset)) return false;
  for (int product = 0; product < n; product++, a += SIZE, b += SIZE)
#pragma unroll
    for (int pair = 0; pair < PAIRS; pair++) {
      u32x16 column[COLUMNS];
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) column[j] = peek<u32x16>(b + at(pair) + 16 * j);
#pragma unroll
      for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) sum[i][j] = add_pairs(sum[i][j], column[j], (u32x16)a[at(pair) + i]);
    }
#pragma unroll
  for (int i = 0; i < ROWS; i++)
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) *(f32x16*)(d + offset(i) + 16 * j) = sum[i][j];
  return true;
}

// Whether this CPU adds as we say: sums that depend on the order, and on each rounding.
static bool adds_in_two_steps() {
  u64 seed = 1;
  auto random = [&] { return (u32)(seed = mixed(seed)); };
  auto bf16 = [&] { return (random() & 0x83ff) + 0x3c00; };  // 2^-7 to 2
  for (int trial = 0; trial < 256; trial++) {
    u32x16 a, b, c, wanted;
    for (int i = 0; i < 16; i++) {
      a[i] = bf16() << 16 | bf16();
      b[i] = bf16() << 16 | bf16();
      c[i] = bf16() << 16 | random() & 0xffff;
      float high = __builtin_fmaf(as_f32(a[i] & 0xffff0000), as_f32(b[i] & 0xffff0000), as_f32(c[i]));
      wanted[i] = bits(__builtin_fmaf(as_f32(a[i] << 16), as_f32(b[i] << 16), high));
    }
    f32x16 sum = add_pairs(__builtin_bit_cast(f32x16, c), a, b);
    if (memcmp(&sum, &wanted, sizeof sum)) return false;
  }
  return true;
}
static const bool has_two_steps = adds_in_two_steps();

// D = A*B + C over all blocks, of n products that follow each other, but for rows whose numbers ask for another way:
// returns those done, as tile_product takes them.
template <int N, int BLOCKS, int REGISTERS>
__attribute__((always_inline)) static inline u32 multiply_pairs(Wave& w, const Inst* in, int n, const float* c,
                                                                float* d) {
  constexpr int PAIRS = BLOCKS > 1 ? REGISTERS : REGISTERS * (WAVE / N), SIZE = REGISTERS * WAVE;
  constexpr int ROWS = ROWS_AT_A_TIME<N>, COLUMNS = N / 16;
  if (!has_two_steps || (w.mode & FP16_OVFL)) return 0;
  alignas(64) u32 a[MOST_JOINED * SIZE], b[MOST_JOINED * SIZE], moved[SIZE];
  Sizes<u16x32> sizes;
  for (int i = 0; i < n; i++, in += in->offset1) {
    exchange_halves<REGISTERS>(broadcast_a(*in, w.vreg(in->src[0].reg), REGISTERS, N, moved), a + i * SIZE, sizes);
    exchange_halves<REGISTERS>(permute_b(*in, w.vreg(in->src[1].reg), REGISTERS, moved), b + i * SIZE, sizes);
  }
  if (!plain(sizes)) return 0;
  asm volatile(""
               :
               : "r"(a), "r"(b)
               : "memory");  // a broadcast from memory costs nothing, one from registers two shuffles
  u32 done = 0;
  for (int block = 0, piece = 0; block < BLOCKS; block++, c += N * N, d += N * N) {
    auto at = [=](int pair) { return pair % REGISTERS * WAVE + (block + pair / REGISTERS) * N; };
    for (int i0 = 0; i0 < N; i0 += ROWS, piece++) {
      auto offset = [=](int i) { return row_offset<N>(i0 + i); };
      done |= (u32)multiply_pairs_block<ROWS, COLUMNS, PAIRS, SIZE>(a + i0, b, n, c, d, at, offset) << piece;
    }
  }
  return done;
}
#else
constexpr bool has_two_steps = false;
template <int N, int BLOCKS, int REGISTERS>
static inline u32 multiply_pairs(Wave&, const Inst*, int, const float*, float*) {
  return 0;
}
#endif
