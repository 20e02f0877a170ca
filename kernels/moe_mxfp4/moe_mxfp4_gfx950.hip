// amd-moe-mxfp4 on gfx950 in three launches:
//
// 1. sort_and_quantize: one workgroup sorts pairs of a token and one of its experts by expert, each expert's padded to
//    whole blocks of BLOCK_M rows; the others quantise the hidden states.
// 2. gate_up: a block times its expert's gate and up weights, silu(gate) * up, quantised in the epilogue.
// 3. down: that times the expert's down weights and the routing weight, a row for each pair; the workgroup that brings a
//    token's last row adds the token's rows up, in the order of its experts.
//
// In both products codes and scales go from memory straight to the registers of the matrix instruction, a stage
// ahead, with no barrier in the loop. docs/kernels/moe_mxfp4.md has layouts and reasons.
#include <hip/hip_runtime.h>

#include <stdexcept>
#include <string>

#include "mxfp4_gfx950.h"
#include "workgroup_order.h"

constexpr int N_XCD = 8;             // MI355X
constexpr int MOST_EXPERTS = 1024;   // that launch 1 has room for
constexpr int FIRST_THREADS = 1024;  // of a workgroup of launch 1
constexpr u32 TERMS = 9;             // of a token, that are fetched together

struct MoeArgs {
    const unsigned short* hidden;        // bf16 [tokens][used]
    const int* topk_ids;                 // [pairs]: a token's experts
    const float* topk_weights;           // [pairs]
    const unsigned char* gate_up;        // [experts], of each the strips of gate, then those of up
    const unsigned char* down;           // [experts], strips
    const unsigned char* gate_up_scale;  // see scale_group_offset
    const unsigned char* down_scale;
    unsigned char* codes;               // [tokens][width / 2], of the hidden states
    unsigned char* scales;              // [tokens][scale_row(width)], see a_scale_place
    unsigned char* inner;               // [rows][inner_width / 2]
    unsigned char* inner_scale;         // [rows][scale_row(inner_width)]
    unsigned short* terms;              // bf16 [pairs][used]
    unsigned short* out;                // bf16 [tokens][used]
    int* row_pairs;                     // [rows]: pairs by expert, -1 where a block has no more
    int* row_tokens;                    // [rows]: their tokens, 0 where there is none
    int* block_experts;                 // [blocks + 1]: of the blocks that there are; last their number
    u32* arrived;                       // [tokens][tiles of `down`]: rows that are there
    u32 tokens, topk, experts, blocks;  // blocks: the most that there can be
    u32 width, used;                    // of the hidden states: of the weights, and of what they hold
    u32 inner_width, inner_used;        // of what lies between the products
};

// Scales of activations: of 512 columns 16 bytes, so that a lane finds those of its block of four steps in one dword.
__host__ __device__ constexpr u32 scale_row(u32 width) { return (width + 511) / 512 * 16; }
__device__ inline u32 a_scale_place(u32 block) { return block / 16 * 16 + block % 4 * 4 + block / 4 % 4; }

// --- launch 1 ------------------------------------------------------------------------------------------------------

