"""What to evaluate: the cases, the harness and the limits that options and a problem's files make together."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forge.console import UsageError
from forge.device import Device, DeviceError
from forge.device.base import PRODUCTS, ROUNDS
from forge.device.cards import CARDS, peaks_of
from forge.device.report import Caches
from forge.task.cases import (
    CaseError,
    CaseSpec,
    choose,
    given_case,
    on_ranks,
    parse_case_file,
    product_of_numbers,
    spec_of,
)
from forge.task.harness import CLOCKS, Clock, Harness, HarnessError, default_harness, harness_named, harness_of_eval
from forge.task.problem import ROOT, Case, Problem, ProblemError
from forge.task.score import FloorError, Work, work_of

EMULATED_LIMIT_S = 3600.0  # a case's on an emulated device, whose minutes say nothing of a GPU's
# From how many on a sample of a case may be emulated: FLOPs as its problem states them, instructions of waves in a call
# as others foretell them; and how much of these that may be at most, or it saves nothing.
LARGE_FLOPS, LARGE_INSTRUCTIONS, MOST_SAMPLED = 2e9, 50_000_000, 2 / 3
MOST_JUDGED_INSTRUCTIONS = 200_000_000  # of a call; what takes more is not emulated twice more to be judged
LARGE_TORCH_FLOPS = 1e11  # or of torch's own products in a call: some seconds of this machine

STAND_IN_ARCH = next(iter(CARDS))  # emulated for a problem that names no GPU we know

# What planning and judging may raise that the user has to mend. One line each.
BAD_INPUT = (CaseError, DeviceError, FloorError, HarnessError, ProblemError, UsageError)


@dataclass(frozen=True)
class EvalPlan:
    """What to evaluate, checked and ready."""

    mode: str  # test | benchmark | leaderboard | profile
    problem: Problem
    submission: bytes
    harness: Harness
    device: Device
    cases: list[CaseSpec]
    seed: int | None
    limit_s: float  # for each case, and for getting ready
    limit_asked: bool = False  # by the user: else a rank that gets nowhere is ended before
    accuracy: bool = True
    back_to_back: bool = True  # in benchmark mode, beside the harness's clock
    judged: bool = True  # else a modelled time is all that is asked for
    calls: int = 3  # of a case, each judged: forge/judge/verdict.py
    replayed: bool = False  # what its kernels made is made anew by a process that never held the submission
    replay_asked: bool = False  # by name: where it cannot be done, a pass is doubted
    as_officially: bool = False  # the verdict is an official evaluator's; what ours would be is remarked
    fixed_ranks: bool = False  # rank i stays in process i, which it does not on the leaderboard
    sample: str = ""  # one of device.base.SAMPLES, of large cases: modelled times, and no verdict at that size
    not_sampled: str = ""  # why not, where they might have been
    small: CaseSpec | None = None  # what a submission is judged on whose case is a sample; tells how long others take
    moved: str = ""  # where what is built is kept, if not where it should be
    not_official: str = ""  # how the cases differ from the leaderboard's; empty if they do not

    def ranks_of(self, case: CaseSpec) -> int | None:
        """How many ranks a case runs on; None for a single-GPU case."""
        return case.world_size if self.harness.multi_rank else None

    def work_of(self, case: CaseSpec) -> Work | None:
        """What the case costs at least; None where the problem does not say."""
        return work_of(self.problem.floors, case.args, peaks_of(self.device.arch))

    @property
    def grouped(self) -> bool:
        return any(self.ranks_of(case) is not None for case in self.cases)

    @property
    def clock(self) -> Clock:
        """Around a timed call."""
        return CLOCKS["ranks" if self.grouped else self.harness.clock]

    @property
    def most_ranks(self) -> int:
        return max(self.ranks_of(case) or 1 for case in self.cases)

    @property
    def caches(self) -> Caches:
        """cold or warm, as the harness leaves them before a timed call."""
        return self.harness.caches

    def check_gpus(self) -> None:
        """CaseError if the machine has fewer GPUs than a case has ranks."""
        gpus = getattr(self.device, "gpus", None)
        if gpus is not None and self.most_ranks > len(gpus):
            raise CaseError(
                f"a case has {self.most_ranks} ranks and this machine {len(gpus)} GPU{'s' * (len(gpus) > 1)}: choose "
                f"others, or run them on fewer with --world-size {len(gpus)}, or emulate with --device {STAND_IN_ARCH}"
            )


def choose_harness(problem: Problem, wanted: str | None) -> tuple[Harness, Path | None]:
    """The row to judge by, and the folder's eval.py if that must judge because we do not know it."""
    if wanted is not None:
        return harness_named(wanted), None
    if problem.harness is not None:
        return harness_named(problem.harness), None
    source = problem.source_of("eval.py")
    default = default_harness(problem.world_size)
    if source is None or not source.is_file() or source.resolve() == ROOT / "eval.py":
        return default, None
    known = harness_of_eval(source)
    return (known, None) if known is not None else (default, source)


