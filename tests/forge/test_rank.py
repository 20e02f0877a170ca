"""forge rank: yes, or the first reason why not; and times that no card reaches."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import forge.__main__ as one
from forge.bulk import rank
from forge.commands import history
from forge.console import EXIT_BAD_INPUT, EXIT_BUT, EXIT_FAIL, EXIT_PASS
from forge.device.cards import peaks_of
from forge.history.light import too_fast_there
from forge.history.popcorn import LeaderboardCase, Outside
from forge.judge.results import CaseResult, Status
from forge.task.cases import spec_of
from forge.task.harness import HARNESSES
from forge.task.problem import find_problem
from forge.task.score import Work, too_fast
from lab.verdicts import PROBLEM
from tests.support.evaltools import TASK, write_problem
from tests.support.fake_plan import reported

HEAD = (PROBLEM.parent / "kernel.py").read_text()
RIGHT = HEAD + "custom_kernel = product\n"
TOLD_BY_SEED = """\
import torch

def generate_input(n, seed):
    return torch.full((n,), float(seed), device="cuda")

def ref_kernel(x):
    return x * 2

def check_implementation(x, out):
    return torch.allclose(out, ref_kernel(x)), "values differ"
"""


def ranked(source: str, folder: Path, *words: str) -> tuple[int, dict[str, str], str]:
    """Exit code, answers by step, and the reason."""
    (folder / "mine.py").write_text(source)
    out = folder / "ranked.json"
    code = one.main(["rank", str(folder / "mine.py"), "--device", "gfx942", "--json", str(out), *words])
    said = json.loads(out.read_text())
    return code, {step["name"]: step["answer"] for step in said["steps"]}, said["reason"]


def test_a_right_kernel_would_be_ranked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, steps, reason = ranked(RIGHT, tmp_path, "--problem", str(PROBLEM), "--trust")
    told = capsys.readouterr().out
    assert (code, reason) == (EXIT_PASS, ""), told
    assert list(steps) == [
        "rules", "KernelGuard", "public tests", "benchmark", "secret tests", "secret run", "time-outs",
    ]  # fmt: skip
    assert set(steps.values()) == {"yes"} and "answer: yes" in told


@pytest.mark.parametrize(
    ("source", "steps", "reason"),
    [
        ("# on a stream\n" + RIGHT, 1, "'stream'"),
        ("def kernel(data):\n    return data\n", 1, "defines no custom_kernel"),
        ("#!POPCORN leaderboard amd-gemm-rs\n" + RIGHT, 1, "its header names leaderboard amd-gemm-rs"),
        ("import time\n\ntime.time = lambda: 0\n" + RIGHT, 2, "KernelGuard filters"),
        (HEAD + "custom_kernel = wrong\n", 3, "wrong: "),
    ],
)
def test_the_first_reason_ends_it(source: str, steps: int, reason: str, tmp_path: Path) -> None:
    code, answers, said = ranked(source, tmp_path, "--problem", str(PROBLEM), "--trust")
    assert code == EXIT_FAIL and reason in said, said
    assert list(answers.values()) == ["yes"] * (steps - 1) + ["no"]


def test_what_is_right_on_public_seeds_alone_fails_the_secret_run(tmp_path: Path) -> None:
    problem = write_problem(tmp_path / "toy", TASK, TOLD_BY_SEED)
    source = "def custom_kernel(x):\n    return x * (2 if x[0] < 100 else 3)\n"
    code, answers, reason = ranked(source, tmp_path, "--problem", str(problem), "--calls", "1", "--seed", "12345")
    assert code == EXIT_FAIL and reason.startswith("secret tests: ") and "values differ" in reason
    assert answers["public tests"] in ("yes", "doubtful") and list(answers)[-1] == "secret tests"


@pytest.mark.parametrize("words", [["/nowhere.py"], ["mine.py", "--problem", "amd-fp8-nm"], ["mine.py"]])
def test_what_cannot_be_asked_is_one_line(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(RIGHT)
    assert one.main(["rank", *words]) == EXIT_BAD_INPUT
    assert len(capsys.readouterr().err.splitlines()) == 1


# ---------------------------------------------------------------- time-outs


@pytest.mark.parametrize(
    ("us", "answer"),
    [(100.0, "yes"), (1e6, "doubtful"), (100e6, "no"), (None, "doubtful")],
)
def test_time_outs_are_judged_by_what_the_model_says(us: float | None, answer: str) -> None:
    problem = find_problem("amd-fp8-mm")
    time: dict[str, Any] = {"us": us, "bound": "memory", "parts_us": {}}
    report = reported(modelled={"cold": time, "warm": time}) if us else reported()
    cases = [CaseResult(place, "", Status.PASS, device_report=report) for place in range(18)]
    assert rank.time_outs(problem, HARNESSES["amd"], cases, emulated=True).answer == answer


# ---------------------------------------------------------------- faster than light


def outside(times_us: dict[int, float], secret: bool = False) -> Outside:
    problem = find_problem("amd-mixed-mla")
    cases = tuple(
        LeaderboardCase("leaderboard", "MI355X", secret, spec_of({**problem.benchmarks[place], "seed": 77}), True, us)
        for place, us in times_us.items()
    )
    return Outside(1, problem.name, "a.py", True, None, (), None, cases)


def test_published_times_that_did_not_read_the_cache_are_told() -> None:
    problem = find_problem("amd-mixed-mla")
    (told,) = too_fast_there(problem, outside({5: 30.0, 7: 57.0}))
    assert "batchsize=256" in told and "11.4 TB/s, and a MI355X's memory gives 8: data were not read" in told
    assert too_fast_there(problem, outside({7: 79.0})) == []  # a printed time is rounded
    assert len(too_fast_there(problem, outside({7: 57.0}, secret=True))) == 1


def test_an_import_says_that_data_were_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(history.report_, "read", lambda text, name: outside({7: 57.0}))
    content = b"#!POPCORN leaderboard amd-mixed-mla\ndef custom_kernel(data):\n    return data\n"
    (tmp_path / "there.txt").write_text("as printed")
    (tmp_path / "a.py").write_bytes(content)
    assert one.main(["import", str(tmp_path / "there.txt"), "--submission", str(tmp_path / "a.py")]) == 0
    assert "warning: batchsize=256" in capsys.readouterr().out
    step = rank.imported(find_problem("amd-mixed-mla"), content)
    assert step is not None and step.answer == "doubtful" and "data were not read" in step.why
    assert rank.EXITS[step.answer] == EXIT_BUT


def test_what_caches_hold_may_be_read_faster_where_they_are_warm() -> None:
    peaks = peaks_of("gfx942")
    assert peaks is not None and peaks.cache_bytes == 256 << 20
    small, large = Work(hbm_bytes=200e6), Work(hbm_bytes=1e9)
    assert too_fast(small, 10.0, peaks, "fp8", warm=True) == ""
    assert "data were not read" in too_fast(small, 10.0, peaks, "fp8", warm=False)
    assert "data were not read" in too_fast(large, 100.0, peaks, "fp8", warm=True)
    assert "not all was computed" in too_fast(Work(flops=1e12), 100.0, peaks, "fp8", warm=True)
    assert too_fast(Work(link_bytes=1e6), math.inf, peaks, "fp8", warm=True) == ""
