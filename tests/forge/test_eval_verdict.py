"""The protocol of a case, with both processes in this one: what is judged, timed, and known to a submission."""

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from msgspec import structs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from forge.judge import compare, exchange, integrity, measure, messages, operations, timing, verdict
from forge.judge.evaluate import short_of_a_format
from forge.judge.failure import describe
from forge.judge.memory import make_memory
from forge.judge.plan import EvalPlan
from forge.judge.ranks import Ranks
from forge.judge.referee import Referee
from forge.judge.results import CaseResult, Status, TorchWork
from forge.judge.triton_errors import lacking_format
from forge.judge.verdict import CaseRun
from forge.judge.what_ran import AGAIN, look
from forge.judge.worker import SubmissionWorker
from forge.judge.worker_pool import RankAnswer, first_cause
from forge.task.cases import CaseSpec
from forge.task.harness import HARNESSES, Repeats
from forge.task.problem import Floors, Precision
from tests.support.fake_plan import FakeDevice, fake_plan, reported

CALL_NS = 1000


class Clock:
    """Each call of the kernel takes a microsecond, unless it turns the clock itself."""

    def __init__(self) -> None:
        self.now_ns = 0

    def read(self) -> int:
        return self.now_ns


class InProcess:
    """A pool of one process, which is this one."""

    grouped, anew = False, None

    def __init__(self, worker: Any, answers: list[Any], ended: Callable[[], None] = lambda: None) -> None:
        self.worker, self.answers, self.assigned, self.limit_s = worker, answers, [0], 10.0
        self.workers: list[Any] = [self]
        self.told: list[Any] = []
        self.took: list[float] = []
        self.tail = type("Tail", (), {"total_bytes": 0, "last_words": lambda self: [], "lines": lambda self: []})()

    @property
    def active(self) -> list[Any]:
        return self.workers

    def assign(self, ranks: int | None) -> None:
        assert ranks is None

    def begin(self, kind: Any, command: Any) -> Any:
        return self.ask(kind, command)

    def ask(self, kind: Any, command: Any, limit_s: float | None = None) -> Any:
        self.tell(command)
        return self.hear(kind)

    def tell(self, command: Any) -> None:
        command = command[0] if isinstance(command, list) else command
        self.told.append(command)
        self.worker.handlers[type(command)](command)

    def hear(self, kind: Any, limit_s: float | None = None) -> Any:
        answer = next(one for one in self.answers if isinstance(one, messages.Answer))
        self.answers.clear()
        assert isinstance(answer, kind), answer
        told = [RankAnswer(None, 0.0, answer)]
        return told, first_cause(told)

    def stop(self) -> None:
        self.workers = []


class OneCase:
    """A case of `plan` with this kernel, and what was asked of both sides."""

    def __init__(
        self,
        kernel: Callable[[Any], Any],
        plan: EvalPlan,
        generate: Any = None,
        check: Any = None,
        settle: Any = None,
        probe: Any = None,
    ) -> None:
        self.memory, self.clock, self.plan = make_memory(), Clock(), plan
        self.seeds: list[int] = []

        def generate_input(seed: int) -> Any:
            self.seeds.append(seed)
            return (generate or (lambda seed: torch.full((4,), float(seed))))(seed)

        def timed_kernel(data: Any) -> Any:
            before = self.clock.now_ns
            output = kernel(data)
            self.clock.now_ns += CALL_NS if self.clock.now_ns == before else 0
            return output

        task = measure.Task(
            generate_input=generate_input,
            check_implementation=check or (lambda x, out: (torch.equal(out, x * 2), "differs")),
            ref_kernel=lambda x: x * 2,
            settle=settle,
            probe=probe,
            custom_kernel=timed_kernel,
            harness=plan.harness,
            phase=lambda name: None,
            timed=not plan.device.emulated,
            synchronize=lambda: None,
            event=None,
            reseed=lambda: None,
            clock_ns=self.clock.read,
        )
        self.worker = self.side(SubmissionWorker, task)
        self.referee = self.side(Referee, task)

    def side(self, kind: Any, task: measure.Task) -> InProcess:
        setup = messages.Setup("", "", "", self.plan.harness.name, None, not self.plan.device.emulated)
        answers: list[Any] = []
        process = kind.__new__(kind)
        limits = kind.__init__
        limits(process, setup, answers.append, lambda: None, [self.memory])
        process.exchange, process.measure, process.compare, process.operations = exchange, measure, compare, operations
        process.task, process.harness, process.device = task, self.plan.harness, FakeDevice()
        process.ranks = process.alone = Ranks()
        process.entered, process.watch = lambda: 0, integrity.Watch()
        process.writers, process.host_work = None, lambda: ()
        process.at_import = operations.Accounting()
        process.precision = self.plan.problem.precision
        return InProcess(process, answers)

    def run(self, try_sample: bool = False, whole: Any = lambda *_: None, **options: Any) -> CaseResult:
        case = CaseSpec(0, "seed: 5", {"seed": 5})
        one = CaseRun(self.plan, self.worker, self.referee, case, try_sample, whole)  # type: ignore[arg-type]
        result = one.run(**options)
        os.close(self.memory)
        return result


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The seeds that will be drawn."""
    numbers = itertools.count(100)
    monkeypatch.setattr(verdict._draws, "randrange", lambda *_: next(numbers))
    return itertools.count(100)


def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


SAID = """CompilationError: at 16:4: ... (submission.py:9, in custom_kernel)"""
TRACE = "ValueError: type fp8e4b8 not supported in this architecture. The supported fp8 dtypes are ('fp8e4nv', 'fp8e5')"


def test_a_gpu_without_the_fp8_format_is_said_once() -> None:
    """On an H200 each case of an fnuz kernel fails with a compiler's error of ten lines. Here the GPU is a fake."""
    plan = fake_plan("test", emulated=False)
    plan.device.label, plan.device.arch = "1 x NVIDIA H200", "sm_90"
    result = CaseResult(0, "n: 1", Status.ERROR, SAID, trace=TRACE, last_words=["long"])
    text = short_of_a_format(result, plan)
    assert text == "1 x NVIDIA H200 has no e4m3fnuz (sm_90): --device gfx942 emulates a GPU that has it"
    assert (result.message, result.trace, result.last_words) == (text, "", [])
    for other in (CaseResult(0, "", Status.ERROR, "ValueError: no"), CaseResult(0, "", Status.FAIL, TRACE)):
        assert short_of_a_format(other, plan) == "" and "has no" not in other.message


