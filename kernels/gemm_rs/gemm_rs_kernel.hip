// amd-gemm-rs in one launch: rank r of W returns rows r M/W .. (r + 1) M/W - 1 of the sum over all ranks of
// bf16(a w^T + bias).
//
// The workgroups with the lowest ids compute tiles and store them, rounded to bf16, into this rank's slot in the memory
// of their rows' owner; then the tile's flag there takes the number of this call. They wait for nobody. The workgroups
// with the highest ids wait until all ranks have stored a tile of this rank's rows, add the W slots in fp32 and write
// the output. docs/kernels/gemm_rs.md has the protocol and why no barrier between calls is needed.
#include <hip/hip_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "bf16_gemm.h"
#include "symmetric_heap.h"
#include "workgroup_order.h"

// A rank's region: flags, int [tile][source rank], then the slots of even and of odd calls, bf16 [source rank][M/W][N].
struct GemmRsArgs {
    const unsigned short *a, *w, *bias;  // bf16 [M][K], [N][K], [N] or null
    unsigned short* out;                 // bf16 [M/W][N]
    float* partial;                      // [tiles][split_k][BM * BN], where split_k > 1
    u32* arrived;                        // [tiles], zero between launches, where split_k > 1
    const long long* table;              // where each rank's region lies
    long long slots;                     // byte offset of this call's slots
    Patience patience;
    int rows, n, k;  // of one rank: M/W; N; K
    int rank, ranks, epoch;
    int merged;                  // tiles go over the rows of all ranks, not over those of one
    int row_tiles, column_tiles;  // of one rank's rows, or of all if merged
    int split_k, group_rows, sum_rows;
    int producers;  // workgroups, a multiple of N_XCD
};

constexpr int N_XCD = 8;
constexpr unsigned WAIT_FOR_TILE = 1;

// Whose rows a workgroup multiplies, in launch order: tiles of peers first, beginning with the next rank's, so that each
// XCD sends to another peer than most others do, and at last its own.
struct Work {
    bool any;
    int owner;   // 0 if merged
    int tile;    // of that owner
    int number;  // of all tiles
    int slice;   // of k

    __device__ Work(const GemmRsArgs& args, int id) {
        const int tiles = args.row_tiles * args.column_tiles;
        const int remote = args.merged ? 0 : (args.ranks - 1) * tiles * args.split_k;
        const int remote_groups = (remote + N_XCD - 1) / N_XCD * N_XCD;  // so that own tiles begin at XCD 0
        int order;
        if (id < remote_groups) {
            any = id < remote;
            order = xcd_contiguous<N_XCD>(id, remote);
        } else {
            any = id - remote_groups < tiles * args.split_k;
            order = remote + xcd_contiguous<N_XCD>(id - remote_groups, tiles * args.split_k);
        }
        number = order / args.split_k;
        slice = order % args.split_k;  // the slices of one tile run side by side on one XCD
        tile = number % tiles;
        owner = args.merged ? 0 : (args.rank + 1 + number / tiles) % args.ranks;
    }
};

