// Cooperative groups (ROCm documentation, "Cooperative groups"): blocks, the grid, tiles of a wave, and the lanes
// that are active together. A tile's lanes run in one wave, so its sync() only keeps the compiler from reordering.
#pragma once

#include <hip/hip_runtime.h>
#include <type_traits>

#define CDNA_CG inline __attribute__((device, always_inline))

namespace cooperative_groups {

typedef unsigned long long __cdna_mask;

CDNA_CG unsigned int __cdna_lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }
CDNA_CG unsigned int __cdna_rank_in_block() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
CDNA_CG unsigned int __cdna_threads_in_block() { return blockDim.x * blockDim.y * blockDim.z; }
CDNA_CG void __cdna_wave_sync() {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
}

// Any group: what a function takes that does not care which. Which kind it is, is known only as the program runs.
class thread_group {
 public:
  CDNA_CG unsigned int size() const { return size_; }
  CDNA_CG unsigned int num_threads() const { return size_; }
  CDNA_CG unsigned int thread_rank() const {
    switch (kind_) {
      case kind::block: return __cdna_rank_in_block();
      case kind::tile: return __cdna_lane() & (size_ - 1);
      case kind::lanes: return (unsigned int)__popcll(mask_ & ((1ull << __cdna_lane()) - 1));
      default: return grid_rank();
    }
  }
  CDNA_CG bool is_valid() const { return kind_ != kind::grid || __ockl_grid_is_valid(); }
  CDNA_CG void sync() const {
    if (kind_ == kind::block) __syncthreads();
    else if (kind_ == kind::grid) __ockl_grid_sync();
    else __cdna_wave_sync();
  }

 protected:
  enum class kind { block, grid, tile, lanes };
  CDNA_CG thread_group(kind kind_of, unsigned int size, __cdna_mask mask = 0)
      : kind_(kind_of), size_(size), mask_(mask) {}
  static CDNA_CG unsigned int grid_rank() {
    unsigned int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    return block * __cdna_threads_in_block() + __cdna_rank_in_block();
  }
  kind kind_;
  unsigned int size_;
  __cdna_mask mask_;  // of lanes: those in the group
  friend CDNA_CG thread_group tiled_partition(const thread_group& parent, unsigned int size);
};

class thread_block : public thread_group {
 public:
  static CDNA_CG unsigned int size() { return __cdna_threads_in_block(); }
  static CDNA_CG unsigned int num_threads() { return __cdna_threads_in_block(); }
  static CDNA_CG unsigned int thread_rank() { return __cdna_rank_in_block(); }
  static CDNA_CG dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  static CDNA_CG dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  static CDNA_CG dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  static CDNA_CG dim3 dim_threads() { return group_dim(); }
  static CDNA_CG bool is_valid() { return true; }
  static CDNA_CG void sync() { __syncthreads(); }

 private:
  CDNA_CG thread_block() : thread_group(kind::block, __cdna_threads_in_block()) {}
  friend CDNA_CG thread_block this_thread_block();
};
CDNA_CG thread_block this_thread_block() { return thread_block(); }

// Its sync() needs a cooperative launch (hipLaunchCooperativeKernel): all blocks are then resident together.
class grid_group : public thread_group {
 public:
  CDNA_CG unsigned long long size() const {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z * __cdna_threads_in_block();
  }
  CDNA_CG unsigned long long num_threads() const { return size(); }
  CDNA_CG unsigned int num_blocks() const { return gridDim.x * gridDim.y * gridDim.z; }
  CDNA_CG unsigned int thread_rank() const { return grid_rank(); }
  CDNA_CG unsigned int block_rank() const { return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
  CDNA_CG dim3 group_dim() const { return dim3(gridDim.x, gridDim.y, gridDim.z); }
  CDNA_CG dim3 dim_blocks() const { return group_dim(); }
  CDNA_CG bool is_valid() const { return __ockl_grid_is_valid(); }
  CDNA_CG void sync() const { __ockl_grid_sync(); }

 private:
  CDNA_CG grid_group() : thread_group(kind::grid, gridDim.x * gridDim.y * gridDim.z * __cdna_threads_in_block()) {}
  friend CDNA_CG grid_group this_grid();
};
CDNA_CG grid_group this_grid() { return grid_group(); }

// The lanes that were active when the group was made. Values that are exchanged come by reference, for often only the lane
// that gives one has set it: of a parameter that is copied the compiler concludes that every lane has.
class coalesced_group : public thread_group {
 public:
  CDNA_CG unsigned int size() const { return size_; }
  CDNA_CG unsigned int num_threads() const { return size_; }
  CDNA_CG unsigned int thread_rank() const { return rank_of(__cdna_lane()); }
  CDNA_CG void sync() const { __cdna_wave_sync(); }
  template <class T> CDNA_CG T shfl(const T& value, int rank) const {
    return __shfl(value, lane_of((unsigned int)rank % size_));
  }
  // Beyond the group's ends a thread keeps its own value.
  template <class T> CDNA_CG T shfl_down(const T& value, unsigned int delta) const {
    unsigned int rank = thread_rank() + delta;
    return __shfl(value, rank < size_ ? lane_of(rank) : (int)__cdna_lane());
  }
  template <class T> CDNA_CG T shfl_up(const T& value, unsigned int delta) const {
    unsigned int rank = thread_rank();
    return __shfl(value, rank >= delta ? lane_of(rank - delta) : (int)__cdna_lane());
  }
  CDNA_CG unsigned long long ballot(int predicate) const {
    __cdna_mask said = __ballot(predicate) & mask_, packed = 0;
    for (unsigned int rank = 0; rank < size_; ++rank) packed |= (said >> lane_of(rank) & 1) << rank;
    return packed;
  }
  CDNA_CG int any(int predicate) const { return (__ballot(predicate) & mask_) != 0; }
  CDNA_CG int all(int predicate) const { return (__ballot(predicate) & mask_) == mask_; }