@triton.jit
def _copies(x, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(x + i, tl.load(x + i))


def test_what_triton_says_of_a_missing_format_is_known() -> None:
    """Its compiler for sm_90 runs without a GPU as far as that."""
    source = ASTSource(_copies, signature={"x": "*fp8e4b8", "n": "constexpr"}, constexprs={(1,): 64})
    with pytest.raises(Exception) as raised:
        triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert lacking_format(describe(raised.value, "")["message"]) == "e4m3fnuz"


def test_three_calls_each_judged(draws: Iterator[int]) -> None:
    case = OneCase(twice, fake_plan("test"))
    result = case.run()
    assert (result.status, result.calls, result.seeds) == (Status.PASS, 3, [5, 100, 101])
    calls = [told.where for told in case.worker.told if isinstance(told, messages.Call)]
    assert calls == ["elsewhere", "same", "elsewhere"] and case.seeds == [5, 100, 101]


def test_no_input_is_handed_over_before_the_call_that_it_is_for(draws: Iterator[int]) -> None:
    seen: list[float] = []

    def kernel(x: torch.Tensor) -> torch.Tensor:
        shared = exchange.Region(case.memory, exchange.INPUTS).bytes(16)
        seen.append(shared.view(torch.float32)[0].item())
        return x * 2

    case = OneCase(kernel, fake_plan("test"))
    case.run()
    assert seen == [5.0, 100.0, 101.0]


CHEATS: dict[str, Callable[[], Callable[[Any], Any]]] = {}


def cheat(make: Callable[[], Callable[[Any], Any]]) -> Callable[[], Callable[[Any], Any]]:
    CHEATS[make.__name__] = make
    return make


@cheat
def by_address() -> Callable[[Any], Any]:
    known: dict[int, Any] = {}
    return lambda x: known.setdefault(x.data_ptr(), x * 2)


@cheat
def by_object() -> Callable[[Any], Any]:
    known: dict[int, Any] = {}
    kept = []
    return lambda x: kept.append(x) or known.setdefault(id(x), x * 2)  # type: ignore[func-returns-value]


@cheat
def by_shape() -> Callable[[Any], Any]:
    known: dict[Any, Any] = {}
    return lambda x: known.setdefault(x.shape, x * 2)


@cheat
def wrong_from_the_third_call_on() -> Callable[[Any], Any]:
    calls = itertools.count()
    return lambda x: x * 2 if next(calls) < 2 else x * 3


@pytest.mark.parametrize("name", CHEATS)
def test_what_is_wrong_from_a_later_call_on(name: str) -> None:
    result = OneCase(CHEATS[name](), fake_plan("test")).run()
    assert result.status is Status.FAIL and "call " in result.message and "seed" in result.message
    assert result.accuracy is None  # the first call's, whose output was right, would mislead
    assert OneCase(CHEATS[name](), fake_plan("test", calls=1)).run().passed


def test_an_output_in_place_of_the_input_is_fine() -> None:
    result = OneCase(lambda x: x.mul_(2), fake_plan("test")).run()
    assert result.passed and not result.buts and not any("changed" in text for text in result.remarks)


def test_a_changed_input_is_named_and_does_not_reach_the_check() -> None:
    def kernel(data: Any) -> Any:
        x, scratch = data
        return torch.zeros(4) if scratch.fill_(0) is None else x.zero_().clone()

    def generate(seed: int) -> Any:
        return torch.full((4,), float(seed)), torch.ones(4)

    def check(data: Any, out: Any) -> Any:
        return torch.equal(out, data[0] * 2), "differs"

    plan = fake_plan("test", harness="amd_202602_moe")  # whose evaluator copies nothing
    result = OneCase(kernel, plan, generate, check).run()
    assert result.status is Status.FAIL and result.official is True
    assert any("changed its input: data[0], data[1]" in text for text in result.remarks)
    assert any("officially this passes" in text for text in result.remarks)


def test_a_buffer_that_is_reused_is_said() -> None:
    buffer = torch.zeros(4)
    result = OneCase(lambda x: torch.mul(x, 2, out=buffer), fake_plan("test")).run()
    assert result.passed and any("share their memory" in text for text in result.remarks)


class Lie(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (lambda x: (x * 2).as_subclass(Lie), "output is a Lie, not a plain torch.Tensor"),
        (lambda x: {"a": [x * 2, (x * 2).as_subclass(Lie)]}, "output['a'][1] is a Lie"),
        (lambda x: (x * 2).to_sparse(), "layout torch.sparse_coo"),
        (lambda x: torch.zeros(1).expand(1 << 40), "the output holds more than"),
    ],
)
def test_outputs_that_nothing_is_compared_with(output: Any, text: str) -> None:
    result = OneCase(output, fake_plan("test")).run()
    assert result.status is Status.FAIL and text in result.message