template <int BLOCK_M>
__device__ void sort_pairs(const MoeArgs& args) {
    __shared__ u32 count[MOST_EXPERTS], place[MOST_EXPERTS], wave_total[FIRST_THREADS / WAVE];
    const u32 thread = threadIdx.x, lane = thread % WAVE, wave = thread / WAVE, pairs = args.tokens * args.topk;
    count[thread] = 0;
    __syncthreads();
    for (u32 pair = thread; pair < pairs; pair += FIRST_THREADS) atomicAdd(&count[args.topk_ids[pair]], 1u);
    __syncthreads();
    // Where each expert's blocks begin: a scan over the threads, one for each expert.
    const u32 own_count = count[thread], own = (own_count + BLOCK_M - 1) / BLOCK_M;
    u32 before = own;
#pragma unroll
    for (u32 step = 1; step < WAVE; step *= 2) {
        const u32 other = __shfl_up(before, step);
        if (lane >= step) before += other;
    }
    if (lane == WAVE - 1) wave_total[wave] = before;
    __syncthreads();
    u32 total = 0, first = before - own;
#pragma unroll
    for (u32 i = 0; i < FIRST_THREADS / WAVE; ++i) {
        first += i < wave ? wave_total[i] : 0;
        total += wave_total[i];
    }
    place[thread] = first * BLOCK_M;
    for (u32 block = 0; block < own; ++block) args.block_experts[first + block] = thread;
    for (u32 row = own_count; row < own * BLOCK_M; ++row) {
        args.row_pairs[first * BLOCK_M + row] = -1;
        args.row_tokens[first * BLOCK_M + row] = 0;
    }
    if (thread == 0) args.block_experts[args.blocks] = total;
    __syncthreads();
    // In any order within an expert: rows have nothing to do with each other.
    for (u32 pair = thread; pair < pairs; pair += FIRST_THREADS) {
        const u32 row = atomicAdd(&place[args.topk_ids[pair]], 1u);
        args.row_pairs[row] = pair;
        args.row_tokens[row] = pair / args.topk;
    }
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
    u32x4 x = u32x4(0);
    if (column < args.used)
        x = *reinterpret_cast<const u32x4*>(args.hidden + static_cast<size_t>(token) * args.used + column);
    u16x2 largest = bf16_magnitudes(x[0]);
#pragma unroll
    for (int i = 1; i < 4; ++i) largest = __builtin_elementwise_max(largest, bf16_magnitudes(x[i]));
    const u32 scale = mxfp4_scale(max_in_quad<1>(max_in_quad<0>(max(largest[0], largest[1]))));
    *reinterpret_cast<u32*>(args.codes + (token * args.width + column) / 2) = mxfp4_codes<true>(x, scale);
    if (column % MX_BLOCK == 0) args.scales[token * scale_row(args.width) + a_scale_place(column / MX_BLOCK)] = scale;
}

template <int BLOCK_M>
__global__ __launch_bounds__(FIRST_THREADS) void sort_and_quantize_kernel(const MoeArgs args, u32 counters) {
    const u32 at = blockIdx.x * FIRST_THREADS + threadIdx.x;
    for (u32 i = at; i < counters; i += gridDim.x * FIRST_THREADS) args.arrived[i] = 0;
    if (blockIdx.x == 0) sort_pairs<BLOCK_M>(args);
    else quantize_hidden(args);
}

// --- the products --------------------------------------------------------------------------------------------------

// What a wave multiplies in STEPS steps: FM times 16 rows of activations by FN strips of weights.
template <int FM, int FN, int STEPS>
struct Operands {
    u32x4 a[FM][STEPS], b[FN][STEPS];
    u32 a_scale[FM], b_scale[FN / 2][STEPS / 2];
};

// Goes over columns k of a wave's rows and strips. A stage is STEPS * 128 columns.
template <int FM, int FN, int STEPS>
struct Product {
    Buffer a, a_scales, b, b_scales;
    u32 a_at[FM], a_scale_at[FM], lane;
    u32 b_at[FN], b_scale_at[FN / 2];  // of all lanes alike

    // row(fm): of this lane's, in a; strip(fn) of b: even ones are followed by the next.
    template <class Row, class Strip>
    __device__ Product(const unsigned char* a_codes, const unsigned char* a_scale, u32 a_rows,
                       const unsigned char* b_codes, const unsigned char* b_scale, u32 b_rows, u32 k, u32 lane_,
                       Row row, Strip strip)
        : a(make_buffer(a_codes, a_rows * (k / 2))),
          a_scales(make_buffer(a_scale, a_rows * scale_row(k))),
          b(make_buffer(b_codes, b_rows * (k / 2))),
          b_scales(make_buffer(b_scale, b_rows * (k / MX_BLOCK))),
          lane(lane_) {
#pragma unroll
        for (int fm = 0; fm < FM; ++fm) {
            a_at[fm] = row(fm) * (k / 2) + lane / STRIP * 16;
            a_scale_at[fm] = row(fm) * scale_row(k) + lane / STRIP * 4;
        }
#pragma unroll
        for (int fn = 0; fn < FN; ++fn) b_at[fn] = strip(fn) * (k * 8);
#pragma unroll
        for (int pair = 0; pair < FN / 2; ++pair)
            b_scale_at[pair] = scale_group_offset(strip(2 * pair) / 2, k / SCALE_GROUP_K, 0, 0);
    }

