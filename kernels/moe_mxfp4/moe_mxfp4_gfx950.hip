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
#include "moe_mxfp4_sort_gfx950.h"
#include "moe_mxfp4_strips_gfx950.h"
#include "mxfp4_gfx950.h"
#include "workgroup_order.h"

constexpr u32 COMPUTE_UNITS = 256;  // MI355X
constexpr u32 TERMS = 9;            // of a token, that are fetched together
constexpr u32 HALF_ROWS = 64;       // of a block of 128 or 144: of its first half, as `down` takes them
constexpr u32 SHARED_WIDTH = 8192;  // of products whose activations' scales have room in LDS, the most

// --- the products --------------------------------------------------------------------------------------------------

// Goes over columns k of a wave's FM times 16 rows and its strips. A stage is STEPS * 128 columns.
template <class Activations, int FM, int FN, int STEPS>
struct Product {
    struct Operands {
        Strips<FN, STEPS> b;
        u32x4 a[FM][STEPS];
        u32 a_scale[FM];
    };

    Weights<FN, STEPS> weights;
    Buffer a, a_scales;
    u32 a_at[FM], a_scale_at[FM];

    // row(fm, row of its 16): in a.
    template <class Row>
    __device__ Product(const Weights<FN, STEPS>& weights_, const unsigned char* a_codes, const unsigned char* a_scale,
                       u32 a_rows, u32 k, Row row)
        : weights(weights_),
          a(make_buffer(a_codes, a_rows * (k / 2))),
          a_scales(make_buffer(a_scale, Activations::scale_bytes(a_rows, k))) {
        const u32 block = weights.lane / STRIP;
#pragma unroll
        for (int fm = 0; fm < FM; ++fm) {
            const u32 own = row(fm, weights.lane % STRIP);
            a_at[fm] = Activations::codes_at(own, block, k);
            a_scale_at[fm] = Activations::scales_at(own, block, k);
        }
    }

    __device__ void load(Operands& x, u32 stage) const {
        load_activations(x, stage);
        weights.load(x.b, stage);
    }
    __device__ void load_activations(Operands& x, u32 stage) const {
        const u32 step0 = stage * STEPS;
#pragma unroll
        for (int fm = 0; fm < FM; ++fm) {
            x.a_scale[fm] = __builtin_amdgcn_raw_buffer_load_b32(
                a_scales, a_scale_at[fm], Activations::word_at(step0 / WORD_STEPS), CACHE_NORMAL);
#pragma unroll
            for (int step = 0; step < STEPS; ++step)
                x.a[fm][step] = __builtin_amdgcn_raw_buffer_load_b128(a, a_at[fm] + step * Activations::STEP_BYTES,
                                                                      step0 * Activations::STEP_BYTES, CACHE_NORMAL);
        }
    }

    template <int STEP = 0>
    static __device__ void multiply(const Operands& x, u32 stage, f32x4 (&sum)[FM][FN]) {
#pragma unroll
        for (int fm = 0; fm < FM; ++fm)
            multiply_step<STEP>(x.b, x.a[fm][STEP], stage_scales<STEPS>(x.a_scale[fm], stage), sum[fm]);
        if constexpr (STEP + 1 < STEPS) multiply<STEP + 1>(x, stage, sum);
    }

    // Stages first ... last - 1, at least one of them, each loaded while the one before it is multiplied.
    __device__ void run(u32 first, u32 last, f32x4 (&sum)[FM][FN]) const {
        Operands even, odd;
        u32 stage = first;
        load(even, stage);
        for (; stage + 2 < last; stage += 2) {
            load(odd, stage + 1);
            multiply(even, stage, sum);
            load(even, stage + 2);
            multiply(odd, stage + 1, sum);
        }
        const bool two = stage + 1 < last;
        if (two) load(odd, stage + 1);
        multiply(even, stage, sum);
        if (two) multiply(odd, stage + 1, sum);
    }

