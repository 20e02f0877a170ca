// skinny-gemm-fp8 on gfx942: c[m, n] = fp16(scale * dot(a[m, :], b[n, :])), at most 32 rows of a.
//
// The weight b goes from memory straight into the registers of the matrix instruction, in which it is the row operand: a
// lane loads 16 bytes of k of one row of b, which are two instructions' worth. Which k an instruction takes does not
// matter as long as a has the same, so nothing is shuffled, and LDS is used for sums only.
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
constexpr int MOST_WAVES = 8;
constexpr u32 OUTSIDE = 1u << 31;  // beyond the end of every buffer here: a load from there moves nothing

struct SkinnyGemmArgs {
    const unsigned char* a;  // fp8 e4m3fnuz [m][k], m at most 16 * MB
    const unsigned char* b;  // fp8 e4m3fnuz [n][k]
    const float* scale;      // [1]
    _Float16* c;             // [m][n]
    f32x4* partial;          // [tiles][slices][m][16 * NB / 4], used where there are several slices
    u32* arrived;            // [tiles], zero between launches; likewise
    int m, n, k, slices;     // k: a multiple of CHUNK_K
    int steps, longer;       // of a slice; how many slices have one more
};

// Four neighbouring columns of one row of c, scaled and rounded.
__device__ inline void store_four(const SkinnyGemmArgs& args, int row, int column, f32x4 sum) {
    typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
    const float scale = *args.scale;
    f16x4 four;
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = static_cast<_Float16>(sum[i] * scale);
    _Float16* const to = args.c + static_cast<size_t>(row) * args.n + column;
    if (args.n % 4 == 0 && column < args.n) {
        *reinterpret_cast<f16x4*>(to) = four;
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (column + i < args.n) to[i] = four[i];
    }
}

