// Pairs of kernels for the checks: NAME_safe is right, NAME_racy lacks what the safe one has (RACY says where).
// tests/cdna/test_race_pairs.py launches them: 256 threads a block, `in` and `out` of 4096 ints, 64 flags that are 0.
#include <hip/hip_runtime.h>

#define PAIR(NAME)                                                                        \
  template <bool RACY> __device__ void NAME(int* in, int* out, int* flags, int t, int b); \
  extern "C" __global__ void NAME##_safe(int* in, int* out, int* flags) {                 \
    NAME<false>(in, out, flags, threadIdx.x, blockIdx.x);                                 \
  }                                                                                       \
  extern "C" __global__ void NAME##_racy(int* in, int* out, int* flags) {                 \
    NAME<true>(in, out, flags, threadIdx.x, blockIdx.x);                                  \
  }                                                                                       \
  template <bool RACY> __device__ void NAME(int* in, int* out, int* flags, int t, int b)

constexpr int THREADS = 256;
constexpr int GROUP = __HIP_MEMORY_SCOPE_WORKGROUP, AGENT = __HIP_MEMORY_SCOPE_AGENT;
template <bool NEEDED> __device__ void sync() {
  if constexpr (NEEDED) __syncthreads();
}
template <int ORDER, int SCOPE = AGENT> __device__ int load(int* p) { return __hip_atomic_load(p, ORDER, SCOPE); }
template <int ORDER, int SCOPE = AGENT> __device__ void store(int* p, int x) { __hip_atomic_store(p, x, ORDER, SCOPE); }
template <int ORDER = __ATOMIC_ACQUIRE, int SCOPE = AGENT> __device__ void wait_for(int* p, int x) {
  while (load<ORDER, SCOPE>(p) < x) __builtin_amdgcn_s_sleep(1);
}

// One block fills `out`, and its first thread tells so by `tell`; a reader's waits by `wait` and all copy what is there.
template <bool ALL_FILLED = true, bool ALL_WAIT = true, int READER = 1, class Tell, class Wait>
__device__ void hand_over(int* in, int* out, int t, int b, Tell tell, Wait wait) {
  if (b == 0) {
    out[t] = in[t + 1] + 1;
    sync<ALL_FILLED>();
    if (t == 0) tell();
  } else if (b == READER) {
    if (t == 0) wait();
    sync<ALL_WAIT>();
    out[1024 + t] = out[t];
  }
}
// Straight to LDS, from an address of each lane's; and a read that the compiler waits for nothing for.
__device__ void copy_to_lds(const int* from, int* to, int t) {
  __builtin_amdgcn_global_load_lds((__attribute__((address_space(1))) void*)(from + t),
                                   (__attribute__((address_space(3))) void*)(to + (t & ~63)), 4, 0, 0);
}
__device__ int read_lds(const int* from) {
  int x;
  unsigned at = (unsigned)(uintptr_t)(__attribute__((address_space(3))) const int*)from;
  asm volatile("ds_read_b32 %0, %1\n s_waitcnt lgkmcnt(0)" : "=v"(x) : "v"(at) : "memory");
  return x;
}
__device__ int look(int* p) {  // a plain load that stays where it is
  asm volatile("" ::: "memory");
  return *p;
}

// --- barriers and LDS ------------------------------------------------------------------------------------

