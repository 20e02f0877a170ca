// What bf16_gemm.h needs to know of NVIDIA's Hopper GPUs: the names of bf16_mma_gfx942.h, where each is explained.
#pragma once

#include <stdexcept>
#include <string>

#include "device_state.h"

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "bf16_gemm.h multiplies with wgmma: it needs a Hopper GPU and -gencode=arch=compute_90a,code=sm_90a"
#endif

typedef unsigned int u32;
typedef unsigned long long u64;

struct alignas(16) u32x4 {
    u32 v[4];
    __device__ u32& operator[](int i) { return v[i]; }
    __device__ u32 operator[](int i) const { return v[i]; }
};

// What executes a matrix instruction together: a warpgroup. Only Place and GemmTile know it as a wave.
constexpr int WAVE = 128, WARP = 32;
constexpr int LDS_OF_CU = 227 * 1024;
constexpr int STAGE_K = 64;
constexpr int XCDS = 1;

// More than 48 KB there is only at launch.
template <int BYTES>
__device__ unsigned char* workgroup_lds() {
    extern __shared__ __align__(1024) unsigned char dynamic_lds[];  // as the swizzle of stage_offset() repeats
    return dynamic_lds;
}
template <class T, class Args>
static void launch_workgroups(void (*kernel)(Args), int groups, const Args& args) {
    const cudaError_t answer = allow_shared_memory(reinterpret_cast<const void*>(kernel), T::LDS_BYTES);
    if (answer != cudaSuccess)
        throw std::runtime_error(std::to_string(T::LDS_BYTES) +
                                 " bytes of shared memory for a workgroup: " + cudaGetErrorString(answer));
    kernel<<<dim3(groups), dim3(T::THREADS), T::LDS_BYTES>>>(args);
}

template <template <int, int, int, int, int> class Tile, class F>
bool with_tile_of(int block_m, int block_n, F&& f) {
    if (block_m == 128 && block_n == 256) return f(Tile<128, 256, 2, 1, 1>{}), true;
    if (block_m == 256 && block_n == 128) return f(Tile<256, 128, 2, 1, 1>{}), true;
    if (block_m == 128 && block_n == 128) return f(Tile<128, 128, 2, 1, 2>{}), true;
    if (block_m == 64 && block_n == 256) return f(Tile<64, 256, 1, 1, 1>{}), true;
    if (block_m == 64 && block_n == 128) return f(Tile<64, 128, 1, 1, 2>{}), true;
    if (block_m == 64 && block_n == 64) return f(Tile<64, 64, 1, 1, 3>{}), true;
    return false;
}

// As many as fit; each workgroup takes 1 KB more than it asks for.
constexpr int stages(int stage_bytes, int groups_per_cu) {
    return ((LDS_OF_CU + 1024) / groups_per_cu - 1024) / stage_bytes;
}

// Second argument of __launch_bounds__: workgroups of a multiprocessor.
constexpr int residency(int, int groups_per_cu) { return groups_per_cu; }

// From the warp's first lane: ptxas then knows that it is the same in all, and keeps what follows from it out of vector
// registers and loops over lanes.
__device__ inline int uniform(int x) { return __shfl_sync(~0u, x, 0); }
__device__ inline long long uniform_address(long long x) { return x; }
__device__ inline void lds_barrier() { __syncthreads(); }

__device__ inline u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

