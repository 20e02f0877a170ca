// amd-gemm-rs in one launch: rank r of W returns rows r M/W .. (r + 1) M/W - 1 of the sum over all ranks of
// bf16(a w^T + bias).
//
// The workgroups with the lowest ids compute tiles of the peers' rows and store them, rounded to bf16, into this rank's
// slot in the memory of their owner; then the tile's flag there takes the number of this call. They wait for nobody.
// The workgroups after them compute the tiles of the own rows, keep them, wait until all peers have stored theirs, add
// these in fp32 and write the output. Where a rank has few rows ("merged"), a tile has rows of several ranks: all tiles
// are stored, and other workgroups, with the highest ids, add. docs/kernels/gemm_rs.md has the protocol and why no
// barrier between calls is needed. The same on every GPU: what differs is included ahead of this, as in gemm_rs_gfx942.hip.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "workgroup_order.h"

// A rank's region: flags, int [tile][source rank], then the slots of even and of odd calls, bf16 [source rank][M/W][N].
struct GemmRsArgs {
    const unsigned short *a, *w, *bias;  // bf16 [M][K], [N][K], [N] or null
    unsigned short* out;                 // bf16 [M/W][N]
    float* partial;                      // [tiles][split_k][tile_elements], where split_k > 1
    u32* arrived;                        // [tiles], zero between launches, where split_k > 1
    const long long* table;              // where each rank's region lies
    long long slots;                     // byte offset of this call's slots
    Patience patience;
    int rows, n, k;  // of one rank: M/W; N; K
    int rank, ranks, epoch;
    int merged;                   // tiles go over the rows of all ranks, not over those of one
    int row_tiles, column_tiles;  // of one rank's rows, or of all if merged
    int split_k, group_rows, tile_elements;
    int senders, finishers;  // workgroups that send tiles, and that write the output
};

constexpr unsigned WAIT_FOR_TILE = 1;

// Own rows' tiles. They are the last to run, so a lesser height may fill the compute units more evenly.
template <class T>
struct OwnTile {
    using type = T;
};

// Place and slice of k of a workgroup's tile, among rows that begin with row first_row of a; n_rows of them.
struct Work {
    int first_row, n_rows;
    int row, column;  // of the tile's first element
    int number;       // of all tiles of all workgroups
    int slice;
};

template <class T>
__device__ Work work_of(const GemmRsArgs& args, int order, int row_tiles, int first_row, int n_rows, int first_number) {
    const int tile = order / args.split_k;  // the slices of one tile run side by side on one XCD
    const TilePlace place = grouped_rows(tile, row_tiles, args.column_tiles, args.group_rows);
    return {first_row, n_rows, place.row * T::BM, place.column * T::BN, first_number + tile, order % args.split_k};
}

// First row or column of the wave in its tile.
template <class T>
__device__ int wave_row(const Place& place) {
    return place.wave / T::WAVES_N * T::WM;
}
template <class T>
__device__ int wave_column(const Place& place) {
    return place.wave % T::WAVES_N * T::WN;
}

// What is added to a tile's product.
template <class T>
__device__ void start_sum(typename T::Wave::Sum& sum, const GemmRsArgs& args, const Work& work, const Place& place) {
    T::Wave::zero(sum);
    if (args.bias && work.slice == 0)
        T::Wave::set_bias(sum, args.bias, args.n, work.column + wave_column<T>(place), place.lane);
}

// False where another workgroup finishes the tile. lds: free for use.
template <class T>
__device__ bool all_slices(typename T::Wave::Sum& sum, const GemmRsArgs& args, const Work& work, unsigned char* lds,
                           const Place& place) {
    if (args.split_k == 1) return true;
    float* partial = args.partial + static_cast<size_t>(work.number) * args.split_k * args.tile_elements;
    return add_slices<T>(sum, partial, args.arrived + work.number, work.slice, args.split_k, lds, place);
}

template <class T>
__device__ TileInputs inputs_of(const GemmRsArgs& args, const Work& work) {
    const unsigned short* rows = args.a + static_cast<size_t>(work.first_row) * args.k;
    return tile_inputs<T>(rows, args.w, work.n_rows, args.n, args.k, work.row, work.column, work.slice, args.split_k);
}

