// amd-fp8-mm on gfx942: c[m, n] = sum over kb of a_scale[kb, m] * b_scale[kb, n / 128] * dot(a[kb, :, m], b[kb, :, n]).
//
// One launch, no transpose pass. a and b lie K-major in memory ([K][M], [K][N] bytes) while the matrix instruction
// wants 8 values of k in a lane. The order of k within an instruction does not matter as long as a and b agree, so a
// lane reads a patch of 8 rows of k by 4 of m, turns it in registers (two v_perm_b32 a word) and writes four
// "granules": 8 bytes of one m each. docs/kernels/fp8_mm.md has the layout and the pipeline.
#pragma once

#include "gfx942.h"
#include "workgroup_order.h"

constexpr int N_XCD = 8;             // MI300X
constexpr int SCALE_BLOCK = 128;     // of k (and of n, for b) under one scale
constexpr int STAGE_K = 64;          // of k in one LDS buffer
constexpr int GRANULE = 8;           // bytes of k that one lane feeds to one matrix instruction
constexpr int STEPS = STAGE_K / 16;  // v_mfma_f32_32x32x16_fp8_fp8 in one stage
constexpr int SUB = 32;              // rows and columns of one matrix instruction
constexpr int WAVE_N = 64;           // columns of one wave; 64 so that they lie under one scale of b

// Output tile of a workgroup and its division among waves. Each of GROUPS waves' groups computes the whole tile, of a
// slice of k of its own, with buffers of its own; at the end they add up through LDS.
template <int TILE_M, int TILE_N, int WAVES_M_, int PER_CU_, int GROUPS_>
struct Tile {
    static constexpr int BM = TILE_M, BN = TILE_N, WAVES_M = WAVES_M_, PER_CU = PER_CU_, GROUPS = GROUPS_;
    static constexpr int WAVES_N = BN / WAVE_N, GROUP_WAVES = WAVES_M * WAVES_N;
    static constexpr int GROUP_THREADS = GROUP_WAVES * WAVE, THREADS = GROUPS * GROUP_THREADS;
    static constexpr int WM = BM / WAVES_M;                 // rows of one wave
    static constexpr int FM = WM / SUB, FN = WAVE_N / SUB;  // subtiles of one wave
    static constexpr int CHUNKS = FN * 4;                   // of 4 of n that a lane has of each of its FM rows
    static constexpr int WAVES_PER_SIMD = THREADS / WAVE * PER_CU / 4;
    static constexpr int STAGE_BYTES = (BM + BN) * STAGE_K;
    static constexpr int C_BYTES = SUB * WAVE_N * 2;  // what one wave turns at a time on the way to c
    static constexpr int LDS_BYTES = GROUPS * 2 * STAGE_BYTES;
    static_assert(GROUP_WAVES * C_BYTES <= LDS_BYTES);
    static_assert(GROUPS == 1 || GROUPS == 2 && FM == 2 && GROUP_WAVES == 4 && THREADS * CHUNKS * 16 <= LDS_BYTES);
    static_assert(LDS_BYTES * PER_CU <= 65536);
    static_assert(BN % WAVE_N == 0 && WM % SUB == 0 && WAVES_PER_SIMD > 0);
};

// Where granule g of row r lies in a buffer of ROWS rows: granules of 16 rows fill the 32 banks once, permuted by an
// XOR with the number of the 16 rows. Every 16 lanes that LDS serves together then hit 16 places, in reads (16
// consecutive rows) as in writes (rows 4 apart).
template <int ROWS>
__device__ inline constexpr int granule_offset(int r, int g) {
    return g * ROWS * GRANULE + (r >> 4) * 128 + ((r ^ (r >> 4)) & 15) * GRANULE;
}

// Where the granule for the first step of a stage lies that `lane` feeds to the matrix instruction from the 32 rows at
// first_row; each further step is two granules on.
template <int ROWS>
__device__ inline constexpr int fragment_offset(int first_row, int lane) {
    return granule_offset<ROWS>(first_row + lane % SUB, lane / SUB);
}

