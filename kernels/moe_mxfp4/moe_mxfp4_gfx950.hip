// amd-moe-mxfp4 on gfx950 in three launches:
//
// 1. sort_and_quantize: some workgroups sort pairs of a token and one of its experts by expert, each expert's padded to
//    whole blocks of BLOCK_M rows; the others quantise the hidden states.
// 2. gate_up: a block times its expert's gate and up weights, silu(gate) * up, quantised in the epilogue.
// 3. down: that times the expert's down weights and the routing weight, summed over a token's experts. By columns: in LDS, by
//    workgroups that go over all experts. Or by tiles: a row for each pair, and the workgroup that brings a token's last row
//    adds the token's rows up, in the order of its experts.
//
// In both products weights go from memory straight to the registers of the matrix instruction, a stage ahead.
// Activations do as well, with no barrier in the loop, or, with blocks of 64 rows, by way of LDS to all waves.
// docs/kernels/moe_mxfp4.md has layouts and reasons.
#include <hip/hip_runtime.h>

#include <stdexcept>
#include <string>
#include <type_traits>

#include "moe_mxfp4_columns_gfx950.h"
#include "moe_mxfp4_products_gfx950.h"
#include "moe_mxfp4_sort_gfx950.h"
#include "moe_mxfp4_strips_gfx950.h"
#include "mxfp4_gfx950.h"
#include "workgroup_order.h"

constexpr u32 COMPUTE_UNITS = 256;  // MI355X
constexpr u32 TERMS = 9;            // of a token, that are fetched together
constexpr u32 HALF_ROWS = 64;       // of a block of 128 or 144: of its first half, as `down` takes them

// Which block and which columns the id-th of all is, of each XCD's contiguous range: blocks of one expert follow each other
// and read the same weights from one L2.
struct Place {
    u32 block, column;

    // by_columns: all blocks of some columns before the next ones, so that what comes of them stays in an L2 or two. The
    // last expert first: a shared one has all tokens, and would have all of their sums to add, were it the last.
    __device__ Place(u32 id, u32 blocks, u32 columns, bool by_columns) {
        const u32 own = xcd_contiguous<N_XCD>(id, blocks * columns);
        block = by_columns ? blocks - 1 - own % blocks : own / columns;
        column = by_columns ? own / blocks : own % columns;
    }
};

// A wave: two strips of gate and the two of up that belong to them, 32 columns of `inner`: one block.
// n_rows: pairs, from row0 on; rows beyond them repeat the last one.
template <class T>
__device__ void gate_up_tile(const MoeArgs& args, u32 row0, u32 n_rows, u32 expert, u32 tile_column, void* lds) {
    static_assert(T::FN == 4);
    const u32 lane = threadIdx.x % WAVE, wave = __builtin_amdgcn_readfirstlane(threadIdx.x / WAVE);
    const u32 column = (tile_column * T::WAVES_N + wave % T::WAVES_N) * MX_BLOCK;
    u32 K = args.width;
    // What follows from it is not kept from tile to tile: there are not enough scalar registers.
    asm volatile("" : "+s"(K));
    const u32 rows = 2 * args.inner_width;
    const size_t weights = static_cast<size_t>(expert) * rows;
    f32x4 sum[T::FM][T::FN] = {};
    if (!product<T>(
            args.codes, args.scales, args.tokens, args.gate_up + weights * (K / 2),
            args.gate_up_scale + weights * (K / MX_BLOCK), rows, K, wave, lane,
            [&](u32 sixteen, u32 own) { return args.rows[row0 + min(sixteen * STRIP + own, n_rows - 1)][0]; },
            [&](u32 fn) { return (fn / 2 * args.inner_width + column) / STRIP + fn % 2; }, lds, sum))
        return;

    const u32 step = column / STEP_K, block = column % STEP_K / MX_BLOCK;
    unsigned char* const inner =
        args.inner + static_cast<size_t>(row0) * (args.inner_width / 2) + step * InStrips::STEP_BYTES;
    unsigned char* const inner_scale = args.inner_scale + InStrips::scale_bytes(row0, args.inner_width) +
                                       InStrips::word_at(step / WORD_STEPS) + step % WORD_STEPS;
#pragma unroll
    for (int fm = 0; fm < T::FM; ++fm) {
        const u32 row = fm * STRIP + lane % STRIP;
        u32x4 pairs[1];  // columns 4 * (lane / 16) ... + 3 of either strip
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            auto value = [&](int j) {
                const float gate = sum[fm][i / 2][i % 2 * 2 + j], up = sum[fm][2 + i / 2][i % 2 * 2 + j];
                const float exponential = __builtin_amdgcn_exp2f(-1.44269504f * gate);
                return gate * __builtin_amdgcn_rcpf(1.0f + exponential) * up;
            };
            pairs[0][i] = column < args.inner_used ? pack_bf16(value(0), value(1)) : 0;
        }
        u16x2 largest = bf16_magnitudes(pairs[0][0]);
#pragma unroll
        for (int i = 1; i < 4; ++i) largest = __builtin_elementwise_max(largest, bf16_magnitudes(pairs[0][i]));
        u32 of_block = max(largest[0], largest[1]);
        of_block = max(of_block, static_cast<u32>(__shfl_xor(static_cast<int>(of_block), 16)));
        of_block = max(of_block, static_cast<u32>(__shfl_xor(static_cast<int>(of_block), 32)));
        zero_nans(pairs, of_block);
        const u32 scale = mxfp4_scale(of_block), codes = mxfp4_codes<true>(pairs[0], scale);
        auto* const at = reinterpret_cast<unsigned short*>(inner + InStrips::codes_at(row, block, args.inner_width));
        at[lane / STRIP] = codes;
        at[lane / STRIP + 4] = codes >> 16;
        if (lane < STRIP) inner_scale[InStrips::scales_at(row, block, args.inner_width)] = scale;
    }
}

