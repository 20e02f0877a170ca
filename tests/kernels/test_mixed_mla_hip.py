"""The HIP variant of amd-mixed-mla, executed instruction by instruction, against float64 attention."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels.mixed_mla import hip_gfx950_tuning
from tests.support.checks import random_seeds, random_size
from tests.support.gfx950_tests import check
from tests.support.hip_calls import Call, answers, assert_refused, outputs
from tests.support.mixed_mla_cases import REFUSED, MlaCase
from tests.support.mixed_mla_tests import *  # noqa: F403
from tests.support.mixed_mla_tests import rows  # noqa: F401
from tests.support.reference_folders import relative_error
from tests.support.table_rows import different_rows
from tests.support.variant_tests import test_checks_find_nothing, test_no_kernel_spills  # noqa: F401

PROBLEM, VARIANT, ARCH = "amd-mixed-mla", "hip", "gfx950"
SPILLS_NOT = "", 4  # any of its kernels
ROWS = different_rows(hip_gfx950_tuning)
SMALL = {"KV": "fp8", "SPLITS": 2, "MOST_MERGED": 8}
FP4 = {"KV": "mxfp4", "SPLITS": 2, "MOST_MERGED": 8}
IN_TWO = {"KV": "fp8", "SPLITS": 3, "MOST_MERGED": 1}
OTHERS = (IN_TWO, FP4, None)


def call(case: MlaCase, row: dict[str, Any] | None = SMALL) -> Call:
    return case.data(), row


def test_lengths_that_fit_no_tile(run: Any) -> None:
    """Some waves, and of three splits some, have no token at all."""
    each = [{**SMALL, "SPLITS": 1}, SMALL, IN_TWO, FP4, {**FP4, "SPLITS": 1}]
    check(run, *((MlaCase([tokens]), row) for tokens in (1, 2, 31, 32, 33, 64, 100, 300) for row in each))


def test_rows_of_the_table(run: Any) -> None:
    """A tile for all splits but the last, which begins within the last tile."""
    check(run, *((MlaCase([min(row["SPLITS"], 16) * 64 - 5]), row) for row in ROWS))


@pytest.mark.parametrize("tokens,cache,limit", [(1024, "fp8", 0.03), (8192, "fp8", 0.03), (8192, "mxfp4", 0.08)])
def test_the_error_beside_the_cache_in_bf16(run: Any, tokens: int, cache: str, limit: float) -> None:
    """It is the cache's own, which is within the limit, 0.02998 of 0.03 at 1024 tokens, and hardly more."""
    case = MlaCase([tokens])
    (out,) = check(run, (case, {**SMALL, "KV": cache, "SPLITS": 8}))
    exact = case.attention("bf16")
    caches_own = relative_error(case.attention(cache), exact)
    assert caches_own < limit and relative_error(out, exact) < 1.02 * caches_own


def test_scales_of_mxfp4_at_the_ends_and_in_their_places(run: Any) -> None:
    """Tokens and blocks of columns of very different sizes; a value below fp32's normal ones counts as 0."""
    cases = [MlaCase([90]), MlaCase([90])]
    for case, ends in zip(cases, [(110, 130), (3, 20)], strict=True):
        case.fp4[1][:90, :18] = torch.randint(*ends, (90, 18), generator=torch.Generator().manual_seed(0)).byte()
        case.fp4[1][:90, 3] = 0
    check(run, *((case, FP4) for case in cases))


def random_case(seed: int) -> tuple[MlaCase, dict[str, Any]]:
    """Up to four requests of up to 500 tokens and two queries; any cache, splits and way to add them."""
    draw = random.Random(seed)
    queries = draw.randint(1, 2)
    tokens = [random_size(draw, 500) - draw.randint(0, 1) for _ in range(draw.randint(1, 4))]
    row = {"KV": draw.choice(["fp8", "mxfp4"]), "SPLITS": random_size(draw, 20), "MOST_MERGED": draw.choice([1, 8, 64])}
    return MlaCase([max(n, int(seed % 5 > 0)) for n in tokens], q_seq_len=queries, seed=seed), row


def test_random_shapes(run: Any) -> None:
    """Each query's largest error, too: one that is wrong does not hide among others."""
    cases = [random_case(seed) for seed in random_seeds(8)]
    for (case, row), out in zip(cases, check(run, *cases), strict=True):
        wanted = case.attention(row["KV"])
        assert (
            (out.double() - wanted).flatten(1).norm(dim=1) <= 2 * MlaCase.ROUNDING * wanted.flatten(1).norm(dim=1)
        ).all()


def test_large_and_small_queries(run: Any) -> None:
    """A head's q has a scale of its own: very small ones weigh all tokens alike."""
    case = MlaCase([100])
    case.q[0, 3] *= 2.0**-60
    case.q[0, 4] = 0.0
    case.q[0, 5] *= 30.0
    check(run, (case, SMALL))


def test_nan_in_a_token_reaches_its_request_alone(submission: Path) -> None:
    case = MlaCase([40, 40])
    case.fp8[0].view(torch.uint8)[60, 0, 3] = 0x7F
    (out,) = outputs(submission, [call(case)])
    assert out[0].isfinite().all() and out[1].isnan().all()


def test_a_tokens_scale_of_nan_reaches_its_request_alone(submission: Path) -> None:
    case = MlaCase([40, 40])
    case.fp4[1][60, 3] = 255
    (out,) = outputs(submission, [call(case, FP4)])
    assert out[0].isfinite().all() and out[1].isnan().any()


def test_the_order_of_workgroups_changes_nothing(submission: Path) -> None:
    calls = [call(MlaCase([300, 40]), {**row, "SPLITS": 5, "MOST_MERGED": most})
             for row in (SMALL, FP4) for most in (1, 8)]  # fmt: skip
    first = outputs(submission, calls)
    assert torch.equal(first[0], first[1]) and torch.equal(first[2], first[3])
    again = outputs(submission, calls * 10, order_seed=1)  # each launch of a process has an order of its own
    assert all(torch.equal(before, out) for before, out in zip(first * 10, again, strict=True))


def test_input_that_does_not_fit_is_refused(submission: Path) -> None:
    assert_refused(submission, MlaCase([10, 10]).data(), REFUSED)


def test_an_mxfp4_cache_that_does_not_fit_is_refused(submission: Path) -> None:
    case = MlaCase([70] * 4)
    case.config["kv_seq_len"] = 8192  # of such requests the table reads that cache
    codes, scales = case.fp4
    refused = {
        "[0] must be torch.float4_e2m1fn_x2": (codes.view(torch.float8_e4m3fn), scales),
        "(280, 1, 288), got (280, 1, 256)": (codes[:, :, :256], scales),
        "[1] must have the shape (512, 24), got (280, 24)": (codes, scales[:280]),
        "(512, 24), got (512, 18)": (codes, scales[:, :18]),
        "[1] must be contiguous": (codes, scales.T.contiguous().T),
    }
    q, _, *rest = case.data()
    calls: list[Call] = [((q, {"mxfp4": cache}, *rest), None) for cache in refused.values()]
    for said, rule in zip(answers(submission, calls), refused, strict=True):
        assert said.startswith('kv_data["mxfp4"]') and rule in said
