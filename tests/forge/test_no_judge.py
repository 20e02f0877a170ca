"""--no-judge: a modelled time alone, which nobody may take for a pass."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from forge.bulk.judge import Judge
from forge.commands.outcome import cause_of
from forge.commands.run import exit_code_of
from forge.history.document import Document
from forge.judge.results import CaseResult, Run, Status
from tests.support.evaltools import judge, run_command, write_problem

WRONG = """
import torch
import triton
import triton.language as tl

@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    tl.store(out + places, tl.load(x + places, places < n) * 3, places < n)

def custom_kernel(x):
    out = torch.empty_like(x)
    double[(1,)](x, out, len(x), BLOCK=16)
    return out
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("bare")
    words = ("--cases", "0,1", "--no-judge", "--no-history")
    done, result = judge(folder, WRONG, "benchmark", *words, problem=write_problem(folder / "problem"))
    return done.stdout, done.returncode, result


def test_times_are_modelled_and_nothing_passes(told: tuple[str, int, dict[str, Any]]) -> None:
    said, code, result = told
    assert code == 3 and result["verdict"] == "unjudged", said
    assert [case["status"] for case in result["cases"]] == ["unjudged"] * 2 and "UNJUDGED: 2 of 2 cases" in said
    assert "pass" not in said.replace("bypass", "") and "modelled, geometric mean of 2 cases" in said
    assert all(case["accuracy"] is None and case["calls"] == 0 for case in result["cases"])
    report = msgspec.convert(result, Document, strict=False)
    assert len(report.times_us) == 2
    cause = cause_of(report)
    assert (cause.status, cause.blame) == ("doubtful", "request") and "nothing was judged" in cause.message


@pytest.mark.parametrize("mode", ["test", "leaderboard"])
def test_elsewhere_there_is_no_such_time(mode: str, tmp_path: Path) -> None:
    (tmp_path / "submission.py").write_text(WRONG)
    done = run_command(mode, write_problem(tmp_path / "problem"), "--device", "gfx942", "--no-judge", cwd=tmp_path)
    assert done.returncode == 2 and "--no-judge goes with benchmark" in done.stderr


def test_who_asks_for_many_verdicts_gets_verdicts(tmp_path: Path) -> None:
    with Judge(problem=str(write_problem(tmp_path / "problem")), device="gfx942", options=["--no-judge"]) as many:
        verdict = next(many.judge_all([{"id": "one", "source": WRONG, "mode": "benchmark"}]))
    assert (verdict.status, verdict.blame) == ("invalid", "request") and "--no-judge" in verdict.message


@pytest.mark.parametrize(("others", "verdict"), [("unjudged", "unjudged"), ("crash", "fail"), ("fail", "fail")])
def test_a_case_that_fails_is_a_failure(others: str, verdict: str) -> None:
    cases = [CaseResult(0, "", Status.UNJUDGED), CaseResult(1, "", Status(others))]
    run = Run("benchmark", cases, False, complete=True)
    assert run.verdict == verdict and not run.passed
    code = exit_code_of(run, run.passed, run.doubted, strict=False, trust=True)
    assert code == (3 if verdict == "unjudged" else 1)
