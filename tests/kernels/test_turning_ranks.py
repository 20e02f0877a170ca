"""Every distributed variant in processes whose rank, and so GPU, is another from case to case."""

from pathlib import Path

import pytest

from tests.support.evaltools import generate
from tests.support.prepared import run_submission

DISTRIBUTED = [
    ("amd-all2all", "hip"),
    ("amd-gemm-rs", "hip"),
    ("amd-gemm-rs", "triton"),
    ("amd-ag-gemm", "hip"),
    ("amd-ag-gemm", "triton"),
]


@pytest.mark.usefixtures("hip_compiler")
@pytest.mark.parametrize(("problem", "variant"), DISTRIBUTED)
def test_a_process_may_get_another_rank(problem: str, variant: str, tmp_path: Path) -> None:
    """What a plan, a region, a workspace or a loaded kernel keeps is of a device and a group, not of the process."""
    submission = generate(problem, variant, tmp_path)
    words = [problem, str(submission)]
    done = run_submission("tests/support/turning_ranks.py", submission, *words, POPCORN_GPUS="2")
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
