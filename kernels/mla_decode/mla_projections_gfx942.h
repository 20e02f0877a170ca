// amd-mla-decode on gfx942: the products of a decoding step around its attention, on tiles of bf16_gemm_gfx942.h.
//
// A tile's rows are requests; there are few of them, so each weight is read once and its bytes decide.
#pragma once

#include "mla_attention_gfx942.h"
#include "turned_weights_gfx942.h"
#include "workgroup_order.h"

constexpr int NOPE = 128, VALUE = 128;       // of a head: columns that are not rotated, and of values
constexpr int QUERY = NOPE + ROPE;           // rows of q_up
constexpr int KEY_AND_VALUE = NOPE + VALUE;  // and of kv_up

struct MlaArgs {
    const unsigned short* x;        // bf16 [batch][dim]
    const unsigned short* q_down;   // bf16 [rank][dim]
    const unsigned short* q_up;     // bf16 [HEADS][QUERY][rank]
    const unsigned short* kv_down;  // bf16 [WIDTH][dim]
    const unsigned short* kv_up;    // bf16 [HEADS][KEY_AND_VALUE][LATENT]
    const unsigned short* w_o;      // bf16 [dim][HEADS * VALUE]
    unsigned short* cache;          // bf16 [batch][capacity][WIDTH]
    unsigned short* q_latent;       // bf16 [batch][rank]
    unsigned short* q_nope;         // bf16 [batch][HEADS][NOPE]
    unsigned short* values;         // bf16 [batch][HEADS][VALUE]
    unsigned short* y;              // bf16 [batch][dim]
    float* slices;                  // [tiles][split][tile], of one launch
    u32* slices_arrived;            // [tiles], zero between launches
    int dim, rank, split_down, split_out;
    AttentionArgs attention;  // its q and o are written and read here
};

using ProjectionTile = GemmTile<128, 64, 4, 1, 2>;
constexpr int PAIRS = 3;  // of its stages on their way: a pair is little work, and its weights come from HBM
using AbsorbTile = GemmTile<128, 256, 2, 4, 1>;  // as wide as a TurningLoader's workgroup

__host__ __device__ inline int over(int n, int each) { return (n + each - 1) / each; }

// Place of a tile of requests and columns, and of one of n_slices of k. The tiles of a column run side by side on one XCD.
template <class T>
struct ProjectionWork {
    int first_request, n_requests, column, slice, number;  // number: of the tile; column: in tiles

    __device__ ProjectionWork(int batch, int n_slices) {
        const int order = xcd_contiguous<XCDS>(blockIdx.x, gridDim.x), row_tiles = over(batch, T::BM);
        number = uniform(order / n_slices);
        slice = uniform(order % n_slices);
        first_request = number % row_tiles * T::BM;
        n_requests = batch - first_request;
        column = number / row_tiles;
    }
    // f(request, column of the tile, 8 elements) for all that there are. lds: of the workgroup, free for use.
    template <class F>
    __device__ void each_row(const typename T::Wave::Sum& sum, unsigned char* lds, const Place& place, F&& f) const {
        using Wave = typename T::Wave;
        const int row = place.wave / T::WAVES_N * T::WM, columns = place.wave % T::WAVES_N * T::WN;
        Wave::rows(sum, lds + place.wave * Wave::TURN_BYTES, place.lane, [&](int r, int c, u32x4 eight) {
            if (row + r < n_requests) f(static_cast<size_t>(first_request + row + r), columns + c, eight);
        });
    }
};

__device__ inline void store_eight(unsigned short* to, u32x4 eight) { *reinterpret_cast<u32x4*>(to) = eight; }

