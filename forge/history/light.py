"""Imported times that no card reaches: what the leaderboard printed, beside the least that each case needs."""

from forge.device.cards import peaks_of
from forge.history.popcorn import Outside
from forge.judge.plan import choose_harness
from forge.task.cases import case_text, spec_of
from forge.task.problem import Problem
from forge.task.score import too_fast, work_of


def too_fast_there(problem: Problem, outside: Outside) -> list[str]:
    """A line for each time that is shorter than its case's work allows on the leaderboard's card."""
    peaks, floors = peaks_of(problem.arch), problem.floors
    if floors is None:
        return []
    warm = choose_harness(problem, None)[0].caches == "warm"
    works = {_sizes(spec_of(case)): work_of(floors, case, peaks) for case in problem.benchmarks}
    lines = []
    for case in outside.cases:
        work = works.get(_sizes(case.spec))
        if case.mean_us and (text := too_fast(work, case.mean_us, peaks, floors.matrix, warm)):
            lines.append(f"{case_text(case.spec)}: {text}")
    return list(dict.fromkeys(lines))


def _sizes(spec: str) -> frozenset[str]:
    """A spec's fields in any order; a secret run has other seeds."""
    fields = (field.strip() for field in spec.split(";"))
    return frozenset(field for field in fields if not field.startswith("seed:"))
