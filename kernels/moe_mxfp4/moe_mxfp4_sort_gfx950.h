// amd-moe-mxfp4 on gfx950: what its kernels hand to each other, and the first of them, which sorts and quantises.
#pragma once

#include "lane_sums.h"
#include "mxfp4_gfx950.h"

constexpr int N_XCD = 8;                        // MI355X
constexpr int FIRST_THREADS = 1024;             // of a workgroup of launch 1
constexpr int EXPERT_BITS = 10;                 // of their numbers
constexpr int MOST_EXPERTS = 1 << EXPERT_BITS;  // that launch 1 has room for: a thread each
constexpr u32 MOST_SORTERS = 24;                // workgroups of launch 1 that sort
constexpr u32 HELD_PAIRS = 5;                   // of a thread that counts, under way together
constexpr u32 HELD_OWN = 3;                     // of a lane that places
constexpr u32 LOWER_ROWS = 128;                 // of a block of 144 that has no more

struct MoeArgs {
    const unsigned short* hidden;        // bf16 [tokens][used]
    const int* topk_ids;                 // [pairs]: a token's experts
    const float* topk_weights;           // [pairs]
    const unsigned char* gate_up;        // [experts], of each the strips of gate, then those of up
    const unsigned char* down;           // [experts], strips
    const unsigned char* gate_up_scale;  // see scale_group_offset
    const unsigned char* down_scale;
    unsigned char* codes;        // [tokens][width / 2], of the hidden states
    unsigned char* scales;       // [tokens][scale_row(width)], see a_scale_place
    unsigned char* inner;        // [rows / 16][steps][lanes][16], see InStrips
    unsigned char* inner_scale;  // [rows / 16][2048 columns][lanes][16], up to 512 columns [rows / 16][lanes][4]
    unsigned short* terms;       // bf16 [pairs][used]; this and the next but one: of `down` by tiles
    unsigned short* out;         // bf16 [tokens][used]
    int* row_pairs;              // [rows]: pairs by expert; nothing where a block has no more
    u32x2* rows;                 // [rows]: their tokens and routing weights
    int* block_experts;          // [blocks + 1]: of the blocks that there are, see BlockOf; last their number
    u32x2* turns;                // [most_turns + 1]: see Turn; those that there are, zeros, and last their number
    u32* arrived;                // [counters], those: [tokens][workgroups of `down` by columns]: rows that are there
    u32 tokens, topk, experts, blocks;  // blocks: the most that there can be
    u32 width, used;                    // of the hidden states: of the weights, and of what they hold
    u32 inner_width, inner_used;        // of what lies between the products
    u32 counters;                       // of rows that have arrived
    u32 down_tiles;                     // tiles of columns a workgroup, of `down` by tiles
    u32 turn_rows, most_turns;          // rows of a turn, and the most turns that there can be; 0: `down` by tiles
    u32 turn_reciprocal;                // of turn_rows: x / turn_rows is the upper word of the product, x up to 2^24
};
// A block's expert and how many of its rows have a pair, as one word.
struct BlockOf {
    u32 expert, rows;

    static constexpr int EXPERT_BITS = 16;
    static __device__ int packed(u32 expert, u32 rows) { return static_cast<int>(rows << EXPERT_BITS | expert); }
    __device__ explicit BlockOf(u32 word) : expert(word % (1u << EXPERT_BITS)), rows(word >> EXPERT_BITS) {}
};
// Rows of an expert that a wave of `down` by columns takes at a time.
struct Turn {
    u32 row0, rows, expert;  // rows: 0 for none

    static __device__ u32x2 packed(u32 row0, u32 rows, u32 expert) {
        return {row0, static_cast<u32>(BlockOf::packed(expert, rows))};
    }
};
// Kernels take a struct and, before it, what they need first: up to 14 words in front of a struct are in registers before a
// wave starts (preload_arguments).

// Scales of hidden states: of SCALE_UNIT columns 64 bytes, so that a lane finds those of its block of 16 steps together.
constexpr u32 SCALE_UNIT = 2048, UNIT_STEPS = SCALE_UNIT / STEP_K, WORD_STEPS = 4, UNIT_WORDS = UNIT_STEPS / WORD_STEPS;
__host__ __device__ constexpr u32 scale_row(u32 width) { return (width + SCALE_UNIT - 1) / SCALE_UNIT * 64; }
__device__ inline u32 a_scale_place(u32 block) {
    return block / 64 * 64 + block % 4 * UNIT_STEPS + block / 4 % UNIT_STEPS;
}

