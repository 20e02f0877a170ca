"""The benchmarks' products of one rank of eight: of gemm-rs and ag-gemm, as their task.yml has them."""

from __future__ import annotations

from forge.task.problem import Case, find_problem


def rank_shapes(name: str) -> list[tuple[int, int, int]]:
    """m, n, k of each case of a problem. What the ranks share (k in gemm-rs, n in ag-gemm) is divided among them."""
    problem = find_problem(name)

    def share(case: Case, size: str) -> int:
        return case[size] // (case["world_size"] if size in problem.spread else 1)

    return [(share(case, "m"), share(case, "n"), share(case, "k")) for case in problem.benchmarks]
