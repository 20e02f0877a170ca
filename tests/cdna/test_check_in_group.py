"""Waves of one workgroup that meet in global memory, in Triton: what has no barrier between, and what needs none."""

# mypy: disable-error-code="no-untyped-def"

import pytest
import torch
import triton
import triton.language as tl

import cdna

WAVES = 4


@triton.jit
def _sums_behind_locks(locks, sums, x, LOCKS: tl.constexpr, B: tl.constexpr):
    """As a layer norm's backward pass adds the rows of many programs up: the first to come stores, the others add."""
    at = tl.arange(0, B)
    lock = locks + tl.program_id(0) % LOCKS
    place = sums + tl.program_id(0) % LOCKS * B + at
    row = tl.load(x + tl.program_id(0) * B + at)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(lock + LOCKS) == 0:  # whether any has come: every wave looks, and one of them says so
        tl.atomic_xchg(lock + LOCKS, 1)
    else:
        row += tl.load(place)
    tl.store(place, row)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def _added_behind_a_lock(lock, total, x, EARLY: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, B)
    row = tl.load(x + tl.program_id(0) * B + at)
    if EARLY:
        before = tl.load(total + at)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if not EARLY:
        before = tl.load(total + at)
    tl.store(total + at, before + row)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def kinds_found(kernel, grid: int, *arguments, seed: int = 0, **constants) -> list[str]:
    cdna.findings()
    with cdna.device("gfx942", checks="all", raises=False, order_seed=seed or None):
        kernel[(grid,)](*arguments, **constants, num_warps=WAVES)
    return [finding.kind for finding in cdna.findings()]


@pytest.mark.parametrize("seed", range(6))
def test_sums_behind_locks_are_right(seed: int) -> None:
    x, sums = torch.randn(12, 256), torch.zeros(3, 256)
    locks = torch.zeros(6, dtype=torch.int32)
    assert kinds_found(_sums_behind_locks, 12, locks, sums, x, seed=seed, LOCKS=3, B=256) == []
    torch.testing.assert_close(sums, x.view(4, 3, 256).sum(0))


@pytest.mark.parametrize("early", [False, True])
def test_a_sum_read_before_its_lock_is_taken(early: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compare-and-swap of the lock is none of the sum, which is not looked at again."""
    monkeypatch.setenv("CDNA_THREADS", "1")
    x, total, lock = torch.ones(6, 256), torch.zeros(256), torch.zeros(1, dtype=torch.int32)
    assert kinds_found(_added_behind_a_lock, 6, lock, total, x, EARLY=early, B=256) == ["race"] * early
    assert early or total.eq(6).all()


@triton.jit
def _bytes_over_each_other(x, B: tl.constexpr):
    tl.store(x + tl.program_id(0) + tl.arange(0, B), tl.full((B,), 1, x.dtype.element_ty) + tl.program_id(0))


@pytest.mark.parametrize(
    ("dtype", "size"), [(torch.uint8, "1 byte"), (torch.int16, "2 bytes"), (torch.int64, "4 bytes")]
)
def test_how_much_is_written_is_told(dtype: torch.dtype, size: str) -> None:
    """At most four bytes: they are looked at one by one."""
    cdna.findings()
    with cdna.device("gfx942", checks="race", raises=False):
        _bytes_over_each_other[(2,)](torch.zeros(65, dtype=dtype), B=64, num_warps=1)
    assert f"writes another value to {size} of `x`" in cdna.findings()[0].message
