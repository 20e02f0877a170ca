"""Signals between ranks, for Triton kernels on NVIDIA's GPUs.

Flags in memory of the symmetric heap hold the call's epoch. A flag is an int32 that only grows (as epochs do: compared
by difference, so that they may wrap). Data goes first, then stores_complete() by the whole workgroup, then signal();
the reader waits, and may then read. Addresses come as int64 and become pointers with
`address.to(tl.pointer_type(tl.int32))`.

A kernel that takes the epoch, or a peer's number, needs do_not_specialize for it: a value that is 1 or a multiple of 16
would otherwise be compiled anew while peers wait.
"""

import triton
import triton.language as tl


@triton.jit
def wall_clock():
    """Ticks of a clock that runs at a constant rate, ns."""
    return tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)


@triton.jit
def pause():
    """Leave the memory to others for a moment, between two polls."""
    tl.inline_asm_elementwise("nanosleep.u32 20; mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def trap():
    """End the kernel with an error."""
    tl.inline_asm_elementwise("trap; mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def stores_complete():
    """By the whole workgroup: all its stores so far are visible to whoever sees a later signal() of it."""
    tl.debug_barrier()


@triton.jit
def release_system():
    """By each warp: what the workgroup has stored (stores_complete() first) goes ahead of the stores that follow."""
    tl.inline_asm_elementwise("fence.acq_rel.sys; mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def acquire_system():
    """By each warp: what peers stored before a flag that it has read is visible to its loads that follow."""
    tl.inline_asm_elementwise("fence.acq_rel.sys; mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def load_flags(flags, inside):
    """Values of flags (int32 pointers [n], inside says which) as they are now, past all caches; 0 for the others."""
    return tl.load(flags, mask=inside, other=0, volatile=True)


@triton.jit
def load_flag(flag):
    """load_flags() of one."""
    return tl.load(flag, volatile=True)


@triton.jit
def store_flags(flags, values, inside, COUNT: tl.constexpr):
    """Set flags (int32 pointers [COUNT] or one, here or on peers). With release_system() before it: a signal."""
    # The first COUNT threads hold all elements, other threads the same ones again.
    tl.inline_asm_elementwise(
        "{ .reg .pred here; .reg .u32 thread; setp.ne.s32 here, $3, 0; mov.u32 thread, %tid.x; "
        "setp.lt.and.u32 here, thread, $4, here; @here st.relaxed.sys.global.s32 [$1], $2; mov.u32 $0, 0; }",
        "=r,l,r,r,r",
        [flags.to(tl.int64), values, inside.to(tl.int32), COUNT],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def signal(flag, value):
    """Set a flag (int32 pointer, here or on a peer) for everyone to see, after all that stores_complete() covered."""
    release_system()
    one = tl.full((), 0, tl.int32) + value
    store_flags(flag, one, one == one, 1)


@triton.jit
def signal_add(ptr, n):
    """As signal(), but adds to a counter."""
    release_system()
    tl.atomic_add(ptr, n, sem="relaxed", scope="sys")


@triton.jit
def raise_alarm(alarm, what, peer, epoch):
    """Leave word for the host which peer did not come, and end the kernel: the process goes on, and finds it.

    The words are those of AlarmBlock in symmetric_heap.py; one 64-bit store, so that warps do not mix theirs.
    """
    tl.inline_asm_elementwise(
        "st.relaxed.sys.global.u64 [$1], $2; fence.sc.sys; mov.u32 $0, 0;",
        "=r,l,l",
        [alarm, (tl.cast(epoch, tl.int64) << 32) | ((tl.cast(peer, tl.int64) + 1) << 16) | what],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    trap()


@triton.jit
def wait_until_at_least(ptr, value, alarm, timeout_ticks, what, peer):
    """Wait until the flag at `ptr` (int32, own memory) has come to `value`; then what its sender stored is visible.

    alarm: heap.alarm_address. timeout_ticks: heap.timeout_ticks, after which the kernel ends with an error that names
    `peer` and `what` (0 to 65535). Each warp polls for itself: no barrier inside, none needed after.
    """
    if load_flag(ptr) - value < 0:
        start = wall_clock()
        while load_flag(ptr) - value < 0:
            pause()
            if wall_clock() - start > timeout_ticks:
                raise_alarm(alarm, what, peer, value)
    acquire_system()


@triton.jit
def signal_all_ranks(table, offset, rank, world_size, epoch, RANKS: tl.constexpr):
    """After release_system(): set this rank's flag on every rank at once, its own included.

    table: int64 [world_size] addresses of a region (region.table). Its flags, int32 64 bytes apart, one per rank, begin
    `offset` bytes into the region. RANKS: a power of two, world_size or more.
    """
    ranks = tl.arange(0, RANKS)
    inside = ranks < world_size
    flags = tl.load(table + ranks, mask=inside, other=0) + offset + rank * 64
    values = tl.full((RANKS,), 0, tl.int32) + epoch
    store_flags(flags.to(tl.pointer_type(tl.int32)), values, inside, RANKS)


@triton.jit
def ranks_missing(flags, inside, epoch):
    """Which flags (int32 pointers) have not come to `epoch`; int32 [RANKS] of 0 and 1."""
    return (inside & (load_flags(flags, inside) - epoch < 0)).to(tl.int32)


@triton.jit
def wait_for_all_ranks(table, offset, rank, world_size, epoch, alarm, timeout_ticks, what, RANKS: tl.constexpr):
    """Wait until every rank's flag here has come to `epoch`; what they stored before it is visible then. Arguments as
    in signal_all_ranks() and wait_until_at_least(). Polls all flags at once, each warp for itself, without a barrier.
    """
    ranks = tl.arange(0, RANKS)
    inside = ranks < world_size
    flags = (tl.load(table + rank) + offset + ranks * 64).to(tl.pointer_type(tl.int32))
    if tl.sum(ranks_missing(flags, inside, epoch)) > 0:
        start = wall_clock()
        missing = ranks_missing(flags, inside, epoch)
        while tl.sum(missing) > 0:
            pause()
            if wall_clock() - start > timeout_ticks:
                raise_alarm(alarm, what, tl.min(tl.where(missing > 0, ranks, RANKS)), epoch)
            missing = ranks_missing(flags, inside, epoch)
    acquire_system()


@triton.jit
def barrier_all_ranks(table, offset, rank, world_size, epoch, alarm, timeout_ticks, what, RANKS: tl.constexpr = 8):
    """By one workgroup of every rank: nobody passes before all have come, and all they had stored is visible then.
    Arguments as in signal_all_ranks() and wait_until_at_least(); epoch grows from call to call."""
    stores_complete()
    release_system()
    signal_all_ranks(table, offset, rank, world_size, epoch, RANKS)
    wait_for_all_ranks(table, offset, rank, world_size, epoch, alarm, timeout_ticks, what, RANKS)
    tl.debug_barrier()