def test_an_output_that_holds_itself() -> None:
    def kernel(x: Any) -> Any:
        output: list[Any] = []
        output.append(output)
        return output

    result = OneCase(kernel, fake_plan("test")).run()
    assert result.status is Status.FAIL and "holds itself" in result.message


# ---------------------------------------------------------------- limits on the error


def test_an_error_beyond_the_problems_limit_is_a_but() -> None:
    loose = lambda x, out: (True, "")  # noqa: E731
    plan = fake_plan("test", precision=Precision(rel_l2=0.01))
    exact, off = (OneCase(kernel, plan, check=loose).run() for kernel in (twice, lambda x: x * 2.1))
    assert exact.passed and not exact.buts
    assert off.passed and "relative L2 error 0.05" in off.buts[0]


def test_a_probe_shows_what_a_bias_hides() -> None:
    def generate(seed: int) -> Any:
        return torch.full((4,), 1e-3 * (seed % 7 + 1)), torch.ones(4)

    def check(data: Any, out: Any) -> Any:
        return torch.allclose(out, data[0] + data[1], atol=0.1), "differs"

    plan = fake_plan("test", precision=Precision(rel_l2=0.01, input=0, bias=1, scale=100.0))
    results = []
    for kernel in (lambda data: data[0] + data[1], lambda data: data[1].clone()):
        case = OneCase(kernel, plan, generate, check)
        for side in (case.worker, case.referee):
            side.worker.task.ref_kernel = lambda data: data[0] + data[1]
        results.append(case.run())
    right, without_product = results
    assert right.passed and not right.buts and right.probe_rel_l2 == 0
    hidden = without_product.accuracy
    assert hidden is not None and hidden.rel_l2 is not None and hidden.rel_l2 < 0.01  # by the bias
    assert without_product.passed and without_product.probe_rel_l2 == pytest.approx(1.0)
    assert without_product.buts == [
        "relative L2 error 1 on larger numbers without a bias, an honest kernel's is below 0.01"
    ]


def test_a_problem_makes_its_own_probe_and_limits_both_errors() -> None:
    def kernel(data: Any) -> torch.Tensor:  # a fiftieth off on the case's own data, a quarter on the probe
        return data[0] * torch.where(data[0] > 50, 1.5, 1.96)

    said = []
    for limit, own_limit in ((0.1, 0.1), (0.01, 0.1), (0.1, 0.5)):
        plan = fake_plan("test", precision=Precision(rel_l2=limit, input=0, probe_rel_l2=own_limit))
        loose = lambda x, out: (True, "")  # noqa: E731
        case = OneCase(kernel, plan, lambda seed: (torch.ones(4),), loose, probe=lambda data: (data[0] * 100,))
        case.referee.worker.task.ref_kernel = lambda data: data[0] * 2
        result = case.run()
        assert result.passed and result.probe_rel_l2 == pytest.approx(0.25)
        said.append([but for but in result.buts if "L2" in but])
    assert said == [
        ["relative L2 error 0.25 on the problem's probe, an honest kernel's is below 0.1"],
        ["relative L2 error 0.02, an honest kernel's is below 0.01"],
        [],
    ]


@pytest.mark.parametrize("wrong_call", [None, 1, 2])
def test_large_inputs_are_there_one_at_a_time(monkeypatch: pytest.MonkeyPatch, wrong_call: int | None) -> None:
    monkeypatch.setattr(exchange, "LARGE_BYTES", 16)
    calls, held = itertools.count(), []
    case: OneCase

    def generate(seed: int) -> torch.Tensor:
        held.append(len(case.referee.worker.inputs))
        return torch.full((4,), float(seed))

    def kernel(data: torch.Tensor) -> torch.Tensor:
        out = data * (3 if next(calls) == wrong_call else 2)
        data.zero_()  # which is told, and reaches neither the judge nor the next call
        return out

    case = OneCase(kernel, fake_plan("test"), generate)
    result = case.run()
    assert not any(held) and "changed its input" in result.remarks[0]
    if wrong_call is None:
        assert result.passed and result.calls == len(held) == 3
    else:
        assert result.status is Status.FAIL and f"call {wrong_call + 1} (" in result.message
    assert not case.referee.worker.large


