"""Cases of several ranks: the first failing rank's own message, the others ended, the next case unharmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaltools import RANKS_REFERENCE, RANKS_TASK, judge, statuses, write_problem

HEAD = """
import os, time
import torch.distributed as dist
def total(x):
    y = x.clone()
    dist.all_reduce(y)
    return y
def custom_kernel(x):
    second = len(x) == 5
    rank = dist.get_rank()
"""

BODIES = {
    "right": ("    return total(x)\n", "pass", None, ""),
    "wrong on rank 1": (
        "    y = total(x)\n    if second and rank == 1: y[2] += 1\n    return y\n",
        "fail",
        1,
        "sums differ",
    ),
    "exception on rank 1": (
        "    if second and rank == 1: raise ValueError('rank one is unhappy')\n    return total(x)\n",
        "error",
        1,
        "ValueError: rank one is unhappy",
    ),
    "death of rank 0": (
        "    if second and rank == 0: os.abort()\n    return total(x)\n",
        "crash",
        0,
        "SIGABRT",
    ),
    "rank 1 hangs": (
        "    if second and rank == 1: time.sleep(600)\n    return total(x)\n",
        "timeout",
        None,
        "no result after 4 s in custom_kernel (submission.py:",
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_failing_rank_is_named(tmp_path: Path, name: str) -> None:
    body, status, rank, text = BODIES[name]
    problem = write_problem(tmp_path / "problem", RANKS_TASK, RANKS_REFERENCE)
    done, result = judge(tmp_path, HEAD + body, "test", "--timeout", "4" if status == "timeout" else "30", problem=problem)
    assert statuses(result) == ["pass", status, "pass"], done.stdout
    second = result["cases"][1]
    assert text in second["message"]
    if rank is not None:
        assert second["rank"] == rank
    if name == "rank 1 hangs":  # both places are named, whoever is taken for the culprit
        assert "rank 0 in" in second["message"] or "rank 1 in" in second["message"]
    if name == "wrong on rank 1":
        assert second["accuracy"]["rank"] == 1 and second["accuracy"]["worst"]["index"] == [2]


def test_false_is_true_on_the_leaderboard_and_false_when_asked(tmp_path: Path) -> None:
    problem = write_problem(tmp_path / "problem", RANKS_TASK, RANKS_REFERENCE)
    source = "import torch.distributed as dist\n" + (
        "def custom_kernel(x):\n    y = x.clone(); dist.all_reduce(y)\n"
        "    if dist.get_rank() == 0: print('mean', x.mean().item(), flush=True); raise SystemExit\n    return y\n"
    )
    means = {}
    for option in ("--no-accuracy", "--honest-bools"):
        done, result = judge(tmp_path, source, "test", "--cases", "1", option, problem=problem)
        means[option] = float(result["cases"][0]["last_words"][0].split()[1])
        assert any("flag: False reaches" in note for note in result["notes"]) is (option == "--no-accuracy")
    assert means["--no-accuracy"] == pytest.approx(means["--honest-bools"] + 1.0, abs=1e-5)
