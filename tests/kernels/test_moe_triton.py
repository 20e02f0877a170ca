"""amd-mixture-of-experts' Triton variant on an emulated MI300X, against float64 layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.evaltools import checks_find_nothing, generate
from tests.support.gemm_submissions import altered, no_case_spills
from tests.support.llama_fp8 import run_checks

PROBLEM, STEM, VARIANT = "amd-mixture-of-experts", "moe", "triton_gfx942"


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(PROBLEM, VARIANT, tmp_path_factory.mktemp(STEM))


def test_all(submission: Path) -> None:
    assert not (said := run_checks(STEM, submission)), said


FAULTS = {
    "a group's last row left out": ("end - total + before", "end - total + before - 1"),
    "scores in fp32": (".to(tl.float16).to(tl.float32)\n\n    choice", "\n\n    choice"),
    "logits in fp32": ("logits.to(tl.float16).to(tl.float32)", "logits"),
    "the last of equal scores": ("tl.min(tl.where(left == best[:, None], group[None, :], N_ROUTED - 1), 1)",
                                 "tl.max(tl.where(left == best[:, None], group[None, :], 0), 1)"),
    "up and gate exchanged": ("gate / (1.0 + tl.exp(-gate)) * up", "up / (1.0 + tl.exp(-up)) * gate"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(submission: Path, tmp_path: Path, fault: str) -> None:
    broken = altered(submission, tmp_path, dict([FAULTS[fault]]))
    assert "failed" in run_checks(STEM, broken, only="numbers_of_tokens and 3-5 or equal")


def test_checks_find_nothing(submission: Path) -> None:
    checks_find_nothing(PROBLEM, submission)


def test_no_case_spills(tmp_path: Path) -> None:
    no_case_spills(PROBLEM, VARIANT, tmp_path, "gate_up_kernel", at_least=3)