PAIR(reverse) {
  __shared__ int s[THREADS];
  s[t] = in[t];
  sync<!RACY>();
  out[t] = s[THREADS - 1 - t];
}
PAIR(neighbour) {
  __shared__ int s[THREADS];
  s[t] = in[t];
  sync<!RACY>();
  out[t] = s[t] + s[(t + 1) % THREADS];
}
PAIR(transpose) {
  __shared__ int s[16][17];
  s[t / 16][t % 16] = in[t];
  sync<!RACY>();
  out[t] = s[t % 16][t / 16];
}
PAIR(tree) {
  __shared__ int s[THREADS];
  s[t] = in[t];
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (t < half) s[t] += s[t + half];
    sync<!RACY>();
  }
  if (t == 0) out[0] = s[0];
}
PAIR(double_buffer) {
  __shared__ int s[2][THREADS];
  int sum = 0;
  for (int k = 0; k < 6; k++) {
    int slot = RACY ? 0 : k % 2;
    s[slot][t] = in[k * THREADS + t];
    __syncthreads();
    sum += s[slot][THREADS - 1 - t];
  }
  out[t] = sum;
}
PAIR(broadcast) {
  __shared__ int s[1];
  if (t == 0) s[0] = in[3];
  sync<!RACY>();
  out[t] = s[0];
}
PAIR(histogram) {
  __shared__ int s[16];
  if (t < 16) s[t] = 0;
  __syncthreads();
  if (RACY) s[in[t] & 15]++;
  else atomicAdd(&s[in[t] & 15], 1);
  __syncthreads();
  if (t < 16) out[t] = s[t];
}
PAIR(histogram_cleared) {
  __shared__ int s[THREADS];
  s[THREADS - 1 - t] = 0;
  sync<!RACY>();
  atomicAdd(&s[t], in[t]);
  __syncthreads();
  out[t] = s[t];
}
PAIR(histogram_read) {
  __shared__ int s[16];
  if (t < 16) s[t] = 0;
  __syncthreads();
  atomicAdd(&s[in[t] & 15], 1);
  sync<!RACY>();
  if (t < 16) out[t] = s[t];
}
PAIR(within_a_wave) {  // the lanes of a wave go together: no barrier is needed among them
  __shared__ int s[THREADS];
  s[t] = in[t];
  __builtin_amdgcn_wave_barrier();
  out[t] = s[RACY ? t ^ 64 : t ^ 63];
}
PAIR(tile_overwritten) {
  __shared__ int s[THREADS];
  int sum = 0;
  for (int k = 0; k < 4; k++) {
    s[t] = in[k * THREADS + t];
    __syncthreads();
    for (int i = 0; i < 8; i++) sum += s[(t + 32 * i) % THREADS];
    sync<!RACY>();
  }
  out[t] = sum;
}
PAIR(bytes) {  // waves write bytes of their own of one word
  __shared__ unsigned char s[THREADS];
  s[RACY ? t % 64 : t % 64 * 4 + t / 64] = (unsigned char)(t / 64 + 1);
  __syncthreads();
  out[t] = s[t % 64];
}
PAIR(overlapping_arrays) {
  extern __shared__ int s[];
  int *a = s, *c = s + (RACY ? THREADS / 2 : THREADS);
  a[t] = in[t] + 1;
  c[t] = in[t] + 2;
  out[t] = a[t] + c[t];
}
PAIR(sixteen_bytes) {
  __shared__ int4 s[THREADS];
  s[t] = make_int4(in[t], 1, 2, t);
  sync<!RACY>();
  out[t] = s[THREADS - 1 - t].w;
}
PAIR(claimed_slots) {
  __shared__ int s[THREADS], n;
  if (t == 0) n = 0;
  __syncthreads();
  int at = RACY ? n++ : atomicAdd(&n, 1);
  s[at & (THREADS - 1)] = t + 1;
  __syncthreads();
  out[t] = s[t];
}
PAIR(barrier_in_a_branch) {
  __shared__ int s[THREADS];
  s[t] = in[t];
  if (!RACY || t < 128) __syncthreads();
  out[t] = s[t ^ 1];
}
PAIR(barriers_in_a_loop) {  // waves go round unequally often
  __shared__ int s[THREADS];
  int rounds = RACY ? 1 + t / 64 : 3;
  for (int k = 0; k < rounds; k++) {
    s[t] = in[t] + k;
    __syncthreads();
  }
  out[t] = s[t];
}

// --- waves that signal each other ------------------------------------------------------------------------

