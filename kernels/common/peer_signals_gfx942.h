// What symmetric_heap.h needs to know of gfx942: flags past all caches, fences, the clock, and the end of a kernel.
#pragma once

#include "symmetric_heap.h"

__device__ inline int load_flag(const int* flag) {
    return __hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
__device__ inline void store_flag(int* flag, int value) {
    __hip_atomic_store(flag, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
// The fence writes this XCD's L2 back (buffer_wbl2 sc0 sc1); the compiler does not count that instruction and may drop
// its wait, so the wait stands here.
__device__ inline void release_system() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
    asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
}
// buffer_inv sc0 sc1: the L1 of this CU, and in L2 what is not this device's own.
__device__ inline void acquire_system() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, ""); }
// A barrier alone does not wait for other waves' stores under way.
__device__ inline void stores_complete() {
    asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
    __syncthreads();
}
__device__ inline void pause_polling() { __builtin_amdgcn_s_sleep(1); }
__device__ inline long long clock_ticks() { return static_cast<long long>(__builtin_amdgcn_s_memrealtime()); }
constexpr long long TICKS_PER_SECOND = 100000000;

// Leaves word, has one lane of all that ever come here print(), and ends the kernel when it has: a trap ends the process
// on a card. The others wait for it, a second at most. The HIP runtime's own service prints, to C's standard output.
template <class Print>
[[noreturn]] __device__ __forceinline__ void give_up(const Patience& patience, unsigned long long word, Print&& print) {
    __hip_atomic_store(reinterpret_cast<unsigned long long*>(patience.alarm), word, __ATOMIC_RELAXED,
                       __HIP_MEMORY_SCOPE_SYSTEM);
    int* const told = reinterpret_cast<int*>(patience.alarm + 12);
    if (__hip_atomic_exchange(told - 1, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM) == 0) {
        print();
        store_flag(told, 1);
    }
    const long long start = clock_ticks();
    while (load_flag(told) == 0 && clock_ticks() - start < TICKS_PER_SECOND) pause_polling();
    __builtin_trap();
}

// Not inlined: printing takes 6 KB of code, and a function that does not return asks for no scratch.
__attribute__((noinline)) __device__ inline void raise_alarm(Patience patience, unsigned what, int peer, int epoch) {
    give_up(patience, alarm_word(what, peer, epoch), [&] {
        printf("symmetric heap, assertion failed: rank %d never came (wait %u, epoch %d)\n", peer, what, epoch);
    });
}
