// The main loop of bf16_gemm.h on gfx942. Two LDS buffers in turn. A cache line holds 64 k of a row, so a pair of stages is
// loaded at once, into registers, and each half of it stored to LDS when its buffer is free. docs/kernels/bf16_gemm.md has
// the schedule and its cost.
#pragma once

#include <type_traits>
#include <utility>

#include "bf16_mma_gfx942.h"

#include "bf16_gemm.h"

// Where chunk c (8 k) of row r lies in a stage. Two rows fill the 32 banks once; chunks are permuted by an XOR so that
// the same chunk of 8 consecutive rows, or of 8 rows that are 2 apart, does so as well. So neither writes (all of 2 rows
// a go, or a chunk of every other row) nor reads (8 rows) meet in a bank.
__device__ inline constexpr int stage_offset(int r, int c) {
    return (r >> 1) * 128 + (((r & 1) * 4 + c) ^ (r >> 1 & 7)) * 16;
}

// Moves one operand's rows from memory to LDS: 4 lanes a row, 16 bytes a lane.
template <int ROWS, int THREADS>
struct PairLoader {
    static constexpr int PER_PASS = THREADS / 4, PASSES = ROWS / PER_PASS;
    static constexpr int LOADS = 2 * PASSES, WRITES = PASSES;  // instructions of a pair of stages, and of a stage
    static constexpr bool HALVES_APART = false;
    using Stage = u32x4[PASSES];
    static_assert(ROWS % PER_PASS == 0 && PER_PASS % 16 == 0);

    RowReader reader;
    u32 at[PASSES];
    int lds_at, chunk_k;

    // rows: [.., k] from base; the first n_rows of them are read, further ones are zeros.
    __device__ PairLoader(const unsigned short* base, int n_rows, int k, int thread)
        : PairLoader(base, uniform(2u * k * min(max(n_rows, 0), ROWS)), thread, [&](int row) { return 2u * row * k; }) {
    }

    // row_at(row): the byte at which that row of the tile begins, RowReader::OUTSIDE for zeros.
    template <class F>
    __device__ PairLoader(const unsigned short* base, u32 bytes, int thread, F&& row_at) : reader(base, bytes) {
        const int row = thread / 4, chunk = thread % 4;
        chunk_k = chunk * 8;
        lds_at = stage_offset(row, chunk);
#pragma unroll
        for (int p = 0; p < PASSES; ++p) at[p] = row_at(row + p * PER_PASS) + 2u * chunk_k;
    }

    // The pair of stages from k on; what lies at or past last_k is 0. Both halves of a cache line in turn.
    __device__ void load(Stage (&words)[2], int k, int last_k) const {
        const bool inside[2] = {k < last_k - chunk_k, k < last_k - 32 - chunk_k};
        const u32 k_bytes = k < last_k ? 2u * k : 0;
#pragma unroll
        for (int p = 0; p < PASSES; ++p)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                words[half][p] = reader.read(inside[half] ? at[p] + half * 64 : RowReader::OUTSIDE, k_bytes);
    }

    __device__ void store(const Stage (&words)[2], int half, unsigned char* stage) const {
#pragma unroll
        for (int p = 0; p < PASSES; ++p)
            *reinterpret_cast<u32x4*>(stage + lds_at + stage_offset(p * PER_PASS, 0)) = words[half][p];
    }
};

// The same, 8 lanes a row: an instruction takes whole lines, so that the L1 need not keep one until its other half is asked
// for. Where several pairs are on their way it does not: lines at the same k of rows of a power of two share a set. On the way
// to LDS four lanes of a row change places with four of the one 8 rows further.
template <int ROWS, int THREADS>
struct LineLoader {
    static constexpr int PER_PASS = THREADS / 4, PASSES = ROWS / PER_PASS;
    static constexpr int LOADS = 2 * PASSES, WRITES = PASSES;
    static constexpr bool HALVES_APART = false;
    using Stage = u32x4[PASSES];  // of a pair the first has rows 0 .. 7 of each 16, the second rows 8 .. 15
    static_assert(ROWS % PER_PASS == 0 && PER_PASS % 16 == 0);