PAIR(flag_in_lds) {
  __shared__ int s[64], ready;
  if (t == 0) ready = 0;
  __syncthreads();
  if (t / 64 == 0) {
    s[t] = in[t];
    if (t == 0) store<__ATOMIC_RELEASE, GROUP>(&ready, 1);
  } else if (t / 64 == 1) {
    if (!RACY) wait_for<__ATOMIC_ACQUIRE, GROUP>(&ready, 1);
    out[t] = s[t % 64];
  }
}
PAIR(arrivals) {  // a barrier of three waves by a counter
  __shared__ int s[192], n;
  if (t == 0) n = 0;
  __syncthreads();
  if (t >= 192) return;
  s[t] = in[t] + 1;
  __builtin_amdgcn_wave_barrier();
  if (t % 64 == 0) __hip_atomic_fetch_add(&n, 1, __ATOMIC_ACQ_REL, GROUP);
  wait_for<__ATOMIC_ACQUIRE, GROUP>(&n, RACY ? 1 : 3);
  out[t] = s[(t + 64) % 192];
}
PAIR(waves_and_a_global_flag) {
  if (t / 64 == 0) {
    out[t] = in[t] + 1;
    if (t == 0) store<__ATOMIC_RELEASE, GROUP>(flags, 1);
  } else if (t / 64 == 1) {
    if (!RACY) wait_for<__ATOMIC_ACQUIRE, GROUP>(flags, 1);
    out[t + 256] = out[t % 64];
  }
}
PAIR(global_between_waves) {
  out[t] = in[t] + 1;
  sync<!RACY>();
  out[t + 256] = out[(t + 64) % THREADS];
}

// --- workgroups --------------------------------------------------------------------------------------------

