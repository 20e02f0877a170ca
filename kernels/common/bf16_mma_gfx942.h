// What bf16_gemm.h needs to know of gfx942: bounded loads, the matrix instruction and its registers, the way of a
// result to whole rows, memory that workgroups of one launch share.
#pragma once

#include "gfx942.h"

constexpr int LDS_OF_CU = 65536;  // bytes
constexpr int STAGE_K = 32;       // k of a stage
constexpr int XCDS = 8;           // MI300X: dies with an L2 each, which take workgroups in turn

template <int BYTES>
__device__ unsigned char* workgroup_lds() {
    __shared__ __attribute__((aligned(128))) unsigned char lds[BYTES];
    return lds;
}

template <class T, class Args>
void launch_workgroups(void (*kernel)(Args), int groups, const Args& args) {
    kernel<<<dim3(groups), dim3(T::THREADS)>>>(args);
}

// f(tile) with the tile of that size, a Tile<rows, columns, waves along them, workgroups meant to share a CU>; false
// where there is none.
template <template <int, int, int, int, int> class Tile, class F>
bool with_tile_of(int block_m, int block_n, F&& f) {
    if (block_m == 256 && block_n == 256) return f(Tile<256, 256, 2, 4, 1>{}), true;
    if (block_m == 128 && block_n == 256) return f(Tile<128, 256, 2, 4, 1>{}), true;
    if (block_m == 128 && block_n == 128) return f(Tile<128, 128, 2, 2, 2>{}), true;
    if (block_m == 64 && block_n == 128) return f(Tile<64, 128, 2, 2, 2>{}), true;
    if (block_m == 64 && block_n == 64) return f(Tile<64, 64, 2, 1, 4>{}), true;
    return false;
}

// Buffers for stages.
constexpr int stages(int, int) { return 2; }

// Second argument of __launch_bounds__: waves of a SIMD.
constexpr int residency(int waves, int groups_per_cu) { return waves * groups_per_cu / 4; }

// Rows of bf16 in memory. An offset past `bytes` reads as 0, without a branch.
struct RowReader {
    static constexpr u32 OUTSIDE = 0x80000000u;

    Buffer buffer;

    __device__ RowReader(const void* base, u32 bytes) : buffer(make_buffer(base, bytes)) {}

    // 16 bytes at `at` (of a lane) + `k_bytes` (of the wave). Documents differ on whether bounds are checked for the sum
    // or for `at` alone, and on what happens where k_bytes exceeds them: `at` is to be outside where the sum is, and
    // k_bytes inside.
    __device__ u32x4 read(u32 at, u32 k_bytes) const {
        return __builtin_amdgcn_raw_buffer_load_b128(buffer, at, k_bytes, CACHE_NORMAL);
    }
};

// Rows in memory of this GPU or another. What lies past `bytes` is dropped, without a branch.
struct RowWriter {
    static constexpr u32 OUTSIDE = 0x80000000u;
    static constexpr int CACHE_SYSTEM = 17;  // SC0 and SC1: through all caches at once

    Buffer buffer;

    __device__ RowWriter(long long address, u32 bytes)
        : buffer(make_buffer(reinterpret_cast<const void*>(uniform_address(address)), uniform(bytes))) {}

    __device__ void store(u32 at, u32x4 value) const {
        __builtin_amdgcn_raw_buffer_store_b128(value, buffer, at, 0, CACHE_NORMAL);
    }
    // For another GPU to see, so that a release finds nothing to write back.
    __device__ void store_through(u32 at, u32x4 value) const {
        __builtin_amdgcn_raw_buffer_store_b128(value, buffer, at, 0, CACHE_SYSTEM);
    }
};

// RowWriter::store_through for one lane's 16 bytes, wherever they belong.
__device__ inline void store_through(void* to, u32x4 value) {
    unsigned long long* words = static_cast<unsigned long long*>(to);
    __hip_atomic_store(words, value[0] | static_cast<unsigned long long>(value[1]) << 32, __ATOMIC_RELAXED,
                       __HIP_MEMORY_SCOPE_SYSTEM);
    __hip_atomic_store(words + 1, value[2] | static_cast<unsigned long long>(value[3]) << 32, __ATOMIC_RELAXED,
                       __HIP_MEMORY_SCOPE_SYSTEM);
}

