// amd-mxfp4-mm on gfx950: c[m, n] = sum over k of MXFP4(a)[m, k] * b[n, k], one launch.
//
// A workgroup quantises its rows of a once, into LDS, while the codes of b that its waves need are on their way from
// memory straight to registers: the shuffled layout is the matrix instruction's. Waves divide columns and k among
// themselves; what they have of one sum is added through LDS. docs/kernels/mxfp4_mm.md has layouts and reasons.
#include <hip/hip_runtime.h>

#include <stdexcept>
#include <string>

#include "lds_load_gfx950.h"
#include "mxfp4_gfx950.h"

constexpr int N_XCD = 8;  // MI355X

struct Mxfp4MmArgs {
    const unsigned short* a;       // bf16 [M][K]
    const unsigned char* b;        // [N/16][K/64][2][16][16], codes
    const unsigned char* b_scale;  // [N up to 256, K/32 up to 8], see scale_group_offset
    unsigned short* c;             // bf16 [M][N]
    float* partial;                // [tiles][split_k][BM * BN], used where split_k > 1; its own order of elements
    u32* arrived;                  // [tiles], zero between launches, used where split_k > 1
    u32 m, n, k;
    u32 chunks, part_chunks, split_k;  // of k, in all and of each workgroup but the last; workgroups of a tile
};

constexpr int min_of(int a, int b) { return a < b ? a : b; }

// A workgroup's tile: FM times 16 rows of a by FN strips of b for each of WAVES_N waves; WAVES_K waves with STEPS matrix
// steps each make a chunk of k.
template <int FM_, int FN_, int WAVES_N_, int WAVES_K_, int STEPS_>
struct Mxfp4Tile {
    static constexpr int FM = FM_, FN = FN_, WAVES_N = WAVES_N_, WAVES_K = WAVES_K_, STEPS = STEPS_;
    static constexpr int BM = FM * STRIP, BN = WAVES_N * FN * STRIP, THREADS = WAVES_N * WAVES_K * WAVE;
    static constexpr int CHUNK_K = WAVES_K * STEPS * STEP_K;
    static constexpr int BLOCKS = CHUNK_K / MX_BLOCK;    // of a row of a
    static constexpr int UNITS = BM * BLOCKS / THREADS;  // blocks that each thread quantises
    static constexpr int SCALE_WORDS = (STEPS + 3) / 4;  // of a lane and 16 rows of a: four steps a dword
    static constexpr int SUMS = FM * FN;                 // 16 x 16 sums of a wave
    static constexpr int GROUPS = (STEPS + 1) / 2;       // two steps, and two strips, share a dword of scales
    static constexpr int PAIRS = (FN + 1) / 2;
    static constexpr int EARLY = min_of(4 / FN, GROUPS);      // 8 KiB of codes a wave are asked for before it quantises
    static constexpr int MIDDLE = min_of(EARLY + 1, GROUPS);  // and behind that, before the barrier, up to here
    static constexpr bool WHOLE_HALF_LINES = FN % 2 == 0;     // stores of 64 bytes of a row: two strips
    static constexpr int RAW_BYTES = BM * CHUNK_K * 2;
    static constexpr int CODES_BYTES = BM * CHUNK_K / 2;
    static constexpr int SCALES_BYTES = WAVES_K * FM * SCALE_WORDS * WAVE * 4;
    static constexpr int SUMS_BYTES = WAVES_K > 1 ? WAVES_K * WAVES_N * SUMS * WAVE * 16 : 0;
    static_assert(UNITS * THREADS == BM * BLOCKS && (STEPS == 1 || STEPS % 2 == 0) && (FN == 1 || FN % 2 == 0));
    static_assert(BLOCKS % 16 == 0);  // what one load brings is of one row
    static_assert(SUMS_BYTES <= RAW_BYTES);
    static_assert(RAW_BYTES + CODES_BYTES + SCALES_BYTES <= 163840);
};

