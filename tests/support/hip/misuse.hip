// Faults of HIP programs, one of each kind: the argument names it. Those that begin with `right` are none.
#include "check.h"
#include <hip/hip_cooperative_groups.h>
#include <cstring>

constexpr int N = 64;

// --- kernels -----------------------------------------------------------------------------------------

__global__ void fill(int* x) { x[threadIdx.x] = threadIdx.x; }

__global__ void inactive_lane(int* x) {
  const int mine = x[threadIdx.x] + threadIdx.x;
  if (threadIdx.x < 32) x[threadIdx.x] = __shfl(mine * 3, threadIdx.x + 32);
}

__global__ void right_sum_of_active_lanes(int* x, int n) {
  const int lane = threadIdx.x;
  if (lane >= n) return;
  int sum = x[lane] + lane, before = sum;
  for (int step = 32; step; step /= 2) sum += __shfl_xor(sum, step);
  for (int step = 1; step < 64; step *= 2) {
    const int other = __shfl_up(before, step), next = __shfl_down(before, step);
    if (lane >= step) before += other;
    if (lane + step < n) before += next;
  }
  float mean = sum, count = 1;
  int largest = before, where = lane;
  for (int step = 32; step; step /= 2) {
    const float others = __shfl_down(count, step), distance = __shfl_down(mean, step) - mean;
    mean += distance * others / (count + others);
    count += others;
    const int other = __shfl_down(largest, step), there = __shfl_down(where, step);
    if (other > largest) largest = other, where = there;
  }
  x[lane] = sum + before + (int)mean + where;
}

__global__ void bytes_race(unsigned char* x) {
  if (threadIdx.x == 0) x[blockIdx.x % 4] = blockIdx.x + 1;
}

__global__ void right_bytes(unsigned char* x, int* turn) {
  if (threadIdx.x) return;
  x[16 + blockIdx.x] = blockIdx.x;
  while (__hip_atomic_load(turn, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) != (int)blockIdx.x) {}
  for (int i = 0; i < 4; i++) x[i] += blockIdx.x + i;
  x[16 + blockIdx.x] += 1;
  __hip_atomic_store(turn, blockIdx.x + 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
}

__global__ void counter_reset(int* count, int* places) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *count = 0;
  __syncthreads();
  if (threadIdx.x == 0) places[blockIdx.x] = atomicAdd(count, 1);
}

__device__ __attribute__((noinline)) void put(int* at, int value) { *at = value; }

__global__ void heap_overrun(int* x) {
  int* own = (int*)malloc(N);
  for (int i = 0; i <= N / 4; i++) put(own + i, i);
  x[threadIdx.x] = own[3];
  free(own);
}
__global__ void heap_after_free(int* x) {
  int* own = (int*)malloc(N);
  put(own, 1);
  x[threadIdx.x] = *own;
  free(own);
  put(own, 2);
}
__global__ void heap_freed_twice(int* x) {
  int* own = (int*)malloc(N);
  put(own, 1);
  x[threadIdx.x] = *own;
  free(own);
  free(own);
}

struct Pair {
  double value;
  int index;  // and four bytes of padding
};
struct Padded {
  float value;
  bool flag;
};
__global__ void right_padding(Pair* pairs, Padded* padded) {
  __shared__ Pair tile[N];
  __shared__ Padded flags[N];
  tile[threadIdx.x].value = pairs[threadIdx.x].value;
  tile[threadIdx.x].index = threadIdx.x;
  flags[threadIdx.x].value = threadIdx.x;
  flags[threadIdx.x].flag = threadIdx.x & 1;
  __syncthreads();
  pairs[threadIdx.x] = tile[N - 1 - threadIdx.x];
  padded[threadIdx.x] = flags[N - 1 - threadIdx.x];
}

__global__ void component_unwritten(float* sums) {
  __shared__ float4 tile[N];
  tile[threadIdx.x].x = tile[threadIdx.x].y = tile[threadIdx.x].z = sums[threadIdx.x];
  __syncthreads();
  const float4 v = tile[N - 1 - threadIdx.x];
  sums[threadIdx.x] = v.x + v.y + v.z + v.w;
}

// Only the first of the lanes that are active together sets `base`.
__global__ void right_coalesced(int* x, int* count) {
  auto block = cooperative_groups::this_thread_block();
  if (block.thread_rank() % 3 == 0) {
    auto active = cooperative_groups::coalesced_threads();
    int base;
    if (active.thread_rank() == 0) base = atomicAdd(count, (int)active.size());
    base = active.shfl(base, 0);
    x[base + active.thread_rank()] = threadIdx.x;
  }
}

