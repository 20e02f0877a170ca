"""amd-ag-gemm's Triton kernel on emulated ranks: odd shapes, many calls in a row, refusals, the checks, the report."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forge import device

ROOT = Path(__file__).resolve().parent.parent
RANKS = ROOT / "tests" / "ag_gemm_ranks.py"
# bf16 rounds the result once: 2^-9 at most, about 0.0017 in the mean over a matrix
ROUNDING = 2e-3

SMALL = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "SENDERS": 3, "PUSH": 2048, "num_warps": 4}
TINY = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32, "SENDERS": 1, "PUSH": 1024, "num_warps": 4}


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ag_gemm") / "submission.py"
    command = [sys.executable, "gen_submission.py", "amd-ag-gemm", "--variant", "triton", "-o", str(path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return path


def call_ranks(submission: Path, world_size: int, cases: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **device.resolve("gfx942", "gfx942").environment(), "POPCORN_GPUS": str(world_size)}
    command = [sys.executable, str(RANKS), str(submission), str(world_size), json.dumps(cases)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


def errors_of(submission: Path, world_size: int, cases: list[dict[str, Any]]) -> list[float]:
    done = call_ranks(submission, world_size, cases)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_shapes_that_fit_no_tile(submission: Path) -> None:
    cases: list[dict[str, Any]] = [
        {"m": 64, "n": 74, "k": 97, "bias": True, "calls": 3},  # odd n, odd k, the default's tiles
        {"m": 100, "n": 146, "k": 200, "bias": False, "calls": 3, "row": SMALL},  # 50 rows a rank, tiles of 32
        {"m": 6, "n": 66, "k": 520, "bias": True, "calls": 3},  # 3 rows a rank: tiles span ranks, and k is split
        {"m": 64, "n": 64, "k": 300, "bias": False, "calls": 3, "row": {**SMALL, "SPLIT_K": 3}},
        {"m": 2, "n": 2, "k": 1, "bias": True, "calls": 2},
    ]
    for case, error in zip(cases, errors_of(submission, 2, cases), strict=True):
        assert error < ROUNDING, (case, error)


def test_four_ranks(submission: Path) -> None:
    cases: list[dict[str, Any]] = [
        {"m": 128, "n": 144, "k": 160, "bias": True, "calls": 3, "row": {**TINY, "BAND": 1}},
        {"m": 20, "n": 360, "k": 96, "bias": False, "calls": 3, "row": TINY},  # tiles span 3 and 4 ranks
    ]
    for case, error in zip(cases, errors_of(submission, 4, cases), strict=True):
        assert error < ROUNDING, (case, error)


def test_thousands_of_calls_without_a_barrier(submission: Path) -> None:
    """Ranks wait at random, so that some are a call ahead of others; places and counters are used over and over."""
    cases: list[dict[str, Any]] = [
        {"m": 32, "n": 64, "k": 64, "bias": True, "calls": 1500, "jitter_ms": 2, "row": TINY},
        {"m": 16, "n": 128, "k": 512, "bias": True, "calls": 500, "jitter_ms": 2, "row": {**TINY, "SPLIT_K": 2}},
    ]
    for case, error in zip(cases, errors_of(submission, 2, cases), strict=True):
        assert error < ROUNDING, (case, error)


def test_a_missing_push_is_noticed(submission: Path, tmp_path: Path) -> None:
    """The comparison itself: without the last chunk's store, results hold NaN."""
    source = submission.read_text()
    broken = source.replace("inside = begin + at < size\n", "inside = begin + at < size - 1\n")
    assert broken != source
    path = tmp_path / "submission.py"
    path.write_text(broken)
    (error,) = errors_of(path, 2, [{"m": 64, "n": 64, "k": 64, "bias": True, "calls": 2, "row": TINY}])
    assert error == float("inf")


def test_checks_find_nothing(submission: Path) -> None:
    command = [sys.executable, "eval.py", "test", "amd-ag-gemm", "--submission", str(submission), "--device", "gfx942"]
    done = subprocess.run(
        [*command, "--cases", "smoke"],
        cwd=ROOT,
        env={**os.environ, "CDNA_CHECKS": "all"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pass: 2 of 2 cases" in done.stdout
    assert not re.search("race|waitcnt|finding", done.stdout), done.stdout


def test_no_kernel_of_a_case_spills(tmp_path: Path) -> None:
    command = [sys.executable, "gen_submission.py", "amd-ag-gemm", "--variant", "triton", "--check"]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "s.py")], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("ag_gemm_kernel")]
    assert len(lines) >= 17  # 11 tests, 6 benchmarks
    assert all(" 0/0 " in line for line in lines), done.stdout


WRONG = {
    "shapes": ("(torch.zeros(4, 8), torch.zeros(4, 9), None)", "got (4, 8) and (4, 9)"),
    "bias": ("(torch.zeros(4, 8), torch.zeros(4, 8), torch.zeros(3))", "bias [4] expected, got (3,)"),
    "dtype": ("(torch.zeros(4, 8), torch.zeros(4, 8), None)", "input must be bfloat16, got torch.float32"),
}

REFUSAL = """
import importlib.util, sys, torch, torch.distributed as dist
spec = importlib.util.spec_from_file_location("submission", sys.argv[1])
submission = importlib.util.module_from_spec(spec); spec.loader.exec_module(submission)
dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
torch.set_default_device("cuda")
for data in ({}):
    try:
        submission.custom_kernel(data)
    except ValueError as error:
        print("ValueError:", error)
"""


def test_input_that_does_not_fit_is_refused(submission: Path) -> None:
    script = REFUSAL.format(", ".join(data for data, _ in WRONG.values()) + ",")
    done = subprocess.run(
        [sys.executable, "-c", script, str(submission)],
        cwd=ROOT,
        env={**os.environ, **device.resolve("gfx942", "gfx942").environment()},
        capture_output=True,
        text=True,
        timeout=120,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(WRONG), done.stdout + done.stderr
    for line, (_, message) in zip(lines, WRONG.values(), strict=True):
        assert line.startswith("ValueError:") and message in line
