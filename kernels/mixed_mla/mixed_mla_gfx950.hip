// amd-mixed-mla on gfx950: decode attention of 16 heads on one latent cache, in fp8 or mxfp4, whose tokens are divided
// among workgroups ("splits") and their waves.
//
// A wave needs nobody until it has seen all of its tokens: it brings 32 of them at a time to its own part of LDS, ahead of
// their use, takes them as rows of K and, by transposing reads of the same bytes, as columns of V, and keeps the sum of all
// 512 columns for all heads in registers. Then the waves of a workgroup add up, and the splits of a query: in the
// workgroup that comes last, or, where there are many, in a second launch. docs/kernels/mixed_mla.md has the layouts.
#include <hip/hip_runtime.h>

#include <stdexcept>
#include <string>

#include "mixed_mla_tiles_gfx950.h"

// Means of a split, columns of two tiles; Cache::Partial holds them without the cache's scale.
template <class Cache>
using Four = typename Cache::Partial __attribute__((ext_vector_type(4)));
template <class Cache>
struct Eight {
    Four<Cache> half[2];
};

// The splits of a query, added in their order, for PAIRS times 32 columns: of both halves a lane has the four from
// 4 * (lane / 16) on, of head lane % 16. Loads of BATCH splits are under way together.
template <class Cache, int PAIRS, int BATCH>
__device__ inline void merge_splits(const MlaArgs& args, u32 query, u32 first_pair, u32 lane) {
    constexpr u32 SPLIT_BYTES = SUMS / 2 * WAVE * 16;
    const u32 splits = args.splits, head = lane % HEADS;
    const float kv_scale = Cache::HAS_SCALE ? *scalar(static_cast<const float*>(args.kv_scale)) : 1.0f;
    const Buffer weights =
        make_buffer(args.weights + static_cast<size_t>(query) * splits * HEADS, splits * HEADS * sizeof(f32x2));
    const Buffer partial =
        make_buffer(args.partial + static_cast<size_t>(query) * splits * (SPLIT_BYTES / 2), splits * SPLIT_BYTES);
    float largest = -INFINITY, total = 0.0f;
    f32x4 sum[PAIRS][2] = {};
    for (u32 first = 0; first < splits; first += BATCH) {
        f32x2 weight[BATCH];
        u32x4 part[BATCH][PAIRS];
#pragma unroll
        for (u32 i = 0; i < BATCH; ++i) {
            weight[i] = __builtin_bit_cast(
                f32x2, __builtin_amdgcn_raw_buffer_load_b64(weights, ((first + i) * HEADS + head) * 8, 0, CACHE_AGENT));
#pragma unroll
            for (u32 pair = 0; pair < PAIRS; ++pair)
                part[i][pair] = __builtin_amdgcn_raw_buffer_load_b128(
                    partial, (first + i) * SPLIT_BYTES + ((first_pair + pair) * WAVE + lane) * 16, 0, CACHE_AGENT);
        }
        __builtin_amdgcn_sched_barrier(0);
        const float before = largest;
#pragma unroll
        for (u32 i = 0; i < BATCH; ++i) {
            if (first + i >= splits) weight[i][0] = -INFINITY;  // past the buffer, from where zeros come
            largest = fmaxf(largest, weight[i][0]);
        }
        const float shrink = before == -INFINITY ? 0.0f : __builtin_amdgcn_exp2f(before - largest);
        total *= shrink;
#pragma unroll
        for (u32 pair = 0; pair < PAIRS; ++pair) sum[pair][0] *= shrink, sum[pair][1] *= shrink;
#pragma unroll
        for (u32 i = 0; i < BATCH; ++i) {
            const float share =
                weight[i][0] == -INFINITY ? 0.0f : weight[i][1] * __builtin_amdgcn_exp2f(weight[i][0] - largest);
            total += share;
#pragma unroll
            for (u32 pair = 0; pair < PAIRS; ++pair)
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    const Eight<Cache> eight = __builtin_bit_cast(Eight<Cache>, part[i][pair]);
                    sum[pair][half] += __builtin_convertvector(eight.half[half], f32x4) * share;
                }
        }
    }
    const float scale = total == 0.0f ? 0.0f : kv_scale / total;
