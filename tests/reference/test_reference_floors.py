"""The floors in each problem's task.yml, from which the speed of light follows."""

from typing import Any

import pytest

from forge.device.cards import peaks_of
from forge.task.problem import Problem, find_problem, load_sets
from forge.task.score import rank_score, work_of

STEMS = [entry.stem for group in load_sets() for entry in group.problems]


def light_us(problem: Problem, case: dict[str, Any]) -> float:
    work = work_of(problem.floors, case, peaks_of(problem.arch))
    assert work is not None and work.light_us is not None
    return work.light_us


@pytest.mark.parametrize("stem", STEMS)
def test_every_case_has_a_floor_and_nobody_published_less(stem: str) -> None:
    problem = find_problem(stem)
    for case in problem.tests + problem.smoke + problem.benchmarks:
        assert light_us(problem, case) > 0
    floors_us = [light_us(problem, case) for case in problem.benchmarks]
    scores = [row.all_us for row in problem.published if row.all_us]
    assert not scores or rank_score(floors_us, problem.ranking_by) < min(scores)
    rows = [row.us for row in problem.published if row.us]
    for case, floor_us, *published in zip(problem.benchmarks, floors_us, *rows):
        assert all(us is None or us > floor_us for us in published), f"{case}: {published}, {floor_us=}"


@pytest.mark.parametrize(
    ("stem", "floor_us"),
    [
        ("mxfp4_mm", 0.608),  # 3072 * 1536 * 17/32 + 256 * 2 * (1536 + 3072) bytes at 8 TB/s
        ("mixed_mla", 81.33),  # 256 * 8192 * 306 bytes of cache, 8.9e6 of q and output
        ("moe_mxfp4", 98.34),  # all 33 experts' 3 * 7168 * 2048 * 17/32, 14.7e6 of tokens
        ("residual_rmsnorm_fp8", 44.32),  # 7 * 2048 * 16384 bytes at 5.3 TB/s
        ("swiglu_fp8", 31.66),  # 5 * 2048 * 16384
        ("skinny_gemm_fp8", 20.81),  # 16384 * 6656 + 32 * (6656 + 2 * 16384)
    ],
)
def test_floor_of_the_largest_case(stem: str, floor_us: float) -> None:
    problem = find_problem(stem)
    assert light_us(problem, problem.benchmarks[-1]) == pytest.approx(floor_us, rel=1e-3)
