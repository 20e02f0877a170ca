// Programs in which waves meet without barriers, each right, and with one fence or one scope less than it needs.
// lock_free PROGRAM FAULTY: the name of one, and 1 for the one with the fault.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hip/hip_runtime.h>

#define LOAD(P, ORDER, SCOPE) __hip_atomic_load(P, ORDER, __HIP_MEMORY_SCOPE_##SCOPE)
#define STORE(P, X, ORDER, SCOPE) __hip_atomic_store(P, X, ORDER, __HIP_MEMORY_SCOPE_##SCOPE)
constexpr int RELAXED = __ATOMIC_RELAXED, ACQUIRE = __ATOMIC_ACQUIRE, RELEASE = __ATOMIC_RELEASE;
constexpr int GROUPS = 16;

__device__ void pause() { __builtin_amdgcn_s_sleep(1); }

// words: [0] the sequence, [64] and [128] data that belong together. out: whether a reader saw a pair that does not.
template <bool FAULTY> __global__ void seqlock(int* words, int* out) {
  int *sequence = words, *first = words + 64, *second = words + 128;
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    for (int i = 1; i <= 20; i++) {
      STORE(sequence, 2 * i - 1, RELAXED, AGENT);
      __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
      STORE(first, i, RELAXED, AGENT);
      STORE(second, i, RELAXED, AGENT);
      STORE(sequence, 2 * i, RELEASE, AGENT);
    }
    return;
  }
  for (int tries = 0; tries < 20; tries++) {
    const int before = LOAD(sequence, ACQUIRE, AGENT);
    const int a = LOAD(first, RELAXED, AGENT);
    const int b = LOAD(second, RELAXED, AGENT);
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    const int after = LOAD(sequence, RELAXED, AGENT);
    const bool whole = FAULTY ? before % 2 == 0 : before % 2 == 0 && before == after;
    if (whole && a != b) out[blockIdx.x] = 1;
    pause();
  }
}

// words: [0] the next ticket, [64] who is served, [128] what they count in.
template <bool FAULTY> __global__ void ticket_lock(int* words, int* out) {
  int *next = words, *serving = words + 64, *total = words + 128;
  if (threadIdx.x) return;
  for (int i = 0; i < 3; i++) {
    const int mine = __hip_atomic_fetch_add(next, 1, RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    while (LOAD(serving, FAULTY ? RELAXED : ACQUIRE, AGENT) != mine) pause();
    *total += 1;
    STORE(serving, mine + 1, FAULTY ? RELAXED : RELEASE, AGENT);
    if (mine == 3 * GROUPS - 1) out[0] = *total != 3 * GROUPS;
  }
}

// words: [0] whether it is made (2) or being made (1), [64] what is made.
template <bool FAULTY> __global__ void double_checked(int* words, int* out) {
  int *made = words, *value = words + 64;
  if (threadIdx.x) return;
  if (LOAD(made, FAULTY ? RELAXED : ACQUIRE, AGENT) != 2) {
    int none = 0;
    if (__hip_atomic_compare_exchange_strong(made, &none, 1, RELAXED, RELAXED, __HIP_MEMORY_SCOPE_AGENT)) {
      *value = 42;
      STORE(made, 2, FAULTY ? RELAXED : RELEASE, AGENT);
    }
    while (LOAD(made, FAULTY ? RELAXED : ACQUIRE, AGENT) != 2) pause();
  }
  out[blockIdx.x] = *value != 42;
}

// Each workgroup adds up its part; the first of four takes the others' parts and the whole.
template <bool FAULTY> __global__ void stream_k(int* words, int* out) {
  int *flags = words, *parts = words + 64;
  const int owner = blockIdx.x / 4 * 4;
  int sum = blockIdx.x + threadIdx.x;
  if (blockIdx.x != owner) {
    parts[blockIdx.x * 64 + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) STORE(flags + blockIdx.x, 1, FAULTY ? RELAXED : RELEASE, AGENT);
    return;
  }
  for (int other = owner + 1; other < owner + 4; other++) {
    if (threadIdx.x == 0)
      while (LOAD(flags + other, FAULTY ? RELAXED : ACQUIRE, AGENT) == 0) pause();
    __syncthreads();
    sum += parts[other * 64 + threadIdx.x];
  }
  if (sum != 4 * owner + 6 + 4 * (int)threadIdx.x) out[blockIdx.x] = 1;
}

// A lock of two accesses, with nothing that takes it.
template <bool FAULTY> __global__ void lock(int* words, int* out) {
  volatile int *taken = words, *total = words + 64;
  if (threadIdx.x) return;
  if (FAULTY) {
    while (*taken) pause();
    *taken = 1;
  } else {
    while (atomicCAS(words, 0, 1)) pause();
  }
  __threadfence();
  *total = *total + 1;
  __threadfence();
  if (FAULTY) *taken = 0;
  else atomicExch(words, 0);
  if (__hip_atomic_fetch_add(words + 128, 1, RELAXED, __HIP_MEMORY_SCOPE_AGENT) == GROUPS - 1)
    out[0] = *total != GROUPS;
}

// A value that is published: plainly stored, told by an atomic (HeCBench's issue 292).
template <bool FAULTY> __global__ void publish(int* words, int* out) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    words[64] = 42;
    if (!FAULTY) __threadfence();
    atomicExch(words, 1);
    return;
  }
  while (atomicAdd(words, 0) == 0) pause();
  if (!FAULTY) __threadfence();
  out[blockIdx.x] = words[64] != 42;
}

