"""The HIP variant of amd-mxfp4-mm, executed instruction by instruction, against float64 products."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch

from kernels.mxfp4_mm import hip_gfx950_tuning
from tests.support.checks import random_seeds, random_size
from tests.support.gemm_submissions import altered
from tests.support.hip_calls import Call, answers, assert_refused, outputs
from tests.support.mxfp4_values import REFUSED, TIES, Product, exact, utils
from tests.support.reference_folders import relative_error
from tests.support.table_rows import different_rows
from tests.support.variant_tests import test_checks_find_nothing, test_no_kernel_spills  # noqa: F401

PROBLEM, VARIANT, ARCH = "amd-mxfp4-mm", "hip", "gfx950"
SPILLS_NOT = "", 14  # any of its kernels
# Half a bf16 step is at most 2^-8 of a value; over many values the root of its mean square is 1.7e-3.
ROUNDING = 2.5e-3
ROWS = different_rows(hip_gfx950_tuning)
SMALL = {"FM": 1, "FN": 1, "WAVES_N": 1, "WAVES_K": 4, "STEPS": 1, "SPLIT_K": 1}  # 512 columns of k at a time


class Case(Product):
    def call(self, row: dict[str, Any] | None = None) -> Call:
        """Bytes in place of fp4 and e8m0, which torch.save does not know."""
        *operands, codes, scales = self.data()
        return (*operands, codes.view(torch.uint8), scales.view(torch.uint8)), row

    def terms(self) -> torch.Tensor:
        """The sums of its terms' magnitudes."""
        return exact(*utils.mxfp4_quantize(self.a)).abs() @ exact(self.codes, self.scales).abs().T


def check(submission: Path, *cases: tuple[Case, dict[str, Any] | None]) -> None:
    for (case, row), c in zip(cases, outputs(submission, [case.call(row) for case, row in cases]), strict=True):
        error = relative_error(c, case.product())
        assert error < ROUNDING, (case.a.shape, row, error)


def test_shapes_that_fit_no_tile(submission: Path) -> None:
    shapes = ((1, 16, 64), (5, 48, 192), (16, 32, 512), (33, 80, 576), (40, 272, 1088))
    check(submission, *((Case(*shape), row) for shape in shapes for row in (None, SMALL, {**SMALL, "SPLIT_K": 3})))


def test_rows_of_the_table(submission: Path) -> None:
    """A row more than a tile has, columns of a second tile, and k of all slices, of which the last is short."""
    cases = []
    for row in ROWS:
        chunk = 128 * row["WAVES_K"] * row["STEPS"]
        case = Case(16 * row["FM"] + 1, 16 * row["FN"] * row["WAVES_N"] + 16, chunk * max(2, row["SPLIT_K"]) - 64)
        cases.append((case, row))
    check(submission, *cases)


def test_fresh_data_at_drawn_shapes(submission: Path) -> None:
    cases: list[tuple[Case, dict[str, Any] | None]] = []
    for seed in random_seeds(len(ROWS) + 1):
        draw = random.Random(seed)
        m, n, k = (random_size(draw, most) for most in (50, 14, 30))
        cases.append((Case(m, 16 * n, 64 * k), [*ROWS, None][seed % (len(ROWS) + 1)]))
    for (case, row), c in zip(cases, outputs(submission, [case.call(row) for case, row in cases]), strict=True):
        # Of few values most may be rounded by half a step. Sums in fp32 add what their largest terms lose.
        wanted, terms = case.product(), case.terms()
        assert ((c.double() - wanted).abs() <= 2.0**-8 * wanted.abs() + 2.0**-20 * terms).all(), (wanted.shape, row)


def test_ties_go_to_the_even_code(submission: Path) -> None:
    cases = [Case(2, 16, 64) for _ in TIES]
    for case, tie in zip(cases, TIES):
        case.a[:, :] = torch.tensor([tie, -tie]).bfloat16()[:, None]
        case.a[:, ::32] = 4.0  # makes the scale 1
    for case, tie, out in zip(cases, TIES, outputs(submission, [case.call() for case in cases])):
        assert torch.equal(out, case.product().bfloat16()), tie