@pytest.mark.parametrize(
    ("kept", "share"), [((1, 1, 1, 1), None), ((0, 0, 0, 0), 0), ((0, 1, 1, 0), 0.5), ((1, 1, 1, 1.2), 1.05)]
)
def test_what_is_missing_though_the_probe_is_told(kept: tuple[float, ...], share: float | None) -> None:
    """By its zero bias, and answered well. The bias is a thousand times the rest, and rounding half of that."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 4096, generator=generator) * 1e-3

    def reference(data: Any) -> Any:
        return (data[0] + data[1]).to(torch.bfloat16)

    def kernel(data: Any) -> Any:
        return reference((data[0] * torch.tensor(kept)[:, None], data[1]) if data[1].any() else data)

    plan = fake_plan("test", precision=Precision(rel_l2=0.01, input=0, bias=1, scale=100.0))
    check = lambda data, out: (torch.allclose(out, reference(data), atol=0.1), "differs")  # noqa: E731
    case = OneCase(kernel, plan, lambda seed: (x.clone(), torch.ones(4, 1)), check)
    for side in (case.worker, case.referee):
        side.worker.task.ref_kernel = reference
    result = case.run()
    assert result.passed and result.probe_rel_l2 == 0
    if share in (None, 1.05):  # a deviation of less than a tenth is chance
        assert result.share == 1 and not result.buts
    else:
        assert result.share == pytest.approx(share, abs=0.05) and "of what its input adds" in result.buts[0]


@pytest.mark.parametrize(("writes", "wanted"), [(False, 3), (True, 5)])
def test_what_the_check_had_of_the_reference_is_not_computed_again(writes: bool, wanted: int) -> None:
    """Once for the check, once of an input of zeros, once in float64; unless the check writes to what it got."""
    calls = []

    def reference(data: Any) -> Any:
        calls.append(data[0].dtype)
        return data[0] * 2

    module = ModuleType("reference")
    module.ref_kernel = reference  # type: ignore[attr-defined]

    def check(data: Any, out: Any) -> tuple[bool, str]:
        expected = module.ref_kernel(data)
        good = torch.equal(out, expected)
        return (bool(good) and (not writes or bool(expected.zero_().numel())), "differs")

    plan = fake_plan("test", calls=1, precision=Precision(rel_l2=0.01, input=0, scale=100.0))
    case = OneCase(lambda data: data[0] * 2, plan, lambda seed: (torch.arange(64.0) / seed,), check)
    case.referee.worker.task.ref_kernel = reference
    case.referee.worker.note_reference(module)
    result = case.run()
    assert result.passed and result.share == 1
    assert result.accuracy is not None and result.accuracy.rel_l2 == 0 and result.accuracy.reference == "float64"
    assert len(calls) == wanted


def test_a_number_that_is_not_finite_is_a_but_whatever_a_check_lets_pass() -> None:
    plan = fake_plan("test", precision=Precision(rel_l2=0.01, input=0, scale=100.0))
    case = OneCase(
        lambda data: data[0] * (2 if data[0][0] > 50 else float("nan")),
        plan,
        lambda seed: (torch.ones(4),),
        lambda data, out: (True, ""),
    )
    for side in (case.worker, case.referee):
        side.worker.task.ref_kernel = lambda data: data[0] * 2
    result = case.run()
    assert result.passed and any("not finite" in text for text in result.buts)


@pytest.mark.parametrize("answer", [None, [], torch.zeros(2), {"a": torch.zeros(4)}])
def test_a_probe_answered_with_what_nothing_compares_with(answer: Any) -> None:
    """Told by its zero bias: the limit on the error would have nothing to look at."""
    plan = fake_plan("test", precision=Precision(rel_l2=0.01, input=0, bias=1, scale=100.0))
    case = OneCase(
        lambda data: data[1].clone() if data[1].any() else answer,
        plan,
        lambda seed: (torch.full((4,), 1e-3), torch.ones(4)),
        lambda data, out: (torch.allclose(out, data[0] + data[1], atol=0.1), "differs"),
    )
    for side in (case.worker, case.referee):
        side.worker.task.ref_kernel = lambda data: data[0] + data[1]
    result = case.run()
    assert result.status is Status.FAIL and result.message.startswith("call 3 (")


def test_an_error_that_cannot_be_told_is_a_but_where_it_has_a_limit() -> None:
    plan = fake_plan("test", precision=Precision(rel_l2=0.01))
    result = OneCase(lambda x: x[:1] * 2, plan, check=lambda x, out: (True, "")).run()
    assert result.passed and result.buts == ["its error cannot be told: output has shape [1], wanted [4]"]


def test_an_imaginary_part_is_part_of_the_error() -> None:
    accuracy = compare.accuracy_of(torch.ones(4) + 1j, torch.ones(4), "reference")
    assert accuracy.rel_l2 == 1 and accuracy.worst is not None and accuracy.worst.got == 1


@pytest.mark.parametrize("us", [0, -1.0, float("nan"), float("inf")])
def test_a_modelled_time_that_cannot_be_is_none(us: float) -> None:
    time = {"us": us, "bound": "compute"}
    report = reported(kernels={"k": {"launches": 1}}, modelled={"cold": time, "warm": time})
    result = CaseResult(0, "", Status.PASS, device_report=report)
    look(fake_plan("test"), CaseSpec(0, "", {}), result, {0: [RankAnswer(None, 0.0, messages.Called())]})
    assert result.device_report.modelled is None and result.device_report.kernels


# ---------------------------------------------------------------- times


def timed_plan(mode: str, **changes: Any) -> EvalPlan:
    harness = replace(HARNESSES["amd"], benchmark=Repeats(5, 10), leaderboard=Repeats(4, 10), err_target=0.0)
    return fake_plan(mode, emulated=False, row=harness, **changes)


def test_benchmark_times_the_calls_after_the_checked_one(draws: Iterator[int]) -> None:
    case = OneCase(twice, timed_plan("benchmark", back_to_back=False))
    result = case.run()
    assert result.passed and result.stats is not None and result.stats.runs == 5
    assert result.stats.mean_ns == CALL_NS and result.fresh_ratio == 1.0
    timed = [told.layout is not None for told in case.worker.told if isinstance(told, messages.Call)]
    # the checked one; five on the same data; then other data, the same twice, three times over; the two other calls
    assert timed == [True] + [False] * 5 + [True, True, False] * 3 + [True, True]


def test_leaderboard_draws_new_data_and_judges_each_call(draws: Iterator[int]) -> None:
    case = OneCase(twice, timed_plan("leaderboard"))
    result = case.run()
    assert result.stats is not None and result.stats.runs == 4
    assert case.seeds == [5, 100, 101, 102, 103, 104, 105]  # of no schedule that could be known


def test_our_own_data_is_settled_and_the_official_is_not() -> None:
    """A tie that rounding breaks is no failure where we drew it; an official one is as the leaderboard has it."""
    settled: list[float] = []

    def settle(data: torch.Tensor) -> torch.Tensor:
        settled.append(float(data[0]))
        return data

    for as_officially, most in ((False, 6), (True, 2)):  # two calls, and in leaderboard mode four timed ones
        settled.clear()
        case = OneCase(twice, timed_plan("leaderboard", as_officially=as_officially), settle=settle)
        assert case.run().passed and len(settled) == most and 5.0 not in settled


def test_leaderboard_fails_at_the_first_wrong_call() -> None:
    calls = itertools.count()
    result = OneCase(lambda x: x * (2 if next(calls) < 3 else 3), timed_plan("leaderboard")).run()
    assert (result.status, result.stats) == (Status.FAIL, None) and "a timed call, other data" in result.message


def test_a_skipped_call_is_judged_without_being_told(draws: Iterator[int]) -> None:
    """Right in the checked call, and stale in timed ones: official evaluators do not look at these."""
    seen: dict[int, torch.Tensor] = {}
    result = OneCase(lambda x: seen.setdefault(0, x * 2), timed_plan("benchmark")).run()
    assert result.status is Status.FAIL and "a timed call" in result.message


@pytest.mark.parametrize("index", [0, 3, 100])
def test_one_of_the_timed_calls_on_the_same_data_is_judged(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever is drawn, the last where fewer are made: nothing is computed where the data is the last call's."""
    monkeypatch.setattr(verdict._draws, "randrange", lambda *_: index)
    last: list[torch.Tensor] = [torch.zeros(4)]

    def kernel(x: torch.Tensor) -> torch.Tensor:
        known = torch.equal(x, last[0])
        last[0] = x.clone()
        return torch.zeros(4) if known else x * 2

    result = OneCase(kernel, timed_plan("benchmark")).run()
    assert result.status is Status.FAIL and result.message.startswith("one of the timed calls, on the same data: ")


