"""The official evaluators ("harnesses"), as data: one row each, all differences between them in this file.

GPU MODE copied one eval.py from set to set and changed it on the way, so the same submission is timed with
another clock, another cache state and another stop rule on each leaderboard. Everything that reads a row is
written once: forge/task/cases.py (spec lines, seeds), forge/judge/timing.py (stop rule), forge/judge/measure.py (clock,
flush, copies). docs/harness.md says in words what each row means and where we deviate.
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

MIB, GIB = 2**20, 2**30


class HarnessError(Exception):
    """An unknown flavour. One line."""


@dataclass(frozen=True)
class Clock:
    """What stands around a timed call, and what it shows beside the time that the call's kernels take alone."""

    name: str
    text: str
    adds_us: float | None = None  # at the median of what others measured; None: nobody published it
    adds_low_us: float = 0.0  # and the ends of that
    adds_high_us: float = 0.0
    source: str = ""

    def sees_us(self, us: float, low_us: float, high_us: float) -> tuple[float, float, float] | None:
        """A call's time on it, and its interval, of what its kernels take; 0 for an end that nobody knows."""
        if self.adds_us is None:
            return None
        low, high = low_us and low_us + self.adds_low_us, high_us and high_us + self.adds_high_us
        return us + self.adds_us, low, high


CLOCKS = {
    "events": Clock(
        "event pair", "events around one call", 2.6, 1.94, 4.36,
        "MI355X, siddhantkuwar/amd-gpumode-hackathon, iterations 9 and 10: AITER's GEMM less its modelled time at six "
        "shapes; at most what an empty call shows",
    ),
    "host": Clock(
        "host clock", "host clock around one call and its synchronize", 9.3, 3.2, 10.7,
        "MI300X, RadeonFlow's fp8-mm at three shapes: the official run (SamMausberg/KernelIndex, submission 30771) "
        "less events around the same calls (its README)",
    ),
    "ranks": Clock("host clock of rank 0", "rank 0's host clock from barrier to barrier, the input's copy included"),
}  # fmt: skip


@dataclass(frozen=True)
class Repeats:
    """Upper bounds of one case's timed runs; forge/judge/timing.py has the whole stop rule."""

    runs: int
    budget_s: float  # stop when the summed times exceed it


@dataclass(frozen=True)
class Harness:
    name: str
    source: str  # whose behaviour this row states

    # Spec lines: "key: value; key: value". A value is an integer or a word.
    key_pattern: str
    word_pattern: str
    lowercase_bools: bool  # the words true and false become bool; True and False stay (truthy) words everywhere

    # Seeds
    mixes_seed: bool  # POPCORN_SEED is mixed into every case's seed
    seed_step: int  # added to a case's seed before each rechecked run

    # Clock and cache
    clock: str  # of one GPU: one of CLOCKS
    l2_flush_bytes: int  # written before each timed run; 0: none, the cache stays warm
    copy: str  # what is copied apart for the reference: "tensors" in tuple/list/dict, "deep", or "none"

    # Stop rule
    benchmark: Repeats
    leaderboard: Repeats
    benchmark_warm_up: Repeats  # run on case 0 first, result dropped
    leaderboard_warm_up: Repeats
    err_target: float  # stop when err/mean falls below it ...
    wall_limit_s: float | None  # ... or when the case has taken this long

    # Modes
    leaderboard_cases: str = "all"  # or "last"
    profile: bool = True
    no_grad: bool = False  # torch.no_grad() around benchmark and leaderboard runs
    multi_rank: bool = False  # cases with a world_size run on that many processes
    rank_test_s: float | None = None  # how long it waits for each rank of a case
    rank_benchmark_s: float | None = None

    @property
    def caches(self) -> Literal["cold", "warm"]:
        """As it leaves them before a timed call."""
        return "cold" if self.l2_flush_bytes else "warm"

    def repeats(self, mode: str) -> Repeats:
        return self.leaderboard if mode == "leaderboard" else self.benchmark

    def rank_s(self, mode: str) -> float | None:
        return self.rank_test_s if mode == "test" else self.rank_benchmark_s

    def warm_up(self, mode: str) -> Repeats:
        return self.leaderboard_warm_up if mode == "leaderboard" else self.benchmark_warm_up


AMD = Harness(
    name="amd",
    source="AMD Developer Challenge 2025, inference sprint",
    key_pattern=r"[a-zA-Z]+",
    word_pattern=r"[a-zA-Z]+",
    lowercase_bools=False,
    mixes_seed=True,
    seed_step=13,
    clock="host",
    l2_flush_bytes=0,
    copy="tensors",
    benchmark=Repeats(100, 10.0),
    leaderboard=Repeats(100, 30.0),
    benchmark_warm_up=Repeats(100, 0.1),
    leaderboard_warm_up=Repeats(100, 0.01),
    err_target=0.001,
    wall_limit_s=120.0,
)

