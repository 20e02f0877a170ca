"""amd-mixture-of-experts' HIP variant on an emulated MI300X, against float64 layers."""

from pathlib import Path

from tests.support.checks import run_checks
from tests.support.gemm_submissions import altered
from tests.support.variant_tests import (  # noqa: F401
    test_all,
    test_checks_find_nothing,
    test_no_kernel_spills,
)

PROBLEM, STEM, VARIANT = "amd-mixture-of-experts", "moe", "hip"
SPILLS_NOT = "gate_up_kernel", 1


FAULTS = {
    "a group's last row left out": ("min(tile.w - first_row,", "min(tile.w - 1 - first_row,"),
    "scores in fp32": ("e[i] = through_fp16(e[i]);", "e[i] = e[i];"),
    "the last of equal scores": ("bits << 16 | (0xffffu - (i * 32 + lane32))", "bits << 16 | (i * 32 + lane32)"),
    "up and gate exchanged": ("silu(sum.v[fm][0][i]) * sum.v[fm][1][i]", "silu(sum.v[fm][1][i]) * sum.v[fm][0][i]"),
    "columns exchanged in LDS": ("lds_at[i] = stage_offset(row + i,", "lds_at[i] = stage_offset(row + 1 - i,"),
}  # fmt: skip


def test_faults_are_noticed(submission: Path, tmp_path: Path, fault: str) -> None:
    broken = altered(submission, tmp_path, dict([FAULTS[fault]]))
    said = run_checks(STEM, broken, only="numbers_of_tokens and 3-5 or equal")
    assert "failed" in said or "Segmentation fault" in said  # two slots for one expert may be written anywhere