// A flag of each lane, stored by a whole wave.
template <bool FAULTY> __global__ void flag_a_lane(int* words, int* out) {
  int *flag = words + threadIdx.x, *data = words + 64 + threadIdx.x;
  if (blockIdx.x == 0) {
    *data = 42 + threadIdx.x;
    STORE(flag, 1, FAULTY ? RELAXED : RELEASE, AGENT);
    return;
  }
  while (LOAD(flag, ACQUIRE, AGENT) == 0) pause();
  if (*data != 42 + (int)threadIdx.x) out[blockIdx.x] = 1;
}

// The two ranks of `ranks`, on a device each: data in the other's memory, and a flag of the system's scope.
__global__ void sender(int* data, int* flag) {
  data[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x == 0) STORE(flag, 1, RELEASE, SYSTEM);
}
__global__ void receiver(const int* data, int* flag, int* out) {
  if (threadIdx.x == 0)
    while (LOAD(flag, ACQUIRE, SYSTEM) == 0) pause();
  __syncthreads();
  if (data[threadIdx.x] != (int)threadIdx.x) out[0] = 1;
}

static int ranks() {
  int *words, wrong = 0;
  hipStream_t streams[2];
  for (int device = 0; device < 2; device++) {
    (void)hipSetDevice(device);
    (void)hipDeviceEnablePeerAccess(1 - device, 0);
    (void)hipStreamCreateWithFlags(&streams[device], hipStreamNonBlocking);
  }
  (void)hipMalloc(&words, 4096);
  (void)hipMemset(words, 0, 4096);
  (void)hipDeviceSynchronize();
  receiver<<<1, 128, 0, streams[1]>>>(words + 128, words, words + 512);
  (void)hipSetDevice(0);
  sender<<<1, 128, 0, streams[0]>>>(words + 128, words);
  (void)hipStreamSynchronize(streams[0]);
  (void)hipStreamSynchronize(streams[1]);
  (void)hipMemcpy(&wrong, words + 512, 4, hipMemcpyDeviceToHost);
  return wrong;
}

#define ONE(NAME)                      \
  {                                    \
    #NAME, { NAME<false>, NAME<true> } \
  }
static const struct {
  const char* name;
  void (*kernel[2])(int*, int*);
} PROGRAMS[] = {ONE(seqlock), ONE(ticket_lock), ONE(double_checked), ONE(stream_k),
                ONE(lock),    ONE(publish),     ONE(flag_a_lane)};

int main(int, char** arguments) {
  if (!strcmp(arguments[1], "ranks")) return ranks();
  int *words, wrong[GROUPS] = {}, any = 0;
  (void)hipMalloc(&words, 16384);
  (void)hipMemset(words, 0, 16384);
  for (const auto& program : PROGRAMS)
    if (!strcmp(arguments[1], program.name)) program.kernel[atoi(arguments[2])]<<<GROUPS, 64>>>(words, words + 2048);
  (void)hipMemcpy(wrong, words + 2048, sizeof wrong, hipMemcpyDeviceToHost);
  for (int one : wrong) any |= one;
  return any;
}
