// Writes the LDS addresses that fp8_mm_kernel uses, computed by its own functions: see test_fp8_mm_hip.py.
#include <hip/hip_runtime.h>

#include "fp8_mm_kernel_gfx942.h"

// out[i][thread], i < 4: where a thread writes its four granules, or halves of them, of a tile's operand
template <int ROWS, int THREADS>
__global__ void write_addresses(int* out) {
  Loader<ROWS, THREADS> loader(nullptr, ROWS, 0, 0, STAGE_K, threadIdx.x, 0);
  for (int i = 0; i < 4; ++i) out[i * THREADS + threadIdx.x] = loader.lds_offset[i];
}

// out[first_row / 32][lane]: where a wave reads its first fragment of the 32 rows at first_row
template <int ROWS>
__global__ void read_addresses(int* out) {
  for (int i = 0; i < ROWS / SUB; ++i) out[i * WAVE + threadIdx.x] = fragment_offset<ROWS>(i * SUB, threadIdx.x);
}

// out[0..7][lane]: writes of the eight chunks of c; out[8..11][lane]: reads
__global__ void turn_addresses(int* out) {
  const int lane = threadIdx.x;
  for (int chunk = 0; chunk < 8; ++chunk) out[chunk * WAVE + lane] = turn_write_offset(lane, chunk);
  for (int i = 0; i < 4; ++i) out[(8 + i) * WAVE + lane] = turn_read_offset(lane, i);
}

template __global__ void write_addresses<256, 512>(int*);
template __global__ void write_addresses<128, 512>(int*);
template __global__ void write_addresses<128, 256>(int*);
template __global__ void write_addresses<64, 128>(int*);
template __global__ void read_addresses<256>(int*);
template __global__ void read_addresses<128>(int*);
template __global__ void read_addresses<64>(int*);