def case_limit_s(problem: Problem, harness: Harness, device: Device, mode: str, cases: list[CaseSpec]) -> float:
    """The mode's time-out, which officially is that of all cases; at most what the evaluator waits for a rank of one.

    An emulated device has a limit of its own.
    """
    limit_s = problem.timeouts.of_mode(mode)
    if device.emulated:
        return max(limit_s, EMULATED_LIMIT_S)
    rank_s = harness.rank_s(mode)
    if rank_s is None or not any(case.world_size for case in cases):
        return limit_s
    return min(limit_s, rank_s)


# ---------------------------------------------------------------- cases


def add_case_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("--cases", metavar="CHOICE", default="all", help="all, smoke, or indices such as 0,3-5")
    p.add_argument(
        "--case",
        metavar="CASE",
        action="append",
        default=[],
        help="a case of your own instead, such as 'world_size: 4, m: 64, n: 2880, k: 2880, has_bias: true, seed: 1'; "
        "may be repeated",
    )
    p.add_argument("--world-size", type=int, metavar="N", help="run the cases on N ranks instead of their own number")
    p.add_argument(
        "--keep-local",
        action="store_true",
        help="with --world-size: scale what is spread over the ranks (task.yml: spread), so that each has as much",
    )


def cases_to_run(
    problem: Problem,
    harness: Harness | None,
    mode: str,
    options: argparse.Namespace,
    seed: int | None = None,
    honest_bools: bool = False,
) -> tuple[list[CaseSpec], str]:
    """The cases that `add_case_options` choose, as this harness reads them, and how they differ from the leaderboard's.

    Without a harness a folder's own eval.py will read them: it may know values that none of ours does.
    """
    yaml_cases, chosen, not_official = _choose_cases(problem, mode, options)
    specs = _as_read(yaml_cases, harness, seed, honest_bools)
    return [specs[index] for index in chosen], not_official


def _as_read(
    cases: Sequence[Case], harness: Harness | None, seed: int | None = None, honest_bools: bool = False
) -> list[CaseSpec]:
    lines = [spec_of(case) for case in cases]
    if harness is not None:
        return parse_case_file("\n".join(lines), harness, seed, honest_bools)
    return [CaseSpec(i, line, case) for i, (line, case) in enumerate(zip(lines, cases))]


def small_case(problem: Problem, harness: Harness | None, judged: bool = True) -> CaseSpec:
    """The test with least FLOPs, or as its numbers say where the problem does not; its first smoke case where that is
    large, too.

    judged: for a large one; else the smallest there is does."""
    cases = _as_read(problem.tests, harness)
    works = [work_of(problem.floors, case.args, None) for case in cases]
    flops = [(work.flops or 0.0) if work else product_of_numbers(case.args) for work, case in zip(works, cases)]
    least = min(range(len(cases)), key=lambda place: flops[place])
    if judged and (flops[least] < LARGE_FLOPS or works[least] is None) or not problem.smoke:
        return cases[least]
    return _as_read(problem.smoke, harness)[0]


def sample_of(problem: Problem, cases: list[CaseSpec]) -> tuple[str, str]:
    """(What is emulated of large cases, "" if all of it; why that)."""
    if not problem.sampled:
        return "", "what kernels compute decides what others do"
    if any(case.world_size for case in cases):
        return "", "workgroups of several ranks wait for one another"
    return (PRODUCTS if problem.sampled == "products" else ROUNDS), ""


def _choose_cases(problem: Problem, mode: str, options: argparse.Namespace) -> tuple[tuple[Case, ...], list[int], str]:
    """The mode's whole list, the chosen indices into it, and how they differ from the leaderboard's cases."""
    cases = problem.tests if mode == "test" else problem.benchmarks
    said = []
    if options.case:
        if options.cases != "all":
            raise UsageError("--case and --cases: only one of them chooses")
        cases = tuple(given_case(text, cases[0]) for text in options.case)
        chosen = list(range(len(cases)))
        said.append("from the command line")
    elif options.cases == "smoke":
        if not problem.smoke:
            raise CaseError(f"{problem.name} states no smoke cases in its task.yml; name indices instead, as in 0,3-5")
        cases, chosen = problem.smoke, list(range(len(problem.smoke)))
        said.append("small ones, for a first look")
    else:
        chosen = choose(options.cases, len(cases), mode)
    if options.keep_local and options.world_size is None:
        raise UsageError("--keep-local goes with --world-size")
    if options.world_size is not None:
        if options.world_size < 1:
            raise UsageError(f"--world-size {options.world_size}: must be at least 1")
        scaled = _spread(problem) if options.keep_local else ()
        cases = tuple(
            on_ranks(case, options.world_size, scaled) if index in chosen else case for index, case in enumerate(cases)
        )
        said.append(f"on {options.world_size} ranks" + (f", {', '.join(scaled)} scaled with them" if scaled else ""))
    return cases, chosen, ", ".join(said)


def _spread(problem: Problem) -> tuple[str, ...]:
    """What --keep-local scales."""
    if not problem.spread:
        raise UsageError(f"--keep-local: {problem.name}'s task.yml has no key 'spread' that says what to scale")
    return problem.spread