// All waves of the workgroup are here and their LDS accesses done; loads from memory stay under way.
__device__ inline void lds_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

// What a product's operands and its rounded result are made of: the instruction for 4 k of a lane, and two sums rounded.
struct Bf16 {
    static __device__ f32x16 multiply(u32x2 w, u32x2 a, f32x16 sum) {
        typedef short bf16x4 __attribute__((ext_vector_type(4)));
        return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(__builtin_bit_cast(bf16x4, w), __builtin_bit_cast(bf16x4, a),
                                                        sum, 0, 0, 0);
    }
    // Unlike pack_bf16 without a test for NaN: one that came from bf16, or that the instruction made, has nothing in its
    // lower half, so rounding does not carry into its sign.
    static __device__ u32 pack(float low, float high) {
        const u32 l = __builtin_bit_cast(u32, low), h = __builtin_bit_cast(u32, high);
        return __builtin_amdgcn_perm(h + 0x7fff + (h >> 16 & 1), l + 0x7fff + (l >> 16 & 1), 0x07060302);
    }
};
struct Fp16 {
    typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
    typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));

    static __device__ f32x16 multiply(u32x2 w, u32x2 a, f32x16 sum) {
        return __builtin_amdgcn_mfma_f32_32x32x8f16(__builtin_bit_cast(f16x4, w), __builtin_bit_cast(f16x4, a), sum, 0,
                                                    0, 0);
    }
    static __device__ u32 pack(float low, float high) {
        return __builtin_bit_cast(u32, f16x2{static_cast<_Float16>(low), static_cast<_Float16>(high)});
    }
};

// One wave's part of an output tile: WM rows of a by WN rows of w, in v_mfma_f32_32x32x8_bf16_1k or _f16.
//
// w is the row operand and a the column operand, so that a lane's results are runs of four n of one m. The instruction
// takes 4 k of a lane; a lane reads 8 in one go and feeds them to two instructions. Which k these are does not matter
// as long as a and w agree.
template <int WM, int WN, class Element = Bf16>
struct WaveTile {
    static constexpr int SUB = 32;  // rows and columns of one instruction
    static constexpr int FM = WM / SUB, FN = WN / SUB;
    static constexpr int TURN_BYTES = SUB * WN * 2;  // LDS of one wave in rows()
    static_assert(WN == 64, "rows() turns 128 bytes of a row");

    struct Sum {
        f32x16 v[FM][FN];
    };
    struct Fragments {
        u32x4 a[FM], w[FN];
    };

    // Row of a tile's operand and chunk of 8 k that a lane reads for the first subtile and the given step of 16 k.
    static __device__ int fragment_row(int lane) { return lane % SUB; }
    static __device__ int fragment_chunk(int lane, int step) { return 2 * step + lane / SUB; }

    // a, w: where the lane's first fragments lie; the following ones are PITCH bytes apart.
    template <int PITCH>
    static __device__ void read(Fragments& f, const unsigned char* a, const unsigned char* w) {
#pragma unroll
        for (int fm = 0; fm < FM; ++fm) f.a[fm] = *reinterpret_cast<const u32x4*>(a + fm * PITCH);
#pragma unroll
        for (int fn = 0; fn < FN; ++fn) f.w[fn] = *reinterpret_cast<const u32x4*>(w + fn * PITCH);
    }

    static __device__ void multiply(Sum& sum, const Fragments& f) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int fm = 0; fm < FM; ++fm)
