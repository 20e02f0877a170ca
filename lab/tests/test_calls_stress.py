"""lab/calls_stress.py on emulated ranks: what is wrong is found in its case only, a killed rank is named."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import pytest

from lab.calls_stress import Watch
from tests.support.evaltools import generate
from tests.support.prepared import run_submission

EVEN = "m: 16, n: 64, k: 64, has_bias: true, world_size: 2, seed: 1"
ODD = "m: 16, n: 45, k: 64, has_bias: false, world_size: 2, seed: 1"


def stress(problem: str, submission: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    words = [problem, str(submission), "--ranks", "2", "--calls", "40", "--inputs", "3", *options]
    return run_submission("lab/calls_stress.py", submission, *words, POPCORN_GPUS="2", **variables)


def test_wrong_results_are_found_in_their_case(tmp_path: Path) -> None:
    path = generate("amd-gemm-rs", "triton", tmp_path)
    source = path.read_text()
    before = "inside = column < C.N - first_column\n"
    assert source.count(before) == 1
    # Pieces have a WIDTH of 8 where n is a multiple of 8, and then the last one of a row is left out.
    path.write_text(source.replace(before, before[:-1] + " - WIDTH // 8 * 8\n"))
    done = stress("amd-gemm-rs", path, "--case", EVEN, "--case", ODD)
    lines = [line for line in done.stdout.splitlines() if line.endswith(("has_bias=True", "has_bias=False"))]
    even, odd = lines[-2:]
    assert "inf" in even and "WRONG" in even, done.stdout + done.stderr
    assert "WRONG" not in odd, done.stdout + done.stderr
    assert done.returncode == 1 and "fail: " in done.stdout


def test_a_killed_rank_is_named(tmp_path: Path) -> None:
    path = generate("amd-ag-gemm", "triton", tmp_path)
    done = stress("amd-ag-gemm", path, "--kill", "--case", EVEN, SYMMETRIC_HEAP_TIMEOUT_S="0.5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "waited 0.5 s for rank 1 (rows of the input, whose parts the epoch counts, epoch " in done.stdout


class Clock:
    """In place of the module `time`: a second has passed once somebody slept that long."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_rank_that_goes_on_does_not_hang(goes_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes in all: --limit-s is for what has come to a halt."""
    clock = Clock()
    monkeypatch.setattr("lab.calls_stress.time", clock)

    class Process:
        exitcode = 0

        def start(self) -> None:
            pass

        def is_alive(self) -> bool:
            watch.progress[2] += goes_on
            return clock.now < 1.2

    watch = Watch.__new__(Watch)
    watch.options, watch.ranks, watch.ended = argparse.Namespace(limit_s=0.6), [Process()], {}
    watch.progress, watch.give_up = [0, 0, 0, 0], lambda: None  # type: ignore[method-assign]
    assert watch.run() == goes_on
