"""amd-gemm-rs' HIP kernel on emulated ranks: odd shapes, many calls in a row, refusals, the checks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hip_gemm_ranks import ROOT, check_refusals, errors_of, generate

from cdna.errors import ToolchainError
from cdna.hip.toolchain import find

PROBLEM = "amd-gemm-rs"
# Each rank's part is rounded to bf16, and their sum once more. A part is smaller than the sum, bar the bias.
ROUNDING = 4e-3

BIG = {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K": 1}
SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "SPLIT_K": 1}


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        find()
    except ToolchainError as reason:
        pytest.skip(f"no HIP compiler: {reason}")
    return generate(PROBLEM, tmp_path_factory.mktemp("gemm_rs") / "submission.py")


def check(submission: Path, world_size: int, cases: list[dict[str, Any]]) -> None:
    for case, error in zip(cases, errors_of(PROBLEM, submission, world_size, cases), strict=True):
        assert error < ROUNDING, (case, error)


def test_shapes_that_fit_no_tile(submission: Path) -> None:
    check(submission, 2, [
        {"m": 66, "n": 74, "k": 194, "bias": True, "calls": 2},  # 33 rows a rank, n and k to be padded
        {"m": 520, "n": 264, "k": 720, "bias": False, "calls": 2, "row": BIG},  # own tiles are half as high
        {"m": 520, "n": 264, "k": 720, "bias": True, "calls": 2, "row": {**SMALL, "SPLIT_K": 3, "GROUP_M": 2}},
        {"m": 600, "n": 320, "k": 384, "bias": True, "calls": 2, "row": {**BIG, "SPLIT_K": 2}},
        {"m": 6, "n": 136, "k": 1040, "bias": True, "calls": 2},  # 3 rows a rank: tiles span ranks
        {"m": 2, "n": 1, "k": 2, "bias": True, "calls": 2},
    ])  # fmt: skip


def test_more_ranks(submission: Path) -> None:
    check(submission, 4, [
        {"m": 256, "n": 72, "k": 256, "bias": True, "calls": 2, "row": SMALL},
        {"m": 80, "n": 136, "k": 512, "bias": False, "calls": 2, "row": {**SMALL, "SPLIT_K": 2}},  # 3.2 ranks a tile
    ])  # fmt: skip
    check(submission, 3, [{"m": 201, "n": 72, "k": 192, "bias": True, "calls": 2}])


def test_many_calls_without_a_barrier(submission: Path) -> None:
    """Ranks wait at random, so that some are a call ahead of others; slots and flags are used over and over."""
    check(submission, 2, [
        {"m": 128, "n": 72, "k": 128, "bias": True, "calls": 150, "jitter_ms": 2, "row": SMALL},
        {"m": 16, "n": 128, "k": 512, "bias": True, "calls": 100, "jitter_ms": 2, "row": {**SMALL, "SPLIT_K": 2}},
    ])  # fmt: skip


def test_a_tile_that_is_not_waited_for_is_noticed(submission: Path, tmp_path: Path) -> None:
    """The comparison itself: without the wait, results hold NaN or the last call's rows."""
    source = submission.read_text()
    broken = source.replace("if (thread < args.ranks && (from_all || thread != args.rank))", "if (false)")
    assert broken != source
    path = tmp_path / "submission.py"
    path.write_text(broken)
    case = {"m": 128, "n": 72, "k": 128, "bias": True, "calls": 8, "jitter_ms": 50, "row": SMALL}
    (error,) = errors_of(PROBLEM, path, 2, [case])
    assert not error < ROUNDING


def test_no_tile_spills(submission: Path) -> None:
    del submission  # whose fixture skips without a compiler
    folder = ROOT / "kernels"
    source, includes = folder / "gemm_rs" / "gemm_rs_kernel.hip", [folder / "common"]
    text = find().device_asm(source, "gfx942", includes, std="c++20")
    for count in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size"):
        assert re.findall(rf"\.{count}: +(\d+)$", text, re.MULTILINE) == ["0"] * 5, count


def test_checks_find_nothing(submission: Path) -> None:
    command = [sys.executable, "eval.py", "test", PROBLEM, "--submission", str(submission), "--device", "gfx942"]
    done = subprocess.run([*command, "--cases", "smoke", "--checks", "all"], cwd=ROOT, capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert done.returncode == 0 and "pass: 2 of 2 cases" in done.stdout, done.stdout + done.stderr


def test_input_that_does_not_fit_is_refused(submission: Path) -> None:
    check_refusals(submission)
