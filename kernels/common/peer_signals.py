"""Signals between ranks, for Triton kernels: flags in memory of the symmetric heap that hold the call's epoch.

A flag is an int32 that only grows (as epochs do: compared by difference, so that they may wrap). Data goes first, then
stores_complete() by the whole workgroup, then signal(); the reader waits, and may then read. Addresses come as
int64 and become pointers with `address.to(tl.pointer_type(tl.int32))`.

Every difference between archs is one function here. A kernel that takes the epoch, or a peer's number, needs
do_not_specialize for it: a value that is 1 or a multiple of 16 would otherwise be compiled anew while peers wait.
"""

import torch
import triton
import triton.language as tl

PEER_SIGNALS_HIP = tl.constexpr(torch.version.hip is not None)


@triton.jit
def wall_clock():
    """Ticks of a clock that runs at a constant rate: 100 MHz on AMD, ns on NVIDIA."""
    if PEER_SIGNALS_HIP:
        ticks = tl.inline_asm_elementwise(
            "s_memrealtime $0\n\ts_waitcnt lgkmcnt(0)", "=s", [], dtype=tl.int64, is_pure=False, pack=1
        )
    else:
        ticks = tl.inline_asm_elementwise(
            "mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
        )
    return ticks


@triton.jit
def ticks_per_second():
    if PEER_SIGNALS_HIP:
        ticks = 100000000
    else:
        ticks = 1000000000
    return ticks


@triton.jit
def pause():
    """Leave the memory to others for a moment, between two polls."""
    if PEER_SIGNALS_HIP:
        tl.inline_asm_elementwise("s_sleep 1\n\ts_mov_b32 $0, 0", "=s", [], dtype=tl.int32, is_pure=False, pack=1)
    else:
        tl.inline_asm_elementwise("nanosleep.u32 20; mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def trap():
    """End the kernel with an error."""
    if PEER_SIGNALS_HIP:
        tl.inline_asm_elementwise("s_trap 2\n\ts_mov_b32 $0, 0", "=s", [], dtype=tl.int32, is_pure=False, pack=1)
    else:
        tl.inline_asm_elementwise("trap; mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def stores_complete():
    """By the whole workgroup: all its stores so far are visible to whoever sees a later signal() of it.

    On gfx942 a barrier alone does not wait for stores under way, other waves' would be missed: each wave waits for
    its own first. They are then in this XCD's L2 or beyond, from where signal()'s release writes them back.
    """
    if PEER_SIGNALS_HIP:
        tl.inline_asm_elementwise(
            "s_waitcnt vmcnt(0)\n\ts_mov_b32 $0, 0", "=s", [], dtype=tl.int32, is_pure=False, pack=1
        )
    tl.debug_barrier()


@triton.jit
def release_system():
    """By each wave: what the workgroup has stored (stores_complete() first) goes ahead of the stores that follow.

    Triton's own sem="release" is not enough on gfx942: the compiler drops the wait between buffer_wbl2, which writes
    this XCD's L2 back, and the atomic after it, as it does not count the former.
    """
    if PEER_SIGNALS_HIP:
        tl.inline_asm_elementwise(
            "buffer_wbl2 sc0 sc1\n\ts_waitcnt vmcnt(0)\n\ts_mov_b32 $0, 0",
            "=s",
            [],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )
    else:
        tl.inline_asm_elementwise(
            "fence.acq_rel.sys; mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1
        )


@triton.jit
def acquire_system():
    """By each wave: what peers stored before a flag that it has read is visible to its loads that follow."""
    if PEER_SIGNALS_HIP:
        tl.inline_asm_elementwise(
            "buffer_inv sc0 sc1\n\ts_mov_b32 $0, 0", "=s", [], dtype=tl.int32, is_pure=False, pack=1
        )
    else:
        tl.inline_asm_elementwise(
            "fence.acq_rel.sys; mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1
        )


@triton.jit
def load_flag(ptr):
    """A flag's value as it is now, past all caches. On AMD Triton takes no notice of volatile=True, but of ".cv"
    (sc0 sc1)."""
    if PEER_SIGNALS_HIP:
        value = tl.load(ptr, cache_modifier=".cv")
    else:
        value = tl.load(ptr, volatile=True)
    return value


@triton.jit
def signal_relaxed(ptr, value):
    """By one thread: set a flag (int32, here or on a peer). Only with release_system() before it is it a signal()."""
    tl.atomic_xchg(ptr, value, sem="relaxed", scope="sys")


@triton.jit
def signal(ptr, value):
    """Set a flag (int32, here or on a peer) for everyone to see, after all that stores_complete() covered."""
    release_system()
    signal_relaxed(ptr, value)


@triton.jit
def signal_add(ptr, n):
    """As signal(), but adds to a counter."""
    release_system()
    tl.atomic_add(ptr, n, sem="relaxed", scope="sys")


@triton.jit
def raise_alarm(alarm, what, peer, epoch):
    """Tell the host which peer did not come, give it a second to print that, and end the kernel.

    The words are those of AlarmBlock in symmetric_heap.py; one 64-bit store, so that waves do not mix theirs.
    """
    word = (epoch.to(tl.int64) << 32) | ((peer + 1).to(tl.int64) << 16) | what
    tl.store(alarm.to(tl.pointer_type(tl.int64)), word, cache_modifier=".wt")
    told = (alarm + 8).to(tl.pointer_type(tl.int32))
    start = wall_clock()
    while (load_flag(told) == 0) & (wall_clock() - start < ticks_per_second()):
        pause()
    trap()


@triton.jit
def wait_until_at_least(ptr, value, alarm, timeout_ticks, what, peer):
    """Wait until the flag at `ptr` (int32, own memory) has come to `value`; then what its sender stored is visible.

    alarm: heap.alarm_address. timeout_ticks: heap.timeout_ticks, after which the kernel ends with an error that names
    `peer` and `what` (0 to 65535). Each wave polls for itself: no barrier inside, none needed after.
    """
    if load_flag(ptr) - value < 0:
        start = wall_clock()
        while load_flag(ptr) - value < 0:
            pause()
            if wall_clock() - start > timeout_ticks:
                raise_alarm(alarm, what, peer, value)
    acquire_system()


@triton.jit
def barrier_all_ranks(table, offset, rank, world_size, epoch, alarm, timeout_ticks, what):
    """By one workgroup of every rank: nobody passes before all have come, and all they had stored is visible then.

    table: int64 [world_size] addresses of a region (region.table). Its flags, int32 64 bytes apart, one per rank,
    begin `offset` bytes into the region. epoch: grows from call to call.
    """
    stores_complete()
    release_system()
    for i in range(world_size):
        peer = (rank + i) % world_size
        base = tl.load(table + peer) + offset + rank * 64
        signal_relaxed(base.to(tl.pointer_type(tl.int32)), epoch)
    own = tl.load(table + rank) + offset
    for peer in range(world_size):
        wait_until_at_least((own + peer * 64).to(tl.pointer_type(tl.int32)), epoch, alarm, timeout_ticks, what, peer)
    tl.debug_barrier()