#pragma unroll
    for (u32 i = 0; i < 2 * PAIRS; ++i) {
        const f32x4 four = sum[i / 2][i % 2] * scale;
        const size_t at =
            (static_cast<size_t>(query) * HEADS + head) * LATENT + (2 * first_pair + i) * 16 + lane / HEADS * 4;
        *reinterpret_cast<u32x2*>(args.out + at) = {pack_bf16(four[0], four[1]), pack_bf16(four[2], four[3])};
    }
}

// Arguments are those of MlaArgs: the 14 words up to `score_scale` are in registers before a wave starts (preload_arguments),
// which those of a struct are not. The merge's all are.
template <class Cache>
__global__ __launch_bounds__(THREADS, 1) void mla_decode_kernel(const unsigned short* q_, const unsigned char* kv,
                                                                const void* kv_scale_, const int* qo_indptr,
                                                                const int* kv_indptr, unsigned short* out, int splits,
                                                                float score_scale, unsigned short* partial_,
                                                                f32x2* weights_, u32* arrived, int merges) {
    const MlaArgs args = {q_,       kv,       kv_scale_, qo_indptr, kv_indptr,   out,
                          partial_, weights_, arrived,   splits,    score_scale, merges != 0};
    constexpr int AHEAD = Cache::BUFFERS - 1, FREE_AT = AHEAD * Cache::TILE_BYTES;  // where no first tile goes
    constexpr int BYTES =
        larger(larger(Cache::BUFFERS * Cache::TILE_BYTES, FREE_AT + Query::SHARED_BYTES), SUMS * WAVE * 16);
    __shared__ __attribute__((aligned(128))) unsigned char lds[WAVES][BYTES];
    __shared__ f32x2 of_waves[WAVES][HEADS];
    __shared__ u32 arrived_before;
    __shared__ float largest_q[WAVES][HEADS];
    const u32 split = blockIdx.x, request = blockIdx.y;
    // What arguments point to is fetched at once, with the arguments that are not in registers yet, not one after the other
    // where each is needed.
    const auto queries = scalar(args.qo_indptr) + request, tokens = scalar(args.kv_indptr) + request;
    const u32 query = queries[0] + blockIdx.z, after = queries[1];
    const int first_token = tokens[0], end_token = tokens[1];
    const float kv_scale = Cache::HAS_SCALE ? *scalar(static_cast<const float*>(args.kv_scale)) : 1.0f;
    asm volatile("" ::"s"(query), "s"(after), "s"(first_token), "s"(end_token), "s"(kv_scale), "s"(args.partial),
                 "s"(args.weights), "s"(args.arrived), "s"(merges));
    if (query >= after) return;
    // A query sees what was there before the next one of its request.
    const u32 seen = max(end_token - first_token - static_cast<int>(after - 1 - query), 0);
    const u32 tiles = (seen + TILE - 1) / TILE;
    const u32 first = split * tiles / args.splits, last = (split + 1) * tiles / args.splits;
    const u32 lane = threadIdx.x % WAVE, wave = __builtin_amdgcn_readfirstlane(threadIdx.x / WAVE);
    const u32 group = lane / 16;

    const u32 own_lds = __builtin_amdgcn_readfirstlane(lds_address(lds[wave]));
    Query::load(args.q + static_cast<size_t>(query) * HEADS * WIDTH, lane, wave, own_lds + FREE_AT);
    const Cache cache(args, first_token, kv_scale, lane);
#pragma unroll
    for (u32 i = 0; i < AHEAD; ++i)
        if (first + wave + i * WAVES < last)
            cache.load(first + wave + i * WAVES, seen, own_lds + i * Cache::TILE_BYTES);
    // For q, while the tiles are on their way.
    if (first + wave + (AHEAD - 1) * WAVES < last) wait_for_loads<AHEAD * Cache::LOADS>();
    else if (AHEAD > 1 && first + wave < last) wait_for_loads<Cache::LOADS>();
    else wait_for_loads<0>();
    const Query q(lane, wave, [&](int i) { return reinterpret_cast<u32x4*>(lds[i] + FREE_AT); }, largest_q);
    const float to_log2 = args.score_scale * cache.scale / q.scale;

    float largest = -INFINITY, total = 0.0f;
    // All of a wave's sums go to its own part of LDS, where its tiles were; then a wave adds a quarter of all waves'.
    f32x4* own = reinterpret_cast<f32x4*>(lds[wave]);
    if (first + wave >= last) {
#pragma unroll 1  // else the compiler makes zeros of all sums for these stores, ahead of the other branch as well
        for (int i = 0; i < SUMS; ++i) own[i * WAVE + lane] = f32x4(0.0f);
    } else {
        f32x4 sum[SUMS] = {};
        u32 tile = first + wave, buffer = 0;
        do {
            if (tile + AHEAD * WAVES < last) {
                const u32 to = buffer == 0 ? AHEAD : buffer - 1;
                cache.load(tile + AHEAD * WAVES, seen, own_lds + to * Cache::TILE_BYTES);
                wait_for_loads<AHEAD * Cache::LOADS>();
            } else if (AHEAD > 1 && tile + WAVES < last) {
                wait_for_loads<Cache::LOADS>();
            } else {
                wait_for_loads<0>();
            }
            static_assert(AHEAD == 1 || AHEAD == 2);
            const unsigned char* kv_tile = lds[wave] + buffer * Cache::TILE_BYTES;
            const u32 left = seen - tile * TILE;
            // This lane's scores: tokens 16 * half + 4 * group + 0 ... 3 of head lane % 16.
            f32x4 score[2];
            cache.scores(kv_tile, q, left, score);
            float largest_here = -INFINITY;
#pragma unroll
            for (u32 half = 0; half < 2; ++half)
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    const bool inside = half * 16 + group * 4 + i < left;
                    score[half][i] = inside ? score[half][i] * to_log2 : -INFINITY;
                    largest_here = fmaxf(largest_here, score[half][i]);
                }
            largest_here = max_of_head(largest_here);
            if (__any(largest_here > largest)) {
                const float before = largest;
                largest = fmaxf(largest, largest_here);
                if (tile >= first + WAVES) {  // before that there is nothing to shrink
                    const float shrink = before == -INFINITY ? 0.0f : __builtin_amdgcn_exp2f(before - largest);
                    total *= shrink;
#pragma unroll
                    for (int i = 0; i < SUMS; ++i) sum[i] *= shrink;
                }
            }
            f32x4 p[2];
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    p[half][i] = __builtin_amdgcn_exp2f(score[half][i] - largest);
                    total += p[half][i];
                }
            cache.add_values(kv_tile, p, left, sum);
            tile += WAVES, buffer = buffer == AHEAD ? 0 : buffer + 1;
        } while (tile < last);
