// skinny-gemm-fp8 on gfx942: c[m, n] = fp16(scale * dot(a[m, :], b[n, :])), at most 32 rows of a.
//
// The weight b is the row operand of the matrix instruction: a lane has 16 bytes of k of one row of b, which are two
// instructions' worth. Which k an instruction takes does not matter as long as a has the same, so no byte is shuffled.
// But sixteen neighbouring lanes have sixteen rows. Loaded so, four lanes would ask the L1 for four rows, which takes it
// four times as long as one row's 64 bytes; so a wave loads four lanes a row and turns what came through LDS of its own.
//
// A workgroup has 16 * NB columns of c. Its waves take steps of STEP_K of k in turn, so that together they read each row
// of b in order, and each has two steps under way. Their sums meet in LDS, in fp32. k may also be cut into slices, of a
// workgroup each: these leave fp32 sums in memory, and the one that arrives last adds them in slice order. So nothing
// has to be zeroed before, and two runs give the same bits.
#include <hip/hip_runtime.h>

#include <stdexcept>

#include "gfx942.h"

constexpr int CHUNK_K = 64;  // of k: 16 bytes of four lanes
constexpr int CHUNKS = 4;    // of a step
constexpr int STEP_K = CHUNKS * CHUNK_K;
constexpr u32 OUTSIDE = 1u << 31;  // beyond the end of every buffer here: a load from there moves nothing
constexpr int SLICES_AT_ONCE = 4;  // whose partial sums are loaded together
constexpr int LDS_BYTES = 65'536;

// Where LDS has the 16 bytes `part` of four of a row's chunk: no eight lanes that are served together meet in a bank,
// neither two rows with all their parts nor eight rows with one.
__device__ inline int place(int row, int part) { return row * 4 + (part ^ row / 2 % 4); }

// Four neighbouring columns of one row of c, scaled and rounded.
__device__ inline void store_four(Buffer c, int n, int row, int column, f32x4 sum, float scale) {
    typedef unsigned short u16x4 __attribute__((ext_vector_type(4)));
    u16x4 four;
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = __builtin_bit_cast(unsigned short, static_cast<_Float16>(sum[i] * scale));
    const u32 at = 2u * (static_cast<u32>(row) * n + column);
    if (__builtin_expect(n % 4 == 0, 1)) {
        if (column < n) __builtin_amdgcn_raw_buffer_store_b64(__builtin_bit_cast(u32x2, four), c, at, 0, CACHE_NORMAL);
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (column + i < n) __builtin_amdgcn_raw_buffer_store_b16(four[i], c, at + 2 * i, 0, CACHE_NORMAL);
    }
}

