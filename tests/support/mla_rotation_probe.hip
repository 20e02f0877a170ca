// Rotates pairs of bf16 as mla_attention_gfx942.h does: see test_mla_decode_hip.py.
#include <hip/hip_runtime.h>

#include "mla_attention_gfx942.h"

// x, table, out: bf16 [positions][ROPE], the table's cosines first; a workgroup has a position, a thread a pair.
__global__ void rotate_tails(const unsigned short* x, const unsigned short* table, unsigned short* out) {
  const int low_at = blockIdx.x * ROPE + threadIdx.x, high_at = low_at + HALF_ROPE;
  float low = from_bf16(x[low_at]), high = from_bf16(x[high_at]);
  rotate(low, high, from_bf16(table[low_at]), from_bf16(table[high_at]));
  out[low_at] = __float_as_uint(low) >> 16;
  out[high_at] = __float_as_uint(high) >> 16;
}

// out[i][thread]: where in LDS a thread writes its rows of a tile (i = 0 .. 3), its columns (4, 5) and its pair (6, 7), and
// where a lane reads keys (8), and values (9).
__global__ void lds_addresses(AttentionArgs args, int* out) {
  const int thread = threadIdx.x, lane = thread % WAVE, half = thread / WAVE / 4;
  const TileLoader loader(args, 0, thread);
  const auto put = [&](int i, int at) { out[i * ATTENTION_THREADS + thread] = at; };
  for (int i = 0; i < 4; ++i) put(i, (loader.row_at ^ i * 16) + i * PITCH);
  for (int i = 0; i < 2; ++i) put(4 + i, loader.columns_at ^ i * 16), put(6 + i, loader.rotated_at ^ i * 64);
  put(8, row_offset(lane % 16, half * 4 + lane / 16));
  put(9, column_offset(lane / 16, half * BLOCKS * 16 + lane % 16));
}
