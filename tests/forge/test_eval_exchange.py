"""Tensors through shared memory: what goes in comes out, and what describes no output is refused."""

import mmap
import os
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import torch
from msgspec.structs import replace

from forge.judge import exchange
from forge.judge.exchange import (
    INPUTS,
    OUTPUTS,
    Inputs,
    Kept,
    Region,
    Strange,
    Unfit,
    rebuilt,
    write_input,
    write_output,
)
from forge.judge.memory import REGION_BYTES, make_memory
from forge.judge.messages import Called, Malformed, decoder
from forge.judge.output import Container, Output, Tensor, Value

MOST_DEPTH, MOST_PARTS = exchange.MOST_DEPTH, exchange.MOST_PARTS
MOST = 1 << 20  # bytes of an output, in these tests


@pytest.fixture
def regions() -> Iterator[tuple[Region, Region]]:
    descriptor = make_memory()
    yield Region(descriptor, INPUTS), Region(descriptor, OUTPUTS[0])
    os.close(descriptor)


class Holder:
    def __init__(self, tensor: torch.Tensor, count: int) -> None:
        self.tensor, self.count = tensor, count


def test_inputs_arrive_as_they_were(regions: tuple[Region, Region]) -> None:
    base = torch.arange(24.0).view(4, 6)
    shared = torch.arange(10, dtype=torch.int32)
    data = (base.T, {"x": [shared[2:4], shared]}, torch.ones(3).to(torch.float8_e4m3fnuz), None, "word", torch.empty(0))
    read = Inputs(regions[0]).read(write_input(data, regions[0]))
    assert torch.equal(read[0], base.T) and read[0].stride() == (1, 6)
    assert read[3:5] == (None, "word") and read[5].numel() == 0
    assert torch.equal(read[2].float(), torch.ones(3)) and read[2].dtype == torch.float8_e4m3fnuz
    part, whole = read[1]["x"]
    whole[2] = 77  # one storage, as before
    assert part[0] == 77 and shared[2] == 2


def test_objects_and_parameters_arrive(regions: tuple[Region, Region]) -> None:
    layer = torch.nn.Linear(2, 3)
    read = Inputs(regions[0]).read(write_input((Holder(torch.ones(2), 5), layer), regions[0]))
    assert read[0].count == 5 and torch.equal(read[0].tensor, torch.ones(2))
    assert type(read[1].weight) is torch.nn.Parameter and torch.equal(read[1].weight, layer.weight)


def test_other_data_takes_the_first_ones_place(regions: tuple[Region, Region]) -> None:
    inputs = Inputs(regions[0])
    first = inputs.read(write_input([torch.zeros(8), torch.zeros(4)], regions[0]))
    second = inputs.read(write_input([torch.ones(8), torch.ones(3)], regions[0]))
    assert second[0] is first[0] and torch.equal(first[0], torch.ones(8))
    assert second[1].data_ptr() == first[1].data_ptr() and second[1].shape == (3,)
    larger = inputs.read(write_input([torch.ones(8), torch.ones(5)], regions[0]))
    assert larger[1].data_ptr() != first[1].data_ptr()


MIB = 1 << 20