    __device__ void load(Operands<FM, FN, STEPS>& x, u32 stage) const {
#pragma unroll
        for (int fm = 0; fm < FM; ++fm) {
            x.a_scale[fm] =
                __builtin_amdgcn_raw_buffer_load_b32(a_scales, a_scale_at[fm], stage * STEPS / 4 * 16, CACHE_NORMAL);
#pragma unroll
            for (int step = 0; step < STEPS; ++step)
                x.a[fm][step] = __builtin_amdgcn_raw_buffer_load_b128(a, a_at[fm] + step * (STEP_K / 2),
                                                                      stage * STEPS * (STEP_K / 2), CACHE_NORMAL);
        }
#pragma unroll
        for (int fn = 0; fn < FN; ++fn)
#pragma unroll
            for (int step = 0; step < STEPS; ++step)
                x.b[fn][step] = __builtin_amdgcn_raw_buffer_load_b128(
                    b, lane * 16 + step * STRIP_STEP_BYTES, b_at[fn] + stage * STEPS * STRIP_STEP_BYTES, CACHE_NORMAL);
#pragma unroll
        for (int pair = 0; pair < FN / 2; ++pair)
#pragma unroll
            for (int i = 0; i < STEPS / 2; ++i)
                x.b_scale[pair][i] = __builtin_amdgcn_raw_buffer_load_b32(
                    b_scales, lane * 4 + i * SCALE_GROUP_BYTES,
                    b_scale_at[pair] + stage * (STEPS / 2) * SCALE_GROUP_BYTES, CACHE_NORMAL);
    }

    template <int STEP>
    static __device__ void multiply_step(const Operands<FM, FN, STEPS>& x, const u32 (&a_scale)[FM],
                                         f32x4 (&sum)[FM][FN]) {
#pragma unroll
        for (int fm = 0; fm < FM; ++fm)
#pragma unroll
            for (int fn = 0; fn < FN; fn += 2) {
                // Weights are the instruction's rows: a lane has four consecutive columns of one row of activations.
                const u32 b_scale = x.b_scale[fn / 2][STEP / 2];
                sum[fm][fn] =
                    mfma_mxfp4<STEP % 2 * 2, STEP % 4>(x.b[fn][STEP], x.a[fm][STEP], sum[fm][fn], b_scale, a_scale[fm]);
                sum[fm][fn + 1] = mfma_mxfp4<STEP % 2 * 2 + 1, STEP % 4>(x.b[fn + 1][STEP], x.a[fm][STEP],
                                                                         sum[fm][fn + 1], b_scale, a_scale[fm]);
            }
    }

    static __device__ void multiply(const Operands<FM, FN, STEPS>& x, u32 stage, f32x4 (&sum)[FM][FN]) {
        u32 a_scale[FM];
#pragma unroll
        for (int fm = 0; fm < FM; ++fm)
            a_scale[fm] = STEPS == 2 ? x.a_scale[fm] >> stage % 2 * 16 : x.a_scale[fm];  // whose dword has four steps
        multiply_step<0>(x, a_scale, sum);
        multiply_step<1>(x, a_scale, sum);
        if constexpr (STEPS == 4) {
            multiply_step<2>(x, a_scale, sum);
            multiply_step<3>(x, a_scale, sum);
        }
    }

