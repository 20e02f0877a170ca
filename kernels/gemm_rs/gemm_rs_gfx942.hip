// amd-gemm-rs on gfx942; gemm_rs_kernel.h says how.
#include <hip/hip_runtime.h>

#include "bf16_gemm_gfx942.h"
#include "peer_signals_gfx942.h"
#include "gemm_rs_kernel.h"

template <>
struct OwnTile<GemmTile<256, 256, 2, 4, 1>> {
    using type = GemmTile<128, 256, 2, 4, 1>;
};

void gemm_rs(int64_t a, int64_t w, int64_t bias, int64_t out, int64_t partial, int64_t arrived, int64_t table,
             int64_t slots, int64_t alarm, int64_t timeout_ticks, int rows, int n, int k, int rank, int ranks,
             int epoch, int block_m, int block_n, int split_k, int group_rows, bool merged) {
    const GemmRsArgs args = gemm_rs_args(a, w, bias, out, partial, arrived, table, slots, alarm, timeout_ticks, rows, n,
                                         k, rank, ranks, epoch, block_m, block_n, split_k, group_rows, merged);
    const bool launched = with_gemm_tile(block_m, block_n, [&](auto tile) { launch_gemm_rs<decltype(tile)>(args); });
    check_launch(launched, block_m, block_n);
}