// Of the activations.
template <class T>
constexpr size_t gate_up_lds_bytes() {
    if constexpr (T::SHARED) return sizeof(typename SharedProduct<Gathered, T>::Shared);
    return 1;
}

// Of blocks of 128 rows and more: what multiplies as many rows as there are pairs, or little more. Each height is code of its own.
// All 64 rows that `down` reads together are written.
template <class T>
__device__ void gate_up_rows(const MoeArgs& args, u32 row0, u32 rows, bool half, u32 expert, u32 column, void* lds) {
    auto multiply = [&](auto sixteens) {
        using Lower = MoeTile<sixteens.value, T::FN, T::WAVES_N, T::WAVES_K, T::STEPS, T::SHARED>;
        gate_up_tile<Lower>(args, row0, rows, expert, column, lds);
    };
    if constexpr (!T::HIGH) return multiply(std::integral_constant<int, T::FM>());
    if (rows <= HALF_ROWS) return multiply(std::integral_constant<int, HALF_ROWS / STRIP>());
    if constexpr (T::BLOCK_M > LOWER_ROWS) {
        if (half) return multiply(std::integral_constant<int, T::FM - HALF_ROWS / STRIP>());
        if (rows > LOWER_ROWS) return multiply(std::integral_constant<int, T::FM>());
    }
    multiply(std::integral_constant<int, LOWER_ROWS / STRIP>());
}

// No more workgroups than there is room for, each with tile after tile: how many tiles there are stands in memory, and of a grid
// for the most that there can be a third would find none. Blocks of 128 rows and more: if the last round's tiles would leave
// half of the card idle, each is cut into halves by rows.
template <class T>
__global__ __launch_bounds__(T::THREADS, T::GATE_UP_WAVES) void gate_up_kernel(const int* block_experts, u32 blocks,
                                                                               u32 columns, MoeArgs args) {
    args.block_experts = const_cast<int*>(block_experts);
    const u32 filled = block_experts[blocks];
    __shared__ __attribute__((aligned(16))) unsigned char lds[gate_up_lds_bytes<T>()];
    constexpr u32 ROUND = T::GATE_UP_GROUPS * COMPUTE_UNITS;
    const u32 tiles = filled * columns, last = tiles % ROUND;
    const bool halves = T::HIGH && 2 * last <= ROUND;
    const u32 whole = halves ? tiles - last : tiles, end = halves && last != 0 ? whole + ROUND : tiles;
    for (u32 id = blockIdx.x; id < end; id += ROUND) {
        const bool half = id >= whole;
        // Both halves on one XCD, whose L2 then brings the weights once.
        const u32 at = id - whole, tile = half ? whole + at / (2 * N_XCD) * N_XCD + at % N_XCD : id;
        if (tile >= tiles) return;
        const Place place(tile, filled, columns, false);
        const BlockOf block(block_experts[place.block]);
        const u32 first = half ? at / N_XCD % 2 * HALF_ROWS : 0;
        if (block.rows <= first) return;
        const u32 rows = min(block.rows - first, half && first == 0 ? HALF_ROWS : T::BLOCK_M);
        gate_up_rows<T>(args, place.block * T::BLOCK_M + first, rows, half, block.expert, place.column, lds);
        __syncthreads();
    }
}