    RowReader reader;
    u32 at[2][PASSES];
    int lds_at, chunk_k;

    __device__ LineLoader(const unsigned short* base, int n_rows, int k, int thread)
        : LineLoader(base, uniform(2u * k * min(max(n_rows, 0), ROWS)), thread, [&](int row) { return 2u * row * k; }) {
    }
    template <class F>
    __device__ LineLoader(const unsigned short* base, u32 bytes, int thread, F&& row_at) : reader(base, bytes) {
        const int chunk = thread % 8, row = thread / WAVE * 16 + thread % WAVE / 8;
        chunk_k = chunk * 8;
        lds_at = stage_offset(row + chunk / 4 * 8, chunk % 4);
#pragma unroll
        for (int p = 0; p < PASSES; ++p)
#pragma unroll
            for (int eight = 0; eight < 2; ++eight)
                at[eight][p] = row_at(row + eight * 8 + p * PER_PASS) + 2u * chunk_k;
    }

    __device__ void load(Stage (&words)[2], int k, int last_k) const {
        const bool inside = k < last_k - chunk_k;
        const u32 k_bytes = k < last_k ? 2u * k : 0;
#pragma unroll
        for (int p = 0; p < PASSES; ++p)
#pragma unroll
            for (int eight = 0; eight < 2; ++eight)
                words[eight][p] = reader.read(inside ? at[eight][p] : RowReader::OUTSIDE, k_bytes);
    }

    __device__ void store(const Stage (&words)[2], int half, unsigned char* stage) const {
        constexpr int FROM_4_BELOW = 0x114, FROM_4_ABOVE = 0x104, ODD_FOURS = 0xa, EVEN_FOURS = 0x5;
#pragma unroll
        for (int p = 0; p < PASSES; ++p) {
            u32x4 chunk;
#pragma unroll
            for (int i = 0; i < 4; ++i)
                chunk[i] = half == 0 ? __builtin_amdgcn_update_dpp(words[0][p][i], words[1][p][i], FROM_4_BELOW, 0xf,
                                                                   ODD_FOURS, false)
                                     : __builtin_amdgcn_update_dpp(words[1][p][i], words[0][p][i], FROM_4_ABOVE, 0xf,
                                                                   EVEN_FOURS, false);
            *reinterpret_cast<u32x4*>(stage + lds_at + stage_offset(p * PER_PASS, 0)) = chunk;
        }
    }
};

template <int PAIRS, int ROWS, int THREADS>
using StageLoader = std::conditional_t<PAIRS == 1, PairLoader<ROWS, THREADS>, LineLoader<ROWS, THREADS>>;