// start_sum(), product and all_slices().
template <class T>
__device__ bool multiply(typename T::Wave::Sum& sum, const GemmRsArgs& args, const Work& work, unsigned char* lds,
                         const Place& place) {
    start_sum<T>(sum, args, work, place);
    gemm_tile<T>(sum, inputs_of<T>(args, work), lds, place, [] {});
    lds_barrier();
    return all_slices<T>(sum, args, work, lds, place);
}

// After the workgroup's stores: the tile's flags at the owners first .. last.
__device__ inline void flag_tile(const GemmRsArgs& args, int first, int last, int row_tile, int column_tile) {
    stores_complete();
    const int thread = threadIdx.x;
    if (thread > last - first) return;
    release_system();
    int* flags = reinterpret_cast<int*>(args.table[first + thread]);
    store_flag(flags + (row_tile * args.column_tiles + column_tile) * args.ranks + args.rank, args.epoch);
}

// Wait for the flags of one tile of this rank's rows from all ranks, or from all others.
__device__ inline void wait_for_tile(const GemmRsArgs& args, int row_tile, int column_tile, bool from_all) {
    const int thread = threadIdx.x;
    const int* flags = reinterpret_cast<const int*>(args.table[args.rank]);
    flags += (row_tile * args.column_tiles + column_tile) * args.ranks;
    if (thread < args.ranks && (from_all || thread != args.rank))
        wait_flag(flags + thread, args.epoch, args.patience, WAIT_FOR_TILE, thread);
    __syncthreads();
}

// A tile of a peer's rows.
struct Sent {
    int owner;
    Work work;
};

// `order`: place in launch order; beginning with the next rank's tiles, so that each XCD sends to another peer than most
// others do.
template <class T>
__device__ Sent sent_tile(const GemmRsArgs& args, int order) {
    const int tiles = args.row_tiles * args.column_tiles;
    const int turn = order / (tiles * args.split_k);
    const int owner = (args.rank + 1 + turn) % args.ranks;
    return {owner, work_of<T>(args, order % (tiles * args.split_k), args.row_tiles, owner * args.rows, args.rows,
                              turn * tiles)};
}

template <class T>
__device__ void send_tile(const GemmRsArgs& args, int order, unsigned char* lds) {
    const Place place;
    const Sent sent = sent_tile<T>(args, order);
    const Work& work = sent.work;
    typename T::Wave::Sum sum;
    if (!multiply<T>(sum, args, work, lds, place)) return;
    const size_t first = (static_cast<size_t>(args.rank) * args.rows + work.row) * args.n;
    const RowWriter writer(args.table[sent.owner] + args.slots + static_cast<long long>(first * 2),
                           2u * min(args.rows - work.row, T::BM) * args.n);
    T::Wave::rows(sum, lds + place.wave * T::Wave::TURN_BYTES, place.lane, [&](int r, int c, u32x4 eight) {
        // Rows past the owner's lie past the writer's end. Columns past the matrix do not.
        c += work.column + wave_column<T>(place);
        const u32 at = 2u * (static_cast<u32>(r + wave_row<T>(place)) * args.n + c);
        writer.store_through(c < args.n ? at : RowWriter::OUTSIDE, eight);
    });
    flag_tile(args, sent.owner, sent.owner, work.row / T::BM, work.column / T::BN);
}

// This call's slots, and what lies between those of one rank and the next.
struct Slots {
    RowReader reader;
    u32 pitch_bytes;

    __device__ explicit Slots(const GemmRsArgs& args)
        : reader(reinterpret_cast<const void*>(uniform_address(args.table[args.rank] + args.slots)),
                 uniform(2u * args.ranks * args.rows * args.n)),
          pitch_bytes(2u * args.rows * args.n) {}

    // The 8 columns at `at` of AT_ONCE ranks from `first` on. Eight loads are under way at a time; without branches, for
    // the compiler would wait before each. What is not to be added, that of `without` and beyond the last rank, is 0.
    static constexpr int AT_ONCE = 8;
    struct Words {
        u32x4 of[AT_ONCE];
    };
    __device__ Words read(u32 at, int first, int ranks, int without) const {
        Words words;
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const bool wanted = first + i < ranks && first + i != without;
            words.of[i] = reader.read(wanted ? at + (first + i) * pitch_bytes : RowReader::OUTSIDE, 0);
        }
        return words;
    }
    static __device__ void add(Bf16Sum8& sum, const Words& words) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) sum.add(words.of[i]);
    }
    // All ranks' from `first` on but that of `without` (-1: all).
    __device__ void add(Bf16Sum8& sum, u32 at, int first, int ranks, int without) const {
        for (; first < ranks; first += AT_ONCE) add(sum, read(at, first, ranks, without));
    }
};

