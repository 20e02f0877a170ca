// amd-moe-mxfp4 on gfx950: down where all tokens' sums have room in LDS. A workgroup has 32 columns of the output and goes
// over all experts, so that no term of a token goes to memory.
#pragma once

#include "bf16_gfx950.h"
#include "moe_mxfp4_sort_gfx950.h"
#include "moe_mxfp4_strips_gfx950.h"
#include "workgroup_order.h"

constexpr u32 SUM_COLUMNS = 32;              // of a workgroup: two strips
constexpr u32 SUM_STRIDE = SUM_COLUMNS + 2;  // so that neighbouring tokens' sums are in other banks
constexpr u32 SUM_FOURS = SUM_COLUMNS / 4;   // a token's sums: [column % 4][SUM_FOURS]
constexpr u32 SUM_ROWS = 1024;               // tokens, of all copies

// 16 rows of a turn.
template <int STEPS>
struct SixteenRows {
    u32x4 codes[STEPS];
    u32 scale;
    u32x2 row;  // the lane's row: its token and weight
};

// A wave takes turn after turn: FM sixteens of rows at most, by all of k, which is STEPS steps. The waves of a workgroup take
// the turns in their order; `sharers` neighbours add to the same copy of the sums, and must not do so at once, lest two runs
// differ. So they are a slot apart: a turn takes `sharers` slots, with a barrier behind each, and a wave adds in its last.
template <int FM, int STEPS, int WAVES>
struct ColumnsOfDown {
    static constexpr int FN = SUM_COLUMNS / STRIP;
    static constexpr int AHEAD = FM % 3 == 0 ? 3 : 2;  // sixteens that are under way

    const MoeArgs& args;
    const u32x2* turns;
    u32 most_turns, count, sharers, lane, wave, column;
    Buffer inner, inner_scale, rows;
    float (*own)[SUM_STRIDE];
    u32x2 words;
    u32 number;  // how manieth of the wave `after` is
    Turn now, next, after;
    Strips<FN, STEPS> b[2];
    SixteenRows<STEPS> a[AHEAD];

    // Its number-th turn; where there is none launch 1 has left a zero, so that the first does not wait for their number.
    __device__ Turn turn_of_wave() {
        auto place = [&](u32 n) { return wave + n * WAVES; };
        if (number % WAVE == 0) {
            words = turns[min(place(number + lane), most_turns - 1)];
            __builtin_amdgcn_s_waitcnt(0x0f70);  // for loads: else each use would wait for all that are then under way
        }
        const BlockOf of(__builtin_amdgcn_readlane(words[1], number % WAVE));
        const u32 row0 = __builtin_amdgcn_readlane(words[0], number % WAVE);
        return {row0, place(number) < most_turns ? of.rows : 0, of.expert};
    }

    __device__ void load_weights(Strips<FN, STEPS>& x, const Turn& turn) const {
        constexpr u32 K = STEPS * STEP_K;
        const size_t row = static_cast<size_t>(turn.expert) * args.width + column;
        const Weights<FN, STEPS> weights(args.down + row * (K / 2), args.down_scale + row * (K / MX_BLOCK), SUM_COLUMNS,
                                         K, turn.rows != 0 ? lane : lane + OUT_OF_RANGE / 16,
                                         [](u32 strip) { return strip; });
        weights.load(x, 0);
        __builtin_amdgcn_sched_barrier(0);
    }
    __device__ void load_rows(SixteenRows<STEPS>& x, const Turn& turn, u32 fm) const {
        constexpr u32 K = STEPS * STEP_K;
        const u32 row0 = turn.row0 + fm * STRIP, none = fm * STRIP < turn.rows ? 0 : OUT_OF_RANGE;
        x.scale = __builtin_amdgcn_raw_buffer_load_b32(inner_scale, lane * 4 + none, InStrips::scales_at(row0, 0, K),
                                                       CACHE_NORMAL);
        const u32 row = turn.row0 + min(fm * STRIP + lane % STRIP, turn.rows - 1);
        x.row = __builtin_amdgcn_raw_buffer_load_b64(rows, row * 8 + none, 0, CACHE_NORMAL);
#pragma unroll
        for (int step = 0; step < STEPS; ++step)
            x.codes[step] = __builtin_amdgcn_raw_buffer_load_b128(inner, lane * 16 + none + step * InStrips::STEP_BYTES,
                                                                  InStrips::codes_at(row0, 0, K), CACHE_NORMAL);
        __builtin_amdgcn_sched_barrier(0);
    }
    template <int STEP = 0>
    static __device__ void multiply(const Strips<FN, STEPS>& x, const SixteenRows<STEPS>& y, f32x4 (&sum)[FN]) {
        multiply_step<STEP>(x, y.codes[STEP], y.scale, sum);
        if constexpr (STEP + 1 < STEPS) multiply<STEP + 1>(x, y, sum);
    }
    static __device__ void barriers(u32 n) {
        for (u32 i = 0; i < n; ++i) asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory");
    }

    __device__ void add(const f32x4 (&sum)[FM][FN], const u32x2 (&row)[FM]) const {
#pragma unroll
        for (int fm = 0; fm < FM; ++fm) {
            if (fm * STRIP + lane % STRIP >= now.rows) continue;
            float* const at = own[row[fm][0]] + lane / STRIP;
            const float weight = __builtin_bit_cast(float, static_cast<u32>(row[fm][1]));
#pragma unroll
            for (int fn = 0; fn < FN; ++fn) {
                const f32x4 value = sum[fm][fn] * weight;
#pragma unroll
                for (int i = 0; i < 4; ++i)  // atomic for a token that has the expert twice
                    __hip_atomic_fetch_add(at + i * SUM_FOURS + fn * 4, value[i], __ATOMIC_RELAXED,
                                           __HIP_MEMORY_SCOPE_WORKGROUP);
            }
        }
    }