// The arguments up to `scale_at` are 14 words: registers hold them before a wave starts (preload_arguments).
template <int MB, int NB, int WAVES>
__global__ __launch_bounds__(WAVES* WAVE) void skinny_gemm_fp8_kernel(
    const unsigned char* a_rows,        // fp8 e4m3fnuz [m][k], m at most 16 * MB
    const unsigned char* b_rows,        // fp8 e4m3fnuz [n][k]
    int m, int n, int k,                // k: a multiple of CHUNK_K
    int slices, int steps, int longer,  // of a slice; how many slices have one step more
    const float* scale_at,              // [1]
    _Float16* c_rows,                   // [m][n]
    f32x4* partials,                    // [tiles][slices][m][16 * NB / 4], used where there are several slices
    u32* arrived                        // [tiles], zero between launches; likewise
) {
    constexpr int PIECES = MB * NB * WAVE;    // four columns of one row each, as a lane has them
    constexpr int TURNED = (MB + NB) * WAVE;  // 16 bytes each, of a chunk
    constexpr int BUFFERS = 2 * TURNED * WAVES * 16 < LDS_BYTES ? 2 : 1;
    constexpr int OF_A_WAVE = BUFFERS * TURNED > PIECES ? BUFFERS * TURNED : PIECES;
    __shared__ u32x4 words_of[WAVES][OF_A_WAVE];  // a wave's chunks as they are turned; behind the loop its sums
    __shared__ u32 arrived_before;
    const int thread = threadIdx.x, lane = thread % WAVE, wave = uniform(thread / WAVE);
    const int slice = blockIdx.x, tile = blockIdx.y;
    const int first_column = tile * 16 * NB;
    const int first = slice * steps + min(slice, longer);
    const int last = first + steps + (slice < longer);

    // Rows past the matrix lie past the buffer: they count as zeros, and no byte of them moves.
    auto rows_from = [&](const unsigned char* matrix, int row, int n_rows) {
        const long long address = reinterpret_cast<long long>(matrix) + static_cast<long long>(row) * k;
        return make_buffer(reinterpret_cast<const void*>(uniform_address(address)),
                           uniform(max(0, min(n_rows - row, 16)) * k));
    };
    Buffer a[MB], b[NB];
#pragma unroll
    for (int i = 0; i < MB; ++i) a[i] = rows_from(a_rows, 16 * i, m);
#pragma unroll
    for (int i = 0; i < NB; ++i) b[i] = rows_from(b_rows, first_column + 16 * i, n);
    const u32 lane_at = lane / 4 * k + lane % 4 * 16;
    u32x4* const turned = words_of[wave];

    struct Step {
        u32x4 a[CHUNKS][MB], b[CHUNKS][NB];
    };
    auto load = [&](Step& words, int step) {
#pragma unroll
        for (int j = 0; j < CHUNKS; ++j) {
            const int at_k = step * STEP_K + j * CHUNK_K;
            const u32 at = step < last && at_k < k ? lane_at : OUTSIDE;
#pragma unroll
            for (int i = 0; i < NB; ++i)
                words.b[j][i] = __builtin_amdgcn_raw_buffer_load_b128(b[i], at, at_k, CACHE_NON_TEMPORAL);
#pragma unroll
            for (int i = 0; i < MB; ++i)
                words.a[j][i] = __builtin_amdgcn_raw_buffer_load_b128(a[i], at, at_k, CACHE_NORMAL);
        }
    };
    f32x4 sum[MB][NB];
#pragma unroll
    for (int i = 0; i < MB * NB; ++i) sum[i / NB][i % NB] = 0.0f;
    auto turn = [&](const Step& words, int j) {  // a chunk: loaded four lanes a row, read sixteen rows side by side
        u32x4* const to = turned + j % BUFFERS * TURNED + place(lane / 4, lane % 4);
        wave_lds_fence();
#pragma unroll
        for (int i = 0; i < NB; ++i) to[i * WAVE] = words.b[j][i];
#pragma unroll
        for (int i = 0; i < MB; ++i) to[(NB + i) * WAVE] = words.a[j][i];
        wave_lds_fence();
    };
    auto multiply = [&](const Step& words) {
#pragma unroll
        for (int j = 0; j < CHUNKS; ++j) {
            turn(words, j);
            const u32x4* const from = turned + j % BUFFERS * TURNED + place(lane % 16, lane / 16);
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int im = 0; im < MB; ++im)
#pragma unroll
                    for (int in = 0; in < NB; ++in) {
                        const u32x4 a_words = from[(NB + im) * WAVE], b_words = from[in * WAVE];
                        sum[im][in] = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(
                            __builtin_bit_cast(long, u32x2{b_words[2 * half], b_words[2 * half + 1]}),
                            __builtin_bit_cast(long, u32x2{a_words[2 * half], a_words[2 * half + 1]}), sum[im][in], 0,
                            0, 0);
                    }
        }
    };

    Step even, odd;
    int step = first + wave;
    load(even, step);
    __builtin_amdgcn_sched_barrier(0);  // so that a step's loads return before those of the next one are sent for
    load(odd, step + WAVES);
    __builtin_amdgcn_sched_barrier(0);
    // These come while the first step does, not when the last one has.
    float scale = *scale_at;
    asm volatile("" : "+s"(scale), "+s"(c_rows), "+s"(partials), "+s"(arrived));
    do {  // of a slice without a step: zeros
        multiply(even);
        load(even, step + 2 * WAVES);
        __builtin_amdgcn_sched_barrier(0);
        multiply(odd);
        load(odd, step + 3 * WAVES);
        __builtin_amdgcn_sched_barrier(0);
        step += 2 * WAVES;
    } while (step < last);

    const Buffer c = make_buffer(c_rows, 2u * m * n);
    if constexpr (WAVES > 1) {
#pragma unroll
        for (int i = 0; i < MB; ++i)
#pragma unroll
            for (int j = 0; j < NB; ++j) turned[(i * NB + j) * WAVE + lane] = __builtin_bit_cast(u32x4, sum[i][j]);
        __syncthreads();
    }
    // f(piece, row, column of the tile) for the lane's pieces of the wave's blocks that belong to a row of a.
    auto each_piece = [&](auto&& f) {
#pragma unroll
        for (int block = 0; block < MB * NB; ++block) {
            const int row = block / NB * 16 + lane % 16;
            if (block % WAVES == wave && row < m) f(block, row, block % NB * 16 + lane / 16 * 4);
        }
    };
    auto sum_of_waves = [&](int block) {
        if constexpr (WAVES == 1) return sum[block / NB][block % NB];
        f32x4 total = __builtin_bit_cast(f32x4, words_of[0][block * WAVE + lane]);
#pragma unroll
        for (int other = 1; other < WAVES; ++other)
            total += __builtin_bit_cast(f32x4, words_of[other][block * WAVE + lane]);
        return total;
    };
    if (__builtin_expect(slices == 1, 1)) {
        each_piece([&](int block, int row, int column) {
            store_four(c, n, row, first_column + column, sum_of_waves(block), scale);
        });
        return;
    }

    const u32 slice_bytes = m * 16 * NB * sizeof(float);
    const Buffer partial = make_buffer(
        reinterpret_cast<char*>(partials) + static_cast<size_t>(tile) * slices * slice_bytes, slices * slice_bytes);
    auto partial_at = [&](int of_slice, int row, int column) {
        return of_slice * slice_bytes + (row * 16 * NB + column) * 4u;
    };
    each_piece([&](int block, int row, int column) {
        __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(u32x4, sum_of_waves(block)), partial,
                                               partial_at(slice, row, column), 0, CACHE_AGENT);
    });
    shared_stores_complete();
    if (thread == 0) arrived_before = arrive(arrived + tile);
    __syncthreads();
    if (arrived_before != static_cast<u32>(slices - 1)) return;
    if (thread == 0) reset_arrivals(arrived + tile);
    each_piece([&](int, int row, int column) {
        f32x4 total = 0.0f;
        for (int other = 0; other < slices; other += SLICES_AT_ONCE)
#pragma unroll
            for (int i = 0; i < SLICES_AT_ONCE; ++i)  // past the last slice lies past the buffer: 0
                total += __builtin_bit_cast(f32x4, __builtin_amdgcn_raw_buffer_load_b128(
                                                       partial, partial_at(other + i, row, column), 0, CACHE_AGENT));
        store_four(c, n, row, first_column + column, total, scale);
    });
}

