// What symmetric_heap.h needs to know of NVIDIA's GPUs.
#pragma once

#include "../../../kernels/common/symmetric_heap.h"

__device__ inline int load_flag(const int* flag) {
    int value;
    asm volatile("ld.relaxed.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}
__device__ inline void store_flag(int* flag, int value) {
    asm volatile("st.relaxed.sys.global.s32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
// Of what this thread has seen or stored.
__device__ inline void release_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
// For what this thread has read.
__device__ inline void acquire_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
__device__ inline void stores_complete() { __syncthreads(); }
__device__ inline void pause_polling() { __nanosleep(20); }
__device__ inline long long clock_ticks() {  // ns
    long long ticks;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ticks)::"memory");
    return ticks;
}

// What a kernel that traps has printed is lost, but the process goes on and the host finds the word.
template <class Print>
[[noreturn]] __device__ inline void give_up(const Patience& patience, unsigned long long word, Print&&) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(patience.alarm), "l"(word) : "memory");
    __threadfence_system();
    __trap();
    __builtin_unreachable();
}

__device__ inline void raise_alarm(Patience patience, unsigned what, int peer, int epoch) {
    give_up(patience, alarm_word(what, peer, epoch), [] {});
}