    // Stages first ... last - 1, at least one of them, each loaded while the one before it is multiplied. TOGETHER: a
    // workgroup's waves, which all have these stages, begin to load at the same time, so that what they all read comes
    // from beyond the L1 once.
    template <bool TOGETHER>
    __device__ void run(u32 first, u32 last, f32x4 (&sum)[FM][FN]) const {
        static_assert((STEPS == 2 || STEPS == 4) && FN % 2 == 0);
        Operands<FM, FN, STEPS> even, odd;
        u32 stage = first;
        auto next = [&](Operands<FM, FN, STEPS>& x, u32 which) {
            if (TOGETHER) __builtin_amdgcn_s_barrier();
            load(x, which);
        };
        next(even, stage);
        for (; stage + 2 < last; stage += 2) {
            next(odd, stage + 1);
            multiply(even, stage, sum);
            next(even, stage + 2);
            multiply(odd, stage + 1, sum);
        }
        const bool two = stage + 1 < last;
        if (two) next(odd, stage + 1);
        multiply(even, stage, sum);
        if (two) multiply(odd, stage + 1, sum);
    }
};

// A workgroup's tile of a product. WAVES_N waves take 16 * FN columns each, WAVES_K waves divide k.
template <int FM_, int FN_, int WAVES_N_, int WAVES_K_, int STEPS_>
struct MoeTile {
    static constexpr int FM = FM_, FN = FN_, WAVES_N = WAVES_N_, WAVES_K = WAVES_K_, STEPS = STEPS_;
    static constexpr int BLOCK_M = FM * STRIP, THREADS = WAVES_N * WAVES_K * WAVE;
    static constexpr int BLOCK_N = WAVES_N * FN * STRIP;
    static constexpr bool TOGETHER = FM == 4;  // where k has a multiple of WAVES_K stages
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

// Which block and which columns a workgroup takes. Each XCD has a contiguous range: blocks of one expert follow each other
// and read the same weights from one L2.
struct Place {
    u32 block, column;  // block: past the last one for workgroups without work

    __device__ Place(const MoeArgs& args) {
        const u32 tiles = gridDim.x, id = blockIdx.y * tiles + blockIdx.x,
                  work = args.block_experts[args.blocks] * tiles;
        block = ~0u;
        if (id >= work) return;
        const u32 own = xcd_contiguous<N_XCD>(id, work);
        block = own / tiles, column = own % tiles;
    }
};

// A wave: two strips of gate and the two of up that belong to them, 32 columns of `inner`: one block.
template <class T>
__global__ __launch_bounds__(T::THREADS, 2) void gate_up_kernel(const MoeArgs args) {
    static_assert(T::FN == 4);
    const Place place(args);
    if (place.block == ~0u) return;
    const int expert = args.block_experts[place.block];
    const u32 lane = threadIdx.x % WAVE, wave = __builtin_amdgcn_readfirstlane(threadIdx.x / WAVE);
    const u32 wave_n = wave % T::WAVES_N, wave_k = wave / T::WAVES_N;
    const u32 row0 = place.block * T::BLOCK_M, column = (place.column * T::WAVES_N + wave_n) * MX_BLOCK;
    const u32 K = args.width, rows = 2 * args.inner_width;

    u32 token[T::FM];
#pragma unroll
    for (int fm = 0; fm < T::FM; ++fm) token[fm] = args.row_tokens[row0 + fm * STRIP + lane % STRIP];
    const size_t weights = static_cast<size_t>(expert) * rows;
    const Product<T::FM, T::FN, T::STEPS> product(
        args.codes, args.scales, args.tokens, args.gate_up + weights * (K / 2),
        args.gate_up_scale + weights * (K / MX_BLOCK), rows, K, lane, [&](int fm) { return token[fm]; },
        [&](int fn) { return (fn / 2 * args.inner_width + column) / STRIP + fn % 2; });
    f32x4 sum[T::FM][T::FN] = {};
    const u32 stages = K / (T::STEPS * STEP_K);
    const u32 first = wave_k * stages / T::WAVES_K, last = (wave_k + 1) * stages / T::WAVES_K;
    if (first < last) product.template run<T::TOGETHER>(first, last, sum);
    if (!add_waves<T>(sum, wave_n, wave_k, lane)) return;

#pragma unroll
    for (int fm = 0; fm < T::FM; ++fm) {
        const u32 row = row0 + fm * STRIP + lane % STRIP;
        u32x4 pairs;  // columns 4 * (lane / 16) ... + 3 of either strip
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            auto value = [&](int j) {
                const float gate = sum[fm][i / 2][i % 2 * 2 + j], up = sum[fm][2 + i / 2][i % 2 * 2 + j];
                const float exponential = __builtin_amdgcn_exp2f(-1.44269504f * gate);
                return gate * __builtin_amdgcn_rcpf(1.0f + exponential) * up;
            };
            pairs[i] = column < args.inner_used ? pack_bf16(value(0), value(1)) : 0;
        }
        u16x2 largest = bf16_magnitudes(pairs[0]);
#pragma unroll
        for (int i = 1; i < 4; ++i) largest = __builtin_elementwise_max(largest, bf16_magnitudes(pairs[i]));
        u32 of_block = max(largest[0], largest[1]);
        of_block = max(of_block, static_cast<u32>(__shfl_xor(static_cast<int>(of_block), 16)));
        of_block = max(of_block, static_cast<u32>(__shfl_xor(static_cast<int>(of_block), 32)));
        const u32 scale = mxfp4_scale(of_block), codes = mxfp4_codes<true>(pairs, scale);
        unsigned char* at = args.inner + static_cast<size_t>(row) * (args.inner_width / 2) + column / 2;
        reinterpret_cast<unsigned short*>(at)[lane / STRIP] = codes;
        reinterpret_cast<unsigned short*>(at)[lane / STRIP + 4] = codes >> 16;
        if (lane < STRIP)
            args.inner_scale[static_cast<size_t>(row) * scale_row(args.inner_width) +
                             a_scale_place(column / MX_BLOCK)] = scale;
    }
}

