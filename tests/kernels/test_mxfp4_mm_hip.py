"""The HIP variant of amd-mxfp4-mm, executed instruction by instruction, against float64 products."""

import random
from pathlib import Path
from typing import Any

import torch

from kernels.mxfp4_mm import hip_gfx950_tuning
from tests.support.checks import random_seeds, random_size
from tests.support.gemm_submissions import altered
from tests.support.gfx950_tests import check
from tests.support.hip_calls import answers, assert_refused, sent
from tests.support.mxfp4_mm_tests import *  # noqa: F403
from tests.support.mxfp4_mm_tests import small  # noqa: F401
from tests.support.mxfp4_values import REFUSED, Product, exact, utils
from tests.support.reference_folders import relative_error
from tests.support.table_rows import different_rows
from tests.support.variant_tests import test_checks_find_nothing, test_no_kernel_spills  # noqa: F401

PROBLEM, VARIANT, ARCH = "amd-mxfp4-mm", "hip", "gfx950"
SPILLS_NOT = "", 14  # any of its kernels
ROWS = different_rows(hip_gfx950_tuning)
SMALL = {"FM": 1, "FN": 1, "WAVES_N": 1, "WAVES_K": 4, "STEPS": 1, "SPLIT_K": 1}  # 512 columns of k at a time


class Case(Product):
    def terms(self) -> torch.Tensor:
        """The sums of its terms' magnitudes."""
        return exact(*utils.mxfp4_quantize(self.a)).abs() @ exact(self.codes, self.scales).abs().T


def test_shapes_that_fit_no_tile(run: Any) -> None:
    shapes = ((1, 16, 64), (5, 48, 192), (16, 32, 512), (33, 80, 576), (40, 272, 1088))
    check(run, *((Case(*shape), row) for shape in shapes for row in (None, SMALL, {**SMALL, "SPLIT_K": 3})))


def test_rows_of_the_table(run: Any) -> None:
    """A row more than a tile has, columns of a second tile, and k of all slices, of which the last is short."""
    cases = []
    for row in ROWS:
        chunk = 128 * row["WAVES_K"] * row["STEPS"]
        case = Case(16 * row["FM"] + 1, 16 * row["FN"] * row["WAVES_N"] + 16, chunk * max(2, row["SPLIT_K"]) - 64)
        cases.append((case, row))
    check(run, *cases)


def test_fresh_data_at_drawn_shapes(run: Any) -> None:
    cases: list[tuple[Case, dict[str, Any] | None]] = []
    for seed in random_seeds(len(ROWS) + 1):
        draw = random.Random(seed)
        m, n, k = (random_size(draw, most) for most in (50, 14, 30))
        cases.append((Case(m, 16 * n, 64 * k), [*ROWS, None][seed % (len(ROWS) + 1)]))
    for (case, row), c in zip(cases, run(*cases), strict=True):
        # Of few values most may be rounded by half a step. Sums in fp32 add what their largest terms lose.
        wanted, terms = case.wanted(), case.terms()
        assert ((c.double() - wanted).abs() <= 2.0**-8 * wanted.abs() + 2.0**-20 * terms).all(), (wanted.shape, row)


def test_the_code_of_a_nan_is_zero(run: Any) -> None:
    """As in the reference, whose other values of the block are those of a scale of 2^126."""
    case = Case(3, 16, 64)
    case.scales[:] = 100
    case.a[1, 40:42] = torch.tensor([float("nan"), -3e38]).bfloat16()
    (c,) = run((case, SMALL))
    for got, wanted in zip(c, case.wanted(), strict=True):
        assert relative_error(got, wanted) < case.ROUNDING


def test_a_wait_that_is_missing_is_noticed(submission: Path, tmp_path: Path) -> None:
    """The comparison itself: without the barrier, codes are read that are not written yet."""
    before = "T::MIDDLE; ++i) load_group(i);\n"
    broken = altered(submission, tmp_path, {before + "        __syncthreads();\n": before})
    (said,) = answers(broken, [(sent(Case(16, 32, 512).data()), SMALL)])
    assert "race" in said or "uninitialised" in said


def test_a_row_that_is_not_compiled_is_named(submission: Path) -> None:
    (said,) = answers(submission, [(sent(Case(16, 32, 512).data()), {**SMALL, "STEPS": 3})])
    assert said == "mxfp4_mm: no tile of FM 1, FN 1, WAVES_N 1, WAVES_K 4, STEPS 3 is compiled"


def test_input_that_does_not_fit_is_refused(submission: Path) -> None:
    refused = dict(REFUSED)
    del refused["a begins between"]  # the copy to the card begins where the card likes
    assert_refused(submission, sent(Case(4, 32, 128).data()), refused)
