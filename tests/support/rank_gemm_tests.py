"""Tests that the variants of amd-gemm-rs and amd-ag-gemm share. A file of tests/kernels imports them, and says:

PROBLEM, VARIANT and ROUNDING, the largest relative L2 error; SHAPES: by the number of ranks cases as gemm_ranks.py has
them; MANY_CALLS: cases whose calls overtake one another; of_row: a shape for a row of the table; BROKEN: what is
changed in the file, and a case in which that shows; REFUSED: more of what refusals.py asks; DIFFERENT: rows of a and of
w of each of two ranks, and what is said of them, but for a variant that does not ask.
"""

from importlib import import_module
from pathlib import Path

import pytest

from tests.support.gemm_ranks import errors_of
from tests.support.gemm_submissions import altered, assert_right, said_of_different_shapes
from tests.support.refusals import assert_refused
from tests.support.table_rows import different_rows, some_rows

REFUSED = {
    "(zeros(4, 8), zeros(4, 9), None)": "got (4, 8) and (4, 9)",
    "(zeros(4, 8), zeros(4, 8), zeros(3))": "bias [4] expected, got (3,)",
    "(zeros(4, 8, dtype=torch.float32), zeros(4, 8), None)": "input must be bfloat16, got torch.float32",
}
ON_A_GPU = {  # what the Triton variants refuse as well
    "(zeros(4, 8).cpu(), zeros(4, 8).cpu(), None)": "the input must be on a GPU, the current one (cuda:0), got cpu"
}


def test_shapes_that_fit_no_tile(submission: Path, request: pytest.FixtureRequest) -> None:
    module = request.module
    for ranks, cases in module.SHAPES.items():
        assert_right(module.PROBLEM, submission, ranks, cases, module.ROUNDING)


def test_many_calls_without_a_barrier(submission: Path, request: pytest.FixtureRequest) -> None:
    """Ranks wait at random, so that some are a call ahead of others; places and flags are used over and over."""
    module = request.module
    cases = [{**case, "bias": True, "jitter_ms": 2} for case in module.MANY_CALLS]
    assert_right(module.PROBLEM, submission, 2, cases, module.ROUNDING)


def test_what_is_broken_is_noticed(submission: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The comparison itself: without a wait or a store results hold NaN, or the rows of the call before."""
    changes, case = request.module.BROKEN
    (error,) = errors_of(request.module.PROBLEM, altered(submission, tmp_path, changes), 2, [{**case, "bias": True}])
    assert not error < request.module.ROUNDING


def test_rows_of_the_table(submission: Path, request: pytest.FixtureRequest) -> None:
    """Two tiles or more, an edge among them, and slices of a block of k. A DEFAULT of HIP has the model choose."""
    module, cases = request.module, []
    folder = module.PROBLEM.removeprefix("amd-").replace("-", "_")
    rows_of = different_rows if request.config.getoption("--slow") else some_rows
    for row in rows_of(import_module(f"kernels.{folder}.{module.VARIANT}_gfx942_tuning")):
        cases.append({**dict(zip("mnk", module.of_row(row))), "bias": True, "calls": 2, "row": row})
    assert_right(module.PROBLEM, submission, 2, cases, module.ROUNDING)


def test_ranks_whose_shapes_differ_are_told(submission: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Unless told, a rank would multiply rows that nobody has sent, or add numbers of the other's wrong columns."""
    rows, said = request.module.DIFFERENT
    ready = "{} came to be ready for " + f"{request.module.PROBLEM[len('amd-') :]} of "
    told = "; ".join(ready.format(f"rank {rank}") + shapes for rank, shapes in enumerate(said))
    assert said_of_different_shapes(submission, tmp_path, rows) == [f"the ranks do not call for the same: {told}"] * 2


def test_input_that_does_not_fit_is_refused(submission: Path, request: pytest.FixtureRequest) -> None:
    assert_refused(submission, 2, {**REFUSED, **getattr(request.module, "REFUSED", {})})