// Where a lane finds activations: 16 bytes of codes for a step, a dword of scales for WORD_STEPS of them.
// Hidden states: a row is gathered, and lies together.
struct Gathered {
    static constexpr u32 STEP_BYTES = STEP_K / 2;
    // Who loads a row's block, so that neighbours read on.
    static __device__ u32 row(u32 lane) { return lane / 4; }
    static __device__ u32 block(u32 lane) { return lane % 4; }
    static __host__ __device__ u32 scale_bytes(u32 rows, u32 k) { return rows * scale_row(k); }
    static __device__ u32 codes_at(u32 row, u32 block, u32 k) { return row * (k / 2) + block * 16; }
    static __device__ u32 scales_at(u32 row, u32 block, u32 k) { return row * scale_row(k) + block * UNIT_STEPS; }
    static __device__ u32 word_at(u32 word) { return word / UNIT_WORDS * 64 + word % UNIT_WORDS * 4; }
};
// What lies between the products: 16 rows' columns of a step are 1024 bytes in the order of lanes, as those of a strip of weights.
struct InStrips {
    static constexpr u32 STEP_BYTES = STRIP_STEP_BYTES;
    static __device__ u32 row(u32 lane) { return lane % STRIP; }
    static __device__ u32 block(u32 lane) { return lane / STRIP; }
    // A lane's words lie together, or alone where one is all.
    static __host__ __device__ u32 scale_pitch(u32 k) { return k <= WORD_STEPS * STEP_K ? 4 : UNIT_STEPS; }
    static __host__ __device__ u32 scale_bytes(u32 rows, u32 k) {
        return rows * (k <= WORD_STEPS * STEP_K ? 16 : scale_row(k));
    }
    static __device__ u32 codes_at(u32 row, u32 block, u32 k) {
        return row / STRIP * (k * 8) + block * (STRIP * 16) + row % STRIP * 16;
    }
    static __device__ u32 scales_at(u32 row, u32 block, u32 k) {
        return scale_bytes(row / STRIP * STRIP, k) + (block * STRIP + row % STRIP) * scale_pitch(k);
    }
    static __device__ u32 word_at(u32 word) { return word / UNIT_WORDS * (WAVE * UNIT_STEPS) + word % UNIT_WORDS * 4; }
};

// --- launch 1 ------------------------------------------------------------------------------------------------------

// Where an expert's rows are: rank-th of its pairs -> row.
struct RowsOf {
    u32 word;  // the first, a multiple of STRIP; and whether blocks are LOWER_ROWS high, with a gap behind each

    __device__ RowsOf(u32 row0, bool lower) : word(row0 | lower) {}
    __device__ explicit RowsOf(u32 word_) : word(word_) {}
    template <u32 BLOCK_M>
    __device__ u32 row(u32 rank) const {
        const u32 gaps = BLOCK_M > LOWER_ROWS && word % 2 ? rank / LOWER_ROWS * (BLOCK_M - LOWER_ROWS) : 0;
        return word / STRIP * STRIP + rank + gaps;
    }
};

// each(values, i) for i = 0 ... n - 1: a lane's first two by itself, what it has more of by the whole wave.
template <class F>
__device__ void share_out(u32 n, u32x4 values, u32 lane, F each) {
    if (n > 0) each(values, 0);
    if (n > 1) each(values, 1);
    for (unsigned long long more = __ballot(n > 2); more != 0; more &= more - 1) {
        const int of = __builtin_ctzll(more);
        u32x4 its;
#pragma unroll
        for (int i = 0; i < 4; ++i) its[i] = __builtin_amdgcn_readlane(values[i], of);
        const u32 end = __builtin_amdgcn_readlane(n, of);
        for (u32 i = 2 + lane; i < end; i += WAVE) each(its, i);
    }
}

