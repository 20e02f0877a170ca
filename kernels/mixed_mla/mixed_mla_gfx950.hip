// amd-mixed-mla on gfx950: decode attention of 16 heads on one latent cache in fp8, whose tokens are divided among
// workgroups ("splits") and their waves.
//
// A wave needs nobody until it has seen all of its tokens: it brings 32 of them at a time to its own part of LDS, one
// tile ahead, takes them as rows of K and, by transposing reads of the same bytes, as columns of V, and keeps the sum of
// all 512 columns for all heads in registers. Then the waves of a workgroup add up, and the splits of a query: in the
// workgroup that comes last, or, where there are many, in a second launch. docs/kernels/mixed_mla.md has the layouts.
#include <hip/hip_runtime.h>

#include <stdexcept>
#include <string>

#include "cdna_gpu.h"

typedef __bf16 bf16x2 __attribute__((ext_vector_type(2)));

constexpr int HEADS = 16, LATENT = 512, WIDTH = 576;  // WIDTH: 64 more columns of K, which rotate
constexpr int WAVES = 4, THREADS = WAVES * WAVE;
constexpr int TILE = 32;                         // tokens that a wave takes at a time
constexpr int TILE_BYTES = TILE * WIDTH;         // in fp8
constexpr int LOADS = TILE_BYTES / (16 * WAVE);  // of 16 bytes a lane
constexpr int CHUNKS = WIDTH / 16;               // of 16 bytes, of a token
constexpr int PIECES = WIDTH / 64;               // of 64 columns: 16 for each lane of a row
constexpr int SUMS = LATENT / 16;                // 16 columns by 16 heads each
constexpr float P_SCALE = 256.0f;                // a probability of 1 in fp8, whose largest value is 448
constexpr float LARGEST_Q = 256.0f;              // likewise
constexpr int MERGE_TILES = 4;                   // of a workgroup of the second launch

struct MlaArgs {
    const unsigned short* q;  // bf16 [queries][HEADS][WIDTH]
    const unsigned char* kv;  // fp8 e4m3fn [tokens][WIDTH]
    const float* kv_scale;    // what to multiply kv by
    const int* qo_indptr;     // [batch + 1]: a request's first query
    const int* kv_indptr;     // [batch + 1]: a request's first token
    unsigned short* out;      // bf16 [queries][HEADS][LATENT]
    float* partial;           // [queries][splits][SUMS][WAVE][4], unused where splits is 1
    f32x2* weights;           // [queries][splits][HEADS]: largest score, in log2, and the sum of probabilities
    u32* arrived;             // [queries], zero between launches
    int splits;
    float score_scale;  // of q * k, to log2
    bool merges;        // the last workgroup of a query adds its splits; or a second launch does
};

// Where 16-byte chunk c of a token of a tile lies: chunks change places within 64 bytes, so that the lanes that LDS serves
// together find theirs in different banks.
__device__ inline u32 turned(u32 token, u32 chunk) { return chunk ^ (token / 4 + token / 16 * 2) % 4; }

__device__ inline u32 pack_bf16(float low, float high) {
    return __builtin_bit_cast(u32, __builtin_convertvector(f32x2{low, high}, bf16x2));
}

// Four values as two numbers of fp8 each, whose sum they are but for 2^-8 of themselves.
__device__ inline void split_fp8(f32x4 x, u32& high, u32& low) {
    high = __builtin_amdgcn_cvt_pk_fp8_f32(x[0], x[1], 0, false);
    high = __builtin_amdgcn_cvt_pk_fp8_f32(x[2], x[3], high, true);
    auto front = __builtin_amdgcn_cvt_pk_f32_fp8(high, false), back = __builtin_amdgcn_cvt_pk_f32_fp8(high, true);
    low = __builtin_amdgcn_cvt_pk_fp8_f32(x[0] - front[0], x[1] - front[1], 0, false);
    low = __builtin_amdgcn_cvt_pk_fp8_f32(x[2] - back[0], x[3] - back[1], low, true);
}

__device__ inline long words(u32 low, u32 high) {
    return static_cast<long>(static_cast<unsigned long>(high) << 32 | low);
}

// Over the four lanes of a head.
__device__ inline float max_of_head(float x) {
    x = fmaxf(x, __shfl_xor(x, 16));
    return fmaxf(x, __shfl_xor(x, 32));
}
__device__ inline float sum_of_head(float x) {
    x += __shfl_xor(x, 16);
    return x + __shfl_xor(x, 32);
}

