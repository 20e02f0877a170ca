"""swiglu-fp8's Triton kernel on emulated cards of both archs, each with its own fp8."""

from pathlib import Path

import pytest

from tests.support.checks import run_checks
from tests.support.variant_tests import *  # noqa: F403

PROBLEM, STEM, VARIANT = "swiglu-fp8", "swiglu_fp8", "triton"
NOTICED_BY = "shapes and 520 or extreme"


@pytest.mark.slow(reason="the other card's fp8, which skinny-gemm-fp8's checks take")
def test_ocp_fp8(submission: Path) -> None:
    only = "shapes and not 32768 or extreme or scales"
    assert not (said := run_checks(STEM, submission, "gfx950", only)), said


FAULTS = {
    "a store past the end": ("piece * LANE + one, out, mask=inside)", "piece * LANE + one, out)"),
    "clamped too early": ("LARGEST: tl.constexpr = 240.0", "LARGEST: tl.constexpr = 224.0"),
}