def test_timed_calls_of_a_kernel_that_clears_its_input_are_not_judged() -> None:
    """Officially they are timed on what the calls before have left."""
    case = OneCase(lambda x: (x * 2, x.zero_())[0], timed_plan("benchmark", back_to_back=False))
    result = case.run()
    assert result.passed and result.stats is not None, result.message


def test_what_is_quick_on_known_data_only_is_said(draws: Iterator[int]) -> None:
    known: dict[bytes, torch.Tensor] = {}

    def kernel(x: torch.Tensor) -> torch.Tensor:
        key = x.numpy().tobytes()
        if key not in known:
            case.clock.now_ns += 20 * CALL_NS
            known[key] = x * 2
        return known[key].clone()

    case = OneCase(kernel, timed_plan("benchmark", back_to_back=False))
    result = case.run()
    assert result.passed and result.fresh_ratio == 20 and "20.0 times as long" in result.buts[0]


@pytest.mark.parametrize("turn_ns", [0, -5, float("nan"), float("inf")])
def test_a_clock_that_cannot_be_is_tampering(turn_ns: float) -> None:
    case = OneCase(twice, timed_plan("benchmark"))
    times = iter([0, turn_ns] * 100)
    case.worker.worker.task.clock_ns = lambda: next(times)
    result = case.run()
    assert result.status is Status.TAMPERED and "meddled with the clock" in result.message


