// Memory that nothing has written, and where it leads: each name is a way to the host, or to what decides. `right_` ones are
// as they should be. The name stands on stderr before what is said of it.
#include <hip/hip_runtime.h>
#include <stdio.h>
#include <string.h>
#include <vector>

constexpr int N = 1024, THREADS = 256;
struct Padded {
  int i;
  double d;
};
struct alignas(16) Wide {
  char c;
  float4 v;
};

#define INDEX const int i = blockIdx.x * THREADS + threadIdx.x
__global__ void twice(const float* a, float* o, int n) {
  INDEX;
  if (i < n) o[i] = a[i] * 2;
}
__global__ void copy(const float* a, float* o, int n) {
  INDEX;
  if (i < n) o[i] = a[i];
}
__global__ void marks_positive(const float* a, float* o) {
  INDEX;
  if (a[i] > 0) o[i] = 1;
}
__global__ void all_or_nothing(const int* a, float* o) {
  INDEX;
  if (a[blockIdx.x] == 7) o[i] = 1;
}
__global__ void scatters(const int* a, float* o) {
  INDEX;
  o[a[i] & (N - 1)] = 1;
}
template <class T> __global__ void adds(const T* a, T* o) {
  INDEX;
  atomicAdd(o, a[i]);
}
__global__ void adds_by_swaps(const float* a, unsigned* o) {
  INDEX;
  for (unsigned old = *o, seen;; old = seen) {
    seen = atomicCAS(o, old, __float_as_uint(__uint_as_float(old) + a[i]));
    if (seen == old) break;
  }
}
__global__ void turns(const float* a, float* o) {  // by LDS
  __shared__ float tile[THREADS];
  INDEX;
  tile[threadIdx.x] = a[i] * 3;
  __syncthreads();
  o[i] = tile[THREADS - 1 - threadIdx.x];
}
__global__ void counts(const float* a, float* o) {
  __shared__ float sum;
  INDEX;
  if (!threadIdx.x) sum = 0;
  __syncthreads();
  atomicAdd(&sum, a[i]);
  __syncthreads();
  if (!threadIdx.x) o[blockIdx.x] = sum;
}
__global__ void spins(float* o) {
  INDEX;
  float local;
  asm volatile("v_mov_b32 %0, v60" : "=v"(local)::"v60");
  o[i] = local;
}
template <class T> __global__ void next(const T* a, T* o) {
  INDEX;
  o[i] = a[i] + T(1);
}
__global__ void allocates(float** at, bool writes) {
  INDEX;
  at[i] = (float*)malloc(16);
  if (writes) at[i][2] = i;
}
__global__ void takes(float** at, float* o) {
  INDEX;
  o[i] = at[i][2] + 1;
  free(at[i]);
}

// --- as they should be ---------------------------------------------------------------------------------------

template <class T> __global__ void copies(const T* a, T* o) {
  INDEX;
  o[i] = a[i];
}
__global__ void makes(Padded* p, Wide* w) {
  INDEX;
  p[i].i = i, p[i].d = i;
  w[i].c = 1, w[i].v = float4{1, 2, 3, 4};
}
__global__ void turns_structs(const Padded* p, Padded* o) {
  __shared__ Padded tile[THREADS];
  INDEX;
  tile[threadIdx.x] = p[i];
  __syncthreads();
  o[i] = tile[threadIdx.x ^ 1];
}
__global__ void makes_three_of_four(uchar4* o) {
  INDEX;
  o[i].x = 1, o[i].y = 2, o[i].z = 3;
}
__global__ void makes_fourth(uchar4* o) {
  INDEX;
  o[i].w = 4;
}
// Loads whole tiles, and writes what is in range.
__global__ void tail(const float* a, float* o, int n) {
  __shared__ float tile[THREADS];
  INDEX;
  tile[threadIdx.x] = sqrtf(a[i]) + 1;
  __syncthreads();
  const float here = tile[threadIdx.x], other = __shfl_xor(here, 1);
  const float chosen = i + 1 < n ? other : 0;
  if (i < n) o[i] = (i ^ 1) < n ? here + other : here + chosen;
}
// A column that is missing is masked behind the sum of its row.
__global__ void rows(const int* a, int* o, int n) {
  INDEX;
  int x = a[i] * (i < n) + (a[i] ^ a[i]);
  for (int step = 32; step; step /= 2) x += __shfl_xor(x, step);
  if (threadIdx.x % 64 == 0) o[i / 64] = x;
}
__global__ void kept_in_front(const float* a, float* o, int* count) {
  INDEX;
  if (a[i] > 0) o[atomicAdd(count, 1)] = a[i];
}
__global__ void swaps(int* o) {
  INDEX;
  atomicExch(o + i, i);
}
__global__ void clears(int* o) {
  INDEX;
  o[i] = 0;
}

static const char* asked;
static bool is(const char* name) {
  if (strcmp(asked, name)) return false;
  fprintf(stderr, "%s\n", name);
  return true;
}
template <class T> struct Memory {
  T* data;
  Memory(int n, bool clear = false) {
    (void)hipMalloc(&data, n * sizeof(T));
    if (clear) (void)hipMemset(data, 0, n * sizeof(T));
  }
  void read(int n = N) {
    std::vector<T> host(n);
    (void)hipMemcpy(host.data(), data, n * sizeof(T), hipMemcpyDeviceToHost);
  }
};
#define ON <<<N / THREADS, THREADS>>>

