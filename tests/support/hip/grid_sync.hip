#include "check.h"
#include <hip/hip_cooperative_groups.h>

namespace cg = cooperative_groups;

// Every block adds to the cell of the next one, between barriers of the grid: wrong if any block is a step
// ahead.
__global__ void relay(int* cells, int rounds) {
  cg::grid_group grid = cg::this_grid();
  for (int r = 0; r < rounds; r++) {
    int mine = cells[blockIdx.x];
    grid.sync();
    if (threadIdx.x == 0) cells[(blockIdx.x + 1) % gridDim.x] = mine + 1;
    grid.sync();
  }
}
// The same with global wave sync: the last argument of a barrier is its number, the first how many waves pass it, less one.
__global__ void prepare_wave_sync(int waves) { __builtin_amdgcn_ds_gws_init(waves - 1, 2); }
__global__ void relay_by_wave_sync(int* cells, int rounds) {
  for (int r = 0; r < rounds; r++) {
    int mine = __hip_atomic_load(cells + blockIdx.x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __builtin_amdgcn_ds_gws_barrier(2 * gridDim.x - 1, 2);
    if (threadIdx.x == 0)
      __hip_atomic_store(cells + (blockIdx.x + 1) % gridDim.x, mine + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __builtin_amdgcn_ds_gws_barrier(2 * gridDim.x - 1, 2);
  }
}
__global__ void block_sum(const int* in, int* out) {
  __shared__ int sum;
  cg::thread_block block = cg::this_thread_block();
  if (block.thread_rank() == 0) sum = 0;
  block.sync();
  cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
  int x = in[block.thread_rank()];
  for (int d = 16; d; d /= 2) x += tile.shfl_down(x, d);
  if (tile.thread_rank() == 0) atomicAdd(&sum, x);
  block.sync();
  if (block.thread_rank() == 0) *out = sum;
}

int main() {
  const int blocks = 300, rounds = 3;  // more than one host thread holds otherwise
  std::vector<int> cells(blocks);
  for (int i = 0; i < blocks; i++) cells[i] = i * 10;
  DeviceArray<int> dc(cells);
  int n = rounds;
  void* arguments[] = {&dc.data, &n};
  OK(hipLaunchCooperativeKernel((const void*)relay, dim3(blocks), dim3(64), arguments, 0, nullptr));
  std::vector<int> got = dc.host();
  for (int i = 0; i < blocks; i++) EXPECT(got[(i + rounds) % blocks] == i * 10 + rounds);

  hipError_t too_large = hipLaunchCooperativeKernel((const void*)relay, dim3(1 << 20), dim3(64), arguments, 0, nullptr);
  EXPECT(too_large == hipErrorCooperativeLaunchTooLarge && hipGetLastError() == too_large);

  const int few = 24;
  DeviceArray<int> synced(std::vector<int>(cells.begin(), cells.begin() + few));
  prepare_wave_sync<<<1, 1>>>(2 * few);
  relay_by_wave_sync<<<few, 128>>>(synced.data, rounds);
  got = synced.host();
  for (int i = 0; i < few; i++) EXPECT(got[(i + rounds) % few] == i * 10 + rounds);

  std::vector<int> x(256);
  int want = 0;
  for (int i = 0; i < 256; i++) want += x[i] = hashed(i) % 50;
  DeviceArray<int> dx(x), sum(1);
  block_sum<<<1, 256>>>(dx.data, sum.data);
  EXPECT(sum.host()[0] == want);
}