// Of a tile's rows, and of the activations, which lie there before them.
template <class T, class Rows>
constexpr size_t lds_bytes() {
    size_t bytes = sizeof(Rows);
    if constexpr (T::SHARED)
        if (sizeof(typename SharedProduct<InStrips, T>::Shared) > bytes)
            bytes = sizeof(typename SharedProduct<InStrips, T>::Shared);
    return bytes;
}

// A block, and `args.down_tiles` tiles of columns. A row goes to memory as a whole line for each wave, so by way of LDS.
// It is a term, and whoever brings a token's last one adds them up.
template <class T, bool RESIDENT>
__global__ __launch_bounds__(T::THREADS, T::FM == 1   ? 4
                                         : T::FM == 2 ? 3
                                                      : 2) void down_kernel(const int* block_experts, u32 blocks,
                                                                            const int* row_pairs, u32 block_rows,
                                                                            u32 parts, MoeArgs args) {
    args.row_pairs = const_cast<int*>(row_pairs);
    constexpr u32 COLUMNS = T::FN * STRIP, PADDED = COLUMNS + 8;  // of a wave
    using Rows = unsigned short[T::WAVES_N][T::BLOCK_M][PADDED];
    using Shared = SharedProduct<InStrips, T>;
    __shared__ __attribute__((aligned(16))) unsigned char lds[lds_bytes<T, Rows>()];
    Rows& rows = *reinterpret_cast<Rows*>(lds);
    // Of each wave, so that none waits for another before the first tile: rows' places in memory, and their weights.
    __shared__ u32 places[T::WAVES_N][T::BLOCK_M];
    __shared__ float row_weights[T::WAVES_N][T::BLOCK_M];
    __shared__ u32 complete[T::BLOCK_M], n_complete;  // tokens whose rows are all there
    const u32 id = blockIdx.y * gridDim.x + blockIdx.x, with_work = block_experts[blocks] * parts;
    if (id >= with_work * gridDim.x) return;
    const Place place(id, with_work, gridDim.x, true);
    const u32 block = place.block / parts, part_row0 = place.block % parts * T::BLOCK_M;
    const BlockOf of(block_experts[block]);
    if (of.rows <= part_row0) return;
    const u32 filled = uniform(min(of.rows - part_row0, T::BLOCK_M));
    const u32 thread = threadIdx.x, lane = thread % WAVE, wave = __builtin_amdgcn_readfirstlane(thread / WAVE);
    const u32 row0 = block * block_rows + part_row0, column0 = place.column * args.down_tiles * T::BLOCK_N;
    const u32 column = column0 + wave * COLUMNS, K = args.inner_width, stages = K / (T::STEPS * STEP_K);
    const u32 tiles = min(args.down_tiles, (args.width - column0) / T::BLOCK_N);

    const int own_pair = args.row_pairs[row0 + min(lane % T::BLOCK_M, filled - 1)];
    const float own_weight = args.topk_weights[own_pair];
    if (thread == 0) n_complete = 0;
    auto keep_rows = [&] {
        places[wave][lane % T::BLOCK_M] = own_pair;
        row_weights[wave][lane % T::BLOCK_M] = own_weight;
        wave_lds_fence();
    };

    const Buffer terms = make_buffer(args.terms, args.tokens * args.topk * args.used * 2);
    auto store = [&](u32 tile, f32x4(&sum)[T::FM][T::FN]) {
        auto& own = rows[wave];
#pragma unroll
        for (int fm = 0; fm < T::FM; ++fm) {
            const u32 row = fm * STRIP + lane % STRIP;
            const float weight = row_weights[wave][row];
#pragma unroll
            for (int fn = 0; fn < T::FN; ++fn) {
                const f32x4 value = sum[fm][fn] * weight;
                const u32x2 four = {pack_bf16(value[0], value[1]), pack_bf16(value[2], value[3])};
                *reinterpret_cast<u32x2*>(&own[row][fn * STRIP + lane / STRIP * 4]) = four;
            }
        }
        wave_lds_fence();
        // Several rows at a time, eight columns of one a lane. Past the XCD's L2, and the loads below as well: the wait is all
        // the release that they need.
        constexpr u32 PER_ROW = COLUMNS / 8;
        const u32 at = lane % PER_ROW * 8, to = column + tile * T::BLOCK_N + at;
        for (u32 first = 0; first < filled; first += WAVE / PER_ROW) {
            const u32 row = first + lane / PER_ROW;
            if (row < filled && to < args.used)
                __builtin_amdgcn_raw_buffer_store_b128(*reinterpret_cast<const u32x4*>(&own[row][at]), terms,
                                                       (places[wave][row] * args.used + to) * 2, 0, CACHE_AGENT);
        }
        wave_lds_fence();
    };

    const size_t weight_rows = static_cast<size_t>(of.expert) * args.width;
    Weights<T::FN, T::STEPS> weights(args.down + weight_rows * (K / 2), args.down_scale + weight_rows * (K / MX_BLOCK),
                                     args.width, K, lane, [&](u32 fn) { return column / STRIP + fn; });
    const unsigned char* const a = args.inner + static_cast<size_t>(row0) * (K / 2);
    const unsigned char* const a_scale = args.inner_scale + InStrips::scale_bytes(row0, K);
    auto row = [](u32 sixteen, u32 own) { return sixteen * STRIP + own; };
    if constexpr (T::SHARED) {
        auto& shared = *reinterpret_cast<typename Shared::Shared*>(lds);
        keep_rows();
        for (u32 tile = 0; tile < tiles; ++tile) {
            f32x4 sum[T::FM][T::FN] = {};
            // Unknown, lest there be a loop for odd numbers of stages and one for even ones.
            u32 k = K;
            asm volatile("" : "+s"(k));
            Shared(weights, shared, a, T::BLOCK_M, k, wave).run(a_scale, T::BLOCK_M, k, row, sum);
            __syncthreads();  // rows lie where activations did
            store(tile, sum);
            weights.next_tile(T::BLOCK_N / STRIP, K);
            __syncthreads();
        }
    } else {
        Product<InStrips, T::FM, T::FN, T::STEPS>(weights, a, a_scale, T::BLOCK_M, K, row)
            .template run_tiles<RESIDENT>(tiles, T::BLOCK_N / STRIP, stages, keep_rows, store);
    }

    asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
    __syncthreads();
    if (thread < filled) {
        const u32 token = places[0][thread] / args.topk;
        const u32 before = arrive(args.arrived + token * gridDim.x + place.column);
        if (before == args.topk - 1) complete[atomicAdd(&n_complete, 1u)] = token;
    }
    __syncthreads();
    const u32 per_row = tiles * (T::BLOCK_N / 8);  // threads, with 8 columns each
    for (u32 at = thread; at < n_complete * per_row; at += T::THREADS) {
        const u32 token = complete[at / per_row], own = column0 + at % per_row * 8;
        if (own >= args.used) continue;
        float total[8] = {};
        for (u32 first_slot = 0; first_slot < args.topk; first_slot += TERMS) {
            u32x4 eight[TERMS];  // under way together
#pragma unroll
            for (u32 i = 0; i < TERMS; ++i) {
                const u32 slot = min(first_slot + i, args.topk - 1);
                eight[i] = __builtin_amdgcn_raw_buffer_load_b128(
                    terms, ((token * args.topk + slot) * args.used + own) * 2, 0, CACHE_AGENT);
            }
            __builtin_amdgcn_sched_barrier(0);
#pragma unroll
            for (u32 i = 0; i < TERMS; ++i) {
                const bool there = first_slot + i < args.topk;
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    total[2 * j] += there ? low_bf16(eight[i][j]) : 0.0f;
                    total[2 * j + 1] += there ? high_bf16(eight[i][j]) : 0.0f;
                }
            }
        }
        u32x4 rounded;
#pragma unroll
        for (int i = 0; i < 4; ++i) rounded[i] = pack_bf16(total[2 * i], total[2 * i + 1]);
        *reinterpret_cast<u32x4*>(args.out + static_cast<size_t>(token) * args.used + own) = rounded;
    }
}