static void run_wrong() {
  Memory<float> a(N), o(N), half(N), zeros(N, true), cleared(N, true);
  Memory<int> ints(N), clear_ints(N, true), sum(1);
  Memory<_Float16> halves(N), half_results(N);
  Memory<unsigned char> bytes(N), byte_results(N);
  Memory<double> doubles(N), double_results(N);
  if (is("never written")) o.read();
  if (is("computed")) twice ON(a.data, o.data, N), o.read();
  if (is("copied twice")) copy ON(a.data, o.data, N), copy ON(o.data, cleared.data, N), cleared.read();
  if (is("copied by the host")) {
    copy ON(a.data, o.data, N);
    (void)hipMemcpy(cleared.data, o.data, N * 4, hipMemcpyDeviceToDevice);
    cleared.read();
  }
  (void)hipMemset(half.data, 0, N * 2);
  if (is("computed in part")) twice ON(half.data, o.data, N), o.read();
  if (is("computed and copied")) twice ON(half.data, cleared.data, N), copy ON(cleared.data, o.data, N), o.read();
  if (is("branch")) marks_positive ON(a.data, cleared.data);
  if (is("branch on a copy")) copy ON(a.data, o.data, N), marks_positive ON(o.data, cleared.data);
  if (is("scalar branch")) all_or_nothing ON(ints.data, cleared.data);
  if (is("address")) scatters ON(ints.data, cleared.data);
  if (is("sum")) adds ON(zeros.data, o.data), o.read(1);
  if (is("integer sum")) adds ON(clear_ints.data, sum.data), sum.read(1);
  if (is("sum of it")) adds ON(a.data, cleared.data), cleared.read(1);
  if (is("integer sum of it")) adds ON(ints.data, clear_ints.data), clear_ints.read(1);
  if (is("compare-and-swap")) adds_by_swaps ON(zeros.data, (unsigned*)o.data);
  if (is("LDS")) turns ON(a.data, o.data), o.read();
  if (is("sum in LDS")) counts ON(a.data, o.data), o.read(N / THREADS);
  if (is("register")) spins ON(o.data), o.read();
  if (is("halves")) next ON(halves.data, half_results.data), half_results.read();
  if (is("bytes")) next ON(bytes.data, byte_results.data), byte_results.read();
  if (is("end of a large one")) {
    constexpr int LARGE = 300 << 20;
    Memory<char> large(LARGE), rest = {large};
    rest.data += LARGE - 4096, rest.read(4096);
  }
  Memory<float*> blocks(N);
  if (is("malloc")) allocates ON(blocks.data, false), takes ON(blocks.data, o.data), o.read();
  if (is("doubles")) next ON(doubles.data, double_results.data), double_results.read();
}

static void run_right() {
  Memory<float> a(N), o(N), zeros(N, true), cleared(N, true);
  Memory<Padded> padded(N), other(N), third(N);
  Memory<Wide> wide(N), other_wide(N);
  Memory<uchar4> colours(N), same(N);
  Memory<int> ints(N), sums(N, true), count(1, true), made(N);
  makes ON(padded.data, wide.data);
  copies ON(padded.data, other.data), copies ON(wide.data, other_wide.data);
  turns_structs ON(other.data, third.data);
  padded.read(), other.read(), third.read(), other_wide.read(), padded.read(1), third.read(40);
  makes_three_of_four ON(colours.data), copies ON(colours.data, same.data), makes_fourth ON(same.data), same.read();
  const int n = N - 77;
  (void)hipMemset(a.data, 0, n * 4);
  tail ON(a.data, o.data, n), o.read(n);
  (void)hipMemset(ints.data, 0, n * 4);
  rows ON(ints.data, sums.data, n), sums.read(N / 64);
  kept_in_front ON(cleared.data, o.data, count.data), count.read(1);
  swaps ON(made.data), made.read();
  clears ON(made.data), made.read();
  twice ON(zeros.data, o.data, N), o.read();
  Memory<float> front(N), behind(N);  // with room for more
  twice<<<1, THREADS>>>(zeros.data, front.data, N), copy ON(front.data, behind.data, N), front.read(), behind.read();
  Memory<float*> blocks(N);
  allocates ON(blocks.data, true), takes ON(blocks.data, o.data), o.read();
  float* pitched;
  size_t pitch;
  (void)hipMallocPitch((void**)&pitched, &pitch, 100, 8);
  (void)hipMemset2D(pitched, pitch, 0, 100, 8);
  std::vector<char> rows(8 * pitch);
  (void)hipMemcpy2D(rows.data(), 100, pitched, pitch, 100, 8, hipMemcpyDeviceToHost);
  (void)hipMemcpy(rows.data(), pitched, 8 * pitch, hipMemcpyDeviceToHost);
}

int main(int n, char** names) {
  for (int i = 1; i < n; i++) {
    asked = names[i];
    run_wrong();
    if (is("right")) run_right();
    if (hipDeviceSynchronize() != hipSuccess) return 1;
  }
}
