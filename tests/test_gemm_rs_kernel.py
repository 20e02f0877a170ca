"""amd-gemm-rs's Triton kernel on emulated ranks: odd shapes, many calls in a row, refusals, the checks, the order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hip_gemm_ranks import errors_of

from forge import device

ROOT = Path(__file__).resolve().parent.parent
# Each rank's product is rounded to bf16 (2^-9 at most), then their sum.
ROUNDING = 4e-3

SMALL = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "SUM_ROWS": 8, "num_warps": 4}
TINY = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32, "SUM_ROWS": 8, "num_warps": 4}


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gemm_rs") / "submission.py"
    command = [sys.executable, "gen_submission.py", "amd-gemm-rs", "--variant", "triton", "-o", str(path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return path


def assert_right(submission: Path, world_size: int, cases: list[dict[str, Any]]) -> None:
    for case, error in zip(cases, errors_of("amd-gemm-rs", submission, world_size, cases), strict=True):
        assert error < ROUNDING, (case, error)


def test_shapes_that_fit_no_tile(submission: Path) -> None:
    cases: list[dict[str, Any]] = [
        {"m": 100, "n": 45, "k": 2 * 37, "bias": True, "calls": 3, "row": SMALL},  # odd n and k, 50 rows of tiles of 32
        {"m": 130, "n": 72, "k": 2 * 72, "bias": False, "calls": 3, "row": SMALL},  # 65 rows
        {"m": 6, "n": 66, "k": 2 * 260, "bias": True, "calls": 3, "row": {**SMALL, "SPLIT_K": 3}},  # tiles span ranks
        {"m": 64, "n": 64, "k": 2 * 300, "bias": False, "calls": 3, "row": {**SMALL, "SPLIT_K": 4}},
        {"m": 96, "n": 200, "k": 2 * 64, "bias": True, "calls": 3, "row": {**SMALL, "PRODUCERS": 3}},  # persistent
        {"m": 2, "n": 1, "k": 2, "bias": True, "calls": 2, "row": TINY},
    ]
    assert_right(submission, 2, cases)


def test_four_ranks(submission: Path) -> None:
    # Tiles span 3 ranks and 1; tiles of one rank are the smoke cases.
    cases: list[dict[str, Any]] = [{"m": 20, "n": 360, "k": 4 * 24, "bias": False, "calls": 3, "row": TINY}]
    assert_right(submission, 4, cases)


def test_many_calls_without_a_barrier(submission: Path) -> None:
    """Ranks wait at random, so that some are a call ahead; flags and slots are used over and over, by two shapes."""
    cases: list[dict[str, Any]] = [
        {"m": 32, "n": 64, "k": 2 * 64, "bias": True, "calls": 1200, "jitter_ms": 2, "row": TINY},
        {"m": 16, "n": 128, "k": 2 * 128, "bias": True, "calls": 300, "jitter_ms": 2, "row": {**TINY, "SPLIT_K": 2}},
    ]
    assert_right(submission, 2, cases)


def broken(submission: Path, tmp_path: Path, *changes: tuple[str, str]) -> Path:
    source = submission.read_text()
    for before, after in changes:
        assert before in source, before
        source = source.replace(before, after)
    path = tmp_path / "submission.py"
    path.write_text(source)
    return path


def test_a_column_that_is_not_sent_is_noticed(submission: Path, tmp_path: Path) -> None:
    """The comparison itself: what is not stored into a slot is NaN there."""
    path = broken(submission, tmp_path, ("(column < columns)[None, :]", "(column < columns - 8)[None, :]"))
    case = {"m": 64, "n": 64, "k": 2 * 64, "bias": True, "calls": 2, "row": TINY}
    assert errors_of("amd-gemm-rs", path, 2, [case]) == [float("inf")]


def test_checks_find_nothing(submission: Path) -> None:
    command = [sys.executable, "eval.py", "test", "amd-gemm-rs", "--submission", str(submission), "--device", "gfx942"]
    done = subprocess.run(
        [*command, "--cases", "smoke", "--checks", "all"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pass: 2 of 2 cases" in done.stdout
    assert not re.search("race|waitcnt|finding", done.stdout), done.stdout


def test_no_kernel_of_a_case_spills(tmp_path: Path) -> None:
    command = [sys.executable, "gen_submission.py", "amd-gemm-rs", "--variant", "triton", "--check"]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "s.py")], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("gemm_rs_kernel")]
    assert len(lines) >= 17  # 11 tests, 6 benchmarks
    assert all(" 0/0 " in line for line in lines), done.stdout


WRONG = {
    "(zeros(4, 8), zeros(4, 9), None)": "weight must be [n, 8] to match input [4, 8], got (4, 9)",
    "(zeros(4, 8), zeros(4, 8), zeros(3))": "bias must have 4 elements to match weight, got 3",
    "(zeros(4, 8).float(), zeros(4, 8), None)": "input must be bfloat16, got torch.float32",
    "(zeros(8, 4).T, zeros(4, 8), None)": "input must be contiguous, got strides (1, 4) for shape (4, 8)",
    "(zeros(4, 8), zeros(8), None)": "weight must have 2 dimensions, got shape (8,)",
    "(zeros(4, 8), zeros(4, 8).cpu(), None)": "weight must be on the device of input, cuda:0, got cpu",
    "(zeros(4, 0), zeros(4, 0), None)": "no size zero: m=4, n=4, k=0",
}

REFUSAL = """
import importlib.util, sys, torch, torch.distributed as dist
spec = importlib.util.spec_from_file_location("submission", sys.argv[1])
submission = importlib.util.module_from_spec(spec); spec.loader.exec_module(submission)
def zeros(*shape):
    return torch.zeros(shape, dtype=torch.bfloat16, device="cuda:0")
dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=2)
for data in ({}):
    try:
        submission.custom_kernel(data)
    except ValueError as error:
        print("ValueError:", error)
data = zeros(3, 8), zeros(4, 8), None
try:
    submission.custom_kernel(data)
except ValueError as error:
    print(error)
"""


def test_input_that_does_not_fit_is_refused(submission: Path) -> None:
    environment = {**os.environ, **device.resolve("gfx942", "gfx942").environment()}
    script = "from torch.testing._internal.distributed import fake_pg\n" + REFUSAL.format(", ".join(WRONG) + ",")
    command = [sys.executable, "-c", script, str(submission)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    *lines, last = done.stdout.splitlines() or [""]
    assert len(lines) == len(WRONG), done.stdout + done.stderr
    for line, message in zip(lines, WRONG.values(), strict=True):
        assert line.startswith("ValueError:") and message in line, line
    assert "m must be a multiple of the world size 2" in last


def test_every_tile_is_taken_once_and_ones_own_last() -> None:
    import triton
    import triton.language as tl

    import cdna
    from kernels.common.gemm_tiles import ranks_in_turn

    globals().update(tl=tl, ranks_in_turn=ranks_in_turn)  # where the kernel looks for them

    @triton.jit
    def places(out, TILES: tl.constexpr, RANKS: tl.constexpr, XCDS: tl.constexpr):
        order = tl.program_id(0)
        turn, tile = ranks_in_turn(order % XCDS, order // XCDS, TILES, RANKS, XCDS)  # noqa: F821
        tl.store(out + order * 2, turn)
        tl.store(out + order * 2 + 1, tile)

    for tiles, ranks, xcds in ((24, 8, 8), (5, 8, 8), (13, 4, 8), (7, 2, 1), (6, 8, 1), (9, 1, 8)):
        n = -(-tiles // xcds) * xcds * ranks
        out = torch.zeros(n, 2, dtype=torch.int32)
        with cdna.device("gfx942"):
            places[(n,)](out, tiles, ranks, xcds)
        taken = [(turn, tile) for turn, tile in out.tolist() if tile < tiles]
        assert sorted(taken) == [(turn, tile) for turn in range(ranks) for tile in range(tiles)]
        first_own = next(i for i, (turn, _) in enumerate(out.tolist()) if turn == ranks - 1)
        assert all(turn == ranks - 1 for turn, _ in out.tolist()[first_own:]), (tiles, ranks, xcds)


def test_one_descriptor_reaches_memory_mapped_anywhere() -> None:
    from kernels.gemm_rs.triton import as_pages

    large = 2 << 20
    for places in (
        [0x7F12_0000_0000, 0x7F12_0060_0000, 0x7F11_FE00_0000],
        [0x7F12_0000_1000, 0x0002_0000_3000],  # 8 KiB apart beside 127 TiB: too far
        [0x7F12_0000_0000, 0x0002_0000_0000 + 3 * large],
        [0x1000],
    ):
        found = as_pages(places)
        if found is None:
            assert max(places) - min(places) >= 4096 << 31
            assert any((place - min(places)) % large for place in places)
            continue
        lowest, page_bytes, pages = found
        assert [lowest + page_bytes * page for page in pages] == places
        assert max(pages) < 1 << 31 and page_bytes < 1 << 40 and page_bytes % 16 == 0
    assert as_pages([0x7F12_0000_1000, 0x0002_0000_2000]) is None
    assert as_pages([0x7F12_0000_0000, 0x0002_0000_0000]) is not None
