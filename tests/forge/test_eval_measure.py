"""The runs themselves on a clock that the test turns, and the comparison beside a verdict."""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from forge.judge.compare import accuracy_of, best_reference, copy_data, foreign_objects
from forge.judge.integrity import Watch
from forge.judge.measure import Task, flush_bytes, run_benchmark, run_test, timed_call
from forge.judge.ranks import Ranks
from forge.task.harness import GIB, HARNESSES, MIB, Repeats


class Clock:
    """Every call of the kernel takes as long as the next entry says, in ns."""

    def __init__(self, durations: list[int]) -> None:
        self.now, self.durations = 0, list(durations)
        self.seeds: list[int] = []

    def read(self) -> int:
        return self.now

    def generate_input(self, seed: int) -> torch.Tensor:
        self.seeds.append(seed)
        return torch.full((4,), float(seed))

    def kernel(self, x: torch.Tensor) -> torch.Tensor:
        self.now += self.durations.pop(0) if self.durations else 1
        return x * 2


def make_task(
    clock: Clock,
    harness: str = "amd",
    kernel: Callable[[Any], Any] | None = None,
    check: Callable[[Any, Any], Any] | None = None,
) -> Task:
    return Task(
        generate_input=clock.generate_input,
        check_implementation=check or (lambda x, out: (torch.equal(out, x * 2), "differs")),
        ref_kernel=lambda x: x * 2,
        custom_kernel=kernel or clock.kernel,
        harness=HARNESSES[harness],
        phase=lambda name: None,
        timed=True,
        synchronize=lambda: None,
        event=None,
        reseed=lambda: None,
        clock_ns=clock.read,
    )


def test_benchmark_times_the_calls_after_the_checked_one():
    clock = Clock([999, 100, 100, 100, 100])
    outcome = run_benchmark(make_task(clock), Ranks(), {"seed": 5}, Repeats(100, 10), recheck=False)
    assert outcome.good and outcome.stats is not None
    assert (outcome.stats.runs, outcome.stats.mean_ns) == (3, 100.0)  # 999 was the checked call
    assert clock.seeds == [5]  # one input for all runs


def test_leaderboard_draws_new_data_and_checks_it_each_time():
    clock = Clock([1, 100, 200, 300, 400])
    outcome = run_benchmark(make_task(clock), Ranks(), {"seed": 5}, Repeats(4, 10), recheck=True)
    assert outcome.stats is not None and outcome.stats.runs == 4
    assert clock.seeds == [5, 18, 31, 44, 57]
    assert outcome.args == {"seed": 57} and outcome.output[0] == 2 * 57  # what the comparison is made with