#pragma unroll
        for (int i = 0; i < SUMS; ++i) own[i * WAVE + lane] = sum[i];
    }
    total = sum_of_head(total);
    if (lane < HEADS) of_waves[wave][lane] = {largest, total};
    __syncthreads();
    float shares[WAVES], all_largest = -INFINITY, all_total = 0.0f;
#pragma unroll
    for (int i = 0; i < WAVES; ++i) all_largest = fmaxf(all_largest, of_waves[i][lane % HEADS][0]);
#pragma unroll
    for (int i = 0; i < WAVES; ++i) {
        const f32x2 of_wave = of_waves[i][lane % HEADS];
        shares[i] = of_wave[0] == -INFINITY ? 0.0f : __builtin_amdgcn_exp2f(of_wave[0] - all_largest);
        all_total += of_wave[1] * shares[i];
        shares[i] /= Cache::P_SCALE;
    }
    constexpr int OWN = SUMS / WAVES;
    f32x4 added[OWN];
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        added[i] = f32x4(0.0f);
#pragma unroll
        for (int other = 0; other < WAVES; ++other)
            added[i] += reinterpret_cast<const f32x4*>(lds[other])[(wave * OWN + i) * WAVE + lane] * shares[other];
    }

    const float to_mean = all_total == 0.0f ? 0.0f : 1.0f / all_total;
    if (args.splits == 1) {
        const float scale = to_mean * cache.scale;
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const f32x4 four = added[i] * scale;
            const size_t at =
                (static_cast<size_t>(query) * HEADS + lane % HEADS) * LATENT + (wave * OWN + i) * 16 + group * 4;
            *reinterpret_cast<u32x2*>(args.out + at) = {pack_bf16(four[0], four[1]), pack_bf16(four[2], four[3])};
        }
        return;
    }
    // Past the XCD's L2, as are the loads of merge_splits(): the wait is all the release that they need.
    const size_t part = static_cast<size_t>(query) * args.splits + split;
    const Buffer partial = make_buffer(args.partial + part * SUMS * WAVE * 4, SUMS * WAVE * 8);