PAIR(in_place) {  // each needs what its left neighbour's block may have overwritten
  int i = b * THREADS + t, x = i ? in[i - 1] : 0;
  (RACY ? in : out)[i] = in[i] + x + 1;
}
PAIR(last_writer) { out[RACY ? t : b * THREADS + t] = b + 1; }
PAIR(plain_sum) {
  if (RACY) out[0] += 1 + b;
  else atomicAdd(out, 1 + b);
}
PAIR(split_k) {
  if (RACY) out[t] += in[b * THREADS + t] + 1;
  else atomicAdd(out + t, in[b * THREADS + t] + 1);
}
PAIR(lanes_disagree) { out[b * THREADS + t / 2] = RACY ? t : t / 2; }
PAIR(halves) {  // workgroups write halves of their own of one word
  if (RACY || b < 2) ((short*)out)[RACY ? t : 2 * t + b] = (short)(b + 1);
}
PAIR(halves_of_two) {  // each half is two workgroups' own, where both store the same
  ((short*)out)[2 * t + b % 2] = (short)(RACY ? b + 1 : b % 2 + 1);
}
PAIR(shared_input) {
  out[b * THREADS + t] = in[t] + in[t + 1];
  if (RACY && b == 1) in[t + 1] = 9;
}
PAIR(same_value) { out[t] = RACY ? b + 7 : 7; }
PAIR(off_by_a_block) {
  int first = b * THREADS;
  out[first + t + (RACY && t == THREADS - 1)] = b + 1;
}
PAIR(flag_without_release) {
  const auto tell = [=] { store<RACY ? __ATOMIC_RELAXED : __ATOMIC_RELEASE>(flags, 1); };
  hand_over(in, out, t, b, tell, [=] { wait_for(flags, 1); });
}
PAIR(flag_without_acquire) {
  const auto wait = [=] { wait_for<RACY ? __ATOMIC_RELAXED : __ATOMIC_ACQUIRE>(flags, 1); };
  hand_over(in, out, t, b, [=] { store<__ATOMIC_RELEASE>(flags, 1); }, wait);
}
PAIR(flag_before_all_have_written) {
  hand_over<!RACY>(in, out, t, b, [=] { store<__ATOMIC_RELEASE>(flags, 1); }, [=] { wait_for(flags, 1); });
}
PAIR(only_one_wave_waits) {
  hand_over<true, !RACY>(in, out, t, b, [=] { store<__ATOMIC_RELEASE>(flags, 1); }, [=] { wait_for(flags, 1); });
}
PAIR(scope_of_a_workgroup) {
  constexpr int SCOPE = RACY ? GROUP : AGENT;
  const auto tell = [=] { store<__ATOMIC_RELEASE, SCOPE>(flags, 1); };
  hand_over(in, out, t, b, tell, [=] { wait_for<__ATOMIC_ACQUIRE, SCOPE>(flags, 1); });
}
PAIR(fences) {  // relaxed accesses between fences
  const auto tell = [=] {
    if (!RACY) __threadfence();
    store<__ATOMIC_RELAXED>(flags, 1);
  };
  const auto wait = [=] {
    wait_for<__ATOMIC_RELAXED>(flags, 1);
    __threadfence();
  };
  hand_over(in, out, t, b, tell, wait);
}
PAIR(stale_flag) {  // in[0] is 1 before the launch
  int* flag = RACY ? in : flags;
  hand_over(in, out, t, b, [=] { store<__ATOMIC_RELEASE>(flag, 1); }, [=] { wait_for(flag, 1); });
}
PAIR(another_flag) {
  if (b == 1 && t == 0) store<__ATOMIC_RELEASE>(flags + 8, 1);
  const auto wait = [=] { wait_for(flags + (RACY ? 8 : 0), 1); };
  hand_over<true, true, 2>(in, out, t, b, [=] { store<__ATOMIC_RELEASE>(flags, 1); }, wait);
}
PAIR(chain) {  // block 1 hands on what block 0 wrote
  if (b == 1 && t == 0) {
    wait_for<RACY ? __ATOMIC_RELAXED : __ATOMIC_ACQUIRE>(flags, 1);
    store<__ATOMIC_RELEASE>(flags + 8, 1);
  }
  const auto tell = [=] { store<__ATOMIC_RELEASE>(flags, 1); };
  hand_over<true, true, 2>(in, out, t, b, tell, [=] { wait_for(flags + 8, 1); });
}
PAIR(last_block) {  // the block that comes last adds up all blocks' parts
  __shared__ bool last;
  out[b * THREADS + t] = in[t] + b;
  if (!RACY) __threadfence();
  __syncthreads();
  if (t == 0) last = atomicAdd(flags, 1) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  if (!RACY) __threadfence();
  int sum = 0;
  for (unsigned k = 0; k < gridDim.x; k++) sum += out[k * THREADS + t];
  in[t] = sum;
}
PAIR(grid_barrier) {
  out[b * THREADS + t] = in[t] + b;
  __syncthreads();
  if (t == 0) {
    if (!RACY) __threadfence();
    __hip_atomic_fetch_add(flags, 1, __ATOMIC_RELAXED, AGENT);
    wait_for<__ATOMIC_RELAXED>(flags, gridDim.x);
    if (!RACY) __threadfence();
  }
  __syncthreads();
  in[1024 + b * THREADS + t] = out[(b + 1) % gridDim.x * THREADS + t];
}
PAIR(lock) {
  if (t == 0) {
    while (__hip_atomic_exchange(flags, 1, __ATOMIC_ACQUIRE, AGENT)) __builtin_amdgcn_s_sleep(1);
    out[0] += b + 1;
    store<RACY ? __ATOMIC_RELAXED : __ATOMIC_RELEASE>(flags, 0);
  }
}
PAIR(queue) {  // items are put in by block 0 and taken out by the others
  if (b == 0) {
    for (int k = 0; k < 4; k++) {
      out[k * 64 + t % 64] = in[t % 64] + k + 1;
      __syncthreads();
      if (t == 0) __hip_atomic_fetch_add(flags, 1, RACY ? __ATOMIC_RELAXED : __ATOMIC_RELEASE, AGENT);
    }
  } else if (b < 4) {
    if (t == 0) wait_for(flags, b + 1);
    __syncthreads();
    out[1024 + b * 64 + t % 64] = out[b * 64 + t % 64];
  }
}
PAIR(handed_back) {  // block 1 takes, block 0 overwrites when it has been told so
  if (b == 0) {
    out[t] = in[t] + 1;
    __syncthreads();
    if (t == 0) {
      store<__ATOMIC_RELEASE>(flags, 1);
      if (!RACY) wait_for(flags + 8, 1);
    }
    __syncthreads();
    out[t] = in[t] + 2;
  } else if (b == 1) {
    if (t == 0) wait_for(flags, 1);
    __syncthreads();
    out[1024 + t] = out[t];
    __syncthreads();
    if (t == 0) store<__ATOMIC_RELEASE>(flags + 8, 1);
  }
}