// A tile of the own rows.
template <class Own>
__device__ Work own_tile(const GemmRsArgs& args, int order) {
    const int row_tiles = (args.rows + Own::BM - 1) / Own::BM;
    return work_of<Own>(args, order, row_tiles, args.rank * args.rows, args.rows,
                        (args.ranks - 1) * args.row_tiles * args.column_tiles);
}

// An own tile's sum and what the peers have sent. T: the peers' tiles. turn: TURN_BYTES of LDS, for this wave.
template <class T, class Own>
__device__ void add_peers(const typename Own::Wave::Sum& sum, const GemmRsArgs& args, const Work& work,
                          unsigned char* turn, const Place& place) {
    wait_for_tile(args, work.row / T::BM, work.column / T::BN, false);
    const Slots slots(args);
    const int row = work.row + wave_row<Own>(place), column = work.column + wave_column<Own>(place);
    const auto inside = [&](int r, int c) { return row + r < args.rows && column + c < args.n; };
    const auto element = [&](int r, int c) { return static_cast<u32>(row + r) * args.n + column + c; };
    Own::Wave::rows(
        sum, turn, place.lane,
        [&](int r, int c) { return slots.read(2 * element(r, c), 0, inside(r, c) ? args.ranks : 0, args.rank); },
        [&](int r, int c, u32x4 eight, const Slots::Words& words) {
            if (!inside(r, c)) return;
            Bf16Sum8 total;
            total.add(eight);  // rounded, as the peers' are
            Slots::add(total, words);
            slots.add(total, 2 * element(r, c), Slots::AT_ONCE, args.ranks, args.rank);
            *reinterpret_cast<u32x4*>(args.out + element(r, c)) = total.rounded();
        });
}

template <class T, class Own>
__device__ void finish_tile(const GemmRsArgs& args, int order, unsigned char* lds) {
    const Place place;
    const Work work = own_tile<Own>(args, order);
    typename Own::Wave::Sum sum;
    if (multiply<Own>(sum, args, work, lds, place))
        add_peers<T, Own>(sum, args, work, lds + place.wave * Own::Wave::TURN_BYTES, place);
}

// Merged: a tile of the rows of all ranks, each row to its owner.
template <class T>
__device__ void scatter_tile(const GemmRsArgs& args, int order, unsigned char* lds) {
    const Place place;
    const int n_rows = args.rows * args.ranks;
    const Work work = work_of<T>(args, order, args.row_tiles, 0, n_rows, 0);
    typename T::Wave::Sum sum;
    if (!multiply<T>(sum, args, work, lds, place)) return;
    T::Wave::rows(sum, lds + place.wave * T::Wave::TURN_BYTES, place.lane, [&](int r, int c, u32x4 eight) {
        r += work.row + wave_row<T>(place);
        c += work.column + wave_column<T>(place);
        if (r >= n_rows || c >= args.n) return;
        const size_t at = (static_cast<size_t>(args.rank) * args.rows + r % args.rows) * args.n + c;
        store_through(reinterpret_cast<void*>(args.table[r / args.rows] + args.slots + at * 2), eight);
    });
    flag_tile(args, work.row / args.rows, (min(work.row + T::BM, n_rows) - 1) / args.rows, work.row / T::BM,
              work.column / T::BN);
}

// Merged: the sums of this rank's rows in one tile. `unit`: of the row tiles that may have such rows, and their columns.
template <class T>
__device__ void sum_tile(const GemmRsArgs& args, int unit) {
    const int own = args.rank * args.rows;  // first of this rank's rows
    const int row_tile = own / T::BM + unit / args.column_tiles, column_tile = unit % args.column_tiles;
    const int first = max(row_tile * T::BM, own), last = min((row_tile + 1) * T::BM, own + args.rows);
    if (first >= last) return;
    wait_for_tile(args, row_tile, column_tile, true);
    constexpr int PER_ROW = T::BN / 8;
    const int thread = threadIdx.x;
    const int column = column_tile * T::BN + thread % PER_ROW * 8;
    if (column >= args.n) return;
    const Slots slots(args);
    for (int row = first - own + thread / PER_ROW; row < last - own; row += T::THREADS / PER_ROW) {
        const u32 at = static_cast<u32>(row) * args.n + column;
        Bf16Sum8 total;
        slots.add(total, 2 * at, 0, args.ranks, -1);
        *reinterpret_cast<u32x4*>(args.out + at) = total.rounded();
    }
}

