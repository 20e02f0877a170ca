"""Triton kernels that try the symmetric heap: exchange with a check of every word, barriers, flag latency, stores."""

import torch
import triton
import triton.language as tl

if torch.version.hip:
    from kernels.common import peer_signals_gfx942 as signals
else:
    from lab.hopper.common import peer_signals as signals  # type: ignore[no-redef]

barrier_all_ranks, wait_for_all_ranks = signals.barrier_all_ranks, signals.wait_for_all_ranks
signal, signal_all_ranks, wait_until_at_least = signals.signal, signals.signal_all_ranks, signals.wait_until_at_least
release_system, stores_complete, wall_clock = signals.release_system, signals.stores_complete, signals.wall_clock

DATA_OFFSET = 65536  # of a region's data: flags come first, 64 bytes apart, RANKS for each workgroup


@triton.jit
def word_of(epoch, source, target, index):
    """What word `index` from source to target holds in call `epoch`."""
    return epoch * 1000003 + source * 8191 + target * 131 + index


@triton.jit(do_not_specialize=["rank", "epoch", "jitter_ticks"])
def exchange_kernel(  # type: ignore[no-untyped-def]
    table, rank, world_size, epoch, wrong, jitter_ticks, alarm, timeout_ticks, WORDS: tl.constexpr, RANKS: tl.constexpr,
    WAIT: tl.constexpr = True,
):  # fmt: skip
    """Every workgroup sends WORDS int32 to every rank, waits for those of every rank and counts the wrong ones.

    Two buffers take turns by the parity of the epoch; nothing separates one call from the next. A quarter of the
    workgroups are late by up to jitter_ticks.
    """
    group = tl.program_id(0)
    luck = ((epoch * 1597334677 + rank * 40503 + group * 97) >> 7) & 0xFFFF
    if (luck & 3) == 0:
        start = wall_clock()
        while wall_clock() - start < ((luck >> 8) * jitter_ticks) >> 8:
            pass
    flags = group * RANKS * 64
    index = tl.arange(0, WORDS)
    slot = 65536 + (((epoch & 1) * tl.num_programs(0) + group) * RANKS).to(tl.int64) * WORDS * 4
    for step in range(world_size):
        target = (rank + step) % world_size
        words = (tl.load(table + target) + slot + rank * WORDS * 4).to(tl.pointer_type(tl.int32))
        tl.store(words + index, word_of(epoch, rank, target, index))
    stores_complete()
    release_system()
    signal_all_ranks(table, flags, rank, world_size, epoch, RANKS)
    if WAIT:  # without, words are wrong: so it is known that they would be seen
        wait_for_all_ranks(table, flags, rank, world_size, epoch, alarm, timeout_ticks, 1, RANKS)
    for source in range(world_size):
        words = (tl.load(table + rank) + slot + source * WORDS * 4).to(tl.pointer_type(tl.int32))
        bad = tl.load(words + index) != word_of(epoch, source, rank, index)
        tl.atomic_add(wrong, tl.sum(bad.to(tl.int32)))


@triton.jit(do_not_specialize=["rank", "epoch", "count"])
def barriers_kernel(table, rank, world_size, epoch, count, alarm, timeout_ticks, took, RANKS: tl.constexpr):  # type: ignore[no-untyped-def]
    """`count` barriers in a row; took: int64 [1], ticks for all of them."""
    barrier_all_ranks(table, 0, rank, world_size, epoch, alarm, timeout_ticks, 2, RANKS)
    start = wall_clock()
    for i in range(1, count):
        barrier_all_ranks(table, 0, rank, world_size, epoch + i, alarm, timeout_ticks, 2, RANKS)
    tl.store(took, wall_clock() - start)


@triton.jit(do_not_specialize=["rank", "epoch", "count"])
def ping_pong_kernel(table, rank, peer, epoch, count, alarm, timeout_ticks, took):
    """Two ranks answer each other's flag `count` times; took: int64 [1], ticks for all of them."""
    mine = tl.load(table + rank).to(tl.pointer_type(tl.int32))
    theirs = tl.load(table + peer).to(tl.pointer_type(tl.int32))
    start = wall_clock()
    for i in range(count):
        if rank < peer:
            signal(theirs, epoch + i)
        wait_until_at_least(mine, epoch + i, alarm, timeout_ticks, 3, peer)
        if rank > peer:
            signal(theirs, epoch + i)
    tl.store(took, wall_clock() - start)


@triton.jit(do_not_specialize=["rank"])
def store_kernel(x, table, rank, world_size, n_peers, n_chunks, offset, CHUNK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Copy x, int32 [n_chunks][CHUNK], to peers: neighbouring chunks go to different ones."""
    index = tl.arange(0, CHUNK)
    for chunk in range(tl.program_id(0), n_chunks, tl.num_programs(0)):
        peer = (rank + 1 + chunk % n_peers) % world_size
        words = (tl.load(table + peer) + offset).to(tl.pointer_type(tl.int32))
        words = tl.multiple_of(words, 16)
        at = tl.cast(chunk, tl.int64) * CHUNK + index
        tl.store(words + at, tl.load(x + at))
