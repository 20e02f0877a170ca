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

#include "bf16_gfx950.h"
#include "cdna_gpu.h"

constexpr int HEADS = 16, LATENT = 512, WIDTH = 576;  // WIDTH: 64 more columns of K, which rotate
constexpr int WAVES = 4, THREADS = WAVES * WAVE;
constexpr int TILE = 32;             // tokens that a wave takes at a time
constexpr int PIECES = WIDTH / 64;   // of 64 columns: 16 for each lane of a row
constexpr int SUMS = LATENT / 16;    // 16 columns by 16 heads each
constexpr float LARGEST_Q = 256.0f;  // of q in fp8, whose largest value is 448

typedef int i32x8 __attribute__((ext_vector_type(8)));
typedef int i32x2 __attribute__((ext_vector_type(2)));
typedef __bf16 bf16x8 __attribute__((ext_vector_type(8)));

constexpr int larger(int a, int b) { return a > b ? a : b; }

struct MlaArgs {
    const unsigned short* q;  // bf16 [queries][HEADS][WIDTH]
    const unsigned char* kv;  // fp8 e4m3fn [tokens][WIDTH], or e2m1 [tokens][WIDTH / 2], even columns in low nibbles
    const void* kv_scale;     // fp8: fp32 [1], what to multiply kv by; e2m1: e8m0 [tokens][Fp4Cache::SCALES]
    const int* qo_indptr;     // [batch + 1]: a request's first query
    const int* kv_indptr;     // [batch + 1]: a request's first token
    unsigned short* out;      // bf16 [queries][HEADS][LATENT]
    unsigned short* partial;  // Cache::Partial [queries][splits][SUMS / 2][WAVE][2][4], unused where splits is 1
    f32x2* weights;           // [queries][splits][HEADS]: largest score, in log2, and the sum of probabilities
    u32* arrived;             // [queries], zero between launches
    int splits;
    float score_scale;  // of q * k, to log2
    bool merges;        // the last workgroup of a query adds its splits; or a second launch does
};

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

// Sends BYTES a lane from base + offset to lds + BYTES * lane. In assembly, because the compiler would wait for all such
// loads at the next read of LDS, those of later tiles included; wait_for_loads() is ours.
template <int BYTES>
__device__ inline void load_to_lds(const void* base, u32 offset, u32 lds) {
    static_assert(BYTES == 4 || BYTES == 16);
    if constexpr (BYTES == 16)
        asm volatile("s_mov_b32 m0, %0\n\ts_nop 0\n\tglobal_load_lds_dwordx4 %1, %2" ::"s"(lds), "v"(offset), "s"(base)
                     : "m0", "memory");
    else
        asm volatile("s_mov_b32 m0, %0\n\ts_nop 0\n\tglobal_load_lds_dword %1, %2" ::"s"(lds), "v"(offset), "s"(base)
                     : "m0", "memory");
}
template <int LEFT>
__device__ inline void wait_for_loads() {
    asm volatile("s_waitcnt vmcnt(%0)" ::"n"(LEFT) : "memory");
}

__device__ inline u32 lds_address(const void* p) {
    return static_cast<u32>(reinterpret_cast<size_t>((const __attribute__((address_space(3))) void*)p));
}

// What is read by scalar loads, together: the assembly below keeps the compiler from doing so by itself.
template <class T>
__device__ inline auto scalar(const T* p) {
    return (const __attribute__((address_space(4))) T*)p;
}

// One head's q in a lane's order: of every 64 columns (a piece) the 16 from 16 * (lane / 16) on, each as two numbers of
// fp8. The waves of a workgroup share the work: a wave brings every fourth piece to LDS and converts it.
struct Query {
    static constexpr int OWN = (PIECES + WAVES - 1) / WAVES;
    static constexpr int PIECE_BYTES = HEADS * 128;  // raw; and of the two numbers
    // Of each wave's LDS, from where `own` or `shared` say, free again when this is done.
    static constexpr int SHARED_BYTES = OWN * PIECE_BYTES;

    u32x4 high[PIECES], low[PIECES];
    float scale;  // a power of two; what high + low is more than q