// Where the 16 bytes of row (of BM), block (of BLOCKS) lie: in the order in which a wave reads them, 16 rows of one block
// side by side, permuted so that a thread's neighbours, which have the next blocks, write to other banks.
template <class T>
__device__ inline u32 codes_offset(u32 row, u32 block) {
    const u32 step = block / 4, slot = block % 4 * STRIP + (row % STRIP ^ block % 8);
    return ((step * T::FM + row / STRIP) * WAVE + slot) * 16;
}

// Where quarter i (16 bytes) of the wave's block-th block of 64 bytes lies, and the reverse: such that the lanes that LDS
// serves together, one block each, find their i-th quarters in different banks.
__device__ inline u32 raw_quarter(u32 block, u32 i) { return (i ^ block / 4) % 4; }

template <class T>
__device__ inline u32 scale_offset(u32 row, u32 block) {
    const u32 step = block / 4, wave_k = step / T::STEPS, own = step % T::STEPS;
    const u32 word = (wave_k * T::FM + row / STRIP) * T::SCALE_WORDS + own / 4;
    return (word * WAVE + row % STRIP * 4 + block % 4) * 4 + own % 4;
}

// Orders requests only: nothing that a wave has written is waited for.
__device__ inline void all_waves_have_asked() {
    __builtin_amdgcn_sched_barrier(0);
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_sched_barrier(0);
}