// Sends 16 bytes a lane from base + offset to lds + 16 * lane. In assembly, because the compiler would wait for all such
// loads at the next read of LDS, those of the tile after next included; wait_for_loads() is ours.
__device__ inline void load_to_lds(const void* base, u32 offset, u32 lds) {
    asm volatile("s_mov_b32 m0, %0\n\ts_nop 0\n\tglobal_load_lds_dwordx4 %1, %2" ::"s"(lds), "v"(offset), "s"(base)
                 : "m0", "memory");
}
template <int LEFT>
__device__ inline void wait_for_loads() {
    asm volatile("s_waitcnt vmcnt(%0)" ::"n"(LEFT) : "memory");
}

__device__ inline u32 lds_address(const void* p) {
    return static_cast<u32>(reinterpret_cast<size_t>((const __attribute__((address_space(3))) void*)p));
}

// One head's q in a lane's order: of every 64 columns the 16 from 16 * (lane / 16) on, each as two numbers of fp8.
struct Query {
    u32 high[PIECES][4], low[PIECES][4];
    float scale;  // a power of two; what high + low is more than q

    __device__ Query(const unsigned short* q, u32 lane) {
        u32x4 x[PIECES][2];
        float largest = 0.0f;
        const unsigned short* from = q + lane % HEADS * WIDTH + lane / HEADS * 16;
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                x[piece][half] = *reinterpret_cast<const u32x4*>(from + piece * 64 + half * 8);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    largest = fmaxf(largest, fabsf(value(x[piece][half], 2 * i)));
                    largest = fmaxf(largest, fabsf(value(x[piece][half], 2 * i + 1)));
                }
            }
        // 2^E is at most the largest value: times LARGEST_Q / 2 / 2^E it is below LARGEST_Q.
        const u32 exponent = __builtin_bit_cast(u32, max_of_head(largest)) >> 23;
        scale = __builtin_bit_cast(float, (min(max(261 - static_cast<int>(exponent), 1), 254)) << 23);
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const u32x4 from4 = x[piece][i / 2];
                f32x4 four;
#pragma unroll
                for (int j = 0; j < 4; ++j) four[j] = value(from4, i % 2 * 4 + j) * scale;
                split_fp8(four, high[piece][i], low[piece][i]);
            }
    }

    static __device__ float value(u32x4 x, int i) {
        return __builtin_bit_cast(float, i % 2 ? x[i / 2] & 0xffff0000u : x[i / 2] << 16);
    }
};

// The splits of a query, added: a lane's four columns from 16 * tile + 4 * (lane / 16) on, of head lane % 16.
__device__ inline void merge_splits(const MlaArgs& args, u32 query, u32 tile, u32 lane) {
    const u32 splits = args.splits, head = lane % HEADS;
    const Buffer weights =
        make_buffer(args.weights + static_cast<size_t>(query) * splits * HEADS, splits * HEADS * sizeof(f32x2));
    const Buffer partial =
        make_buffer(args.partial + static_cast<size_t>(query) * splits * SUMS * WAVE * 4, splits * SUMS * WAVE * 16);
    auto weight = [&](u32 split) {
        return __builtin_bit_cast(
            f32x2, __builtin_amdgcn_raw_buffer_load_b64(weights, (split * HEADS + head) * 8, 0, CACHE_AGENT));
    };
    float largest = -INFINITY, total = 0.0f;
#pragma unroll 8
    for (u32 split = 0; split < splits; ++split) largest = fmaxf(largest, weight(split)[0]);
    f32x4 sum = f32x4(0.0f);
#pragma unroll 8
    for (u32 split = 0; split < splits; ++split) {
        const f32x2 own = weight(split);
        const float share = own[0] == -INFINITY ? 0.0f : __builtin_amdgcn_exp2f(own[0] - largest);
        const f32x4 four = __builtin_bit_cast(
            f32x4,
            __builtin_amdgcn_raw_buffer_load_b128(partial, ((split * SUMS + tile) * WAVE + lane) * 16, 0, CACHE_AGENT));
        sum += four * share;
        total += own[1] * share;
    }
    sum *= total == 0.0f ? 0.0f : *args.kv_scale / (P_SCALE * total);
    const size_t at = (static_cast<size_t>(query) * HEADS + head) * LATENT + tile * 16 + lane / HEADS * 4;
    *reinterpret_cast<u32x2*>(args.out + at) = {pack_bf16(sum[0], sum[1]), pack_bf16(sum[2], sum[3])};
}

