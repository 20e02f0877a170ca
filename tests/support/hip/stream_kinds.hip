// Pairs of kernels on two streams, of which the second touches what the first does: by every kind of access. Each pair's
// name is told on stderr before it. With an argument: the second stream waits for the first.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <functional>

constexpr int N = 64;
using Buffers = int* const*;  // two allocations to meet in, one of the kernel's own

__global__ void stores(int* x) { x[threadIdx.x] = threadIdx.x + 1; }
__global__ void stores_bytes(int* x) {
  for (int i = 0; i < 4; i++) ((char*)(x + threadIdx.x))[i] = i + 1;
}
__global__ void stores_volatile(int* x) { ((volatile int*)x)[threadIdx.x] = threadIdx.x + 1; }
__global__ void stores_streaming(int* x) { __builtin_nontemporal_store((int)threadIdx.x + 1, x + threadIdx.x); }
__global__ void adds(int* x) { atomicAdd(x + threadIdx.x, threadIdx.x + 2); }
__global__ void adds_floats(float* x) { unsafeAtomicAdd(x + threadIdx.x, 1.0f); }
__global__ void exchanges(int* x, int* y) { y[threadIdx.x] = atomicExch(x + threadIdx.x, 7); }
__global__ void stores_in_both(int* x, int* y) { (threadIdx.x & 1 ? y : x)[threadIdx.x] = 5; }

__global__ void loads(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void loads_wide(const int4* x, int4* y) { y[threadIdx.x & 15] = x[threadIdx.x & 15]; }
__global__ void loads_scalar(const int* __restrict__ x, int* __restrict__ y) { y[threadIdx.x] = x[blockIdx.x]; }
__global__ void loads_to_lds(const int* x, int* y) {
  __shared__ int tile[N];
  __builtin_amdgcn_global_load_lds((void*)(x + threadIdx.x), (__attribute__((address_space(3))) void*)tile, 4, 0, 0);
  __builtin_amdgcn_s_waitcnt(0);
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x];
}
__global__ void loads_of_both(const int* x, const int* z, int* y) {
  y[threadIdx.x] = (threadIdx.x & 1 ? z : x)[threadIdx.x];
}

// Right without an event: what the atomics themselves say.
__global__ void hands_over(int* data, int* flag) {
  data[threadIdx.x] = threadIdx.x;
  __threadfence();
  __syncthreads();
  if (!threadIdx.x) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
}
__global__ void takes_over(const int* data, int* flag, int* y) {
  if (!threadIdx.x)
    while (!__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT)) __builtin_amdgcn_s_sleep(1);
  __syncthreads();
  y[threadIdx.x] = data[threadIdx.x];
}
__global__ void inserts(int* table, int key) {
  for (int at = threadIdx.x, mine = key + threadIdx.x;; at = (at + 1) % (2 * N)) {
    const int there = table[at];
    if (there == mine || (!there && !atomicCAS(table + at, 0, mine))) return;
  }
}
__global__ void appends(int* list, int* count) { list[atomicAdd(count, 1)] = threadIdx.x; }
__global__ void largest(int* x, int value) { atomicMax(x, value + (int)threadIdx.x); }