// --- queues, rings, turns --------------------------------------------------------------------------------

PAIR(hash_publish) {  // keys are claimed at once, values follow
  int *keys = flags, *values = out;
  if (t == 0) {
    int slot = b % 2, seen = 0;
    if (__hip_atomic_compare_exchange_strong(keys + slot, &seen, 5, __ATOMIC_RELAXED, __ATOMIC_RELAXED, AGENT)) {
      if (RACY) values[slot] = in[slot] + 9;
      else {
        values[slot] = in[slot] + 9;
        store<__ATOMIC_RELEASE>(keys + 8 + slot, 1);
      }
    } else {
      if (!RACY) wait_for(keys + 8 + slot, 1);
      out[512 + b] = values[slot];
    }
  }
}
PAIR(compaction) {  // each wave claims room by one lane
  __shared__ int n, kept[THREADS];
  if (t == 0) n = 0;
  __syncthreads();
  bool keep = in[t] % 3 == 0;
  unsigned long long mask = __ballot(keep);
  int lane = t % 64, rank = __popcll(mask & ((1ull << lane) - 1)), base = 0;
  if (lane == 0) {
    if (RACY) {
      base = n;
      n = base + __popcll(mask);
    } else base = atomicAdd(&n, __popcll(mask));
  }
  base = __shfl(base, 0);
  if (keep) kept[base + rank] = in[t];
  __syncthreads();
  if (t < n) out[b * THREADS + t] = kept[t];
}
PAIR(async_copy) {  // a load straight to LDS, and a barrier that does not wait for it
  __shared__ int s[THREADS];
  copy_to_lds(in, s, t);
  if (!RACY) asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
  __builtin_amdgcn_s_barrier();
  out[t] = read_lds(s + (THREADS - 1 - t));
}
PAIR(async_two_buffers) {  // the copy goes where slower waves still read
  constexpr int N = RACY ? 2 : 3;
  __shared__ int s[N][THREADS];
  const auto copy = [&](int k) { copy_to_lds(in + k * THREADS, s[k % N], t); };
  copy(0);
  int sum = 0;
  for (int k = 0; k < 8; k++) {
    copy(k + 1);
    asm volatile("s_waitcnt vmcnt(1)" ::: "memory");
    __builtin_amdgcn_s_barrier();
    sum += read_lds(s[k % N] + (THREADS - 1 - t));
  }
  asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
  out[t] = sum;
}
PAIR(once) {  // who comes first makes a table
  if (t == 0) {
    int seen = 0;
    if (__hip_atomic_compare_exchange_strong(flags, &seen, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED, AGENT)) {
      for (int i = 0; i < 8; i++) out[1024 + i] = in[i] * 5;
      store<__ATOMIC_RELEASE>(flags, 2);
    } else if (!RACY) wait_for(flags, 2);
  }
  __syncthreads();
  out[b * THREADS + t] = out[1024 + t % 8];
}
PAIR(last_slice) {  // whoever comes last adds the other's slice
  __shared__ int last;
  int tile = b % 2;
  out[2048 + b * THREADS + t] = in[b * THREADS + t] + 1;
  int early = RACY ? out[2048 + (b ^ 2) * THREADS + t] : 0;
  __threadfence();
  __syncthreads();
  if (t == 0) last = atomicAdd(flags + tile, 1) == 1;
  __syncthreads();
  if (last) {
    __threadfence();
    out[tile * THREADS + t] = out[2048 + tile * THREADS + t] + (RACY ? early : out[2048 + (tile + 2) * THREADS + t]);
  }
}
PAIR(sense_barrier) {  // passed again before all have read
  for (int k = 0; k < 3; k++) {
    out[b * THREADS + t] = in[t] + k + b;
    __syncthreads();
    if (t == 0) {
      int sense = k + 1;
      if (__hip_atomic_fetch_add(flags, 1, __ATOMIC_ACQ_REL, AGENT) == 4 * (k + 1) - 1)
        store<__ATOMIC_RELEASE>(flags + 8, sense);
      else wait_for(flags + 8, sense);
    }
    __syncthreads();
    int x = out[(b + 1) % 4 * THREADS + t];
    sync<true>();
    out[1024 + b * THREADS + t] = x;
    if (!RACY) {
      if (t == 0) {
        if (__hip_atomic_fetch_add(flags + 16, 1, __ATOMIC_ACQ_REL, AGENT) == 4 * (k + 1) - 1)
          store<__ATOMIC_RELEASE>(flags + 24, k + 1);
        else wait_for(flags + 24, k + 1);
      }
      __syncthreads();
    }
  }
}

