// Signals between ranks, for HIP kernels: flags in memory of the symmetric heap that hold the call's epoch.
//
// A flag is an int that only grows (as epochs do: compared by difference, so that they may wrap). Data goes first, then
// stores_complete() by the whole workgroup, then release_system() and store_flag() by one wave; the reader waits, and may
// then read. docs/symmetric-heap.md has the protocol. Every difference between AMD and NVIDIA is one function here.
#pragma once

// Bytes from one rank's flag to the next: a cache line each, for none to disturb others.
constexpr int FLAG_STRIDE = 64;

#ifdef __NVCC__  // hipify turns the other name, with CUDACC in it, into HIP's

__device__ inline int load_flag(const int* flag) {
    int value;
    asm volatile("ld.relaxed.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}
__device__ inline void store_flag(int* flag, int value) {
    asm volatile("st.relaxed.sys.global.s32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
__device__ inline void store_alarm(unsigned long long* word, unsigned long long value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
// What this thread has seen or stored goes ahead of its stores that follow, for the whole system.
__device__ inline void release_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
// What peers stored before a flag that this thread has read is visible to its loads that follow.
__device__ inline void acquire_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
// By the whole workgroup: its stores so far are covered by a release_system() that any thread of it does next.
__device__ inline void stores_complete() { __syncthreads(); }
__device__ inline void pause_polling() { __nanosleep(20); }
__device__ inline long long clock_ticks() {  // ns
    long long ticks;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ticks)::"memory");
    return ticks;
}
constexpr long long TICKS_PER_SECOND = 1000000000;
// What a kernel that traps has printed is lost.
template <class Print>
__device__ void print_once(long long, Print&&) {
    __threadfence_system();
}
__device__ inline void end_with_error() { __trap(); }

#else

__device__ inline int load_flag(const int* flag) {
    return __hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
__device__ inline void store_flag(int* flag, int value) {
    __hip_atomic_store(flag, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
__device__ inline void store_alarm(unsigned long long* word, unsigned long long value) {
    __hip_atomic_store(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
// What this workgroup has stored (stores_complete() first) goes ahead of the stores of this wave that follow, for the
// whole system. The fence writes this XCD's L2 back (buffer_wbl2 sc0 sc1); the compiler does not count that instruction
// and may drop its wait, so the wait stands here.
__device__ inline void release_system() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
    asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
}
// What peers stored before a flag that this wave has read is visible to the loads of its workgroup that follow
// (buffer_inv sc0 sc1: the L1 of this CU, and in L2 what is not this device's own).
__device__ inline void acquire_system() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, ""); }
// By the whole workgroup: its stores so far are covered by a release_system() that any wave of it does next. A barrier
// alone does not wait for other waves' stores under way.
__device__ inline void stores_complete() {
    asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
    __syncthreads();
}
__device__ inline void pause_polling() { __builtin_amdgcn_s_sleep(1); }
__device__ inline long long clock_ticks() { return static_cast<long long>(__builtin_amdgcn_s_memrealtime()); }
constexpr long long TICKS_PER_SECOND = 100000000;
// print() by one lane of all; the others wait for it, a second at most: the trap that follows may end the process. The
// HIP runtime's own service prints, to C's standard output.
template <class Print>
__device__ void print_once(long long alarm, Print&& print) {
    int* const told = reinterpret_cast<int*>(alarm + 12);
    if (__hip_atomic_exchange(told - 1, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM) == 0) {
        print();
        store_flag(told, 1);
    }
    const long long start = clock_ticks();
    while (load_flag(told) == 0 && clock_ticks() - start < TICKS_PER_SECOND) pause_polling();
}
__device__ inline void end_with_error() { __builtin_trap(); }

#endif

// How long to wait, and whom to tell: heap.alarm_address and heap.timeout_ticks.
struct Patience {
    long long alarm, timeout_ticks;
};

// Leave word for the host, print it, and end the kernel. The words are those of AlarmBlock in symmetric_heap.py; one
// 64-bit store, so that waves do not mix theirs. peer: -1 for none.
template <class Print>
__device__ void give_up(const Patience& patience, unsigned what, int peer, int epoch, Print&& print) {
    const unsigned long long word = static_cast<unsigned long long>(static_cast<unsigned>(epoch)) << 32 |
                                    static_cast<unsigned long long>(peer + 1) << 16 | what;
    store_alarm(reinterpret_cast<unsigned long long*>(patience.alarm), word);
    print_once(patience.alarm, print);
    end_with_error();
}

// On a peer that did not come.
__device__ inline void raise_alarm(const Patience& patience, unsigned what, int peer, int epoch) {
    give_up(patience, what, peer, epoch, [&] {
        printf("symmetric heap, assertion failed: rank %d never came (wait %u, epoch %d)\n", peer, what, epoch);
    });
}

// Wait until a flag in own memory has come to `value`, without making peers' data visible: acquire_system() is to follow.
// A peer that never comes ends the kernel with an error that names it and `what` (0 to 65535).
__device__ inline void poll_flag(const int* flag, int value, const Patience& patience, unsigned what, int peer) {
    if (load_flag(flag) - value >= 0) return;
    const long long start = clock_ticks();
    while (load_flag(flag) - value < 0) {
        pause_polling();
        if (clock_ticks() - start > patience.timeout_ticks) raise_alarm(patience, what, peer, value);
    }
}

// poll_flag(), and then what the flag's sender stored before it is visible.
__device__ inline void wait_flag(const int* flag, int value, const Patience& patience, unsigned what, int peer) {
    poll_flag(flag, value, patience, what, peer);
    acquire_system();
}

// By one workgroup of every rank, of at least world_size threads along x: nobody passes before all have come, and what
// they had stored is visible then. table: addresses of a region (region.table); its flags, FLAG_STRIDE apart, one a
// rank, begin `offset` bytes into the region. epoch grows from call to call.
__device__ inline void barrier_all_ranks(const long long* table, long long offset, int rank, int world_size, int epoch,
                                         const Patience& patience, unsigned what) {
    const int peer = static_cast<int>(threadIdx.x);
    int* theirs = nullptr;  // where this rank's flag is on the peer
    const int* mine = nullptr;
    if (peer < world_size) {  // before the waits that follow, so that they cover the loads
        theirs = reinterpret_cast<int*>(table[peer] + offset + rank * FLAG_STRIDE);
        mine = reinterpret_cast<const int*>(table[rank] + offset + peer * FLAG_STRIDE);
    }
    stores_complete();
    if (peer < world_size) {
        release_system();
        store_flag(theirs, epoch);
        wait_flag(mine, epoch, patience, what, peer);
    }
    __syncthreads();
}
