// Pairs of kernels: one with a fault that the advice must name, on the line marked so, and one without it.
#include <hip/hip_runtime.h>

#define WAY __global__ __launch_bounds__(256) void

__device__ float work(float x, int turns) {
  for (int i = 0; i < turns; i++) x = x * 0.5f + 1.0f;
  return x;
}

// What a loop adds up, by so many workgroups for each sum.
template <int PARTS>
__device__ void sum_in_parts(float* out) {
  float sum = threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < 40; i++) sum += work(sum + i, 100 / PARTS);
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
WAY few_workgroups(float* out) { sum_in_parts<1>(out); }
WAY four_times_as_many(float* out) { sum_in_parts<4>(out); }
WAY few_and_short(float* out) { out[blockIdx.x * 256 + threadIdx.x] = work(threadIdx.x, 200); }
WAY enough_workgroups(float* out) { out[blockIdx.x * 256 + threadIdx.x] = work(threadIdx.x, 200); }

template <int DWORDS>
__device__ void lds_and_work(float* out) {
  __shared__ float all[DWORDS];
  all[threadIdx.x] = work(threadIdx.x, 100);
  __syncthreads();
  out[blockIdx.x * 256 + threadIdx.x] = all[threadIdx.x ^ 1];
}
WAY a_round_and_a_bit(float* out) { lds_and_work<12000>(out); }
WAY two_rounds(float* out) { lds_and_work<12000>(out); }
WAY one_round(float* out) { lds_and_work<12000>(out); }