    // All stages of several tiles of columns, one tile after the other, and store(tile, sum): the next one's weights are under
    // way meanwhile. begin(): once the first loads are under way. RESIDENT: activations, of two stages at most, stay in registers.
    template <bool RESIDENT, class Begin, class Store>
    __device__ void run_tiles(u32 tiles, u32 strips, u32 stages, Begin begin, Store store) {
        Operands even, odd;
        f32x4 sum[FM][FN] = {};
        u32 stage = 0, tile = 0, next = 0, left = tiles;
        auto load_next = [&](Operands& x) {
            if constexpr (!RESIDENT) load_activations(x, next);
            weights.load(x.b, next);
            if (++next < stages) return;
            next = 0;
            weights.next_tile(strips, stages * STEPS * STEP_K);
            // Behind the last tile loads are out of range: with a branch around them each wait would be for all that is under way.
            weights.lane += --left == 0 ? OUT_OF_RANGE / 16 : 0;
        };
        // Whether it was the last stage of all.
        auto multiply_next = [&](const Operands& x) {
            multiply(x, stage, sum);
            if (++stage < stages) return false;
            store(tile, sum);
            stage = 0, ++tile;
#pragma unroll
            for (int i = 0; i < FM * FN; ++i) sum[i / FN][i % FN] = f32x4(0);
            return tile == tiles;
        };
        if constexpr (RESIDENT) load_activations(even, 0), load_activations(odd, stages - 1);
        load_next(even);
        begin();
        while (true) {
            load_next(odd);
            if (multiply_next(even)) return;
            load_next(even);
            if (multiply_next(odd)) return;
        }
    }
};

// The same for all waves of a workgroup, whose rows and stages are the same: each brings its part of two stages'
// activations, a pair ahead, and hands it to all by LDS, in the order in which they read it. A strip of weights is loaded as
// soon as the one two stages before it, whose registers it takes, is multiplied: memory always has something to do.
template <class Activations, class T>
struct SharedProduct {
    static constexpr int FM = T::FM, FN = T::FN, STEPS = T::STEPS, WAVES = T::WAVES_N, PAIR = 2;
    // 16 rows by a step each, that a wave brings of a stage; the last wave's last ones may be none.
    static constexpr int PARTS = (FM * STEPS + WAVES - 1) / WAVES;
    static constexpr u32 UNITS = SHARED_WIDTH / SCALE_UNIT, WORDS = UNITS * UNIT_STEPS / WORD_STEPS;
    static constexpr int OWN_UNITS = UNITS * FM / WAVES;  // of scales: of 16 rows by SCALE_UNIT columns
    static_assert(T::WAVES_K == 1 && STEPS * PAIR == WORD_STEPS && OWN_UNITS * WAVES == UNITS * FM);
    struct Shared {
        u32x4 codes[2][PAIR][PARTS * WAVES][WAVE];
        u32 scales[WORDS][FM][WAVE];
    };

    const Weights<FN, STEPS>& weights;
    Shared& shared;
    Buffer a;
    u32 a_at[PARTS], wave, stages;
    Strips<FN, STEPS> b[PAIR];
    u32x4 own[PAIR][PARTS], x[FM][STEPS];
    u32 scale[FM];

    __device__ SharedProduct(const Weights<FN, STEPS>& weights_, Shared& shared_, const unsigned char* a_codes,
                             u32 a_rows, u32 k, u32 wave_)
        : weights(weights_),
          shared(shared_),
          a(make_buffer(a_codes, a_rows * (k / 2))),
          wave(wave_),
          stages(k / (STEPS * STEP_K)) {}

    // Of a row's block, so that neither four lanes that bring a row nor eight that read a block's rows meet in a bank.
    static __device__ u32 place(u32 block, u32 row) { return block * STRIP + (row ^ 2 * block); }

    __device__ void load_own(u32 pair) {
#pragma unroll
        for (int i = 0; i < PAIR * PARTS; ++i)
            own[i / PARTS][i % PARTS] = __builtin_amdgcn_raw_buffer_load_b128(
                a, a_at[i % PARTS], min(pair * PAIR + i / PARTS, stages - 1) * STEPS * Activations::STEP_BYTES,
                CACHE_NORMAL);
    }
    // To where the other waves find it, which have read what was there before.
    __device__ void hand_over(u32 pair) const {
        const u32 at = place(Activations::block(weights.lane), Activations::row(weights.lane));
#pragma unroll
        for (int i = 0; i < PAIR * PARTS; ++i)
            shared.codes[pair % 2][i / PARTS][wave * PARTS + i % PARTS][at] = own[i / PARTS][i % PARTS];
        asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory");
    }
    __device__ void read(u32 pair, int of_pair, int fm, int step) {
        const u32 at = place(weights.lane / STRIP, weights.lane % STRIP);
        x[fm][step] = shared.codes[pair % 2][of_pair][fm * STEPS + step][at];
    }
    __device__ void read_scale(u32 pair, int fm) { scale[fm] = shared.scales[pair][fm][weights.lane]; }

