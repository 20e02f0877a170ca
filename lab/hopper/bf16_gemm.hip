// The same on NVIDIA's Hopper GPUs, and by tiles_in_turn(): what lab/bf16_gemm.py runs.
#include <hip/hip_runtime.h>

#include <cstdint>
#include <stdexcept>

#include "gemm_rs/bf16_in_turn.h"
#include "../../tests/support/bf16_gemm_kernel.h"

// By tiles_in_turn().
template <class T>
struct GemmJob {
    const GemmArgs& args;
    const Place place;

    struct Work {
        int row, column, tile, slice;
    };

    __device__ Work work(int number) const {
        const int tile_rows = (args.m + T::BM - 1) / T::BM, tile_columns = (args.n + T::BN - 1) / T::BN;
        const int tile = number / args.split_k, slice = number % args.split_k;
        const TilePlace at = grouped_rows(tile, tile_rows, tile_columns, args.group_rows);
        return {at.row * T::BM, at.column * T::BN, tile, slice};
    }
    __device__ TileInputs inputs(int number) const {
        const Work work = this->work(number);
        return tile_inputs<T>(args.a, args.w, args.m, args.n, args.k, work.row, work.column, work.slice, args.split_k);
    }
    __device__ void start(typename T::Wave::Sum& sum, int number) const {
        const Work work = this->work(number);
        T::Wave::zero(sum);
        if (args.bias && work.slice == 0) T::Wave::set_bias(sum, args.bias, args.n, work.column, place.lane);
    }
    __device__ void send_rest(const unsigned char*) const {}
    __device__ void settle() const {}
    __device__ void finish(typename T::Wave::Sum& sum, int number, const Room& room) const {
        const Work work = this->work(number);
        if (args.split_k > 1) {
            float* partial = args.partial + static_cast<size_t>(work.tile) * args.split_k * T::BM * T::BN;
            if (!add_slices<T>(sum, partial, args.arrived + work.tile, work.slice, args.split_k, room.of_all, place))
                return;
        }
        T::Wave::rows(sum, room.own, place.lane, [&](int r, int c, u32x4 eight) {
            r += work.row + place.wave * T::WM;
            c += work.column;
            if (r < args.m && c < args.n)
                *reinterpret_cast<u32x4*>(args.c + static_cast<size_t>(r) * args.n + c) = eight;
        });
    }
};

struct InTurnArgs {
    GemmArgs gemm;
    u32* tickets;  // zero between launches
};

template <class T>
__global__ __launch_bounds__(T::THREADS, T::RESIDENCY) void gemm_in_turn_kernel(const InTurnArgs in_turn) {
    unsigned char* lds = workgroup_lds<InTurn<T>::LDS_BYTES>();
    const GemmArgs& args = in_turn.gemm;
    GemmJob<T> job{args};
    const int tiles = (args.m + T::BM - 1) / T::BM * ((args.n + T::BN - 1) / T::BN);
    tiles_in_turn<T>(job, tiles * args.split_k, gridDim.x, in_turn.tickets, lds);
}

// Addresses, sizes as in GemmArgs. block_m, block_n: of one of the tiles that with_gemm_tile() offers.
void gemm(int64_t a, int64_t w, int64_t bias, int64_t c, int64_t partial, int64_t arrived, int64_t tickets, int m,
          int n, int k, int block_m, int block_n, int split_k, int group_rows, bool in_turn) {
    const GemmArgs args = {reinterpret_cast<const unsigned short*>(a),
                           reinterpret_cast<const unsigned short*>(w),
                           reinterpret_cast<const unsigned short*>(bias),
                           reinterpret_cast<unsigned short*>(c),
                           reinterpret_cast<float*>(partial),
                           reinterpret_cast<u32*>(arrived),
                           m,
                           n,
                           k,
                           split_k,
                           group_rows};
    const int tiles = (m + block_m - 1) / block_m * ((n + block_n - 1) / block_n);
    const bool found = with_gemm_tile(block_m, block_n, [&](auto tile) {
        using T = decltype(tile);
        if constexpr (TAKES_TURNS<T>) {
            const InTurnArgs of_turn = {args, reinterpret_cast<u32*>(tickets)};
            if (in_turn)
                return launch_workgroups<InTurn<T>>(gemm_in_turn_kernel<T>, groups_in_turn(tiles * split_k), of_turn);
        }
        launch_workgroups<T>(gemm_kernel<T>, tiles * split_k, args);
    });
    if (!found || hipGetLastError() != hipSuccess) throw std::runtime_error("gemm: no such tile, or no launch");
}
