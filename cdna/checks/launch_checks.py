"""Launches with checks: what the engine is told before one, and asked after it."""

import ctypes
import re
import sys
from collections.abc import Callable
from typing import Any

from ..engine import abi
from ..engine.library import engine
from ..memory.torch_memory import fill_fresh, watch_torch
from ..results import Finding
from . import KINDS, Memory, as_finding, note, settings

_NO_INSTRUCTION = 0xFFFFFFFF
_UNWRITTEN = abi.constant("UNWRITTEN") * 0x1_0000_0001  # two dwords
OF_DEVICE, OF_HOST, PINNED = abi.enumeration("Whose").values()

_claimed = False  # whether somebody tells of the tensors that are the host's


def expect_claims() -> Callable[[int, int], None]:
    """Have tensors of the host told from those of the GPU. Returns what is to be told whose each storage is."""
    global _claimed
    engine().lib.cdna_watch_allocator(b"libc10.so", False)
    engine().lib.cdna_host_apart(True)
    _claimed = True
    return engine().lib.cdna_claim_block


class LaunchChecks:
    """The checks of one launch: made before it, asked after it."""

    def __init__(self, lib: Any, kinds: frozenset[str], raises: bool, memory: Memory) -> None:
        self._lib, self.raises = lib, raises
        if kinds & {"bounds", "unwritten"} and "torch" in sys.modules:
            watch_torch()
            fill_fresh("unwritten" in kinds)  # those of the environment have told nobody yet
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
    """Fill memory as fresh one that nobody has written, for the `unwritten` check."""
    engine().lib.cdna_mark_unwritten(address, size_bytes)


def unwritten_elements(tensor: Any) -> Any:
    """Which elements of a tensor in the host's memory nobody has written, as booleans.

    Those of 16-bit floats are told by themselves; integers of 8 and 16 bits, which may have any value, by their dwords.
    """
    import torch

    if tensor.layout != torch.strided or tensor.is_meta:
        return torch.zeros(tensor.shape, dtype=torch.bool)
    tensor = tensor.detach()
    if tensor.is_complex():
        return unwritten_elements(torch.view_as_real(tensor.resolve_conj())).any(-1)
    size = tensor.element_size()
    halves = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    if size in halves and (size > 2 or tensor.is_floating_point()):
        return tensor.view(halves[size]) == _UNWRITTEN >> 64 - 8 * size
    flat, found = tensor.reshape(-1), torch.zeros(tensor.numel(), dtype=torch.bool)
    whole = len(flat) * size // 4 * 4
    if flat.data_ptr() % 4 == 0 and whole:
        dwords = flat.view(torch.uint8)[:whole].view(torch.int32) == _UNWRITTEN >> 32
        found[: whole // size] = dwords.repeat_interleave(4 // size)
    return found.view(tensor.shape)


def look_at_read(name: str, tensor: Any, arch: str, reader: str, copies: bool = False, raises: bool = True) -> None:
    """Tell where the host takes a result of which something is not written, if that is looked for.

    copies: it is copied whole, and may be used in part: told where nothing is written, or something computed.
    raises: where findings are errors, this one is.
    """
    wanted = settings()
    missing = unwritten_elements(tensor) if "unwritten" in wanted.kinds else None
    if missing is None or not (count := int(missing.sum())):
        return
    text, lib = ctypes.create_string_buffer(512), engine().lib
    for index in missing.nonzero()[[-1, 0]].tolist():
        at = sum(i * stride for i, stride in zip(index, tensor.stride(), strict=True))
        known = lib.cdna_unwritten_store(tensor.data_ptr() + at * tensor.element_size(), text, len(text))
        if known == 2:
            break
    if copies and known != 2 and count < tensor.numel():
        return
    stored = re.fullmatch(r"(.*?) at `(.*?)`(?: \((.*)\))?", text.value.decode(errors="replace")) if known else None
    what = "atomic" if stored and "atomic" in stored[2] else "store"
    made = f"is what this {what} made of memory that nothing had written" if stored else "is written by nothing"
    message = (
        f"{reader} reads {count:,} of the {tensor.numel():,} elements of {name}, and what it finds there, at "
        f"{index} for one, {made}: fill it before, with torch.zeros for example"
    )
    kernel, instruction, source = stored.groups("") if stored else ("torch", "", "")
    note([Finding("unwritten", kernel, arch, message, instruction, source, tensor=name)], raises and wanted.raises)
