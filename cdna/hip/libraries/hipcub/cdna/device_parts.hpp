// What the operations of a whole device share: their temporary storage, and a sum's prefixes.
#pragma once

#include <hipcub/block/block_scan.hpp>

namespace hipcub::cdna {

constexpr int BLOCK = 256;

__host__ __device__ inline unsigned divided_up(unsigned n, unsigned by) { return n / by + (n % by != 0); }

// The parts of temporary storage, one behind the other.
class Storage {
 public:
  explicit Storage(void* base) : base_(static_cast<char*>(base)) {}
  template <typename T> T* part(size_t count) {
    size_t at = bytes_;
    bytes_ += (count * sizeof(T) + 255) / 256 * 256;
    return reinterpret_cast<T*>(base_ + at);
  }
  // Whether the call only asks how much is wanted, or gives too little: then it ends with `error`.
  bool ends_call(size_t& given, hipError_t& error) {
    size_t wanted = bytes_ ? bytes_ : 1;
    error = base_ && given < wanted ? hipErrorInvalidValue : hipSuccess;
    if (!base_) given = wanted;
    return !base_ || error != hipSuccess;
  }

 private:
  char* base_;
  size_t bytes_ = 0;
};

inline hipError_t launched(bool synchronous, hipStream_t stream) {
  hipError_t error = hipGetLastError();
  return error == hipSuccess && synchronous ? hipStreamSynchronize(stream) : error;
}

// values[i] becomes what the operator makes of `first`, if there is one, and all values before i. By one block; without
// a first one values[0] becomes nothing in particular.
template <typename T, typename Op>
__global__ __launch_bounds__(BLOCK) void to_prefixes(T* values, unsigned n, Op op, bool has_first, T first) {
  __shared__ typename BlockScan<T, BLOCK>::TempStorage storage;
  T sum = first;
  bool has_sum = has_first;
  for (unsigned at = 0; at < n; at += BLOCK) {
    unsigned i = at + threadIdx.x;
    T value = values[min(i, n - 1)], before, total;  // what is beyond the end comes after all that counts
    BlockScan<T, BLOCK>(storage).ExclusiveScan(value, before, op, total);
    if (i < n) values[i] = !has_sum ? before : threadIdx.x ? op(sum, before) : sum;
    sum = has_sum ? op(sum, total) : total;
    has_sum = true;
    __syncthreads();
  }
}

}  // namespace hipcub::cdna