// --- host ----------------------------------------------------------------------------------------------------------

// Of what `down` multiplies a block's activations: two stages.
template <class Down>
static bool stays_in_registers(const MoeArgs& args) {
    return !Down::SHARED && args.inner_width <= 2 * Down::STEPS * STEP_K;
}

template <int FM, int WAVES>
static void launch_columns(const MoeArgs& args, u32 rows) {
    u32 sharers = 1;  // as few as there is room for copies
    while (args.tokens > SUM_ROWS / (WAVES / sharers) || WAVES % sharers != 0) ++sharers;
    const auto kernel =
        args.inner_width == 4 * STEP_K ? down_columns_kernel<FM, 4, WAVES> : down_columns_kernel<FM, 2, WAVES>;
    kernel<<<args.used / SUM_COLUMNS, WAVES * WAVE>>>(args.turns, args.most_turns, rows, sharers, args.width, args.down,
                                                      args.down_scale, args.inner, args);
}

static bool goes_by_columns(const MoeArgs& args, u32 block_rows) {
    const bool known = args.turn_rows == 16 || args.turn_rows == 32 || args.turn_rows == 48 || args.turn_rows == 144;
    const bool whole_k = args.inner_width == 2 * STEP_K || args.inner_width == 4 * STEP_K;
    return known && whole_k && args.tokens <= SUM_ROWS && block_rows <= LOWER_ROWS;
}