    // A strip of a stage. READS: afterwards the stage that follows is in x.
    template <int OF_PAIR, bool READS>
    __device__ void multiply_strip(int fn, u32 pair, f32x4 (&sum)[FM][FN]) {
        const auto& strips = b[OF_PAIR];
#pragma unroll
        for (int step = 0; step < STEPS; ++step)
#pragma unroll
            for (int fm = 0; fm < FM; ++fm) {
                auto add = [&](auto row_scale) {  // its byte; that of the activations follows
                    constexpr int ROW = row_scale.value;
                    sum[fm][fn] = mfma_mxfp4<ROW, OF_PAIR * STEPS + ROW / 2>(
                        strips.codes[fn][step], x[fm][step], sum[fm][fn], strips.scales[fn / 2][0], scale[fm]);
                };
                if (step * 2 + fn % 2 == 0) add(std::integral_constant<int, 0>());
                if (step * 2 + fn % 2 == 1) add(std::integral_constant<int, 1>());
                if (step * 2 + fn % 2 == 2) add(std::integral_constant<int, 2>());
                if (step * 2 + fn % 2 == 3) add(std::integral_constant<int, 3>());
                if (!READS) continue;
                read(pair + OF_PAIR, 1 - OF_PAIR, fm, step);
                if (OF_PAIR == 1 && step == STEPS - 1) read_scale(pair + 1, fm);
            }
        __builtin_amdgcn_sched_barrier(0);
    }

    // A stage. NEXT: one follows it; LOADS: and one more, whose weights are loaded here, behind two strips each: the registers
    // of those are free.
    template <int OF_PAIR, bool NEXT, bool LOADS>
    __device__ void multiply(u32 pair, f32x4 (&sum)[FM][FN]) {
        const u32 loaded = min((pair + 1) * PAIR + OF_PAIR, stages - 1);
        if (LOADS && OF_PAIR == 0) load_own(pair + 1);
#pragma unroll
        for (int fn = 0; fn < FN; ++fn) {
            if (fn == FN - 1 && NEXT && OF_PAIR == 1) hand_over(pair + 1);
            if (fn < FN - 1 || !NEXT) multiply_strip<OF_PAIR, false>(fn, pair, sum);
            else multiply_strip<OF_PAIR, true>(fn, pair, sum);
            if (LOADS && fn % 2 == 1) {
                weights.load_strip(b[OF_PAIR], loaded, fn - 1);
                weights.load_strip(b[OF_PAIR], loaded, fn);
            }
            __builtin_amdgcn_sched_barrier(0);
        }
    }

    // All of k. row(sixteen, row): of the activations.
    template <class Row>
    __device__ void run(const unsigned char* a_scale, u32 a_rows, u32 k, Row row, f32x4 (&sum)[FM][FN]) {
        const u32 own_row = Activations::row(weights.lane), own_block = Activations::block(weights.lane);
        u32 scales_at[OWN_UNITS];
#pragma unroll
        for (int i = 0; i < PARTS; ++i) {
            const u32 part = wave * PARTS + i;
            a_at[i] = Activations::codes_at(row(min(part / STEPS, FM - 1u), own_row), own_block, k) +
                      part % STEPS * Activations::STEP_BYTES;
            if (part >= FM * STEPS) a_at[i] = OUT_OF_RANGE;
        }
        auto own_unit = [&](int i) { return wave * OWN_UNITS + i; };
#pragma unroll
        for (int i = 0; i < OWN_UNITS; ++i)
            scales_at[i] = Activations::scales_at(row(own_unit(i) / UNITS, own_row), own_block, k);
        weights.load(b[0], 0);
        __builtin_amdgcn_sched_barrier(0);
        load_own(0);
        // Scales of all columns at once: a row's lie in a line or two.
        const Buffer a_scales = make_buffer(a_scale, Activations::scale_bytes(a_rows, k));
        u32x4 own_scales[OWN_UNITS] = {};
#pragma unroll
        for (int i = 0; i < OWN_UNITS; ++i) {
            const u32 unit = own_unit(i) % UNITS;
            if (unit * SCALE_UNIT < k)
                own_scales[i] = __builtin_amdgcn_raw_buffer_load_b128(
                    a_scales, scales_at[i], Activations::word_at(unit * UNIT_WORDS), CACHE_NORMAL);
        }
        __builtin_amdgcn_sched_barrier(0);
        weights.load(b[1], min(1u, stages - 1));
        __builtin_amdgcn_sched_barrier(0);
#pragma unroll
        for (int i = 0; i < OWN_UNITS * 4; ++i)
            shared.scales[own_unit(i / 4) % UNITS * 4 + i % 4][own_unit(i / 4) / UNITS][own_block * STRIP + own_row] =
                own_scales[i / 4][i % 4];
        hand_over(0);
#pragma unroll
        for (int i = 0; i < FM * STEPS; ++i) read(0, 0, i / STEPS, i % STEPS);
#pragma unroll
        for (int fm = 0; fm < FM; ++fm) read_scale(0, fm);
        u32 pair = 0;
        for (; (pair + 1) * PAIR < stages; ++pair) {
            multiply<0, true, true>(pair, sum);
            multiply<1, true, true>(pair, sum);
        }
        if (stages % PAIR != 0) return multiply<0, false, false>(pair, sum);
        multiply<0, true, false>(pair, sum);
        multiply<1, false, false>(pair, sum);
    }
};