void skinny_gemm_fp8(int64_t a, int64_t b, int64_t scale, int64_t c, int64_t partial, int64_t arrived, int m, int n,
                     int k, int column_blocks, int waves, int slices) {
    const int steps = (k + STEP_K - 1) / STEP_K;
    auto launch = [&]<int MB, int NB, int WAVES>() {
        const int tiles = (n + 16 * NB - 1) / (16 * NB);
        skinny_gemm_fp8_kernel<MB, NB, WAVES><<<dim3(slices, tiles), dim3(WAVES * WAVE)>>>(
            reinterpret_cast<const unsigned char*>(a), reinterpret_cast<const unsigned char*>(b), m, n, k, slices,
            steps / slices, steps % slices, reinterpret_cast<const float*>(scale), reinterpret_cast<_Float16*>(c),
            reinterpret_cast<f32x4*>(partial), reinterpret_cast<u32*>(arrived));
    };
    auto with_waves = [&]<int MB, int NB>() {
        switch (waves) {
            case 1: launch.template operator()<MB, NB, 1>(); break;
            case 2: launch.template operator()<MB, NB, 2>(); break;
            case 4: launch.template operator()<MB, NB, 4>(); break;
            case 8: launch.template operator()<MB, NB, 8>(); break;
            default: throw std::invalid_argument("a workgroup has 1, 2, 4 or 8 waves");
        }
    };
    if (m <= 16) column_blocks == 1 ? with_waves.template operator()<1, 1>() : with_waves.template operator()<1, 2>();
    else column_blocks == 1 ? with_waves.template operator()<2, 1>() : with_waves.template operator()<2, 2>();
    const hipError_t error = hipGetLastError();
    if (error != hipSuccess) throw std::runtime_error(hipGetErrorString(error));
}