template <class T>
__device__ void compute_tile(const GemmRsArgs& args, unsigned char* lds) {
    const Work work(args, blockIdx.x);
    if (!work.any) return;
    const Place place;
    const TilePlace tile = grouped_rows(work.tile, args.row_tiles, args.column_tiles, args.group_rows);
    const int row = tile.row * T::BM, column = tile.column * T::BN;         // row: among the owner's
    const int n_rows = args.merged ? args.rows * args.ranks : args.rows;  // of the owner
    const int wave_row = place.wave / T::WAVES_N * T::WM, wave_column = place.wave % T::WAVES_N * T::WN;
    const int pairs = (args.k + T::PAIR_K - 1) / T::PAIR_K;
    const int first_k = work.slice * pairs / args.split_k * T::PAIR_K;
    const int last_k = min((work.slice + 1) * pairs / args.split_k * T::PAIR_K, args.k);

    typename T::Wave::Sum sum;
    T::Wave::zero(sum);
    if (args.bias && work.slice == 0)
        T::Wave::set_bias(sum, args.bias, args.n, column + wave_column, place.lane);
    gemm_tile<T>(sum, args.a + (static_cast<size_t>(work.owner) * args.rows + row) * args.k, n_rows - row,
                 args.w + static_cast<size_t>(column) * args.k, args.n - column, args.k, first_k, last_k, lds, place,
                 [] {});
    lds_barrier();
    if (args.split_k > 1) {
        float* partial = args.partial + static_cast<size_t>(work.number) * args.split_k * T::BM * T::BN;
        if (!add_slices<T>(sum, partial, args.arrived + work.number, work.slice, args.split_k, lds, place)) return;
    }

    unsigned char* own_lds = lds + place.wave * T::Wave::TURN_BYTES;
    int first_owner = work.owner, last_owner = work.owner;
    if (args.merged) {
        T::Wave::rows(sum, own_lds, place.lane, [&](int r, int c, u32x4 eight) {
            r += row + wave_row;
            c += column + wave_column;
            if (r >= n_rows || c >= args.n) return;
            const size_t at = (static_cast<size_t>(args.rank) * args.rows + r % args.rows) * args.n + c;
            store_through(reinterpret_cast<void*>(args.table[r / args.rows] + args.slots + at * 2), eight);
        });
        first_owner = row / args.rows;
        last_owner = (min(row + T::BM, n_rows) - 1) / args.rows;
    } else {
        const size_t first = (static_cast<size_t>(args.rank) * args.rows + row) * args.n;
        const RowWriter writer(args.table[work.owner] + args.slots + static_cast<long long>(first * 2),
                                2u * min(args.rows - row, T::BM) * args.n);
        T::Wave::rows(sum, own_lds, place.lane, [&](int r, int c, u32x4 eight) {
            // Rows past the owner's lie past the writer's end. Columns past the matrix do not.
            c += column + wave_column;
            const u32 at = 2u * (static_cast<u32>(r + wave_row) * args.n + c);
            writer.store_through(c < args.n ? at : RowWriter::OUTSIDE, eight);
        });
    }
    stores_complete();
    if (place.thread <= last_owner - first_owner) {
        release_system();
        int* flags = reinterpret_cast<int*>(args.table[first_owner + place.thread]);
        store_flag(flags + (tile.row * args.column_tiles + tile.column) * args.ranks + args.rank, args.epoch);
    }
}

// out[row] = sum of all ranks' slots, 8 columns a thread. RANKS 0: any number.
template <int RANKS>
__device__ void sum_slots(const u32x4* slots, u32x4* out, size_t slot_pitch, int ranks) {
    Bf16Sum8 sum;
    if constexpr (RANKS > 0) {
        u32x4 words[RANKS];
#pragma unroll
        for (int i = 0; i < RANKS; ++i) words[i] = slots[i * slot_pitch];
#pragma unroll
        for (int i = 0; i < RANKS; ++i) sum.add(words[i]);
    } else {
        for (int i = 0; i < ranks; ++i) sum.add(slots[i * slot_pitch]);
    }
    *out = sum.rounded();
}

