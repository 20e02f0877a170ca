"""A timed call, and the comparison beside a verdict."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from forge.judge import compare
from forge.judge.compare import accuracy_of, best_reference, copy_data
from forge.judge.integrity import Watch
from forge.judge.measure import Task, flush_bytes, timed_call
from forge.judge.ranks import Ranks
from forge.task.harness import GIB, HARNESSES, MIB


def make_task(harness: str = "amd", kernel: Callable[[Any], Any] = lambda x: x * 2) -> Task:
    return Task(
        generate_input=lambda seed: torch.full((4,), float(seed)),
        check_implementation=lambda x, out: (torch.equal(out, x * 2), "differs"),
        ref_kernel=lambda x: x * 2,
        settle=None,
        probe=None,
        custom_kernel=kernel,
        harness=HARNESSES[harness],
        phase=lambda name: None,
        timed=True,
        synchronize=lambda: None,
        event=None,
        reseed=lambda: None,
    )


def test_old_checks_that_return_a_text() -> None:
    task = make_task()
    task.check_implementation = lambda x, out: ""
    assert task.check(None, None) == (True, "")
    task.check_implementation = lambda x, out: "it differs"
    assert task.check(None, None) == (False, "it differs")


def test_a_check_that_chokes_on_the_output_is_a_failure_that_describes_it() -> None:
    task = make_task()
    task.check_implementation = lambda x, out: out.shape == x.shape
    good, message = task.check(torch.zeros(4), None)
    assert not good and "custom_kernel returned NoneType" in message


class Steps(list[str]):
    """What happens around a call, in order; also an event's class and instance."""

    def event(self, enable_timing: bool) -> Steps:
        return self

    def record(self) -> None:
        self.append("record")

    def synchronize(self) -> None:
        self.append("its end")

    def elapsed_time(self, end: Steps) -> float:
        return 2.0

    def note(self, name: str) -> Callable[..., None]:
        return lambda *args: self.append(name)


def test_a_launch_hides_behind_the_flush_of_the_cache_as_officially() -> None:
    """Waiting between them would put the launch between the events."""
    steps = Steps()
    task = make_task("amd_202602", kernel=steps.note("call"))
    task.synchronize, task.event = steps.note("wait"), steps.event
    times_ns = iter([1000, 8000])
    task.clock_ns = lambda: next(times_ns)
    assert timed_call(task, Ranks(), None, steps.note("flush")) == (None, 2e6, 7000)
    assert steps == ["wait", "flush", "record", "call", "record", "its end", "wait"]
    task.clock_ns = time.perf_counter_ns
    steps.clear()
    task.harness = HARNESSES["amd"]  # the host's clock
    timed_call(task, Ranks(), None, steps.note("flush"))
    assert steps == ["flush", "wait", "call", "wait"]


def test_flush_is_official_where_it_fits():
    assert flush_bytes(256 * MIB, 100 * MIB, 24 * GIB) == 256 * MIB
    wanted = HARNESSES["amd_202602"].l2_flush_bytes
    assert flush_bytes(wanted, 280 * GIB, 288 * GIB) == wanted
    assert flush_bytes(wanted, 20 * GIB, 192 * GIB) == wanted  # no room is left: as on the leaderboard, it fails
    assert flush_bytes(wanted, 40 * GIB, 48 * GIB) == 20 * GIB
    assert flush_bytes(wanted, 100 * MIB, 48 * GIB) == 256 * MIB


def test_relative_error_and_worst_element():
    wanted = torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    got = wanted.clone()
    got[1, 0] = 5.0
    accuracy = accuracy_of((got, None), (wanted, None), "reference")
    assert accuracy.rel_l2 == pytest.approx(1.0)
    assert accuracy.worst is not None
    worst = accuracy.worst
    assert (worst.where, worst.index, worst.got, worst.wanted) == ("output[0]", (1, 0), 5.0, 0.0)
    zeros = accuracy_of(torch.zeros_like(wanted), wanted, "reference")
    assert zeros.rel_l2 == pytest.approx(1.0)
    same = accuracy_of(wanted, wanted, "reference")
    assert (same.rel_l2, same.worst) == (0.0, None)


def test_the_error_is_the_same_whatever_threads_shared_the_references_sums():
    """They move a float64 product by its last bits."""
    wanted = torch.randn(300, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    got = wanted.float()
    moved = torch.nextafter(wanted, torch.tensor(math.inf, dtype=torch.float64))
    one, other = (accuracy_of(got, exact, "reference").rel_l2 for exact in (wanted, moved))
    assert one == other and one is not None and 0 < one < 1e-7


def test_an_element_that_is_not_finite_is_the_worst():
    wanted = torch.tensor([1.0, math.inf, math.nan, 1e30])
    got = torch.tensor([math.nan, math.inf, math.nan, 0.0])
    accuracy = accuracy_of(got, wanted, "reference")
    assert accuracy.worst is not None and accuracy.worst.index == (0,)
    assert accuracy.rel_l2 == math.inf


@pytest.mark.parametrize(
    ("got", "wanted", "text"),
    [
        (torch.zeros(3), torch.zeros(4), "shape"),
        ((torch.zeros(3),), torch.zeros(3), "tensors returned"),
        (None, torch.zeros(3), "none"),
    ],
)
def test_outputs_that_cannot_be_compared(got, wanted, text):
    accuracy = accuracy_of(got, wanted, "reference")
    assert accuracy.rel_l2 is None and text in accuracy.problem


def test_the_reference_is_run_in_float64_where_that_makes_sense():
    x = torch.tensor([1.0, 2.0])
    plain, best, kind = best_reference(lambda data: data / 3, lambda: x.clone())
    assert (kind, plain.dtype, best.dtype) == ("float64", torch.float32, torch.float64)
    assert best[0].item() == 1 / 3 != plain[0].item()

    def quantiser(data: torch.Tensor) -> torch.Tensor:  # means something else in float64
        return data.view(torch.int32).float()

    assert best_reference(quantiser, lambda: x.clone())[2] == "reference"


def test_copies():
    data = ([torch.zeros(2)], {"a": torch.zeros(2)}, 3)
    for kind in ("tensors", "deep"):
        copied = copy_data(data, kind)
        copied[0][0].add_(1)
        copied[1]["a"].add_(1)
        assert data[0][0].sum() == 0 and data[1]["a"].sum() == 0
    assert copy_data(data, "none") is data


def test_replaced_clocks_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter_ns", time.perf_counter_ns)  # is put back at the end
    watch = Watch()
    assert watch.replaced() == []
    time.perf_counter_ns = lambda: 0
    assert watch.replaced() == ["time.perf_counter_ns"]


def test_no_float64_copies_are_made_of_an_input_that_cannot_have_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = torch.zeros(64, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    sizes: list[int] = []
    to_float64 = compare._to_float64

    def noted(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(tensor.numel())
        return to_float64(tensor)

    monkeypatch.setattr(compare, "_to_float64", noted)
    best = best_reference(lambda data: data[0] * 2, lambda: (torch.ones(1000), packed))
    assert best[2] == "reference" and max(sizes) == 1
    assert best_reference(lambda data: data[0] * 2, lambda: (torch.ones(1000),))[2] == "float64"