def test_the_evaluators_own_clock_beside_the_submissions(monkeypatch: pytest.MonkeyPatch) -> None:
    case = OneCase(twice, timed_plan("benchmark"))
    monkeypatch.setattr(timing, "CLOCK_SLACK_S", -1.0)
    result = case.run()
    assert result.passed and result.back_to_back is not None
    assert "the evaluator waited" in result.back_to_back.problem


@pytest.mark.parametrize(("late_ns", "doubted"), [(40 * CALL_NS, True), (20 * CALL_NS, False)])
def test_work_that_goes_on_after_the_last_event_is_a_but(
    late_ns: float, doubted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a stream of its own, which events on the current one do not see."""
    late = lambda *_: (torch.full((4,), 10.0), CALL_NS, late_ns)  # noqa: E731
    monkeypatch.setattr(measure, "timed_call", late)
    monkeypatch.setattr(CaseRun, "try_other_data", lambda self: None)
    result = OneCase(twice, timed_plan("benchmark", back_to_back=False)).run()
    assert result.passed and doubted is any("after the event" in text for text in result.buts)


def test_a_warm_up_has_no_times() -> None:
    result = OneCase(twice, timed_plan("benchmark")).run(warm_up=True)
    assert result.passed and result.stats is None


@pytest.mark.parametrize(
    ("before", "drawn", "expected"), [("none", 0.01, "all"), ("none", 0.5, "none"), ("all", 0.5, "all")]
)
def test_whether_checks_look_once_more_is_drawn_when_a_call_is_over(
    monkeypatch: pytest.MonkeyPatch, before: str, drawn: float, expected: str
) -> None:
    """Its worker knows which of them ran in it."""
    monkeypatch.setattr(verdict._draws, "random", lambda: drawn)
    asked: list[messages.Replay] = []

    def ask(kind: Any, command: messages.Replay) -> Any:
        asked.append(command)
        return [RankAnswer(None, 0.0, messages.Replayed())], None

    pool: Any = SimpleNamespace(anew=SimpleNamespace(ask=ask))
    run = CaseRun(fake_plan("test"), pool, pool, CaseSpec(0, "", {}))
    large = reported(kernels={"touch": {"launches": 1, "wave_instructions": 10**6}})
    run.called = {draw: [RankAnswer(None, 0.0, messages.Called(device_report=large))] for draw in (0, 1)}
    run.checked = {0: "all", 1: before}
    monkeypatch.setattr(run, "ask", lambda *_: [RankAnswer(None, 0.0, messages.HandedOver(layout=b""))])
    run.make_anew(1)
    assert [one.checks for one in asked] == [expected]


def test_of_outputs_that_differ_a_little_the_one_made_anew_is_judged() -> None:
    """The other one may be what the host has mended."""
    anew = torch.arange(1.0, 65.0).bfloat16()
    referee: Any = object.__new__(Referee)
    referee.exchange = SimpleNamespace(rebuilt=lambda *_: anew, OUTPUTS=[0], Unfit=exchange.Unfit)
    referee.anew, referee.compare = [None], compare
    told = messages.Output()
    assert referee.made_anew(anew.clone(), told, 0)[1] is False
    judged, unlike = referee.made_anew((anew.float() * 1.004).bfloat16(), told, 0)
    assert judged is anew and not unlike
    assert referee.made_anew((anew.float() * 1.02).bfloat16(), told, 0)[1]


# ---------------------------------------------------------------- what ran


def test_torchs_own_products_are_counted() -> None:
    a, b = torch.ones(3, 5), torch.ones(5, 7)
    with operations.watch(True) as work:
        torch.mm(a, b)
        torch.nn.functional.linear(a, b.T, torch.ones(7))
        torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 1, 4, 8)] * 3)
        a + 1
    assert work.by_name["mm"] == work.by_name["addmm"] == 2 * 3 * 5 * 7
    assert work.flops > 2 * 2 * 3 * 5 * 7 and "add" in work.calls
    with operations.watch(False) as work:
        torch.mm(a, b)
    assert work.told() == TorchWork()


def test_torchs_compiler_is_kept_off_where_it_has_been_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "_disable_dynamo", lambda dispatch: lambda *args: "kept off")
    dispatched = operations._traced_by_none(lambda *args: "as it is")
    monkeypatch.delitem(vars(torch), "_dynamo", raising=False)
    assert dispatched() == "as it is"  # to import it takes a second and a half
    monkeypatch.setitem(vars(torch), "_dynamo", object())
    assert dispatched() == "kept off"


def test_products_in_threads_are_counted_where_the_call_starts_them() -> None:
    class Own(threading.Thread):
        def run(self) -> None:
            torch.ones(3, 5) @ torch.ones(5, 7)

    begin = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]
    with operations.watch(True) as work:
        started = [Own(), threading.Thread(target=Own().run)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
    assert work.by_name == {"mm": 2 * 2 * 3 * 5 * 7}
    assert threading.Thread._bootstrap_inner is begin  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("work", "least"),
    [
        (lambda x: torch.lerp(x, x, x), 2),
        (lambda x: (x * 8).long() // 3, 1),
        (lambda x: torch.zeros(4).scatter_add_(0, torch.zeros(64, dtype=torch.long), x), 1),
        (lambda x: x.clone().scatter_reduce_(0, torch.arange(64), x, "prod"), 1),
        (lambda x: torch.zeros(4).index_put_((torch.zeros(64, dtype=torch.long),), x, True), 1),
        (lambda x: torch.ops.aten._softmax_backward_data(x, x, 0, torch.float32), 2),
        (lambda x: torch.nn.functional.mse_loss(x, x), 2),
        (lambda x: torch.zeros(4).index_put_((torch.arange(4),), x[:4]), 0),
        (lambda x: (x > 0) | (x.max() < 0), 1),
        (lambda x: torch.count_nonzero(x), 2),
        (lambda x: torch._trilinear(x, x, x, [], [], [], [0], 0), 2),
        (
            lambda x: torch.ops.aten.max_pool2d_with_indices_backward(
                x.view(1, 8, 8)[:, :4, :4],
                x.view(1, 8, 8),
                [2, 2],
                [2, 2],
                [0, 0],
                [1, 1],
                False,
                torch.zeros(1, 4, 4, dtype=torch.long),
            ),
            1,
        ),
        (lambda x: torch.unique(x, return_counts=True), 1),
        (lambda x: (x > 0) & torch.isfinite(x).clone(), 1),
        (lambda x: torch.where(x > 0, x, -torch.inf).amax(), 0),
        (lambda x: torch.cat([x.clone(), x[:2]]).sort().values.gather(0, torch.arange(64)), 0),
    ],
)
def test_sums_and_products_of_elements_are_counted_by_whatever_name(work: Callable[..., Any], least: int) -> None:
    x = torch.ones(64)
    with operations.watch(True, free=0) as found:
        work(x)
    assert (found.flops >= 64 * least) if least else not found.flops, found.by_name


def test_a_products_terms_are_counted() -> None:
    a, b = torch.ones(16, 8), torch.ones(8, 32)
    with operations.watch(True) as work:
        (a[:, :, None] * b).sum(1)
        a * 2
    assert work.by_name == {"mul": 16 * 8 * 32, "sum": 16 * 8 * 32}
    with operations.watch(True) as work:  # two in each number, and four in a complex one
        a.double() @ b.double()
        a.to(torch.complex64) @ b.to(torch.complex64)
    assert work.by_name == {"mm": (2 + 4) * 2 * 16 * 8 * 32}
    with operations.watch(True) as work:  # looked up in a table
        a[torch.arange(16)[:, None, None], torch.arange(8)[:, None].expand(8, 32)]
        a[torch.arange(16)]
    assert work.by_name == {"index": 16 * 8 * 32}
    with operations.watch(True) as work:  # of one term at a time
        out = torch.zeros(16, 32)
        for k in range(8):
            out.addcmul_(a[:, k : k + 1].expand(16, 32), b[k])
            out += a[:, k : k + 1] * b[k].expand(16, 32)
        out.addcmul_(out, out)  # no product: elements alone
        out * out[:, :1]
    assert work.by_name == {"mul": 16 * 8 * 32, "addcmul_": 2 * 16 * 8 * 32}
    with operations.watch(True) as work:  # of operations that multiply matrices by another name
        torch.cdist(a, b.T.contiguous())
        a.sort()
    assert work.by_name == {"_euclidean_dist": 2 * 16 * 8 * 32}


def ran(rank: int | None, flops: int, torch_flops: int = 0, **more: Any) -> RankAnswer[messages.Called]:
    report = reported(kernels={"touch": {"launches": 1}}, flops=flops, **more)
    return RankAnswer(rank, 0.0, messages.Called(device_report=report, torch_work=TorchWork(torch_flops)))


def doubts(**called: list[RankAnswer[messages.Called]]) -> list[str]:
    plan, result = fake_plan("test", floors=Floors("1000000", "f16", "1")), CaseResult(0, "", Status.PASS)
    look(plan, CaseSpec(0, "", {}), result, {int(draw[1:]): answers for draw, answers in called.items()})
    return result.buts


def test_launches_that_cannot_have_done_the_work_are_a_but() -> None:
    """Whoever did it: a thread, a process, torch where nothing counts. In each call, on each rank."""
    said = "its 1 launches can have done {} of the case's FLOPs at most{}"
    assert doubts(_0=[ran(None, 890_000)]) == [said.format(0.89, "")]
    assert doubts(_0=[ran(None, 910_000)]) == [] and doubts(_0=[ran(None, 600_000, torch_flops=310_000)]) == []
    assert doubts(_0=[ran(None, 10**6)], _1=[ran(None, 50_000)]) == [said.format(0.05, " in call 2")]
    ranks = [ran(0, 10**7), ran(1, 5_000)]
    assert doubts(_0=ranks) == [said.format(0.005, " on rank 1")]
    unknown = "2 launches were made of which nothing was counted: its time is not known"
    assert doubts(_0=[ran(None, 10**6, uncounted=2)]) == [unknown]


def wrote(rank: int | None = None, **written: int) -> RankAnswer[messages.Called]:
    told = ran(rank, 10**6)
    return replace(told, answer=structs.replace(told.answer, written=written, host=("a child process",)))


def test_an_output_that_the_host_made_is_a_but() -> None:
    assert doubts(_0=[wrote(now=996, nobody=4)], _1=[wrote(now=990, read_nobody=600, told=90)]) == []
    assert doubts(_0=[wrote(now=990, nobody=10)]) == ["the host wrote 1% of its output: a child process"]
    told = "its output in call 2 is made of 2 times as many bytes of the host's: a child process"
    assert doubts(_0=[wrote(now=1000)], _1=[wrote(now=1000, read_nobody=2000)]) == [told]
    assert doubts(_0=[wrote(now=1, before=9)]) == ["most of its output was there before the call"]
    assert doubts(_0=[wrote(now=1000)], _1=[wrote(now=1000, read_nobody=10, told=1990)]) == [told]
    # the first call may prepare what others use; and what other ranks send nobody knows
    first = wrote(now=1000, read_nobody=1000, read_before=500, told=500)
    for used in ({"read_again": 2000}, {"made_again": 250}, {"read_again": 1500, "told_again": 500}):
        assert doubts(_0=[first], _1=[wrote(now=1000, **used)]) == []
        assert doubts(_0=[first], _1=[wrote(now=1000, **used)], _2=[wrote(now=1000)]) == [
            told.replace(" in call 2", "")
        ]
    assert doubts(_0=[wrote(0, now=1000, read_nobody=2000)]) == []
    assert doubts(_0=[wrote(0, now=9), wrote(1, nobody=9)]) == [
        "the host wrote 100% of its output on rank 1: a child process"
    ]


def test_an_accounting_that_failed_is_a_but() -> None:
    said = "who wrote its output in call 2 cannot be told: ValueError: gone"
    one = ran(None, 10**6)
    assert doubts(_0=[one], _1=[replace(one, answer=structs.replace(one.answer, unaccounted="ValueError: gone"))]) == [
        said
    ]


def test_less_time_on_data_that_has_been_seen_is_a_but() -> None:
    def took(us: float) -> list[RankAnswer[messages.Called]]:
        time = {"us": us, "bound": "HBM"}
        return [ran(None, 10**6, modelled={"cold": time, "warm": time})]

    again = {0: [ran(None, 10**6)], AGAIN: took(4.0), 1: took(5.9)}
    result = CaseResult(0, "", Status.PASS)
    look(fake_plan("benchmark"), CaseSpec(0, "", {}), result, again)
    assert result.buts == []
    look(fake_plan("benchmark"), CaseSpec(0, "", {}), result, {**again, 1: took(10.0)})
    assert result.buts == ["on other data a call takes 2.5 times as long as on data it has seen"]
    products = fake_plan("benchmark", floors=Floors("1000000", "f16", "1"))
    routed = replace(products, problem=replace(products.problem, sampled="products"))
    for plan, us, doubted in ((products, 4.3, False), (products, 4.5, True), (routed, 4.5, False)):
        look(plan, CaseSpec(0, "", {}), result := CaseResult(0, "", Status.PASS), {**again, 1: took(us)})
        assert bool(result.buts) is doubted


def test_a_product_by_torch_is_a_but() -> None:
    def product(x: torch.Tensor) -> torch.Tensor:
        return x.view(2, 2) @ torch.eye(2)

    plan = fake_plan("test", floors=Floors("16", "f16", "1"))
    result = OneCase(lambda x: (product(x) * 2).view(4), plan).run()
    assert result.passed and "aten::mm did 100% of the case's FLOPs" in result.buts[0]
    assert OneCase(twice, plan).run().buts == ["no kernel of its own was launched"]


def test_the_reference_entered_by_whatever_name() -> None:
    module = type("M", (), {})()
    exec("def ref_kernel(x):\n    return x * 2", module.__dict__)
    kept = module.ref_kernel
    entered = operations.count_entries(module, "ref_kernel")
    renamed = module.ref_kernel
    assert renamed(1) == 2 and entered() == 1
    assert kept is not renamed
