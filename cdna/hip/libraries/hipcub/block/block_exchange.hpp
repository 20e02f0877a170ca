// The values of a block's threads in another arrangement.
#pragma once

#include <hipcub/util_type.hpp>

namespace hipcub {

template <typename T, int BLOCK_DIM_X, int ITEMS_PER_THREAD, bool WARP_TIME_SLICING = false, int BLOCK_DIM_Y = 1,
          int BLOCK_DIM_Z = 1, int ARCH = HIPCUB_ARCH>
class BlockExchange {
  static constexpr int THREADS = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z, ITEMS = ITEMS_PER_THREAD;

 public:
  struct TempStorage {
    Uninitialized<T[THREADS * ITEMS]> items;
  };
  __device__ BlockExchange(TempStorage& storage) : items_(storage.items.Alias()) {}
  __device__ BlockExchange() : items_(own().items.Alias()) {}

  template <typename U> __device__ void BlockedToStriped(const T (&in)[ITEMS], U (&out)[ITEMS]) {
    move(in, out, [](int thread, int i) { return thread * ITEMS + i; }, striped);
  }
  template <typename U> __device__ void StripedToBlocked(const T (&in)[ITEMS], U (&out)[ITEMS]) {
    move(in, out, striped, [](int thread, int i) { return thread * ITEMS + i; });
  }
  template <typename U, typename Offset>
  __device__ void ScatterToBlocked(const T (&in)[ITEMS], U (&out)[ITEMS], const Offset (&ranks)[ITEMS]) {
    move(in, out, [&](int, int i) { return int(ranks[i]); }, [](int thread, int i) { return thread * ITEMS + i; });
  }
  template <typename U, typename Offset>
  __device__ void ScatterToStriped(const T (&in)[ITEMS], U (&out)[ITEMS], const Offset (&ranks)[ITEMS]) {
    move(in, out, [&](int, int i) { return int(ranks[i]); }, striped);
  }
  __device__ void BlockedToStriped(T (&items)[ITEMS]) { BlockedToStriped(items, items); }
  __device__ void StripedToBlocked(T (&items)[ITEMS]) { StripedToBlocked(items, items); }
  template <typename Offset> __device__ void ScatterToBlocked(T (&items)[ITEMS], const Offset (&ranks)[ITEMS]) {
    ScatterToBlocked(items, items, ranks);
  }
  template <typename Offset> __device__ void ScatterToStriped(T (&items)[ITEMS], const Offset (&ranks)[ITEMS]) {
    ScatterToStriped(items, items, ranks);
  }

 private:
  __device__ static int striped(int thread, int i) { return thread + i * THREADS; }
  __device__ static TempStorage& own() {
    __shared__ TempStorage storage;
    return storage;
  }
  // from, to: the place in shared memory of a thread's i-th value before and after.
  template <typename U, typename From, typename To>
  __device__ void move(const T (&in)[ITEMS], U (&out)[ITEMS], From from, To to) {
    int thread = cdna::thread_in_block<BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z>();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) items_[from(thread, i)] = in[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) out[i] = items_[to(thread, i)];
  }
  T* items_;
};

}  // namespace hipcub