template <class T>
__global__ __launch_bounds__(T::THREADS, 2) void down_kernel(const MoeArgs args) {
    __shared__ u32 complete[T::BLOCK_M];  // tokens whose rows are all there, in their rows' places
    const Place place(args);
    if (place.block == ~0u) return;
    const int expert = args.block_experts[place.block];
    const u32 thread = threadIdx.x, lane = thread % WAVE, wave = __builtin_amdgcn_readfirstlane(thread / WAVE);
    const u32 wave_n = wave % T::WAVES_N, wave_k = wave / T::WAVES_N;
    const u32 row0 = place.block * T::BLOCK_M, column0 = place.column * T::BLOCK_N;
    const u32 column = column0 + wave_n * T::FN * STRIP, K = args.inner_width;

    int pair[T::FM];
    float weight[T::FM];
#pragma unroll
    for (int fm = 0; fm < T::FM; ++fm) {
        pair[fm] = args.row_pairs[row0 + fm * STRIP + lane % STRIP];
        weight[fm] = pair[fm] < 0 ? 0.0f : args.topk_weights[pair[fm]];
    }
    const size_t weights = static_cast<size_t>(expert) * args.width;
    const Product<T::FM, T::FN, T::STEPS> product(
        args.inner + static_cast<size_t>(row0) * (K / 2), args.inner_scale + static_cast<size_t>(row0) * scale_row(K),
        T::BLOCK_M, args.down + weights * (K / 2), args.down_scale + weights * (K / MX_BLOCK), args.width, K, lane,
        [&](int fm) { return fm * STRIP + lane % STRIP; }, [&](int fn) { return column / STRIP + fn; });
    f32x4 sum[T::FM][T::FN] = {};
    const u32 stages = K / (T::STEPS * STEP_K);
    const u32 first = wave_k * stages / T::WAVES_K, last = (wave_k + 1) * stages / T::WAVES_K;
    if (first < last) product.template run<T::TOGETHER>(first, last, sum);

    const Buffer terms = make_buffer(args.terms, args.tokens * args.topk * args.used * 2);
    if (add_waves<T>(sum, wave_n, wave_k, lane)) {
#pragma unroll
        for (int fm = 0; fm < T::FM; ++fm)
#pragma unroll
            for (int fn = 0; fn < T::FN; ++fn) {
                const u32 own = column + fn * STRIP;
                if (pair[fm] < 0 || own >= args.used) continue;
                const f32x4 value = sum[fm][fn] * weight[fm];
                const u32x2 four = {pack_bf16(value[0], value[1]), pack_bf16(value[2], value[3])};
                // Past the XCD's L2, and the loads below as well: the wait is all the release that they need.
                __builtin_amdgcn_raw_buffer_store_b64(four, terms, (pair[fm] * args.used + own + lane / STRIP * 4) * 2,
                                                      0, CACHE_AGENT);
            }
    }
    asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
    __syncthreads();
    if (thread < T::BLOCK_M) {
        const int own = args.row_pairs[row0 + thread];
        complete[thread] = args.tokens;
        if (own >= 0) {
            const u32 token = own / args.topk;
            const u32 before = __hip_atomic_fetch_add(args.arrived + token * gridDim.x + place.column, 1u,
                                                      __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
            if (before == args.topk - 1) complete[thread] = token;
        }
    }
    __syncthreads();
    constexpr u32 PER_ROW = T::BLOCK_N / 8;  // threads, with 8 columns each
    for (u32 at = thread; at < T::BLOCK_M * PER_ROW; at += T::THREADS) {
        const u32 token = complete[at / PER_ROW], own = column0 + at % PER_ROW * 8;
        if (token >= args.tokens || own >= args.used) continue;
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

template <class GateUp, class Down>
static void launch(const MoeArgs& args) {
    static_assert(GateUp::BLOCK_M == Down::BLOCK_M);
    const u32 tiles = args.width / Down::BLOCK_N;
    const u32 quantisers = (args.tokens * (args.width / 8) + FIRST_THREADS - 1) / FIRST_THREADS;
    sort_and_quantize_kernel<GateUp::BLOCK_M><<<1 + quantisers, FIRST_THREADS>>>(args, args.tokens * tiles);
    gate_up_kernel<GateUp>
        <<<dim3(args.inner_width / (GateUp::WAVES_N * MX_BLOCK), args.blocks), GateUp::THREADS>>>(args);
    down_kernel<Down><<<dim3(tiles, args.blocks), Down::THREADS>>>(args);
}

// addresses: of the pointers of MoeArgs, in their order. Both widths are multiples of 256, topk_ids of 0 ... experts - 1.
void moe_mxfp4(int64_t addresses, int64_t tokens, int64_t topk, int64_t experts, int64_t blocks, int64_t width,
               int64_t used, int64_t inner_width, int64_t inner_used, int block_m) {
    MoeArgs args = {};
    static_assert(offsetof(MoeArgs, tokens) == 17 * sizeof(void*));
    __builtin_memcpy(&args, reinterpret_cast<const void*>(addresses), offsetof(MoeArgs, tokens));
    args.tokens = tokens, args.topk = topk, args.experts = experts, args.blocks = blocks;
    args.width = width, args.used = used, args.inner_width = inner_width, args.inner_used = inner_used;
    const bool long_stages = width % 512 == 0 && inner_width % 512 == 0;
    if (block_m == 16 && long_stages) launch<MoeTile<1, 4, 1, 4, 4>, MoeTile<1, 4, 4, 1, 2>>(args);
    else if (block_m == 16 && width % 512 == 0) launch<MoeTile<1, 4, 1, 4, 4>, MoeTile<1, 4, 4, 1, 2>>(args);
    else if (block_m == 16) launch<MoeTile<1, 4, 2, 2, 2>, MoeTile<1, 4, 4, 1, 2>>(args);
    else if (block_m == 32) launch<MoeTile<2, 4, 1, 4, 2>, MoeTile<2, 4, 4, 1, 2>>(args);
    else if (block_m == 64 && width % 512 == 0 && inner_width <= 512)
        launch<MoeTile<4, 4, 2, 2, 2>, MoeTile<4, 4, 4, 1, 2>>(args);
    else if (block_m == 64) launch<MoeTile<4, 4, 4, 1, 2>, MoeTile<4, 4, 4, 1, 2>>(args);
    else throw std::runtime_error("moe_mxfp4: blocks of 16, 32 or 64 rows, got " + std::to_string(block_m));
    const hipError_t error = hipGetLastError();
    if (error != hipSuccess) throw std::runtime_error(std::string("moe_mxfp4: ") + hipGetErrorString(error));
}