#pragma unroll
    for (int i = 0; i < OWN; i += 2) {
        const Eight<Cache> eight = {__builtin_convertvector(added[i] * to_mean, Four<Cache>),
                                    __builtin_convertvector(added[i + 1] * to_mean, Four<Cache>)};
        __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(u32x4, eight), partial,
                                               ((wave * OWN + i) / 2 * WAVE + lane) * 16, 0, CACHE_AGENT);
    }
    if (threadIdx.x < HEADS) {
        const Buffer weights = make_buffer(args.weights + part * HEADS, HEADS * sizeof(f32x2));
        __builtin_amdgcn_raw_buffer_store_b64(__builtin_bit_cast(u32x2, f32x2{all_largest, all_total}), weights,
                                              lane * 8, 0, CACHE_AGENT);
    }
    if (!args.merges) return;
    asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0)
        arrived_before = __hip_atomic_fetch_add(args.arrived + query, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __syncthreads();
    if (__builtin_amdgcn_readfirstlane(arrived_before) != static_cast<u32>(args.splits - 1)) return;
    if (threadIdx.x == 0) __hip_atomic_store(args.arrived + query, 0u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    for (u32 i = 0; i < OWN; i += 4) merge_splits<Cache, 2, 8>(args, query, (wave * OWN + i) / 2, lane);
}

// A wave a workgroup: a compute unit reads as much at a time as few of them ask for.
template <class Cache>
__global__ __launch_bounds__(WAVE) void mla_merge_kernel(const void* kv_scale, unsigned short* out,
                                                         unsigned short* partial, f32x2* weights, int splits) {
    MlaArgs args = {};
    args.kv_scale = kv_scale, args.out = out, args.partial = partial, args.weights = weights, args.splits = splits;
    merge_splits<Cache, 1, 16>(args, blockIdx.y, blockIdx.x, threadIdx.x);
}

// Addresses as in MlaArgs; fp4: of which kind kv is. Up to most_merged splits are added by the workgroup that comes last, more by a second launch.
void mixed_mla(int64_t q, int64_t kv, int64_t kv_scale, int64_t qo_indptr, int64_t kv_indptr, int64_t out,
               int64_t partial, int64_t weights, int64_t arrived, int batch, int queries_each, int queries, int splits,
               int most_merged, bool fp4, double score_scale) {
    const MlaArgs args = {reinterpret_cast<const unsigned short*>(q),
                          reinterpret_cast<const unsigned char*>(kv),
                          reinterpret_cast<const void*>(kv_scale),
                          reinterpret_cast<const int*>(qo_indptr),
                          reinterpret_cast<const int*>(kv_indptr),
                          reinterpret_cast<unsigned short*>(out),
                          reinterpret_cast<unsigned short*>(partial),
                          reinterpret_cast<f32x2*>(weights),
                          reinterpret_cast<u32*>(arrived),
                          splits,
                          static_cast<float>(score_scale * 1.4426950408889634),
                          splits <= most_merged};
    auto launch = [&]<class Cache>() {
        mla_decode_kernel<Cache><<<dim3(splits, batch, queries_each), THREADS>>>(
            args.q, args.kv, args.kv_scale, args.qo_indptr, args.kv_indptr, args.out, splits, args.score_scale,
            args.partial, args.weights, args.arrived, args.merges);
        if (splits > 1 && !args.merges)
            mla_merge_kernel<Cache>
                <<<dim3(SUMS / 2, queries), WAVE>>>(args.kv_scale, args.out, args.partial, args.weights, splits);
    };
    if (fp4) launch.operator()<Fp4Cache>();
    else launch.operator()<Fp8Cache>();
    const hipError_t error = hipGetLastError();
    if (error != hipSuccess) throw std::runtime_error(std::string("mixed_mla: ") + hipGetErrorString(error));
}
