"""Large cases on an emulated device: a sample stands for them, with a small case's verdict; how long it all takes."""

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from forge.console import instructions_text, minutes_text
from forge.device.base import PRODUCTS, ROUNDS
from forge.judge import operations
from forge.judge.forecast import Forecast, sample_text
from forge.judge.plan import EMULATED_LIMIT_S, sample_of, small_case
from forge.judge.results import CaseResult, Status
from forge.judge.verdict import CaseRun
from forge.task.cases import CaseSpec
from forge.task.harness import HARNESSES
from forge.task.problem import Floors, find_problem
from tests.forge.test_eval_verdict import OneCase, draws, twice
from tests.support.evaltools import RIGHT, TASK, judge, run_command, write_problem
from tests.support.fake_plan import fake_plan, reported

__all__ = ["draws"]  # a fixture
LARGE = 4_000_000  # elements: 62,500 workgroups of one wave, of which 29,184 are three rounds
DOUBLES = """\
import torch, triton, triton.language as tl

@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

def custom_kernel(x):
    out = torch.empty_like(x)
    double_kernel[(triton.cdiv(len(x), 64),)](x, out, len(x), 64, num_warps=1)
    return out
"""
# As eval.py, for cases that are large sooner.
SOONER = """\
import sys
from forge.judge import evaluate, verdict
evaluate.LARGE_FLOPS, evaluate.LARGE_INSTRUCTIONS, verdict.LARGE_INSTRUCTIONS = 100, 1000, 1000
evaluate.LARGE_TORCH_FLOPS = verdict.LARGE_TORCH_FLOPS = 1000
from forge.commands import eval
sys.exit(eval.main(sys.argv[1:]))
"""


def evaluate(
    folder: Path, submission: str, *options: str, floors: bool = True, mode: str = "benchmark", program: str = SOONER
) -> tuple[int, str, dict[str, Any]]:
    task = TASK.replace("{n: 8, seed: 3}", f"{{n: {LARGE}, seed: 3}}")
    task = task if floors else re.sub(r"^floors: .*\n", "", task, flags=re.MULTILINE)
    problem = write_problem(folder / "problem", task)
    (folder / "submission.py").write_text(submission)
    (folder / "sooner.py").write_text(program)
    words = [mode, str(problem), "--device", "gfx942", "--json", "out.json", "--no-history", *options]
    done = run_command(*words, cwd=folder, script=folder / "sooner.py")
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout, json.loads((folder / "out.json").read_text())


@pytest.mark.long
def test_a_sample_stands_for_a_large_case_and_says_so(tmp_path: Path) -> None:
    code, said, result = evaluate(tmp_path, DOUBLES, "--cases", "1,2")
    small, large = result["cases"]
    assert (code, result["verdict"], small["status"], large["status"]) == (0, "pass, but", "pass", "sampled"), said
    counted = large["report"]["kernels"]["double_kernel"]
    assert counted["workgroups"] == LARGE // 64 and counted["workgroups_run"] < LARGE // 96
    assert f"{counted['workgroups_run']:,} of {LARGE // 64:,} workgroups emulated" in said
    assert "judged instead, and passed: n: 4; seed: 1" in said and "--full judges it:" in said
    assert large["report"]["modelled"]["cold"]["us"] > small["report"]["modelled"]["cold"]["us"]
    per_group = counted["wave_instructions"] / counted["workgroups"]
    assert per_group == pytest.approx(counted["wave_instructions_run"] / counted["workgroups_run"], rel=0.01)


@pytest.mark.long
def test_a_wrong_kernel_fails_by_the_small_case(tmp_path: Path) -> None:
    code, said, result = evaluate(tmp_path, DOUBLES.replace("* 2,", "* 3,"), "--cases", "2")
    assert code == 1 and result["cases"][0]["status"] == "fail", said
    assert "too large to be judged; of a small one, n: 4; seed: 1: values differ" in said


