"""Tests that many variants have in common. A file of tests/kernels imports those that are meant, and says:

PROBLEM and VARIANT; ARCH, where that is not gfx942; of HIP also SPILLS_NOT: a kernel, and how many instances it has at
least. With checks in tests/support/emulated also STEM; of Triton FAULTS: {what is wrong: (text of the file, what stands
in its place)}; NOTICED_BY: the checks of which one must fail then: HIP's variant has the same checks.
"""

from pathlib import Path

import pytest

from tests.support.checks import run_checks
from tests.support.evaltools import checks_find_nothing
from tests.support.gemm_submissions import altered
from tests.support.hip_spills import spilled_of

__all__ = ["test_all", "test_checks_find_nothing", "test_faults_are_noticed"]


def test_all(submission: Path, request: pytest.FixtureRequest) -> None:
    all_of_it = request.config.getoption("--slow")
    assert not (said := run_checks(request.module.STEM, submission, all_of_it=all_of_it)), said


def test_faults_are_noticed(submission: Path, tmp_path: Path, fault: str, request: pytest.FixtureRequest) -> None:
    module = request.module
    broken = altered(submission, tmp_path, dict([module.FAULTS[fault]]))
    said = run_checks(module.STEM, broken, only=module.NOTICED_BY)
    assert "failed" in said or "Segmentation fault" in said  # of memory that is written anywhere


def test_checks_find_nothing(submission: Path, request: pytest.FixtureRequest) -> None:
    """In the first small case."""
    checks_find_nothing(request.module.PROBLEM, submission, 0, getattr(request.module, "ARCH", "gfx942"))


def test_no_kernel_spills(submission: Path, request: pytest.FixtureRequest) -> None:
    """Of a HIP variant: no instance of the kernel, whether a case chooses it or not."""
    kernel, at_least = request.module.SPILLS_NOT
    spilled = spilled_of(submission, getattr(request.module, "ARCH", "gfx942"))
    counts = [count for name, count in spilled.items() if kernel in name]
    assert len(counts) >= at_least and not any(counts), spilled
