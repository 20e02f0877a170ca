// How many of a device's samples are in each bin.
#pragma once

#include <hipcub/cdna/device_parts.hpp>

namespace hipcub {
namespace cdna {

// Bins of the same width; -1: in none.
template <typename LevelT>
struct EvenBins {
  int bins;
  LevelT lower, upper;
  template <typename SampleT> __device__ int operator()(SampleT sample) const {
    LevelT x = LevelT(sample);
    if (!(x >= lower && x < upper)) return -1;
    if constexpr (std::is_integral_v<LevelT>) {
      return int(uint64_t(x - lower) * bins / uint64_t(upper - lower));
    } else {
      int bin = int((x - lower) * (LevelT(bins) / (upper - lower)));
      return bin < bins ? bin : bins - 1;
    }
  }
};
// Bin i from levels[i] on, up to levels[i + 1].
template <typename LevelT>
struct BinsBetween {
  int bins;
  const LevelT* levels;
  template <typename SampleT> __device__ int operator()(SampleT sample) const {
    LevelT x = LevelT(sample);
    if (!(x >= levels[0] && x < levels[bins])) return -1;
    int low = 0, high = bins;  // levels[low] <= x < levels[high]
    while (high - low > 1) {
      int middle = (low + high) / 2;
      (x < levels[middle] ? high : low) = middle;
    }
    return low;
  }
};

template <typename In, typename CounterT, typename Bins>
__global__ __launch_bounds__(BLOCK) void count_samples(In samples, unsigned n, CounterT* histogram, Bins bin_of) {
  for (unsigned i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) {
    int bin = bin_of(samples[i]);
    if (bin >= 0) atomicAdd(&histogram[bin], CounterT(1));
  }
}

template <typename In, typename CounterT, typename Bins>
hipError_t histogram(void* storage, size_t& bytes, In samples, CounterT* counts, unsigned n, Bins bin_of,
                     hipStream_t stream, bool synchronous) {
  hipError_t error;
  if (Storage(storage).ends_call(bytes, error)) return error;
  error = hipMemsetAsync(counts, 0, bin_of.bins * sizeof(CounterT), stream);
  unsigned blocks = divided_up(n, 4 * BLOCK) < 256 ? divided_up(n, 4 * BLOCK) : 256;
  if (error != hipSuccess || !blocks) return error;
  count_samples<<<blocks, BLOCK, 0, stream>>>(samples, n, counts, bin_of);
  return launched(synchronous, stream);
}

}  // namespace cdna

struct DeviceHistogram {
  template <typename SampleIteratorT, typename CounterT, typename LevelT, typename OffsetT>
  static hipError_t HistogramEven(void* d_temp_storage, size_t& temp_storage_bytes, SampleIteratorT d_samples,
                                  CounterT* d_histogram, int num_levels, LevelT lower_level, LevelT upper_level,
                                  OffsetT num_samples, hipStream_t stream = 0, bool debug_synchronous = false) {
    return cdna::histogram(d_temp_storage, temp_storage_bytes, d_samples, d_histogram, num_samples,
                           cdna::EvenBins<LevelT>{num_levels - 1, lower_level, upper_level}, stream, debug_synchronous);
  }
  template <typename SampleIteratorT, typename CounterT, typename LevelT, typename OffsetT>
  static hipError_t HistogramRange(void* d_temp_storage, size_t& temp_storage_bytes, SampleIteratorT d_samples,
                                   CounterT* d_histogram, int num_levels, const LevelT* d_levels, OffsetT num_samples,
                                   hipStream_t stream = 0, bool debug_synchronous = false) {
    return cdna::histogram(d_temp_storage, temp_storage_bytes, d_samples, d_histogram, num_samples,
                           cdna::BinsBetween<LevelT>{num_levels - 1, d_levels}, stream, debug_synchronous);
  }
};

}  // namespace hipcub