@pytest.mark.long
def test_full_judges_all_of_it(tmp_path: Path) -> None:
    code, said, result = evaluate(tmp_path, DOUBLES, "--cases", "2", "--full", "--calls", "1")
    assert code == 0 and result["cases"][0]["status"] == "pass", said
    counted = result["cases"][0]["report"]["kernels"]["double_kernel"]
    assert counted["workgroups_run"] == counted["workgroups"] and "sample" not in said


def reports(case: OneCase, run: int, times: int = 1) -> None:
    kernels = {"k": {"wave_instructions": 90 * 10**6 * times, "wave_instructions_run": run * 10**5 * times}}
    kernels["k"] |= {"workgroups": 900, "workgroups_run": run}
    case.worker.worker.device.case_report = lambda: reported(kernels=kernels)


def test_a_sample_is_of_two_calls_and_nothing_is_judged(draws: Any) -> None:
    case = OneCase(twice, fake_plan("benchmark", sample=ROUNDS))
    reports(case, run=300)
    result = case.run(try_sample=True)
    assert (result.status, result.calls, result.seeds) == (Status.SAMPLED, 0, [5])
    assert "300 of 900 workgroups" in result.buts[0] and "90 M instructions" in result.buts[0]


def test_what_is_emulated_for_minutes_is_not_emulated_again_to_be_judged(draws: Any) -> None:
    """Though a sample is all of it: too few workgroups, each with much to do."""
    case = OneCase(twice, fake_plan("benchmark", sample=ROUNDS))
    reports(case, run=900, times=3)
    result = case.run(try_sample=True)
    assert (result.status, result.calls) == (Status.SAMPLED, 0) and "900 of 900 workgroups" in result.buts[0]


@pytest.mark.parametrize("kind", ["saves nothing", "waits"])
def test_what_cannot_be_sampled_is_judged_whole(draws: Any, kind: str) -> None:
    """Where most workgroups fit on the card, and where a workgroup waits for one that does not run."""

    def kernel(x: torch.Tensor) -> torch.Tensor:
        if kind == "waits" and case.worker.worker.device.sampling:
            raise RuntimeError("deadlock")
        return x * 2

    case = OneCase(kernel, fake_plan("benchmark", sample=ROUNDS))
    reports(case, run=900)
    result = case.run(try_sample=True)
    assert (result.status, result.calls, result.seeds) == (Status.PASS, 4, [5, 100, 101])


BY_TORCH = """\
import torch

def custom_kernel(x):
    return torch.mm(x.view(-1, 1), torch.full((1, 1), 2.0, device=x.device)).view(-1) + 0
"""


@pytest.mark.long
def test_a_large_case_in_torch_alone_is_counted_and_not_carried_out(tmp_path: Path) -> None:
    code, said, result = evaluate(tmp_path, BY_TORCH, "--cases", "1,2")
    small, large = result["cases"]
    assert (code, small["status"], large["status"]) == (0, "pass", "sampled"), said
    assert "2 large operations of torch's counted, not carried out" in said and "judged instead, and passed" in said
    assert large["torch_work"]["left_out_flops"] == large["torch_work"]["flops"] == 2 * LARGE
    times = [one["report"]["modelled"]["cold"]["us"] for one in (small, large)]
    assert times[1] > 1.5 * times[0]  # the large one moves 64 MB


def test_what_a_sample_leaves_out_is_zeros_whatever_memory_had_before() -> None:
    """How many rows a mask takes, or whether a branch is taken, must not change from run to run."""
    before = [torch.full((1000,), 255, dtype=torch.uint8) for _ in range(64)]
    del before  # the allocator gives the same places again
    like = torch.empty(1000, dtype=torch.uint8, device="meta")
    assert not any(operations.unmade(like).any() for _ in range(64))


