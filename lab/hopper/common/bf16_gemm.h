// The main loop of bf16_gemm.h on NVIDIA's Hopper GPUs: cp.async into a ring of T::STAGES buffers, wgmma from there.
#pragma once

#include "bf16_mma.h"

#include "../../../kernels/common/bf16_gemm.h"

// Where chunk c (8 k) of row r lies in a stage: wgmma's 128-byte swizzle.
__device__ inline constexpr int stage_offset(int r, int c) { return r * 128 + (c ^ (r & 7)) * 16; }

// Copies one operand's rows from memory to LDS: 8 lanes a row, 16 bytes a lane.
template <int ROWS, int THREADS>
struct StageLoader {
    static constexpr int PER_PASS = THREADS / 8, PASSES = ROWS / PER_PASS;
    static_assert(ROWS % PER_PASS == 0 && PER_PASS % 8 == 0);

    const char* base;
    u32 bytes;
    const u32 at, pass_pitch, lds_at;
    const int chunk_k;

    __device__ StageLoader(const unsigned short* rows, int n_rows, int k, int thread)
        : at(2u * (thread / 8 * k + thread % 8 * 8)),
          pass_pitch(2u * PER_PASS * k),
          lds_at(stage_offset(thread / 8, thread % 8)),
          chunk_k(thread % 8 * 8) {
        turn_to(rows, n_rows, k);
    }

    // Other rows, as long.
    __device__ void turn_to(const unsigned short* rows, int n_rows, int k) {
        base = reinterpret_cast<const char*>(rows);
        bytes = 2u * k * min(max(n_rows, 0), ROWS);
    }

    // The stage from k on; what lies at or past last_k, or past the rows, is 0.
    __device__ void copy(unsigned char* stage, int k, int last_k) const {
        const u32 end = k + chunk_k < last_k ? bytes : 0, to = shared_address(stage) + lds_at;
#pragma unroll
        for (int p = 0; p < PASSES; ++p) {
            const u32 from = at + p * pass_pitch + 2u * k;
            asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to + p * PER_PASS * 128),
                         "l"(base + from), "r"(from < end ? 16 : 0)
                         : "memory");
        }
    }
};

// sum += a * w. a_ready() is called before the first access to a. lds: T::LDS_BYTES; free for use once the workgroup passed
// a barrier afterwards.
template <class T, class F>
__device__ void gemm_tile(typename T::Wave::Sum& sum, const TileInputs& inputs, unsigned char* lds, const Place& place,
                          F&& a_ready) {
    using Wave = typename T::Wave;
    const int first_k = inputs.first_k, last_k = inputs.last_k;
    // Stages whose products are under way at a time. Two where a workgroup has its processor to itself, so that one
    // product follows the other; workgroups that share it fill each other's gaps, and the stage goes to the copies.
    constexpr int UNDER_WAY = T::PER_CU == 1 ? 2 : 1, AHEAD = T::STAGES - UNDER_WAY;
    constexpr int W_AT = T::BM * 128;  // in a stage, behind a
    const StageLoader<T::BM, T::THREADS> load_a(inputs.a, inputs.a_rows, inputs.k, place.thread);
    const StageLoader<T::BN, T::THREADS> load_w(inputs.w, inputs.w_rows, inputs.k, place.thread);
    const int a_at = place.wave / T::WAVES_N * T::WM * 128, w_at = W_AT + place.wave % T::WAVES_N * T::WN * 128;
    const auto commit = [] { asm volatile("cp.async.commit_group;" ::: "memory"); };
    const auto after = [](int stage, int n) { return stage + n < T::STAGES ? stage + n : stage + n - T::STAGES; };

#pragma unroll
    for (int i = 0; i < AHEAD; ++i) load_w.copy(lds + i * T::STAGE_BYTES + W_AT, first_k + i * STAGE_K, last_k);
    a_ready();
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
        load_a.copy(lds + i * T::STAGE_BYTES, first_k + i * STAGE_K, last_k);
        commit();
    }
    int stage = 0;
    Wave::pin(sum);
    for (int at = first_k; at < last_k; at += STAGE_K) {
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // from what was copied to what wgmma reads
        __syncthreads();  // this stage has come, and nobody multiplies the one that is overwritten next
        const unsigned char* here = lds + stage * T::STAGE_BYTES;
        Wave::multiply(sum, here + a_at, here + w_at);
        unsigned char* there = lds + after(stage, AHEAD) * T::STAGE_BYTES;
        load_a.copy(there, at + AHEAD * STAGE_K, last_k);
        load_w.copy(there + W_AT, at + AHEAD * STAGE_K, last_k);
        commit();
        Wave::template wait<UNDER_WAY - 1>(sum);
        stage = after(stage, 1);
    }
    Wave::template wait<0>(sum);
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}