__global__ __launch_bounds__(THREADS, 1) void mla_decode_kernel(const MlaArgs args) {
    __shared__ __attribute__((aligned(128))) unsigned char lds[WAVES][2][TILE_BYTES];
    __shared__ f32x2 of_waves[WAVES][HEADS];
    __shared__ u32 arrived_before;
    const u32 split = blockIdx.x, request = blockIdx.y;
    const u32 query = args.qo_indptr[request] + blockIdx.z, after = args.qo_indptr[request + 1];
    if (query >= after) return;
    // A query sees what was there before the next one of its request.
    const int seen =
        max(args.kv_indptr[request + 1] - args.kv_indptr[request] - static_cast<int>(after - 1 - query), 0);
    const u32 tiles = (seen + TILE - 1) / TILE;
    const u32 first = split * tiles / args.splits, last = (split + 1) * tiles / args.splits;
    const u32 lane = threadIdx.x % WAVE, wave = __builtin_amdgcn_readfirstlane(threadIdx.x / WAVE);
    const u32 group = lane / 16;
    const unsigned char* kv = args.kv + static_cast<size_t>(args.kv_indptr[request]) * WIDTH;

    u32 load_token[LOADS], load_byte[LOADS];
#pragma unroll
    for (u32 i = 0; i < LOADS; ++i) {
        const u32 chunk = i * WAVE + lane;
        load_token[i] = chunk / CHUNKS;
        load_byte[i] = turned(load_token[i], chunk % CHUNKS) * 16;
    }
    // Tokens past the last one are those of the last one again: their probabilities will be 0.
    auto load = [&](u32 tile, u32 buffer) {
        const u32 to = __builtin_amdgcn_readfirstlane(lds_address(lds[wave][buffer]));
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            const u32 token = min(tile * TILE + load_token[i], static_cast<u32>(seen - 1));
            load_to_lds(kv, token * WIDTH + load_byte[i], to + i * WAVE * 16);
        }
    };
    if (first + wave < last) load(first + wave, 0);
    const Query q(args.q + static_cast<size_t>(query) * HEADS * WIDTH, lane);
    const float to_log2 = args.score_scale * *args.kv_scale / q.scale;

    // In a tile: as rows of K this lane has token lane % 16 of either half; as columns of V eight bytes of one of the
    // eight tokens whose probabilities it has.
    u32 k_at[2], v_at[4];
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        const u32 token = half * 16 + lane % 16;
        k_at[half] = token * WIDTH + turned(token, group) * 16;
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        const u32 row = lane % 16 / 2, token = row / 4 * 16 + group * 4 + row % 4;
        v_at[i] = token * WIDTH + turned(token, i) * 16 + lane % 2 * 8;
    }

    f32x4 sum[SUMS] = {};
    float largest = -INFINITY, total = 0.0f;
    u32 buffer = 0;
    for (u32 tile = first + wave; tile < last; tile += WAVES, buffer ^= 1) {
        if (tile + WAVES < last) {
            load(tile + WAVES, buffer ^ 1);
            wait_for_loads<LOADS>();
        } else {
            wait_for_loads<0>();
        }
        const unsigned char* kv_tile = lds[wave][buffer];
        f32x4 high[2] = {}, low[2] = {};
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const u32x4 k = *reinterpret_cast<const u32x4*>(kv_tile + k_at[half] + piece * 64);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const long rows = words(k[2 * i], k[2 * i + 1]);
                    const long q_high = words(q.high[piece][2 * i], q.high[piece][2 * i + 1]);
                    const long q_low = words(q.low[piece][2 * i], q.low[piece][2 * i + 1]);
                    high[half] = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(rows, q_high, high[half], 0, 0, 0);
                    low[half] = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(rows, q_low, low[half], 0, 0, 0);
                }
            }
        // This lane's scores: tokens 16 * half + 4 * group + 0 ... 3 of head lane % 16.
        f32x4 score[2];
        float largest_here = -INFINITY;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            score[half] = (high[half] + low[half]) * to_log2;
            const int left = seen - static_cast<int>(tile * TILE + half * 16 + group * 4);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (i >= left) score[half][i] = -INFINITY;
                largest_here = fmaxf(largest_here, score[half][i]);
            }
        }
        largest_here = max_of_head(largest_here);
        if (__any(largest_here > largest)) {
            const float before = largest;
            largest = fmaxf(largest, largest_here);
            const float shrink = before == -INFINITY ? 0.0f : __builtin_amdgcn_exp2f(before - largest);
            total *= shrink;
#pragma unroll
            for (int i = 0; i < SUMS; ++i) sum[i] *= shrink;
        }
        u32 p_high[2], p_low[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            f32x4 p;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                p[i] = __builtin_amdgcn_exp2f(score[half][i] - largest);
                total += p[i];
            }
            split_fp8(p * P_SCALE, p_high[half], p_low[half]);
        }
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            using Words = __attribute__((ext_vector_type(2))) int;
            using Local = __attribute__((address_space(3))) Words;
            const Words v = __builtin_amdgcn_ds_read_tr8_b64_v2i32((Local*)(kv_tile + v_at[i % 4] + i / 4 * 64));
            const long rows = words(v[0], v[1]);
            sum[i] = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(rows, words(p_high[0], p_high[1]), sum[i], 0, 0, 0);
            sum[i] = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(rows, words(p_low[0], p_low[1]), sum[i], 0, 0, 0);
        }
    }

    // All of a wave's sums go to its own part of LDS, where its tiles were; then a wave adds a quarter of all waves'.
    f32x4* own = reinterpret_cast<f32x4*>(lds[wave]);
    static_assert(SUMS * WAVE * 16 <= 2 * TILE_BYTES);
