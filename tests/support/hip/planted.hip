// Faults on purpose, one of each kind that the checks look for: the argument names it. None are those that begin with
// `late`, kernels that seem to wait for nobody, until the host answers, `variables_within`, and those `in_order`.
#include "check.h"
#include <chrono>
#include <cstring>
#include <thread>

constexpr int THREADS = 128;  // two waves

__global__ void out_of_bounds(int* x) { x[THREADS + threadIdx.x] = 1; }

// Beside each other, width and height look like an address.
__global__ void row_past_the_end(int* x, size_t, int width, int height) {
  if ((int)threadIdx.x <= width && (int)blockIdx.x < height) x[blockIdx.x * width + threadIdx.x] = 1;
}

__global__ void use_after_free(int* x) { x[threadIdx.x] = 1; }

__global__ void unwritten_register(int* x) {
  int sum;
  asm volatile("v_add_u32 %0, v60, %1" : "=v"(sum) : "v"(threadIdx.x) : "v60");
  x[threadIdx.x] = sum;
}

__global__ void unwritten_lds(int* x) {
  __shared__ int tile[THREADS];
  if (threadIdx.x != 5) tile[threadIdx.x] = 1;
  __syncthreads();
  x[threadIdx.x] = tile[THREADS - 1 - threadIdx.x];
}

__global__ void unwritten_global(int* x, const int* y) {
  if (y[threadIdx.x] > 0) x[threadIdx.x] = 1;
}

