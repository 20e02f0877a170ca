// The barrier and the flags of symmetric_heap.h, timed from inside: built by hipcc or nvcc to a shared library.
#ifdef __NVCC__
#include "hopper/common/peer_signals.h"
#else
#include <hip/hip_runtime.h>
#include "../kernels/common/peer_signals_gfx942.h"
#endif

__global__ void barriers(const long long* table, int rank, int world_size, int epoch, int count, Patience patience,
                         long long* took) {
  barrier_all_ranks(table, 0, rank, world_size, epoch, patience, 2);
  const long long start = clock_ticks();
  for (int i = 1; i < count; i++) barrier_all_ranks(table, 0, rank, world_size, epoch + i, patience, 2);
  if (threadIdx.x == 0) *took = clock_ticks() - start;
}

__global__ void ping_pong(const long long* table, int rank, int peer, int epoch, int count, Patience patience,
                          long long* took) {
  if (threadIdx.x != 0) return;
  const int* mine = reinterpret_cast<const int*>(table[rank]);
  int* theirs = reinterpret_cast<int*>(table[peer]);
  const long long start = clock_ticks();
  for (int i = 0; i < count; i++) {
    if (rank > peer) wait_flag(mine, epoch + i, patience, 3, peer);
    release_system();
    store_flag(theirs, epoch + i);
    if (rank < peer) wait_flag(mine, epoch + i, patience, 3, peer);
  }
  *took = clock_ticks() - start;
}

extern "C" void run_barriers(long long table, int rank, int world_size, int epoch, int count, long long alarm,
                             long long timeout_ticks, long long took) {
  barriers<<<1, 256>>>(reinterpret_cast<const long long*>(table), rank, world_size, epoch, count,
                       Patience{alarm, timeout_ticks}, reinterpret_cast<long long*>(took));
}

extern "C" void run_ping_pong(long long table, int rank, int peer, int epoch, int count, long long alarm,
                              long long timeout_ticks, long long took) {
  ping_pong<<<1, 64>>>(reinterpret_cast<const long long*>(table), rank, peer, epoch, count,
                       Patience{alarm, timeout_ticks}, reinterpret_cast<long long*>(took));
}
