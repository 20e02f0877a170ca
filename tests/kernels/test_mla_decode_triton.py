"""amd-mla-decode's Triton variant on an emulated MI300X, against float64 attention with the reference's rotation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.evaltools import checks_find_nothing, generate
from tests.support.gemm_submissions import altered, no_case_spills
from tests.support.llama_fp8 import run_checks

PROBLEM, STEM, VARIANT = "amd-mla-decode", "mla_decode", "triton_gfx942"


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(PROBLEM, VARIANT, tmp_path_factory.mktemp(STEM))


def test_all(submission: Path) -> None:
    assert not (said := run_checks(STEM, submission)), said


FAULTS = {
    "the last key left out": ("position[None, :] < length,", "position[None, :] < length - 1,"),
    "splits that weigh the same": ("weight = tl.exp2(tl.load(lse_ptr + place) - top)", "weight = tl.exp2(top - top)"),
    "a rotation that rounds once": ("(low * cos).to(tl.bfloat16).to(tl.float32) -", "(low * cos) -"),
    "queries one position early": ("(length - 1) * ROPE", "(length - 2) * ROPE"),
    "the latent not appended": ("cache[:, length - 1]", "cache[:, length - 1].clone()"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(submission: Path, tmp_path: Path, fault: str) -> None:
    broken = altered(submission, tmp_path, dict([FAULTS[fault]]))
    assert "failed" in run_checks(STEM, broken, only="lengths and 33 or bit_by_bit")


def test_checks_find_nothing(submission: Path) -> None:
    checks_find_nothing(PROBLEM, submission)


def test_no_case_spills(tmp_path: Path) -> None:
    no_case_spills(PROBLEM, VARIANT, tmp_path, "attention_kernel", at_least=1)