    // Sends the wave's pieces to `own`. In LDS 16-byte chunk c of a head's 8 lies at c ^ head % 8.
    static __device__ void load(const unsigned short* q, u32 lane, u32 wave, u32 own) {
#pragma unroll
        for (u32 i = 0; i < OWN; ++i)
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                const u32 piece = wave + i * WAVES, head = half * 8 + lane / 8;
                if (piece < PIECES)
                    load_to_lds<16>(q, (head * WIDTH + piece * 64 + (lane ^ head) % 8 * 8) * 2,
                                    own + i * PIECE_BYTES + half * WAVE * 16);
            }
    }

    // Once the wave's own loads are there. shared(i): wave i's LDS. largest: of each wave and head.
    template <class Shared>
    __device__ Query(u32 lane, u32 wave, Shared shared, float (&largest)[WAVES][HEADS]) {
        const u32 head = lane % HEADS, group = lane / HEADS;
        auto place = [&](int piece) { return shared(piece % WAVES) + piece / WAVES * 2 * WAVE + lane; };
        u32x4 x[OWN][2] = {};
        u16x2 own_largest = u16x2(0);
#pragma unroll
        for (u32 i = 0; i < OWN; ++i) {
            if (wave + i * WAVES >= PIECES) continue;
#pragma unroll
            for (u32 half = 0; half < 2; ++half)
                x[i][half] = shared(wave)[i * 2 * WAVE + head * 8 + (group * 2 + half ^ head % 8)];
#pragma unroll
            for (int j = 0; j < 8; ++j)
                own_largest = __builtin_elementwise_max(own_largest, bf16_magnitudes(x[i][j / 4][j % 4]));
        }
        const float of_wave = max_of_head(low_bf16(max(own_largest[0], own_largest[1])));
        if (lane < HEADS) largest[wave][lane] = of_wave;
        __syncthreads();
        float of_head = largest[0][head];
#pragma unroll
        for (int i = 1; i < WAVES; ++i) of_head = fmaxf(of_head, largest[i][head]);
        // 2^E is at most the largest value: times LARGEST_Q / 2 / 2^E it is below LARGEST_Q.
        const int exponent = __builtin_bit_cast(u32, of_head) >> 23;
        scale = __builtin_bit_cast(float, min(max(261 - exponent, 1), 254) << 23);
#pragma unroll
        for (u32 own = 0; own < OWN; ++own) {
            if (wave + own * WAVES >= PIECES) continue;
            u32x4 own_high, own_low;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const u32 front = x[own][i / 2][i % 2 * 2], back = x[own][i / 2][i % 2 * 2 + 1];
                const f32x4 four = {low_bf16(front), high_bf16(front), low_bf16(back), high_bf16(back)};
                u32 four_high, four_low;
                split_fp8(four * scale, four_high, four_low);
                own_high[i] = four_high, own_low[i] = four_low;
            }
            place(wave + own * WAVES)[0] = own_high;
            place(wave + own * WAVES)[WAVE] = own_low;
        }
        __syncthreads();
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece) {
            high[piece] = place(piece)[0];
            low[piece] = place(piece)[WAVE];
        }
        __syncthreads();
    }
};

// --- the caches: how a tile comes to LDS and is read there ---------------------------------------------------------------
//
// As rows of K a lane has token lane % 16 of either half of a tile, as columns of V column lane % 16 of the eight tokens
// whose probabilities it has: tokens 16 * half + 4 * (lane / 16) + 0 ... 3.

struct Fp8Cache {
    static constexpr int BUFFERS = 2, TILE_BYTES = TILE * WIDTH, LOADS = TILE_BYTES / (16 * WAVE);
    static constexpr int CHUNKS = WIDTH / 16;  // of 16 bytes, of a token
    static constexpr float P_SCALE = 256.0f;   // a probability of 1 in fp8
    static constexpr bool HAS_SCALE = true;    // of the whole cache
    using Partial = _Float16;                  // which has room for codes, and bits beyond the output's

    const unsigned char* kv;
    float scale;  // of a value
    u32 load_at[LOADS], k_at[2], v_at[4];