__device__ inline u32 pack_bf16(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

struct RowReader {
    static constexpr u32 OUTSIDE = 0x80000000u;

    const char* base;
    u32 bytes;

    __device__ RowReader(const void* base, u32 bytes) : base(static_cast<const char*>(base)), bytes(bytes) {}

    __device__ u32x4 read(u32 at, u32 k_bytes) const {
        u32x4 words = {0, 0, 0, 0};
        if (at + k_bytes < bytes) words = *reinterpret_cast<const u32x4*>(base + at + k_bytes);
        return words;
    }
};

struct RowWriter {
    static constexpr u32 OUTSIDE = 0x80000000u;

    char* base;
    u32 bytes;

    __device__ RowWriter(long long address, u32 bytes) : base(reinterpret_cast<char*>(address)), bytes(bytes) {}

    __device__ void store(u32 at, u32x4 value) const {
        if (at < bytes) *reinterpret_cast<u32x4*>(base + at) = value;
    }
    __device__ void store_through(u32 at, u32x4 value) const { store(at, value); }
};

__device__ inline void store_through(void* to, u32x4 value) { *static_cast<u32x4*>(to) = value; }

__device__ inline void shared_stores_complete() {
    __threadfence();
    __syncthreads();
}
__device__ inline u32 arrive(u32* counter) {
    const u32 before = atomicAdd(counter, 1u);
    __threadfence();
    return before;
}
__device__ inline void reset_arrivals(u32* counter) { atomicExch(counter, 0u); }

// Register lists of inline assembly: ten operands' names; 16 accumulators.
#define OPERANDS_10(tens)                                                                                             \
    "%" #tens "0, %" #tens "1, %" #tens "2, %" #tens "3, %" #tens "4, %" #tens "5, %" #tens "6, %" #tens "7, %" #tens \
    "8, %" #tens "9, "
#define SUMS_4(i) "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3])
#define SUMS_16(i) SUMS_4(i), SUMS_4(i + 4), SUMS_4(i + 8), SUMS_4(i + 12)
#define SUMS_64(i) SUMS_16(i), SUMS_16(i + 16), SUMS_16(i + 32), SUMS_16(i + 48)
#define WGMMA(shape, operands)                                                                      \
    "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, 1, 0;\nwgmma.mma_async.sync.aligned." shape \
    ".f32.bf16.bf16 {" operands ", accumulate, 1, 1, 0, 0;\n}"

// sum[64, N] += a * w over 16 k. a, w: descriptors of 64 and of N rows in LDS.
__device__ inline void multiply_64(float (&sum)[32], u64 a, u64 w) {
    asm volatile(WGMMA("m64n64k16", OPERANDS_10() OPERANDS_10(1) OPERANDS_10(2) "%30, %31}, %32, %33")
                 : SUMS_16(0), SUMS_16(16)
                 : "l"(a), "l"(w));
}
__device__ inline void multiply_64(float (&sum)[64], u64 a, u64 w) {
    asm volatile(WGMMA("m64n128k16", OPERANDS_10() OPERANDS_10(1) OPERANDS_10(2) OPERANDS_10(3) OPERANDS_10(4)
                                         OPERANDS_10(5) "%60, %61, %62, %63}, %64, %65")
                 : SUMS_64(0)
                 : "l"(a), "l"(w));
}
__device__ inline void multiply_64(float (&sum)[128], u64 a, u64 w) {
    asm volatile(
        WGMMA("m64n256k16", OPERANDS_10() OPERANDS_10(1) OPERANDS_10(2) OPERANDS_10(3) OPERANDS_10(4) OPERANDS_10(5)
                                OPERANDS_10(6) OPERANDS_10(7) OPERANDS_10(8) OPERANDS_10(9) OPERANDS_10(10)
                                    OPERANDS_10(11) "%120, %121, %122, %123, %124, %125, %126, %127}, %128, %129")
        : SUMS_64(0), SUMS_64(64)
        : "l"(a), "l"(w));
}

#undef OPERANDS_10
#undef SUMS_4
#undef SUMS_16
#undef SUMS_64
#undef WGMMA

// wgmma m64nNk16, N = WN: a is the row operand, w the column operand, both in LDS. A warp gets 16 rows of each 64,
// a lane columns 2 (lane % 4) + 0, 1 of each 8, of rows lane / 4 and lane / 4 + 8.
template <int WM, int WN>
struct WaveTile {
    static constexpr int SUB = 64;
    static constexpr int FM = WM / SUB, FN = WN / 8;
    static constexpr int TURN_BYTES = SUB * WN * 2;
    static constexpr int WARP_ROWS = SUB * WARP / WAVE;
    static_assert(FN >= 8, "rows() permutes 8 chunks of a row");

    struct Sum {
        float v[FM][FN * 4];
    };

    // a, w: this warpgroup's rows in a stage. Only begins: wait() is to follow.
    static __device__ void multiply(Sum& sum, const unsigned char* a, const unsigned char* w) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int step = 0; step < STAGE_K / 16; ++step)
#pragma unroll
            for (int fm = 0; fm < FM; ++fm)
                multiply_64(sum.v[fm], descriptor(a + fm * SUB * 128) + step * 2, descriptor(w) + step * 2);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }

    // Until at most PENDING calls of multiply() are under way.
    template <int PENDING>
    static __device__ void wait(Sum& sum) {
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
        if constexpr (PENDING == 0) pin(sum);
    }

    // Sums are floats in registers here, whatever they were made from and are to be. ptxas waits for each wgmma where
    // it finds anything else done to them between the first and the last.
    static __device__ void pin(Sum& sum) {
#pragma unroll
        for (int fm = 0; fm < FM; ++fm)
#pragma unroll
            for (int i = 0; i < FN * 4; ++i) asm volatile("" : "+f"(sum.v[fm][i])::"memory");
    }

    static __device__ void zero(Sum& sum) {
#pragma unroll
        for (int fm = 0; fm < FM; ++fm)
#pragma unroll
            for (int i = 0; i < FN * 4; ++i) sum.v[fm][i] = 0.0f;
    }

    static __device__ void set_bias(Sum& sum, const void* bias, int n, int column, int lane) {
#pragma unroll
        for (int fn = 0; fn < FN; ++fn) {
            const int at = column + fn * 8 + lane % 4 * 2;
            const u32 two = at < n ? static_cast<const u32*>(bias)[at / 2] : 0;
#pragma unroll
            for (int fm = 0; fm < FM; ++fm)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    sum.v[fm][fn * 4 + i] = __uint_as_float(i & 1 ? two & 0xffff0000u : two << 16);
        }
    }

    // Each warp turns its own 16 rows: stmatrix stores two chunks of each, 32 in all, each where one lane says.
    template <class F>
    static __device__ void rows(const Sum& sum, unsigned char* lds, int lane, F&& f) {
        rows(sum, lds, lane, [](int, int) { return 0; }, [&](int r, int c, u32x4 eight, int) { f(r, c, eight); });
    }
    static constexpr int ROWS_AT_ONCE = 2;
    template <class Fetch, class F>
    static __device__ void rows(const Sum& sum, unsigned char* lds, int lane, Fetch&& fetch, F&& f) {
        constexpr int CHUNKS = WN / 8;
        const int warp_row = lane / WARP * WARP_ROWS;
        lds += warp_row * WN * 2;
        lane %= WARP;
        const u32 turn = shared_address(lds);
#pragma unroll
        for (int fm = 0; fm < FM; ++fm) {
            __syncwarp();
#pragma unroll
            for (int fn = 0; fn < FN; fn += 2) {
                const float* v = sum.v[fm] + fn * 4;
                asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                                 turn + turn_offset(lane % 16, fn + lane / 16)),
                             "r"(pack_bf16(v[0], v[1])), "r"(pack_bf16(v[2], v[3])), "r"(pack_bf16(v[4], v[5])),
                             "r"(pack_bf16(v[6], v[7]))
                             : "memory");
            }
            __syncwarp();
