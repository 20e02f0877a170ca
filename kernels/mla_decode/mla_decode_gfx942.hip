// amd-mla-decode on gfx942: the six launches of a decoding step. docs/kernels/mla_decode_hip.md says how they work.
#include <hip/hip_runtime.h>

#include <stdexcept>
#include <string>

#include "mla_projections_gfx942.h"

template <class T, class Args>
void launch(void (*kernel)(Args), int groups, int threads, const T& args) {
    kernel<<<dim3(groups), dim3(threads)>>>(args);
    if (const hipError_t error = hipGetLastError())
        throw std::runtime_error(std::string("amd-mla-decode, launch: ") + hipGetErrorString(error));
}

template <class T>
T* pointer(int64_t address) {
    return reinterpret_cast<T*>(address);
}

// x ... weight: addresses of what MlaArgs and AttentionArgs say. workgroups: of the attention, no more than it has tiles.
void mla_decode(int64_t x, int64_t q_down, int64_t q_up, int64_t kv_down, int64_t kv_up, int64_t w_o, int64_t table,
                int64_t cache, int64_t y, int64_t q_latent, int64_t q_nope, int64_t q, int64_t o, int64_t values,
                int64_t slices, int64_t slices_arrived, int64_t partial, int64_t weight, int64_t arrived, int batch,
                int length, int capacity, int dim, int rank, int split_down, int split_out, int workgroups,
                double scale) {
    using Halves = unsigned short;
    const AttentionArgs attention = {pointer<Halves>(q),
                                     pointer<Halves>(cache),
                                     pointer<Halves>(table),
                                     pointer<Halves>(o),
                                     pointer<u32x4>(partial),
                                     pointer<float>(weight),
                                     pointer<u32>(arrived),
                                     batch,
                                     length,
                                     capacity,
                                     static_cast<float>(scale)};
    const MlaArgs args = {pointer<Halves>(x),
                          pointer<Halves>(q_down),
                          pointer<Halves>(q_up),
                          pointer<Halves>(kv_down),
                          pointer<Halves>(kv_up),
                          pointer<Halves>(w_o),
                          pointer<Halves>(cache),
                          pointer<Halves>(q_latent),
                          pointer<Halves>(q_nope),
                          pointer<Halves>(values),
                          pointer<Halves>(y),
                          pointer<float>(slices),
                          pointer<u32>(slices_arrived),
                          dim,
                          rank,
                          split_down,
                          split_out,
                          attention};
    using T = ProjectionTile;
    const int row_tiles = over(batch, T::BM);
    launch(down_kernel<T>, row_tiles * (over(rank, T::BN) + over(WIDTH, T::BN)) * split_down, T::THREADS, args);
    launch(query_kernel<T>, row_tiles * HEADS * (QUERY / T::BN), T::THREADS, args);
    launch(absorb_kernel<AbsorbTile>, row_tiles * HEADS * (LATENT / AbsorbTile::BN), AbsorbTile::THREADS, args);
    launch(attention_kernel, workgroups, ATTENTION_THREADS, attention);
    launch(value_kernel<T>, row_tiles * HEADS * (VALUE / T::BN), T::THREADS, args);
    launch(out_kernel<T>, row_tiles * over(dim, T::BN) * split_out, T::THREADS, args);
}
