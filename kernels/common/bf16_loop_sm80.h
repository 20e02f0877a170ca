// The main loop of bf16_gemm.h on NVIDIA GPUs from sm_80 on: cp.async into a ring of STAGES buffers.
#pragma once

#ifdef __NVCC__

// Copies one operand's rows from memory to LDS: 4 lanes a row, 16 bytes a lane.
template <int ROWS, int THREADS>
struct StageLoader {
    static constexpr int PER_PASS = THREADS / 4, PASSES = ROWS / PER_PASS;
    static_assert(ROWS % PER_PASS == 0 && PER_PASS % 8 == 0);

    const char* base;
    u32 bytes, at, pass_pitch, lds_at;
    int chunk_k;

    __device__ StageLoader(const unsigned short* rows, int n_rows, int k, int thread)
        : base(reinterpret_cast<const char*>(rows)), bytes(2u * k * min(max(n_rows, 0), ROWS)) {
        const int row = thread / 4, chunk = thread % 4;
        chunk_k = chunk * 8;
        lds_at = stage_offset(row, chunk);
        at = 2u * (row * k + chunk_k);
        pass_pitch = 2u * PER_PASS * k;
    }

    // The stage from k on; what lies at or past last_k, or past the rows, is 0.
    __device__ void copy(unsigned char* stage, int k, int last_k) const {
#pragma unroll
        for (int p = 0; p < PASSES; ++p) {
            const u32 from = at + p * pass_pitch + 2u * k;
            const bool inside = k + chunk_k < last_k && from < bytes;
            const u32 to = static_cast<u32>(__cvta_generic_to_shared(stage + lds_at + p * PER_PASS * 64));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(base + (inside ? from : 0)),
                         "r"(inside ? 16 : 0)
                         : "memory");
        }
    }
};

// sum += a[0 .. BM) * w[0 .. BN) over first_k <= k < last_k. a, w: the tile's first rows; a_rows, w_rows: how many there
// are, further ones count as zeros. k: row length, a multiple of 8; first_k a multiple of 64. a_ready() is called
// before the first access to a. lds: T::LDS_BYTES; free for use once the workgroup passed a barrier afterwards.
template <class T, class F>
__device__ void gemm_tile(typename T::Wave::Sum& sum, const unsigned short* a, int a_rows, const unsigned short* w,
                          int w_rows, int k, int first_k, int last_k, unsigned char* lds, const Place& place,
                          F&& a_ready) {
    using Wave = typename T::Wave;
    constexpr int W_AT = T::BM * T::STAGE_K * 2;  // in a stage, behind a
    const StageLoader<T::BM, T::THREADS> load_a(a, a_rows, k, place.thread);
    const StageLoader<T::BN, T::THREADS> load_w(w, w_rows, k, place.thread);
    const int row = Wave::fragment_row(place.lane);
    const int a_row = place.wave / T::WAVES_N * T::WM + row, w_row = place.wave % T::WAVES_N * T::WN + row;
    const auto fragment_at = [&](int row, int step) {
        return stage_offset(row, Wave::fragment_chunk(place.lane, step));
    };
    const auto commit = [] { asm volatile("cp.async.commit_group;" ::: "memory"); };

#pragma unroll
    for (int i = 0; i < STAGES - 1; ++i)
        load_w.copy(lds + i * T::STAGE_BYTES + W_AT, first_k + i * T::STAGE_K, last_k);
    a_ready();
#pragma unroll
    for (int i = 0; i < STAGES - 1; ++i) {
        load_a.copy(lds + i * T::STAGE_BYTES, first_k + i * T::STAGE_K, last_k);
        commit();
    }
    typename Wave::Fragments fragments[2];
    const auto read = [&](int step, int stage) {
        const unsigned char* here = lds + stage * T::STAGE_BYTES;
        Wave::template read<stage_offset(Wave::SUB, 0)>(fragments[step], here + fragment_at(a_row, step),
                                                        here + W_AT + fragment_at(w_row, step));
    };
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    read(0, 0);
    int stage = 0;
    for (int at = first_k; at < last_k; at += T::STAGE_K) {
        // Each half of the matrix work runs while the other half's fragments come from LDS.
        read(1, stage);
        Wave::multiply(sum, fragments[0]);
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 3) : "memory");
        __syncthreads();  // the next stage has come, and nobody reads the one before this any more
        const int free_stage = stage == 0 ? STAGES - 1 : stage - 1, next_k = at + (STAGES - 1) * T::STAGE_K;
        load_a.copy(lds + free_stage * T::STAGE_BYTES, next_k, last_k);
        load_w.copy(lds + free_stage * T::STAGE_BYTES + W_AT, next_k, last_k);
        commit();
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        read(0, stage);
        Wave::multiply(sum, fragments[1]);
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

#endif