// RAGGED: K is no multiple of CHUNK_K. Arguments are those of Mxfp4MmArgs: the 14 words up to `split_k` are in registers before
// a wave starts (preload_arguments), which those of a struct are not.
template <class T, bool RAGGED>
__global__ __launch_bounds__(T::THREADS) void mxfp4_mm_kernel(const unsigned short* a, const unsigned char* b_,
                                                              const unsigned char* b_scale_, unsigned short* c_, u32 m,
                                                              u32 n, u32 k, u32 chunks, u32 part_chunks, u32 split_k,
                                                              float* partial_, u32* arrived) {
    const Mxfp4MmArgs args = {a, b_, b_scale_, c_, partial_, arrived, m, n, k, chunks, part_chunks, split_k};
    __shared__ __attribute__((aligned(128))) unsigned char raw[T::RAW_BYTES];  // of a, a wave's own part each
    __shared__ __attribute__((aligned(128))) unsigned char codes[T::CODES_BYTES];
    __shared__ __attribute__((aligned(128))) unsigned char scales[T::SCALES_BYTES];
    f32x4* sums = reinterpret_cast<f32x4*>(raw);  // which has been read when sums are written
    const u32 M = args.m, N = args.n, blocks = args.k / MX_BLOCK;
    u32 K = args.k;

    // In x by columns, in y by rows: a multiple of XCDs in x, so that those that read the same columns share an L2.
    const u32 tile_n = blockIdx.x, tile_m = blockIdx.y * T::BM, part = blockIdx.z;
    const u32 strip0 = tile_n * (T::BN / STRIP);
    if (strip0 * STRIP >= N) return;
    const u32 tile = blockIdx.y * gridDim.x + tile_n;
    const u32 first = part * args.part_chunks, last = min(first + args.part_chunks, args.chunks);

    const u32 thread = threadIdx.x;
    u32 lane = thread % WAVE, wave = __builtin_amdgcn_readfirstlane(thread / WAVE);
    // Rows of tiles that read the same columns begin at different ones of their groups of steps: what one brings from
    // memory the others find in the L2.
    const u32 turn = blockIdx.y % T::GROUPS;

    f32x4 sum[T::FM][T::FN] = {};
    for (u32 chunk = first; chunk < last; ++chunk) {
        const u32 first_block = chunk * T::BLOCKS;
        // A load brings 16 blocks of a row, 4 lanes a block, so that lanes side by side read side by side. A wave quantises
        // what it has brought, a block a lane.
#pragma unroll
        for (int load = 0; load < T::UNITS * 4; ++load) {
            const u32 at = (wave * T::UNITS * 4 + load) * 16;
            // Past either end something else is read: such rows are not stored, such blocks are replaced below.
            const u32 row = min(tile_m + at / T::BLOCKS, M - 1);
            u32 block = first_block + at % T::BLOCKS + lane / 4;
            if (RAGGED) block = min(block, blocks - 1);
            load_to_lds(args.a, 2u * row * K + block * 64 + raw_quarter(lane / 4, lane) * 16, raw + at * 64);
        }
        // No wave asks for b, nor for its next group of steps, before all have asked for what comes first: the L1 answers
        // in the order of the requests, and the last of a would come behind the first waves' codes of b.
        if (T::STEPS > 1) all_waves_have_asked();
        // From here on these are other values to the compiler, so that no address of what follows is computed before.
        asm volatile("" : "+v"(lane), "+s"(wave), "+s"(K));
        const u32 wave_n = wave % T::WAVES_N, wave_k = wave / T::WAVES_N;
        const u32 strip = strip0 + wave_n * T::FN, step0 = chunk * (T::BLOCKS / 4) + wave_k * T::STEPS;
        const u32 scale_groups = (K + SCALE_GROUP_K - 1) / SCALE_GROUP_K;
        const Buffer b = make_buffer(args.b, N * (K / 2));
        const Buffer b_scale = make_buffer(args.b_scale, (N + 255) / 256 * 256 * (scale_groups * 8));

        u32x4 b_codes[T::FN][T::STEPS];  // in the order in which they are asked for
        u32 b_scales[T::PAIRS][T::GROUPS];
        constexpr int STEPS_OF_GROUP = min_of(T::STEPS, 2);
        auto group = [&](u32 i) { return (i + turn) % T::GROUPS; };
        auto load_group = [&](int i) {
#pragma unroll
            for (int pair = 0; pair < T::PAIRS; ++pair)
                b_scales[pair][i] = __builtin_amdgcn_raw_buffer_load_b32(
                    b_scale, scale_group_offset(strip / 2 + pair, scale_groups, step0 / 2 + group(i), lane), 0,
                    CACHE_NORMAL);
#pragma unroll
            for (int fn = 0; fn < T::FN; ++fn)
#pragma unroll
                for (int k = 0; k < STEPS_OF_GROUP; ++k)
                    b_codes[fn][STEPS_OF_GROUP * i + k] = __builtin_amdgcn_raw_buffer_load_b128(
                        b,
                        (strip + fn) * (K * 8u) + (step0 + STEPS_OF_GROUP * group(i) + k) * STRIP_STEP_BYTES +
                            lane * 16,
                        0, CACHE_NORMAL);
            __builtin_amdgcn_sched_barrier(0);  // on their way before anything waits
        };
#pragma unroll
        for (int i = 0; i < T::EARLY; ++i) {
            if (i) all_waves_have_asked();
            load_group(i);
        }
        // The arguments that are not in registers: waited for here, with the loads.
        asm volatile("" ::"s"(args.partial), "s"(args.arrived));

        if (chunk > first) __syncthreads();  // the last chunk's codes have been read
#pragma unroll
        for (int unit = 0; unit < T::UNITS; ++unit) {
            const u32 at = (wave * T::UNITS + unit) * WAVE + lane, row = at / T::BLOCKS, block = at % T::BLOCKS;
            u32x4 x[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                x[i] = *reinterpret_cast<const u32x4*>(raw + at * 64 + raw_quarter(lane, i) * 16);
            u32 scale;
            u32x4 block_codes = mxfp4_quantize_block<false>(x, scale);
            if (RAGGED && first_block + block >= blocks) block_codes = u32x4(0);
            *reinterpret_cast<u32x4*>(codes + codes_offset<T>(row, block)) = block_codes;
            scales[scale_offset<T>(row, block)] = scale;
        }
        __builtin_amdgcn_sched_barrier(0);
#pragma unroll
        for (int i = T::EARLY; i < T::MIDDLE; ++i) load_group(i);
        __syncthreads();
#pragma unroll
        for (int i = T::MIDDLE; i < T::GROUPS; ++i) load_group(i);

        // The bytes that this wave's steps and strips need come to where the matrix instruction is told to look.
#pragma unroll
        for (int pair = 0; pair < T::PAIRS; ++pair)
#pragma unroll
            for (int i = 0; i < T::GROUPS; ++i) {
                u32& word = b_scales[pair][i];
                if (RAGGED) word &= scale_mask((step0 / 2 + group(i)) * 8, blocks, lane);
                if (T::FN == 1) word >>= strip % 2 * 8;
                if (T::STEPS == 1) word >>= step0 % 2 * 16;
            }

        u32 a_scales[T::FM][T::GROUPS];
#pragma unroll
        for (int fm = 0; fm < T::FM; ++fm)
#pragma unroll
            for (int i = 0; i < T::GROUPS; ++i) {
                const u32 word = (wave_k * T::FM + fm) * T::SCALE_WORDS + group(i) / 2;
                const unsigned char* at =
                    scales + (word * WAVE + lane % STRIP * 4 + lane / STRIP) * 4 + group(i) % 2 * 2;
                a_scales[fm][i] = T::STEPS == 1 ? *at : *reinterpret_cast<const unsigned short*>(at);
            }
        auto multiply = [&]<int STEP>() {
#pragma unroll
            for (int fm = 0; fm < T::FM; ++fm) {
                const u32 step = wave_k * T::STEPS + STEPS_OF_GROUP * group(STEP / 2) + STEP % 2;
                const u32x4 a_codes = *reinterpret_cast<const u32x4*>(
                    codes + codes_offset<T>(fm * STRIP + lane % STRIP, step * 4 + lane / STRIP));
#pragma unroll
                for (int fn = 0; fn < T::FN; ++fn) {
                    const u32 b_word = b_scales[fn / 2][STEP / 2];
                    const u32 a_word = a_scales[fm][STEP / 2];
                    // b's rows are the instruction's: a lane has four consecutive n of one m.
                    sum[fm][fn] = fn % 2 == 0 ? mfma_mxfp4<STEP % 2 * 2, STEP % 2>(b_codes[fn][STEP], a_codes,
                                                                                   sum[fm][fn], b_word, a_word)
                                              : mfma_mxfp4<STEP % 2 * 2 + 1, STEP % 2>(b_codes[fn][STEP], a_codes,
                                                                                       sum[fm][fn], b_word, a_word);
                }
            }
        };
        [&]<int... STEP>(std::integer_sequence<int, STEP...>) {
            (multiply.template operator()<STEP>(), ...);
        }(std::make_integer_sequence<int, T::STEPS>{});
    }

    const u32 wave_n = wave % T::WAVES_N, wave_k = wave / T::WAVES_N, strip = strip0 + wave_n * T::FN;
    // From here on a sum belongs to one wave of those that divide k: the s-th of a wave's to the (s % WAVES_K)-th. Which
    // four of it a lane has is `place`'s choice: where two strips lie side by side, such that 8 lanes have 64 bytes of c.
    struct Place {
        u32 fm, fn, row, four;  // `four`: which four of the 16 columns
    };
    auto place = [&](u32 s) -> Place {
        if (T::WAVES_K > 1 && T::WHOLE_HALF_LINES)
            return {s / T::FN, s % T::FN / 2 * 2 + lane / 4 % 2, s % 2 * 8 + lane / 8, lane % 4};
        return {s / T::FN, s % T::FN, lane % STRIP, lane / STRIP};
    };
    f32x4 total[(T::SUMS + T::WAVES_K - 1) / T::WAVES_K];
    if constexpr (T::WAVES_K == 1) {
#pragma unroll
        for (int s = 0; s < T::SUMS; ++s) total[s] = sum[s / T::FN][s % T::FN];
    } else {
        // 16 rows of four columns side by side, turned by `four` so that lanes of either order meet different banks.
        auto in_lds = [&](u32 k, const Place& p) -> f32x4& {
            const u32 of_wave = (k * T::WAVES_N + wave_n) * T::SUMS + p.fm * T::FN + p.fn;
            return sums[of_wave * WAVE + p.four * STRIP + (p.row + 4 * p.four) % STRIP];
        };
#pragma unroll
        for (int s = 0; s < T::SUMS; ++s)
            in_lds(wave_k, {u32(s / T::FN), u32(s % T::FN), lane % STRIP, lane / STRIP}) = sum[s / T::FN][s % T::FN];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < (T::SUMS + T::WAVES_K - 1) / T::WAVES_K; ++i) {
            const u32 s = i * T::WAVES_K + wave_k;
            if (s >= u32(T::SUMS)) break;
            total[i] = in_lds(0, place(s));
#pragma unroll
            for (int k = 1; k < T::WAVES_K; ++k) total[i] += in_lds(k, place(s));
        }
    }
    auto for_own_sums = [&](auto f) {
#pragma unroll
        for (int i = 0; i < (T::SUMS + T::WAVES_K - 1) / T::WAVES_K; ++i)
            if (const u32 s = i * T::WAVES_K + wave_k; s < u32(T::SUMS)) f(s, total[i]);
    };

    if (args.split_k > 1) {
        constexpr u32 TILE_BYTES = T::BM * T::BN * 4, BATCH = 8;  // loads of BATCH slices are under way together
        const Buffer partial =
            make_buffer(reinterpret_cast<char*>(args.partial) + static_cast<size_t>(tile) * args.split_k * TILE_BYTES,
                        args.split_k * TILE_BYTES);
        auto at = [&](u32 slice, u32 s) { return slice * TILE_BYTES + ((wave_n * T::SUMS + s) * WAVE + lane) * 16; };
        for_own_sums([&](u32 s, f32x4& value) {
            __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(u32x4, value), partial, at(part, s), 0,
                                                   CACHE_AGENT);
        });
        shared_stores_complete();
        u32* arrived_before = reinterpret_cast<u32*>(codes);
        if (thread == 0) *arrived_before = arrive(args.arrived + tile);
        __syncthreads();
        if (__builtin_amdgcn_readfirstlane(*arrived_before) != args.split_k - 1) return;
        if (thread == 0) reset_arrivals(args.arrived + tile);
        // The last slice to arrive adds all of them in their order: the result does not depend on who is last.
        for_own_sums([&](u32 s, f32x4& value) {
            value = f32x4(0.0f);
            for (u32 first_slice = 0; first_slice < args.split_k; first_slice += BATCH) {
                u32x4 slices[BATCH];  // zeros past the last one, which lie past the buffer
#pragma unroll
                for (u32 i = 0; i < BATCH; ++i)
                    slices[i] = __builtin_amdgcn_raw_buffer_load_b128(partial, at(first_slice + i, s), 0, CACHE_AGENT);
#pragma unroll
                for (u32 i = 0; i < BATCH; ++i) value += __builtin_bit_cast(f32x4, slices[i]);
            }
        });
    }

    const Buffer c = make_buffer(args.c, 2u * M * N);  // rows past M lie past it
    if constexpr (T::WAVES_K == 1 && T::WHOLE_HALF_LINES) {
        // Lanes 16 further exchange four columns, so that each has eight of one strip side by side.
#pragma unroll
        for (int s = 0; s < T::SUMS; s += 2) {
            u32x4 eight;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const auto both = __builtin_amdgcn_permlane16_swap(
                    pack_bf16(total[s][2 * i], total[s][2 * i + 1]),
                    pack_bf16(total[s + 1][2 * i], total[s + 1][2 * i + 1]), false, false);
                eight[i] = both[0], eight[2 + i] = both[1];
            }
            const u32 row = tile_m + s / T::FN * STRIP + lane % STRIP, own_strip = strip + s % T::FN + lane / STRIP % 2;
            if (own_strip * STRIP < N)
                __builtin_amdgcn_raw_buffer_store_b128(eight, c, 2u * (row * N + own_strip * STRIP + lane / 32 * 8), 0,
                                                       CACHE_NORMAL);
        }
    } else {
        for_own_sums([&](u32 s, f32x4& value) {
            const Place p = place(s);
            const u32 row = tile_m + p.fm * STRIP + p.row, own_strip = strip + p.fn;
            if (own_strip * STRIP >= N) return;
            const u32x2 four = {pack_bf16(value[0], value[1]), pack_bf16(value[2], value[3])};
            __builtin_amdgcn_raw_buffer_store_b64(four, c, 2u * (row * N + own_strip * STRIP + p.four * 4), 0,
                                                  CACHE_NORMAL);
        });
    }
}

