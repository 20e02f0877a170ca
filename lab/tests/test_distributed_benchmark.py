"""lab/distributed.py: what has passed is not repeated unless the submission changes, what fails is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from forge.commands.planning import eval_parser
from lab.distributed import Plan, Step, run_once, times_table
from tests.support.evaltools import ROOT
from tests.support.limits import ENDS_S


def test_steps_pass_once_for_each_submission(tmp_path: Path) -> None:
    plan = Plan(tmp_path, "cuda", 2)
    plan.submission("all2all-hip").write_text("first")
    count = f"from pathlib import Path; p = Path({str(tmp_path)!r}, 'count'); p.open('a').write('x')"
    step = Step("tests-all2all-hip", 60, [sys.executable, "-c", count])
    first, again = (run_once(step, plan, ["all2all-hip"]) for _ in range(2))
    assert first == again and first[0] == "" and first[1] in (tmp_path / "tests-all2all-hip.done").read_text()
    assert (tmp_path / "count").read_text() == "x"
    plan.submission("all2all-hip").write_text("second")
    assert run_once(step, plan, ["all2all-hip"])[0] == "" and (tmp_path / "count").read_text() == "xx"


def test_failures_and_hangs_are_told_and_tried_again(tmp_path: Path) -> None:
    plan = Plan(tmp_path, "cuda", 2)
    sleeping = "import time; time.sleep(60)"
    for limit_s, code, told in ((60, "raise SystemExit(3)", "exit code 3"), (0.5, sleeping, "not done after 0.5 s")):
        step = Step("rates", limit_s, [sys.executable, "-c", code])
        for _ in range(2):
            assert run_once(step, plan, [])[0] == told
    assert not (tmp_path / "rates.done").exists()


def test_a_table_of_both_clocks() -> None:
    def case(mean_us: float, b2b_us: float, host_us: float) -> dict:
        again = {"us": b2b_us, "host_us": host_us}
        return {"spec": "m: 64", "stats_ns": {"mean": mean_us * 1e3}, "back_to_back": again}

    ratios = {"harness": 2.0, "harness_median": 1.5, "back_to_back": 4.0}
    other = {"name": "baseline", "cases": [case(400, 100, 60)], "ratios": [ratios], "geometric_means": ratios}
    lines = times_table({"cases": [case(200, 25, 14.2)], "against": other})
    assert lines[2] == "| m: 64 | 200 | 400 | 2 | 1.5 | 25 | 100 | 4 | 14.2 |"
    assert lines[3] == "| *geometric mean* | | | 2 | 1.5 | | | 4 | |"


def test_the_evaluators_words_are_understood(tmp_path: Path) -> None:
    plan = Plan(tmp_path, "gfx942", 2)
    commands = [step.command for step in plan.steps(["tests", "times"], ["all2all-hip", "gemm-rs-triton"])]
    assert len(commands) >= 4
    for _, script, *words in commands:
        options = eval_parser().parse_args(words)
        assert script == "eval.py" and options.world_size == 2 and options.device == "gfx942"


@pytest.mark.slow(reason="nine cases on ranks that eval.py starts as other tests do; steps and tables have tests above")
def test_emulated_ranks_and_their_tables(tmp_path: Path) -> None:
    command = [sys.executable, "lab/distributed.py", "-o", str(tmp_path), "--device", "gfx942", "--ranks", "2"]
    command += ["--steps", "tests", "--variants", "all2all-hip"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=ENDS_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tests-all2all-hip: pass, " in done.stdout and "pass: 9 of 9 cases" in done.stdout
    assert "| tests-all2all-hip | pass | " in (tmp_path / "tables.md").read_text()