template <int ROW>
__device__ void columns(float* out) {
  __shared__ float tile[64 * ROW];
  float sum = 0;
  for (int i = threadIdx.x; i < 64 * ROW; i += 256) tile[i] = i;
  __syncthreads();
  for (int turn = 0; turn < 20; turn++)
    for (int c = 0; c < 8; c++) sum += tile[threadIdx.x % 64 * ROW + (c + turn) % 32];  // read: columns
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
WAY columns_of_32(float* out) { columns<32>(out); }
WAY columns_of_36(float* out) { columns<36>(out); }
WAY columns_of_33(float* out) { columns<33>(out); }

// 32 KB: a row more of LDS, and one workgroup fits on a CU instead of two.
WAY columns_of_a_full_tile(float* out) {
  __shared__ float tile[64 * 128];
  float sum = 0;
  for (int i = threadIdx.x; i < 64 * 128; i += 256) tile[i] = i;
  __syncthreads();
  for (int turn = 0; turn < 60; turn++)
    for (int c = 0; c < 8; c++) sum += tile[threadIdx.x % 64 * 128 + (c + turn) % 128];  // read: a full tile
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

WAY swizzled_columns_of_a_full_tile(float* out) {
  __shared__ float tile[64 * 128];
  float sum = 0;
  for (int i = threadIdx.x; i < 64 * 128; i += 256) tile[i] = i;
  __syncthreads();
  for (int turn = 0; turn < 60; turn++)
    for (int c = 0; c < 8; c++) sum += tile[threadIdx.x % 64 * 128 + ((c + turn) % 128 ^ threadIdx.x % 64)];
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

template <int DWORDS>
__device__ void one_by_one(const float* in, float* out) {
  __shared__ float all[DWORDS];
#pragma unroll 1
  for (int i = 0; i < 16; i++)
    all[(threadIdx.x + i * (DWORDS / 16)) % DWORDS] =
        in[(blockIdx.x * 16 + i) * 256 + threadIdx.x & 0xfffff];  // read: one by one
  __syncthreads();
  out[blockIdx.x * 256 + threadIdx.x] = all[threadIdx.x ^ 1];
}
WAY one_by_one_and_few_waves(const float* in, float* out) { one_by_one<8192>(in, out); }
WAY one_by_one_and_many_waves(const float* in, float* out) { one_by_one<2048>(in, out); }

template <int DWORDS>
__device__ void chase(const int* next, float* out) {
  __shared__ float all[DWORDS];
  int at = blockIdx.x * 256 + threadIdx.x;
  for (int i = 0; i < 4; i++) at = next[at];
  all[threadIdx.x] = at;
  __syncthreads();
  out[blockIdx.x * 256 + threadIdx.x] = all[threadIdx.x ^ 1];
}
WAY much_lds(const int* next, float* out) { chase<12000>(next, out); }
WAY lds_for_two(const int* next, float* out) { chase<8000>(next, out); }
WAY little_lds(const int* next, float* out) { chase<256>(next, out); }

template <int N>
__device__ void registers(const float* in, float* out) {
  float held[N], sum = 0;
  int at = blockIdx.x * 256 + threadIdx.x;
#pragma unroll
  for (int i = 0; i < N; i++) held[i] = in[(at + i * 4099) & 0xfffff];
  asm volatile("" ::: "memory");
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+v"(held[i]));
#pragma unroll
  for (int i = 0; i < N; i++) sum += held[i];
  out[at] = sum;
}
// Waits for one thing after the other, with registers that nobody needs meanwhile.
template <int N>
__device__ void chase_with_registers(const int* next, float* out) {
  float held[N], sum = 0;
  int at = blockIdx.x * 256 + threadIdx.x;
#pragma unroll
  for (int i = 0; i < N; i++) held[i] = at * i;
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+v"(held[i]));
#pragma unroll 1
  for (int i = 0; i < 96; i++) at = next[at] + blockIdx.x;
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+v"(held[i]));
#pragma unroll
  for (int i = 0; i < N; i++) sum += held[i];
  out[blockIdx.x * 256 + threadIdx.x] = sum + at;
}
WAY many_registers(const int* in, float* out) { chase_with_registers<150>(in, out); }
WAY fewer_registers(const int* in, float* out) { chase_with_registers<122>(in, out); }
WAY few_registers(const float* in, float* out) { registers<16>(in, out); }

WAY strided(const float* in, float* out) {
  int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = in[i * 16 & 0xfffff];  // read: strided
}
WAY side_by_side(const float* in, float* out) {
  int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = in[i & 0xfffff];
}

WAY power_of_two(const float* in, float* out) {
  float sum = 0;
  for (int i = 0; i < 8; i++) sum += in[threadIdx.x * 4096 + i * 32 + blockIdx.x % 4 * 256];  // read: a power of two
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

WAY stream(const float4* in, float4* out) { out[blockIdx.x * 256 + threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x]; }

template <class Value>
__device__ void copied(const Value* in, Value* out) {
  const int each = 64 / sizeof(Value), step = gridDim.x * 256;
  const int first = blockIdx.x * 256 + threadIdx.x;
  for (int k = 0; k < each; k++) out[first + k * step] = in[first + k * step];  // read: bytes
}
WAY bytes(const unsigned char* in, unsigned char* out) { copied(in, out); }
WAY sixteen_bytes(const uint4* in, uint4* out) { copied(in, out); }
WAY dwords(const uint4* in, float* out) {
  int i = blockIdx.x * 256 + threadIdx.x;
  uint4 v = in[i & 0xffff];
  out[i] = v.x + v.y + v.z + v.w;
}

WAY indexed_array(const int* in, float* out) {
  float held[300];
  int i = blockIdx.x * 256 + threadIdx.x;
  for (int k = 0; k < 300; k++) held[k] = k * 0.5f;  // scratch
  for (int k = 0; k < 32; k++) held[in[k] & 255] += 1;
  out[i] = held[in[i] & 255];
}

WAY unindexed_array(const int* in, float* out) {
  int i = blockIdx.x * 256 + threadIdx.x;
  float held = 0;
  for (int k = 0; k < 32; k++) held += in[k] & 255;
  out[i] = held + in[i];
}

WAY one_counter(int* out) {
  if (threadIdx.x % 8 == 0) atomicAdd(out, (int)threadIdx.x);  // atomic
}
WAY many_counters(int* out) {
  if (threadIdx.x % 8 == 0) atomicAdd(out + (blockIdx.x * 256 + threadIdx.x & 0xffff), (int)threadIdx.x);
}

template <bool EVEN>
__device__ void uneven(float* out) {
  float x = threadIdx.x;
  for (int turn = 0; turn < 8; turn++) {
    if (EVEN || threadIdx.x / 64 == turn % 4) x = work(x, 60);
    __syncthreads();  // barrier
  }
  out[blockIdx.x * 256 + threadIdx.x] = x;
}
WAY uneven_waves(float* out) { uneven<false>(out); }
WAY even_waves(float* out) { uneven<true>(out); }
WAY waves_in_turn(float* out) {
  float x = threadIdx.x;
  for (int turn = 0; turn < 8; turn++) {
    if (turn % 4 == 0) x = work(x, 60);
    __syncthreads();
  }
  out[blockIdx.x * 256 + threadIdx.x] = x;
}

WAY some_lanes(float* out) {
  float x = threadIdx.x;
  if (threadIdx.x % 64 < 8) x = work(x, 300);
  out[blockIdx.x * 256 + threadIdx.x] = x;
}
WAY those_lanes(float* out) { out[blockIdx.x * 256 + threadIdx.x] = work(threadIdx.x, 300); }
WAY all_lanes(float* out) { out[blockIdx.x * 256 + threadIdx.x] = work(threadIdx.x, 300); }

WAY product(const float* a, const float* b, float* c) {
  float sum[8][4] = {};
#pragma unroll 1
  for (int k = 0; k < 64; k++)
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) sum[i][j] += a[i * 64 + k] * b[k * 64 + (threadIdx.x + j) % 64];  // multiply-add
  float all = 0;
  for (int i = 0; i < 32; i++) all += sum[i / 4][i % 4];
  c[blockIdx.x * 256 + threadIdx.x] = all;
}

WAY divided(const float* in, float* out, int n) {
  float sum = 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < 64 * 256; i += 256) sum += in[(i / n * 8 + i % n) % 4096];  // read: divided
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
WAY divided_by_eight(const float* in, float* out, int n) {
  float sum = 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < 64 * 256; i += 256) sum += in[(i / 8 * 8 + i % 8) % 4096];
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

#define TURNED(v) __builtin_amdgcn_perm(v, v * 3, 0x02010003)
#define TURNED_OFTEN(v) TURNED(TURNED(TURNED(TURNED(TURNED(TURNED(TURNED(TURNED(v))))))))
WAY rearranged(const unsigned* in, unsigned* out) {
  unsigned sum = 0;
  for (int k = 0; k < 64; k++) sum ^= TURNED_OFTEN(in[k * 256 + threadIdx.x]);  // read: rearranged
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
WAY as_it_lies(const unsigned* in, unsigned* out) {
  unsigned sum = 0;
  for (int k = 0; k < 64; k++) sum ^= in[k * 256 + threadIdx.x];
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

template <int ROW>
__device__ void words(const float* in, float* out) {
  __shared__ float tile[64 * ROW];
  float sum = in[threadIdx.x];
  for (int i = threadIdx.x; i < 64 * ROW; i += 256) tile[i] = sum;
  __syncthreads();
#pragma unroll 1
  for (int turn = 0; turn < 400; turn++) sum += tile[threadIdx.x % 64 * ROW + (turn * 7) % 64];  // read: words
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
WAY columns_of_words(const float* in, float* out) { words<64>(in, out); }
WAY columns_of_padded_words(const float* in, float* out) { words<65>(in, out); }

template <bool EVEN>
__device__ void of_groups(float* out) {
  float x = threadIdx.x;
  x = work(x, EVEN || blockIdx.x != 7 ? 300 : 15000);
  out[blockIdx.x * 256 + threadIdx.x] = x;
}
WAY uneven_groups(float* out) { of_groups<false>(out); }
WAY even_groups(float* out) { of_groups<true>(out); }

WAY growing_groups(float* out) { out[blockIdx.x * 256 + threadIdx.x] = work(threadIdx.x, 30 + blockIdx.x * 4); }
WAY paired_groups(float* out) {
  const int other = gridDim.x - 1 - blockIdx.x;
  out[blockIdx.x * 256 + threadIdx.x] = work(work(threadIdx.x, 15 + blockIdx.x * 2), 15 + other * 2);
}

template <int WIDTH>
__device__ void of_rows(const float* in, float* out) {
  float x = 0;
  for (int turn = 0; turn < 16; turn++) {
    if (threadIdx.x % 64 < WIDTH) x += in[turn * 64 + threadIdx.x];  // read: masked
    x = work(x, 30);
  }
  out[blockIdx.x * 256 + threadIdx.x] = x;
}
WAY short_rows(const float* in, float* out) { of_rows<16>(in, out); }
WAY short_rows_together(const float* in, float* out) { of_rows<64>(in, out); }
WAY long_rows(const float* in, float* out) { of_rows<64>(in, out); }

WAY fenced(float* out) {
  for (int turn = 0; turn < 4; turn++) {
    out[blockIdx.x * 256 + threadIdx.x] = turn;
    __threadfence();  // fence
  }
}
WAY fenced_for_its_workgroup(float* out) {
  for (int turn = 0; turn < 4; turn++) {
    out[blockIdx.x * 256 + threadIdx.x] = turn;
    __threadfence_block();
  }
}

template <int EACH>
__device__ void counted_in_lds(const int* in, float* out) {
  __shared__ int bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int turn = 0; turn < 64; turn++) atomicAdd(&bins[threadIdx.x / EACH], in[threadIdx.x] + turn);  // LDS atomic
  __syncthreads();
  out[blockIdx.x * 256 + threadIdx.x] = bins[threadIdx.x];
}
WAY few_bins(const int* in, float* out) { counted_in_lds<32>(in, out); }
WAY many_bins(const int* in, float* out) { counted_in_lds<1>(in, out); }

WAY in_double(float* out) {
  float x = threadIdx.x;
  for (int turn = 0; turn < 300; turn++) x = x * 0.99 + 0.01;  // double
  out[blockIdx.x * 256 + threadIdx.x] = x;
}
WAY in_float(float* out) {
  float x = threadIdx.x;
  for (int turn = 0; turn < 300; turn++) x = x * 0.99f + 0.01f;
  out[blockIdx.x * 256 + threadIdx.x] = x;
}

typedef float float4_of __attribute__((ext_vector_type(4)));
typedef _Float16 half4_of __attribute__((ext_vector_type(4)));
WAY matrix_product(const half4_of* a, const half4_of* b, float4_of* c) {
  float4_of sum = {};
#pragma unroll 4
  for (int k = 0; k < 32; k++)
    sum =
        __builtin_amdgcn_mfma_f32_16x16x16f16(a[k * 64 + threadIdx.x % 64], b[k * 64 + threadIdx.x % 64], sum, 0, 0, 0);
  c[blockIdx.x * 64 + threadIdx.x % 64] = sum;
}
WAY products_of_fp32(float4_of* out) {
  float4_of sum = {};
  float a = threadIdx.x;
  for (int k = 0; k < 256; k++) sum = __builtin_amdgcn_mfma_f32_16x16x4f32(a, a, sum, 0, 0, 0);  // fp32 product
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
WAY products_of_fp16(float4_of* out) {
  float4_of sum = {};
  half4_of a = (_Float16)threadIdx.x;
  for (int k = 0; k < 64; k++) sum = __builtin_amdgcn_mfma_f32_16x16x16f16(a, a, sum, 0, 0, 0);
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

WAY a_little_each_time(float* out, int part) { out[part * gridDim.x * 256 + blockIdx.x * 256 + threadIdx.x] = part; }
WAY all_at_once(float* out) { out[blockIdx.x * 256 + threadIdx.x] = 1; }

template <class... Kernels>
void launch(int workgroups, float* out, Kernels... kernels) {
  (kernels<<<workgroups, 256>>>(out), ...);
}
template <class In, class... Kernels>
void launch_on(int workgroups, const In* in, float* out, Kernels... kernels) {
  (kernels<<<workgroups, 256>>>(in, out), ...);
}

int main() {
  int* in;
  float* out;
  float4 *from, *to;
  hipMalloc(&in, 4 << 20);
  hipMalloc(&out, 4 << 20);
  hipMalloc(&from, 64 << 20);
  hipMalloc(&to, 64 << 20);
  hipMemset(in, 0, 4 << 20);
  const float* floats = (float*)in;
  launch(64, out, few_workgroups, few_and_short);
  launch(256, out, four_times_as_many);
  launch(304, out, one_round);
  launch(3648, out, some_lanes);
  launch(2128, out, columns_of_32, columns_of_36, columns_of_33);
  launch(456, out, those_lanes);
  launch(320, out, a_round_and_a_bit);
  launch(608, out, two_rounds, columns_of_a_full_tile, swizzled_columns_of_a_full_tile);
  launch(2432, out, all_at_once);
  launch(304, out, enough_workgroups, uneven_waves, even_waves, waves_in_turn, all_lanes, uneven_groups, even_groups,
         growing_groups, paired_groups, fenced, fenced_for_its_workgroup, in_double, in_float);
  launch_on(304, (const float*)from, out, power_of_two);
  launch_on(304, floats, out, columns_of_words, columns_of_padded_words, long_rows);
  launch_on(3648, floats, out, short_rows);
  short_rows_together<<<912, 256>>>(floats, out);
  launch_on(304, in, out, indexed_array, unindexed_array, few_bins, many_bins);
  launch_on(912, in, out, much_lds, lds_for_two, little_lds);
  launch_on(2432, in, out, many_registers, fewer_registers);
  launch_on(912, floats, out, few_registers, strided, side_by_side);
  launch_on(2432, floats, out, one_by_one_and_many_waves);
  one_by_one_and_few_waves<<<1824, 64>>>(floats, out);
  bytes<<<1216, 256>>>((unsigned char*)from, (unsigned char*)to);
  sixteen_bytes<<<1216, 256>>>((uint4*)from, (uint4*)to);
  dwords<<<304, 256>>>((uint4*)in, out);
  rearranged<<<2432, 256>>>((unsigned*)in, (unsigned*)out);
  as_it_lies<<<2432, 256>>>((unsigned*)in, (unsigned*)out);
  divided<<<304, 256>>>(floats, out, 7);
  divided_by_eight<<<304, 256>>>(floats, out, 7);
  one_counter<<<304, 256>>>(in);
  many_counters<<<304, 256>>>(in);
  product<<<2432, 256>>>(floats, floats, out);
  matrix_product<<<2432, 256>>>((half4_of*)in, (half4_of*)in, (float4_of*)out);
  products_of_fp32<<<304, 256>>>((float4_of*)out);
  products_of_fp16<<<304, 256>>>((float4_of*)out);
  for (int part = 0; part < 8; part++) a_little_each_time<<<304, 256>>>(out, part);
  stream<<<16384, 256>>>(from, to);
  return hipDeviceSynchronize();
}