    __device__ Fp8Cache(const MlaArgs& args, u32 first_token, float kv_scale, u32 lane)
        : kv(args.kv + static_cast<size_t>(first_token) * WIDTH), scale(kv_scale) {
#pragma unroll
        for (u32 i = 0; i < LOADS; ++i) {
            const u32 chunk = i * WAVE + lane, token = chunk / CHUNKS;
            load_at[i] = token * WIDTH + turned(token, chunk % CHUNKS) * 16;
        }
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const u32 token = half * 16 + lane % 16;
            k_at[half] = token * WIDTH + turned(token, lane / 16) * 16;
        }
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const u32 row = lane % 16 / 2, token = row / 4 * 16 + lane / 16 * 4 + row % 4;
            v_at[i] = token * WIDTH + turned(token, i) * 16 + lane % 2 * 8;
        }
    }

    // Where 16-byte chunk c of a token of a tile lies: chunks change places within 64 bytes, so that the lanes that LDS
    // serves together find theirs in different banks.
    static __device__ u32 turned(u32 token, u32 chunk) { return chunk ^ (token / 4 + token / 16 * 2) % 4; }

    // Past the last token come bytes of that one, so that a NaN there is its own: their probabilities will be 0.
    __device__ void load(u32 tile, u32 seen, u32 lds) const {
#pragma unroll
        for (int i = 0; i < LOADS; ++i)
            load_to_lds<16>(kv, min(tile * TILE_BYTES + load_at[i], seen * WIDTH - 16), lds + i * WAVE * 16);
    }

    __device__ void scores(const unsigned char* tile, const Query& q, u32, f32x4 (&score)[2]) const {
        f32x4 high[2] = {}, low[2] = {};
        u32x4 k[PIECES][2];  // under way together
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                k[piece][half] = *reinterpret_cast<const u32x4*>(tile + k_at[half] + piece * 64);
        __builtin_amdgcn_sched_barrier(0);
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece)
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int i = 0; i < 4; i += 2) {
                    const long rows = words(k[piece][half][i], k[piece][half][i + 1]);
                    high[half] = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(
                        rows, words(q.high[piece][i], q.high[piece][i + 1]), high[half], 0, 0, 0);
                    low[half] = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(
                        rows, words(q.low[piece][i], q.low[piece][i + 1]), low[half], 0, 0, 0);
                }
        score[0] = high[0] + low[0];
        score[1] = high[1] + low[1];
    }

    __device__ void add_values(const unsigned char* tile, const f32x4 (&p)[2], u32, f32x4 (&sum)[SUMS]) const {
        u32 high[2], low[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) split_fp8(p[half] * P_SCALE, high[half], low[half]);
        i32x2 v[SUMS];  // under way together
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            using Local = __attribute__((address_space(3))) i32x2;
            v[i] = __builtin_amdgcn_ds_read_tr8_b64_v2i32((Local*)(tile + v_at[i % 4] + i / 4 * 64));
        }
        __builtin_amdgcn_sched_barrier(0);
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            const long rows = words(v[i][0], v[i][1]);
            sum[i] = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(rows, words(high[0], high[1]), sum[i], 0, 0, 0);
            sum[i] = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(rows, words(low[0], low[1]), sum[i], 0, 0, 0);
        }
    }
};

// Scales lie along the columns, where the first product sums, so that the matrix instruction applies them; the second one
// sums over tokens: there they go to the probabilities, for each 32 columns anew.
struct Fp4Cache {
    static constexpr int SCALES = 24;  // bytes of a token, 18 of them used
    static constexpr int ROW = WIDTH / 2, CODES = TILE * ROW, TILE_BYTES = CODES + TILE * SCALES;
    static constexpr int CODE_LOADS = CODES / (16 * WAVE), SCALE_LOADS = TILE * SCALES / (4 * WAVE);
    static constexpr int BUFFERS = 3, LOADS = CODE_LOADS + SCALE_LOADS;
    static constexpr float P_SCALE = 0.5f;  // see scaled()
    static constexpr bool HAS_SCALE = false;
    using Partial = __bf16;  // which has room for any scale

    const unsigned char *kv, *scales;
    float scale = 1.0f;
    u32 lane, v_at;

    __device__ Fp4Cache(const MlaArgs& args, u32 first_token, float, u32 lane_)
        : kv(args.kv + static_cast<size_t>(first_token) * ROW),
          scales(static_cast<const unsigned char*>(args.kv_scale) + static_cast<size_t>(first_token) * SCALES),
          lane(lane_) {
        // A transposing read takes 16 columns of 16 rows: of eight tokens these and the next 16 columns.
        const u32 row = lane % 8, token = row / 4 * 16 + lane / 16 * 4 + row % 4;
        v_at = token * ROW + lane % 16 / 8 * 8;
    }

    __device__ void load(u32 tile, u32 seen, u32 lds) const {
#pragma unroll
        for (int i = 0; i < CODE_LOADS; ++i)
            load_to_lds<16>(kv, min(tile * CODES + (i * WAVE + lane) * 16, seen * ROW - 16), lds + i * WAVE * 16);
#pragma unroll
        for (u32 i = 0; i < SCALE_LOADS; ++i)
            load_to_lds<4>(scales, min(tile * TILE * SCALES + (i * WAVE + lane) * 4, seen * SCALES - 4),
                           lds + CODES + i * WAVE * 4);
    }