def test_leaderboard_fails_at_the_first_wrong_repeat():
    clock = Clock([])
    calls = []

    def kernel(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x * (2 if len(calls) < 3 else 3)

    outcome = run_benchmark(make_task(clock, kernel=kernel), Ranks(), {"seed": 5}, Repeats(100, 10), recheck=True)
    assert (outcome.good, outcome.message, outcome.stats, len(calls)) == (False, "differs", None, 3)


def test_a_wrong_first_call_is_never_timed():
    clock = Clock([])
    task = make_task(clock, kernel=lambda x: x * 3)
    outcome = run_benchmark(task, Ranks(), {"seed": 5}, Repeats(100, 10), recheck=False)
    assert (outcome.good, outcome.stats) == (False, None)


def test_a_test_gives_the_kernel_a_copy():
    clock = Clock([])

    def kernel(x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2)

    assert run_test(make_task(clock, kernel=kernel), Ranks(), {"seed": 5}).good
    # One harness does not copy: there the same kernel spoils the reference's own input.
    assert not run_test(make_task(clock, "amd_202602_moe", kernel=kernel), Ranks(), {"seed": 5}).good


def test_old_checks_that_return_a_text():
    clock = Clock([])
    assert run_test(make_task(clock, check=lambda x, out: ""), Ranks(), {"seed": 5}).good
    wrong = run_test(make_task(clock, check=lambda x, out: "it differs"), Ranks(), {"seed": 5})
    assert (wrong.good, wrong.message) == (False, "it differs")


def test_a_check_that_chokes_on_the_output_is_a_failure_that_describes_it():
    clock = Clock([])

    def check(x: torch.Tensor, out: torch.Tensor) -> bool:
        return out.shape == x.shape

    outcome = run_test(make_task(clock, kernel=lambda x: None, check=check), Ranks(), {"seed": 5})
    assert not outcome.good and "custom_kernel returned NoneType" in outcome.message


class Steps(list[str]):
    """What happens around a call, in order; also an event's class and instance."""

    def event(self, enable_timing: bool) -> Steps:
        return self

    def record(self) -> None:
        self.append("record")

    def elapsed_time(self, end: Steps) -> float:
        return 2.0

    def note(self, name: str) -> Callable[..., None]:
        return lambda *args: self.append(name)


def test_a_launch_hides_behind_the_flush_of_the_cache_as_officially() -> None:
    """Waiting between them would put the launch between the events."""
    steps = Steps()
    task = make_task(Clock([]), "amd_202602", kernel=steps.note("call"))
    task.synchronize, task.event = steps.note("wait"), steps.event
    assert timed_call(task, Ranks(), None, steps.note("flush")) == (None, 2e6)
    assert steps == ["wait", "flush", "record", "call", "record", "wait"]
    steps.clear()
    task.harness = HARNESSES["amd"]  # the host's clock
    timed_call(task, Ranks(), None, steps.note("flush"))
    assert steps == ["flush", "wait", "call", "wait"]


def test_nothing_waits_for_the_benchmarks_checked_call_as_officially() -> None:
    """Work on a stream of the submission's own may then be unfinished when it is checked."""
    steps = Steps()
    task = make_task(Clock([]), kernel=steps.note("call"), check=steps.note("check"))  # None: an empty text, a pass
    task.synchronize = steps.note("wait")
    run_benchmark(task, Ranks(), {"seed": 5}, Repeats(100, 10), recheck=False)
    assert steps[:2] == ["call", "check"]
    steps.clear()
    run_test(task, Ranks(), {"seed": 5})
    assert steps == ["wait", "call", "wait", "check"]


class OneOfTwo(Ranks):
    """A rank that hears from the other: each time, what the next list says."""

    def __init__(self, other: list[list[bool]], decides: bool = True) -> None:
        self.other, self.decides, self.barriers = other, decides, 0

    def args_of(self, args: dict[str, Any]) -> dict[str, Any]:
        return {**args, "seed": args["seed"] + 100}

    def barrier(self) -> None:
        self.barriers += 1

    def any(self, *flags: bool) -> list[bool]:
        return [mine or theirs for mine, theirs in zip(flags, self.other.pop(0))]


def test_all_ranks_end_together() -> None:
    clock = Clock([1, 100, 100, 100])
    fails = OneOfTwo([[False], [False, False], [True, False]])  # the other's second timed run is wrong
    outcome = run_benchmark(make_task(clock), fails, {"seed": 5}, Repeats(100, 10), recheck=True)
    assert (outcome.good, outcome.stats, outcome.args, fails.barriers) == (True, None, {"seed": 131}, 4)
    clock = Clock([1, 100, 100, 100, 100, 100])
    follows = OneOfTwo([[False], *[[False, False]] * 4, [False, True]], decides=False)
    outcome = run_benchmark(make_task(clock), follows, {"seed": 5}, Repeats(100, 10), recheck=False)
    assert outcome.stats is not None and outcome.stats.runs == 5  # alone it would have stopped after three
    assert not run_benchmark(make_task(clock), OneOfTwo([[True]]), {"seed": 5}, Repeats(9, 9), False).stats


class Liar(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True


def test_a_tensor_that_decides_for_itself_is_refused():
    clock = Clock([])
    lie = torch.zeros(4).as_subclass(Liar)
    assert torch.allclose(lie, torch.ones(4)) is True  # why it must be refused
    outcome = run_test(make_task(clock, kernel=lambda x: lie, check=lambda x, out: True), Ranks(), {"seed": 5})
    assert not outcome.good and "Liar" in outcome.message
    assert foreign_objects((torch.zeros(1), [{"a": torch.nn.Parameter(torch.zeros(1))}], None, 3)) == []


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


JUDGE = """
TOLERANCE = 0.1
def close(a, b, rtol=0.1):
    return True
def make(**tolerances):
    def check(data, out):
        return close(data, out, **tolerances)
    return check
check_implementation = make(rtol=0.1)
"""

CHEATS = {
    "a function": "utils.close = lambda *a, **k: True",
    "its code": "utils.close.__code__ = (lambda a, b, rtol=0: True).__code__",
    "its defaults": "utils.close.__defaults__ = (9.0,)",
    "a constant": "utils.TOLERANCE = 9.0",
    "what a closure holds": "utils.check_implementation.__closure__[0].cell_contents['rtol'] = 9.0",
    "torch": "torch.allclose = lambda *a, **k: True",
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_replaced_judges_are_noticed(monkeypatch: pytest.MonkeyPatch, cheat: str) -> None:
    utils = types.ModuleType("utils")
    exec(JUDGE, utils.__dict__)
    monkeypatch.setitem(sys.modules, "utils", utils)
    monkeypatch.setattr(torch, "allclose", torch.allclose)  # is put back at the end
    watch = Watch()
    utils.new = 1  # type: ignore[attr-defined]
    assert watch.replaced() == []
    exec(CHEATS[cheat], {"utils": utils, "torch": torch})
    assert len(watch.replaced()) == 1
