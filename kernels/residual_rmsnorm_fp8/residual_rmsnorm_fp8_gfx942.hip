// residual-rmsnorm-fp8 on gfx942; the order of rounding is stated in hip_gfx942.py.
//
// A workgroup takes a row and keeps it in registers between the sum and the scaling: each element is read once and
// written once. A lane's elements are VECTORS times 8 neighbours, loads and stores of 16 bytes (8 of fp8). Buffers end
// with the row: what lies past it loads as 0, adds nothing to the sum, and is not stored.
#include <hip/hip_runtime.h>

#include <stdexcept>

#include "fp8_output_gfx942.h"

constexpr int MOST_WAVES = 16;
constexpr int LDS_OF_CU = 65536, LDS_GRANULE = 512;

// x of lane (lane - n) mod 16 of the same 16 lanes, n up to 15.
template <int N>
__device__ inline float rotated(float x) {
    return __builtin_bit_cast(float, __builtin_amdgcn_mov_dpp(__builtin_bit_cast(int, x), 0x120 + N, 0xf, 0xf, true));
}

// The sum over each 16 lanes, the same bits in all of them: in every step both lanes of a pair add the same two.
__device__ inline float sum_of_16(float x) {
    x += rotated<8>(x);
    x += rotated<4>(x);
    x += rotated<2>(x);
    return x + rotated<1>(x);
}

// The sum over the workgroup's threads, in all of them. shared: 4 * MOST_WAVES floats.
__device__ inline float sum_of_workgroup(float x, float* shared, int threads) {
    const int thread = threadIdx.x, lane = thread % WAVE, n_sums = threads / 16;
    x = sum_of_16(x);
    if (lane % 16 == 0) shared[thread / 16] = x;
    __syncthreads();
    x = sum_of_16(lane < n_sums ? shared[lane] : 0.0f);
    float total = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        total += __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, x), 16 * i));
    return total;
}

// out of 8 elements: their residual times r, rounded to fp16; times weight in fp16; times inverse_scale in fp32.
template <bool KEEP_NAN>
__device__ inline u32x2 normalised(u32x4 residual, u32x4 weight, float r, float inverse_scale) {
    float scaled[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const f16x2 y = product_as_f16(as_f16x2(residual[i]), r) * as_f16x2(weight[i]);
        scaled[2 * i] = product_as_f32<false>(y, inverse_scale);
        scaled[2 * i + 1] = product_as_f32<true>(y, inverse_scale);
    }
    return {to_fp8<KEEP_NAN>(scaled[0], scaled[1], scaled[2], scaled[3]),
            to_fp8<KEEP_NAN>(scaled[4], scaled[5], scaled[6], scaled[7])};
}

// The arguments up to `eps` are 14 words: registers hold them before a wave starts (preload_arguments).
template <int VECTORS>
__global__ __launch_bounds__(MOST_WAVES* WAVE) void residual_rmsnorm_fp8_kernel(
    const _Float16* x_rows,     // [rows][hidden]
    _Float16* residual_rows,    // [rows][hidden], updated
    const _Float16* weight_of,  // [hidden]
    int hidden,                 // a multiple of 8
    int threads,                // of a workgroup
    const float* scale,         // [1]
    unsigned char* out,         // e4m3fnuz [rows][hidden]
    float inverse_hidden, float eps, long long clear_bytes,
    void* clear,  // [clear_bytes], zeroed
    int rows) {
    __shared__ float shared[4 * MOST_WAVES];
    const size_t row = static_cast<size_t>(blockIdx.x) * hidden;
    const u32 bytes = 2u * hidden;
    const Buffer x_row = make_buffer(x_rows + row, bytes), residual_row = make_buffer(residual_rows + row, bytes);
    const Buffer weights = make_buffer(weight_of, bytes), out_row = make_buffer(out + row, hidden);
    u32 at[VECTORS];
    u32x4 x[VECTORS], residual[VECTORS], weight[VECTORS];
    // x is not read again, the residual only after it has been written; the weight is, by every row.
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        at[i] = (i * threads + threadIdx.x) * 16;
        x[i] = __builtin_amdgcn_raw_buffer_load_b128(x_row, at[i], 0, CACHE_NON_TEMPORAL);
        residual[i] = __builtin_amdgcn_raw_buffer_load_b128(residual_row, at[i], 0, CACHE_NON_TEMPORAL);
    }
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        weight[i] = __builtin_amdgcn_raw_buffer_load_b128(weights, at[i], 0, CACHE_NORMAL);
    const float inverse_scale = shared_by_lanes(1 / *scale);
    if (clear_bytes > 0) clear_in_turn(clear, clear_bytes, rows, threads);

    float sum = 0;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const f16x2 two = as_f16x2(x[i][j]) + as_f16x2(residual[i][j]);
            residual[i][j] = __builtin_bit_cast(u32, two);
            sum = __builtin_amdgcn_fdot2(two, two, sum, false);
        }
        __builtin_amdgcn_raw_buffer_store_b128(residual[i], residual_row, at[i], 0, CACHE_NON_TEMPORAL);
    }
    // NaN if a weight is one, or infinite.
    float no_number = 0;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
            no_number = __builtin_amdgcn_fdot2(as_f16x2(weight[i][j]), f16x2(0), no_number, false);

    sum = sum_of_workgroup(sum, shared, threads);
    const float r = shared_by_lanes(__builtin_amdgcn_rsqf(sum * inverse_hidden + eps));
    // Of finite factors, none of them infinitely small, there is no NaN in out: infinite products at most.
    const bool numbers = is_finite(sum) && is_finite(inverse_scale) && inverse_scale != 0 && no_number == 0;
    if (__all(numbers)) {
#pragma unroll
        for (int i = 0; i < VECTORS; ++i)
            __builtin_amdgcn_raw_buffer_store_b64(normalised<false>(residual[i], weight[i], r, inverse_scale), out_row,
                                                  at[i] / 2, 0, CACHE_NORMAL);
    } else {
#pragma unroll
        for (int i = 0; i < VECTORS; ++i)
            __builtin_amdgcn_raw_buffer_store_b64(normalised<true>(residual[i], weight[i], r, inverse_scale), out_row,
                                                  at[i] / 2, 0, CACHE_NORMAL);
    }
}

// per_cu: so many workgroups at most share a compute unit, because each takes that part of its LDS; 0: as many as fit.
void residual_rmsnorm_fp8(int64_t x, int64_t residual, int64_t weight, int64_t scale, int64_t out, int64_t clear,
                          int64_t clear_bytes, double eps, int rows, int hidden, int vectors, int threads, int per_cu) {
    const int unused_lds_bytes = per_cu > 0 ? LDS_OF_CU / per_cu - LDS_GRANULE : 0;
    auto launch = [&](auto kernel) {
        kernel<<<dim3(rows), dim3(threads), unused_lds_bytes>>>(
            reinterpret_cast<const _Float16*>(x), reinterpret_cast<_Float16*>(residual),
            reinterpret_cast<const _Float16*>(weight), hidden, threads, reinterpret_cast<const float*>(scale),
            reinterpret_cast<unsigned char*>(out), 1.0f / hidden, static_cast<float>(eps), clear_bytes,
            reinterpret_cast<void*>(clear), rows);
    };
    switch (vectors) {
        case 1: launch(residual_rmsnorm_fp8_kernel<1>); break;
        case 2: launch(residual_rmsnorm_fp8_kernel<2>); break;
        default: launch(residual_rmsnorm_fp8_kernel<4>);
    }
    const hipError_t error = hipGetLastError();
    if (error != hipSuccess) throw std::runtime_error(hipGetErrorString(error));
}