// --- LDS by flat addresses -------------------------------------------------------------------------------

PAIR(volatile_tree) {  // clang reads and writes `volatile __shared__` by flat instructions
  __shared__ volatile int s[THREADS];
  s[t] = in[t];
  __syncthreads();
  if (t < 128) s[t] = s[t] + s[t + 128];
  sync<!RACY>();
  if (t < 64) s[t] = s[t] + s[t + 64];
  __builtin_amdgcn_wave_barrier();
  if (t < 32) out[t] = s[t] + s[t + 32];
}
PAIR(volatile_flag) {
  __shared__ volatile int ready;
  __shared__ int s[64];
  if (t == 0) ready = 0;
  __syncthreads();
  if (t / 64 == 0) {
    s[t] = in[t];
    __threadfence_block();
    if (t == 0) ready = 1;
  } else if (t / 64 == 1) {
    while (!RACY && !ready) continue;
    __threadfence_block();
    out[t] = s[t % 64];
  }
}
__device__ __attribute__((noinline)) void put(int* to, int x) { *to = x; }
__device__ __attribute__((noinline)) int get(const int* from) { return *from; }
PAIR(pointers_to_anywhere) {
  __shared__ int s[THREADS];
  put(s + t, in[t]);
  sync<!RACY>();
  put(out + t, s[THREADS - 1 - t] + get(s + t / 2) + get(in + t));
}

// --- plain loads of what others change by atomics -----------------------------------------------------------