// Rows of one tile of this rank's: `unit` counts them, sum_rows at a time, in the order in which tiles are sent.
template <class T>
__device__ void sum_tile_rows(const GemmRsArgs& args, int unit) {
    const int thread = threadIdx.x;
    // A tile that holds other ranks' rows as well has args.rows of this rank's at most.
    const int pieces = (min(T::BM, args.rows) + args.sum_rows - 1) / args.sum_rows;
    const int n_tiles_m = args.merged ? (args.rows - 1) / T::BM + 2 : args.row_tiles;
    const TilePlace tile = grouped_rows(unit / pieces, n_tiles_m, args.column_tiles, args.group_rows);
    // First row of the tile and of this rank, both among the rows that row_tiles count.
    const int own = args.merged ? args.rank * args.rows : 0;
    const int tile_row = args.merged ? own / T::BM + tile.row : tile.row;
    const int begin = max(tile_row * T::BM, own) - own, end = min((tile_row + 1) * T::BM - own, args.rows);
    const int first = begin + unit % pieces * args.sum_rows, last = min(first + args.sum_rows, end);
    if (first >= last) return;

    const long long region = args.table[args.rank];
    const int* flags = reinterpret_cast<const int*>(region) + (tile_row * args.column_tiles + tile.column) * args.ranks;
    if (thread < args.ranks) wait_flag(flags + thread, args.epoch, args.patience, WAIT_FOR_TILE, thread);
    __syncthreads();

    constexpr int PER_ROW = T::BN / 8;
    const int column = tile.column * T::BN + thread % PER_ROW * 8;
    if (column >= args.n) return;
    const size_t slot_pitch = static_cast<size_t>(args.rows) * args.n / 8;
    const auto sum_row = [&](auto ranks) {
        for (int row = first + thread / PER_ROW; row < last; row += T::THREADS / PER_ROW) {
            const size_t at = (static_cast<size_t>(row) * args.n + column) / 8;
            sum_slots<decltype(ranks)::value>(reinterpret_cast<const u32x4*>(region + args.slots) + at,
                                              reinterpret_cast<u32x4*>(args.out) + at, slot_pitch, args.ranks);
        }
    };
    switch (args.ranks) {
        case 2: return sum_row(std::integral_constant<int, 2>{});
        case 4: return sum_row(std::integral_constant<int, 4>{});
        case 8: return sum_row(std::integral_constant<int, 8>{});
        default: return sum_row(std::integral_constant<int, 0>{});
    }
}

template <class T>
__global__ __launch_bounds__(T::THREADS, T::RESIDENCY) void gemm_rs_kernel(const GemmRsArgs args) {
    __shared__ __attribute__((aligned(128))) unsigned char lds[T::LDS_BYTES];
    const int id = blockIdx.x;
    if (id < args.producers)
        compute_tile<T>(args, lds);
    else
        sum_tile_rows<T>(args, id - args.producers);
}

// table ... alarm: addresses. block_m, block_n: of one of the tiles that with_gemm_tile() offers. N and K are multiples
// of 8, and all addresses of 16.
void gemm_rs(int64_t a, int64_t w, int64_t bias, int64_t out, int64_t partial, int64_t arrived, int64_t table,
             int64_t slots, int64_t alarm, int64_t timeout_ticks, int rows, int n, int k, int rank, int ranks,
             int epoch, int block_m, int block_n, int split_k, int group_rows, int sum_rows, bool merged) {
    GemmRsArgs args = {reinterpret_cast<const unsigned short*>(a),
                       reinterpret_cast<const unsigned short*>(w),
                       reinterpret_cast<const unsigned short*>(bias),
                       reinterpret_cast<unsigned short*>(out),
                       reinterpret_cast<float*>(partial),
                       reinterpret_cast<u32*>(arrived),
                       reinterpret_cast<const long long*>(table),
                       slots,
                       {alarm, timeout_ticks},
                       rows,
                       n,
                       k,
                       rank,
                       ranks,
                       epoch,
                       merged,
                       ((merged ? ranks : 1) * rows + block_m - 1) / block_m,
                       (n + block_n - 1) / block_n,
                       split_k,
                       group_rows,
                       sum_rows,
                       0};
    const auto up = [](int x) { return (x + N_XCD - 1) / N_XCD * N_XCD; };
    const int places = args.row_tiles * args.column_tiles * split_k;
    args.producers = merged ? up(places) : up((ranks - 1) * places) + up(places);
    const int own_row_tiles = merged ? (rows - 1) / block_m + 2 : args.row_tiles;
    const int adders = own_row_tiles * args.column_tiles * ((min(block_m, rows) + sum_rows - 1) / sum_rows);
    const bool found = with_gemm_tile(block_m, block_n, [&](auto tile) {
        using T = decltype(tile);
        gemm_rs_kernel<T><<<dim3(args.producers + adders), dim3(T::THREADS)>>>(args);
    });
    if (!found) throw std::runtime_error("gemm_rs: no tile of that size is compiled");
    const hipError_t error = hipGetLastError();
    if (error != hipSuccess) throw std::runtime_error(std::string("gemm_rs: ") + hipGetErrorString(error));
}
