"""Does launches anew that another process has told of (engine/run/journal.h), in memory at the same addresses."""

import ctypes
import struct
from collections.abc import Iterator, Sequence

from ..binary.hazards import find_hazards, message
from ..binary.kernel_names import demangled
from ..binary.read_image import read_image
from ..cards import get_card
from ..checks import KINDS, note, settings
from ..engine import abi
from ..engine.library import Launch, engine
from ..engine.settings import emulated_card, n_threads
from ..errors import UnsupportedInstruction
from ..results import Finding

PLACE = range(abi.constant("PLACE"), abi.constant("PLACE") + abi.constant("PLACE_BYTES"))
PART_SHIFT, LEAST_SHIFT = map(abi.constant, ("PART_SHIFT", "LEAST_SHIFT"))
CLOSED = abi.enumeration("Openness")["CLOSED"]
UNWRITTEN_CELL = struct.pack("<I", abi.constant("UNWRITTEN")) * (abi.constant("JOURNAL_CELL_BYTES") // 4)
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


def place_of(address: int) -> range:
    """The memory that torch's allocator keeps for a block that the address lies in; none of other addresses."""
    if address not in PLACE:
        return range(0)
    room = 1 << LEAST_SHIFT + (address - PLACE.start >> PART_SHIFT)
    return range(address - address % room, address - address % room + room)


def begins(address: int) -> bool:
    """Whether a block of torch's allocator does there."""
    return place_of(address).start == address


class Told:
    """What a worker tells of the memory of launches, as MEMORY_KNOWN has it."""

    def __init__(self) -> None:
        self.open = CLOSED
        self.named, self.others = list[tuple[range, int, bool]](), list[tuple[range, int, bool]]()

    def tell(self, base: int, size: int, pointer: int, how: int) -> None:
        if base:
            (self.named if pointer else self.others).append((range(base, base + size), pointer, bool(how)))
            return
        self.named.clear()
        self.open = how
        if pointer:
            self.others.clear()

    def of_launch(self, kernarg: bytes, known: Sequence[range]) -> Iterator[tuple[range, int]]:
        """Memory and what the kernel gets as pointer. What is known is believed, what is told as far as there is
        room, and of what is not told the arguments say where it begins."""
        told = [*self.named, *self.others]
        for (word,) in NUMBER.iter_unpack(kernarg[: len(kernarg) // NUMBER.size * NUMBER.size]):
            place = place_of(word)
            if place and not any(word in memory or place.start == memory.start for memory, _, _ in told):
                told.append((place, word, False))
        for memory, pointer, freed in told:
            exact = next((one for one in known if memory.start in one or pointer in one), memory)
            room = place_of(exact.start) or exact
            if not freed and (inside := range(exact.start, min(exact.stop, room.stop))):
                yield inside, pointer


class Programs:
    """Of a case, by their numbers, as PROGRAM_KNOWN has them."""

    def __init__(self, arch: str) -> None:
        self.arch, self.card = arch, emulated_card(arch).model.encode()
        self.looked_at = set[tuple[int, int]]()
        self.lib, self.known, self.images = engine().lib, dict[int, int](), dict[int, bytes]()

    def add(self, payload: memoryview) -> None:
        says, image = ctypes.create_string_buffer(256), bytes(payload[NUMBER.size :])
        program = self.lib.cdna_image_load(image, len(image), says)
        if not program:
            raise RuntimeError(says.value.decode(errors="replace"))
        number = NUMBER.unpack_from(payload)[0]
        self.known[number], self.images[number] = program, image
        if not self.lib.cdna_is_sound(ctypes.c_void_p(program)):
            raise RuntimeError("a program that reaches past its own registers or code")

    def checks(self, kernarg: bytes, told: Told, known: Sequence[range]) -> int | None:
        """Those that are asked for."""
        kinds = settings().kinds
        if not (bits := sum(1 << i for i, kind in enumerate(KINDS) if kind in kinds)):
            return None
        checks = ctypes.c_void_p(self.lib.cdna_checks_new(bits, False, told.open))
        for memory, pointer in told.of_launch(kernarg, known):
            if opens(memory.start, len(memory)):  # checks look at what is there
                name = f"a tensor of {len(memory)} bytes".encode()
                self.lib.cdna_checks_range(checks, memory.start, len(memory), pointer, name)
        return checks.value

    def tell_hazards(self, number: int, kernel: int) -> None:
        """Those of a kernel, once. RuntimeError: its text, which they are found in, is not that of its code."""
        if "hazard" not in settings().kinds or (number, kernel) in self.looked_at:
            return
        self.looked_at.add((number, kernel))
        try:
            asm, sources = read_image(self.images[number], kernel)
        except (ValueError, LookupError, struct.error, UnsupportedInstruction) as error:
            raise RuntimeError(str(error)) from None

        def where(index: int) -> str:
            return f"`{asm.statements[index]}` ({sources[index]})"

        for one in find_hazards(asm, get_card(self.arch)):
            says, place = message(one, where), (str(asm.statements[one.index]), sources[one.index])
            if not one.doubt:
                name, other = demangled(one.kernel), where(one.first)
                note([Finding("hazard", name, self.arch, says, *place, other_instruction=other)], raises=False)

    def launch(self, payload: memoryview, told: Told, known: Sequence[range]) -> None:
        """One, which the log of launches has then, and that of findings. payload: of KERNEL_LAUNCHED; known: memory of
        which is known where it ends."""
        number, kernel, *sizes, lds, cooperative, n_bytes = LAUNCH.unpack_from(payload)
        program, kernarg = self.known[number], bytes(payload[LAUNCH.size :])
        if kernel >= self.lib.cdna_kernels_of(program) or len(kernarg) != n_bytes:
            raise RuntimeError("a launch of no kernel")
        self.tell_hazards(number, kernel)
        launch = Launch(
            groups=tuple(sizes[:3]),
            block=tuple(sizes[3:]),
            dynamic_lds_bytes=lds,
            n_threads=n_threads(),
            kernarg=ctypes.cast(ctypes.c_char_p(kernarg), ctypes.c_void_p),
            kernarg_bytes=n_bytes,
            cooperative=cooperative,
            card=self.lib.cdna_card(self.card),
            checks=self.checks(kernarg, told, known),
        )
        logged = self.lib.cdna_log_begin(program, kernel, ctypes.byref(launch))
        self.lib.cdna_launch(program, kernel, ctypes.byref(launch))
        self.lib.cdna_log_end(logged, program, ctypes.byref(launch))
        if launch.checks:
            self.lib.cdna_log_found(program, kernel, ctypes.c_void_p(launch.checks))
        if launch.status:
            raise RuntimeError(launch.message.decode(errors="replace"))

    def forget(self) -> None:
        for program in self.known.values():
            self.lib.cdna_program_destroy(program)
        self.known.clear()
        self.images.clear()
        self.looked_at.clear()