PAIR(read_beside_atomics) {  // the sum is read while others may still add to it
  if (t != 0) return;
  if (b < 3) {
    __hip_atomic_fetch_add(&flags[0], in[b], __ATOMIC_RELAXED, AGENT);
    __hip_atomic_fetch_add(&flags[16], 1, __ATOMIC_RELEASE, AGENT);
  } else {
    if (!RACY) wait_for(&flags[16], 3);
    out[0] = look(&flags[0]);
  }
}
PAIR(read_before_atomics) {  // what it was at the beginning
  if (t != 0) return;
  if (b == 0) {
    flags[32] = 1;
    out[0] = look(&flags[0]);
    store<__ATOMIC_RELEASE>(&flags[16], 1);
  } else {
    if (!RACY) wait_for(&flags[16], 1);
    __hip_atomic_fetch_add(&flags[0], in[b], __ATOMIC_RELAXED, AGENT);
  }
}
PAIR(counted_and_read) {  // the counter is read again, in place of what the atomic returned
  if (t != 0) return;
  int seen = atomicAdd(&flags[0], 1) + 1;
  if (RACY) seen = look(&flags[0]);
  if (seen == 4) out[0] = 1;
}
PAIR(plain_polls) {  // a plain load in a loop, and an atomic one that acquires
  const auto wait = [=] {
    while (!look(flags)) __builtin_amdgcn_s_sleep(1);
    if (!RACY) wait_for(flags, 1);
  };
  hand_over(in, out, t, b, [=] { store<__ATOMIC_RELEASE>(flags, 1); }, wait);
}
PAIR(word_refilled) {  // by block 0, once its three readers have said that they have read it
  constexpr int WAITS_FOR = RACY ? 2 : 3;
  int sum = 0;
  for (int k = 0; k < 4; k++) {
    if (t == 0) wait_for(b == 0 ? &flags[16] : &flags[0], b == 0 ? k * WAITS_FOR : k + 1);
    __syncthreads();
    if (b == 0 && t == 0) out[0] = in[k] + 100 * k;
    if (b != 0 && t == 0) sum += out[0];
    __syncthreads();
    if (t == 0 && b == 0) store<__ATOMIC_RELEASE>(&flags[0], k + 1);
    if (t == 0 && b != 0) __hip_atomic_fetch_add(&flags[16], 1, __ATOMIC_RELEASE, AGENT);
  }
  if (b != 0) out[b * THREADS + t] = sum;
}
PAIR(shifted_in_place) {  // another wave stores what a slower one has yet to read
  const int at = b * THREADS + t, next = t + 1 < THREADS ? in[at + 1] : 0;
  sync<!RACY>();
  in[at] = next + 1;
}
PAIR(counted_from_a_start) {  // who adds without waiting adds to what is there before the start, or after it
  if (t) return;
  if (b == 0) {
    out[0] = 100;
    store<__ATOMIC_RELEASE>(flags, 1);
  } else if (!RACY) {
    wait_for(flags, 1);
  }
  atomicAdd(out, 1);
}
PAIR(count_overwritten) {  // the last to come sets back what all have counted; or anyone does
  if (t) return;
  atomicAdd(out, 1);
  const bool last = __hip_atomic_fetch_add(flags, 1, __ATOMIC_ACQ_REL, AGENT) == (int)gridDim.x - 1;
  if (RACY ? b == 2 : last) out[0] = -1;
}
PAIR(reset_by_the_last_block) {  // of those that have counted: or by the first, while others have yet to
  if (t) return;
  const int before = __hip_atomic_fetch_add(flags, 1, __ATOMIC_ACQ_REL, AGENT);
  if (before == (RACY ? 0 : (int)gridDim.x - 1)) flags[0] = 100;
}
PAIR(stale_grid_barrier) {  // in[0] is 1 before the launch: the last but one to come passes
  int* count = RACY ? in : flags;
  out[b * THREADS + t] = t + 1;
  __syncthreads();
  if (t == 0) {
    __hip_atomic_fetch_add(count, RACY ? (int)gridDim.x : 1, __ATOMIC_ACQ_REL, AGENT);
    while (__hip_atomic_fetch_add(count, 0, __ATOMIC_ACQUIRE, AGENT) < (int)gridDim.x) {}
  }
  __syncthreads();
  flags[1 + b] = out[(b + 1) % gridDim.x * THREADS + 1];
}
PAIR(first_visit) {  // of many blocks in a loop, each place is the first comer's: one that looks, and then claims
  int mine = 0;
  for (int at = t % 8; at < THREADS; at += in[at] % 5 + 1) {
    if (out[at] == 0 && (RACY ? (out[at] = b + 1, 0) : atomicCAS(out + at, 0, b + 1)) == 0) {
      in[2048 + b * THREADS + t] = ++mine;
      atomicAdd(flags, 1);
    }
  }
}
PAIR(ring_between_waves) {  // slots in LDS, counted by one lane; the loops' first looks are compiled apart
  __shared__ int slots[4][64], full[4], empty[4];
  const int wave = t / 64, lane = t % 64, rounds = 10 + in[0];
  if (t < 4) full[t] = empty[t] = 0;
  __syncthreads();
  for (int i = 0; wave == 0 && i < rounds; i++) {
    const int slot = i & 3;
    if (!RACY) wait_for<__ATOMIC_ACQUIRE, GROUP>(&empty[slot], i / 4);
    slots[slot][lane] = in[i * 64 + lane];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    if (lane == 0) __hip_atomic_fetch_add(&full[slot], 1, __ATOMIC_RELAXED, GROUP);
  }
  for (int i = 0; wave == 1 && i < rounds; i++) {
    const int slot = i & 3;
    wait_for<__ATOMIC_ACQUIRE, GROUP>(&full[slot], i / 4 + 1);
    const int x = slots[slot][lane ^ 1];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    if (lane == 0) __hip_atomic_fetch_add(&empty[slot], 1, __ATOMIC_RELAXED, GROUP);
    if (b == 0) out[i * 64 + lane] = x;
  }
}

