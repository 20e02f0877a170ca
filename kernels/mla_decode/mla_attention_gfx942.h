// amd-mla-decode on gfx942: flash decoding of 128 heads over latents that are keys and values of all of them.
//
// A workgroup has 8 waves, two for each 32 heads. In the first product they share the columns out by 32, in turn; in the
// second one each has half of the latents'. So a wave keeps its part of queries (72 registers) and results (128). Halves of
// scores are exchanged through LDS. 16 tokens at a time pass through LDS in two forms, made from one load: rows, for
// scores = latents * queries^T, and four tokens of a column side by side, for results^T = latents^T * weights. Scores come
// out of the matrix unit as the second product wants its weights. docs/kernels/mla_decode_hip.md has the schedule.
#pragma once

#include "bf16_gemm_gfx942.h"

constexpr int HEADS = 128, LATENT = 512, ROPE = 64, HALF_ROPE = ROPE / 2;
constexpr int WIDTH = LATENT + ROPE;    // of a cached token, and of a query
constexpr int PITCH = 2 * WIDTH;        // its bytes
constexpr int ATTENTION_THREADS = 512;  // waves 0 .. 3 have the first halves, 4 .. 7 the second ones
constexpr int WAVE_HEADS = 32;
constexpr int KEYS = 16;                     // tokens of a tile
constexpr int QUERY_STEPS = WIDTH / 32 / 2;  // of 32 columns, of a wave
constexpr int BLOCKS = LATENT / 32 / 2;      // of 32 columns of the result, of a wave
constexpr int HEAD_BLOCKS = 2;               // of 16 heads, of a wave
constexpr int PARTIAL_WORDS = BLOCKS * HEAD_BLOCKS * ATTENTION_THREADS;

struct AttentionArgs {
    const unsigned short* q;      // bf16 [batch][HEADS][WIDTH], the tail rotated
    const unsigned short* cache;  // bf16 [batch][capacity][WIDTH], the tails not rotated
    const unsigned short* table;  // bf16 [capacity][ROPE]: cosines, then sines
    unsigned short* o;            // bf16 [batch][HEADS][LATENT]: weighted means of the latents
    u32x4* partial;  // [2 * workgroups][PARTIAL_WORDS]: bf16 means of a part of the tokens, in the order of registers
    float* weight;   // [2 * workgroups][HEADS]: log2 of the sums of their weights
    u32* arrived;    // [batch], zero between launches
    int batch, length, capacity;
    float scale;  // of scores, times log2(e)
};
// x, but the compiler cannot tell: it would work out early whatever hangs on it, and keep each sum with a constant in a
// register of its own.
__device__ inline u32 opaque(u32 x) {
    asm volatile("" : "+v"(x));
    return x;
}

typedef short bf16x4 __attribute__((ext_vector_type(4)));

__device__ inline f32x4 multiply16(u32 a0, u32 a1, u32 b0, u32 b1, f32x4 sum) {
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(bf16x4, u32x2{a0, a1}),
                                                     __builtin_bit_cast(bf16x4, u32x2{b0, b1}), sum, 0, 0, 0);
}

// LDS: the rows of a tile, two buffers of its columns, halves of scores.
//
// Chunk c (8 columns) of token `key`. Of each 8 chunks, which fill the banks once, the place is permuted by the token: 8 lanes
// that read the same chunk of 8 tokens, or that write 8 chunks of one, meet in no bank.
__device__ inline constexpr int row_offset(int key, int c) {
    return key * PITCH + (c & ~7) * 16 + ((c ^ key) & 7) * 16;
}
// Columns 2 p and 2 p + 1 of tokens 4 `quad` .. 4 `quad` + 3, 8 bytes each. Readers have consecutive p; writers every other.
__device__ inline constexpr int column_offset(int quad, int p) { return quad * (LATENT * 8) + (p ^ (p >> 3 & 1)) * 16; }

