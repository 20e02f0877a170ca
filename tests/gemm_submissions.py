"""What the tests of amd-gemm-rs' and amd-ag-gemm's kernels share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from forge import device
from tests.evaltools import ROOT
from tests.gemm_ranks import errors_of


def assert_right(problem: str, submission: Path, world_size: int, cases: list[dict[str, Any]], limit: float) -> None:
    """cases: as gemm_ranks.py takes them; limit: of the relative L2 error."""
    for case, error in zip(cases, errors_of(problem, submission, world_size, cases), strict=True):
        assert error < limit, (case, error)


def altered(submission: Path, folder: Path, before: str, after: str) -> Path:
    """A copy in which the text `before`, which must be there, is `after`."""
    source = submission.read_text()
    assert before in source, before
    path = folder / "submission.py"
    path.write_text(source.replace(before, after))
    return path


def no_case_spills(problem: str, variant: str, folder: Path, kernel: str, at_least: int) -> None:
    """at_least: configurations of that kernel that the cases choose."""
    command = [sys.executable, "gen_submission.py", problem, "--variant", variant, "-o", str(folder / "submission.py")]
    done = subprocess.run([*command, "--check"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(kernel)]
    assert len(lines) >= at_least, done.stdout
    assert all(" 0/0 " in line for line in lines), done.stdout


REFUSAL = """
import importlib.util, sys, torch, torch.distributed as dist
from torch.testing._internal.distributed import fake_pg
spec = importlib.util.spec_from_file_location("submission", sys.argv[1])
submission = importlib.util.module_from_spec(spec); spec.loader.exec_module(submission)
def zeros(*shape, dtype=torch.bfloat16):
    return torch.zeros(shape, dtype=dtype, device="cuda:0")
dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=int(sys.argv[2]))
for data in sys.argv[3:]:
    try:
        submission.custom_kernel(eval(data))
    except ValueError as error:
        print("ValueError:", error)
"""


def assert_refused(submission: Path, world_size: int, refusals: dict[str, str]) -> None:
    """refusals: by custom_kernel's argument, in terms of zeros(*shape), what must stand in the ValueError's text."""
    environment = {**os.environ, **device.resolve("gfx942", "gfx942").environment()}
    command = [sys.executable, "-c", REFUSAL, str(submission), str(world_size), *refusals]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert len(lines) == len(refusals), done.stdout + done.stderr
    for line, message in zip(lines, refusals.values(), strict=True):
        assert line.startswith("ValueError:") and message in line, line