    // left: tokens from the tile's first on. Past them there are no scales.
    __device__ void scores(const unsigned char* tile, const Query& q, u32 left, f32x4 (&score)[2]) const {
        constexpr int E2M1 = 4, E4M3 = 0, ONE = 127;
        constexpr u32 STEPS = (WIDTH + 127) / 128;
        const u32 group = lane / 16;
        auto ends = [](u32 step) { return step * 128 + 128 > WIDTH; };  // the step has two blocks
        u32x4 k[2][STEPS];                                              // under way together
        u32 k_scale[2][STEPS];
#pragma unroll
        for (u32 half = 0; half < 2; ++half)
#pragma unroll
            for (u32 step = 0; step < STEPS; ++step) {
                const u32 token = min(half * 16 + lane % 16, left - 1);
                const u32 block = step * 4 + (ends(step) ? group % 2 : group);
                k[half][step] = *reinterpret_cast<const u32x4*>(tile + token * ROW + block * 16);
                k_scale[half][step] = tile[CODES + token * SCALES + block];
            }
        __builtin_amdgcn_sched_barrier(0);
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            f32x4 high = {}, low = {};
#pragma unroll
            for (u32 step = 0; step < STEPS; ++step) {
                const bool rest = ends(step);
                const u32x4 x = rest && group >= 2 ? u32x4(0) : k[half][step];
                const i32x8 rows = {int(x[0]), int(x[1]), int(x[2]), int(x[3]), 0, 0, 0, 0};
                auto columns = [&](const u32x4(&x)[PIECES]) {
                    const u32x4 front = x[2 * step], back = rest ? u32x4(0) : x[rest ? 0 : 2 * step + 1];
                    return i32x8{int(front[0]), int(front[1]), int(front[2]), int(front[3]),
                                 int(back[0]),  int(back[1]),  int(back[2]),  int(back[3])};
                };
                high = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(rows, columns(q.high), high, E2M1, E4M3, 0,
                                                                        k_scale[half][step], 0, ONE);
                low = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(rows, columns(q.low), low, E2M1, E4M3, 0,
                                                                       k_scale[half][step], 0, ONE);
            }
            score[half] = high + low;
        }
    }

    // Two probabilities times 2^127, bf16 in [0, 2^127], times a scale each, byte `at` of their words, and times P_SCALE:
    // the scale is added to the exponent, and 255 taken from it; what is below bf16's normal numbers then, and a scale
    // of 0, gives 0, or some of the mantissa's bits, which are less than 2^-126. A scale that is NaN has made p, and so their total, NaN.
    static __device__ u32 scaled(u32 p, u32 first_scales, u32 second_scales, u32 at) {
        const u32 two = __builtin_amdgcn_perm(second_scales, first_scales, 0x0c040c00u + at * 0x00010001u);
        u32 sum;
        asm("v_pk_mad_u16 %0, %1, %2, %3" : "=v"(sum) : "v"(two), "s"(0x00800080u), "v"(p));
        // Not in assembly: the compiler has to know what a matrix instruction waits for.
        return __builtin_bit_cast(u32, __builtin_elementwise_sub_sat(__builtin_bit_cast(u16x2, sum), u16x2(0x7f80)));
    }

    __device__ void add_values(const unsigned char* tile, const f32x4 (&p)[2], u32 left, f32x4 (&sum)[SUMS]) const {
        u32x2 of_token[8][2];  // scales of the 16 blocks of 32 columns
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            const u32 token = min(i / 4 * 16 + lane / 16 * 4 + i % 4, left - 1);
#pragma unroll
            for (int j = 0; j < 2; ++j)
                of_token[i][j] = *reinterpret_cast<const u32x2*>(tile + CODES + token * SCALES + j * 8);
        }
        i32x2 v[SUMS / 2];  // under way together
#pragma unroll
        for (u32 block = 0; block < SUMS / 2; ++block) {
            using Local = __attribute__((address_space(3))) i32x2;
            v[block] = __builtin_amdgcn_ds_read_tr4_b64_v2i32((Local*)(tile + v_at + block * 16));
        }
        __builtin_amdgcn_sched_barrier(0);
        u32 pairs_of_p[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const f32x2 two = f32x2{p[i / 2][i % 2 * 2], p[i / 2][i % 2 * 2 + 1]} * 0x1p127f;
            pairs_of_p[i] = pack_bf16(two[0], two[1]);
        }
#pragma unroll
        for (u32 block = 0; block < SUMS / 2; ++block) {
            u32x4 scaled_p;
#pragma unroll
            for (u32 i = 0; i < 4; ++i)
                scaled_p[i] = scaled(pairs_of_p[i], of_token[2 * i][block / 8][block / 4 % 2],
                                     of_token[2 * i + 1][block / 8][block / 4 % 2], block % 4);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const bf16x2 pairs[4] = {__builtin_amdgcn_cvt_scalef32_pk_bf16_fp4(v[block][j], 1.0f, 0),
                                         __builtin_amdgcn_cvt_scalef32_pk_bf16_fp4(v[block][j], 1.0f, 1),
                                         __builtin_amdgcn_cvt_scalef32_pk_bf16_fp4(v[block][j], 1.0f, 2),
                                         __builtin_amdgcn_cvt_scalef32_pk_bf16_fp4(v[block][j], 1.0f, 3)};
                const bf16x8 rows = {pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1],
                                     pairs[2][0], pairs[2][1], pairs[3][0], pairs[3][1]};
                f32x4& to = sum[2 * block + j];
                to = __builtin_amdgcn_mfma_f32_16x16x32_bf16(rows, __builtin_bit_cast(bf16x8, scaled_p), to, 0, 0, 0);
            }
        }
    }
};

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