constexpr int COLUMNS_AT = KEYS * PITCH, COLUMNS_BYTES = KEYS * LATENT * 2;
constexpr int SCORES_AT = COLUMNS_AT + 2 * COLUMNS_BYTES, SCORES_BYTES = WAVE * 24;  // of a wave
constexpr int ATTENTION_LDS = SCORES_AT + ATTENTION_THREADS / WAVE * SCORES_BYTES;

__device__ inline float from_bf16(u32 bits) { return __builtin_bit_cast(float, bits << 16); }

// x rounded to bf16. It is a product or sum of bf16, so a NaN has nothing in its lower half and stays one.
__device__ inline float through_bf16(float x) {
    const u32 bits = __builtin_bit_cast(u32, x);
    return __builtin_bit_cast(float, (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

// Rotates a pair of columns, of the low and the high half of a tail; products and sums round to bf16, as in the reference.
__device__ inline void rotate(float& low, float& high, float cos, float sin) {
    const float new_low = through_bf16(through_bf16(low * cos) - through_bf16(high * sin));
    high = through_bf16(through_bf16(high * cos) + through_bf16(low * sin));
    low = new_low;
}

// A tile on its way from memory to LDS. A thread has 4 columns of 4 tokens, and a pair of columns of a token's tail.
struct TileInFlight {
    u32x2 words[4];
    unsigned short low, high, cos, sin;
};

struct TileLoader {
    Buffer cache, table;
    u32 at, tail_at, table_at;           // of the request's first tile
    u32 row_at, columns_at, rotated_at;  // in LDS

    __device__ TileLoader(const AttentionArgs& args, int request, int thread)
        : cache(make_buffer(args.cache + static_cast<size_t>(request) * args.capacity * WIDTH, args.length * PITCH)),
          table(make_buffer(args.table, args.capacity * ROPE * 2)) {
        const int quad = thread / 128, four = thread % 128;
        at = quad * 4 * PITCH + four * 8;
        row_at = row_offset(quad * 4, four / 2) + four % 2 * 8;
        columns_at = COLUMNS_AT + column_offset(quad, four * 2);
        const int key = thread / HALF_ROPE, pair = thread % HALF_ROPE;
        tail_at = key * PITCH + (LATENT + pair) * 2;
        table_at = (key * ROPE + pair) * 2;
        rotated_at = row_offset(key, (LATENT + pair) / 8) + pair % 8 * 2;
    }

    // Tokens past the end, and all if it is not `wanted`, are zeros.
    __device__ void load(TileInFlight& tile, int number, bool wanted) const {
        const u32 first = wanted ? at + number * KEYS * PITCH : RowReader::OUTSIDE;
        const u32 tail = wanted ? tail_at + number * KEYS * PITCH : RowReader::OUTSIDE;
        const u32 angle = wanted ? table_at + number * KEYS * ROPE * 2 : RowReader::OUTSIDE;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            tile.words[i] = __builtin_amdgcn_raw_buffer_load_b64(cache, first + i * PITCH, 0, CACHE_NON_TEMPORAL);
        tile.low = __builtin_amdgcn_raw_buffer_load_b16(cache, tail, 0, CACHE_NON_TEMPORAL);
        tile.high = __builtin_amdgcn_raw_buffer_load_b16(cache, tail + HALF_ROPE * 2, 0, CACHE_NON_TEMPORAL);
        tile.cos = __builtin_amdgcn_raw_buffer_load_b16(table, angle, 0, CACHE_NORMAL);
        tile.sin = __builtin_amdgcn_raw_buffer_load_b16(table, angle + HALF_ROPE * 2, 0, CACHE_NORMAL);
    }

    // Into LDS: rows; columns 2 i and 2 i + 1 of the thread's four (buffer: in bytes); the rotated pair.
    __device__ void store_rows(const TileInFlight& tile, unsigned char* lds) const {
        const u32 row = opaque(row_at);
#pragma unroll
        for (int i = 0; i < 4; ++i) *reinterpret_cast<u32x2*>(lds + (row ^ i * 16) + i * PITCH) = tile.words[i];
    }
    __device__ void store_columns(const TileInFlight& tile, unsigned char* lds, int buffer, int i) const {
        constexpr u32 LOW = 0x05040100, HIGH = 0x07060302;
        const auto& w = tile.words;
        *reinterpret_cast<u32x4*>(lds + ((opaque(columns_at) + buffer) ^ i * 16)) =
            u32x4{__builtin_amdgcn_perm(w[1][i], w[0][i], LOW), __builtin_amdgcn_perm(w[3][i], w[2][i], LOW),
                  __builtin_amdgcn_perm(w[1][i], w[0][i], HIGH), __builtin_amdgcn_perm(w[3][i], w[2][i], HIGH)};
    }
    __device__ void store_tail(const TileInFlight& tile, unsigned char* lds) const {
        const u32 rotated = opaque(rotated_at);
        float low = from_bf16(tile.low), high = from_bf16(tile.high);
        rotate(low, high, from_bf16(tile.cos), from_bf16(tile.sin));
        *reinterpret_cast<unsigned short*>(lds + rotated) = __builtin_bit_cast(u32, low) >> 16;
        *reinterpret_cast<unsigned short*>(lds + (rotated ^ 64)) = __builtin_bit_cast(u32, high) >> 16;
    }
    // One of STORES parts of all that.
    static constexpr int STORES = 4;
    __device__ void store(const TileInFlight& tile, unsigned char* lds, int buffer, int part) const {
        if (part == 0) store_rows(tile, lds);
        if (part == 1 || part == 2) store_columns(tile, lds, buffer, part - 1);
        if (part == 3) store_tail(tile, lds);
    }
};
static_assert(row_offset(5, 9) == (row_offset(4, 9) ^ 16) + PITCH &&
              row_offset(7, 9) == (row_offset(4, 9) ^ 48) + 3 * PITCH);
static_assert(column_offset(1, 13) == (column_offset(1, 12) ^ 16) && row_offset(3, 69) == (row_offset(3, 65) ^ 64));

// Four scores of a lane without their 8 last bits, in three words: with these, LDS has room for all halves of scores.
__device__ inline void shorten(const f32x4& s, u32* words) {
    const u32x4 bits = __builtin_bit_cast(u32x4, s);
    words[0] = __builtin_amdgcn_perm(bits[1], bits[0], 0x05030201);
    words[1] = __builtin_amdgcn_perm(bits[2], bits[1], 0x06050302);
    words[2] = __builtin_amdgcn_perm(bits[3], bits[2], 0x07060503);
}
__device__ inline f32x4 lengthen(const u32* words) {
    const u32x4 bits = {words[0] << 8, __builtin_amdgcn_perm(words[1], words[0], 0x0504030c),
                        __builtin_amdgcn_perm(words[2], words[1], 0x0403020c), words[2] & 0xffffff00u};
    return __builtin_bit_cast(f32x4, bits);
}

// A wave's scores become the sums of its own and those of the other wave of its heads, the same bits in both. share() before
// a barrier, add() behind it.
struct ScoreExchange {
    unsigned char* lds;
    u32 own;
    int to_other;

    __device__ ScoreExchange(unsigned char* lds, const Place& place)
        : lds(lds),
          own(SCORES_AT + place.wave * SCORES_BYTES + place.lane * 8),
          to_other((place.wave < 4 ? 4 : -4) * SCORES_BYTES) {}

    __device__ void share(f32x4 (&s)[HEAD_BLOCKS]) const {
        u32 words[6];
        shorten(s[0], words), shorten(s[1], words + 3);
        u32x2* const to = reinterpret_cast<u32x2*>(lds + own);
#pragma unroll
        for (int i = 0; i < 3; ++i) to[i * WAVE] = u32x2{words[2 * i], words[2 * i + 1]};
        s[0] = lengthen(words), s[1] = lengthen(words + 3);
    }
    __device__ void add(f32x4 (&s)[HEAD_BLOCKS]) const {
        const u32x2* const from = reinterpret_cast<const u32x2*>(lds + opaque(own) + to_other);
        u32 words[6];
#pragma unroll
        for (int i = 0; i < 3; ++i) words[2 * i] = from[i * WAVE][0], words[2 * i + 1] = from[i * WAVE][1];
        s[0] += lengthen(words), s[1] += lengthen(words + 3);
    }
};

// Results of a wave: a lane has head lane % 16 of each block; columns 8 (lane / 16) .. + 7 of each block of 32.
struct HeadSums {
    f32x4 o[BLOCKS][2][HEAD_BLOCKS];  // element i of [b][e]: column 32 b + 8 (lane / 16) + 2 i + e
    float top[HEAD_BLOCKS];           // no score is more than SLACK above it
    float total[HEAD_BLOCKS];         // of the weights of the lane's own tokens
    static constexpr float SLACK = 8;

    __device__ HeadSums() {
#pragma unroll
        for (int h = 0; h < HEAD_BLOCKS; ++h) {
            top[h] = -INFINITY, total[h] = 0.0f;
#pragma unroll
            for (int b = 0; b < BLOCKS; ++b) o[b][0][h] = o[b][1][h] = 0.0f;
        }
    }

    __device__ void scale(int h, float factor) {
#pragma unroll
        for (int b = 0; b < BLOCKS; ++b) o[b][0][h] *= factor, o[b][1][h] *= factor;
    }

    // Makes weights of scores, exp2(scale * score - top); they may exceed 1, by a factor of 2^SLACK, so that the results are
    // rarely scaled anew.
    __device__ void weigh(f32x4 (&s)[HEAD_BLOCKS], float factor) {
        bool fits = true;
#pragma unroll
        for (int h = 0; h < HEAD_BLOCKS; ++h) fits &= largest(s[h]) * factor <= top[h] + SLACK;
        if (!__all(fits)) {
#pragma unroll
            for (int h = 0; h < HEAD_BLOCKS; ++h) {
                float best = fmaxf(top[h], largest(s[h]) * factor);
                best = fmaxf(best, __shfl_xor(best, 16));
                best = fmaxf(best, __shfl_xor(best, 32));
                const float shrink = __builtin_amdgcn_exp2f(top[h] - best);
                top[h] = best;
                total[h] *= shrink;
                scale(h, shrink);
            }
        }
#pragma unroll
        for (int h = 0; h < HEAD_BLOCKS; ++h)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                s[h][i] = __builtin_amdgcn_exp2f(__builtin_fmaf(s[h][i], factor, -top[h]));
                total[h] += s[h][i];
            }
    }
    static __device__ float largest(const f32x4& s) { return fmaxf(fmaxf(fmaxf(s[0], s[1]), s[2]), s[3]); }

    // o becomes means; log2 of the sums of their weights.
    __device__ void finish(float (&log_total)[HEAD_BLOCKS]) {
#pragma unroll
        for (int h = 0; h < HEAD_BLOCKS; ++h) {
            total[h] += __shfl_xor(total[h], 16);
            total[h] += __shfl_xor(total[h], 32);
            log_total[h] = top[h] + __builtin_amdgcn_logf(total[h]);
            scale(h, 1.0f / total[h]);
        }
    }

    // 8 columns of block b, as bf16.
    __device__ u32x4 eight(int b, int h) const {
        const f32x4 &even = o[b][0][h], &odd = o[b][1][h];
        return {Bf16::pack(even[0], odd[0]), Bf16::pack(even[1], odd[1]), Bf16::pack(even[2], odd[2]),
                Bf16::pack(even[3], odd[3])};
    }
};

// The tiles of all requests, one after the other, are shared out evenly among the workgroups, so a request's are those of
// neighbouring workgroups.
struct Shares {
    int tiles, n_workgroups, all;  // tiles: of a request; all * n_workgroups is below 2^31

    __device__ Shares(const AttentionArgs& args)
        : tiles((args.length + KEYS - 1) / KEYS), n_workgroups(gridDim.x), all(tiles * args.batch) {}

    __device__ int first_tile(int workgroup) const { return uniform(workgroup * all / n_workgroups); }
    __device__ int workgroup_of(int tile) const { return uniform(((tile + 1) * n_workgroups - 1) / all); }
};

// Where a workgroup's part of a request lies, first: the request's first workgroup. A workgroup has two such parts at most.
__device__ inline int part_of(int workgroup, int first) { return 2 * workgroup + (workgroup == first); }

// The lane's head of block h.
__device__ inline int head_of(const Place& place, int h) {
    return place.wave % 4 * WAVE_HEADS + h * 16 + place.lane % 16;
}

// Where a wave's results belong.
struct MeansWriter {
    Buffer means;
    int at;

    __device__ MeansWriter(const AttentionArgs& args, int request, const Place& place)
        : means(make_buffer(args.o + static_cast<size_t>(request) * HEADS * LATENT, HEADS * LATENT * 2)),
          at(head_of(place, 0) * LATENT * 2 + place.wave / 4 * BLOCKS * 64 + place.lane / 16 * 16) {}

    __device__ void store(int b, int h, u32x4 eight) const {
        // LLVM before #197267 leaves no wait state behind a wide store with a scalar offset: nothing may come between.
        __builtin_amdgcn_sched_barrier(0);
        __builtin_amdgcn_raw_buffer_store_b128(eight, means, at, b * 64 + h * 16 * LATENT * 2, CACHE_NORMAL);
        asm volatile("s_nop 0");
        __builtin_amdgcn_sched_barrier(0);
    }
};

// Results of a request whose tokens several workgroups, first .. last, have shared. Each keeps its part; the last one to
// arrive adds all up, in their order: its own as the others would have read it, so the bits do not depend on who is last.
__device__ inline void merge(const HeadSums& sums, const float (&log_total)[HEAD_BLOCKS], const AttentionArgs& args,
                             int request, int first, int last, unsigned char* lds, const Place& place) {
    const int own = blockIdx.x;
    const auto buffer_of = [&](int workgroup) {
        const size_t part = uniform(part_of(workgroup, first));
        return make_buffer(args.partial + part * PARTIAL_WORDS, PARTIAL_WORDS * 16);
    };
    const auto weight_of = [&](int workgroup, int h) {
        const Buffer weights = make_buffer(args.weight + uniform(part_of(workgroup, first)) * HEADS, HEADS * 4);
        return __builtin_bit_cast(float,
                                  __builtin_amdgcn_raw_buffer_load_b32(weights, head_of(place, h) * 4, 0, CACHE_AGENT));
    };
    const int at = place.thread * 16;  // and so far from one register's words to the next one's:
    const auto beyond = [](int b, int h) { return (b * HEAD_BLOCKS + h) * ATTENTION_THREADS * 16; };
    const Buffer mine = buffer_of(own);
    int to = at;  // one register for all offsets, a vector's: see MeansWriter
#pragma unroll
    for (int b = 0; b < BLOCKS; ++b)
#pragma unroll
        for (int h = 0; h < HEAD_BLOCKS; ++h) {
            __builtin_amdgcn_raw_buffer_store_b128(sums.eight(b, h), mine, to, 0, CACHE_AGENT);
            to += beyond(0, 1);
            asm volatile("" : "+v"(to));
        }
    const Buffer my_weights = make_buffer(args.weight + part_of(own, first) * HEADS, HEADS * 4);
    if (place.wave < 4 && place.lane < 16)
#pragma unroll
        for (int h = 0; h < HEAD_BLOCKS; ++h)
            __builtin_amdgcn_raw_buffer_store_b32(__builtin_bit_cast(u32, log_total[h]), my_weights,
                                                  head_of(place, h) * 4, 0, CACHE_AGENT);
    shared_stores_complete();
    u32* const arrived_before = reinterpret_cast<u32*>(lds);
    if (place.thread == 0) *arrived_before = arrive(args.arrived + request);
    __syncthreads();
    const bool is_last = uniform(*arrived_before) == last - first;
    __syncthreads();  // all have read it: lds is free again
    if (!is_last) return;
    if (place.thread == 0) reset_arrivals(args.arrived + request);

    float top[HEAD_BLOCKS], total[HEAD_BLOCKS];
#pragma unroll
    for (int h = 0; h < HEAD_BLOCKS; ++h) {
        top[h] = -INFINITY, total[h] = 0.0f;
        for (int w = first; w <= last; ++w) top[h] = fmaxf(top[h], weight_of(w, h));
        for (int w = first; w <= last; ++w) total[h] += __builtin_amdgcn_exp2f(weight_of(w, h) - top[h]);
    }
    const MeansWriter writer(args, request, place);
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
        constexpr int OF_HALF = BLOCKS / 2;
        float y[OF_HALF][HEAD_BLOCKS][8] = {};
        for (int w = first; w <= last; ++w) {
            const Buffer part = buffer_of(w);
            float share[HEAD_BLOCKS];
#pragma unroll
            for (int h = 0; h < HEAD_BLOCKS; ++h)
                share[h] = __builtin_amdgcn_exp2f(weight_of(w, h) - top[h]) / total[h];
            u32x4 eight[OF_HALF][HEAD_BLOCKS];
#pragma unroll
            for (int b = 0; b < OF_HALF; ++b)
#pragma unroll
                for (int h = 0; h < HEAD_BLOCKS; ++h)
                    eight[b][h] =
                        __builtin_amdgcn_raw_buffer_load_b128(part, at, beyond(half * OF_HALF + b, h), CACHE_AGENT);
#pragma unroll
            for (int b = 0; b < OF_HALF; ++b)
#pragma unroll
                for (int h = 0; h < HEAD_BLOCKS; ++h)
#pragma unroll
                    for (int i = 0; i < 8; ++i) {
                        const u32 word = eight[b][h][i / 2];
                        y[b][h][i] += share[h] * __builtin_bit_cast(float, i & 1 ? word & 0xffff0000u : word << 16);
                    }
        }
#pragma unroll
        for (int b = 0; b < OF_HALF; ++b)
#pragma unroll
            for (int h = 0; h < HEAD_BLOCKS; ++h) {
                const auto& v = y[b][h];
                const u32x4 eight = {Bf16::pack(v[0], v[1]), Bf16::pack(v[2], v[3]), Bf16::pack(v[4], v[5]),
                                     Bf16::pack(v[6], v[7])};
                writer.store(half * OF_HALF + b, h, eight);
            }
    }
}

// Where a thread works, worked out again: its numbers, and what hangs on them, would keep registers through the loop.
__device__ inline Place place_anew(int wave) {
    Place place;
    asm volatile("v_mbcnt_lo_u32_b32 %0, -1, 0\n\tv_mbcnt_hi_u32_b32 %0, -1, %0" : "=v"(place.lane));
    place.wave = wave;
    place.thread = wave * WAVE + place.lane;
    return place;
}

// One request's tiles first .. last - 1.
__device__ inline void attend(HeadSums& sums, const AttentionArgs& args, int request, int first, int last,
                              unsigned char* lds, const Place& place) {
    const int row = place.lane % 16, group = place.lane / 16, column_half = place.wave / 4;
    u32x4 q[QUERY_STEPS][HEAD_BLOCKS];  // of each 64 columns, the wave's 32: 8 of a lane
    const size_t heads = static_cast<size_t>(request) * HEADS + place.wave % 4 * WAVE_HEADS;
    const Buffer queries = make_buffer(args.q + uniform_address(heads * WIDTH), WAVE_HEADS * PITCH);
#pragma unroll
    for (int s = 0; s < QUERY_STEPS; ++s)
#pragma unroll
        for (int h = 0; h < HEAD_BLOCKS; ++h)
            q[s][h] = __builtin_amdgcn_raw_buffer_load_b128(queries, row * PITCH + column_half * 64 + group * 16,
                                                            s * 128 + h * 16 * PITCH, CACHE_NORMAL);
    const TileLoader loader(args, request, place.thread);
    const ScoreExchange exchange(lds, place);
    const unsigned char* const key_at = lds + row_offset(row, column_half * 4 + group);
    const unsigned char* const value_at = lds + COLUMNS_AT + column_offset(group, column_half * BLOCKS * 16 + row);
    TileInFlight next;
    loader.load(next, first, true);
    for (int part = 0; part < loader.STORES; ++part) loader.store(next, lds, 0, part);
    loader.load(next, first + 1, first + 1 < last);
    lds_barrier();
    int buffer = 0;  // bytes: of this tile's columns
    for (int tile = first; tile < last; ++tile) {
        f32x4 s[HEAD_BLOCKS] = {};
        const auto key = [&](int step) { return *reinterpret_cast<const u32x4*>(key_at + step * 128); };
        u32x4 ahead[2] = {key(0), key(1)};
#pragma unroll
        for (int step = 0; step < QUERY_STEPS; ++step) {
            const u32x4 k = ahead[step & 1];
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int h = 0; h < HEAD_BLOCKS; ++h)
                    s[h] =
                        multiply16(k[2 * half], k[2 * half + 1], q[step][h][2 * half], q[step][h][2 * half + 1], s[h]);
            if (step + 2 < QUERY_STEPS) ahead[step & 1] = key(step + 2);
            __builtin_amdgcn_sched_barrier(0);
        }
        exchange.share(s);
        lds_barrier();  // halves of scores are there, and all have read the rows

        exchange.add(s);
        const auto value = [&](int b) { return *reinterpret_cast<const u32x4*>(value_at + buffer + b * 256); };
        if ((tile + 1) * KEYS > args.length)
#pragma unroll
            for (int h = 0; h < HEAD_BLOCKS; ++h)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    if (tile * KEYS + group * 4 + i >= args.length) s[h][i] = -INFINITY;
        sums.weigh(s, args.scale);
        u32 p[HEAD_BLOCKS][2];
#pragma unroll
        for (int h = 0; h < HEAD_BLOCKS; ++h)
            p[h][0] = Bf16::pack(s[h][0], s[h][1]), p[h][1] = Bf16::pack(s[h][2], s[h][3]);
        ahead[0] = value(0), ahead[1] = value(1);
        __builtin_amdgcn_sched_barrier(0);
        // The next tile's way into LDS goes on beside the matrix work, a part with each block.
#pragma unroll
        for (int b = 0; b < BLOCKS; ++b) {
            const u32x4 v = ahead[b & 1];
#pragma unroll
            for (int e = 0; e < 2; ++e)
#pragma unroll
                for (int h = 0; h < HEAD_BLOCKS; ++h)
                    sums.o[b][e][h] = multiply16(v[2 * e], v[2 * e + 1], p[h][0], p[h][1], sums.o[b][e][h]);
            if (b + 2 < BLOCKS) ahead[b & 1] = value(b + 2);
            if (b < loader.STORES) loader.store(next, lds, buffer ^ COLUMNS_BYTES, b);
            if (b == loader.STORES) loader.load(next, tile + 2, tile + 2 < last);
            __builtin_amdgcn_sched_barrier(0);
        }
        buffer ^= COLUMNS_BYTES;
        lds_barrier();  // the next tile is complete, and all have read this one's columns
    }
}

__global__ __launch_bounds__(ATTENTION_THREADS, 2) void attention_kernel(const AttentionArgs args) {
    unsigned char* const lds = workgroup_lds<ATTENTION_LDS>();
    const Shares shares(args);
    const int wave = Place().wave;
    const int own = blockIdx.x, end = shares.first_tile(own + 1);
    for (int tile = shares.first_tile(own); tile < end;) {
        const int request = uniform(tile / shares.tiles), request_at = request * shares.tiles;
        const int first = tile - request_at, last = min(end - request_at, shares.tiles);
        HeadSums sums;
        attend(sums, args, request, first, last, lds, place_anew(wave));
        const Place place = place_anew(wave);
        float log_total[HEAD_BLOCKS];
        sums.finish(log_total);
        if (last - first == shares.tiles) {
            const MeansWriter writer(args, request, place);
#pragma unroll
            for (int b = 0; b < BLOCKS; ++b)
#pragma unroll
                for (int h = 0; h < HEAD_BLOCKS; ++h) writer.store(b, h, sums.eight(b, h));
        } else {
            merge(sums, log_total, args, request, shares.workgroup_of(request_at),
                  shares.workgroup_of(request_at + shares.tiles - 1), lds, place);
        }
        tile = request_at + last;
    }
}