__global__ void past_its_end(float* from, float* to) {
  for (float* p = from + threadIdx.x; p <= to; p += N) *p = 1;
}
__global__ void far_past_the_end(int* x, int stride) { x[blockIdx.x * stride + threadIdx.x] = 1; }

struct View {
  int* data;
};
__global__ void host_pointer_inside(View* view) { view->data[threadIdx.x] = 1; }

__global__ void wait_for_all(int* x) {
  cooperative_groups::this_grid().sync();
  x[threadIdx.x] = 1;
}

// The last to arrive has one fence, between what it learns and what it tells.
__global__ void right_barrier_with_one_fence(unsigned* count, unsigned* round, int* x, int* sums) {
  if (threadIdx.x) return;
  for (unsigned r = 1; r < 6; r++) {
    if (r % 2) x[blockIdx.x] = r;
    else sums[blockIdx.x] += x[(blockIdx.x + 1) % gridDim.x];
    __threadfence();
    if (atomicAdd(count, 1) == gridDim.x - 1) {
      *count = 0;
      __threadfence();
      atomicExch(round, r);
    } else {
      while (__hip_atomic_load(round, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) < r) {}
    }
    __threadfence();
  }
}

// The first wave waits at a barrier for the second, which waits for what the first does behind it.
__global__ void barrier_before_flag(int* x) {
  __shared__ int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x < 64) {
    __syncthreads();
    __hip_atomic_store(&flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_WORKGROUP);
  } else {
    while (!__hip_atomic_load(&flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_WORKGROUP)) {}
    __syncthreads();
  }
  x[threadIdx.x] = flag;
}

// The last workgroup reads without the lock what the others change under it.
__global__ void lock_passed_over(int* lock, int* sum, int* out) {
  if (threadIdx.x) return;
  if (blockIdx.x < 7) {
    while (atomicCAS(lock, 0, 1)) __builtin_amdgcn_s_sleep(1);
    __threadfence();
    *sum += 1;
    __threadfence();
    atomicExch(lock, 0);
  } else {
    out[0] = *sum;
  }
}

__global__ void add(int* sums, const int* x) { sums[threadIdx.x] += x[threadIdx.x]; }
__global__ void add_and_tell(int* sums, const int* x, int* flag, int value) {
  sums[threadIdx.x] += x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) __hip_atomic_store(flag, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}

// Pinned memory is filled, copied and used, and then filled anew behind each way in which the host may wait.
static void refill(int* pinned, int* x, int* sums, bool waits) {
  hipStream_t stream;
  hipEvent_t event;
  OK(hipStreamCreate(&stream));
  OK(hipEventCreate(&event));
  int value = 0, *flag;
  OK(hipHostMalloc(&flag, sizeof(int), 0));
  const auto upload = [&] {
    value++;
    for (int i = 0; i < N; i++) pinned[i] = value * N + i;
    return hipMemcpyAsync(x, pinned, 4 * N, hipMemcpyHostToDevice, stream);
  };
  const auto use = [&] {
    OK(upload());
    add<<<1, N, 0, stream>>>(sums, x);
  };
  use();
  if (!waits) return (void)upload();
  OK(hipEventRecord(event, stream));
  OK(hipEventSynchronize(event));
  use();
  OK(hipStreamSynchronize(stream));
  use();
  while (hipStreamQuery(stream) == hipErrorNotReady) {}
  use();
  OK(hipDeviceSynchronize());
  use();
  static volatile bool called = false;
  const auto changes = [](void* data) {
    ((int*)data)[3] = 0;
    called = true;
  };
  OK(hipLaunchHostFunc(stream, changes, pinned));
  while (!called) {}
  OK(upload());
  add_and_tell<<<1, N, 0, stream>>>(sums, x, flag, value);
  while (*(volatile int*)flag != value) {}
  use();
  OK(hipMemcpy(x, sums, 4 * N, hipMemcpyDeviceToDevice));  // of the null stream, which waits for the other
  OK(hipDeviceSynchronize());
  use();
  OK(hipMemcpyAsync(pinned, sums, 4 * N, hipMemcpyDeviceToHost, stream));  // the device writes there in turn
  OK(hipStreamSynchronize(stream));
}

