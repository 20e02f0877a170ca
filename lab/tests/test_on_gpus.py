"""Submissions on this machine's GPUs: `python -m pytest -m gpu`. Elsewhere the same is tested on emulated ones."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.support.evaltools import ROOT, generate, run_command

DISTRIBUTED = [
    ("amd-all2all", "hip"),
    ("amd-gemm-rs", "hip"),
    ("amd-gemm-rs", "triton"),
    ("amd-ag-gemm", "hip"),
    ("amd-ag-gemm", "triton"),
]
BUILD_S = 300


@functools.cache
def n_ranks() -> int:
    """Two, four or eight: as many as there are GPUs for."""
    return max(n for n in (1, 2, 4, 8) if n <= torch.cuda.device_count())


def stress(problem: str, path: Path, *options: str) -> str:
    """What lab/calls_stress.py prints; it must pass."""
    command = [sys.executable, "-m", "forge.device", "auto", "--", sys.executable, "lab/calls_stress.py"]
    command += [problem, str(path), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BUILD_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.gpu
@pytest.mark.timeout(BUILD_S + 60)
def test_fp8_mm(tmp_path: Path) -> None:
    path = generate("amd-fp8-mm", "triton", tmp_path, "--also", "sm_90")
    done = run_command("test", "amd-fp8-mm", "--submission", path, cwd=tmp_path, timeout=BUILD_S)
    assert done.returncode == 0 and "pass: 11 of 11 cases" in done.stdout, done.stdout + done.stderr


@pytest.mark.gpu(count=2)
@pytest.mark.timeout(BUILD_S + 60)
@pytest.mark.parametrize(("problem", "variant"), DISTRIBUTED)
def test_leaderboard_cases(problem: str, variant: str, tmp_path: Path) -> None:
    path = generate(problem, variant, tmp_path, "--also", "sm_90")
    words = ["test", problem, "--submission", str(path), "--world-size", str(n_ranks())]
    done = run_command(*words, cwd=tmp_path, timeout=BUILD_S)
    assert done.returncode == 0 and "\npass: " in done.stdout, done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.timeout(BUILD_S + 60)
@pytest.mark.parametrize(("problem", "variant"), DISTRIBUTED)
def test_calls_without_a_barrier(problem: str, variant: str, tmp_path: Path) -> None:
    """Of two ranks that share a GPU where there is one only. Large shapes are among them: tiles in turn on Hopper."""
    path = generate(problem, variant, tmp_path, "--also", "sm_90")
    ranks = max(2, n_ranks())
    said = stress(problem, path, "--ranks", str(ranks), "--calls", "600", "--inputs", "3")
    assert f" calls on each of {ranks} ranks" in said and "WRONG" not in said, said


@pytest.mark.gpu(count=2)
@pytest.mark.timeout(BUILD_S + 60)
@pytest.mark.parametrize(("problem", "variant"), DISTRIBUTED)
def test_a_killed_rank_is_named(problem: str, variant: str, tmp_path: Path) -> None:
    path = generate(problem, variant, tmp_path, "--also", "sm_90")
    said = stress(problem, path, "--ranks", str(n_ranks()), "--calls", "400", "--inputs", "2", "--kill")
    assert f"for rank {n_ranks() - 1} (" in said, said
