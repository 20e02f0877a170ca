// amd-ag-gemm in one launch: each of W ranks has M/W rows of a and N columns' weights, and returns all M rows of its
// columns: a w^T + bias.
//
// The workgroups with the lowest ids push this rank's rows, chunk by chunk, into the memory of every peer, and set a
// flag there after each chunk. They wait for nobody. The others compute tiles: first those of the own rows, read where
// they lie, then those of the peers', in the order in which they arrive. docs/kernels/ag_gemm.md has the protocol and
// why no barrier between calls is needed. The same on every GPU: what differs is included ahead of this, as in
// ag_gemm_gfx942.hip.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "workgroup_order.h"

// A rank's region: flags, int [source rank][chunk][sender], then what has been gathered in even and in odd calls,
// bf16 [M][K].
struct AgGemmArgs {
    const unsigned short *a, *w, *bias;  // bf16 [M/W][K], [N][K], [N] or null
    unsigned short* out;                 // bf16 [M][N]
    float* partial;                      // [tiles][split_k][BM * BN], where split_k > 1
    u32* arrived;                        // [tiles], zero between launches, where split_k > 1
    const long long* table;              // where each rank's region lies
    long long gathered;                  // byte offset of this call's rows
    Patience patience;
    int rows, n, k;  // of one rank: M/W; N; K
    int rank, ranks, epoch;
    int merged;  // tiles go over the rows of all ranks, the own ones among them, all read from what was gathered
    int row_tiles, column_tiles;  // of one rank's rows, or of all if merged
    int chunk_rows, chunks;       // of one rank; a chunk is one row tile, or if merged all rows
    int senders, push_groups;     // of one destination, and of all: a multiple of XCDS, some idle
    int band;                     // row tiles of every peer that are worked on at the same time
    int split_k, group_rows;
};

constexpr unsigned WAIT_FOR_ROWS = 1;

// One of the `senders` workgroups of one destination: its share of every chunk.
template <int THREADS>
__device__ void push_rows(const AgGemmArgs& args, int id) {
    const int destinations = args.merged ? args.ranks : args.ranks - 1;
    if (id >= destinations * args.senders) return;
    const int destination = (args.rank + 1 + id % destinations) % args.ranks, share = id / destinations;
    const long long region = args.table[destination];
    int* flags = reinterpret_cast<int*>(region) + args.rank * args.chunks * args.senders + share;
    const u32 thread = threadIdx.x;
    constexpr int AHEAD = 4;  // 16 bytes each
    constexpr u32 STEP = THREADS * 16 * AHEAD;
    for (int chunk = 0; chunk < args.chunks; ++chunk) {
        const size_t first = static_cast<size_t>(chunk) * args.chunk_rows * args.k;
        const u32 bytes = 2u * min(args.chunk_rows, args.rows - chunk * args.chunk_rows) * args.k;
        const RowReader reader(args.a + first, uniform(bytes));
        const size_t there = static_cast<size_t>(args.rank) * args.rows * args.k + first;
        const RowWriter writer(region + args.gathered + static_cast<long long>(there * 2), bytes);
        for (u32 begin = share * STEP; begin < bytes; begin += args.senders * STEP) {
            u32x4 words[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; ++i) words[i] = reader.read(begin + (i * THREADS + thread) * 16, 0);
#pragma unroll
            for (int i = 0; i < AHEAD; ++i) writer.store_through(begin + (i * THREADS + thread) * 16, words[i]);
        }
        stores_complete();
        if (thread == 0) {
            release_system();
            store_flag(flags + chunk * args.senders, args.epoch);
        }
    }
}

// The tile of a workgroup: own rows first, then bands of `band` row tiles of every peer, which arrive at the same time.
// Within a band (and within the own rows) each XCD takes one contiguous range.
struct Work {
    int source;       // whose rows; 0 if merged
    int row, column;  // in tiles
    int number;       // of all tiles
    int slice;        // of k

    __device__ Work(const AgGemmArgs& args, int id) {
        const int rank_tiles = args.row_tiles * args.column_tiles * args.split_k;
        int row_tiles = args.row_tiles, first_row = 0, peers = 1, distance = 0;
        if (id >= rank_tiles) {
            peers = args.ranks - 1;
            id -= rank_tiles;
            const int per_band = args.band * peers * args.column_tiles * args.split_k;
            first_row = id / per_band * args.band;
            id %= per_band;
            row_tiles = min(args.band, args.row_tiles - first_row) * peers;
            distance = 1;
        }
        const int order = xcd_contiguous<XCDS>(id, row_tiles * args.column_tiles * args.split_k);
        slice = order % args.split_k;  // the slices of one tile run side by side on one XCD
        const TilePlace place = grouped_rows(order / args.split_k, row_tiles, args.column_tiles, args.group_rows);
        source = args.merged ? 0 : (args.rank + distance + place.row % peers) % args.ranks;
        row = first_row + place.row / peers;
        column = place.column;
        number = (source * args.row_tiles + row) * args.column_tiles + column;
    }
};

