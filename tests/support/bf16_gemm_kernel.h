// bf16_gemm.h's parts on plain matrices, for bf16_gemm_gfx942.hip and lab/hopper/bf16_gemm.hip.
#pragma once

#include "workgroup_order.h"

struct GemmArgs {
  const unsigned short *a, *w, *bias;  // bf16 [m, k], [n, k], [n] or null
  unsigned short* c;                   // bf16 [m, n]
  float* partial;                      // [tiles][split_k][BM * BN], where split_k > 1
  u32* arrived;                        // [tiles], zero between launches
  int m, n, k, split_k, group_rows;
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
