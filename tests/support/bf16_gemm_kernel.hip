// One launch of bf16_gemm.h's parts on plain matrices: what test_bf16_gemm_hip.py and benchmarks/bf16_gemm.py run.
#include <hip/hip_runtime.h>

#include <cstdint>
#include <stdexcept>

#include "bf16_gemm.h"
#include "bf16_in_turn_sm90.h"
#include "workgroup_order.h"

struct GemmArgs {
  const unsigned short *a, *w, *bias;  // bf16 [m, k], [n, k], [n] or null
  unsigned short* c;                   // bf16 [m, n]
  float* partial;                      // [tiles][split_k][BM * BN], where split_k > 1
  u32* arrived;                        // [tiles], zero between launches
  int m, n, k, split_k, group_rows;
  u32* tickets;  // of tiles in turn, zero between launches
};

template <class T>
__global__ __launch_bounds__(T::THREADS, T::RESIDENCY) void gemm_kernel(const GemmArgs args) {
  unsigned char* lds = workgroup_lds<T::LDS_BYTES>();
  const Place place;
  const int tile_rows = (args.m + T::BM - 1) / T::BM, tile_columns = (args.n + T::BN - 1) / T::BN;
  const int order = xcd_contiguous<XCDS>(blockIdx.x, tile_rows * tile_columns * args.split_k);
  const int tile = order / args.split_k, slice = order % args.split_k;
  const TilePlace at = grouped_rows(tile, tile_rows, tile_columns, args.group_rows);
  const int row = at.row * T::BM, column = at.column * T::BN;
  const int wave_row = place.wave / T::WAVES_N * T::WM, wave_column = place.wave % T::WAVES_N * T::WN;

  typename T::Wave::Sum sum;
  T::Wave::zero(sum);
  if (args.bias && slice == 0) T::Wave::set_bias(sum, args.bias, args.n, column + wave_column, place.lane);
  gemm_tile<T>(sum, tile_inputs<T>(args.a, args.w, args.m, args.n, args.k, row, column, slice, args.split_k), lds,
               place, [] {});
  lds_barrier();
  if (args.split_k > 1) {
    float* partial = args.partial + static_cast<size_t>(tile) * args.split_k * T::BM * T::BN;
    if (!add_slices<T>(sum, partial, args.arrived + tile, slice, args.split_k, lds, place)) return;
  }
  T::Wave::rows(sum, lds + place.wave * T::Wave::TURN_BYTES, place.lane, [&](int r, int c, u32x4 eight) {
    r += row + wave_row;
    c += column + wave_column;
    if (r < args.m && c < args.n) *reinterpret_cast<u32x4*>(args.c + static_cast<size_t>(r) * args.n + c) = eight;
  });
}

#ifdef __NVCC__

// The same product by tiles_in_turn().
template <class T>
struct GemmJob {
  const GemmArgs& args;
  const Place place;

  struct Work {
    int row, column, tile, slice;
  };

  __device__ Work work(int number) const {
    const int tile_rows = (args.m + T::BM - 1) / T::BM, tile_columns = (args.n + T::BN - 1) / T::BN;
    const int tile = number / args.split_k, slice = number % args.split_k;
    const TilePlace at = grouped_rows(tile, tile_rows, tile_columns, args.group_rows);
    return {at.row * T::BM, at.column * T::BN, tile, slice};
  }
  __device__ TileInputs inputs(int number) const {
    const Work work = this->work(number);
    return tile_inputs<T>(args.a, args.w, args.m, args.n, args.k, work.row, work.column, work.slice, args.split_k);
  }
  __device__ void start(typename T::Wave::Sum& sum, int number) const {
    const Work work = this->work(number);
    T::Wave::zero(sum);
    if (args.bias && work.slice == 0) T::Wave::set_bias(sum, args.bias, args.n, work.column, place.lane);
  }
  __device__ void send_rest(const unsigned char*) const {}
  __device__ void settle() const {}
  __device__ void finish(typename T::Wave::Sum& sum, int number, const Room& room) const {
    const Work work = this->work(number);
    if (args.split_k > 1) {
      float* partial = args.partial + static_cast<size_t>(work.tile) * args.split_k * T::BM * T::BN;
      if (!add_slices<T>(sum, partial, args.arrived + work.tile, work.slice, args.split_k, room.of_all, place)) return;
    }
    T::Wave::rows(sum, room.own, place.lane, [&](int r, int c, u32x4 eight) {
      r += work.row + place.wave * T::WM;
      c += work.column;
      if (r < args.m && c < args.n) *reinterpret_cast<u32x4*>(args.c + static_cast<size_t>(r) * args.n + c) = eight;
    });
  }
};

