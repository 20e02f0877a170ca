// One output tile of a product of bf16 matrices, both with contiguous k: sum[m, n] = sum over k of a[m, k] * w[n, k],
// in fp32. Here is what is the same on every GPU; include the header of one, bf16_gemm_gfx942.h say, which takes this in.
//
// k passes through LDS in stages. How they get there is gemm_tile() of that header.
#pragma once

// Output tile of a workgroup and its division among waves. PER_CU: workgroups meant to share a CU.
template <int BM_, int BN_, int WAVES_M_, int WAVES_N_, int PER_CU_>
struct GemmTile {
    static constexpr int BM = BM_, BN = BN_, WAVES_M = WAVES_M_, WAVES_N = WAVES_N_, PER_CU = PER_CU_;
    static constexpr int WAVES = WAVES_M * WAVES_N, THREADS = WAVES * WAVE;
    static constexpr int WM = BM / WAVES_M, WN = BN / WAVES_N;
    static constexpr int RESIDENCY = residency(WAVES, PER_CU);
    static constexpr int LINE_K = 64;  // of 128 bytes of a row; a slice of k is a multiple
    static constexpr int STAGE_BYTES = (BM + BN) * STAGE_K * 2;
    static constexpr int STAGES = stages(STAGE_BYTES, PER_CU), LDS_BYTES = STAGES * STAGE_BYTES;
    using Wave = WaveTile<WM, WN>;
    static_assert(WAVES * Wave::TURN_BYTES <= LDS_BYTES && LDS_BYTES * PER_CU <= LDS_OF_CU);
};

template <class F>
bool with_gemm_tile(int block_m, int block_n, F&& f) {
    return with_tile_of<GemmTile>(block_m, block_n, f);
}

// Where a thread works.
struct Place {
    int thread, lane, wave;
    __device__ Place() : thread(threadIdx.x), lane(thread % WAVE), wave(uniform(thread / WAVE)) {}
};

// What a tile is made of: rows a[0 .. BM) and w[0 .. BN) of k elements each, a multiple of 8, of which there are a_rows
// and w_rows, further ones count as zeros; first_k <= k < last_k, first_k a multiple of 64.
struct TileInputs {
    const unsigned short *a, *w;
    int a_rows, w_rows, k, first_k, last_k;
};

// Of the tile at `row` and `column`: one of n_slices of k, each a whole number of lines but the last. a, w: the matrices,
// [m][k] and [n][k].
template <class T>
__device__ TileInputs tile_inputs(const unsigned short* a, const unsigned short* w, int m, int n, int k, int row,
                                  int column, int slice, int n_slices) {
    const int lines = (k + T::LINE_K - 1) / T::LINE_K;
    return {a + static_cast<size_t>(row) * k,
            w + static_cast<size_t>(column) * k,
            m - row,
            n - column,
            k,
            slice * lines / n_slices * T::LINE_K,
            min((slice + 1) * lines / n_slices * T::LINE_K, k)};
}

// The slices of k of one output tile meet here: true in the workgroup that arrives last, whose sum is then that of all
// n_slices. The result does not depend on who is last. partial: fp32 [n_slices][BM * BN] of this tile, in an order of
// its own. arrived: this tile's counter, zero between launches. lds: of the workgroup, free for use.
template <class T>
__device__ bool add_slices(typename T::Wave::Sum& sum, float* partial, u32* arrived, int slice, int n_slices,
                           unsigned char* lds, const Place& place) {
    using Wave = typename T::Wave;
    constexpr int TILE = T::BM * T::BN;
    Wave::store_partial(sum, partial + static_cast<size_t>(slice) * TILE, place.thread, T::THREADS);
    shared_stores_complete();
    u32* arrived_before = reinterpret_cast<u32*>(lds);
    if (place.thread == 0) *arrived_before = arrive(arrived);
    __syncthreads();
    const bool last = uniform(*arrived_before) == n_slices - 1;
    __syncthreads();  // all have read it: lds is free again
    if (!last) return false;
    if (place.thread == 0) reset_arrivals(arrived);
    Wave::zero(sum);
    for (int i = 0; i < n_slices; ++i)
        Wave::add_partial(sum, partial + static_cast<size_t>(i) * TILE, place.thread, T::THREADS);
    return true;
}

// fp32 sums of 8 columns' bf16.
struct Bf16Sum8 {
    float v[8] = {};

    __device__ void add(u32x4 words) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            v[2 * i] += __uint_as_float(words[i] << 16);
            v[2 * i + 1] += __uint_as_float(words[i] & 0xffff0000u);
        }
    }
    __device__ u32x4 rounded() const {
        return u32x4{pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])};
    }
};