// Turning 32 x 64 of c in LDS, 128 bytes a row: a lane has 8 bytes (half a chunk of 16) of row lane % 32 and gets chunk
// lane % 8 of row lane / 8 + 8 i. Chunks are permuted by an XOR with the row, their halves by its bit 3: no bank
// conflicts either way. The reader swaps halves back where i is odd.
__device__ inline constexpr int turn_write_offset(int lane, int chunk) {
    const int row = lane % SUB;
    return row * 128 + (chunk ^ (row & 7)) * 16 + ((lane / SUB) ^ ((row >> 3) & 1)) * 8;
}

__device__ inline constexpr int turn_read_offset(int lane, int i) {
    return (lane / 8 + 8 * i) * 128 + ((lane % 8) ^ (lane / 8)) * 16;
}

// 32 x 64 of c, in one wave (GROUPS 1) or by chunks of 8 columns in several. A lane holds runs of 4 n of one m. Through
// LDS they become 16 bytes of a row, and 8 lanes write 128 in a row.
template <int GROUPS>
__device__ inline void store_subtile(const f32x4 (&own)[8 / GROUPS], int group, int lane, unsigned char* turned,
                                     const Buffer& c, int row, int column, int N) {
    auto fence = [] { GROUPS == 1 ? wave_lds_fence() : __syncthreads(); };
    fence();
#pragma unroll
    for (int i = 0; i < 8 / GROUPS; ++i) {
        const f32x4 four = own[i];
        const u32x2 packed = {pack_bf16(four[0], four[1]), pack_bf16(four[2], four[3])};
        *reinterpret_cast<u32x2*>(turned + turn_write_offset(lane, group * (8 / GROUPS) + i)) = packed;
    }
    fence();
    column += lane % 8 * 8;
#pragma unroll
    for (int j = 0; j < SUB / 8 / GROUPS; ++j) {
        const int i = group * (SUB / 8 / GROUPS) + j;
        u32x4 eight = *reinterpret_cast<const u32x4*>(turned + turn_read_offset(lane, i));
        if (i & 1) eight = u32x4{eight[2], eight[3], eight[0], eight[1]};
        // Rows past the matrix lie past the buffer. Columns past it do not, so they get an offset that does.
        const u32 at = column < N ? 2u * (static_cast<u32>(row + i * 8 + lane / 8) * N + column) : ~15u;
        __builtin_amdgcn_raw_buffer_store_b128(eight, c, at, 0, CACHE_NORMAL);
    }
}

// Loads one operand's stages from memory and writes them to LDS: a thread one patch of K k x 4 rows of every stage.
template <int ROWS, int THREADS>
struct Loader {
    static constexpr int K = ROWS / 4 * STAGE_K / THREADS;  // a granule, or half of one
    static_assert(K == GRANULE || K == GRANULE / 2 && ROWS % 64 == 0);
    static_assert(ROWS / 4 * STAGE_K == K * THREADS);

    Buffer buffer;
    u32 pitch;      // bytes from k to k + 1
    u32 offset[2];  // of the next patch of even and of odd stages
    int lds_offset[4];

    __device__ Loader(const unsigned char* base, int extent, int first_row, int first_k, int last_k, int thread,
                      int lds_base)
        : buffer(make_buffer(base, static_cast<u32>(extent) * last_k)), pitch(extent) {
        int row4 = thread % (ROWS / 4), granule = thread / (ROWS / 4), half = 0;
        if (K < GRANULE) {  // 16 lanes with one half, 16 with the other: 32 lanes that write 4 bytes fill the 32 banks
            row4 = thread % 16 + thread / 32 % (ROWS / 64) * 16;
            granule = thread / (ROWS / 2);
            half = thread / 16 % 2;
        }
        // Rows past the matrix read the last ones instead: their products are not stored.
        const int row = min(first_row + row4 * 4, extent - 4);
        offset[0] = static_cast<u32>(first_k + granule * GRANULE + half * K) * pitch + row;
        offset[1] = offset[0] + STAGE_K * pitch;
#pragma unroll
        for (int i = 0; i < 4; ++i) lds_offset[i] = lds_base + granule_offset<ROWS>(row4 * 4 + i, granule) + half * K;
    }

    // One of `parts` of the patch, the last of which moves on.
    template <int STAGE>
    __device__ void load(u32 (&words)[K], int part, int parts) {
#pragma unroll
        for (int j = part * K / parts; j < (part + 1) * K / parts; ++j)
            words[j] = __builtin_amdgcn_raw_buffer_load_b32(buffer, offset[STAGE], j * pitch, CACHE_NORMAL);
        if (part == parts - 1) offset[STAGE] += 2 * STAGE_K * pitch;
    }