 private:
  explicit CDNA_CG coalesced_group(__cdna_mask mask) : thread_group(kind::lanes, (unsigned int)__popcll(mask), mask) {}
  CDNA_CG unsigned int rank_of(unsigned int lane) const { return (unsigned int)__popcll(mask_ & ((1ull << lane) - 1)); }
  CDNA_CG int lane_of(unsigned int rank) const {
    __cdna_mask left = mask_;
    for (unsigned int i = 0; i < rank; ++i) left &= left - 1;
    return __ffsll((long long)left) - 1;
  }
  friend CDNA_CG coalesced_group coalesced_threads();
  friend CDNA_CG coalesced_group binary_partition(const coalesced_group& group, bool predicate);
};
CDNA_CG coalesced_group coalesced_threads() { return coalesced_group(__builtin_amdgcn_read_exec()); }
CDNA_CG coalesced_group binary_partition(const coalesced_group& group, bool predicate) {
  __cdna_mask yes = __ballot(predicate) & group.mask_;
  return coalesced_group(predicate ? yes : group.mask_ & ~yes);
}

// Size threads side by side in a wave, Size a power of two up to 64.
template <unsigned int Size, class Parent = void> class thread_block_tile : public thread_group {
  static_assert(Size > 0 && Size <= 64 && (Size & (Size - 1)) == 0, "a tile has 1, 2, 4, ... 64 threads");

 public:
  static constexpr unsigned int numThreads = Size;
  explicit CDNA_CG thread_block_tile(unsigned int rank, unsigned int count)
      : thread_group(kind::tile, Size), rank_(rank), count_(count) {}
  template <class Other> CDNA_CG thread_block_tile(const thread_block_tile<Size, Other>& other)
      : thread_group(kind::tile, Size), rank_(other.meta_group_rank()), count_(other.meta_group_size()) {}
  static constexpr CDNA_CG unsigned int size() { return Size; }
  static constexpr CDNA_CG unsigned int num_threads() { return Size; }
  static CDNA_CG unsigned int thread_rank() { return __cdna_lane() & (Size - 1); }
  CDNA_CG unsigned int meta_group_rank() const { return rank_; }
  CDNA_CG unsigned int meta_group_size() const { return count_; }
  CDNA_CG void sync() const { __cdna_wave_sync(); }
  template <class T> CDNA_CG T shfl(const T& value, int rank) const { return __shfl(value, rank, (int)Size); }
  template <class T> CDNA_CG T shfl_down(const T& value, unsigned int delta) const {
    return __shfl_down(value, delta, (int)Size);
  }
  template <class T> CDNA_CG T shfl_up(const T& value, unsigned int delta) const {
    return __shfl_up(value, delta, (int)Size);
  }
  template <class T> CDNA_CG T shfl_xor(const T& value, unsigned int mask) const {
    return __shfl_xor(value, (int)mask, (int)Size);
  }
  CDNA_CG unsigned long long ballot(int predicate) const { return (__ballot(predicate) & lanes()) >> first(); }
  CDNA_CG int any(int predicate) const { return (__ballot(predicate) & lanes()) != 0; }
  // Of the threads that are there: the last wave of a block may be partly filled.
  CDNA_CG int all(int predicate) const {
    __cdna_mask present = __ballot(1) & lanes();
    return (__ballot(predicate) & present) == present;
  }

 private:
  CDNA_CG unsigned int first() const { return __cdna_lane() & ~(Size - 1); }
  CDNA_CG __cdna_mask lanes() const { return (Size == 64 ? ~0ull : (1ull << (Size & 63)) - 1) << first(); }
  unsigned int rank_, count_;
};

template <unsigned int Size, class Parent> CDNA_CG thread_block_tile<Size, Parent> tiled_partition(
    const Parent& parent) {
  unsigned int rank = parent.thread_rank() / Size, count = ((unsigned int)parent.size() + Size - 1) / Size;
  return thread_block_tile<Size, Parent>(rank, count);
}
CDNA_CG thread_group tiled_partition(const thread_group& parent, unsigned int size) {
  return thread_group(thread_group::kind::tile, size < parent.size() ? size : parent.size());
}

template <class Group> CDNA_CG void sync(const Group& group) { group.sync(); }
template <class Group> CDNA_CG unsigned int group_size(const Group& group) { return (unsigned int)group.size(); }
template <class Group> CDNA_CG unsigned int thread_rank(const Group& group) { return group.thread_rank(); }
template <class Group> CDNA_CG bool is_valid(const Group& group) { return group.is_valid(); }

// ---- reductions over a tile; every thread gets the result
template <class T = void> struct plus {
  template <class U> CDNA_CG U operator()(const U& a, const U& b) const { return a + b; }
};
template <class T = void> struct less {  // the smaller one
  template <class U> CDNA_CG U operator()(const U& a, const U& b) const { return b < a ? b : a; }
};
template <class T = void> struct greater {  // the greater one
  template <class U> CDNA_CG U operator()(const U& a, const U& b) const { return a < b ? b : a; }
};
template <unsigned int Size, class Parent, class T, class Op>
CDNA_CG T reduce(const thread_block_tile<Size, Parent>& tile, T value, Op op) {
  for (unsigned int step = Size / 2; step > 0; step /= 2) value = op(value, tile.shfl_xor(value, step));
  return value;
}

}  // namespace cooperative_groups

#undef CDNA_CG