// Each of the workgroups that sort counts all pairs, and places `own_pairs` of them: none waits for another. Pairs of an expert
// keep their order, so that two runs give the same rows, turns and sums. The last wave places, those with an expert for each
// lane say where, and the others are done once all is counted.
template <u32 BLOCK_M>
__device__ void sort_pairs(const MoeArgs& args, u32 sorters, u32 own_pairs) {
    static_assert(FIRST_THREADS == MOST_EXPERTS);
    constexpr u32 WAVES = FIRST_THREADS / WAVE;
    __shared__ u32 count[2][MOST_EXPERTS];  // pairs of each expert: those before the own ones, and others
    __shared__ u32x2 place[MOST_EXPERTS];   // RowsOf, and how many pairs are before the next one to be placed
    __shared__ u32x2 wave_total[WAVES];
    const u32 thread = threadIdx.x, lane = thread % WAVE, wave = uniform(thread / WAVE);
    const u32 pairs = args.tokens * args.topk, turn_rows = args.turn_rows;
    const u32 own_first = blockIdx.x * own_pairs, own_end = min(own_first + own_pairs, pairs);
    // The last pair's where there is none. No buffers: their descriptors would wait for scalar loads.
    auto load = [&](const auto* from, u32 pair) { return __builtin_bit_cast(u32, from[min(pair, pairs - 1)]); };
    // The first of those to be counted and of those to be placed are under way together.
    u32 expert[HELD_PAIRS], own_expert[HELD_OWN], own_weight[HELD_OWN];
#pragma unroll
    for (u32 i = 0; i < HELD_PAIRS; ++i) expert[i] = load(args.topk_ids, i * FIRST_THREADS + thread);
    auto load_own = [&](u32 first) {
#pragma unroll
        for (u32 i = 0; i < HELD_OWN; ++i) {
            own_expert[i] = load(args.topk_ids, first + i * WAVE + lane);
            own_weight[i] = load(args.topk_weights, first + i * WAVE + lane);
        }
    };
    if (wave == WAVES - 1) load_own(own_first);
    __builtin_amdgcn_sched_barrier(0);
    count[0][thread] = count[1][thread] = 0;
    __syncthreads();
    // Of 64 that follow each other: all of them are before the own ones, or none.
    auto add = [&](u32 pair0, u32 of) {
        const u32 pair = pair0 + thread;
        if (pair < pairs) atomicAdd(&count[pair0 + wave * WAVE >= own_first][of], 1u);
    };
#pragma unroll
    for (u32 i = 0; i < HELD_PAIRS; ++i) add(i * FIRST_THREADS, expert[i]);
    for (u32 pair0 = HELD_PAIRS * FIRST_THREADS; pair0 < pairs; pair0 += FIRST_THREADS)
        add(pair0, load(args.topk_ids, pair0 + thread));
    __syncthreads();

    const bool of_experts = wave * WAVE < args.experts, places = wave == WAVES - 1;
    if (!of_experts && !places) return;
    unsigned long long alike[HELD_OWN];  // of 64 to be placed, those of a lane's expert
    auto find_alike = [&](u32 first, u32 from, u32 to) {
#pragma unroll
        for (u32 i = from; i < to; ++i)
            if (first + i * WAVE < own_end)
                alike[i] =
                    lanes_alike<EXPERT_BITS>(__ballot(first + i * WAVE + lane < own_end), own_expert[i], args.experts);
    };
    if (places) find_alike(own_first, 0, 1);
    // Where each expert's blocks and turns begin: a scan over the threads, one for each expert.
    const u32 before = count[0][thread], n = before + count[1][thread];
    const u32 blocks = (n + BLOCK_M - 1) / BLOCK_M, turns = __umulhi(n + turn_rows - 1, args.turn_reciprocal);
    u32x2 up_to = {};
    if (of_experts) {
        up_to = {sum_up_to_lane(blocks), sum_up_to_lane(turns)};
        if (lane == WAVE - 1) wave_total[wave] = up_to;
    }
    __syncthreads();
    const u32x2 own = {blocks, turns};
    // Higher blocks than LOWER_ROWS are as high as these unless that makes one more of them.
    const u32 each = n <= blocks * LOWER_ROWS ? min(LOWER_ROWS, BLOCK_M) : BLOCK_M;
    u32x2 total = {}, begin = {};
    if (of_experts) {
        u32x2 of_wave = {};
        if (lane < WAVES && lane * WAVE < args.experts) of_wave = wave_total[lane];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const u32 up_to_wave = sum_up_to_lane(of_wave[i]);
            total[i] = __builtin_amdgcn_readlane(up_to_wave, WAVE - 1);
            begin[i] = (wave == 0 ? 0 : __builtin_amdgcn_readlane(up_to_wave, wave - 1)) + up_to[i] - own[i];
        }
        place[thread] = {RowsOf(begin[0] * BLOCK_M, each < BLOCK_M).word, before};
    }
    if (places) find_alike(own_first, 1, HELD_OWN);
    const u32 row0 = begin[0] * BLOCK_M;
    __syncthreads();

    if (places) {
        for (u32 first = own_first; first < own_end; first += HELD_OWN * WAVE) {
            if (first != own_first) load_own(first), find_alike(first, 0, HELD_OWN);
#pragma unroll
            for (u32 i = 0; i < HELD_OWN; ++i) {
                const u32 pair = first + i * WAVE + lane, of = own_expert[i];
                if (pair >= own_end) continue;
                const u32x2 to = place[of];
                const u32 rank = to[1] + lanes_before(alike[i]), row = RowsOf(to[0]).row<BLOCK_M>(rank);
                if (alike[i] >> lane == 1) place[of][1] = rank + 1;  // the last of them
                wave_lds_fence();
                if (turn_rows == 0) args.row_pairs[row] = pair;
                args.rows[row] = {pair / args.topk, own_weight[i]};
            }
        }
        if (!of_experts) return;
    }
    // The first workgroup writes the blocks, the last one the turns.
    if (blockIdx.x == 0) {
        share_out(blocks, u32x4{begin[0], n, each, thread}, lane, [&](u32x4 of, u32 i) {
            args.block_experts[of[0] + i] = BlockOf::packed(of[3], min(of[1] - i * of[2], of[2]));
        });
        if (thread == 0) args.block_experts[args.blocks] = total[0];
    }
    if (turn_rows != 0 && blockIdx.x == sorters - 1) {
        share_out(turns, u32x4{begin[1], row0, n, thread}, lane, [&](u32x4 of, u32 i) {
            const u32 at = i * turn_rows;
            args.turns[of[0] + i] = Turn::packed(of[1] + at, min(of[2] - at, turn_rows), of[3]);
        });
        const u32 threads = (args.experts + WAVE - 1) / WAVE * WAVE;  // that are left
        for (u32 turn = total[1] + thread; turn < args.most_turns; turn += threads) args.turns[turn] = u32x2(0);
        if (thread == 0) args.turns[args.most_turns][0] = total[1];
    }
}