#pragma unroll
    for (int i = 0; i < SUMS; ++i) own[i * WAVE + lane] = sum[i];
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

    if (args.splits == 1) {
        const float scale = all_total == 0.0f ? 0.0f : *args.kv_scale / (P_SCALE * all_total);
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
    const Buffer partial = make_buffer(args.partial + part * SUMS * WAVE * 4, SUMS * WAVE * 16);
#pragma unroll
    for (int i = 0; i < OWN; ++i)
        __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(u32x4, added[i]), partial,
                                               ((wave * OWN + i) * WAVE + lane) * 16, 0, CACHE_AGENT);
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
    for (u32 i = 0; i < OWN; ++i) merge_splits(args, query, wave * OWN + i, lane);
}

__global__ __launch_bounds__(MERGE_TILES* WAVE) void mla_merge_kernel(const MlaArgs args) {
    const u32 wave = __builtin_amdgcn_readfirstlane(threadIdx.x / WAVE);
    merge_splits(args, blockIdx.y, blockIdx.x * MERGE_TILES + wave, threadIdx.x % WAVE);
}

// Addresses as in MlaArgs. Up to most_merged splits are added by the workgroup that comes last, more by a second launch.
void mixed_mla(int64_t q, int64_t kv, int64_t kv_scale, int64_t qo_indptr, int64_t kv_indptr, int64_t out,
               int64_t partial, int64_t weights, int64_t arrived, int batch, int queries_each, int queries, int splits,
               int most_merged, double score_scale) {
    const MlaArgs args = {reinterpret_cast<const unsigned short*>(q),
                          reinterpret_cast<const unsigned char*>(kv),
                          reinterpret_cast<const float*>(kv_scale),
                          reinterpret_cast<const int*>(qo_indptr),
                          reinterpret_cast<const int*>(kv_indptr),
                          reinterpret_cast<unsigned short*>(out),
                          reinterpret_cast<float*>(partial),
                          reinterpret_cast<f32x2*>(weights),
                          reinterpret_cast<u32*>(arrived),
                          splits,
                          static_cast<float>(score_scale * 1.4426950408889634),
                          splits <= most_merged};
    mla_decode_kernel<<<dim3(splits, batch, queries_each), THREADS>>>(args);
    if (splits > 1 && !args.merges) mla_merge_kernel<<<dim3(SUMS / MERGE_TILES, queries), MERGE_TILES * WAVE>>>(args);
    const hipError_t error = hipGetLastError();
    if (error != hipSuccess) throw std::runtime_error(std::string("mixed_mla: ") + hipGetErrorString(error));
}