def test_what_a_sample_leaves_out_has_its_shape() -> None:
    x, small = torch.zeros(2048, 8192, dtype=torch.bfloat16), torch.ones(4)
    with operations.watch(True, None, sample=True) as work:
        product = torch.nn.functional.linear(x, x)
        mean, best = x.float().mean(), x.max(dim=1)
        same = x.add_(1)
        total = (small * 3).sum().item()
        chosen = x[x > 1]
    assert (product.shape, product.dtype) == ((2048, 2048), torch.bfloat16)
    assert mean.shape == () and best.indices.shape == (2048,) and best.indices.dtype == torch.int64
    assert same is x and not x.any() and total == 12  # small ones are carried out, and so is what has no shape before
    assert chosen.shape == (0,) and work.left_out >= 5 and work.left_out_flops == 2 * 2048 * 2048 * 8192


def test_what_is_left_out_needs_no_memory() -> None:
    """Keys and values of every head, in a sample, are more than a laptop has."""
    x = torch.zeros(1 << 20, 1, dtype=torch.bfloat16)
    with operations.watch(True, None, sample=True):
        keys = torch.nn.functional.linear(x, torch.zeros(1 << 17, 1, dtype=torch.bfloat16))  # 256 GiB
        assert torch.softmax(keys, dim=-1).shape == keys.shape == (1 << 20, 1 << 17)


def test_which_problems_are_sampled() -> None:
    """Not where a router's output decides what the kernels after it do, nor where there are several ranks."""
    for name in ("amd-mixture-of-experts", "amd-moe-mxfp4"):
        assert sample_of(find_problem(name), []) == (PRODUCTS, "")
    kind, why = sample_of(find_problem("amd-all2all"), [])
    assert not kind and "decides what others do" in why
    fp8 = find_problem("amd-fp8-mm")
    assert sample_of(fp8, []) == (ROUNDS, "") and small_case(fp8, HARNESSES["amd"]).args["k"] == 128
    ranks = CaseSpec(0, "m: 1; world_size: 2", {"m": 1, "world_size": 2})
    kind, why = sample_of(fp8, [ranks])
    assert not kind and "wait for one another" in why


def test_a_forecast_grows_with_the_work() -> None:
    forecast = Forecast(fake_plan("benchmark", floors=Floors("n", "f16", None, None)))

    def case(n: int) -> CaseSpec:
        return CaseSpec(0, f"n: {n}", {"n": n})

    done = CaseResult(0, "", Status.PASS, device_report=reported(kernels={"k": {"wave_instructions": 19_000_000}}))
    done.elapsed_s, done.calls = 3.0, 3
    assert forecast.text(case(10**6), []) == ""  # nothing is known yet
    forecast.add(case(10**6), done)
    assert forecast.text(case(10**6), []) == ""  # three seconds are not worth a line
    assert forecast.text(case(10**8), []) == "1.9 G instructions a call, about 5 min"
    after = [case(10**8), case(10**8)]
    assert forecast.text(case(10**8), after).endswith("about 5 min; about 15 min with the 2 after it")
    tiny = Forecast(forecast.plan)
    done.device_report = reported(kernels={"k": {"wave_instructions": 1900}})
    tiny.add(case(100), done)  # three seconds, in which it was compiled
    assert tiny.text(case(10**6), []) == "" and tiny.text(case(10**7), []) == "190 M instructions a call, about 10 min"
    assert (instructions_text(1.25e8), minutes_text(7300), minutes_text(2)) == (
        "125 M instructions",
        "about 2.0 hours",
        "about 2 s",
    )


def counted(instructions: int, status: Status = Status.PASS, **changes: Any) -> CaseResult:
    return CaseResult(
        0, "", status, device_report=reported(kernels={"k": {"wave_instructions": instructions}}), **changes
    )


