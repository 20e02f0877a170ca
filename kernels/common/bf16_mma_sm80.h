// What bf16_gemm.h needs to know of NVIDIA GPUs, from sm_80 on: the names of bf16_mma_gfx942.h, where each is explained.
#pragma once

#ifdef __NVCC__

typedef unsigned int u32;

struct alignas(16) u32x4 {
    u32 v[4];
    __device__ u32& operator[](int i) { return v[i]; }
    __device__ u32 operator[](int i) const { return v[i]; }
};

constexpr int WAVE = 32;
constexpr int STAGES = 4, LDS_OF_CU = 227 * 1024;
constexpr int XCDS = 1;

// More than 48 KB there is only at launch, and by request.
template <int BYTES>
__device__ unsigned char* workgroup_lds() {
    extern __shared__ __align__(128) unsigned char dynamic_lds[];
    return dynamic_lds;
}
template <class T, class Args>
void launch_workgroups(void (*kernel)(Args), int groups, const Args& args) {
    static const cudaError_t allowed =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, T::LDS_BYTES);
    if (allowed == cudaSuccess) kernel<<<dim3(groups), dim3(T::THREADS), T::LDS_BYTES>>>(args);
}

template <template <int, int, int, int, int> class Tile, class F>
bool with_tile_of(int block_m, int block_n, F&& f) {
    if (block_m == 128 && block_n == 256) return f(Tile<128, 256, 2, 4, 1>{}), true;
    if (block_m == 128 && block_n == 128) return f(Tile<128, 128, 2, 2, 2>{}), true;
    if (block_m == 64 && block_n == 128) return f(Tile<64, 128, 2, 2, 3>{}), true;
    if (block_m == 64 && block_n == 64) return f(Tile<64, 64, 2, 2, 4>{}), true;
    return false;
}

// Second argument of __launch_bounds__: workgroups of a multiprocessor.
constexpr int residency(int, int groups_per_cu) { return groups_per_cu; }

__device__ inline int uniform(int x) { return x; }
__device__ inline long long uniform_address(long long x) { return x; }
__device__ inline void lds_barrier() { __syncthreads(); }

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

// mma.sync m16n8k16: a is the row operand, w the column operand. ldmatrix reads four 8 x 8 blocks at once: of a, rows
// 0-7 and 8-15 by k 0-7 and 8-15; of w likewise, which makes two column operands.
template <int WM, int WN>
struct WaveTile {
    static constexpr int SUB = 16;
    static constexpr int FM = WM / SUB, FN = WN / 8;
    static constexpr int TURN_BYTES = SUB * WN * 2;
    static_assert(WN == 64 || WN == 32, "rows() permutes 8 or 4 chunks of a row");

    struct Sum {
        float v[FM][FN][4];
    };
    struct Fragments {
        u32 a[FM][4], w[FN / 2][4];
    };

    static __device__ int fragment_row(int lane) { return lane % SUB; }
    static __device__ int fragment_chunk(int lane, int step) { return 2 * step + lane / SUB; }

    template <int PITCH>
    static __device__ void read(Fragments& f, const unsigned char* a, const unsigned char* w) {
#pragma unroll
        for (int fm = 0; fm < FM; ++fm) load_blocks(f.a[fm], a + fm * PITCH);
#pragma unroll
        for (int i = 0; i < FN / 2; ++i) load_blocks(f.w[i], w + i * PITCH);
    }

    static __device__ void multiply(Sum& sum, const Fragments& f) {
#pragma unroll
        for (int fm = 0; fm < FM; ++fm)
#pragma unroll
            for (int fn = 0; fn < FN; ++fn) {
                float* c = sum.v[fm][fn];
                asm volatile(
                    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                    "{%0, %1, %2, %3};"
                    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                    : "r"(f.a[fm][0]), "r"(f.a[fm][1]), "r"(f.a[fm][2]), "r"(f.a[fm][3]), "r"(f.w[fn / 2][fn % 2]),
                      "r"(f.w[fn / 2][fn % 2 + 2]));
            }
    }

    static __device__ void pin(Sum&) {}
    template <int WRITES>
    static __device__ void schedule_writes() {}
    template <int LOADS>
    static __device__ void schedule_loads() {}

    static __device__ void zero(Sum& sum) {
#pragma unroll
        for (int fm = 0; fm < FM; ++fm)
#pragma unroll
            for (int fn = 0; fn < FN; ++fn)
#pragma unroll
                for (int i = 0; i < 4; ++i) sum.v[fm][fn][i] = 0.0f;
    }

    // A lane has columns 2 (lane % 4) + 0, 1 of rows lane / 4 and lane / 4 + 8.
    static __device__ void set_bias(Sum& sum, const void* bias, int n, int column, int lane) {
#pragma unroll
        for (int fn = 0; fn < FN; ++fn) {
            const int at = column + fn * 8 + lane % 4 * 2;
            const u32 two = at < n ? static_cast<const u32*>(bias)[at / 2] : 0;
#pragma unroll
            for (int fm = 0; fm < FM; ++fm)
#pragma unroll
                for (int i = 0; i < 4; ++i) sum.v[fm][fn][i] = __uint_as_float(i & 1 ? two & 0xffff0000u : two << 16);
        }
    }

    template <class F>
    static __device__ void rows(const Sum& sum, unsigned char* lds, int lane, F&& f) {
        constexpr int CHUNKS = WN / 8;
#pragma unroll
        for (int fm = 0; fm < FM; ++fm) {
            __syncwarp();
#pragma unroll
            for (int fn = 0; fn < FN; ++fn)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    *reinterpret_cast<u32*>(lds + turn_offset(lane / 4 + 8 * half, fn) + lane % 4 * 4) =
                        pack_bf16(sum.v[fm][fn][2 * half], sum.v[fm][fn][2 * half + 1]);
            __syncwarp();
#pragma unroll
            for (int i = 0; i < SUB * CHUNKS / WAVE; ++i) {
                const int row = (i * WAVE + lane) / CHUNKS, chunk = lane % CHUNKS;
                f(fm * SUB + row, chunk * 8, *reinterpret_cast<const u32x4*>(lds + turn_offset(row, chunk)));
            }
        }
    }

    static __device__ void store_partial(const Sum& sum, float* to, int thread, int threads) {
#pragma unroll
        for (int i = 0; i < FM * FN; ++i) {
            const float* v = sum.v[i / FN][i % FN];
            __stcg(reinterpret_cast<float4*>(to) + i * threads + thread, make_float4(v[0], v[1], v[2], v[3]));
        }
    }
    static __device__ void add_partial(Sum& sum, const float* from, int thread, int threads) {
#pragma unroll
        for (int i = 0; i < FM * FN; ++i) {
            const float4 four = __ldcg(reinterpret_cast<const float4*>(from) + i * threads + thread);
            float* v = sum.v[i / FN][i % FN];
            v[0] += four.x, v[1] += four.y, v[2] += four.z, v[3] += four.w;
        }
    }

private:
    static __device__ void load_blocks(u32 (&blocks)[4], const unsigned char* row) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(blocks[0]), "=r"(blocks[1]), "=r"(blocks[2]), "=r"(blocks[3])
                     : "r"(static_cast<u32>(__cvta_generic_to_shared(row)))
                     : "memory");
    }
    // 16 rows of WN columns; chunks of 8 columns permuted so that 8 rows' same chunk lies in different banks.
    static __device__ int turn_offset(int row, int chunk) {
        constexpr int CHUNKS = WN / 8;
        return row * WN * 2 + (chunk ^ (row * CHUNKS / 8 & (CHUNKS - 1))) * 16;
    }
};

#endif
