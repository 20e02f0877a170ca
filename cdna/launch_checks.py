"""Launches with checks: what the engine is told before one, and asked after it."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

from . import abi
from .checks import KINDS, Memory, as_finding, note
from .library import engine

_NO_INSTRUCTION = 0xFFFFFFFF
OF_DEVICE, OF_HOST, PINNED = abi.enumeration("Whose").values()

_claimed = False  # whether somebody tells of the tensors that are the host's


@functools.cache
def watch_torch() -> None:
    """Have torch's allocator watched from now on: freed tensors stay a while, so that who goes there is told."""
    engine().lib.cdna_watch_allocator(b"libc10.so", True)


def expect_claims() -> Callable[[int, int], None]:
    """Have tensors of the host told from those of the GPU. Returns what is to be told whose each storage is."""
    global _claimed
    engine().lib.cdna_watch_allocator(b"libc10.so", False)
    _claimed = True
    return engine().lib.cdna_claim_block


@functools.cache
def align_torch() -> None:
    """Have torch's tensors begin, from now on, where a GPU's allocator begins them: the model of time counts lines."""
    engine().lib.cdna_align_allocator(b"libc10.so")


class LaunchChecks:
    """The checks of one launch: made before it, asked after it."""

    def __init__(self, lib: Any, kinds: frozenset[str], raises: bool, memory: Memory) -> None:
        self._lib, self.raises = lib, raises
        if "bounds" in kinds and "torch" in sys.modules:
            watch_torch()
        bits = sum(1 << i for i, kind in enumerate(KINDS) if kind in kinds)
        self.handle = ctypes.c_void_p(lib.cdna_checks_new(bits, int(raises), int(memory.open)))
        for tensor in memory.tensors:
            lib.cdna_checks_range(
                self.handle, tensor.base, tensor.size_bytes, tensor.pointer, tensor.name.encode()[:63]
            )
        if memory.open and _claimed:
            lib.cdna_checks_claimed(self.handle)

    def finish(
        self, kernel: str, arch: str, place: Callable[[int], tuple[str, str]], where: Callable[[int], str]
    ) -> None:
        """Keep what was found; the first finding is raised where findings are errors.

        place: (text, source line) of an instruction; where: both in one text.
        """
        count = ctypes.c_uint32()
        records = self._lib.cdna_checks_findings(self.handle, ctypes.byref(count))
        found = []
        for record in records[: count.value]:
            other = "" if record.other_pc == _NO_INSTRUCTION else where(record.other_pc)
            found.append(as_finding(record, kernel, arch, *place(record.pc), other))
        self._lib.cdna_checks_free(self.handle)
        note(found, self.raises)


def mark_unwritten(address: int, size_bytes: int) -> None:
    """Fill fresh memory so that the `unwritten` check knows it: whoever reads it before it is written is told."""
    engine().lib.cdna_mark_unwritten(address, size_bytes)
