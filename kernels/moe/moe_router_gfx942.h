// amd-mixture-of-experts on gfx942: who works on which token. The router's choices, and their order by expert.
//
// A choice is a token's i-th group: its top k experts, then the shared ones. Its row is its place among all choices when
// these are sorted by group, then by token. docs/kernels/moe_hip.md has the whole.
#pragma once

#include "bf16_gemm_gfx942.h"
#include "lane_sums.h"

constexpr int MOST_GROUPS = 64;      // routed experts, and the shared one in widths of a routed expert
constexpr int MOST_CHOICES = 64;     // of a token
constexpr int ROUTER_TOKENS = 16;    // of a workgroup
constexpr int ROUTER_THREADS = 512;  // two tokens a wave in the softmax
constexpr int SORT_BLOCKS = 16;      // routers' workgroups whose choices one workgroup sorts
constexpr int TILE_ROWS = 256;       // at most
constexpr int RANK_BITS = 8;

struct MoeArgs {
    const unsigned short* x;       // fp16 [n_tokens][d_hidden]
    const unsigned short* router;  // fp16 [n_routed][d_hidden]
    const long long* matrices;     // [4][n_groups]: addresses of gate, up and down; the width of a row of gate and up
    u32* group_rank;               // [choices]: group | rank << 8 among the choices of the router's workgroup
    float* score;                  // [choices]
    int* count;                    // [MOST_GROUPS][n_blocks]: choices by group of each router's workgroup
    int* row_choice;               // [choices]: which choice a row belongs to
    int4* tiles;          // [1 + tiles]: how many; then of each the group, and its first tile, row and end of rows
    unsigned short* h;    // fp16 [choices][d_expert], by row
    unsigned short* out;  // fp16 [choices][d_hidden], by choice
    unsigned short* y;    // fp16 [n_tokens][d_hidden]
    int n_tokens, top_k, n_routed, n_shared, d_hidden, d_expert;
    int tile_rows, group_rows;

    __host__ __device__ int n_groups() const { return n_routed + n_shared; }
    __host__ __device__ int choices() const { return top_k + n_shared; }  // of a token
    __host__ __device__ int n_blocks() const { return (n_tokens + ROUTER_TOKENS - 1) / ROUTER_TOKENS; }
};

template <class F>
__device__ int over_lanes(int value, int lanes, F&& f) {
    for (int step = 1; step < lanes; step *= 2) value = f(value, __shfl_xor(value, step));
    return value;
}

__device__ inline float through_fp16(float x) { return static_cast<float>(static_cast<_Float16>(x)); }

// Logits of 16 tokens in v_mfma_f32_16x16x16_f16, experts its rows and tokens its columns. The waves share k out in turn
// and add up in LDS. SUBTILES: of 16 experts.
template <int SUBTILES>
__global__ __launch_bounds__(ROUTER_THREADS, 2) void router_kernel(const MoeArgs args) {
    constexpr int WAVES = ROUTER_THREADS / WAVE, STEP_K = 32, AHEAD = 4, EXPERTS = 16 * SUBTILES;
    __shared__ float logits[WAVES][ROUTER_TOKENS][EXPERTS + 4];  // 4 more: neighbours' rows in other banks
    __shared__ int chosen[ROUTER_TOKENS * MOST_CHOICES];
    const Place place;
    const int first_token = blockIdx.x * ROUTER_TOKENS, n_tokens = min(args.n_tokens - first_token, ROUTER_TOKENS);
    const int row = place.lane % 16, chunk = place.lane / 16 * 8;  // 8 k of a lane: two instructions' worth
    const u32 pitch = 2u * args.d_hidden;

    const RowReader x(args.x + static_cast<size_t>(first_token) * args.d_hidden, n_tokens * pitch);
    const RowReader router(args.router, args.n_routed * pitch);
    f32x4 sum[SUBTILES];
#pragma unroll
    for (int s = 0; s < SUBTILES; ++s) sum[s] = 0.0f;
    for (int first = place.wave * STEP_K; first < args.d_hidden; first += AHEAD * WAVES * STEP_K) {
        u32x4 a[AHEAD], w[AHEAD][SUBTILES];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            const int k = first + i * WAVES * STEP_K + chunk;
            const bool inside = k < args.d_hidden;
            a[i] = x.read(inside ? row * pitch + 2u * k : RowReader::OUTSIDE, 0);
#pragma unroll
            for (int s = 0; s < SUBTILES; ++s)
                w[i][s] = router.read(inside ? (s * 16 + row) * pitch + 2u * k : RowReader::OUTSIDE, 0);
        }
        __builtin_amdgcn_sched_barrier(0);  // all loads are sent before any is waited for
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int s = 0; s < SUBTILES; ++s) {
                    const u32x2 of_w = {w[i][s][2 * half], w[i][s][2 * half + 1]};
                    const u32x2 of_a = {a[i][2 * half], a[i][2 * half + 1]};
                    sum[s] = __builtin_amdgcn_mfma_f32_16x16x16f16(
                        __builtin_bit_cast(Fp16::f16x4, of_w), __builtin_bit_cast(Fp16::f16x4, of_a), sum[s], 0, 0, 0);
                }
    }