#pragma unroll
                for (int fn = 0; fn < FN; ++fn) {
                    const u32x2 w = {f.w[fn][2 * half], f.w[fn][2 * half + 1]};
                    const u32x2 a = {f.a[fm][2 * half], f.a[fm][2 * half + 1]};
                    sum.v[fm][fn] = Element::multiply(w, a, sum.v[fm][fn]);
                }
    }

    // Matrix instructions are no memory accesses: without this the compiler moves them across barriers.
    static __device__ void pin(Sum& sum) {
#pragma unroll
        for (int fm = 0; fm < FM; ++fm)
#pragma unroll
            for (int fn = 0; fn < FN; ++fn) asm volatile("" : "+v"(sum.v[fm][fn]));
        __builtin_amdgcn_sched_barrier(0);
    }

    // The half of a stage that writes LDS: reads first, then matrix work, the writes spread over its second half.
    template <int WRITES>
    static __device__ void schedule_writes() {
        constexpr int MATRIX = 2 * FM * FN, TAIL = MATRIX / 8;
        constexpr int LATE = (MATRIX / 2 - TAIL) / WRITES > 0 ? (MATRIX / 2 - TAIL) / WRITES : 1;
        __builtin_amdgcn_sched_group_barrier(DS_READ, FM + FN, 0);
        __builtin_amdgcn_sched_group_barrier(MATRIX_WORK, MATRIX - TAIL - WRITES * LATE, 0);
#pragma unroll
        for (int i = 0; i < WRITES; ++i) {
            __builtin_amdgcn_sched_group_barrier(DS_WRITE, 1, 0);
            __builtin_amdgcn_sched_group_barrier(MATRIX_WORK, LATE, 0);
        }
        __builtin_amdgcn_sched_group_barrier(MATRIX_WORK, TAIL, 0);
    }

    // The half of a stage that loads: LDS reads first, a load from memory after each few matrix instructions.
    template <int LOADS>
    static __device__ void schedule_loads() {
        constexpr int MATRIX = 2 * FM * FN, EACH = LOADS > 0 && MATRIX / LOADS > 0 ? MATRIX / LOADS : 1;
        __builtin_amdgcn_sched_group_barrier(DS_READ, FM + FN, 0);
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            __builtin_amdgcn_sched_group_barrier(VMEM_READ, 1, 0);
            __builtin_amdgcn_sched_group_barrier(MATRIX_WORK, EACH, 0);
        }
        if constexpr (LOADS == 0) __builtin_amdgcn_sched_group_barrier(MATRIX_WORK, MATRIX, 0);
    }

    static __device__ void zero(Sum& sum) {
#pragma unroll
        for (int fm = 0; fm < FM; ++fm)
#pragma unroll
            for (int fn = 0; fn < FN; ++fn) sum.v[fm][fn] = 0.0f;
    }

    // Every row of the sum becomes bias[column ..], 0 past n. bias: bf16 [n]. column: of the wave's first.
    static __device__ void set_bias(Sum& sum, const void* bias, int n, int column, int lane) {
        const Buffer buffer = make_buffer(bias, 2u * n);
#pragma unroll
        for (int fn = 0; fn < FN; ++fn)
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                const u32 at = 2u * (column + fn * SUB + 8 * q + 4 * (lane / SUB));
                const u32x2 four = __builtin_amdgcn_raw_buffer_load_b64(buffer, at, 0, CACHE_NORMAL);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float value =
                        __builtin_bit_cast(float, i & 1 ? four[i / 2] & 0xffff0000u : four[i / 2] << 16);
#pragma unroll
                    for (int fm = 0; fm < FM; ++fm) sum.v[fm][fn][4 * q + i] = value;
                }
            }
    }

    // f(row, column, 8 rounded elements) for the wave's tile, row by row: 8 lanes get 128 bytes of one row. lds: TURN_BYTES
    // of the wave's own. 128 bytes a row there: a lane has 8 bytes (half a chunk of 16) of row lane % 32 and gets chunk
    // lane % 8 of row lane / 8 + 8 i. Chunks are permuted by an XOR with the row, their halves by its bit 3: no bank
    // conflicts either way. The reader swaps halves back where i is odd.
    template <class F>
    static __device__ void rows(const Sum& sum, unsigned char* lds, int lane, F&& f) {
        rows(sum, lds, lane, [](int, int) { return 0; }, [&](int r, int c, u32x4 eight, int) { f(r, c, eight); });
    }
    // f also gets what fetch(row, column) returned, which is called for ROWS_AT_ONCE rows before f is for the first.
    static constexpr int ROWS_AT_ONCE = 2;
    template <class Fetch, class F>
    static __device__ void rows(const Sum& sum, unsigned char* lds, int lane, Fetch&& fetch, F&& f) {
#pragma unroll
        for (int fm = 0; fm < FM; ++fm) {
            wave_lds_fence();
#pragma unroll
            for (int fn = 0; fn < FN; ++fn)
#pragma unroll
                for (int q = 0; q < 4; ++q) {
                    const f32x16& s = sum.v[fm][fn];
                    const u32x2 four = {Element::pack(s[4 * q], s[4 * q + 1]),
                                        Element::pack(s[4 * q + 2], s[4 * q + 3])};
                    *reinterpret_cast<u32x2*>(lds + turn_write_offset(lane, fn * 4 + q)) = four;
                }
            wave_lds_fence();
#pragma unroll
            for (int first = 0; first < SUB / 8; first += ROWS_AT_ONCE) {
                decltype(fetch(0, 0)) fetched[ROWS_AT_ONCE];
#pragma unroll
                for (int j = 0; j < ROWS_AT_ONCE; ++j)
                    fetched[j] = fetch(fm * SUB + (first + j) * 8 + lane / 8, lane % 8 * 8);
#pragma unroll
                for (int j = 0; j < ROWS_AT_ONCE; ++j) {
                    const int i = first + j;
                    u32x4 eight = *reinterpret_cast<const u32x4*>(lds + turn_read_offset(lane, i));
                    if (i & 1) eight = u32x4{eight[2], eight[3], eight[0], eight[1]};
                    f(fm * SUB + i * 8 + lane / 8, lane % 8 * 8, eight, fetched[j]);
                }
            }
        }
    }

    static __device__ constexpr int turn_write_offset(int lane, int chunk) {
        const int row = lane % SUB;
        return row * 128 + (chunk ^ (row & 7)) * 16 + ((lane / SUB) ^ ((row >> 3) & 1)) * 8;
    }
    static __device__ constexpr int turn_read_offset(int lane, int i) {
        return (lane / 8 + 8 * i) * 128 + ((lane % 8) ^ (lane / 8)) * 16;
    }

    // Partial sums in memory that workgroups share, in the order that registers hold them: a wave moves 1,024
    // consecutive bytes. thread, threads: of the workgroup.
    static __device__ void store_partial(const Sum& sum, float* to, int thread, int threads) {
        const Buffer buffer = make_buffer(to, FM * FN * 64 * threads);
        each_four(threads, thread, [&](int fm, int fn, int q, int at) {
            const f32x16& s = sum.v[fm][fn];
            const f32x4 four = {s[4 * q], s[4 * q + 1], s[4 * q + 2], s[4 * q + 3]};
            __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(u32x4, four), buffer, at, 0, CACHE_AGENT);
        });
    }
    static __device__ void add_partial(Sum& sum, const float* from, int thread, int threads) {
        const Buffer buffer = make_buffer(from, FM * FN * 64 * threads);
        each_four(threads, thread, [&](int fm, int fn, int q, int at) {
            const f32x4 four =
                __builtin_bit_cast(f32x4, __builtin_amdgcn_raw_buffer_load_b128(buffer, at, 0, CACHE_AGENT));
#pragma unroll
            for (int i = 0; i < 4; ++i) sum.v[fm][fn][4 * q + i] += four[i];
        });
    }

 private:
    // Masks of __builtin_amdgcn_sched_group_barrier.
    static constexpr int MATRIX_WORK = 0x8, VMEM_READ = 0x20, DS_READ = 0x100, DS_WRITE = 0x200;

    template <class F>
    static __device__ void each_four(int threads, int thread, F&& f) {
#pragma unroll
        for (int fm = 0; fm < FM; ++fm)
#pragma unroll
            for (int fn = 0; fn < FN; ++fn)
#pragma unroll
                for (int q = 0; q < 4; ++q) f(fm, fn, q, (((fm * FN + fn) * 4 + q) * threads + thread) * 16);
    }
};