// sum += a * w, by loaders that bring a pair of stages of rows of a, and of w, to registers (load) and one to LDS (store).
// PAIRS of them are on their way at once: more than one where the matrix work of a pair is shorter than memory's latency.
// a_ready, lds: as below.
template <class T, int PAIRS = 1, class LoadA, class LoadW, class F>
__device__ void gemm_tile(typename T::Wave::Sum& sum, const LoadA& load_a, const LoadW& load_w, int first_k, int last_k,
                          unsigned char* lds, const Place& place, F&& a_ready) {
    using Wave = typename T::Wave;
    constexpr int W_AT = T::BM * STAGE_K * 2;  // in a stage, behind a
    static_assert(PAIRS == 1 || !LoadW::HALVES_APART);
    typename LoadA::Stage a_words[PAIRS][2];
    typename LoadW::Stage w_words[PAIRS][2];

    const int row = Wave::fragment_row(place.lane);
    const int a_row = place.wave / T::WAVES_N * T::WM + row, w_row = place.wave % T::WAVES_N * T::WN + row;
    int a_at[2], w_at[2];
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        a_at[step] = stage_offset(a_row, Wave::fragment_chunk(place.lane, step));
        w_at[step] = W_AT + stage_offset(w_row, Wave::fragment_chunk(place.lane, step));
    }
    typename Wave::Fragments fragments[2];
    auto read = [&](int step, unsigned char* stage) {
        Wave::template read<stage_offset(Wave::SUB, 0)>(fragments[step], stage + a_at[step], stage + w_at[step]);
    };
    unsigned char* const stages[2] = {lds, lds + T::STAGE_BYTES};
    // One stage. On entry the fragments of its first 16 k are on their way from LDS. First half: matrix work on these;
    // the next stage's chunks go to the other buffer. Then that buffer is complete. Second half: its first fragments
    // are fetched, and if the next pair's registers are free, its loads are sent.
    auto run_stage = [&]<int STAGE, int PAIR>(int next_k) {
        constexpr int NEXT = (PAIR + STAGE) % PAIRS;  // the pair that has the next stage
        read(1, stages[STAGE]);
        Wave::multiply(sum, fragments[0]);
        load_a.store(a_words[NEXT], 1 - STAGE, stages[1 - STAGE]);
        load_w.store(w_words[NEXT], 1 - STAGE, stages[1 - STAGE] + W_AT);
        Wave::template schedule_writes<LoadA::WRITES + LoadW::WRITES>();
        Wave::pin(sum);
        lds_barrier();
        read(0, stages[1 - STAGE]);
        if constexpr (LoadW::HALVES_APART) {
            if constexpr (STAGE == 0) load_a.load(a_words[0], next_k, last_k);
            load_w.load_half(w_words[0][1 - STAGE], 1 - STAGE, STAGE == 0 ? next_k : next_k + T::LINE_K, last_k);
        } else if constexpr (STAGE == 0) {
            load_w.load(w_words[PAIR], next_k, last_k);
            load_a.load(a_words[PAIR], next_k, last_k);
        }
        Wave::multiply(sum, fragments[1]);
        constexpr int W_LOADS = LoadW::HALVES_APART ? LoadW::LOADS / 2 : STAGE == 0 ? LoadW::LOADS : 0;
        Wave::template schedule_loads<(STAGE == 0 ? LoadA::LOADS : 0) + W_LOADS>();
        Wave::pin(sum);
    };

    load_w.load(w_words[0], first_k, last_k);
    a_ready();
    load_a.load(a_words[0], first_k, last_k);
#pragma unroll
    for (int p = 1; p < PAIRS; ++p) {
        load_w.load(w_words[p], first_k + p * T::LINE_K, last_k);
        load_a.load(a_words[p], first_k + p * T::LINE_K, last_k);
    }
    load_a.store(a_words[0], 0, stages[0]);
    load_w.store(w_words[0], 0, stages[0] + W_AT);
    if constexpr (LoadW::HALVES_APART) load_w.load_half(w_words[0][0], 0, first_k + T::LINE_K, last_k);
    lds_barrier();
    read(0, stages[0]);
    int at = first_k;
    auto run_pair = [&]<int PAIR>() {  // false: there is no further one
        run_stage.template operator()<0, PAIR>(at + PAIRS * T::LINE_K);
        run_stage.template operator()<1, PAIR>(at + PAIRS * T::LINE_K);
        at += T::LINE_K;
        return at < last_k;
    };
    auto run_pairs = [&]<int... PAIR>(std::integer_sequence<int, PAIR...>) {
        return (run_pair.template operator()<PAIR>() && ...);
    };
    if (at < last_k)
        while (run_pairs(std::make_integer_sequence<int, PAIRS>())) {}
}

// sum += a * w. a_ready() is called before the first access to a. lds: T::LDS_BYTES; free for use once the workgroup passed
// a barrier afterwards.
template <class T, int PAIRS = 1, class F>
__device__ void gemm_tile(typename T::Wave::Sum& sum, const TileInputs& inputs, unsigned char* lds, const Place& place,
                          F&& a_ready) {
    const StageLoader<PAIRS, T::BM, T::THREADS> load_a(inputs.a, inputs.a_rows, inputs.k, place.thread);
    const StageLoader<PAIRS, T::BN, T::THREADS> load_w(inputs.w, inputs.w_rows, inputs.k, place.thread);
    gemm_tile<T, PAIRS>(sum, load_a, load_w, inputs.first_k, inputs.last_k, lds, place, a_ready);
}