#pragma unroll
    for (int s = 0; s < SUBTILES; ++s)
        *reinterpret_cast<f32x4*>(&logits[place.wave][row][s * 16 + place.lane / 16 * 4]) = sum[s];
    __syncthreads();

    // 32 lanes a token. A score's fp16 bits, which grow with it (NaN is largest), and behind them the expert's index,
    // backwards: of equal scores the largest word belongs to the smallest index, as torch.topk takes on a GPU.
    const int token = place.wave * 2 + place.lane / 32, lane32 = place.lane % 32;
    constexpr int OF_LANE = (EXPERTS + 31) / 32;
    float e[OF_LANE], top = -INFINITY, total = 0.0f;
#pragma unroll
    for (int i = 0; i < OF_LANE; ++i) {
        const int expert = i * 32 + lane32;
        e[i] = -INFINITY;
        if (expert < args.n_routed) {
            e[i] = 0.0f;
#pragma unroll
            for (int wave = 0; wave < WAVES; ++wave) e[i] += logits[wave][token][expert];
            e[i] = through_fp16(e[i]);  // the reference rounds logits and scores: it decides which of them are equal
        }
        top = e[i] > top || e[i] != e[i] ? e[i] : top;
    }
    for (int step = 1; step < 32; step *= 2) {
        const float other = __shfl_xor(top, step);
        top = other > top || other != other ? other : top;
    }
#pragma unroll
    for (int i = 0; i < OF_LANE; ++i) total += e[i] = expf(e[i] - top);
    for (int step = 1; step < 32; step *= 2) total += __shfl_xor(total, step);
    u32 key[OF_LANE];
#pragma unroll
    for (int i = 0; i < OF_LANE; ++i) {
        const u32 bits = __builtin_bit_cast(unsigned short, static_cast<_Float16>(e[i] / total));
        key[i] = i * 32 + lane32 < args.n_routed ? bits << 16 | (0xffffu - (i * 32 + lane32)) : 0;
    }
    const int choices = args.choices();
    for (int c = 0; c < args.top_k; ++c) {
        u32 best = key[0];
#pragma unroll
        for (int i = 1; i < OF_LANE; ++i) best = max(best, key[i]);
        for (int step = 1; step < 32; step *= 2) best = max(best, static_cast<u32>(__shfl_xor(best, step)));
#pragma unroll
        for (int i = 0; i < OF_LANE; ++i) key[i] = key[i] == best ? 0 : key[i];
        if (lane32 == 0 && token < n_tokens) {
            chosen[token * choices + c] = 0xffff - (best & 0xffff);
            args.score[static_cast<size_t>(first_token + token) * choices + c] =
                static_cast<float>(__builtin_bit_cast(_Float16, static_cast<unsigned short>(best >> 16)));
        }
    }
    if (token < n_tokens && lane32 < args.n_shared) {
        chosen[token * choices + args.top_k + lane32] = args.n_routed + lane32;
        args.score[static_cast<size_t>(first_token + token) * choices + args.top_k + lane32] = 1.0f;
    }
    __syncthreads();

    const int n_chosen = n_tokens * choices;
    for (int c = place.thread; c < n_chosen; c += ROUTER_THREADS) {
        int rank = 0;
        for (int before = 0; before < c; ++before) rank += chosen[before] == chosen[c];
        args.group_rank[static_cast<size_t>(first_token) * choices + c] = chosen[c] | rank << RANK_BITS;
    }
    if (place.thread < args.n_groups()) {
        int count = 0;
        for (int c = 0; c < n_chosen; ++c) count += chosen[c] == place.thread;
        args.count[place.thread * args.n_blocks() + blockIdx.x] = count;
    }
}