    __device__ void store(const u32 (&words)[K], unsigned char* lds) const {
        u32 turned[K / 4][4];
#pragma unroll
        for (int j = 0; j < K / 4; ++j)
            transpose_4x4_bytes({words[4 * j], words[4 * j + 1], words[4 * j + 2], words[4 * j + 3]}, turned[j]);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if constexpr (K == GRANULE)
                *reinterpret_cast<u32x2*>(lds + lds_offset[i]) = u32x2{turned[0][i], turned[1][i]};
            else *reinterpret_cast<u32*>(lds + lds_offset[i]) = turned[0][i];
    }
};

// The arguments up to `b_scale` are 14 words: registers hold them before a wave starts, where the compiler is told to
// (-amdgpu-kernarg-preload-count).
template <class T>
__global__ __launch_bounds__(T::THREADS, T::WAVES_PER_SIMD) void fp8_mm_kernel(
    const unsigned char* a_bytes,  // fp8 e4m3fnuz [K][M]
    const unsigned char* b_bytes,  // fp8 e4m3fnuz [K][N]
    int M, int N, int K, int split_k, int group_rows,
    const float* a_scale,    // [K/128][M]
    const float* b_scale,    // [K/128][ceil(N/128)]
    unsigned short* c_bits,  // bf16 [M][N]
    float* partials          // [tiles][split_k][BM * BN], used where split_k > 1; its own order of elements
) {
    __shared__ __attribute__((aligned(128))) unsigned char lds[T::LDS_BYTES];
    constexpr int B_AT = T::BM * STAGE_K;  // in a buffer, behind a

    const int n_tiles_m = (M + T::BM - 1) / T::BM, n_tiles_n = (N + T::BN - 1) / T::BN;
    const int order = xcd_contiguous<N_XCD>(blockIdx.x, n_tiles_m * n_tiles_n * split_k);
    int tile = order, part = 0, slice = 0, slice_end = K / SCALE_BLOCK;  // in blocks of k
    if (split_k > 1) {
        tile = small_quotient(order, split_k);  // the slices of one tile run side by side on one XCD
        part = order - tile * split_k;
        slice = small_quotient(part * (K / SCALE_BLOCK), split_k);
        slice_end = small_quotient((part + 1) * (K / SCALE_BLOCK), split_k);
    }
    const TilePlace place = grouped_rows(tile, n_tiles_m, n_tiles_n, group_rows);
    const int tile_m = place.row * T::BM, tile_n = place.column * T::BN;

    const int lane = threadIdx.x % WAVE, wave = __builtin_amdgcn_readfirstlane(threadIdx.x / WAVE);
    const int group = wave / T::GROUP_WAVES, wave_in_group = wave % T::GROUP_WAVES;
    const int thread = threadIdx.x % T::GROUP_THREADS;
    const int wave_m = wave_in_group / T::WAVES_N * T::WM, wave_n = wave_in_group % T::WAVES_N * WAVE_N;

    // A group that has fewer blocks than another goes through zeros in the last round.
    const int n_rounds = (slice_end - slice + T::GROUPS - 1) / T::GROUPS;
    const int first = min(slice + group * n_rounds, slice_end), last = min(first + n_rounds, slice_end);

    // Buffers end where this slice of k does, so that loads ahead of the loop's end move nothing.
    const int lds_base = group * 2 * T::STAGE_BYTES, first_k = first * SCALE_BLOCK, last_k = last * SCALE_BLOCK;
    using LoaderA = Loader<T::BM, T::GROUP_THREADS>;
    using LoaderB = Loader<T::BN, T::GROUP_THREADS>;
    LoaderA load_a(a_bytes, M, tile_m, first_k, last_k, thread, lds_base);
    LoaderB load_b(b_bytes, N, tile_n, first_k, last_k, thread, lds_base + B_AT);
    const int n_scales = (N + SCALE_BLOCK - 1) / SCALE_BLOCK;
    const Buffer a_scales = make_buffer(a_scale, 4u * last * M);
    const Buffer b_scales = make_buffer(b_scale, 4u * last * n_scales);
    u32 a_scale_at[T::FM];
#pragma unroll
    for (int fm = 0; fm < T::FM; ++fm)
        a_scale_at[fm] = 4u * (first * M + min(tile_m + wave_m + fm * SUB + lane % SUB, M - 1));
    u32 b_scale_at = 4u * (first * n_scales + min((tile_n + wave_n) / SCALE_BLOCK, n_scales - 1));

    int read_a[T::FM], read_b[T::FN];
#pragma unroll
    for (int fm = 0; fm < T::FM; ++fm) read_a[fm] = lds_base + fragment_offset<T::BM>(wave_m + fm * SUB, lane);
#pragma unroll
    for (int fn = 0; fn < T::FN; ++fn) read_b[fn] = lds_base + B_AT + fragment_offset<T::BN>(wave_n + fn * SUB, lane);

    u32 a_words[2][LoaderA::K], b_words[2][LoaderB::K];
    float scale[T::FM], next_a_scale[T::FM], next_b_scale;
    f32x16 product[T::FM][T::FN], sum[T::FM][T::FN];

    auto load_scales = [&] {
#pragma unroll
        for (int fm = 0; fm < T::FM; ++fm) {
            next_a_scale[fm] = __builtin_bit_cast(
                float, __builtin_amdgcn_raw_buffer_load_b32(a_scales, a_scale_at[fm], 0, CACHE_NORMAL));
            a_scale_at[fm] += 4u * M;
        }
        next_b_scale =
            __builtin_bit_cast(float, __builtin_amdgcn_raw_buffer_load_b32(b_scales, b_scale_at, 0, CACHE_NORMAL));
        b_scale_at += 4u * n_scales;
    };
    auto load = [&]<int STAGE>(int part, int parts) {
        load_a.template load<STAGE>(a_words[STAGE], part, parts);
        load_b.template load<STAGE>(b_words[STAGE], part, parts);
    };
    auto store = [&]<int STAGE>() {
        load_a.store(a_words[STAGE], lds + STAGE * T::STAGE_BYTES);
        load_b.store(b_words[STAGE], lds + STAGE * T::STAGE_BYTES);
    };
    // b is the instruction's row operand and a its column operand: a lane's 16 results belong to one m (one scale of a)
    // and to runs of four n.
    long a[STEPS][T::FM], b[STEPS][T::FN];
    auto read = [&]<int STAGE>(int step) {
        const unsigned char* stage = lds + STAGE * T::STAGE_BYTES;
#pragma unroll
        for (int fm = 0; fm < T::FM; ++fm)
            a[step][fm] = *reinterpret_cast<const long*>(stage + read_a[fm] + step * 2 * T::BM * GRANULE);
#pragma unroll
        for (int fn = 0; fn < T::FN; ++fn)
            b[step][fn] = *reinterpret_cast<const long*>(stage + read_b[fn] + step * 2 * T::BN * GRANULE);
    };
    auto multiply = [&]<int STAGE>(int step, int fm, int fn) {
        const f32x16 before = STAGE == 0 && step == 0 ? f32x16(0.0f) : product[fm][fn];
        product[fm][fn] = __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(b[step][fn], a[step][fm], before, 0, 0, 0);
    };
    // Matrix instructions are no memory accesses: without this the compiler moves them across barriers.
    auto pin = [&] {
#pragma unroll
        for (int fm = 0; fm < T::FM; ++fm)
#pragma unroll
            for (int fn = 0; fn < T::FN; ++fn) asm volatile("" : "+v"(product[fm][fn]));
    };
    // One stage. On entry the fragments of its steps 0 and 1 are on their way from LDS. First half: matrix work on
    // these; the next stage's bytes go to the other buffer. Then that buffer is complete. Second half: its first
    // fragments are fetched, and loads are sent two stages ahead, some behind each subtile's instructions: all of them
    // in a row fill the L1's queue, and the wave would stand before it. The last stage of a scale block finishes one
    // subtile after the other, so that the VALU adds a finished one to the sum while the matrix unit works on the next.
    auto run_stage = [&]<int STAGE>() {
        read.template operator()<STAGE>(2);
        read.template operator()<STAGE>(3);
        constexpr int SUBTILES = T::FM * T::FN;
#pragma unroll
        for (int i = 0; i < 2 * SUBTILES; ++i)
            multiply.template operator()<STAGE>(i / SUBTILES, i % SUBTILES / T::FN, i % T::FN);
        store.template operator()<1 - STAGE>();
        pin();
        __builtin_amdgcn_sched_barrier(0);
        __syncthreads();
        __builtin_amdgcn_sched_barrier(0);
        read.template operator()<1 - STAGE>(0);
        read.template operator()<1 - STAGE>(1);
        auto add = [&](int fm, int fn) {
            if constexpr (STAGE == 1) {
#pragma unroll
                for (int i = 0; i < 16; ++i) {
                    float total = __builtin_fmaf(product[fm][fn][i], scale[fm], sum[fm][fn][i]);
                    asm("" : "+v"(total));  // keeps it v_fma_f32: v_pk_fma_f32 cannot run beside matrix work
                    sum[fm][fn][i] = total;
                }
            }
        };
#pragma unroll
        for (int i = 0; i < SUBTILES; ++i) {
            multiply.template operator()<STAGE>(2, i / T::FN, i % T::FN);
            multiply.template operator()<STAGE>(3, i / T::FN, i % T::FN);
            load.template operator()<1 - STAGE>(i, SUBTILES);
            if (i > 0) add((i - 1) / T::FN, (i - 1) % T::FN);
            __builtin_amdgcn_sched_barrier(0);
        }
        add(T::FM - 1, T::FN - 1);
        pin();
        __builtin_amdgcn_sched_barrier(0);
    };

    // In this order, which is the loop's: where it differs, a wait in the loop is for later loads than it needs.
    load.template operator()<0>(0, 1);
    load_scales();
    __builtin_amdgcn_sched_barrier(0);
    load.template operator()<1>(0, 1);
    // Now, where the wave waits anyway: what the compiler would do behind the first barrier, the zeros even twice.
    asm("" : "+s"(c_bits));
#pragma unroll
    for (int fm = 0; fm < T::FM; ++fm) {
        asm volatile("" : "+v"(read_a[fm]));
#pragma unroll
        for (int fn = 0; fn < T::FN; ++fn) {
            sum[fm][fn] = 0.0f;
            asm volatile("" : "+v"(sum[fm][fn]));
        }
    }
#pragma unroll
    for (int fn = 0; fn < T::FN; ++fn) asm volatile("" : "+v"(read_b[fn]));
    __builtin_amdgcn_sched_barrier(0);
    store.template operator()<0>();
    __builtin_amdgcn_sched_barrier(0);
    load.template operator()<0>(0, 1);
    __syncthreads();
    read.template operator()<0>(0);
    read.template operator()<0>(1);

    // A wave whose part lies past the matrix brings its share to LDS and leaves the matrix units to the others.
    const bool idle = tile_m + wave_m >= M || tile_n + wave_n >= N;
    for (int round = 0; idle && round < n_rounds; ++round) {
        store.template operator()<1>();
        __syncthreads();
        load.template operator()<1>(0, 1);
        store.template operator()<0>();
        __syncthreads();
        load.template operator()<0>(0, 1);
    }
    for (int round = 0; !idle && round < n_rounds; ++round) {
        run_stage.template operator()<0>();
#pragma unroll
        for (int fm = 0; fm < T::FM; ++fm) scale[fm] = next_a_scale[fm] * next_b_scale;
        load_scales();
        run_stage.template operator()<1>();
    }
    __syncthreads();  // the last, unused, fragments are read: LDS is free

    // Rows fm of a wave's part, 32 of them: with one slice to c, else to memory in the order in which registers hold
    // them, so that a wave moves 1,024 consecutive bytes.
    auto finish = [&](int fm, unsigned char* turned) {
        const int row = tile_m + wave_m + fm * SUB, column = tile_n + wave_n;
        if (row >= M || column >= N) return;
        if (split_k == 1)
            return store_subtile<1>(reinterpret_cast<f32x4(&)[T::CHUNKS]>(sum[fm]), 0, lane, turned,
                                    make_buffer(c_bits, 2u * M * N), row, column, N);
        const size_t first = (static_cast<size_t>(tile) * split_k + part) * (T::BM * T::BN);
        const Buffer to = make_buffer(partials + first, T::BM * T::BN * 4);
#pragma unroll
        for (int i = 0; i < T::CHUNKS; ++i)
            __builtin_amdgcn_raw_buffer_store_b128(reinterpret_cast<u32x4(&)[T::CHUNKS]>(sum[fm])[i], to,
                                                   ((fm * T::CHUNKS + i) * T::GROUP_THREADS + thread) * 16, 0,
                                                   CACHE_NORMAL);
    };
    if constexpr (T::GROUPS == 1) {
#pragma unroll
        for (int fm = 0; fm < T::FM; ++fm) finish(fm, lds + wave_in_group * T::C_BYTES);
    } else {
        // Each group gives the other's rows away and adds what it is given to its own.
        constexpr int BYTES = T::CHUNKS * WAVE * 16;  // that a wave gives
        auto exchange = [&]<int OWN>() {
            f32x4* const given = reinterpret_cast<f32x4*>(lds + (wave ^ T::GROUP_WAVES) * BYTES) + lane;
            f32x4* const got = reinterpret_cast<f32x4*>(lds + wave * BYTES) + lane;
#pragma unroll
            for (int i = 0; i < T::CHUNKS; ++i)
                given[i * WAVE] = reinterpret_cast<f32x4(&)[T::CHUNKS]>(sum[1 - OWN])[i];
            __syncthreads();
#pragma unroll
            for (int i = 0; i < T::CHUNKS; ++i) reinterpret_cast<f32x4(&)[T::CHUNKS]>(sum[OWN])[i] += got[i * WAVE];
            finish(OWN, lds + wave * BYTES);
        };
        group == 0 ? exchange.template operator()<0>() : exchange.template operator()<1>();
    }
}