// What the device leaves where the host looks: looked at behind each way to wait, or before.
static void look_at_results(int* pinned, int* x, bool waits, bool of_kernel) {
  hipStream_t stream;
  hipEvent_t event;
  int *managed, *flag, sum = 0;
  OK(hipStreamCreate(&stream));
  OK(hipEventCreate(&event));
  OK(hipMallocManaged(&managed, 4 * N));
  OK(hipHostMalloc(&flag, sizeof(int), 0));
  *flag = 0;
  const auto work = [&] {
    fill<<<1, N, 0, stream>>>(managed);
    OK(hipMemcpyAsync(pinned, managed, 4 * N, hipMemcpyDeviceToHost, stream));
    fill<<<1, N, 0, stream>>>(x);
    OK(hipEventRecord(event, stream));
  };
  const auto look = [&] { sum += pinned[N - 1] + managed[N - 1]; };
  work();
  if (!waits) {
    (void)*(volatile int*)(of_kernel ? managed : pinned);
    return;
  }
  OK(hipEventSynchronize(event));
  look();
  work();
  OK(hipStreamSynchronize(stream));
  look();
  work();
  while (hipEventQuery(event) == hipErrorNotReady) {}
  look();
  work();
  static volatile int called = 0;
  OK(hipLaunchHostFunc(stream, [](void* data) { called = ((int*)data)[N - 1]; }, pinned));
  OK(hipDeviceSynchronize());
  look();
  work();
  add_and_tell<<<1, N, 0, stream>>>(managed, x, flag, 1);
  while (*(volatile int*)flag != 1) {}
  look();
  EXPECT(called == N - 1 && sum == 2 * 5 * (N - 1) + N - 1);
  fill<<<1, N, 0, stream>>>(managed);
  OK(hipFree(managed));
}

__device__ int variable;
__global__ void set_variable(int value) { variable = value; }

static void wait_in_host_function(void* stream) { (void)hipStreamSynchronize((hipStream_t)stream); }

__constant__ int constants[N];