// --- waves of one block in global memory -------------------------------------------------------------------

PAIR(moved_in_place) {  // a slower wave reads what a faster one has stored
  int x = out[b * 512 + t];
  sync<!RACY>();
  out[b * 512 + t + 1] = x + t + 1;
}
PAIR(read_before_any_store) {  // to this tensor
  int* row = in + b * 512;
  if (t < 64) out[b * 64 + t] = row[64 + t];
  sync<!RACY>();
  if (t >= 64 && t < 128) row[t] = -t;
}
PAIR(read_by_two_waves) {  // neither of which stores
  int* row = in + b * 512;
  if (t < 128) out[b * 128 + t] = row[t % 64];
  sync<!RACY>();
  if (t >= 192) row[t - 192] = -t;
}
PAIR(read_by_a_block_before) {  // one that has come to its end
  if (b == 0) {
    out[t] = in[t];
    __syncthreads();
    if (t == 0) store<__ATOMIC_RELEASE>(flags, 1);
  } else if (b == 1) {
    if (!RACY && t == 0) wait_for(flags, 1);
    __syncthreads();
    in[t] = -t - 1;
  }
}
PAIR(read_before_it_counts) {
  int* n = flags + 16 * b;
  if (t >= 64) out[b * THREADS + t] = *n;
  sync<!RACY>();
  if (t == 0) atomicAdd(n, in[0]);
}
PAIR(counted_from_a_plain_start) {
  int* n = flags + 16 * b;
  if (t == 0) *n = 7;
  sync<!RACY>();
  atomicAdd(n + (t & 1), 1);
}
PAIR(places_from_a_plain_start) {
  int* n = flags + 16 * b;
  if (t == 0) *n = 7;
  sync<!RACY>();
  int place = atomicAdd(n, 1);
  out[b * 512 + place % 512] = in[t];
}
PAIR(count_written_over) {
  int* n = flags + 16 * b;
  atomicAdd(n, 1);
  sync<!RACY>();
  if (t == 0) *n = 3;
}
PAIR(reset_by_the_last_wave) {  // or by the first: others have yet to count
  int* n = flags + 16 * b;
  if (t % 64) return;
  int before = __hip_atomic_fetch_add(n, 1, __ATOMIC_RELAXED, GROUP);
  if (before == (RACY ? 0 : THREADS / 64 - 1)) *n = 100;
}
PAIR(lock_of_waves) {  // what it guards is not atomic
  int *lock = flags + 16 * b, *sum = out + 16 * b;
  if (t % 64) return;
  for (int seen = 1; !RACY && seen;) seen = __hip_atomic_exchange(lock, 1, __ATOMIC_ACQUIRE, GROUP);
  *sum = *sum * 3 + t + 1;
  if (!RACY) store<__ATOMIC_RELEASE, GROUP>(lock, 0);
}
PAIR(maximum_by_swaps) {  // begins with a plain look; the racy one does not look again
  float* top = (float*)flags;
  float x = in[b * THREADS + t];
  if (RACY) {
    if (*top < x) *top = x;
    return;
  }
  int seen = flags[0];
  while (__int_as_float(seen) < x) {
    int expected = seen;
    seen = atomicCAS(flags, expected, __float_as_int(x));
    if (seen == expected) break;
  }
}