template <class T>
__global__ __launch_bounds__(T::THREADS, T::RESIDENCY) void gemm_in_turn_kernel(const GemmArgs args) {
  unsigned char* lds = workgroup_lds<InTurn<T>::LDS_BYTES>();
  GemmJob<T> job{args};
  const int tiles = (args.m + T::BM - 1) / T::BM * ((args.n + T::BN - 1) / T::BN);
  tiles_in_turn<T>(job, tiles * args.split_k, gridDim.x, args.tickets, lds);
}

#endif

// Addresses, sizes as in GemmArgs. block_m, block_n: of one of the tiles that with_gemm_tile() offers.
void gemm(int64_t a, int64_t w, int64_t bias, int64_t c, int64_t partial, int64_t arrived, int64_t tickets, int m,
          int n, int k, int block_m, int block_n, int split_k, int group_rows, bool in_turn) {
  const GemmArgs args = {reinterpret_cast<const unsigned short*>(a),
                         reinterpret_cast<const unsigned short*>(w),
                         reinterpret_cast<const unsigned short*>(bias),
                         reinterpret_cast<unsigned short*>(c),
                         reinterpret_cast<float*>(partial),
                         reinterpret_cast<u32*>(arrived),
                         m,
                         n,
                         k,
                         split_k,
                         group_rows,
                         reinterpret_cast<u32*>(tickets)};
  const int tiles = (m + block_m - 1) / block_m * ((n + block_n - 1) / block_n);
  const bool found = with_gemm_tile(block_m, block_n, [&](auto tile) {
    using T = decltype(tile);
#ifdef __NVCC__
    if constexpr (TAKES_TURNS<T>)
      if (in_turn) return launch_workgroups<InTurn<T>>(gemm_in_turn_kernel<T>, groups_in_turn(tiles * split_k), args);
#endif
    launch_workgroups<T>(gemm_kernel<T>, tiles * split_k, args);
  });
  if (!found || hipGetLastError() != hipSuccess) throw std::runtime_error("gemm: no such tile, or no launch");
}

#ifndef __NVCC__

template __global__ void gemm_kernel<GemmTile<256, 256, 2, 4, 1>>(GemmArgs);
template __global__ void gemm_kernel<GemmTile<128, 256, 2, 4, 1>>(GemmArgs);
template __global__ void gemm_kernel<GemmTile<128, 128, 2, 2, 2>>(GemmArgs);
template __global__ void gemm_kernel<GemmTile<64, 128, 2, 2, 2>>(GemmArgs);
template __global__ void gemm_kernel<GemmTile<64, 64, 2, 1, 4>>(GemmArgs);

// out[0][thread]: where a thread writes its chunk of a stage; out[1 + step][thread], lanes of one wave: where it reads its
// fragment; out[3 + i]: writes of a row turn's eight halves of chunks, out[11 + i]: its reads.
__global__ void lds_addresses(int* out) {
  using Wave = WaveTile<64, 64>;
  const int thread = threadIdx.x;
  out[thread] = PairLoader<64, 64>(nullptr, 64, 64, thread).lds_at;
  for (int step = 0; step < 2; ++step)
    out[(1 + step) * 64 + thread] = stage_offset(Wave::fragment_row(thread), Wave::fragment_chunk(thread, step));
  for (int i = 0; i < 8; ++i) out[(3 + i) * 64 + thread] = Wave::turn_write_offset(thread, i);
  for (int i = 0; i < 4; ++i) out[(11 + i) * 64 + thread] = Wave::turn_read_offset(thread, i);
}

#endif
