// Waits for other ranks, for HIP kernels: flags in memory of the symmetric heap that hold the call's epoch.
//
// A flag is an int that only grows (as epochs do: compared by difference, so that they may wrap). Data goes first, then
// stores_complete() by the whole workgroup, then release_system() and store_flag() by one wave; the reader waits, and may
// then read. docs/symmetric-heap.md has the protocol. What depends on the GPU is declared here and defined by the header
// through which this one is included: peer_signals_gfx942.h, say.
#pragma once

// Bytes from one rank's flag to the next: a cache line each, for none to disturb others.
constexpr int FLAG_STRIDE = 64;

// How long to wait, and where to leave word: heap.alarm_address and heap.timeout_ticks.
struct Patience {
    long long alarm, timeout_ticks;
};

__device__ int load_flag(const int* flag);
__device__ void store_flag(int* flag, int value);
// What this workgroup has stored (stores_complete() first) goes ahead of the stores of this wave that follow, for the
// whole system.
__device__ void release_system();
// What peers stored before a flag that this wave has read is visible to the loads of its workgroup that follow.
__device__ void acquire_system();
// By the whole workgroup: its stores so far are covered by a release_system() that any wave of it does next.
__device__ void stores_complete();
__device__ void pause_polling();
__device__ long long clock_ticks();
// Leave word for the host (alarm_word), print() where a kernel that traps can, and end the kernel.
template <class Print>
[[noreturn]] __device__ void give_up(const Patience& patience, unsigned long long word, Print&& print);
// On a peer that did not come.
[[noreturn]] __device__ void raise_alarm(Patience patience, unsigned what, int peer, int epoch);

// The words of AlarmBlock in symmetric_heap.py. peer: -1 for none.
__device__ inline unsigned long long alarm_word(unsigned what, int peer, int epoch) {
    return static_cast<unsigned long long>(static_cast<unsigned>(epoch)) << 32 |
           static_cast<unsigned long long>(peer + 1) << 16 | what;
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
