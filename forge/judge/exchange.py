"""How tensors pass between the process that judges and the one that runs the submission: through memory both map.

Inputs go as the bytes of their storages and a pickle of all the rest; whoever reads them trusts whoever wrote them.
What comes back is raw bytes, and an Output (output.py) that says what they are: dtype, shape, strides. Nothing of it is
believed: `rebuilt` checks each word before it reads a byte, and copies what it reads.
"""

from __future__ import annotations

import copy
import io
import math
import mmap
import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from forge.device.pages import fresh
from forge.judge.memory import ALIGN_BYTES, REGION_BYTES, make_memory, show, written_pages
from forge.judge.messages import Malformed
from forge.judge.output import Container, Other, Output, Part, Tensor, Value

INPUTS, *OUTPUTS = range(3)  # regions: of outputs two, so that one may be read while the next call writes the other
# Of an output: containers in each other; tensors, containers and plain values. The same for who makes and who reads it.
MOST_DEPTH, MOST_PARTS = 20, 100_000
# An output holds at most this, or its inputs' bytes so many times: all else is a mistake that would fill the memory.
MOST_BYTES, MOST_INPUTS = 8 << 30, 4
LARGE_BYTES = 256 << 20  # of a storage in the host's memory, which from here on is not copied but shown
# At a time: a copy of them may be made. Where the host has them, an emulated device's too, it stays in a core's cache.
COMPARE_BYTES, HOST_COMPARE_BYTES = 64 << 20, 256 << 10
DTYPES = {str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, torch.dtype)}