constexpr int SUM_WAVES = 2;   // each half of a subtile's columns
constexpr int SUM_SLICES = 8;  // loaded together

// The second launch where k is split: c = the slices' partial tiles, added in their order. A workgroup has 32 x 64 of c,
// on the XCD whose L2 has what the first launch stored of it.
template <class T>
__global__ __launch_bounds__(SUM_WAVES* WAVE) void fp8_mm_sum_kernel(const float* partials, int M, int N, int split_k,
                                                                     int group_rows, unsigned short* c_bits) {
    __shared__ __attribute__((aligned(128))) unsigned char lds[T::C_BYTES];
    constexpr int SUBTILES = T::FM * T::GROUP_WAVES, OWN = T::CHUNKS / SUM_WAVES;
    constexpr u32 TILE_BYTES = T::BM * T::BN * 4;
    const int n_tiles_m = (M + T::BM - 1) / T::BM, n_tiles_n = (N + T::BN - 1) / T::BN;
    const int order = xcd_contiguous<N_XCD>(blockIdx.x, n_tiles_m * n_tiles_n * SUBTILES);
    const int tile = order / SUBTILES, wave = order % SUBTILES / T::FM, fm = order % T::FM;
    const TilePlace place = grouped_rows(tile, n_tiles_m, n_tiles_n, group_rows);
    const int row = place.row * T::BM + wave / T::WAVES_N * T::WM + fm * SUB;
    const int column = place.column * T::BN + wave % T::WAVES_N * WAVE_N;
    if (row >= M || column >= N) return;

    // Slices that there are not lie past the buffer: 0, and nothing moves.
    const int lane = threadIdx.x % WAVE, half = __builtin_amdgcn_readfirstlane(threadIdx.x / WAVE);
    const Buffer from =
        make_buffer(reinterpret_cast<const char*>(partials) + static_cast<size_t>(tile) * split_k * TILE_BYTES,
                    split_k * TILE_BYTES);
    const int at = ((fm * T::CHUNKS + half * OWN) * T::GROUP_THREADS + wave * WAVE + lane) * 16;
    f32x4 total[OWN] = {};
    for (int first = 0; first < split_k; first += SUM_SLICES) {
        u32x4 part[SUM_SLICES][OWN];
#pragma unroll
        for (int slice = 0; slice < SUM_SLICES; ++slice)
#pragma unroll
            for (int i = 0; i < OWN; ++i)
                part[slice][i] = __builtin_amdgcn_raw_buffer_load_b128(from, at + (first + slice) * TILE_BYTES,
                                                                       i * (T::GROUP_THREADS * 16), CACHE_NORMAL);
#pragma unroll
        for (int slice = 0; slice < SUM_SLICES; ++slice)
#pragma unroll
            for (int i = 0; i < OWN; ++i) total[i] += __builtin_bit_cast(f32x4, part[slice][i]);
    }
    store_subtile<SUM_WAVES>(total, half, lane, lds, make_buffer(c_bits, 2u * M * N), row, column, N);
}