// sum = a * w of that slice of k, where it is the last to arrive of all slices: then that of all. False otherwise.
template <class T>
__device__ bool project(typename T::Wave::Sum& sum, const ProjectionWork<T>& work, const MlaArgs& args,
                        const unsigned short* a, const unsigned short* w, int n, int k, int column, int n_slices,
                        unsigned char* lds, const Place& place) {
    const TileInputs inputs =
        tile_inputs<T>(a, w, args.attention.batch, n, k, work.first_request, column, work.slice, n_slices);
    T::Wave::zero(sum);
    gemm_tile<T, PAIRS>(sum, inputs, lds, place, [] {});
    __syncthreads();
    if (n_slices == 1) return true;
    float* const slices = args.slices + static_cast<size_t>(work.number) * n_slices * T::BM * T::BN;
    return add_slices<T>(sum, slices, args.slices_arrived + work.number, work.slice, n_slices, lds, place);
}

// q_latent = x * q_down^T, and the new token's latent, x * kv_down^T, to its place in the cache.
template <class T = ProjectionTile>
__global__ __launch_bounds__(T::THREADS, T::RESIDENCY) void down_kernel(const MlaArgs args) {
    unsigned char* const lds = workgroup_lds<T::LDS_BYTES>();
    const Place place;
    const ProjectionWork<T> work(args.attention.batch, args.split_down);
    const int q_tiles = over(args.rank, T::BN);
    const bool is_query = work.column < q_tiles;
    const int n = is_query ? args.rank : WIDTH, column = (is_query ? work.column : work.column - q_tiles) * T::BN;
    typename T::Wave::Sum sum;
    if (!project<T>(sum, work, args, args.x, is_query ? args.q_down : args.kv_down, n, args.dim, column,
                    args.split_down, lds, place))
        return;
    const size_t of_request = static_cast<size_t>(args.attention.capacity) * WIDTH;
    unsigned short* const latent = args.cache + static_cast<size_t>(args.attention.length - 1) * WIDTH;
    work.each_row(sum, lds, place, [&](size_t request, int c, u32x4 eight) {
        if (column + c >= n) return;
        store_eight((is_query ? args.q_latent + request * n : latent + request * of_request) + column + c, eight);
    });
}

// Queries of the heads: q_latent * q_up^T. Of a head's three tiles the last is rotated; its 64 columns are a wave's, so that a
// lane has both elements of a pair.
template <class T = ProjectionTile>
__global__ __launch_bounds__(T::THREADS, T::RESIDENCY) void query_kernel(const MlaArgs args) {
    static_assert(T::WN == ROPE && QUERY % T::BN == 0 && T::BN == ROPE);
    unsigned char* const lds = workgroup_lds<T::LDS_BYTES>();
    const Place place;
    const ProjectionWork<T> work(args.attention.batch, 1);
    constexpr int TILES = QUERY / T::BN;
    const int head = work.column / TILES, part = work.column % TILES;
    typename T::Wave::Sum sum;
    project<T>(sum, work, args, args.q_latent, args.q_up, HEADS * QUERY, args.rank, work.column * T::BN, 1, lds, place);
    if (part < TILES - 1) {
        work.each_row(sum, lds, place, [&](size_t request, int c, u32x4 eight) {
            store_eight(args.q_nope + (request * HEADS + head) * NOPE + part * T::BN + c, eight);
        });
        return;
    }
    const unsigned short* const angles = args.attention.table + static_cast<size_t>(args.attention.length - 1) * ROPE;
#pragma unroll
    for (int fm = 0; fm < T::Wave::FM; ++fm)
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int column = i / 4 * 8 + place.lane / 32 * 4 + i % 4;
            float low = through_bf16(sum.v[fm][0][i]), high = through_bf16(sum.v[fm][1][i]);
            rotate(low, high, from_bf16(angles[column]), from_bf16(angles[HALF_ROPE + column]));
            sum.v[fm][0][i] = low, sum.v[fm][1][i] = high;
        }
    unsigned short* const tails = const_cast<unsigned short*>(args.attention.q) + LATENT;
    work.each_row(sum, lds, place, [&](size_t request, int c, u32x4 eight) {
        store_eight(tails + (request * HEADS + head) * WIDTH + c, eight);
    });
}

