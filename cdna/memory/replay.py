"""Does launches anew that another process has told of (engine/run/journal.h), in memory at the same addresses."""

import ctypes
import struct
from collections.abc import Iterator

from ..engine import abi
from ..engine.library import Launch, engine
from ..engine.settings import emulated_card, n_threads

HEAD, LAUNCH, NUMBER = struct.Struct("<II"), struct.Struct("<11I"), struct.Struct("<Q")


def begin() -> None:
    """Of a call: all memory that it has is zeros."""
    engine().lib.cdna_replay_begin()


def opens(address: int, size: int) -> bool:
    """Has memory there; False: this process has other memory there, which nothing here may write to."""
    return bool(engine().lib.cdna_replay_opens(address, size))


def entries(journal: bytes) -> Iterator[tuple[str, memoryview]]:
    """The engine's JournalEntry of each, and its payload."""
    kinds, held, at = list(abi.enumeration("JournalEntry")), memoryview(journal), 0
    while at < len(held):
        kind, size = HEAD.unpack_from(held, at)
        yield kinds[kind], held[at + HEAD.size : at + HEAD.size + size]
        at += HEAD.size + size


class Programs:
    """Of a case, by their numbers, as PROGRAM_KNOWN has them."""

    def __init__(self, arch: str) -> None:
        self.card = emulated_card(arch).model.encode()
        self.lib, self.known = engine().lib, dict[int, int]()

    def add(self, payload: memoryview) -> None:
        message, image = ctypes.create_string_buffer(256), bytes(payload[NUMBER.size :])
        program = self.lib.cdna_image_load(image, len(image), message)
        if not program:
            raise RuntimeError(message.value.decode(errors="replace"))
        self.known[NUMBER.unpack_from(payload)[0]] = program

    def launch(self, payload: memoryview) -> None:
        """One, which the log of launches has then. payload: of KERNEL_LAUNCHED."""
        number, kernel, *sizes, lds, cooperative, n_bytes = LAUNCH.unpack_from(payload)
        program, kernarg = self.known[number], bytes(payload[LAUNCH.size :])
        if kernel >= self.lib.cdna_kernels_of(program) or len(kernarg) != n_bytes:
            raise RuntimeError("a launch of no kernel")
        launch = Launch(
            groups=tuple(sizes[:3]),
            block=tuple(sizes[3:]),
            dynamic_lds_bytes=lds,
            n_threads=n_threads(),
            kernarg=ctypes.cast(ctypes.c_char_p(kernarg), ctypes.c_void_p),
            kernarg_bytes=n_bytes,
            cooperative=cooperative,
            card=self.lib.cdna_card(self.card),
        )
        logged = self.lib.cdna_log_begin(program, kernel, ctypes.byref(launch))
        self.lib.cdna_launch(program, kernel, ctypes.byref(launch))
        self.lib.cdna_log_end(logged, program, ctypes.byref(launch))
        if launch.status:
            raise RuntimeError(launch.message.decode(errors="replace"))

    def forget(self) -> None:
        for program in self.known.values():
            self.lib.cdna_program_destroy(program)
        self.known.clear()