template <class T>
static void launch(Mxfp4MmArgs args) {
    const int tiles_n = (args.n + T::BN - 1) / T::BN, tiles_m = (args.m + T::BM - 1) / T::BM;
    args.chunks = (args.k + T::CHUNK_K - 1) / T::CHUNK_K;
    args.part_chunks = (args.chunks + args.split_k - 1) / args.split_k;
    args.split_k = (args.chunks + args.part_chunks - 1) / args.part_chunks;  // none without a chunk
    const dim3 grid(tiles_m == 1 ? tiles_n : (tiles_n + N_XCD - 1) / N_XCD * N_XCD, tiles_m, args.split_k);
    const auto kernel = args.k % T::CHUNK_K ? mxfp4_mm_kernel<T, true> : mxfp4_mm_kernel<T, false>;
    kernel<<<grid, T::THREADS>>>(args.a, args.b, args.b_scale, args.c, args.m, args.n, args.k, args.chunks,
                                 args.part_chunks, args.split_k, args.partial, args.arrived);
}

// Launches with one of the tiles below; addresses as in Mxfp4MmArgs.
void mxfp4_mm(int64_t a, int64_t b, int64_t b_scale, int64_t c, int64_t partial, int64_t arrived, int m, int n, int k,
              int fm, int fn, int waves_n, int waves_k, int steps, int split_k) {
    Mxfp4MmArgs args = {};
    args.a = reinterpret_cast<const unsigned short*>(a);
    args.b = reinterpret_cast<const unsigned char*>(b);
    args.b_scale = reinterpret_cast<const unsigned char*>(b_scale);
    args.c = reinterpret_cast<unsigned short*>(c);
    args.partial = reinterpret_cast<float*>(partial);
    args.arrived = reinterpret_cast<u32*>(arrived);
    args.m = m, args.n = n, args.k = k, args.split_k = split_k;
    bool launched = false;
    auto offer = [&]<int FM, int FN, int WAVES_N, int WAVES_K, int STEPS>() {
        if (fm == FM && fn == FN && waves_n == WAVES_N && waves_k == WAVES_K && steps == STEPS) {
            launch<Mxfp4Tile<FM, FN, WAVES_N, WAVES_K, STEPS>>(args);
            launched = true;
        }
    };
    offer.operator()<1, 1, 1, 4, 1>();
    offer.operator()<1, 1, 4, 1, 4>();
    offer.operator()<1, 1, 4, 1, 8>();
    offer.operator()<1, 2, 4, 1, 4>();
    offer.operator()<1, 2, 4, 2, 8>();
    offer.operator()<1, 2, 6, 1, 12>();
    offer.operator()<2, 2, 4, 2, 2>();
    if (!launched)
        throw std::runtime_error("mxfp4_mm: no tile of FM " + std::to_string(fm) + ", FN " + std::to_string(fn) +
                                 ", WAVES_N " + std::to_string(waves_n) + ", WAVES_K " + std::to_string(waves_k) +
                                 ", STEPS " + std::to_string(steps) + " is compiled");
    const hipError_t error = hipGetLastError();
    if (error != hipSuccess) throw std::runtime_error(std::string("mxfp4_mm: ") + hipGetErrorString(error));
}