// Sum of the values of the lanes before this one; every lane is on.
__device__ inline int sum_before(int value) { return static_cast<int>(sum_up_to_lane(value)) - value; }

// A workgroup places the choices of SORT_BLOCKS routers' workgroups. The first one lists the tiles of rows as well.
__global__ __launch_bounds__(ROUTER_THREADS) void sort_kernel(const MoeArgs args) {
    __shared__ int totals[MOST_GROUPS], first_row[MOST_GROUPS], first_tile[MOST_GROUPS];
    __shared__ int block_row[MOST_GROUPS][SORT_BLOCKS];  // row of the first choice of a block's that a group has
    const Place place;
    const int n_blocks = args.n_blocks(), first_block = blockIdx.x * SORT_BLOCKS, n_groups = args.n_groups();
    for (int group = place.wave; group < n_groups; group += ROUTER_THREADS / WAVE) {
        int total = 0, before = 0;
        for (int block = place.lane; block < n_blocks; block += WAVE) {
            const int count = args.count[group * n_blocks + block];
            total += count;
            before += block < first_block ? count : 0;
        }
        const auto add = [](int a, int b) { return a + b; };
        total = over_lanes(total, WAVE, add);
        before = over_lanes(before, WAVE, add);
        const int block = first_block + place.lane;
        const bool is_mine = place.lane < SORT_BLOCKS && block < n_blocks;
        const int own = sum_before(is_mine ? args.count[group * n_blocks + block] : 0);
        if (place.lane < SORT_BLOCKS) block_row[group][place.lane] = before + own;
        if (place.lane == 0) totals[group] = total;
    }
    __syncthreads();
    if (place.wave == 0) {
        const int total = place.lane < n_groups ? totals[place.lane] : 0;
        first_row[place.lane] = sum_before(total);
        first_tile[place.lane] = sum_before((total + args.tile_rows - 1) / args.tile_rows);
    }
    __syncthreads();

    const int choices = args.choices(), of_block = ROUTER_TOKENS * choices;
    const int first = first_block * of_block, last = min(first + SORT_BLOCKS * of_block, args.n_tokens * choices);
    for (int c = first + place.thread; c < last; c += ROUTER_THREADS) {
        const u32 word = args.group_rank[c];
        const int group = word & ((1 << RANK_BITS) - 1);
        args.row_choice[first_row[group] + block_row[group][(c - first) / of_block] + (word >> RANK_BITS)] = c;
    }
    if (blockIdx.x != 0) return;
    for (int group = place.wave; group < n_groups; group += ROUTER_THREADS / WAVE) {
        const int n_tiles = (totals[group] + args.tile_rows - 1) / args.tile_rows, begin = first_row[group];
        for (int tile = place.lane; tile < n_tiles; tile += WAVE)
            args.tiles[1 + first_tile[group] + tile] = {group, first_tile[group], begin, begin + totals[group]};
        if (group == n_groups - 1 && place.lane == 0) args.tiles[0].x = first_tile[group] + n_tiles;
    }
}