def test_blocks_bump_their_scale_at_1_75(submission: Path) -> None:
    case = Case(4, 16, 64)
    case.a[:, :32] = torch.tensor([6.96875, 7.0, 0.0, 2.0**-133]).bfloat16()[:, None]  # the last is denormal
    check(submission, (case, SMALL))


def test_scales_at_the_ends_of_e8m0(submission: Path) -> None:
    """Largest activations meet smallest weights, the reverse, and zeros the largest weights."""
    case = Case(3, 16, 128)
    case.a[:2] = 0.0
    case.a[0, :32] = 3.0 * 2.0**126
    case.a[1, 32:64] = 3.0 * 2.0**-126
    case.a[2, 64:96] = 0.0
    case.scales[0], case.scales[1], case.scales[2, 2] = 0, 254, 254
    got, wanted = outputs(submission, [case.call(SMALL)])[0].diagonal(), case.product().diagonal()
    assert wanted.all() and torch.allclose(got.double(), wanted, rtol=2.0**-8, atol=0.0)


def test_a_scale_of_nan_stays_in_its_column(submission: Path) -> None:
    case = Case(20, 48, 576)  # the last chunk of k begins with 64 columns and ends with padding
    case.scales[37, 3] = 255
    wanted = torch.zeros((20, 48), dtype=torch.bool)
    wanted[:, 37] = True
    for c in outputs(submission, [case.call(), case.call(SMALL), case.call({**SMALL, "SPLIT_K": 2})]):
        assert torch.equal(c.isnan(), wanted)


def test_an_infinite_activation_is_the_largest_code(submission: Path) -> None:
    case = Case(3, 16, 64)
    case.scales[:] = 100  # 6 * 2^126 in a block of 2^-27 stays within fp32
    case.a[1, 40] = float("-inf")
    (c,) = outputs(submission, [case.call(SMALL)])
    assert relative_error(c[1], case.product()[1]) < ROUNDING


def test_the_code_of_a_nan_is_zero(submission: Path) -> None:
    """As in the reference, whose other values of the block are those of a scale of 2^126."""
    case = Case(3, 16, 64)
    case.scales[:] = 100
    case.a[1, 40:42] = torch.tensor([float("nan"), -3e38]).bfloat16()
    (c,) = outputs(submission, [case.call(SMALL)])
    for got, wanted in zip(c, case.product(), strict=True):
        assert relative_error(got, wanted) < ROUNDING


def test_sums_of_slices_do_not_depend_on_the_order_of_workgroups(submission: Path) -> None:
    call = Case(17, 64, 2048).call({**SMALL, "SPLIT_K": 4})
    (first,) = outputs(submission, [call])
    again = outputs(submission, [call] * 10, order_seed=1)  # each launch of a process has an order of its own
    assert all(torch.equal(out, first) for out in again)


def test_a_wait_that_is_missing_is_noticed(submission: Path, tmp_path: Path) -> None:
    """The comparison itself: without the barrier, codes are read that are not written yet."""
    before = "T::MIDDLE; ++i) load_group(i);\n"
    broken = altered(submission, tmp_path, {before + "        __syncthreads();\n": before})
    (said,) = answers(broken, [Case(16, 32, 512).call(SMALL)])
    assert "race" in said or "uninitialised" in said


def test_a_row_that_is_not_compiled_is_named(submission: Path) -> None:
    (said,) = answers(submission, [Case(16, 32, 512).call({**SMALL, "STEPS": 3})])
    assert said == "mxfp4_mm: no tile of FM 1, FN 1, WAVES_N 1, WAVES_K 4, STEPS 3 is compiled"


def test_input_that_does_not_fit_is_refused(submission: Path) -> None:
    refused = dict(REFUSED)
    del refused["a begins between"]  # the copy to the card begins where the card likes
    assert_refused(submission, Case(4, 32, 128).call()[0], refused)
