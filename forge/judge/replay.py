"""Makes a call's output anew, in a process that no submission has been in, of what its worker says it was made by.

A worker's accounting lies in the submission's process, which may write there what it likes. So the worker tells what
the output follows from: launches, torch's operations, and the bytes that these read and none of them had written.
Whatever it tells, here only kernels and torch's operations make something, of the referee's own input. Their FLOPs, and
how many bytes were the host's, are counted anew; and the output has to be the one that was judged.
"""

import ctypes
import pickle
import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from forge.device.report import TimesUs
from forge.judge import messages
from forge.judge.output import Tensor
from forge.judge.worker import Fields, Worker

MOST_OUTPUT = 8 << 30
CELL, RANGE, WORDS = struct.Struct("<QQ64s"), struct.Struct("<4Q"), struct.Struct("<Q")
WRONG = (RuntimeError, TypeError, ValueError, LookupError, AttributeError, struct.error, msgspec.DecodeError)


class Unmade(RuntimeError):
    """What a journal tells cannot be made anew. One line."""


class Replayer(Worker):
    commands = messages.REPLAY_COMMANDS

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.handlers |= {messages.Replay: self.replay}

    def prepare(self, root: str, broken: BaseException | None) -> Fields:
        from forge.device import resolve

        self.device = resolve(self.setup.device, self.setup.arch)
        if broken is not None:
            raise broken
        self.device.prepare()
        import torch

        from forge.judge import exchange, operations, ranks

        self.torch, self.exchange, self.operations = torch, exchange, operations
        self.group, self.ranks = ranks.Group, ranks.Ranks()
        self.alone = self.ranks
        self.written, self.anew = self.device.writers(), self.device.replays()
        self.programs = self.anew.Programs(self.setup.arch)
        return {"fingerprint": self.device.fingerprint()}

    def new_case(self, memory: int | None) -> None:
        self.programs.forget()
        if memory is not None:
            self.from_judge = self.exchange.Region(memory, self.exchange.INPUTS)
            self.to_judge = [self.exchange.Region(memory, number) for number in self.exchange.OUTPUTS]

    def replay(self, command: messages.Replay) -> None:
        def replay() -> Fields:
            self.phase("make the output anew")
            try:
                return self.made_anew(command)
            except WRONG as error:  # of a journal that tells nonsense, or of what cannot be done again
                return {"why": f"{type(error).__name__}: {error}".splitlines()[0][:200].removeprefix("Unmade: ")}

        self.answer(messages.Replayed, replay)

    def made_anew(self, command: messages.Replay) -> Fields:
        told = command.journal
        self.inputs, self.memory_told = list[range](), self.anew.Told()
        self.said = Said(self.written.told, self.anew.place_of)
        self.notes = msgspec.msgpack.decode(told.operations) if told.operations else []
        self.anew.begin()
        self.device.count_work(command.count)
        self.device.set_checks(command.checks)
        self.device.case_report()  # the modelled caches are cold from here on
        self.card = self.device.roofline() if command.count else None
        self.us = TimesUs()
        self.written.begin([], first=command.first)
        self.show_input(command.layout, told.inputs)
        free = self.operations.FREE_PASSES * sum(size for _, size, _ in pickle.loads(command.layout)[0])
        with self.operations.watch(True, writers=self.written, free=free) as work:
            for kind, payload in self.anew.entries(told.entries):
                getattr(self, kind.lower())(payload)
            parts = [part for part in command.output.parts if isinstance(part, Tensor)]
            if len(parts) != len(told.outputs):
                raise Unmade("not all of the output's tensors are told")
            tensors = [self.view(at, part.dtype, part.shape, part.strides) for part, at in zip(parts, told.outputs)]
            for part, tensor in zip(parts, tensors):
                if size := tensor.numel() * tensor.element_size():
                    memory = self.to_judge[command.slot].bytes(part.start + size)
                    flat = tensor.contiguous().reshape(-1).view(self.torch.uint8)
                    memory[part.start : part.start + size].copy_(flat)
        if work.accounting.failed:
            raise Unmade(work.accounting.failed)
        written = self.written.of(self.operations.memory_of(tensors, self.written))
        report = self.device.case_report()
        if report.modelled is not None:
            self.us.cold += report.modelled.cold.us
            self.us.warm += report.modelled.warm.us
        us = self.us if command.count else None
        made = {"written": written, "flops": report.flops, "torch_flops": work.flops, "us": us}
        return {**made, "findings": tuple(one for one in report.findings if one.kind != "compiler")}

    def show_input(self, layout: bytes, addresses: tuple[int, ...]) -> None:
        places, _ = pickle.loads(layout)
        if len(places) != len(addresses):
            raise Unmade("not all of the input's storages are told")
        for (start, size, _), address in zip(places, addresses):
            if size:
                self.open(address, size)
                ctypes.memmove(address, self.from_judge.bytes(start + size)[start:].data_ptr(), size)
                self.written.known([(address, size)])
                self.inputs.append(range(address, address + size))
                self.said.memory(address, size)

    def open(self, address: int, size: int) -> None:
        if not 0 <= size <= MOST_OUTPUT or not self.anew.opens(address, size):
            raise Unmade(f"memory at {address:#x} that is this process's own, or too much")

    # ------------------------------------------------------------ entries, by the engine's names

    def cell_read(self, payload: memoryview) -> None:
        at, but, held = CELL.unpack(payload)
        if self.anew.opens(at, len(held)):  # else it is a host's object, which nothing here can be told by
            for i in range(len(held)) if but else [0]:
                if not but >> i & 1:
                    self.put(at + i, held[i : i + 1] if but else held)
            if held == self.anew.UNWRITTEN_CELL and not but:
                self.written.fresh([(at, len(held))])

    def put(self, at: int, held: bytes) -> None:
        """Bytes that the host has made: not in place of the referee's."""
        if any(at < one.stop and one.start < at + len(held) for one in self.inputs):
            raise Unmade("bytes of its own in the input")
        ctypes.memmove(at, held, len(held))

    def program_known(self, payload: memoryview) -> None:
        self.programs.add(payload)

    def memory_known(self, payload: memoryview) -> None:
        self.memory_told.tell(*RANGE.unpack(payload))

    def kernel_launched(self, payload: memoryview) -> None:
        self.programs.launch(payload, self.memory_told, self.inputs)

    def operation_noted(self, payload: memoryview) -> None:
        name, overload, args, kwargs, results = self.notes[WORDS.unpack(payload)[0]]
        if not name:  # nothing that could be called again: then its result is the host's
            for at, *_, held in results:
                self.open(at, len(held))
                self.put(at, held)
            return
        namespace, _, word = name.partition("::")
        if namespace in self.operations.COLLECTIVE:  # what others send would be nobody's secret
            raise Unmade(f"{name}, of a single rank")
        function = getattr(getattr(getattr(self.torch.ops, namespace), word), overload or "default")
        self.said.operation((name, overload, *kwargs), [args, list(kwargs.values())], results)
        args, kwargs = self.value(args), {key: self.value(one) for key, one in kwargs.items()}
        given = {x.untyped_storage().data_ptr() for x in self.operations.tensors((args, kwargs))}
        made = function(*args, **kwargs)
        if self.card is not None:
            cold_us, warm_us = (
                self.operations.estimated_us(function, args, kwargs, made, self.card, warm) for warm in (False, True)
            )
            self.us.cold += cold_us
            self.us.warm += warm_us
        fresh = [x for x in self.operations.tensors(made) if x.untyped_storage().data_ptr() not in given]
        if len(fresh) != len(results):
            raise Unmade(f"{name} with other results")
        for tensor, (at, dtype, shape, strides, _) in zip(fresh, results):
            self.view(at, dtype, shape, strides).copy_(tensor)

    def memory_copied(self, payload: memoryview) -> None:
        to, start, size = (WORDS.unpack_from(payload, 8 * i)[0] for i in range(3))
        self.open(start, size)
        self.open(to, size)
        self.written.told_copy(to, start, size)
        self.written.read([(start, size)])
        ctypes.memmove(to, start, size)
        self.written.wrote([(to, size)])

    def memory_filled(self, payload: memoryview) -> None:
        to, size, value, each = (WORDS.unpack_from(payload, 8 * i)[0] for i in range(4))
        self.open(to, size)
        self.written.told_fill(to, size, value)
        ctypes.memmove(to, value.to_bytes(8, "little")[: each or 1] * (size // (each or 1)), size)
        self.written.wrote([(to, size)])

    # ------------------------------------------------------------ values

    def value(self, told: Any) -> Any:
        if isinstance(told, list):
            return [self.value(one) for one in told]
        if not isinstance(told, dict):
            return told
        if "tensor" in told:
            at, dtype, shape, strides = told["tensor"]
            if told["held"] is None:
                return self.view(at, dtype, shape, strides)
            held = self.torch.frombuffer(bytearray(told["held"] or b"\0"), dtype=self.torch.uint8)
            return self.strided(held, dtype, shape, strides)
        if "of torch" in told:
            return getattr(self.torch, told["of torch"])
        return self.torch.device("cpu")

    def view(self, at: int, dtype: str, shape: Any, strides: Any) -> Any:
        """A tensor over memory of the replay."""
        kind = self.exchange.DTYPES[dtype]
        if 0 in shape:
            return self.torch.empty(tuple(shape), dtype=kind)
        span = kind.itemsize * (1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)))
        self.open(at, span)
        return self.strided(
            self.torch.frombuffer((ctypes.c_uint8 * span).from_address(at), dtype=self.torch.uint8),
            dtype,
            shape,
            strides,
        )

    def strided(self, flat: Any, dtype: str, shape: Any, strides: Any) -> Any:
        return flat.view(self.exchange.DTYPES[dtype]).as_strided(tuple(shape), tuple(strides))