AMD_DISTRIBUTED = replace(
    AMD,
    name="amd_distributed",
    source="AMD Developer Challenge 2025, distributed edition",
    key_pattern=r"[a-zA-Z_]+",
    clock="events",  # of cases without a world_size; ranks are timed by rank 0's host clock between barriers
    l2_flush_bytes=256 * MIB,
    multi_rank=True,
    rank_test_s=60.0,
    rank_benchmark_s=180.0,
)

AMD_202602 = replace(
    AMD,
    name="amd_202602",
    source="AMD Developer Challenge, February 2026",
    key_pattern=r"[a-zA-Z_]\w*",
    word_pattern=r"[a-zA-Z_]\w*",
    lowercase_bools=True,
    clock="events",
    l2_flush_bytes=16000 * MIB * 4,  # 62.5 GiB of float32
    benchmark=Repeats(1000, 50.0),
)

# Two problems of those sets bring an eval.py of their own.
AMD_202602_MOE = replace(
    AMD_202602,
    name="amd_202602_moe",
    source="amd-moe-mxfp4's own evaluator",
    copy="none",  # the library it was written around computes garbage from copied weights
)
AMD_MLA_DECODE = replace(
    AMD,
    name="amd_mla_decode",
    source="amd-mla-decode's own evaluator",
    mixes_seed=False,
    seed_step=0,
    copy="deep",  # its input holds a configuration object and a cache module that the kernel appends to
    benchmark_warm_up=Repeats(10**6, 0.2),
    leaderboard_warm_up=Repeats(10**6, 0.2),
    err_target=0.01,
    wall_limit_s=None,
    leaderboard_cases="last",
    profile=False,
    no_grad=True,
)

# Practice problems, whose folders people bring along.
PMPP = replace(AMD_MLA_DECODE, name="pmpp", source="the practice problems, first edition", copy="none", no_grad=False)
PMPP_V2 = replace(
    AMD, name="pmpp_v2", source="the practice problems, second edition", clock="events", l2_flush_bytes=256 * MIB
)
TRIMUL = replace(PMPP_V2, name="trimul", source="the triangle multiplication problem's own evaluator", l2_flush_bytes=0)

HARNESSES: dict[str, Harness] = {
    row.name: row for row in (AMD, AMD_DISTRIBUTED, AMD_202602, AMD_202602_MOE, AMD_MLA_DECODE, PMPP, PMPP_V2, TRIMUL)
}

# SHA-256 of an eval.py without its white space -> the row that states what it does.
EVAL_DIGESTS = {
    "5061c94a8ec9d704fb7c51a5ea4f2a24aba61ecff064c984040b5f1001be711a": AMD,
    "e1aa656176754ea459e0a4717fb0f049812ef7c0bee4156d1cfc94842f583681": AMD_DISTRIBUTED,
    "cc8103596e5b1ec9c6522ab0b8b1fed2062738520139e4749328f9eaa2632fa8": AMD_202602,
    "7ab1a4d377df54a2ec4f1fa5397006d374e27abe8952d4b4a0be92f5d09ef3b2": AMD_202602_MOE,
    "55eac6e5782b08ebfbd3b3ad6f5d4ed1470eaed68255906c6875b43d6f3667c7": AMD_MLA_DECODE,
    "f4d574f35d2bdf14fd487f716d8b1e97e8c8cf4ece2c8f19ca42783b75efe18a": PMPP,
    "1343ffc38fa8b18bb9651983d4294d5099f62fb38f06ec5a499c6ed0c900cab4": PMPP_V2,
    "a387f0104bedf6fda2fe7bd5f1f4bde5d16cd01d66defff840db880f58757365": TRIMUL,
}


def harness_named(name: str) -> Harness:
    if name not in HARNESSES:
        raise HarnessError(f"unknown harness {name!r} (known: {', '.join(HARNESSES)})")
    return HARNESSES[name]


def default_harness(world_size: int) -> Harness:
    """For a folder that says nothing: the newest row, whose spec lines are the widest, or the multi-rank one."""
    return AMD_DISTRIBUTED if world_size > 1 else AMD_202602


def harness_of_eval(path: Path) -> Harness | None:
    """The row of a known eval.py, however it was re-indented; None for one we have not read."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return EVAL_DIGESTS.get(hashlib.sha256("".join(text.split()).encode()).hexdigest())
