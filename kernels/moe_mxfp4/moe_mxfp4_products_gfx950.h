// amd-moe-mxfp4 on gfx950: a workgroup's tile of a product, by waves of which each has all activations that it takes in its
// registers, or by waves that share them in LDS.
#pragma once

#include "moe_mxfp4_sort_gfx950.h"
#include "moe_mxfp4_strips_gfx950.h"
#include "mxfp4_gfx950.h"

constexpr u32 SHARED_WIDTH = 8192;  // of products whose activations' scales have room in LDS, the most

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