    // PARITY: of the turn; each keeps its weights in registers of its own.
    template <int PARITY>
    __device__ void take() {
        f32x4 sum[FM][FN] = {};
        u32x2 row[FM];
        u32 slots = sharers;
        // What follows from it is not kept from turn to turn: there are not enough scalar registers.
        asm volatile("" : "+s"(slots));
#pragma unroll
        for (int fm = 0; fm < FM; ++fm) {
            auto& x = a[(PARITY * FM + fm) % AHEAD];
            if (fm * STRIP < now.rows) multiply(b[PARITY], x, sum[fm]);
            row[fm] = x.row;
            __builtin_amdgcn_sched_barrier(0);
            const int later = (fm + AHEAD) / FM;
            load_rows(x, later == 0 ? now : later == 1 ? next : after, (fm + AHEAD) % FM);
            if (slots > 1) barriers((fm + 1) * slots / FM - fm * slots / FM - (fm == FM - 1));
        }
        load_weights(b[PARITY], after);
        add(sum, row);
        if (slots > 1) barriers(1);
        now = next;
        next = after;
        ++number;
        after = turn_of_wave();
    }

    __device__ void begin() {
        now = turn_of_wave();
        number = 1;
        next = turn_of_wave();
        number = 2;
        after = turn_of_wave();
        load_weights(b[0], now);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) load_rows(a[i], i / FM == 0 ? now : next, i % FM);
        load_weights(b[1], next);
    }
    __device__ void run() {
        if (sharers > 1) barriers(wave % sharers);
        const u32 rounds = (count + WAVES - 1) / WAVES;
        for (u32 round = 0; round < rounds; round += 2) {  // a way out between them would make each wait be for all
            take<0>();
            take<1>();
        }
        if (sharers > 1) barriers(sharers - 1 - wave % sharers);
    }
};

// sharers: see ColumnsOfDown; there are WAVES / sharers copies of the sums.
template <int FM, int STEPS, int WAVES>
__global__ __launch_bounds__(WAVES* WAVE, (WAVES + 3) / 4) void down_columns_kernel(
    const u32x2* turns, u32 most_turns, u32 rows, u32 sharers, u32 width, const unsigned char* weights,
    const unsigned char* weight_scale, const unsigned char* inner, MoeArgs args) {
    args.width = width, args.down = weights, args.down_scale = weight_scale;
    using Down = ColumnsOfDown<FM, STEPS, WAVES>;
    constexpr u32 K = STEPS * STEP_K, THREADS = WAVES * WAVE;
    __shared__ __attribute__((aligned(16))) float sums[SUM_ROWS][SUM_STRIDE];
    const u32 thread = threadIdx.x, copies = WAVES / sharers;
    const u32 lane = thread % WAVE, wave = __builtin_amdgcn_readfirstlane(thread / WAVE);
    const u32 column = xcd_contiguous<N_XCD>(blockIdx.x, gridDim.x) * SUM_COLUMNS;
    Down down{args,
              turns,
              most_turns,
              turns[most_turns][0],
              sharers,
              lane,
              wave,
              column,
              make_buffer(inner, rows * (K / 2)),
              make_buffer(args.inner_scale, InStrips::scale_bytes(rows, K)),
              make_buffer(args.rows, rows * 8),
              sums + wave / sharers * args.tokens};
    down.begin();
    static_assert(SUM_ROWS % 4 == 0);  // what is behind the last copy has room
#pragma unroll 4
    for (u32 at = thread; at < (copies * args.tokens * SUM_STRIDE + 3) / 4; at += THREADS)
        reinterpret_cast<u32x4*>(sums)[at] = u32x4(0);
    Down::barriers(1);
    down.run();
    Down::barriers(1);
    // Few waves read several at a time, so that their reads are under way together.
    constexpr u32 AT_ONCE = WAVES <= 4 ? 4 : 1;
    for (u32 first = thread; first < args.tokens * SUM_FOURS; first += AT_ONCE * THREADS) {
        float total[AT_ONCE][4] = {};
        for (u32 copy = 0; copy < copies; ++copy)
#pragma unroll
            for (u32 j = 0; j < AT_ONCE; ++j) {
                const u32 at = AT_ONCE == 1 ? first : min(first + j * THREADS, args.tokens * SUM_FOURS - 1);
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    total[j][i] += sums[copy * args.tokens + at / SUM_FOURS][i * SUM_FOURS + at % SUM_FOURS];
            }
#pragma unroll
        for (u32 j = 0; j < AT_ONCE; ++j) {
            const u32 at = first + j * THREADS;
            if (AT_ONCE > 1 && at >= args.tokens * SUM_FOURS) break;
            const u32x2 rounded = {pack_bf16(total[j][0], total[j][1]), pack_bf16(total[j][2], total[j][3])};
            const size_t place = static_cast<size_t>(at / SUM_FOURS) * args.used + column + at % SUM_FOURS * 4;
            *reinterpret_cast<u32x2*>(args.out + place) = rounded;
        }
    }
}