class Region:
    """A part of a rank's memory, as one of the two processes sees it."""

    def __init__(self, descriptor: int, number: int) -> None:
        self.descriptor, self.start = descriptor, REGION_BYTES * number
        self._mapped: mmap.mmap | None = None

    def bytes(self, size: int) -> torch.Tensor:
        """uint8 [size] of it, from its begin."""
        size = max(ALIGN_BYTES, -(-size // ALIGN_BYTES) * ALIGN_BYTES)
        if self._mapped is None or len(self._mapped) < size:
            self._mapped = mmap.mmap(self.descriptor, size, offset=self.start)
        return torch.frombuffer(self._mapped, dtype=torch.uint8)

    def view(self, size: int | None = None) -> memoryview:
        """The same for files: its first bytes, or all that it has mapped."""
        if size is not None:
            self.bytes(size)
        return memoryview(self._mapped or b"")[:size]

    def fill(self, storage: torch.Tensor, start: int, size: int) -> None:
        """Gives a storage's first bytes what the region has from `start` on, until somebody writes to either."""
        pages = is_large(storage) and size >= LARGE_BYTES and not storage.data_ptr() % ALIGN_BYTES
        whole = size - size % ALIGN_BYTES if pages else 0
        if whole:
            show(storage.data_ptr(), whole, self.descriptor, self.start + start)
        if whole < size:
            storage[whole:size].copy_(self.bytes(start + size)[start + whole : start + size])

    def forget(self) -> None:
        """Gives its memory back."""
        if self._mapped is not None:
            self._mapped.madvise(mmap.MADV_REMOVE)
            self._mapped = None


# ---------------------------------------------------------------- inputs


class _Writer(pickle.Pickler):
    """Pickles data without its tensors: of each, which storage it lies in and how."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.storages: dict[tuple[int, int], tuple[int, torch.Tensor]] = {}

    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return None
        number, _ = self.storages.setdefault(_place_of(value), (len(self.storages), value))
        dtype = str(value.dtype).removeprefix("torch.")
        parameter = isinstance(value, torch.nn.Parameter)
        strides = tuple(value.stride())
        return number, dtype, tuple(value.shape), strides, value.storage_offset(), parameter, value.requires_grad


def _place_of(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """uint8 [bytes] of all that the tensor's storage holds, on its device."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.detach().untyped_storage())


def is_large(storage: torch.Tensor) -> bool:
    """Whether a storage, as uint8, is a large one in the host's memory, where an emulated device's are too."""
    return len(storage) >= LARGE_BYTES and storage.untyped_storage().device.type == "cpu"


def clear(storage: torch.Tensor) -> None:
    """Gives a storage's whole pages back: they hold zeros then, at the same addresses."""
    first, end = -(-storage.data_ptr() // ALIGN_BYTES), (storage.data_ptr() + len(storage)) // ALIGN_BYTES
    if end > first:
        show(first * ALIGN_BYTES, (end - first) * ALIGN_BYTES)


def write_input(data: Any, region: Region, move: bool = False) -> bytes:
    """Puts an input's storages into the region; returns the rest, for `Inputs.read`. move: large ones show it then."""
    file = io.BytesIO()
    writer = _Writer(file)
    writer.dump(data)
    places, end = [], 0
    for _, tensor in writer.storages.values():
        size = tensor.untyped_storage().nbytes()
        places.append((end, size, str(tensor.device)))
        end += -(-size // ALIGN_BYTES) * ALIGN_BYTES
    memory = region.bytes(end)
    for (start, size, _), (_, tensor) in zip(places, writer.storages.values()):
        if size:
            memory[start : start + size].copy_(raw(tensor))
            if move and is_large(raw(tensor)):
                region.fill(raw(tensor), start, size)
    return pickle.dumps((places, file.getvalue()))


class _Reader(pickle.Unpickler):
    def __init__(self, pickled: bytes, inputs: Inputs) -> None:
        super().__init__(io.BytesIO(pickled))
        self.inputs = inputs

    def persistent_load(self, pid: Any) -> torch.Tensor:
        return self.inputs.tensor(pid)


@dataclass
class Inputs:
    """A submission's input, and the storages that it lies in; those of another draw may take their place."""

    region: Region
    shown: bool = True  # large storages in the host's memory: no other process can open these
    storages: list[torch.Tensor] = field(default_factory=list)  # uint8, on the device
    tensors: dict[Any, torch.Tensor] = field(default_factory=dict)
    places: list[tuple[int, int, str]] = field(default_factory=list)

    def read(self, layout: bytes) -> Any:
        """The input that `write_input` put into the region, where the one before lay as far as it fits there: in the
        same storages, and in the same tensors where these still are what they were."""
        self.places, pickled = pickle.loads(layout)
        before, self.storages = self.storages, []
        for number, (start, size, device) in enumerate(self.places):
            old = before[number] if number < len(before) else None
            if old is None or len(old) < size or str(old.device) != device:
                large = self.shown and size >= LARGE_BYTES
                old = _pages(size, device) if large else torch.empty(size, dtype=torch.uint8, device=device)
            self.region.fill(old, start, size)
            self.storages.append(old)
        kept = {id(storage) for storage in self.storages}
        self.leave(storage for storage in before if id(storage) not in kept)
        return _Reader(pickled, self).load()

    def leave(self, storages: Iterable[torch.Tensor] | None = None) -> None:
        """Gives back large ones, all if none are named: who still reads there finds zeros, not what comes next."""
        for storage in self.storages if storages is None else storages:
            if self.shown and is_large(storage):
                clear(storage)

    def tensor(self, pid: Any) -> torch.Tensor:
        number, dtype, shape, strides, offset, parameter, requires_grad = pid
        storage, known = self.storages[number].untyped_storage(), self.tensors.get(pid)
        if known is not None and _same(known, storage, pid):
            return known
        device = self.places[number][2]
        made = torch.empty(0, dtype=DTYPES[dtype], device=device).set_(storage, offset, shape, strides)
        made = torch.nn.Parameter(made, requires_grad) if parameter else made.requires_grad_(requires_grad)
        self.tensors[pid] = made
        return made

    def changed(self) -> list[tuple[int, torch.Tensor]]:
        """(its number, its bytes) of each storage that no longer holds what was read."""
        memory = self.region.bytes(max((start + size for start, size, _ in self.places), default=0))
        return [
            (number, storage[:size])
            for number, ((start, size, _), storage) in enumerate(zip(self.places, self.storages))
            if not all(same_bytes(storage[one], memory[start:][one]) for one in self.touched(storage, size))
        ]

    def touched(self, storage: torch.Tensor, size: int) -> list[slice]:
        """Where a storage's first bytes may differ from the region's: of one that shows it, the pages written to."""
        if self.shown and is_large(storage) and not storage.data_ptr() % ALIGN_BYTES:
            whole = size // ALIGN_BYTES
            if (pages := written_pages(storage.data_ptr(), whole)) is not None and len(pages) < whole // 4:
                return [
                    *(slice(page * ALIGN_BYTES, (page + 1) * ALIGN_BYTES) for page in pages),
                    slice(whole * ALIGN_BYTES, size),
                ]
        return [slice(0, size)]

    def number_of(self, tensor: torch.Tensor) -> int:
        """Which storage the tensor lies in; -1 for none of these."""
        start = tensor.untyped_storage().data_ptr()
        numbers = (n for n, storage in enumerate(self.storages) if len(storage) and storage.data_ptr() == start)
        return next(numbers, -1)


class Kept:
    """An input with large storages, moved into memory that no other process has.

    Copies show that memory, and take some only where they are written to.
    """

    def __init__(self, data: Any = None, region: Region | None = None, layout: bytes = b"") -> None:
        """Of data; or of a region that it lies in already, as `write_input` put it there."""
        self.region = region or Region(make_memory(), INPUTS)
        self.layout = layout or write_input(data, self.region, move=True)

    def copy(self) -> Any:
        return Inputs(self.region).read(self.layout)

    def forget(self) -> None:
        """Its memory is given back once nobody holds a copy."""
        os.close(self.region.descriptor)


class Copied:
    """The same of an input without large storages: its copies take memory."""

    def __init__(self, data: Any) -> None:
        self.data = copy.deepcopy(data)

    def copy(self) -> Any:
        return copy.deepcopy(self.data)

    def forget(self) -> None:
        self.data = None


# ---------------------------------------------------------------- what a reference makes of an input


def _bytes_of(flat: torch.Tensor) -> bytes:
    held = bytearray(len(flat))
    if held:
        torch.frombuffer(held, dtype=torch.uint8).copy_(flat)
    return bytes(held)


def _tensor_of(held: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(held), dtype=torch.uint8) if held else torch.empty(0, dtype=torch.uint8)


def write_outcome(before: Any, after: Any, output: Any) -> bytes:
    """What a reference made of an input: its output, and what it changed of the input, which the output may lie in."""
    writer = _Writer(io.BytesIO())
    writer.dump(after)
    olds = [parts[0][1] for _, parts in sorted(numbered(before).items())]
    changes = []
    for number, (old, (_, new)) in enumerate(zip(olds, writer.storages.values())):
        pieces = zip(raw(old).split(HOST_COMPARE_BYTES), raw(new).split(HOST_COMPARE_BYTES))
        for place, (one, other) in enumerate(pieces):
            if not same_bytes(one, other):
                changes.append((number, place * HOST_COMPARE_BYTES, _bytes_of(other)))
    told = _Writer(file := io.BytesIO())
    told.storages = writer.storages
    n_input = len(told.storages)
    told.dump(output)
    own = [(str(tensor.device), _bytes_of(raw(tensor))) for _, tensor in told.storages.values()][n_input:]
    return pickle.dumps((n_input, changes, own, file.getvalue()))


def read_outcome(told: bytes, data: Any) -> Any:
    """The output, after the input has been changed likewise."""
    n_input, changes, own, pickled = pickle.loads(told)
    storages = [raw(parts[0][1]) for _, parts in sorted(numbered(data).items())]
    if len(storages) != n_input:
        raise Malformed("an outcome of another input")
    for number, start, content in changes:
        storages[number][start : start + len(content)].copy_(_tensor_of(content))
    storages += [_tensor_of(content).to(device) for device, content in own]
    places = [(0, len(storage), str(storage.device)) for storage in storages]
    return _Reader(pickled, Inputs(None, storages=storages, places=places)).load()  # type: ignore[arg-type]


def has_large(data: Any) -> bool:
    return any(is_large(raw(parts[0][1])) for parts in numbered(data).values())


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two uint8 tensors of a size, on any device, are equal. Each begins at a multiple of 8 bytes."""
    words = len(a) - len(a) % 8  # compared in a fifth of the time of their bytes
    of_host = all(one.untyped_storage().device.type == "cpu" for one in (a, b))
    at_once = (HOST_COMPARE_BYTES if of_host else COMPARE_BYTES) // 8
    pieces = zip(*(one[:words].view(torch.int64).split(at_once) for one in (a, b)))
    rest = a[words:], b[words:]
    return all(torch.equal(one.cpu(), other.cpu()) for one, other in (*pieces, rest))


def _pages(size: int, device: str) -> torch.Tensor:
    """uint8 [size], in the host's memory from the begin of a page on."""
    if device == "cpu":
        return torch.frombuffer(fresh(size), dtype=torch.uint8)
    return torch.empty(0, dtype=torch.uint8, device=device).new_zeros(size)  # so an emulated device makes large ones


def _same(tensor: torch.Tensor, storage: torch.UntypedStorage, pid: Any) -> bool:
    _, dtype, shape, strides, offset, _, _ = pid
    there = (tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())
    return there == (DTYPES[dtype], shape, strides, offset) and _place_of(tensor)[0] == storage.data_ptr()


# ---------------------------------------------------------------- outputs


class Unfit(Exception):
    """An output that nothing could be compared with. One line."""


def tensors_in(output: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """Those of an output, in the order in which it is told."""
    if isinstance(output, torch.Tensor):
        yield output
    elif depth < MOST_DEPTH and isinstance(output, (tuple, list, dict)):
        for item in output.values() if isinstance(output, dict) else output:
            yield from tensors_in(item, depth + 1)


class _Packer:
    def __init__(self, inputs: Inputs, most_bytes: int) -> None:
        self.inputs, self.most_bytes = inputs, most_bytes
        self.flat: list[tuple[int, torch.Tensor]] = []
        self.parts: list[Part] = []
        self.end = 0

    def add(self, flat: torch.Tensor) -> int:
        start, self.end = self.end, self.end + -(-len(flat) // ALIGN_BYTES) * ALIGN_BYTES
        self.flat.append((start, flat))
        return start

    def take(self, value: Any, where: str, depth: int = 0) -> None:
        if depth >= MOST_DEPTH and isinstance(value, (tuple, list, dict)):
            raise Unfit(f"output nests deeper than {MOST_DEPTH}, or holds itself")
        if len(self.parts) >= MOST_PARTS:
            raise Unfit(f"{where}: the output has more than {MOST_PARTS} parts")
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            self.parts.append(self.tensor(value, where))
        elif isinstance(value, torch.Tensor) or hasattr(type(value), "__torch_function__"):
            raise Unfit(f"{where} is a {type(value).__name__}, not a plain torch.Tensor")
        elif isinstance(value, (tuple, list)):
            self.parts.append(Container("tuple" if isinstance(value, tuple) else "list", len(value)))
            for i, item in enumerate(value):
                self.take(item, f"{where}[{i}]", depth + 1)
        elif isinstance(value, dict):
            if not all(type(key) in (str, int) for key in value):
                raise Unfit(f"{where} is a dict whose keys are not all words or integers")
            self.parts.append(Container("dict", len(value), tuple(value)))
            for key, item in value.items():
                self.take(item, f"{where}[{key!r}]", depth + 1)
        else:
            plain = value is None or type(value) in (bool, int, float, str)
            self.parts.append(Value(value) if plain else Other(type(value).__name__))

    def tensor(self, value: torch.Tensor, where: str) -> Tensor:
        if value.layout is not torch.strided or value.device.type not in ("cuda", "cpu"):
            raise Unfit(f"{where} is a tensor of layout {value.layout} on {value.device}, not a plain one on the GPU")
        size = value.numel() * value.element_size()
        if self.end + size > self.most_bytes:
            raise Unfit(f"{where}: the output holds more than {self.most_bytes} bytes")
        flat = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
        return Tensor(
            str(value.dtype).removeprefix("torch."),
            tuple(value.shape),
            value.stride(),
            str(value.device),
            self.add(flat.view(torch.uint8) if size else flat.new_empty(0, dtype=torch.uint8)),
            self.inputs.number_of(value),
        )


def write_output(output: Any, inputs: Inputs, region: Region) -> Output:
    """Puts an output's bytes into the region, and those of each input storage that has changed; says what and where."""
    packer, unfit = _Packer(inputs, most_bytes(size for _, size, _ in inputs.places)), ""
    try:
        packer.take(output, "output")
    except Unfit as error:
        packer.flat, packer.parts, packer.end, unfit = [], [], 0, str(error)
    changed = tuple((number, packer.add(flat)) for number, flat in inputs.changed())
    memory = region.bytes(packer.end)
    for start, flat in packer.flat:
        if len(flat):
            memory[start : start + len(flat)].copy_(flat)
    return Output(tuple(packer.parts), changed, unfit)


def most_bytes(sizes: Iterable[int]) -> int:
    """Of an output, by those of its input's storages."""
    return max(MOST_BYTES, MOST_INPUTS * sum(sizes))


class Strange:
    """In place of an output's object that is none of torch's or Python's own plain ones."""


def rebuilt(told: Output, region: Region, most: int = MOST_BYTES) -> Any:
    """The output that was told, in memory of one's own: at most so many bytes. Malformed if that is none, Unfit as it
    says."""
    if told.unfit:
        raise Unfit(told.unfit[:1000])
    parts = iter(told.parts[:MOST_PARTS])
    made = _rebuilt(parts, region, [most], 0)
    if len(told.parts) > MOST_PARTS or next(parts, None) is not None:
        raise Malformed("an output of too many parts")
    return made


def _rebuilt(parts: Iterator[Part], region: Region, left_bytes: list[int], depth: int) -> Any:
    match next(parts, None):
        case Tensor() as one:
            try:
                return _rebuilt_tensor(one, region, left_bytes)
            except (RuntimeError, ValueError, OverflowError):  # torch makes none of this dtype, or of this size
                raise Malformed("a tensor of an output that torch cannot make") from None
        case Container(kind, count, keys) if depth < MOST_DEPTH and count <= MOST_PARTS:
            items = [_rebuilt(parts, region, left_bytes, depth + 1) for _ in range(count)]
            if len(keys) != count * (kind == "dict"):
                raise Malformed("keys of an output")
            return dict(zip(keys, items)) if keys else {"tuple": tuple, "list": list, "dict": dict}[kind](items)
        case Value(value):
            return value
        case Other(name):
            return type(name[:100] or "object", (Strange,), {})()
    raise Malformed("an output of too many parts, or too few")


def _rebuilt_tensor(told: Tensor, region: Region, left_bytes: list[int]) -> torch.Tensor:
    dtype, shape = DTYPES.get(told.dtype), told.shape
    if dtype is None or len(shape) != len(told.strides):
        raise Malformed("a tensor of an output")
    start, size = told.start, math.prod(shape) * dtype.itemsize
    left_bytes[0] -= size
    if left_bytes[0] < 0 or start + size > REGION_BYTES or start % ALIGN_BYTES:
        raise Malformed("a tensor of an output: its size")
    kind, _, index = told.device.partition(":")
    on_gpu = kind == "cuda" and (index or "0").isdigit() and int(index or 0) < torch.cuda.device_count()
    if not on_gpu and told.device != "cpu":
        raise Malformed(f"a tensor of an output on {told.device!r:.20}")
    flat = region.bytes(start + size)[start : start + size].clone()
    made = flat.view(dtype).reshape(shape) if size else torch.empty(shape, dtype=dtype)
    made = made.to(told.device)
    return made if tuple(made.stride()) == told.strides else _strided(made, shape, told.strides)


def _strided(tensor: torch.Tensor, shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """The same with these strides, if they let no two elements share a place and leave few places between."""
    span = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    used = sorted((stride, size) for stride, size in zip(strides, shape) if size > 1)
    apart = all(after[0] >= before[0] * before[1] for before, after in zip(used, used[1:]))
    if not apart or not all(stride for stride, _ in used) or span > 4 * tensor.numel():
        return tensor
    made = torch.empty_strided(shape, strides, dtype=tensor.dtype, device=tensor.device)
    return made.copy_(tensor)


# ---------------------------------------------------------------- what an input consists of


def named_tensors(data: Any, path: str = "data", reached: bool = True) -> Iterator[tuple[str, torch.Tensor, bool]]:
    """Each tensor of an input: its name, and whether tuples, lists and dicts alone lead to it, as the official
    evaluators' copying asks."""
    if isinstance(data, torch.Tensor):
        yield path, data, reached
    elif isinstance(data, (tuple, list)):
        for i, item in enumerate(data):
            yield from named_tensors(item, f"{path}[{i}]", reached)
    elif isinstance(data, dict):
        for key, item in data.items():
            yield from named_tensors(item, f"{path}[{key!r}]", reached)
    elif isinstance(data, torch.nn.Module):
        for name, item in data.state_dict(keep_vars=True).items():
            yield from named_tensors(item, f"{path}.{name}", False)
    elif hasattr(data, "__dict__") and not isinstance(data, type):
        for name, item in vars(data).items():
            if isinstance(item, (torch.Tensor, tuple, list, dict)):
                yield from named_tensors(item, f"{path}.{name}", False)


def numbered(data: Any) -> dict[int, list[tuple[str, torch.Tensor, bool]]]:
    """The tensors of an input by the storage's number that `write_input` gives them."""
    writer = _Writer(io.BytesIO())
    writer.dump(data)
    found: dict[int, list[tuple[str, torch.Tensor, bool]]] = {}
    for name, tensor, reached in named_tensors(data):
        number, _ = writer.storages.get(_place_of(tensor), (-1, tensor))
        found.setdefault(number, []).append((name, tensor, reached))
    return found