template <int MB, int NB>
__global__ __launch_bounds__(MOST_WAVES* WAVE) void skinny_gemm_fp8_kernel(const SkinnyGemmArgs args, int waves) {
    constexpr int PIECES = MB * NB * WAVE;  // four columns of one row each, as a lane has them
    extern __shared__ f32x4 sums[];         // [waves][PIECES]
    __shared__ u32 arrived_before;
    const int thread = threadIdx.x, lane = thread % WAVE, wave = uniform(thread / WAVE);
    const int slice = blockIdx.x, tile = blockIdx.y;
    const int first_column = tile * 16 * NB;
    const int first = slice * args.steps + min(slice, args.longer);
    const int last = first + args.steps + (slice < args.longer);

    // Rows past the matrix lie past the buffer: they count as zeros, and no byte of them moves.
    auto rows_from = [&](const unsigned char* matrix, int row, int n_rows) {
        const long long address = reinterpret_cast<long long>(matrix) + static_cast<long long>(row) * args.k;
        return make_buffer(reinterpret_cast<const void*>(uniform_address(address)),
                           uniform(max(0, min(n_rows - row, 16)) * args.k));
    };
    Buffer a[MB], b[NB];
#pragma unroll
    for (int i = 0; i < MB; ++i) a[i] = rows_from(args.a, 16 * i, args.m);
#pragma unroll
    for (int i = 0; i < NB; ++i) b[i] = rows_from(args.b, first_column + 16 * i, args.n);
    const u32 lane_at = lane % 16 * args.k + lane / 16 * 16;

    struct Step {
        u32x4 a[CHUNKS][MB], b[CHUNKS][NB];
    };
    auto load = [&](Step& words, int step) {
#pragma unroll
        for (int j = 0; j < CHUNKS; ++j) {
            const int at_k = step * STEP_K + j * CHUNK_K;
            const u32 at = step < last && at_k < args.k ? lane_at : OUTSIDE;
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
    for (int i = 0; i < MB; ++i)
#pragma unroll
        for (int j = 0; j < NB; ++j) sum[i][j] = 0.0f;
    auto multiply = [&](const Step& words) {
#pragma unroll
        for (int j = 0; j < CHUNKS; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int im = 0; im < MB; ++im)
#pragma unroll
                    for (int in = 0; in < NB; ++in) {
                        const u32x4 a_words = words.a[j][im], b_words = words.b[j][in];
                        sum[im][in] = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(
                            __builtin_bit_cast(long, u32x2{b_words[2 * half], b_words[2 * half + 1]}),
                            __builtin_bit_cast(long, u32x2{a_words[2 * half], a_words[2 * half + 1]}), sum[im][in], 0,
                            0, 0);
                    }
    };

    Step even, odd;
    int step = first + wave;
    load(even, step);
    __builtin_amdgcn_sched_barrier(0);  // so that a step's loads return before those of the next one are sent for
    load(odd, step + waves);
    __builtin_amdgcn_sched_barrier(0);
    while (step < last) {
        multiply(even);
        load(even, step + 2 * waves);
        __builtin_amdgcn_sched_barrier(0);
        multiply(odd);
        load(odd, step + 3 * waves);
        __builtin_amdgcn_sched_barrier(0);
        step += 2 * waves;
    }

#pragma unroll
    for (int i = 0; i < MB; ++i)
#pragma unroll
        for (int j = 0; j < NB; ++j) sums[wave * PIECES + (i * NB + j) * WAVE + lane] = sum[i][j];
    __syncthreads();
    // f(piece, row, column of the tile) for the thread's pieces that belong to a row of a.
    auto each_piece = [&](auto&& f) {
        for (int piece = thread; piece < PIECES; piece += waves * WAVE) {
            const int block = piece / WAVE, row = block / NB * 16 + piece % 16;
            if (row < args.m) f(piece, row, block % NB * 16 + piece % WAVE / 16 * 4);
        }
    };
    auto sum_of_waves = [&](int piece) {
        f32x4 total = sums[piece];
        for (int other = 1; other < waves; ++other) total += sums[other * PIECES + piece];
        return total;
    };
    if (args.slices == 1) {
        each_piece(
            [&](int piece, int row, int column) { store_four(args, row, first_column + column, sum_of_waves(piece)); });
        return;
    }

    const u32 slice_bytes = args.m * 16 * NB * sizeof(float);
    const Buffer partial =
        make_buffer(reinterpret_cast<char*>(args.partial) + static_cast<size_t>(tile) * args.slices * slice_bytes,
                    args.slices * slice_bytes);
    auto partial_at = [&](int of_slice, int row, int column) {
        return of_slice * slice_bytes + (row * 16 * NB + column) * 4u;
    };
    each_piece([&](int piece, int row, int column) {
        __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(u32x4, sum_of_waves(piece)), partial,
                                               partial_at(slice, row, column), 0, CACHE_AGENT);
    });
    shared_stores_complete();
    if (thread == 0) arrived_before = arrive(args.arrived + tile);
    __syncthreads();
    if (arrived_before != static_cast<u32>(args.slices - 1)) return;
    if (thread == 0) reset_arrivals(args.arrived + tile);
    each_piece([&](int, int row, int column) {
        f32x4 total = 0.0f;
        for (int other = 0; other < args.slices; ++other)
            total += __builtin_bit_cast(
                f32x4, __builtin_amdgcn_raw_buffer_load_b128(partial, partial_at(other, row, column), 0, CACHE_AGENT));
        store_four(args, row, first_column + column, total);
    });
}

template <int MB, int NB>
void launch_skinny_gemm(const SkinnyGemmArgs& args, int waves) {
    const int tiles = (args.n + 16 * NB - 1) / (16 * NB);
    const size_t lds_bytes = sizeof(f32x4) * MB * NB * WAVE * waves;
    skinny_gemm_fp8_kernel<MB, NB><<<dim3(args.slices, tiles), dim3(waves * WAVE), lds_bytes>>>(args, waves);
}

void skinny_gemm_fp8(int64_t a, int64_t b, int64_t scale, int64_t c, int64_t partial, int64_t arrived, int m, int n,
                     int k, int column_blocks, int waves, int slices) {
    const int steps = (k + STEP_K - 1) / STEP_K;
    const SkinnyGemmArgs args = {reinterpret_cast<const unsigned char*>(a),
                                 reinterpret_cast<const unsigned char*>(b),
                                 reinterpret_cast<const float*>(scale),
                                 reinterpret_cast<_Float16*>(c),
                                 reinterpret_cast<f32x4*>(partial),
                                 reinterpret_cast<u32*>(arrived),
                                 m,
                                 n,
                                 k,
                                 slices,
                                 steps / slices,
                                 steps % slices};
    if (m <= 16) column_blocks == 1 ? launch_skinny_gemm<1, 1>(args, waves) : launch_skinny_gemm<1, 2>(args, waves);
    else column_blocks == 1 ? launch_skinny_gemm<2, 1>(args, waves) : launch_skinny_gemm<2, 2>(args, waves);
    const hipError_t error = hipGetLastError();
    if (error != hipSuccess) throw std::runtime_error(hipGetErrorString(error));
}
