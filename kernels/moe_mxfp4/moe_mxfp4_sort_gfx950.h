// amd-moe-mxfp4 on gfx950: what its kernels hand to each other, and the first of them, which sorts and quantises.
#pragma once

#include "mxfp4_gfx950.h"

constexpr int N_XCD = 8;             // MI355X
constexpr int MOST_EXPERTS = 1024;   // that launch 1 has room for
constexpr int FIRST_THREADS = 1024;  // of a workgroup of launch 1
constexpr u32 HELD_PAIRS = 4;        // of a thread of launch 1, in registers; more would cost it waves
constexpr u32 LOWER_ROWS = 128;      // of a block of 144 that has no more

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
    u32* arrived;                // [tokens][workgroups of `down` by columns]: rows that are there
    u32 tokens, topk, experts, blocks;  // blocks: the most that there can be
    u32 width, used;                    // of the hidden states: of the weights, and of what they hold
    u32 inner_width, inner_used;        // of what lies between the products
    u32 down_tiles;                     // tiles of columns a workgroup, of `down` by tiles
    u32 turn_rows, most_turns;          // rows of a turn, and the most turns that there can be; 0: `down` by tiles
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

// The sum of x over this lane and those before it.
__device__ inline u32 sum_of_lanes_before(u32 x) {
    x += __builtin_amdgcn_update_dpp(0, x, 0x111, 0xf, 0xf, false);  // row_shr:1, of rows of 16 lanes
    x += __builtin_amdgcn_update_dpp(0, x, 0x112, 0xf, 0xf, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x114, 0xf, 0xf, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x118, 0xf, 0xf, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x142, 0xa, 0xf, false);  // row_bcast:15, to the second row and the fourth
    x += __builtin_amdgcn_update_dpp(0, x, 0x143, 0xc, 0xf, false);  // row_bcast:31, to the last two
    return x;
}

template <u32 BLOCK_M>
__device__ void sort_pairs(const MoeArgs& args) {
    __shared__ u32 count[MOST_EXPERTS], place[MOST_EXPERTS];
    __shared__ u32x2 wave_total[FIRST_THREADS / WAVE];
    const u32 thread = threadIdx.x, lane = thread % WAVE, wave = thread / WAVE, pairs = args.tokens * args.topk;
    const u32 turn_rows = args.turn_rows;
    // A thread's first pairs stay in registers: both loads are under way while the counts are set to zero.
    u32 held_expert[HELD_PAIRS], held_weight[HELD_PAIRS];
#pragma unroll
    for (u32 i = 0; i < HELD_PAIRS; ++i)
        if (const u32 pair = i * FIRST_THREADS + thread; pair < pairs)
            held_expert[i] = args.topk_ids[pair], held_weight[i] = __builtin_bit_cast(u32, args.topk_weights[pair]);
    count[thread] = 0;
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < HELD_PAIRS; ++i)
        if (i * FIRST_THREADS + thread < pairs) atomicAdd(&count[held_expert[i]], 1u);
    for (u32 pair = HELD_PAIRS * FIRST_THREADS + thread; pair < pairs; pair += FIRST_THREADS)
        atomicAdd(&count[args.topk_ids[pair]], 1u);
    __syncthreads();
    // Where each expert's blocks begin: a scan over the threads, one for each expert.
    const u32 own_count = count[thread], own = (own_count + BLOCK_M - 1) / BLOCK_M;
    // And its turns, if there are any.
    const u32 own_turns = turn_rows == 0 ? 0 : (own_count + turn_rows - 1) / turn_rows;
    const u32 before = sum_of_lanes_before(own), turns_before = sum_of_lanes_before(own_turns);
    if (lane == WAVE - 1) wave_total[wave] = {before, turns_before};
    __syncthreads();
    u32x2 total = {0, 0}, first = {before - own, turns_before - own_turns};
