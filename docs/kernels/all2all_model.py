"""The tables of all2all.md: bytes over the links and a modelled time, for each benchmark case of amd-all2all.

python docs/kernels/all2all_model.py
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

PROBLEM = Path(__file__).parents[2] / "reference" / "all2all" / "task.yml"
TAGGED_UP_TO_BYTES = 1 << 20  # kernels/all2all/hip.py


@dataclass(frozen=True)
class Machine:
    link_gb_s: float  # of one GPU to all others together, one direction
    launch_us: float
    crossing_us: float  # a store until its peer sees it
    memory_us: float  # a load from the own memory, past the caches
    chunk_elements: int  # of a tagged chunk


MI300X = Machine(link_gb_s=7 * 48, launch_us=3, crossing_us=1.5, memory_us=0.9, chunk_elements=1024)
H200 = Machine(link_gb_s=321, launch_us=2.5, crossing_us=0.9, memory_us=0.7, chunk_elements=512)


def distinct_ranks(experts: int, k: int, ranks: int) -> float:
    """Mean number of ranks that own one of k different experts."""
    nobody = 1.0
    for i in range(k):
        nobody *= (experts - experts // ranks - i) / (experts - i)
    return ranks * (1 - nobody)


def one_way_bytes(case: dict[str, int], ranks: int, tokens: float) -> float:
    """What a rank sends with that many tokens, or gets back: payload alone."""
    reached = distinct_ranks(case["num_experts"], case["experts_per_token"], ranks)
    return 2 * tokens * case["hidden_dim"] * reached * (ranks - 1) / ranks


def is_tagged(case: dict[str, int], ranks: int) -> bool:
    reached = (ranks - 1) * (1 - (1 - 1 / ranks) ** case["experts_per_token"])
    return 2 * case["max_num_tokens"] * case["hidden_dim"] * reached <= TAGGED_UP_TO_BYTES


def modelled_us(case: dict[str, int], machine: Machine, ranks: int, sent_bytes: float, returned_bytes: float) -> float:
    """sent_bytes, returned_bytes: what the busiest rank sends of its own tokens, and back to others: both leave by the
    same links."""
    tagged = is_tagged(case, ranks)
    overhead = 2.0 if tagged else 1 + 16 * case["experts_per_token"] / ranks / 2048
    links_us = (sent_bytes + returned_bytes) * overhead / machine.link_gb_s / 1e3
    # A leg: the load of what is sent, then tagged words cross; or words cross, their receipts come back, flags cross.
    leg_us = machine.memory_us + machine.crossing_us * (1 if tagged else 3)
    # Then a poll sees it and it is loaded.
    return machine.launch_us + links_us + 2 * (leg_us + machine.memory_us) + machine.memory_us


def name_of(case: dict[str, int]) -> str:
    return ", ".join(str(case[key]) for key in ("num_experts", "experts_per_token", "hidden_dim", "max_num_tokens"))


def main() -> None:
    problem = yaml.safe_load(PROBLEM.read_text())
    first = problem["published"][0]["us"]
    print("MI300X, 8 ranks, every rank with all its tokens")
    print("| E, k, dim, T | protocol | MB one way | both ways at 336 GB/s, us | modelled us | best published us |")
    print("|---|---|---|---|---|---|")
    for case, published in zip(problem["benchmarks"], first):
        one_way = one_way_bytes(case, 8, case["max_num_tokens"] - 1)
        us = modelled_us(case, MI300X, 8, one_way, one_way)
        protocol = "tagged" if is_tagged(case, 8) else "flags"
        floor = 2 * one_way / MI300X.link_gb_s / 1e3
        print(f"| {name_of(case)} | {protocol} | {one_way / 1e6:.2f} | {floor:.1f} | {us:.1f} | {published} |")
    print("\nH200, 4 ranks, with the tokens that the measured run had")
    print("| E, k, dim, T | tokens | modelled us | measured back to back us |")
    print("|---|---|---|---|")
    for case, (tokens, measured) in zip(problem["benchmarks"], MEASURED):
        sent = [one_way_bytes(case, 4, n) for n in tokens]
        # A third of what each other rank sends goes to this one, which returns as much.
        busiest = max(sent, key=lambda own: own + (sum(sent) - own) / 3)
        us = modelled_us(case, H200, 4, busiest, (sum(sent) - busiest) / 3)
        print(f"| {name_of(case)} | {', '.join(map(str, tokens))} | {us:.1f} | {measured} |")


# Tokens of each rank, and microseconds a call, 20 calls in a row; all2all.md says how it was measured.
MEASURED = [
    ([1, 7, 4, 15], 11.0),
    ([11, 9, 27, 15], 12.2),
    ([23, 36, 60, 66], 16.9),
    ([109, 230, 143, 39], 38.4),
    ([102, 98, 203, 253], 64.3),
]

if __name__ == "__main__":
    main()