__host__ __device__ constexpr int up_to_xcds(int n) { return (n + XCDS - 1) / XCDS * XCDS; }

template <class T>
__global__ __launch_bounds__(T::THREADS, T::RESIDENCY) void gemm_rs_kernel(const GemmRsArgs args) {
    unsigned char* lds = workgroup_lds<T::LDS_BYTES>();
    // Each XCD takes one contiguous range of each kind of work, and each kind begins with XCD 0.
    const int id = blockIdx.x, after = id - up_to_xcds(args.senders);
    if (id < args.senders) {
        const int order = xcd_contiguous<XCDS>(id, args.senders);
        if (args.merged) scatter_tile<T>(args, order, lds);
        else send_tile<T>(args, order, lds);
    } else if (after >= 0) {
        if (args.merged) sum_tile<T>(args, after);
        else finish_tile<T, typename OwnTile<T>::type>(args, xcd_contiguous<XCDS>(after, args.finishers), lds);
    }
}

// What a call gives: addresses; N and K are multiples of 8, and all addresses of 16. block_m, block_n: of one of the tiles
// that with_gemm_tile() offers.
inline GemmRsArgs gemm_rs_args(int64_t a, int64_t w, int64_t bias, int64_t out, int64_t partial, int64_t arrived,
                               int64_t table, int64_t slots, int64_t alarm, int64_t timeout_ticks, int rows, int n,
                               int k, int rank, int ranks, int epoch, int block_m, int block_n, int split_k,
                               int group_rows, bool merged) {
    GemmRsArgs args = {};
    args.a = reinterpret_cast<const unsigned short*>(a);
    args.w = reinterpret_cast<const unsigned short*>(w);
    args.bias = reinterpret_cast<const unsigned short*>(bias);
    args.out = reinterpret_cast<unsigned short*>(out);
    args.partial = reinterpret_cast<float*>(partial);
    args.arrived = reinterpret_cast<u32*>(arrived);
    args.table = reinterpret_cast<const long long*>(table);
    args.slots = slots;
    args.patience = {alarm, timeout_ticks};
    args.rows = rows, args.n = n, args.k = k;
    args.rank = rank, args.ranks = ranks, args.epoch = epoch;
    args.merged = merged;
    args.row_tiles = ((merged ? ranks : 1) * rows + block_m - 1) / block_m;
    args.column_tiles = (n + block_n - 1) / block_n;
    args.split_k = split_k, args.group_rows = group_rows, args.tile_elements = block_m * block_n;
    const int places = args.row_tiles * args.column_tiles * split_k;
    args.senders = merged ? places : (ranks - 1) * places;
    return args;
}

template <class T>
int finishers(const GemmRsArgs& args) {
    using Own = typename OwnTile<T>::type;
    const int own_row_tiles = args.merged ? (args.rows - 1) / T::BM + 2 : (args.rows + Own::BM - 1) / Own::BM;
    return own_row_tiles * args.column_tiles * (args.merged ? 1 : args.split_k);
}

template <class T>
void launch_gemm_rs(GemmRsArgs args) {
    args.finishers = finishers<T>(args);
    launch_workgroups<T>(gemm_rs_kernel<T>, up_to_xcds(args.senders) + args.finishers, args);
}

// What went wrong. launched: whether with_gemm_tile() had that tile.
inline void check_launch(bool launched, int block_m, int block_n) {
    if (!launched)
        throw std::runtime_error("gemm_rs: no tile of " + std::to_string(block_m) + " x " + std::to_string(block_n) +
                                 " is compiled");
    const hipError_t error = hipGetLastError();
    if (error != hipSuccess) throw std::runtime_error(std::string("gemm_rs: ") + hipGetErrorString(error));
}
