// amd-gemm-rs on NVIDIA's Hopper GPUs; gemm_rs_kernel.h says how. Large tiles travel to their owner, by bulk copies, while
// the workgroup multiplies the next one, and are flagged after that: a slot then holds [tile], each in the order of
// registers.
#include <hip/hip_runtime.h>

#include "bf16_in_turn.h"
#include "../common/peer_signals.h"
#include "../../../kernels/gemm_rs/gemm_rs_kernel.h"

template <class T>
struct GemmRsJob {
    const GemmRsArgs& args;
    const Place place;
    int under_way = -1;  // number of the tile that is being sent

    __device__ bool is_own(int number) const { return number >= args.senders; }
    __device__ Work work(int number) const {
        return is_own(number) ? own_tile<T>(args, number - args.senders) : sent_tile<T>(args, number).work;
    }
    __device__ TileInputs inputs(int number) const { return inputs_of<T>(args, work(number)); }
    __device__ void start(typename T::Wave::Sum& sum, int number) const {
        start_sum<T>(sum, args, work(number), place);
    }
    __device__ void send_rest(const unsigned char* own_room) const {
        if (under_way >= 0 && place.wave != 0) send(under_way, own_room);
    }
    __device__ void settle() {
        if (under_way < 0) return;
        result_written();
        const Sent sent = sent_tile<T>(args, under_way);
        flag_tile(args, sent.owner, sent.owner, sent.work.row / T::BM, sent.work.column / T::BN);
        under_way = -1;
    }
    __device__ void finish(typename T::Wave::Sum& sum, int number, const Room& room) {
        const Work work = this->work(number);
        if (!all_slices<T>(sum, args, work, room.of_all, place)) return;
        if (is_own(number)) return add_peers(sum, work, room.own);
        SentTile<T>::put(sum, room.own, place);
        if (place.wave == 0) send(number, room.own);
        under_way = number;
    }

 private:
    __device__ void send(int number, const unsigned char* result) const {
        const Sent sent = sent_tile<T>(args, number);
        SentTile<T>::send(args.table[sent.owner] + slot(args.rank, sent.work), result, place);
    }
    // Where a rank's tile lies in the owner's region: tile by tile, whatever is left of them at the edges.
    __device__ long long slot(int source, const Work& work) const {
        const long long tile = work.row / T::BM * args.column_tiles + work.column / T::BN;
        return args.slots + (source * args.row_tiles * args.column_tiles + tile) * SentTile<T>::BYTES;
    }
    __device__ void add_peers(typename T::Wave::Sum& sum, const Work& work, unsigned char* turn) {
        wait_for_tile(args, work.row / T::BM, work.column / T::BN, false);
        T::Wave::round(sum);  // as the peers' are
        for (int source = 0; source < args.ranks; ++source) {
            if (source == args.rank) continue;
            SentTile<T>::add(sum, reinterpret_cast<const void*>(args.table[args.rank] + slot(source, work)), place);
        }
        T::Wave::rows(sum, turn, place.lane, [&](int r, int c, u32x4 eight) {
            r += work.row + wave_row<T>(place);
            c += work.column;
            if (r < args.rows && c < args.n)
                *reinterpret_cast<u32x4*>(args.out + static_cast<u32>(r) * args.n + c) = eight;
        });
    }
};

// An own tile waits for the peers' only when the tile that this workgroup sent last has its flag.
struct InTurnArgs {
    GemmRsArgs gemm_rs;
    u32* tickets;  // zero between launches
};

template <class T>
__global__ __launch_bounds__(T::THREADS, T::RESIDENCY) void gemm_rs_in_turn_kernel(const InTurnArgs in_turn) {
    unsigned char* lds = workgroup_lds<InTurn<T>::LDS_BYTES>();
    const GemmRsArgs& args = in_turn.gemm_rs;
    GemmRsJob<T> job{args};
    tiles_in_turn<T>(job, args.senders + args.finishers, gridDim.x, in_turn.tickets, lds);
}

// tickets: address of a counter, zero between launches, where workgroups take tiles in turn; or 0. False where there is no
// such kernel for the tile.
template <class T>
bool launch(GemmRsArgs args, int64_t tickets) {
    if (!tickets) return launch_gemm_rs<T>(args), true;
    if constexpr (TAKES_TURNS<T>) {
        args.finishers = finishers<T>(args);
        const InTurnArgs in_turn = {args, reinterpret_cast<u32*>(tickets)};
        launch_workgroups<InTurn<T>>(gemm_rs_in_turn_kernel<T>, groups_in_turn(args.senders + args.finishers), in_turn);
        return true;
    }
    return false;
}

void gemm_rs(int64_t a, int64_t w, int64_t bias, int64_t out, int64_t partial, int64_t arrived, int64_t table,
             int64_t slots, int64_t alarm, int64_t timeout_ticks, int rows, int n, int k, int rank, int ranks,
             int epoch, int block_m, int block_n, int split_k, int group_rows, bool merged, int64_t tickets) {
    const GemmRsArgs args = gemm_rs_args(a, w, bias, out, partial, arrived, table, slots, alarm, timeout_ticks, rows, n,
                                         k, rank, ranks, epoch, block_m, block_n, split_k, group_rows, merged);
    bool launched = false;
    with_gemm_tile(block_m, block_n, [&](auto tile) { launched = launch<decltype(tile)>(args, tickets); });
    check_launch(launched, block_m, block_n);
}
