// One launch of bf16_gemm.h's parts on plain matrices, on gfx942: what test_bf16_gemm_hip.py runs.
#include <hip/hip_runtime.h>

#include "bf16_gemm_gfx942.h"
#include "bf16_gemm_kernel.h"

template __global__ void gemm_kernel<GemmTile<256, 256, 2, 4, 1>>(GemmArgs);
template __global__ void gemm_kernel<GemmTile<128, 256, 2, 4, 1>>(GemmArgs);
template __global__ void gemm_kernel<GemmTile<128, 128, 2, 2, 2>>(GemmArgs);
template __global__ void gemm_kernel<GemmTile<64, 128, 2, 2, 2>>(GemmArgs);
template __global__ void gemm_kernel<GemmTile<64, 64, 2, 1, 4>>(GemmArgs);

// out[0][thread]: where a thread writes its chunk of a stage; out[1 + step][thread], lanes of one wave: where it reads its
// fragment; out[3 + i]: writes of a row turn's eight halves of chunks, out[11 + i]: its reads; out[15]: as out[0], whole lines.
__global__ void lds_addresses(int* out) {
  using Wave = WaveTile<64, 64>;
  const int thread = threadIdx.x;
  out[thread] = PairLoader<64, 64>(nullptr, 64, 64, thread).lds_at;
  for (int step = 0; step < 2; ++step)
    out[(1 + step) * 64 + thread] = stage_offset(Wave::fragment_row(thread), Wave::fragment_chunk(thread, step));
  for (int i = 0; i < 8; ++i) out[(3 + i) * 64 + thread] = Wave::turn_write_offset(thread, i);
  for (int i = 0; i < 4; ++i) out[(11 + i) * 64 + thread] = Wave::turn_read_offset(thread, i);
  out[15 * 64 + thread] = LineLoader<64, 64>(nullptr, 64, 64, thread).lds_at;
}
