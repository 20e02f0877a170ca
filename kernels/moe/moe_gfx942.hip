// amd-mixture-of-experts on gfx942: the five launches of a call. docs/kernels/moe_hip.md says how they work.
#include <hip/hip_runtime.h>

#include <stdexcept>
#include <string>

#include "moe_gemm_gfx942.h"

template <class... Args>
void launch(void (*kernel)(Args...), dim3 grid, int threads, const Args&... args) {
    kernel<<<grid, dim3(threads)>>>(args...);
    if (const hipError_t error = hipGetLastError())
        throw std::runtime_error(std::string("amd-mixture-of-experts, launch: ") + hipGetErrorString(error));
}

template <class T>
T* pointer(int64_t address) {
    return reinterpret_cast<T*>(address);
}

// x ... y: addresses of what MoeArgs says. most_tiles: no expert's rows make more of tile_rows.
void moe(int64_t x, int64_t router, int64_t matrices, int64_t group_rank, int64_t score, int64_t count,
         int64_t row_choice, int64_t tiles, int64_t h, int64_t out, int64_t y, int n_tokens, int top_k, int n_routed,
         int n_shared, int d_hidden, int d_expert, int tile_rows, int group_rows, int most_tiles) {
    using Halves = unsigned short;
    const MoeArgs args = {pointer<Halves>(x),
                          pointer<Halves>(router),
                          pointer<long long>(matrices),
                          pointer<u32>(group_rank),
                          pointer<float>(score),
                          pointer<int>(count),
                          pointer<int>(row_choice),
                          pointer<int4>(tiles),
                          pointer<Halves>(h),
                          pointer<Halves>(out),
                          pointer<Halves>(y),
                          n_tokens,
                          top_k,
                          n_routed,
                          n_shared,
                          d_hidden,
                          d_expert,
                          tile_rows,
                          group_rows};
    const auto over = [](int n, int each) { return static_cast<u32>((n + each - 1) / each); };
    launch(n_routed <= 32 ? router_kernel<2> : router_kernel<4>, dim3(args.n_blocks()), ROUTER_THREADS, args);
    launch(sort_kernel, dim3(over(args.n_blocks(), SORT_BLOCKS)), ROUTER_THREADS, args);
    launch(gate_up_kernel, dim3(most_tiles * over(d_expert, TILE_COLUMNS / 2)), GEMM_THREADS, args);
    launch(down_kernel, dim3(most_tiles * over(d_hidden, TILE_COLUMNS)), GEMM_THREADS, args);
    launch(combine_kernel, dim3(n_tokens, over(d_hidden, COMBINE_THREADS * 8)), COMBINE_THREADS, args);
}
