"""torch.Generator for any claimed device. What a GPU's draws are the CPU generator's numbers: a real one's differ.

A GPU's state is 16 bytes, seed and offset, which kernels with a Philox of their own take and move on. Here such a pair
stands for a state of the CPU's generator: one that has been handed out comes back as it was, in this process, and every
other one begins a sequence that depends on the pair alone.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import torch

from forge.device.fake_rocm import tags
from forge.device.fake_rocm.tags import CPU, target

_BASE = torch._C.Generator
STEP = 4  # offsets are multiples of it
MOST = 4096  # states remembered, of 5 kB

_states: dict[tuple[int, int], bytes] = {}  # (seed, offset): the CPU generator's, the oldest first
_offsets: dict[bytes, int] = {}
_last: dict[int, int] = {}  # seed: the largest offset that has been given to a state of it


def _remember(seed: int, offset: int, state: bytes) -> None:
    if len(_states) >= MOST:
        _offsets.pop(_states.pop(next(iter(_states))), None)
    _states[seed, offset] = state
    _offsets[state] = offset
    _last[seed] = max(offset, _last.get(seed, 0))


def _whole(generator: torch._C.Generator) -> bytes:
    state: bytes = _BASE.get_state(generator).numpy().tobytes()
    return state


def _seeded(seed: int) -> bytes:
    generator = _BASE()
    generator.manual_seed(seed)
    return _whole(generator)


def _offset_of(state: bytes) -> int:
    """What stands for a state behind its seed: 0 as it is seeded, and more from draw to draw."""
    if state not in _offsets:
        (seed,) = struct.unpack_from("<Q", state)
        _remember(seed, 0 if state == _seeded(seed) else _last.get(seed, 0) + STEP, state)
    return _offsets[state]


def _state_of(seed: int, offset: int) -> bytes:
    if (seed, offset) not in _states:
        mixed = hashlib.blake2b(struct.pack("<QQ", seed, offset), digest_size=4).digest()
        begun = _seeded(int.from_bytes(mixed, "little") if offset else seed)
        _remember(seed, offset, struct.pack("<Q", seed) + begun[8:])
    return _states[seed, offset]


class _GeneratorType(type(torch._C.Generator)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _BASE)  # torch.default_generator too


class Generator(torch._C.Generator, metaclass=_GeneratorType):
    claimed: torch.device
    source: torch._C.Generator  # itself; of a GPU's default generator the one that draws where none is given

    def __new__(cls, device: Any = "cpu") -> Generator:
        made = super().__new__(cls, device="cpu")
        tag = target(device)
        made.claimed = tags.CPU_DEVICE if tag is None or tag == CPU else tags.gpu(tag)
        made.source = made
        return made

    @property
    def device(self) -> torch.device:
        return self.claimed

    def get_state(self) -> torch.Tensor:
        if self.claimed == tags.CPU_DEVICE:
            return tags.mark(_BASE.get_state(self), CPU)
        return torch.frombuffer(
            bytearray(struct.pack("<QQ", self.initial_seed(), self.get_offset())), dtype=torch.uint8
        )

    def set_state(self, new_state: torch.Tensor) -> Generator:
        if self.claimed == tags.CPU_DEVICE:
            _BASE.set_state(self, new_state)
            return self
        if new_state.dtype != torch.uint8 or new_state.numel() != 16:
            raise RuntimeError("RNG state is wrong size: a GPU's is 16 bytes, its seed and offset")
        return self._set(*struct.unpack("<QQ", bytes(new_state.tolist())))

    def _set(self, seed: int, offset: int) -> Generator:
        if offset % STEP:
            raise RuntimeError("offset must be a multiple of 4")
        _BASE.set_state(self.source, torch.frombuffer(bytearray(_state_of(seed, offset)), dtype=torch.uint8))
        return self

    def get_offset(self) -> int:
        return _offset_of(_whole(self.source))

    def set_offset(self, offset: int) -> Generator:
        return self._set(self.initial_seed(), offset)

    def initial_seed(self) -> int:
        return _BASE.initial_seed(self.source)

    def manual_seed(self, seed: int) -> Generator:
        _BASE.manual_seed(self.source, seed)
        return self

    def seed(self) -> int:
        return _BASE.seed(self.source)

    def clone_state(self) -> Generator:
        return _rebuild_generator(*self.__reduce__()[1])

    def __reduce__(self) -> Any:
        return _rebuild_generator, (str(self.claimed), _BASE.get_state(self.source))


def _rebuild_generator(device: str, state: torch.Tensor) -> Generator:
    made = Generator(device)
    _BASE.set_state(made, state)
    return made


def default_of(index: int) -> Generator:
    """A GPU's own. It shares its numbers with the host's: draws with no generator come from there."""
    made = Generator(tags.gpu(index))
    made.source = torch.default_generator
    return made


def source_of(generator: Any) -> Any:
    """The one to draw from, given what a program passed."""
    return generator.source if type(generator) is Generator else generator


def check(generator: Any, tag: int | None) -> None:
    # torch.default_generator is no Generator of ours: here it is the host's and every GPU's.
    if type(generator) is Generator and tag is not None:
        wanted = "cpu" if tag == CPU else "cuda"
        if generator.claimed.type != wanted:
            raise RuntimeError(f"Expected a '{wanted}' device type for generator but found '{generator.claimed.type}'")


def apply() -> None:
    torch.Generator = Generator
    torch.cuda.default_generators = tuple(map(default_of, range(tags.device_count())))
    tags.publish(_rebuild_generator)
