// amd-mixed-mla on gfx950: queries in a wave's registers, and tiles of either cache on their way there by LDS.
#pragma once

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