#pragma unroll
    for (u32 i = 0; i < FIRST_THREADS / WAVE; ++i) {
        first += i < wave ? wave_total[i] : u32x2(0);
        total += wave_total[i];
    }
    const u32 row0 = first[0] * BLOCK_M;
    place[thread] = row0;
    // Higher blocks than LOWER_ROWS are as high as these unless that makes one more of them.
    const u32 each = own_count <= own * LOWER_ROWS ? min(LOWER_ROWS, BLOCK_M) : BLOCK_M;
    count[thread] = each < BLOCK_M ? row0 : ~0u;
    for (u32 block = 0; block < own; ++block)
        args.block_experts[first[0] + block] = BlockOf::packed(thread, min(own_count - block * each, each));
    for (u32 at = 0; at < own_turns * turn_rows; at += turn_rows)
        args.turns[first[1]++] = Turn::packed(row0 + at, min(own_count - at, turn_rows), thread);
    for (u32 turn = total[1] + thread; turn < args.most_turns; turn += FIRST_THREADS) args.turns[turn] = u32x2(0);
    if (thread == 0) {
        args.block_experts[args.blocks] = total[0];
        if (turn_rows != 0) args.turns[args.most_turns][0] = total[1];
    }
    __syncthreads();
    // In any order within an expert: rows have nothing to do with each other.
    const auto put = [&](u32 pair, u32 expert, u32 weight) {
        u32 row = atomicAdd(&place[expert], 1u);
        if (BLOCK_M > LOWER_ROWS && row >= count[expert])
            row += (row - count[expert]) / LOWER_ROWS * (BLOCK_M - LOWER_ROWS);
        if (turn_rows == 0) args.row_pairs[row] = pair;
        args.rows[row] = {pair / args.topk, weight};
    };
#pragma unroll
    for (u32 i = 0; i < HELD_PAIRS; ++i)
        if (const u32 pair = i * FIRST_THREADS + thread; pair < pairs) put(pair, held_expert[i], held_weight[i]);
    for (u32 pair = HELD_PAIRS * FIRST_THREADS + thread; pair < pairs; pair += FIRST_THREADS)
        put(pair, args.topk_ids[pair], __builtin_bit_cast(u32, args.topk_weights[pair]));
}

// The larger of this lane's and another one's of its four, the one whose number differs in bit BIT.
template <int BIT>
__device__ inline u32 max_in_quad(u32 x) {
    constexpr int EXCHANGED = BIT == 0 ? 0xb1 : 0x4e;  // lanes 1, 0, 3, 2; lanes 2, 3, 0, 1
    return max(x, static_cast<u32>(__builtin_amdgcn_mov_dpp(x, EXCHANGED, 0xf, 0xf, true)));
}

// 8 columns a thread, four threads a block.
__device__ inline void quantize_hidden(const MoeArgs& args) {
    const u32 eights = args.width / 8, at = (blockIdx.x - 1) * FIRST_THREADS + threadIdx.x;
    const u32 token = at / eights, column = at % eights * 8;
    if (token >= args.tokens) return;
    u32x4 x[1] = {u32x4(0)};
    if (column < args.used)
        x[0] = *reinterpret_cast<const u32x4*>(args.hidden + static_cast<size_t>(token) * args.used + column);
    u16x2 largest = bf16_magnitudes(x[0][0]);
#pragma unroll
    for (int i = 1; i < 4; ++i) largest = __builtin_elementwise_max(largest, bf16_magnitudes(x[0][i]));
    u32 of_block = max_in_quad<1>(max_in_quad<0>(max(largest[0], largest[1])));
    zero_nans(x, of_block);
    const u32 scale = mxfp4_scale(of_block);
    *reinterpret_cast<u32*>(args.codes + (token * args.width + column) / 2) = mxfp4_codes<true>(x[0], scale);
    if (column % MX_BLOCK == 0) args.scales[token * scale_row(args.width) + a_scale_place(column / MX_BLOCK)] = scale;
}

template <u32 BLOCK_M>
__global__ __launch_bounds__(FIRST_THREADS,
                             8) void sort_and_quantize_kernel(const unsigned short* hidden, const int* topk_ids,
                                                              u32 tokens, u32 topk, u32 width, u32 used, u32 counters,
                                                              const float* topk_weights, u32 turn_rows, MoeArgs args) {
    args.topk_weights = topk_weights, args.turn_rows = turn_rows;
    args.hidden = hidden, args.topk_ids = topk_ids, args.tokens = tokens, args.topk = topk;
    args.width = width, args.used = used;
    if (blockIdx.x == 0) return sort_pairs<BLOCK_M>(args);
    quantize_hidden(args);
    // Last: where the counters are is no argument that is in a register, and quantising does not wait for it.
    for (u32 i = (blockIdx.x - 1) * FIRST_THREADS + threadIdx.x; i < counters; i += (gridDim.x - 1) * FIRST_THREADS)
        args.arrived[i] = 0;
}