def test_a_forecast_is_of_what_was_counted() -> None:
    """Of one expert's few rows a small case executes whole tiles: by its FLOPs a large one came out at 40 times its
    instructions, and by its seconds, most of which were compiling, at more."""
    forecast = Forecast(fake_plan("benchmark", floors=Floors("n", "f16", None, None)))
    small, other, large = (CaseSpec(0, f"n: {n}", {"n": n}) for n in (10**6, 10**8, 10**9))
    forecast.add(small, counted(20_000_000, elapsed_s=600.0, call_s=20.0, calls=3))  # 9 of 10 minutes compiled
    told = forecast.of(large)
    assert told is not None and (told.instructions, told.seconds) == (20 * 10**9, 60_000)
    forecast.note(large, counted(500_000_000).device_report, 0.0)  # what a sample of it has counted
    told = forecast.of(large)
    assert told is not None and (told.instructions, told.seconds) == (500 * 10**6, 1500)
    told = forecast.of(other)  # as the largest that was counted foretells
    assert told is not None and told.instructions == 50 * 10**6
    forecast.add(other, counted(60_000_000, Status.SAMPLED))
    told = forecast.of(other)
    assert told is not None and (told.instructions, told.seconds) == (60 * 10**6, 180)


def test_a_small_first_case_foretells_no_days() -> None:
    """amd-gemm-rs, eight ranks, one call a case: by its first two cases a list of five minutes came out at 67 hours."""
    plan = fake_plan("test", floors=Floors("m * n * k", "f16", None, None))
    shapes = [(64, 2880, 2880), (64, 3584, 14336), (512, 3584, 14336), (2048, 8192, 30720), (8192, 8192, 28672)]
    cases = [CaseSpec(0, f"m: {m}; n: {n}; k: {k}", {"m": m, "n": n, "k": k}) for m, n, k in shapes]
    forecast = Forecast(plan)
    forecast.add(cases[0], counted(2_898_588, elapsed_s=40.0, call_s=30.0, calls=1))  # nearly all of it compiling
    told = forecast.of(cases[1])
    assert told is not None and told.seconds < 60
    assert "after it" not in forecast.text(cases[3], cases[4:])  # 3,600 times its work: that case tells nothing of it
    forecast.add(cases[1], counted(8_184_316, elapsed_s=4.0, call_s=3.0, calls=1))
    forecast.add(cases[2], counted(19_535_614, elapsed_s=6.0, call_s=5.0, calls=1))
    told = forecast.of(cases[4])
    assert told is not None and told.instructions < 597_030_174 and told.seconds < 600  # executed: 597,030,174


def test_a_call_that_was_quick_foretells_no_hours() -> None:
    """Scalar loops execute an instruction in a tenth of what one of a product takes."""
    forecast = Forecast(fake_plan("test", floors=Floors("n", "f16", None, None)))
    small, large = (CaseSpec(0, f"n: {n}", {"n": n}) for n in (10**6, 10**8))
    forecast.add(small, counted(600_000, call_s=0.03, calls=3))  # less than tells, and quicker than is typical
    told = forecast.of(large)
    assert told is not None and told.seconds == pytest.approx(3 * 3)
    compiled = Forecast(forecast.plan)
    compiled.add(small, counted(20_000_000, call_s=2.0, calls=1))  # all of it may be compiling, and still
    told = compiled.of(large)
    assert told is not None and told.seconds == pytest.approx(3 * 200)


def test_a_forecast_holds_judging_where_a_like_case_told_it() -> None:
    forecast = Forecast(fake_plan("test", floors=Floors("n", "f16", None, None)))
    seen, like, large = (CaseSpec(0, f"n: {n}", {"n": n}) for n in (10**6, 10**7, 10**9))
    forecast.add(seen, counted(5_000_000, elapsed_s=40.0, steady_s=6.0, call_s=0.5, calls=3))
    assert [told.seconds for case in (like, large) if (told := forecast.of(case))] == [60.0, 1500.0]