template <class GateUp, class Down>
static void launch(MoeArgs args) {
    constexpr u32 PARTS = (GateUp::BLOCK_M + Down::BLOCK_M - 1) / Down::BLOCK_M;  // of a block, which `down` takes
    const bool tiles = args.turn_rows == 0;
    const u32 groups = tiles ? (args.width / Down::BLOCK_N + args.down_tiles - 1) / args.down_tiles : 0;
    args.counters = args.tokens * groups;
    const u32 pairs = args.tokens * args.topk;
    const u32 own_pairs = (pairs + MOST_SORTERS * WAVE - 1) / (MOST_SORTERS * WAVE) * WAVE;
    const u32 sorters = (pairs + own_pairs - 1) / own_pairs;
    // One a compute unit: a second one would hold up who sorts.
    const u32 eights = args.tokens * (args.width / 8);
    const u32 quantisers = min((eights + FIRST_THREADS - 1) / FIRST_THREADS, COMPUTE_UNITS - sorters);
    sort_and_quantize_kernel<GateUp::BLOCK_M><<<sorters + quantisers, FIRST_THREADS>>>(
        args.hidden, args.topk_ids, args.tokens, args.topk, args.width, args.used, sorters, own_pairs,
        args.topk_weights, args.turn_rows, args);
    const u32 columns = args.inner_width / (GateUp::BLOCK_N / 2);
    const u32 most = columns * args.blocks;
    // High ones as if each were cut into halves.
    const u32 most_tiles = GateUp::HIGH ? (most + N_XCD - 1) / N_XCD * N_XCD * 2 : most;
    const u32 workgroups = min(most_tiles, COMPUTE_UNITS * GateUp::GATE_UP_GROUPS);
    gate_up_kernel<GateUp><<<workgroups, GateUp::THREADS>>>(args.block_experts, args.blocks, columns, args);
    if (tiles) {
        const auto down = stays_in_registers<Down>(args) ? down_kernel<Down, !Down::SHARED> : down_kernel<Down, false>;
        down<<<dim3(groups, args.blocks * PARTS), Down::THREADS>>>(args.block_experts, args.blocks, args.row_pairs,
                                                                   GateUp::BLOCK_M, PARTS, args);
        return;
    }
    const u32 rows = args.blocks * GateUp::BLOCK_M;
    if (args.turn_rows == 16) launch_columns<1, 8>(args, rows);
    else if (args.turn_rows == 32) launch_columns<2, 8>(args, rows);
    else if (args.turn_rows == 48) launch_columns<3, 6>(args, rows);
    else launch_columns<9, 4>(args, rows);
}