#pragma unroll
            for (int first = 0; first < WARP_ROWS * CHUNKS / WARP; first += ROWS_AT_ONCE) {
                const auto row = [&](int j) { return ((first + j) * WARP + lane) / CHUNKS; };
                const auto chunk = [&](int j) { return ((first + j) * WARP + lane) % CHUNKS; };
                decltype(fetch(0, 0)) fetched[ROWS_AT_ONCE];
#pragma unroll
                for (int j = 0; j < ROWS_AT_ONCE; ++j) fetched[j] = fetch(fm * SUB + warp_row + row(j), chunk(j) * 8);
#pragma unroll
                for (int j = 0; j < ROWS_AT_ONCE; ++j)
                    f(fm * SUB + warp_row + row(j), chunk(j) * 8,
                      *reinterpret_cast<const u32x4*>(lds + turn_offset(row(j), chunk(j))), fetched[j]);
            }
        }
    }

    // A thread's sums, by eights, as bf16.
    static constexpr int CHUNKS_8 = FM * FN / 2;
    static __device__ u32x4 rounded_8(const Sum& sum, int i) {
        const float* v = sum.v[i / (FN / 2)] + i % (FN / 2) * 8;
        return {pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])};
    }
    static __device__ void add_8(Sum& sum, int i, u32x4 words) {
        float* v = sum.v[i / (FN / 2)] + i % (FN / 2) * 8;
#pragma unroll
        for (int j = 0; j < 8; ++j) v[j] += __uint_as_float(j & 1 ? words[j / 2] & 0xffff0000u : words[j / 2] << 16);
    }
    static __device__ void round(Sum& sum) {
#pragma unroll
        for (int i = 0; i < CHUNKS_8; ++i) {
            const u32x4 words = rounded_8(sum, i);
            float* v = sum.v[i / (FN / 2)] + i % (FN / 2) * 8;
#pragma unroll
            for (int j = 0; j < 8; ++j) v[j] = 0.0f;
            add_8(sum, i, words);
        }
    }

    static __device__ void store_partial(const Sum& sum, float* to, int thread, int threads) {
#pragma unroll
        for (int i = 0; i < FM * FN; ++i) {
            const float* v = sum.v[i / FN] + i % FN * 4;
            __stcg(reinterpret_cast<float4*>(to) + i * threads + thread, make_float4(v[0], v[1], v[2], v[3]));
        }
    }
    static __device__ void add_partial(Sum& sum, const float* from, int thread, int threads) {
#pragma unroll
        for (int i = 0; i < FM * FN; ++i) {
            const float4 four = __ldcg(reinterpret_cast<const float4*>(from) + i * threads + thread);
            float* v = sum.v[i / FN] + i % FN * 4;
            v[0] += four.x, v[1] += four.y, v[2] += four.z, v[3] += four.w;
        }
    }

 private:
    // Of rows of 64 k from that address on, in the layout of stage_offset(): 128-byte swizzle, 1,024 bytes from one
    // 8 rows to the next. 16 k further is 2 more. (PTX ISA, "matrix descriptor" of wgmma.)
    static __device__ u64 descriptor(const unsigned char* rows) {
        constexpr u64 SWIZZLE_128 = 1ull << 62, PITCH_OF_8_ROWS = 1024ull >> 4 << 32, UNUSED = 1ull << 16;
        return SWIZZLE_128 | PITCH_OF_8_ROWS | UNUSED | (shared_address(rows) & 0x3ffff) >> 4;
    }
    // 16 rows of WN columns; chunks of 8 columns permuted so that 8 rows' same chunk lies in different banks.
    static __device__ int turn_offset(int row, int chunk) { return row * WN * 2 + (chunk ^ (row & 7)) * 16; }
};