// A workgroup's tile of a product. WAVES_N waves take 16 * FN columns each, WAVES_K waves divide k.
// SHARED: activations by way of LDS.
template <int FM_, int FN_, int WAVES_N_, int WAVES_K_, int STEPS_, bool SHARED_ = false>
struct MoeTile {
    static constexpr int FM = FM_, FN = FN_, WAVES_N = WAVES_N_, WAVES_K = WAVES_K_, STEPS = STEPS_;
    static constexpr int BLOCK_M = FM * STRIP, THREADS = WAVES_N * WAVES_K * WAVE;
    static constexpr int BLOCK_N = WAVES_N * FN * STRIP;
    static constexpr bool SHARED = SHARED_;
    static constexpr bool HIGH = BLOCK_M >= LOWER_ROWS;
    static constexpr int GATE_UP_WAVES = HIGH ? 1 : FM == 2 || (FM == 1 && STEPS == 2) ? 3 : 2;  // a SIMD
    static constexpr int GATE_UP_GROUPS = GATE_UP_WAVES * 4 * WAVE / THREADS;                    // a compute unit
    static constexpr int SUMS_BYTES = (WAVES_K - 1) * WAVES_N * FM * FN * WAVE * 16;
};

// Adds the sums of the waves that divide k to those of the first, in their order; false for the others.
template <class T>
__device__ bool add_waves(f32x4 (&sum)[T::FM][T::FN], u32 wave_n, u32 wave_k, u32 lane) {
    if constexpr (T::WAVES_K == 1) return true;
    __shared__ f32x4 sums[T::SUMS_BYTES / 16 + 1];
    auto place = [&](u32 k, u32 s) { return ((k * T::WAVES_N + wave_n) * T::FM * T::FN + s) * WAVE + lane; };
    if (wave_k > 0)
#pragma unroll
        for (int s = 0; s < T::FM * T::FN; ++s) sums[place(wave_k - 1, s)] = sum[s / T::FN][s % T::FN];
    __syncthreads();
    if (wave_k > 0) return false;
#pragma unroll
    for (int s = 0; s < T::FM * T::FN; ++s)
#pragma unroll
        for (u32 k = 0; k < T::WAVES_K - 1; ++k) sum[s / T::FN][s % T::FN] += sums[place(k, s)];
    return true;
}

// A wave's sums over its part of k. row(fm, row of its 16): of the activations; strip(fn): of its weights; lds: room for T's
// activations where they are SHARED. false: the wave's sums went to another one.
template <class T, class Row, class Strip>
__device__ bool product(const unsigned char* a, const unsigned char* a_scale, u32 a_rows, const unsigned char* b,
                        const unsigned char* b_scale, u32 b_rows, u32 k, u32 wave, u32 lane, Row row, Strip strip,
                        void* lds, f32x4 (&sum)[T::FM][T::FN]) {
    const Weights<T::FN, T::STEPS> weights(b, b_scale, b_rows, k, lane, strip);
    if constexpr (T::SHARED) {
        using Shared = SharedProduct<Gathered, T>;
        auto& shared = *static_cast<typename Shared::Shared*>(lds);
        Shared(weights, shared, a, a_rows, k, wave).run(a_scale, a_rows, k, row, sum);
        return true;
    } else {
        const u32 wave_n = wave % T::WAVES_N, wave_k = wave / T::WAVES_N, stages = k / (T::STEPS * STEP_K);
        const u32 first = wave_k * stages / T::WAVES_K, last = (wave_k + 1) * stages / T::WAVES_K;
        if (first < last)
            Product<Gathered, T::FM, T::FN, T::STEPS>(weights, a, a_scale, a_rows, k, row).run(first, last, sum);
        return add_waves<T>(sum, wave_n, wave_k, lane);
    }
}

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