class Said:
    """What operations are told past memory is the host's, as arguments of a launch are: which comes next, numbers,
    kinds and shapes of tensors, and which of them: how many have been made since, and where in its block it begins."""

    def __init__(self, tell: Callable[[int, list[int]], None], place_of: Callable[[int], range]) -> None:
        self.tell, self.place_of = tell, place_of
        self.known, self.blocks, self.made = dict[Any, int](), dict[int, int](), 0
        self.ranges = list[range]()

    def memory(self, address: int, size: int) -> None:
        """Of the input."""
        self.ranges.append(range(address, address + size))
        self.block(address)

    def operation(self, kind: tuple[str, ...], told: list[Any], results: list[Any]) -> None:
        words = list(self.words(told))
        for place in results:
            words += self.tensor(place[:4], made=True)
        self.tell(self.number(kind), words)

    def number(self, one: Any) -> int:
        """Of a kind, a shape, a word: far from those that a launch is told."""
        return self.known.setdefault(one, 0x7E000000 + len(self.known))

    def block(self, start: int) -> None:
        self.made += 1
        self.blocks[start] = self.made

    def words(self, told: Any) -> Iterator[int]:
        if isinstance(told, list):
            yield len(told)
            for one in told:
                yield from self.words(one)
        elif isinstance(told, dict):
            place = told.get("tensor")
            if place is None:
                yield self.number(tuple(told.items()))
            elif told["held"] is None:
                yield from self.tensor(place)
            else:  # its bytes are
                yield self.number((place[1], *map(tuple, place[2:])))
        elif isinstance(told, str):
            yield from (self.number(told[i : i + 4]) for i in range(0, len(told), 4))
        elif isinstance(told, float):
            yield from struct.unpack("<2I", struct.pack("<d", told))
        else:
            yield from struct.unpack("<2I", struct.pack("<q", told or 0))

    def tensor(self, place: list[Any], made: bool = False) -> Iterator[int]:
        at, *kind = place
        room = next((one for one in self.ranges if at in one), None) or self.place_of(at) or range(at, at + 1)
        if room.start not in self.blocks:
            self.block(room.start)
        yield self.made - self.blocks[room.start]
        yield at - room.start & 0xFFFFFFFF
        yield self.number((kind[0], *map(tuple, kind[1:])))
        if made:
            self.block(room.start)


WORKER = Replayer
