// swiglu-fp8 on gfx942; the arithmetic is stated in hip_gfx942.py.
//
// A lane takes LANE neighbouring outputs of a row in one go; nothing is read or written twice. LANE 8 loads 16 bytes of
// gates and 16 of ups and stores 8, LANE 16 stores 16. Where few rows leave compute units idle, a lane has 2 or 4: the
// arithmetic of one lane is what the result waits for. Rows and pieces of a row are the dimensions of the grid, so no
// lane divides. Buffers end with the row's half: what lies past it loads as 0, and is not stored.
#include <hip/hip_runtime.h>

#include <stdexcept>

#include "fp8_output_gfx942.h"

// silu(gate) * up * inverse_scale of two outputs. exp2 and rcp are exact to a last place or so. Of a large negative gate
// exp2 is infinite and silu 0.
__device__ inline f32x2 gated(u32 gates, u32 ups, float inverse_scale) {
    constexpr float MINUS_LOG2_E = -1.4426950408889634f;
    const f16x2 gate = as_f16x2(gates), up = as_f16x2(ups);
    const f32x2 g = {static_cast<float>(gate.x), static_cast<float>(gate.y)};
    const f32x2 power = g * MINUS_LOG2_E;
    const f32x2 below = f32x2{__builtin_amdgcn_exp2f(power.x), __builtin_amdgcn_exp2f(power.y)} + 1.0f;
    const f32x2 silu = g * f32x2{__builtin_amdgcn_rcpf(below.x), __builtin_amdgcn_rcpf(below.y)};
    return silu * f32x2{static_cast<float>(up.x), static_cast<float>(up.y)} * inverse_scale;
}

// LANE / 2 words of the lane's halves: of a row's gates, or of its ups. Non-temporal: nothing is read again.
template <int LANE>
__device__ inline void load(Buffer row, u32 at, u32 (&words)[LANE / 2]) {
    if constexpr (LANE == 2) {
        words[0] = __builtin_amdgcn_raw_buffer_load_b32(row, at, 0, CACHE_NON_TEMPORAL);
    } else if constexpr (LANE == 4) {
        const u32x2 two = __builtin_amdgcn_raw_buffer_load_b64(row, at, 0, CACHE_NON_TEMPORAL);
        words[0] = two.x, words[1] = two.y;
    } else {
#pragma unroll
        for (int i = 0; i < LANE / 8; ++i) {
            const u32x4 four = __builtin_amdgcn_raw_buffer_load_b128(row, at + 16 * i, 0, CACHE_NON_TEMPORAL);
#pragma unroll
            for (int j = 0; j < 4; ++j) words[4 * i + j] = four[j];
        }
    }
}

template <int LANE, bool KEEP_NAN>
__device__ inline void store(Buffer row, u32 at, const f32x2 (&x)[LANE / 2]) {
    if constexpr (LANE == 2) {
        const u32 two = to_fp8<KEEP_NAN>(x[0].x, x[0].y, 0, 0);
        __builtin_amdgcn_raw_buffer_store_b16(static_cast<unsigned short>(two), row, at, 0, CACHE_NORMAL);
    } else {
        u32 words[LANE / 4];
#pragma unroll
        for (int i = 0; i < LANE / 4; ++i)
            words[i] = to_fp8<KEEP_NAN>(x[2 * i].x, x[2 * i].y, x[2 * i + 1].x, x[2 * i + 1].y);
        if constexpr (LANE == 4) __builtin_amdgcn_raw_buffer_store_b32(words[0], row, at, 0, CACHE_NORMAL);
        else if constexpr (LANE == 8)
            __builtin_amdgcn_raw_buffer_store_b64(u32x2{words[0], words[1]}, row, at, 0, CACHE_NORMAL);
        else
            __builtin_amdgcn_raw_buffer_store_b128(u32x4{words[0], words[1], words[2], words[3]}, row, at, 0,
                                                   CACHE_NORMAL);
    }
}

// The arguments up to `clear` are 14 words: registers hold them before a wave starts (preload_arguments).
template <int LANE>
__global__ __launch_bounds__(1024) void swiglu_fp8_kernel(
    const _Float16* gate_up,  // [rows][2 * n]: a row's gates, then its ups
    const float* scale,       // [1]
    int n,                    // a multiple of LANE
    int threads,              // of a workgroup
    unsigned char* out,       // e4m3fnuz [rows][n]
    int rows, long long clear_bytes,
    void* clear  // [clear_bytes], zeroed
) {
    const size_t row = blockIdx.x;
    const u32 first = (blockIdx.y * threads + threadIdx.x) * LANE;
    const _Float16* const gates = gate_up + row * 2 * n;
    u32 gate[LANE / 2], up[LANE / 2];
    load<LANE>(make_buffer(gates, 2u * n), 2 * first, gate);
    load<LANE>(make_buffer(gates + n, 2u * n), 2 * first, up);
    const float inverse_scale = shared_by_lanes(1 / *scale);
    if (clear_bytes > 0 && blockIdx.y == 0) clear_in_turn(clear, clear_bytes, rows, threads);

    f32x2 x[LANE / 2], sum = 0;
#pragma unroll
    for (int i = 0; i < LANE / 2; ++i) {
        x[i] = gated(gate[i], up[i], inverse_scale);
        sum += x[i];
    }
    const Buffer out_row = make_buffer(out + row * n, n);
    const float all = sum.x + sum.y;  // NaN if one of them is
    if (__any(all != all)) store<LANE, true>(out_row, first, x);
    else store<LANE, false>(out_row, first, x);
}

void swiglu_fp8(int64_t gate_up, int64_t scale, int64_t out, int64_t clear, int64_t clear_bytes, int rows, int n,
                int lane, int threads, int workgroups_of_row) {
    const dim3 grid(rows, workgroups_of_row), block(threads);
    auto launch = [&](auto kernel) {
        kernel<<<grid, block>>>(reinterpret_cast<const _Float16*>(gate_up), reinterpret_cast<const float*>(scale), n,
                                threads, reinterpret_cast<unsigned char*>(out), rows, clear_bytes,
                                reinterpret_cast<void*>(clear));
    };
    switch (lane) {
        case 2: launch(swiglu_fp8_kernel<2>); break;
        case 4: launch(swiglu_fp8_kernel<4>); break;
        case 8: launch(swiglu_fp8_kernel<8>); break;
        default: launch(swiglu_fp8_kernel<16>);
    }
    const hipError_t error = hipGetLastError();
    if (error != hipSuccess) throw std::runtime_error(hipGetErrorString(error));
}