int main(int, char** arguments) {
  const auto is = [&](const char* name) { return !strcmp(arguments[1], name); };
  DeviceArray<int> x(4 * N), y(4 * N);
  std::vector<int> host(N);
  OK(hipMemset(x.data, 0, 16 * N));
  OK(hipMemset(y.data, is("counter_reset"), 16 * N));
  void* const freed = [] {
    DeviceArray<int> gone(N);
    return gone.data;
  }();
  int* pinned;
  OK(hipHostMalloc(&pinned, 4 * N, 0));

  if (is("inactive_lane")) inactive_lane<<<1, N>>>(x.data);
  if (is("right_sum_of_active_lanes")) right_sum_of_active_lanes<<<1, N>>>(x.data, 40);
  if (is("bytes_race")) bytes_race<<<8, N>>>((unsigned char*)x.data);
  if (is("right_bytes")) right_bytes<<<8, N>>>((unsigned char*)x.data, y.data);
  if (is("counter_reset")) counter_reset<<<4, N>>>(y.data, x.data);
  if (is("heap_overrun")) heap_overrun<<<1, N>>>(x.data);
  if (is("heap_after_free")) heap_after_free<<<1, N>>>(x.data);
  if (is("heap_freed_twice")) heap_freed_twice<<<1, N>>>(x.data);
  if (is("right_padding")) right_padding<<<1, N>>>((Pair*)x.data, (Padded*)y.data);
  if (is("component_unwritten")) component_unwritten<<<1, N>>>((float*)x.data);
  if (is("past_its_end")) past_its_end<<<1, N>>>((float*)x.data, (float*)x.data + 4 * N);
  if (is("far_past_the_end")) {
    DeviceArray<int> neighbours[4] = {DeviceArray<int>(1 << 18), DeviceArray<int>(1 << 18), DeviceArray<int>(1 << 18),
                                      DeviceArray<int>(1 << 18)};
    far_past_the_end<<<2, N>>>(neighbours[3].data, (1 << 18) + (1 << 16));
    (void)hipDeviceSynchronize();
  }
  if (is("host_pointer_inside")) {
    View view{host.data()};
    OK(hipMemcpy(x.data, &view, sizeof view, hipMemcpyHostToDevice));
    host_pointer_inside<<<1, N>>>((View*)x.data);
  }
  if (is("right_coalesced")) {
    right_coalesced<<<1, 3 * N>>>(x.data, y.data);
    int i = 0, wrong = 0;
    for (int found : x.host()) wrong += i < N && found % 3 != 0, i++;
    EXPECT(y.host()[0] == N && !wrong);
  }
  if (is("peer") || is("right_peer")) {
    OK(hipSetDevice(1));
    if (is("right_peer")) OK(hipDeviceEnablePeerAccess(0, 0));
    fill<<<1, N>>>(x.data);
  }
  if (is("right_barrier_with_one_fence"))
    right_barrier_with_one_fence<<<8, N>>>((unsigned*)y.data, (unsigned*)y.data + N, x.data, x.data + N);
  if (is("barrier_before_flag")) barrier_before_flag<<<1, 2 * N>>>(x.data);
  if (is("lock_passed_over")) lock_passed_over<<<8, N>>>(x.data, x.data + N, y.data);
  if (is("pinned_refilled") || is("right_refills")) refill(pinned, x.data, y.data, is("right_refills"));
  if (is("copied_too_late") || is("written_too_late") || is("right_results"))
    look_at_results(pinned, x.data, is("right_results"), is("written_too_late"));
  if (is("variable_race") || is("right_variable")) {
    hipStream_t stream;
    OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    set_variable<<<1, 1, 0, stream>>>(7);
    if (is("right_variable")) OK(hipStreamSynchronize(stream));
    (void)hipMemcpyFromSymbol(host.data(), HIP_SYMBOL(variable), sizeof(int));
  }
  if (is("host_function_waits")) {
    hipStream_t stream;
    OK(hipStreamCreate(&stream));
    OK(hipLaunchHostFunc(stream, wait_in_host_function, stream));
    (void)hipStreamSynchronize(stream);
  }
  if (is("host_after_free")) {
    OK(hipHostFree(pinned));
    *(volatile int*)pinned = 1;
  }
  if (is("copy_over_itself")) (void)hipMemcpy(x.data + 1, x.data, 4 * N, hipMemcpyDeviceToDevice);
  if (is("launch_too_large")) fill<<<1, 2048>>>(x.data);
  if (is("right_refusal")) {
    fill<<<1, 2048>>>(x.data);
    EXPECT(hipGetLastError() == hipErrorInvalidConfiguration);
  }
  if (is("cooperative_too_large")) {
    void* list[] = {&x.data};
    (void)hipLaunchCooperativeKernel((void*)wait_for_all, dim3(1 << 20), dim3(1024), list, 0, nullptr);
  }
  if (is("copy_past_the_end")) (void)hipMemcpy(x.data, y.data, 16 * N + 4, hipMemcpyDeviceToDevice);
  if (is("copy_past_the_hosts_block")) (void)hipMemcpy(host.data(), x.data, 8 * N, hipMemcpyDeviceToHost);
  if (is("copy_past_a_large_block")) {
    std::vector<int> large(1 << 20);
    DeviceArray<int> larger(2 << 20);
    (void)hipMemcpy(large.data(), larger.data, 8 << 20, hipMemcpyDeviceToHost);
  }
  if (is("copy_of_freed")) (void)hipMemcpy(host.data(), freed, 4 * N, hipMemcpyDeviceToHost);
  if (is("copy_past_a_symbol")) (void)hipMemcpyToSymbol(HIP_SYMBOL(constants), y.data, 4 * N, 4);
  if (is("copy_of_wrong_kind")) (void)hipMemcpy(x.data, host.data(), 4 * N, hipMemcpyDeviceToDevice);
  if (is("fill_past_the_end")) (void)hipMemset(x.data, 0, 16 * N + 4);
  if (is("fill_of_freed")) (void)hipMemset(freed, 0, 4);
  if (is("fill_of_the_hosts")) (void)hipMemset(host.data(), 0, 4);
  if (is("freed_twice")) (void)hipFree(freed);
  if (is("freed_inside")) (void)hipFree(x.data + 1);
  if (is("freed_the_hosts")) (void)hipFree(host.data());
  if (is("right_calls")) {
    OK(hipMemcpy(host.data(), x.data, 4 * N, hipMemcpyDeviceToHost));
    OK(hipMemcpy(host.data() + N / 2, x.data, 2 * N, hipMemcpyDefault));
    OK(hipMemcpy(pinned, x.data, 4 * N, hipMemcpyDeviceToDevice));
    OK(hipMemcpyToSymbol(HIP_SYMBOL(constants), host.data(), 4 * N));
    OK(hipMemset(pinned, 0, 4 * N));
    void* symbol;
    OK(hipGetSymbolAddress(&symbol, HIP_SYMBOL(constants)));
    OK(hipMemset(symbol, 0, 4 * N));
    OK(hipFree(nullptr));
    std::vector<char> odd(1001), large(1 << 22);
    OK(hipMemcpy(odd.data(), x.data, 1001, hipMemcpyDeviceToHost));
    OK(hipMemcpy(x.data, large.data() + (1 << 22) - 16 * N, 16 * N, hipMemcpyHostToDevice));
  }
  std::printf("%s\n", hipGetErrorName(hipDeviceSynchronize()));
  return 0;
}