// The widest that blocks of 128 rows and more are for.
int moe_mxfp4_most_columns() { return SHARED_WIDTH; }

// That launch 1 has room for.
int moe_mxfp4_most_experts() { return MOST_EXPERTS; }

// Bytes of a row's scales: of hidden states, and of what lies between the products.
int64_t moe_mxfp4_scale_row(int64_t width) { return scale_row(width); }
int64_t moe_mxfp4_inner_scale_row(int64_t width) { return InStrips::scale_bytes(1, width); }

// addresses: of the pointers of MoeArgs, in their order. Both widths are multiples of 256, topk_ids of 0 ... experts - 1.
void moe_mxfp4(int64_t addresses, int64_t tokens, int64_t topk, int64_t experts, int64_t blocks, int64_t width,
               int64_t used, int64_t inner_width, int64_t inner_used, int block_m, int down_tiles, int turn_rows,
               int64_t most_turns) {
    MoeArgs args = {};
    static_assert(offsetof(MoeArgs, tokens) == 18 * sizeof(void*));
    __builtin_memcpy(&args, reinterpret_cast<const void*>(addresses), offsetof(MoeArgs, tokens));
    args.tokens = tokens, args.topk = topk, args.experts = experts, args.blocks = blocks;
    args.width = width, args.used = used, args.inner_width = inner_width, args.inner_used = inner_used;
    args.down_tiles = down_tiles, args.turn_rows = turn_rows, args.most_turns = most_turns;
    args.turn_reciprocal = turn_rows == 0 ? 0 : (1ull << 32) / turn_rows + 1;
    if (turn_rows != 0 && !goes_by_columns(args, block_m))
        throw std::runtime_error(
            "moe_mxfp4: down by columns takes turns of 16, 32, 48 or 144 rows, 256 or 512 columns, up to " +
            std::to_string(SUM_ROWS) + " tokens and blocks of up to 128 rows, got turns of " +
            std::to_string(turn_rows));
    const bool shared = width <= SHARED_WIDTH && inner_width <= SHARED_WIDTH;  // there is room for it in LDS
    using By64 = MoeTile<4, 4, 4, 1, 2, true>;
    using Down64 = MoeTile<4, 4, 4, 1, 2>;
    const bool resident = stays_in_registers<Down64>(args);
    if (block_m == 16 && width % 512 == 0) launch<MoeTile<1, 4, 1, 4, 4>, MoeTile<1, 4, 4, 1, 2>>(args);
    else if (block_m == 16) launch<MoeTile<1, 4, 2, 2, 2>, MoeTile<1, 4, 4, 1, 2>>(args);
    else if (block_m == 32 && shared && inner_width > 256)
        launch<MoeTile<2, 4, 4, 1, 2, true>, MoeTile<2, 4, 4, 1, 2>>(args);
    else if (block_m == 32) launch<MoeTile<2, 4, 1, 4, 2>, MoeTile<2, 4, 4, 1, 2>>(args);
    else if (block_m == 64 && !shared) launch<Down64, Down64>(args);
    else if (block_m == 64 && resident) launch<By64, Down64>(args);
    else if (block_m == 64) launch<By64, By64>(args);
    else if (block_m == 128 && shared && resident) launch<MoeTile<8, 4, 4, 1, 2, true>, Down64>(args);
    else if (block_m == 128 && shared) launch<MoeTile<8, 4, 4, 1, 2, true>, By64>(args);
    else if (block_m == 144 && shared && resident) launch<MoeTile<9, 4, 4, 1, 2, true>, Down64>(args);
    else if (block_m == 144 && shared) launch<MoeTile<9, 4, 4, 1, 2, true>, By64>(args);
    else
        throw std::runtime_error("moe_mxfp4: blocks of 16, 32 or 64 rows, or up to 8192 columns 128 or 144, got " +
                                 std::to_string(block_m));
    const hipError_t error = hipGetLastError();
    if (error != hipSuccess) throw std::runtime_error(std::string("moe_mxfp4: ") + hipGetErrorString(error));
}
