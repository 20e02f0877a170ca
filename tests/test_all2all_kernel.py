"""amd-all2all in HIP: its kernel executed for several ranks at once, and the generated submission's errors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.evaltools import ROOT, generate

FIELDS = (
    "ranks experts k dim tokens calls tagged groups batch senders to_one_expert jitter patience_s halves absent".split()
)
TOKENS_OF_PEER, SUMS_OF_PEER, EXPERT_IN_RANGE = 1, 2, 3


pytestmark = pytest.mark.usefixtures("hip_compiler")


def run(checks: str = "", order_seed: int | None = None, **case: int) -> subprocess.CompletedProcess[str]:
    """all2all_ranks.hip with this case; exit code 0 if every call's output was right."""
    usual = {"groups": 1, "batch": 1, "senders": 2, "to_one_expert": 0, "jitter": 40}
    numbers = {**usual, "patience_s": 60, "halves": 2, "absent": 0, **case}
    folders = [word for folder in ("kernels/all2all", "kernels/common", "tests") for word in ("-I", folder)]
    command = [sys.executable, "-m", "cdna", "run", *folders, "tests/all2all_ranks.hip", "--"]
    command += [str(numbers[field]) for field in FIELDS]
    environment = {**os.environ, "CDNA_CHECKS": checks}
    if order_seed is not None:
        environment["CDNA_ORDER_SEED"] = str(order_seed)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, env=environment)


@pytest.mark.parametrize("tagged", [0, 1], ids=["flags", "tagged"])
@pytest.mark.parametrize(
    "case",
    [
        {"ranks": 8, "experts": 64, "k": 6, "dim": 2880, "tokens": 5, "calls": 4, "groups": 8, "batch": 2},
        {
            "ranks": 4,
            "experts": 16,
            "k": 4,
            "dim": 1096,
            "tokens": 7,
            "calls": 4,
            "groups": 6,
            "batch": 4,
            "senders": 1,
        },  # a masked tail
        {
            "ranks": 2,
            "experts": 6,
            "k": 3,
            "dim": 8,
            "tokens": 2,
            "calls": 6,
            "groups": 2,
            "senders": 8,
        },  # hardly a row
        {
            "ranks": 3,
            "experts": 9,
            "k": 9,
            "dim": 264,
            "tokens": 9,
            "calls": 4,
            "groups": 3,
            "batch": 3,
        },  # a token for every expert
        {"ranks": 4, "experts": 16, "k": 2, "dim": 72, "tokens": 6, "calls": 4, "groups": 2, "to_one_expert": 13},
        {"ranks": 1, "experts": 4, "k": 2, "dim": 72, "tokens": 6, "calls": 2, "groups": 2},
    ],
    ids=lambda case: f"{case['ranks']} ranks, dim {case['dim']}",
)
def test_outputs_without_a_finding(case: dict[str, int], tagged: int) -> None:
    done = run(checks="all", tagged=tagged, **case)
    assert done.returncode == 0 and "of the tolerance" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("tagged", [0, 1], ids=["flags", "tagged"])
def test_calls_follow_each_other_without_a_barrier(tagged: int) -> None:
    done = run(ranks=4, experts=16, k=4, dim=72, tokens=4, calls=1500, tagged=tagged, order_seed=7)
    assert done.returncode == 0 and "1500 calls" in done.stdout, done.stdout + done.stderr


def test_calls_that_share_their_buffers_are_caught() -> None:
    """What the test above is worth: without the two halves it fails."""
    done = run(ranks=4, experts=16, k=4, dim=72, tokens=4, calls=1500, tagged=0, halves=1, patience_s=2)
    assert done.returncode in (1, 3), done.stdout + done.stderr


@pytest.mark.parametrize("tagged", [0, 1], ids=["flags", "tagged"])
def test_a_rank_that_never_comes_is_named(tagged: int) -> None:
    case: dict[str, Any] = {
        "ranks": 3,
        "experts": 6,
        "k": 2,
        "dim": 72,
        "tokens": 4,
        "groups": 2,
    }  # a wave for each of 12 waits
    done = run(absent=1, patience_s=2, calls=1, tagged=tagged, jitter=0, **case)
    assert done.returncode == 3, done.stdout + done.stderr
    assert re.search(rf"gave up on rank 2, waiting for [{TOKENS_OF_PEER}{SUMS_OF_PEER}] in call 1", done.stdout)


@pytest.mark.parametrize("expert", [16, -1])
def test_an_expert_that_does_not_exist_is_told(expert: int) -> None:
    done = run(ranks=2, experts=16, k=2, dim=72, tokens=4, calls=4, tagged=0, to_one_expert=expert)
    assert done.returncode == 3, done.stdout + done.stderr
    assert re.search(rf"gave up on rank \d, waiting for {EXPERT_IN_RANGE} in call", done.stdout)


def test_shapes_that_the_submission_refuses(tmp_path: Path) -> None:
    submission = generate("amd-all2all", "hip", tmp_path)
    shape = {"num_experts": 8, "experts_per_token": 2, "hidden_dim": 72, "max_num_tokens": 4, "seed": 1}
    shape["world_size"] = 2
    wrong = {"num_experts": 9, "hidden_dim": 100, "experts_per_token": 33}
    cases = [shape, *({**shape, "num_experts": 34 if value == 33 else 8, name: value} for name, value in wrong.items())]
    options = [word for case in cases for word in ("--case", ", ".join(f"{k}: {v}" for k, v in case.items()))]
    words = ["eval.py", "test", "amd-all2all", "--device", "gfx942", "--submission", str(submission), *options]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 1
    told = " ".join(done.stdout.split())
    assert "FAIL: 1 of 4 cases" in told, done.stdout
    assert "all2all: 9 experts do not spread evenly over 2 ranks" in told
    assert "all2all: hidden_dim must be a multiple of 8, got 100" in told
    assert "all2all: 1 to 32 experts a token, got 33" in told