int main(int argc, char**) {
  hipStream_t one, other;
  hipEvent_t event;
  (void)hipStreamCreateWithFlags(&one, hipStreamNonBlocking),
      (void)hipStreamCreateWithFlags(&other, hipStreamNonBlocking);
  (void)hipEventCreateWithFlags(&event, hipEventDisableTiming);
  using Launch = std::function<void(Buffers, hipStream_t)>;
  struct Kind {
    const char* name;
    Launch launch;
  };
  const auto pair = [&](const Kind& first, const Kind& second) {
    int* b[3];
    for (int*& one : b) (void)hipMalloc(&one, 2 * N * 4), (void)hipMemset(one, 0, 2 * N * 4);
    (void)hipDeviceSynchronize();
    fflush(stdout), fprintf(stderr, "PAIR %s %s\n", first.name, second.name);
    first.launch(b, one);
    if (argc > 1) (void)hipEventRecord(event, one), (void)hipStreamWaitEvent(other, event, 0);
    second.launch(b, other);
    (void)hipDeviceSynchronize();
    for (int* one : b) (void)hipFree(one);
  };
  const Kind writers[] = {
      {"stores", [](Buffers b, hipStream_t s) { stores<<<1, N, 0, s>>>(b[0]); }},
      {"stores_bytes", [](Buffers b, hipStream_t s) { stores_bytes<<<1, N, 0, s>>>(b[0]); }},
      {"stores_volatile", [](Buffers b, hipStream_t s) { stores_volatile<<<1, N, 0, s>>>(b[0]); }},
      {"stores_streaming", [](Buffers b, hipStream_t s) { stores_streaming<<<1, N, 0, s>>>(b[0]); }},
      {"adds", [](Buffers b, hipStream_t s) { adds<<<1, N, 0, s>>>(b[0]); }},
      {"adds_floats", [](Buffers b, hipStream_t s) { adds_floats<<<1, N, 0, s>>>((float*)b[0]); }},
      {"exchanges", [](Buffers b, hipStream_t s) { exchanges<<<1, N, 0, s>>>(b[0], b[1]); }},
      {"stores_in_both", [](Buffers b, hipStream_t s) { stores_in_both<<<1, N, 0, s>>>(b[0], b[1]); }},
  };
  const Kind readers[] = {
      {"loads", [](Buffers b, hipStream_t s) { loads<<<1, N, 0, s>>>(b[0], b[2]); }},
      {"loads_wide", [](Buffers b, hipStream_t s) { loads_wide<<<1, N, 0, s>>>((int4*)b[0], (int4*)b[2]); }},
      {"loads_scalar", [](Buffers b, hipStream_t s) { loads_scalar<<<1, N, 0, s>>>(b[0], b[2]); }},
      {"loads_to_lds", [](Buffers b, hipStream_t s) { loads_to_lds<<<1, N, 0, s>>>(b[0], b[2]); }},
      {"loads_of_both", [](Buffers b, hipStream_t s) { loads_of_both<<<1, N, 0, s>>>(b[0], b[1], b[2]); }},
      {"copies", [](Buffers b, hipStream_t s) { (void)hipMemcpyAsync(b[2], b[0], N * 4, hipMemcpyDeviceToDevice, s); }},
  };
  for (const Kind& writer : writers)
    for (const Kind& reader : readers) pair(writer, reader);
  for (const Kind& first : {writers[0], writers[4], readers[0], readers[3]})
    for (const Kind& second : {writers[0], writers[4]})
      if (first.name != second.name) pair(first, second);
  const Kind silent[][2] = {
      {writers[4], writers[4]},
      {{"hands_over", [](Buffers b, hipStream_t s) { hands_over<<<1, N, 0, s>>>(b[0], b[1]); }},
       {"takes_over", [](Buffers b, hipStream_t s) { takes_over<<<1, N, 0, s>>>(b[0], b[1], b[2]); }}},
      {{"inserts", [](Buffers b, hipStream_t s) { inserts<<<1, N, 0, s>>>(b[0], 1); }},
       {"inserts", [](Buffers b, hipStream_t s) { inserts<<<1, N, 0, s>>>(b[0], 33); }}},
      {{"appends", [](Buffers b, hipStream_t s) { appends<<<1, N, 0, s>>>(b[0], b[1]); }},
       {"appends", [](Buffers b, hipStream_t s) { appends<<<1, N, 0, s>>>(b[0], b[1]); }}},
      {{"largest", [](Buffers b, hipStream_t s) { largest<<<1, N, 0, s>>>(b[0], 1); }},
       {"largest", [](Buffers b, hipStream_t s) { largest<<<1, N, 0, s>>>(b[0], 9); }}},
  };
  fprintf(stderr, "SILENT\n");
  for (const auto& [first, second] : silent) pair(first, second);
  return 0;
}