template <class T>
__device__ void compute_tile(const AgGemmArgs& args, int id, unsigned char* lds) {
    const Place place;
    const Work work(args, id);
    const int row = work.row * T::BM, column = work.column * T::BN;       // row: among the source's
    const int n_rows = args.merged ? args.rows * args.ranks : args.rows;  // of the source
    const int wave_row = place.wave / T::WAVES_N * T::WM, wave_column = place.wave % T::WAVES_N * T::WN;

    // The chunks that this tile reads: of one source, or if merged the only one of several sources.
    const long long region = args.table[args.rank];
    const bool own = !args.merged && work.source == args.rank;
    const int first_source = args.merged ? row / args.rows : work.source;
    const int last_source = args.merged ? (min(row + T::BM, n_rows) - 1) / args.rows : work.source;
    const int n_flags = own ? 0 : (last_source - first_source + 1) * args.senders;
    const auto a_ready = [&] {
        const int chunk = args.merged ? 0 : work.row;
        for (int i = place.thread; i < n_flags; i += T::THREADS) {
            const int source = first_source + i / args.senders, sender = i % args.senders;
            const int* flag =
                reinterpret_cast<const int*>(region) + (source * args.chunks + chunk) * args.senders + sender;
            wait_flag(flag, args.epoch, args.patience, WAIT_FOR_ROWS, source);
        }
        if (n_flags > 0) __syncthreads();
    };
    const unsigned short* rows = args.a;
    if (!own)
        rows = reinterpret_cast<const unsigned short*>(region + args.gathered) +
               static_cast<size_t>(work.source) * args.rows * args.k;

    typename T::Wave::Sum sum;
    T::Wave::zero(sum);
    if (args.bias && work.slice == 0) T::Wave::set_bias(sum, args.bias, args.n, column + wave_column, place.lane);
    gemm_tile<T>(sum, tile_inputs<T>(rows, args.w, n_rows, args.n, args.k, row, column, work.slice, args.split_k), lds,
                 place, a_ready);
    lds_barrier();
    if (args.split_k > 1) {
        float* partial = args.partial + static_cast<size_t>(work.number) * args.split_k * T::BM * T::BN;
        if (!add_slices<T>(sum, partial, args.arrived + work.number, work.slice, args.split_k, lds, place)) return;
    }
    const size_t first = (static_cast<size_t>(work.source) * args.rows + row) * args.n;
    const RowWriter writer(reinterpret_cast<long long>(args.out + first), 2u * min(n_rows - row, T::BM) * args.n);
    T::Wave::rows(sum, lds + place.wave * T::Wave::TURN_BYTES, place.lane, [&](int r, int c, u32x4 eight) {
        // Rows past the source's lie past the writer's end. Columns past the matrix do not.
        c += column + wave_column;
        writer.store(c < args.n ? 2u * (static_cast<u32>(r + wave_row) * args.n + c) : RowWriter::OUTSIDE, eight);
    });
}

template <class T>
__global__ __launch_bounds__(T::THREADS, T::RESIDENCY) void ag_gemm_kernel(const AgGemmArgs args) {
    unsigned char* lds = workgroup_lds<T::LDS_BYTES>();
    const int id = blockIdx.x;
    if (id < args.push_groups) push_rows<T::THREADS>(args, id);
    else compute_tile<T>(args, id - args.push_groups, lds);
}

// table ... alarm: addresses. block_m, block_n: of one of the tiles that with_gemm_tile() offers. N and K are multiples
// of 8, and all addresses of 16.
void ag_gemm(int64_t a, int64_t w, int64_t bias, int64_t out, int64_t partial, int64_t arrived, int64_t table,
             int64_t gathered, int64_t alarm, int64_t timeout_ticks, int rows, int n, int k, int rank, int ranks,
             int epoch, int block_m, int block_n, int split_k, int group_rows, int band, int senders, bool merged) {
    AgGemmArgs args = {};
    args.a = reinterpret_cast<const unsigned short*>(a);
    args.w = reinterpret_cast<const unsigned short*>(w);
    args.bias = reinterpret_cast<const unsigned short*>(bias);
    args.out = reinterpret_cast<unsigned short*>(out);
    args.partial = reinterpret_cast<float*>(partial);
    args.arrived = reinterpret_cast<u32*>(arrived);
    args.table = reinterpret_cast<const long long*>(table);
    args.gathered = gathered;
    args.patience = {alarm, timeout_ticks};
    args.rows = rows, args.n = n, args.k = k;
    args.rank = rank, args.ranks = ranks, args.epoch = epoch;
    args.merged = merged;
    args.row_tiles = ((merged ? ranks : 1) * rows + block_m - 1) / block_m;
    args.column_tiles = (n + block_n - 1) / block_n;
    args.chunk_rows = merged ? rows : block_m;
    args.chunks = merged ? 1 : args.row_tiles;
    args.senders = senders;
    args.push_groups = (senders * (merged ? ranks : ranks - 1) + XCDS - 1) / XCDS * XCDS;
    args.band = band;
    args.split_k = split_k, args.group_rows = group_rows;
    const int tiles = args.row_tiles * args.column_tiles * (merged ? 1 : ranks);
    const bool found = with_gemm_tile(block_m, block_n, [&](auto tile) {
        using T = decltype(tile);
        launch_workgroups<T>(ag_gemm_kernel<T>, args.push_groups + tiles * split_k, args);
    });
    if (!found)
        throw std::runtime_error("ag_gemm: no tile of " + std::to_string(block_m) + " x " + std::to_string(block_n) +
                                 " is compiled");
    const hipError_t error = hipGetLastError();
    if (error != hipSuccess) throw std::runtime_error(std::string("ag_gemm: ") + hipGetErrorString(error));
}