def own_bytes() -> int:
    """What this process has of memory that is no file's: of a copy all, of what is shown nothing."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon:"))


def large_input(value: int) -> list[torch.Tensor]:
    """64 MiB that begin a page, three bytes more, and a small tensor."""
    pages = mmap.mmap(-1, 64 * MIB + 3, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return [torch.frombuffer(pages, dtype=torch.uint8).fill_(value), torch.full((3,), float(value))]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "LARGE_BYTES", 32 * MIB)


def test_a_large_input_is_shown_and_not_copied(regions: tuple[Region, Region], large: None) -> None:
    layout = write_input(large_input(1), regions[0])
    before = own_bytes()
    inputs = Inputs(regions[0])
    first = inputs.read(layout)
    assert all(bool((tensor == 1).all()) for tensor in first) and own_bytes() - before < 32 * MIB
    first[0][:5] = 7
    assert regions[0].bytes(5)[:5].tolist() == [1] * 5  # the exchange does not see what is written
    assert [number for number, _ in inputs.changed()] == [0]
    second = inputs.read(write_input(large_input(2), regions[0]))
    assert second[0] is first[0] and bool((first[0] == 2).all()) and not inputs.changed()


@pytest.mark.parametrize("place", [0, 33 * MIB + 5, 64 * MIB - 1, 64 * MIB + 2])
def test_of_a_large_input_the_pages_that_were_written_to_are_compared(
    place: int, regions: tuple[Region, Region], large: None
) -> None:
    inputs = Inputs(regions[0])
    shown = inputs.read(write_input(large_input(1), regions[0]))[0]
    assert shown.sum() == 64 * MIB + 3 and not inputs.changed()  # all of it was read
    shown[place] = 1
    assert not inputs.changed()  # to what was there
    shown[place] = 9
    assert [number for number, _ in inputs.changed()] == [0]
    compared = sum(one.stop - one.start for one in inputs.touched(inputs.storages[0], len(shown)))
    assert compared < MIB
    shown[:] = 1
    assert not inputs.changed()


def test_what_was_shown_does_not_become_the_next_input(regions: tuple[Region, Region], large: None) -> None:
    """An old pointer must not lead to new data: nor does it on a GPU."""
    old = Inputs(regions[0])
    first = old.read(write_input(large_input(1), regions[0]))
    old.leave()
    second = Inputs(regions[0]).read(write_input(large_input(2), regions[0]))
    assert first[0].data_ptr() != second[0].data_ptr()
    assert not first[0][: 64 * MIB].any() and bool((second[0] == 2).all())


def test_copies_of_a_kept_input_share_its_memory(large: None) -> None:
    data = large_input(5)
    before = own_bytes()
    kept = Kept(data)
    copies = [kept.copy() for _ in range(3)]
    assert own_bytes() < before  # the input itself lies there too
    copies[0][0][100] = copies[0][1][0] = 6
    kept.forget()
    for one in (data, copies[1], copies[2]):
        assert bool((one[0] == 5).all()) and one[1].tolist() == [5.0] * 3


def test_outputs_arrive_as_they_were(regions: tuple[Region, Region]) -> None:
    inputs = Inputs(regions[0])
    data = inputs.read(write_input([torch.zeros(4)], regions[0]))
    data[0].add_(1)
    output = {"a": (torch.arange(6.0).view(2, 3).T, None, 2.5), 1: [data[0], torch.tensor(7).to(torch.bfloat16), set()]}
    told = write_output(output, inputs, regions[1])
    got: Any = rebuilt(told, regions[1])
    assert torch.equal(got["a"][0], output["a"][0]) and got["a"][0].stride() == (1, 3)
    assert got["a"][1:] == (None, 2.5) and got[1][1].item() == 7
    assert isinstance(got[1][2], Strange) and type(got[1][2]).__name__ == "set"
    assert [number for number, _ in told.changed] == [0] and told.inputs == {0}
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(told), type=Output) == told


GOOD = Tensor("float32", (2,), (1,), "cpu", 0)
HALF = replace(GOOD, shape=(MOST // 8 + 1,))
NO_OUTPUTS: list[Any] = [
    (), (GOOD, GOOD), (replace(GOOD, dtype="float33"),), (replace(GOOD, shape=(2, 2)),), (replace(GOOD, start=1),),
    (replace(GOOD, start=REGION_BYTES),), (replace(GOOD, device="cuda:99"),), (replace(GOOD, device="meta"),),
    (replace(GOOD, device="cuda:\u00b2"),), (replace(GOOD, device="cuda:" + "9" * 5000),),
    (replace(GOOD, shape=(0, 1 << 61, 1 << 61), strides=(1, 1, 1)),), (replace(GOOD, shape=(1 << 35,)),),
    (Container("tuple", 2), HALF, HALF), (Container("tuple", 2), GOOD), (Container("tuple", 1 << 60), GOOD),
    (Container("dict", 1), GOOD), (Container("dict", 1, (1, 2)), GOOD),
]  # fmt: skip


@pytest.mark.parametrize("parts", NO_OUTPUTS, ids=lambda parts: repr(parts)[:80])
def test_what_describes_no_output_is_refused(parts: tuple[Any, ...], regions: tuple[Region, Region]) -> None:
    with pytest.raises(Malformed):
        rebuilt(Output(parts), regions[1], MOST)


def test_depth_and_number_have_limits(regions: tuple[Region, Region]) -> None:
    beyond: Any = replace(GOOD, dtype="float33")  # is not looked at
    lists: list[Any] = [Container("list", MOST_PARTS - 10), *[Value(1)] * (MOST_PARTS - 10)] * 2
    for parts in ((*[Container("list", 1)] * 30, beyond), (Container("list", 3), *lists, beyond)):
        with pytest.raises(Malformed, match="too many parts"):
            rebuilt(Output(parts), regions[1])


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth > 1 else []


@pytest.mark.parametrize("most", [[[1, 2.5] * 4_000] * 12 + [True] * (MOST_PARTS - 8_001 * 12 - 1), nested(MOST_DEPTH)])
def test_what_is_written_is_taken_up_to_the_limits(most: list[Any], regions: tuple[Region, Region]) -> None:
    """Plain numbers are an output, too: who writes one and who reads it have one rule."""
    inputs = Inputs(regions[0])
    assert rebuilt(write_output(most, inputs, regions[1]), regions[1]) == most
    more = [most] if len(most) == 1 else [*most, 1]
    with pytest.raises(Unfit, match="more than|deeper"):
        rebuilt(write_output(more, inputs, regions[1]), regions[1])


NO_PARTS: list[Any] = [
    None, [], {}, {"is": "module"}, {"is": 7}, {"is": "Tensor", "dtype": None}, {"is": "Tensor", "shape": [-1]},
    {"is": "Tensor", "shape": [1 << 62], "strides": [1]}, {"is": "Tensor", "shape": [1] * 65},
    {"is": "Tensor", "shape": "2"}, {"is": "Tensor", "shape": [2.0]}, {"is": "Tensor", "strides": [-1]},
    {"is": "Tensor", "start": -4096}, {"is": "Tensor", "start": "0"}, {"is": "Tensor", "input": {}},
    {"is": "Container", "kind": "set", "count": 0}, {"is": "Container", "kind": "dict", "count": 1, "keys": [None]},
    {"is": "Value", "value": [1]}, {"is": "Value"},
]  # fmt: skip


@pytest.mark.parametrize("part", NO_PARTS, ids=repr)
def test_what_is_no_part_of_an_output_does_not_arrive(part: Any) -> None:
    if isinstance(part, dict) and part.get("is") == "Tensor":
        part = msgspec.to_builtins(GOOD) | part
    data = msgspec.msgpack.encode({"type": "Called", "output": {"parts": [part]}})
    with pytest.raises(Malformed):
        decoder((Called,))(data)


def test_memory_cannot_be_made_smaller(regions: tuple[Region, Region]) -> None:
    with pytest.raises(OSError):
        os.ftruncate(regions[0].descriptor, 0)
    assert regions[1].bytes(100).sum() == 0


@pytest.mark.parametrize("strides", [[0, 0], [1, 1], [1 << 40, 1], [3, 1], [1, 4]])
def test_strides_are_taken_where_they_can_be(strides: list[int], regions: tuple[Region, Region]) -> None:
    told = Output((replace(GOOD, shape=(4, 3), strides=tuple(strides)),))
    regions[1].bytes(48)[:48] = torch.arange(12.0).view(torch.uint8)
    assert torch.equal(rebuilt(told, regions[1]), torch.arange(12.0).view(4, 3))