// The larger of this lane's and another one's of its four, the one whose number differs in bit BIT.
template <int BIT>
__device__ inline u32 max_in_quad(u32 x) {
    constexpr int EXCHANGED = BIT == 0 ? 0xb1 : 0x4e;  // lanes 1, 0, 3, 2; lanes 2, 3, 0, 1
    return max(x, static_cast<u32>(__builtin_amdgcn_mov_dpp(x, EXCHANGED, 0xf, 0xf, true)));
}

// 8 columns a thread at a time, four threads a block; those of EIGHTS times are under way together.
__device__ inline void quantize_hidden(const MoeArgs& args, u32 group, u32 groups) {
    constexpr u32 EIGHTS = 2;
    const u32 eights = args.width / 8, step = groups * FIRST_THREADS;
    for (u32 first = group * FIRST_THREADS + threadIdx.x; first < args.tokens * eights; first += EIGHTS * step) {
        u32 token[EIGHTS], column[EIGHTS];
        u32x4 x[EIGHTS][1];
#pragma unroll
        for (u32 i = 0; i < EIGHTS; ++i) {
            token[i] = (first + i * step) / eights, column[i] = (first + i * step) % eights * 8;
            x[i][0] = u32x4(0);
            if (token[i] < args.tokens && column[i] < args.used)
                x[i][0] = *reinterpret_cast<const u32x4*>(args.hidden + static_cast<size_t>(token[i]) * args.used +
                                                          column[i]);
        }
        // Where codes and scales go is not in registers at the start: asked for now, not behind the wait for x.
        __builtin_amdgcn_sched_barrier(0);
        asm volatile("" ::"s"(args.codes), "s"(args.scales));
        __builtin_amdgcn_sched_barrier(0);
#pragma unroll
        for (u32 i = 0; i < EIGHTS; ++i) {
            if (token[i] >= args.tokens) continue;
            u16x2 largest = bf16_magnitudes(x[i][0][0]);
#pragma unroll
            for (int j = 1; j < 4; ++j) largest = __builtin_elementwise_max(largest, bf16_magnitudes(x[i][0][j]));
            u32 of_block = max_in_quad<1>(max_in_quad<0>(max(largest[0], largest[1])));
            zero_nans(x[i], of_block);
            const u32 scale = mxfp4_scale(of_block);
            *reinterpret_cast<u32*>(args.codes + (token[i] * args.width + column[i]) / 2) =
                mxfp4_codes<true>(x[i][0], scale);
            if (column[i] % MX_BLOCK == 0)
                args.scales[token[i] * scale_row(args.width) + a_scale_place(column[i] / MX_BLOCK)] = scale;
        }
    }
}

template <u32 BLOCK_M>
__global__ __launch_bounds__(FIRST_THREADS, 8) void sort_and_quantize_kernel(const unsigned short* hidden,
                                                                             const int* topk_ids, u32 tokens, u32 topk,
                                                                             u32 width, u32 used, u32 sorters,
                                                                             u32 own_pairs, const float* topk_weights,
                                                                             u32 turn_rows, MoeArgs args) {
    args.topk_weights = topk_weights, args.turn_rows = turn_rows;
    args.hidden = hidden, args.topk_ids = topk_ids, args.tokens = tokens, args.topk = topk;
    args.width = width, args.used = used;
    if (blockIdx.x < sorters) return sort_pairs<BLOCK_M>(args, sorters, own_pairs);
    const u32 group = blockIdx.x - sorters, groups = gridDim.x - sorters;
    quantize_hidden(args, group, groups);
    // Last: how many there are, and where, is no argument that is in a register, and quantising does not wait for it.
    for (u32 i = group * FIRST_THREADS + threadIdx.x; i < args.counters; i += groups * FIRST_THREADS)
        args.arrived[i] = 0;
}