def test_what_the_first_call_takes_alone_is_not_steady(draws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now, takes = [0.0], [10, 3, 3]
    for module in ("worker", "verdict"):
        monkeypatch.setattr(f"forge.judge.{module}.time", SimpleNamespace(monotonic=lambda: now[0]))

    def kernel(x: torch.Tensor) -> torch.Tensor:
        now[0] += takes.pop(0)
        return x * 2

    result = OneCase(kernel, fake_plan("test")).run()
    assert (result.elapsed_s, result.steady_s) == (16, 9)


def test_the_seconds_of_a_call_are_the_workers(draws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a call runs the evaluator has the one before judged: those seconds are not the call's."""
    now = [0.0]
    monkeypatch.setattr("forge.judge.worker.time", SimpleNamespace(monotonic=lambda: now[0]))

    def kernel(x: torch.Tensor) -> torch.Tensor:
        now[0] += 3
        return x * 2

    assert OneCase(kernel, fake_plan("test")).run().call_s == 3


@pytest.mark.parametrize(("run", "rest"), [(900, "; "), (300, ", the rest counted; ")])
def test_where_all_workgroups_are_emulated_there_is_no_rest(run: int, rest: str) -> None:
    report = reported(kernels={"k": {"workgroups": 900, "workgroups_run": run}})
    assert f"a sample: {run} of 900 workgroups emulated{rest}output not judged" in sample_text(report, 1.0, 3)


def test_what_a_sample_counted_is_told_before_all_of_it_is_emulated(draws: Any) -> None:
    case, told = OneCase(twice, fake_plan("benchmark", sample=ROUNDS)), []
    reports(case, run=900)
    case.run(try_sample=True, whole=lambda report, flops: told.append(report.total("wave_instructions")))
    assert told == [90 * 10**6]


def test_a_sample_counts_a_case_before_it_is_judged_whole(draws: Any) -> None:
    case = OneCase(twice, fake_plan("test", sample=ROUNDS))
    reports(case, run=300)
    one = CaseRun(case.plan, case.worker, case.referee, CaseSpec(0, "seed: 5", {"seed": 5}))  # type: ignore[arg-type]
    report, _ = one.count()
    assert report.total("wave_instructions") == 90 * 10**6 and one.result.calls == 0
    os.close(case.memory)


PADS = DOUBLES.replace(
    "    double_kernel[", "    double_kernel[(1000,)](x, torch.empty_like(x), 0, 64, num_warps=1)\n    double_kernel["
)


@pytest.mark.long
def test_a_test_whose_time_is_worth_a_line_is_foretold_by_a_sample_of_itself(tmp_path: Path) -> None:
    """Both launch a thousand idle workgroups, so that the small one's FLOPs foretell thousands of times too much."""
    shown = SOONER.replace(
        "from forge.commands import eval",
        "from dataclasses import replace\n"
        "from forge.judge.forecast import Forecast\n"
        "of = Forecast.of\n"
        "Forecast.of = lambda self, case: (told := of(self, case)) and replace(told, seconds=100.0)\n"
        "Forecast.text = lambda self, case, left: f'{self.of(case).instructions:.0f} counted'\n"
        "from forge.commands import eval",
    )
    case = f"n: {LARGE // 64}, seed: 3"
    code, said, result = evaluate(tmp_path, PADS, "--case", case, mode="test", program=shown)
    executed = sum(one["wave_instructions"] for one in result["cases"][0]["report"]["kernels"].values())
    foretold = re.search(r"(\d+) counted", said)
    assert code == 0 and foretold and int(foretold[1]) == executed, said


def test_a_problem_without_floors_is_sampled_too(tmp_path: Path) -> None:
    code, said, result = evaluate(tmp_path, DOUBLES, "--cases", "2", floors=False)
    large = result["cases"][0]
    assert (code, large["status"]) == (0, "sampled"), said
    assert large["report"]["kernels"]["double_kernel"]["workgroups_run"] < LARGE // 96 and "a sample: " in said
    assert "judged instead, and passed: n: 4; seed: 1" in said


@pytest.mark.long
def test_an_emulated_case_has_an_hour_and_a_limit_that_ends_it_says_how_to_have_more(tmp_path: Path) -> None:
    _, result = judge(tmp_path, RIGHT, "test", "--cases", "0")
    assert result["timeout_s"] == EMULATED_LIMIT_S == 3600
    endless = "def custom_kernel(x):\n    while True: pass\n"
    done, result = judge(tmp_path / "endless", endless, "test", "--cases", "0", "--timeout", "3")
    assert "no result after 3 s" in done.stdout and "--timeout S gives it more" in done.stdout