__global__ void misaligned_lds(int* x) {
  __shared__ int counters[THREADS];
  counters[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd((int*)((char*)counters + 2 + 4 * (threadIdx.x & 3)), 1);
  __syncthreads();
  x[threadIdx.x] = counters[threadIdx.x];
}

__global__ void misaligned_global(int* x) { atomicAdd((int*)((char*)x + 2), 1); }

__global__ void lds_race(int* x) {
  __shared__ int tile[THREADS];
  tile[threadIdx.x] = threadIdx.x;
  x[threadIdx.x] = tile[THREADS - 1 - threadIdx.x];  // no barrier
}

__global__ void workgroup_race(int* x) { x[threadIdx.x] = blockIdx.x; }

__device__ int shared_variable[THREADS];
__device__ int variable[8];

__global__ void variable_out_of_bounds(int* x) { variable[threadIdx.x - x[0] + 8] = 1; }

__global__ void variable_race(int* x) { shared_variable[threadIdx.x] = blockIdx.x + 1; }

__device__ int left_variable[8], right_variable[8];
__constant__ int constant_variable[8];

// Where the next one begins: one of the two stands behind the other.
__global__ void variable_overflow(int* x) {
  left_variable[x[0] + 8] = 1;
  right_variable[x[0] + 8] = 1;
}

// By an address of which the compiler does not know whose it is: a plain store it leaves out.
__global__ void constant_written(int* x) {
  int* p = constant_variable;
  asm volatile("" : "+v"(p));
  p[x[0]] = 1;
}

// Every element of each, also from behind; what is one before the first is computed and not touched.
__global__ void variables_within(int* x) {
  int i = x[0] + threadIdx.x, sum = 0;
  left_variable[i] = 1;
  right_variable[7 - i] = 2;
  __syncthreads();
  for (int* p = left_variable + 8; p != left_variable;) sum += *--p;
  for (int k = 1; k <= 8; k++) sum += right_variable[k - 1 + x[0]] + constant_variable[(k + x[0]) % 8];
  x[threadIdx.x] = sum;
}

__global__ void fill(int* x) { x[threadIdx.x] = threadIdx.x; }

__global__ void streams_race(int* y, const int* x) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void memset_race(int* y, const int* x) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void upload_race(int* y, const int* x) { y[threadIdx.x] = x[threadIdx.x]; }

__global__ void writers_race(int* x, int value) { x[threadIdx.x] = value; }

__global__ void reader_race(int* x) { x[threadIdx.x] = 2; }

__global__ void refill(int* x) { x[threadIdx.x] += 5; }

__global__ void lanes_disagree(int* x) { x[threadIdx.x / 2] = threadIdx.x; }

__global__ void before_vmcnt(int* x) {
  int value, sum;
  asm volatile(
      "global_load_dword %0, %2, off\n"
      "v_add_u32 %1, 1, %0\n"
      "s_waitcnt vmcnt(0)"
      : "=&v"(value), "=&v"(sum)
      : "v"(x + threadIdx.x)
      : "memory");
  x[threadIdx.x] = sum;
}

__global__ void before_lgkmcnt(int* x) {
  __shared__ int tile[THREADS];
  tile[threadIdx.x] = threadIdx.x;
  int value, sum, at = 4 * threadIdx.x;
  asm volatile(
      "s_waitcnt lgkmcnt(0)\n"
      "ds_read_b32 %0, %2\n"
      "v_add_u32 %1, 1, %0\n"
      "s_waitcnt lgkmcnt(0)"
      : "=&v"(value), "=&v"(sum)
      : "v"(at)
      : "memory");
  x[threadIdx.x] = sum + tile[threadIdx.x];
}

__global__ void matrix_hazard(int* x) {
  asm volatile(
      "v_mov_b32 v2, 0\nv_mov_b32 v3, 0\ns_nop 1\n"
      "v_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[2:3], 0\n"
      "v_mov_b32 %0, v9"
      : "=v"(x[threadIdx.x])
      :
      : "v2", "v3", "v8", "v9", "v10", "v11");
}

__global__ void divergent_barrier(int* x) {
  if (threadIdx.x < 64) __builtin_amdgcn_s_barrier();
  x[threadIdx.x] = 1;
  __builtin_amdgcn_s_barrier();
}

__global__ void deadlock(int* x) {
  while (__hip_atomic_load(x, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) == 0) __builtin_amdgcn_s_sleep(1);
}

__global__ void deadlock_in_graph(int* x) {
  while (__hip_atomic_load(x, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) == 0) __builtin_amdgcn_s_sleep(1);
}

constexpr auto LONGER_THAN_THE_CHECKS_PATIENCE = std::chrono::milliseconds(2500);
void answer(void* flag) {
  std::this_thread::sleep_for(LONGER_THAN_THE_CHECKS_PATIENCE);
  __atomic_store_n((int*)flag, 1, __ATOMIC_RELEASE);
}

extern __shared__ int dynamic[];
__global__ void lds_over_limit(int* x) { x[threadIdx.x] = dynamic[threadIdx.x]; }

__global__ __launch_bounds__(256) void registers_over_limit(int* x) {
  asm volatile("v_mov_b32 v200, 0" : : : "v200");
  x[threadIdx.x] = 1;
}

__global__ void branches_race(int* y, const int* x) { y[threadIdx.x] = x[threadIdx.x]; }

__global__ void branches_write(int* x, int value) { x[threadIdx.x] = value; }

__global__ void late_branch(int* y, const int* x) { y[threadIdx.x] = x[threadIdx.x]; }

__global__ void branch_overwrites(int* x) { x[threadIdx.x] = 3; }

template <class Work>
void replay(hipStream_t stream, Work work) {
  hipGraph_t graph;
  hipGraphExec_t executable;
  OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  work();
  OK(hipStreamEndCapture(stream, &graph));
  OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  (void)hipGraphLaunch(executable, stream);  // a fault shows at the end
}

// One stream's work behind another's, in each of the ways that HIP has for it.
void read_behind(hipStream_t stream, hipStream_t other, int* x, int* y) {
  hipEvent_t event;
  hipStream_t brief;
  OK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
  for (int way = 0; way < 5; way++) {
    OK(hipStreamCreate(&brief));  // one that the null stream waits for
    hipStream_t from = way < 3 ? stream : brief, to = way < 4 ? other : nullptr;
    fill<<<1, THREADS, 0, from>>>(x);
    if (way == 0 || way == 3) {
      OK(hipEventRecord(event, from));
      if (way == 3) OK(hipStreamDestroy(brief));
      OK(hipStreamWaitEvent(to, event, 0));
    }
    if (way == 1) OK(hipStreamSynchronize(from));
    if (way == 2) OK(hipDeviceSynchronize());
    streams_race<<<1, THREADS, 0, to>>>(y, x);
    OK(hipMemcpyAsync(y, x, THREADS * sizeof(int), hipMemcpyDeviceToDevice, to));
    refill<<<1, THREADS, 0, to>>>(x);
    OK(hipMemcpyAsync(x, y, THREADS * sizeof(int), hipMemcpyDeviceToDevice, to));
    OK(hipDeviceSynchronize());
    if (way != 3) OK(hipStreamDestroy(brief));
  }
}

// Of a graph that two streams' capture makes, a branch on the other one: beside `work`, or behind it.
template <class Work, class Branch>
void fork_and_join(hipStream_t stream, hipStream_t other, bool ordered, Work work, Branch branch) {
  hipEvent_t fork, join;
  OK(hipEventCreateWithFlags(&fork, hipEventDisableTiming));
  OK(hipEventCreateWithFlags(&join, hipEventDisableTiming));
  if (!ordered) OK(hipEventRecord(fork, stream));
  work();
  if (ordered) OK(hipEventRecord(fork, stream));
  OK(hipStreamWaitEvent(other, fork, 0));
  branch();
  OK(hipEventRecord(join, other));
  OK(hipStreamWaitEvent(stream, join, 0));
}
template <class Work, class Branch>
void in_branches(hipStream_t stream, hipStream_t other, bool ordered, Work work, Branch branch) {
  replay(stream, [&] { fork_and_join(stream, other, ordered, work, branch); });
}

// Forks one behind the other, more than a stream's branches have numbers, and one behind them all.
template <class Branch>
void behind_forks(hipStream_t stream, hipStream_t other, bool ordered, int* x, int* y, Branch branch) {
  const auto work = [&] { branches_write<<<1, THREADS, 0, stream>>>(x, 1); };
  replay(stream, [&] {
    for (int i = 0; i < 40; i++)
      fork_and_join(stream, other, false, work, [&] { branches_write<<<1, THREADS, 0, other>>>(y, i); });
    fork_and_join(stream, other, ordered, [&] { fill<<<1, THREADS, 0, stream>>>(x); }, branch);
  });
}

// A graph of nodes, with a graph among them: a diamond whose sides touch memory of their own, and what follows touches both.
void graph_in_order(int* x, int* y) {
  hipGraph_t graph, inner;
  hipGraphExec_t executable;
  hipGraphNode_t first, left, right, child, last;
  int* half = y + THREADS / 2;
  auto kernel = [](hipGraph_t to, const void* function, int threads, void** arguments, hipGraphNode_t* node,
                   std::initializer_list<hipGraphNode_t> needs) {
    hipKernelNodeParams p = {};
    p.func = (void*)function;
    p.gridDim = dim3(1);
    p.blockDim = dim3(threads);
    p.kernelParams = arguments;
    OK(hipGraphAddKernelNode(node, to, needs.begin(), needs.size(), &p));
  };
  void *into_left[] = {&y, &x}, *into_right[] = {&half, &x}, *all[] = {&x, &y}, *over[] = {&y};
  OK(hipGraphCreate(&graph, 0));
  OK(hipGraphCreate(&inner, 0));
  kernel(graph, (void*)fill, THREADS, &into_left[1], &first, {});
  kernel(graph, (void*)branches_race, THREADS / 2, into_left, &left, {first});
  kernel(inner, (void*)branches_race, THREADS / 2, into_right, &right, {});
  OK(hipGraphAddChildGraphNode(&child, graph, &first, 1, inner));
  kernel(graph, (void*)branches_race, THREADS, all, &last, {left, child});
  kernel(graph, (void*)branch_overwrites, THREADS, over, &left, {last});
  OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  for (int i = 0; i < 3; i++) OK(hipGraphLaunch(executable, nullptr));
  branch_overwrites<<<1, THREADS>>>(x);  // the null stream's, behind it
  OK(hipMemset(x, 0, THREADS * sizeof(int)));
}

int main(int, char** arguments) {
  const char* kind = arguments[1];
  auto is = [&](const char* name) { return !strcmp(kind, name); };
  DeviceArray<int> x(THREADS), y(THREADS);
  hipStream_t stream, other;
  OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  OK(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
  OK(hipMemset(x.data, 0, THREADS * sizeof(int)));
  if (is("out_of_bounds")) out_of_bounds<<<1, THREADS>>>(x.data);
  if (is("use_after_free")) {
    int* freed;
    OK(hipMalloc(&freed, THREADS * sizeof(int)));
    OK(hipFree(freed));
    use_after_free<<<1, THREADS>>>(freed);
  }
  if (is("row_past_the_end")) row_past_the_end<<<8, THREADS>>>(x.data, 0, THREADS / 8, 8);
  if (is("unwritten_register")) unwritten_register<<<1, THREADS>>>(x.data);
  if (is("unwritten_lds")) unwritten_lds<<<1, THREADS>>>(x.data);
  if (is("unwritten_global")) unwritten_global<<<1, THREADS>>>(x.data, y.data);
  if (is("misaligned_lds")) misaligned_lds<<<1, THREADS>>>(x.data);
  if (is("misaligned_global")) misaligned_global<<<1, THREADS>>>(x.data);
  if (is("lds_race")) lds_race<<<1, THREADS>>>(x.data);
  if (is("workgroup_race")) workgroup_race<<<2, THREADS>>>(x.data);
  if (is("variable_out_of_bounds")) {
    OK(hipMemset(x.data, 0, sizeof(int)));
    variable_out_of_bounds<<<1, 1>>>(x.data);
  }
  if (is("variable_overflow")) variable_overflow<<<1, 1>>>(x.data);
  if (is("constant_written")) constant_written<<<1, 1>>>(x.data);
  if (is("variables_within")) variables_within<<<1, 8>>>(x.data);
  if (is("streams_race") || is("copy_race") || is("overwritten_race")) fill<<<1, THREADS, 0, stream>>>(x.data);
  if (is("overwritten_race")) (void)hipMemcpyAsync(x.data, y.data, 64, hipMemcpyDeviceToDevice, other);
  if (is("writers_race")) {
    writers_race<<<1, THREADS, 0, stream>>>(x.data, 1);
    writers_race<<<1, THREADS, 0, other>>>(x.data, 2);
  }
  if (is("reader_race")) {
    streams_race<<<1, THREADS, 0, stream>>>(y.data, x.data);
    reader_race<<<1, THREADS, 0, other>>>(x.data);
  }
  if (is("memset_race") || is("memset_in_order")) {  // the program's first work: nothing has been launched yet
    OK(hipMemsetAsync(x.data, 7, THREADS * sizeof(int), stream));
    if (is("memset_in_order")) OK(hipStreamSynchronize(stream));
    memset_race<<<1, THREADS, 0, other>>>(y.data, x.data);
  }
  if (is("upload_race") || is("upload_in_order")) {
    int* from;
    OK(hipHostMalloc(&from, THREADS * sizeof(int)));
    for (int i = 0; i < THREADS; i++) from[i] = i + 1;
    OK(hipMemcpyAsync(x.data, from, THREADS * sizeof(int), hipMemcpyHostToDevice, stream));
    if (is("upload_in_order")) OK(hipStreamSynchronize(stream));
    upload_race<<<1, THREADS, 0, other>>>(y.data, x.data);
  }
  if (is("streams_race")) streams_race<<<1, THREADS, 0, other>>>(y.data, x.data);
  if (is("copy_race")) (void)hipMemcpyAsync(y.data, x.data, 64, hipMemcpyDeviceToDevice, other);
  if (is("streams_in_order")) read_behind(stream, other, x.data, y.data);
  if (is("variable_race")) variable_race<<<2, THREADS>>>(x.data);
  if (is("lanes_disagree")) lanes_disagree<<<1, THREADS>>>(x.data);
  if (is("before_vmcnt")) before_vmcnt<<<1, THREADS>>>(x.data);
  if (is("before_lgkmcnt")) before_lgkmcnt<<<1, THREADS>>>(x.data);
  if (is("matrix_hazard")) matrix_hazard<<<1, THREADS>>>(x.data);
  if (is("divergent_barrier")) divergent_barrier<<<1, THREADS>>>(x.data);
  if (is("deadlock")) deadlock<<<1, THREADS>>>(x.data);
  if (is("deadlock_in_graph")) replay(stream, [&] { deadlock_in_graph<<<1, THREADS, 0, stream>>>(x.data); });
  const auto read = [&] { branches_race<<<1, THREADS, 0, other>>>(y.data, x.data); };
  const auto clear = [&](hipStream_t on) { OK(hipMemsetAsync(x.data, 7, THREADS * sizeof(int), on)); };
  if (is("branches_race") || is("branches_in_order"))
    in_branches(stream, other, is("branches_in_order"), [&] { fill<<<1, THREADS, 0, stream>>>(x.data); }, read);
  if (is("late_branch") || is("late_branch_in_order"))
    behind_forks(stream, other, is("late_branch_in_order"), x.data, y.data,
                 [&] { late_branch<<<1, THREADS, 0, other>>>(y.data, x.data); });
  if (is("branches_write"))
    in_branches(
        stream, other, false, [&] { branches_write<<<1, THREADS, 0, stream>>>(x.data, 1); },
        [&] { branches_write<<<1, THREADS, 0, other>>>(x.data, 2); });
  if (is("branch_overwrites"))
    in_branches(
        stream, other, false, [&] { branches_race<<<1, THREADS, 0, stream>>>(y.data, x.data); },
        [&] { branch_overwrites<<<1, THREADS, 0, other>>>(x.data); });
  if (is("branch_clears")) {
    fill<<<1, THREADS>>>(x.data);
    OK(hipDeviceSynchronize());
    in_branches(
        stream, other, false, [&] { branches_race<<<1, THREADS, 0, stream>>>(y.data, x.data); }, [&] { clear(other); });
  }
  if (is("cleared_in_order")) {
    in_branches(stream, other, true, [&] { clear(stream); }, read);
    in_branches(stream, other, true, [&] { branch_overwrites<<<1, THREADS, 0, stream>>>(x.data); }, read);
    branch_overwrites<<<1, THREADS, 0, stream>>>(y.data);  // behind the graphs
  }
  if (is("graph_in_order")) graph_in_order(x.data, y.data);
  if (is("late_graph")) {
    deadlock<<<1, THREADS, 0, stream>>>(x.data);
    replay(other, [&] { OK(hipLaunchHostFunc(other, answer, x.data)); });
  }
  if (is("late_thread")) {
    std::thread late(answer, x.data);
    deadlock<<<1, THREADS>>>(x.data);
    OK(hipDeviceSynchronize());
    late.join();
  }
  if (is("late_host_function")) {
    deadlock<<<1, THREADS>>>(x.data);
    OK(hipLaunchHostFunc(other, answer, x.data));
  }
  if (is("lds_over_limit")) lds_over_limit<<<1, THREADS, 200 * 1024>>>(x.data);
  if (is("registers_over_limit")) registers_over_limit<<<1, 1024>>>(x.data);
  hipError_t launched = hipGetLastError(), done = hipDeviceSynchronize();
  std::printf("%s\n", hipGetErrorName(launched ? launched : done));
  return arguments[2] ? 0 : launched || done;  // with a second word: who does not look
}