// Queries for latents: by head, q_nope * W_UK, whose columns are contiguous.
template <class T = AbsorbTile>
__global__ __launch_bounds__(T::THREADS, T::RESIDENCY) void absorb_kernel(const MlaArgs args) {
    unsigned char* const lds = workgroup_lds<T::LDS_BYTES>();
    const Place place;
    const int batch = args.attention.batch;
    const ProjectionWork<T> work(batch, 1);
    constexpr int TILES = LATENT / T::BN;
    const int head = work.column / TILES, column = work.column % TILES * T::BN, part = place.wave % 2 * 128;
    const PairLoader<T::BM, T::THREADS> load_q(args.q_nope, 2u * batch * HEADS * NOPE, place.thread, [&](int row) {
        if (row >= work.n_requests) return RowReader::OUTSIDE;
        return 2u * ((work.first_request + row) * HEADS + head) * NOPE;
    });
    const unsigned short* const w = args.kv_up + static_cast<size_t>(head) * KEY_AND_VALUE * LATENT + column + part;
    const TurningLoader load_w(reinterpret_cast<long long>(w), NOPE, LATENT, LATENT - column - part,
                               part + 2 * place.lane, place);
    typename T::Wave::Sum sum;
    T::Wave::zero(sum);
    gemm_tile<T>(sum, load_q, load_w, 0, NOPE, lds, place, [] {});
    __syncthreads();
    unsigned short* const q = const_cast<unsigned short*>(args.attention.q) + column;
    work.each_row(sum, lds, place, [&](size_t request, int c, u32x4 eight) {
        store_eight(q + (request * HEADS + head) * WIDTH + c, eight);
    });
}

// Values of the heads: by head, o * W_UV^T.
template <class T = ProjectionTile>
__global__ __launch_bounds__(T::THREADS, T::RESIDENCY) void value_kernel(const MlaArgs args) {
    unsigned char* const lds = workgroup_lds<T::LDS_BYTES>();
    const Place place;
    const int batch = args.attention.batch;
    const ProjectionWork<T> work(batch, 1);
    constexpr int TILES = VALUE / T::BN;
    const int head = work.column / TILES, column = work.column % TILES * T::BN;
    const unsigned short* const o = args.attention.o + static_cast<size_t>(work.first_request) * HEADS * LATENT;
    const u32 o_bytes = 2u * min(work.n_requests, T::BM) * HEADS * LATENT;
    const LineLoader<T::BM, T::THREADS> load_o(o, uniform(o_bytes), place.thread, [&](int row) {
        return row < work.n_requests ? 2u * (row * HEADS + head) * LATENT : RowReader::OUTSIDE;
    });
    const int w_row = head * KEY_AND_VALUE + NOPE + column;
    const LineLoader<T::BN, T::THREADS> load_w(args.kv_up + static_cast<size_t>(w_row) * LATENT, T::BN, LATENT,
                                               place.thread);
    typename T::Wave::Sum sum;
    T::Wave::zero(sum);
    gemm_tile<T, PAIRS>(sum, load_o, load_w, 0, LATENT, lds, place, [] {});
    __syncthreads();
    work.each_row(sum, lds, place, [&](size_t request, int c, u32x4 eight) {
        store_eight(args.values + (request * HEADS + head) * VALUE + column + c, eight);
    });
}

// y = values * w_o^T.
template <class T = ProjectionTile>
__global__ __launch_bounds__(T::THREADS, T::RESIDENCY) void out_kernel(const MlaArgs args) {
    unsigned char* const lds = workgroup_lds<T::LDS_BYTES>();
    const Place place;
    const ProjectionWork<T> work(args.attention.batch, args.split_out);
    const int column = work.column * T::BN;
    typename T::Wave::Sum sum;
    if (!project<T>(sum, work, args, args.values, args.w_o, args.dim, HEADS * VALUE, column, args.split_out, lds,
                    place))
        return;
    work.each_row(sum, lds, place, [&](size_t request, int c, u32x4 eight) {
        if (column + c < args.dim) store_eight(args.y + request * args.dim + column + c, eight);
    });
}
