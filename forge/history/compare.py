"""Two runs of one problem beside each other: times, bounds, counters, findings, versions and the lines that changed."""

import difflib
import math
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import structs

from forge.console import aligned, harmless, number
from forge.device.report import ratio_error
from forge.history.document import Document, MadeWith, ResultError
from forge.judge.results import CaseResult
from forge.task.cases import case_text
from forge.task.score import geometric_mean

SHOWN_LINES = 60  # of a difference, unless all are asked for
# Modelled times that are as close are the same: the order in which threads end may move those of several rounds.
SAME = 0.002
RIGHT = frozenset({1, 2, 3})
# Of a fingerprint: with another of these, modelled times differ for reasons that are not the kernels'.
MODEL_KEYS = ("card", "triton", "torch", "model")


@dataclass(frozen=True)
class Side:
    name: str  # run 12, before.json
    document: Document
    submission: bytes | None  # None: only its hash is known

    @property
    def digest(self) -> str:
        return self.document.fingerprint.submission_sha256


def check_pair(a: Side, b: Side) -> None:
    """ResultError where the two cannot be compared."""
    problems = [side.document.problem.name for side in (a, b)]
    if problems[0] != problems[1]:
        raise ResultError(
            f"{a.name} is of {problems[0]}, and {b.name} of {problems[1]}: compare two runs of one problem"
        )
    specs = [{case.spec for case in side.document.cases} for side in (a, b)]
    if not specs[0] & specs[1]:
        raise ResultError(f"{a.name} and {b.name} have no case in common (modes {_modes(a, b)})")


def _modes(a: Side, b: Side) -> str:
    return f"{a.document.mode} and {b.document.mode}"


def lines_of(a: Side, b: Side, all_lines: bool = False) -> Iterator[str]:
    """The comparison as text; times of different kinds stand beside each other without a ratio."""
    yield f"{a.document.problem.name}: A is {_told(a)}"
    yield f"{'':{len(a.document.problem.name)}}  B is {_told(b)}"
    yield from _case_lines(a, b)
    yield from _kernel_lines(a, b, all_lines)
    yield from _finding_lines(a, b)
    yield from _version_lines(a, b)
    yield from _source_lines(a, b, all_lines)


def _told(side: Side) -> str:
    document = side.document
    device = "emulated " * document.device.emulated + document.device.name
    return (
        f"{side.name}: {document.mode} on {device}, {document.verdict}, submission {side.digest[:12]},"
        f" {document.fingerprint.time}, times {side.document.kind}"
    )


def _case_lines(a: Side, b: Side) -> Iterator[str]:
    theirs = {case.spec: case for case in b.document.cases}
    comparable = a.document.kind == b.document.kind
    rows: list[tuple[str, ...]] = [("case", "A us", "B us", "B / A", "bound")]
    only = []
    for case in a.document.cases:
        other = theirs.pop(case.spec, None)
        if other is None:
            only.append(f"only A has {case_text(case.spec)}")
            continue
        ours_us, their_us = a.document.us_of(case), b.document.us_of(other)
        ratio = ""
        if comparable and ours_us and their_us:
            ratio = number(their_us / ours_us, 4) + error_text(ratio_error_of(a, b, case, other))
        bounds = [_bound(side.document, of) for side, of in ((a, case), (b, other))]
        bound = bounds[0] if bounds[0] == bounds[1] else " -> ".join(bounds)
        cells = [number(us, 5) or of.status.value for us, of in ((ours_us, case), (their_us, other))]
        rows.append((case_text(case.spec), *cells, ratio, bound))
    yield from aligned(rows, RIGHT)
    yield from only
    yield from (f"only B has {case_text(spec)}" for spec in theirs)
    yield from _sum_lines(a, b)


def ratio_error_of(a: Side, b: Side, case: CaseResult, other: CaseResult) -> float | None:
    """Of modelled times, what the model says of itself; None of measured ones, and where it says nothing."""
    times = [side.document.modelled(of) for side, of in ((a, case), (b, other)) if side.document.device.emulated]
    known = [time for time in times if time is not None]
    return ratio_error(known[0], known[1]) if len(known) == 2 else None


def error_text(share: float | None) -> str:
    return f" ± {share:.1%}" if share else ""


def is_real(ratio: float, share: float | None) -> bool:
    """Whether two kernels differ by more than the model may be wrong about them."""
    return share is not None and abs(math.log(ratio)) > math.log1p(share)


def _bound(document: Document, case: CaseResult) -> str:
    if not document.device.emulated:
        return case.floor.bound if case.floor else ""
    model = document.modelled(case)
    return model.bound if model else ""


def _sum_lines(a: Side, b: Side) -> Iterator[str]:
    kinds = (a.document.kind, b.document.kind)
    if "none" in kinds:
        yield "no times to compare: run both in mode benchmark"
        return
    if kinds[0] != kinds[1]:
        yield f"no ratio: A's times are {kinds[0]}, B's are {kinds[1]}"
        return
    ours, theirs = a.document.times_us, b.document.times_us
    shared = [spec for spec in ours if spec in theirs]
    if shared:
        a_us, b_us = (geometric_mean([us[spec] for spec in shared]) for us in (ours, theirs))
        means = f"geometric mean of {len(shared)} cases: A {number(a_us, 5)} us, B {number(b_us, 5)} us"
        yield f"{means}, B / A {b_us / a_us:.4f}"
    if kinds[0] == "measured":
        yield (
            "one run each, at two times: whether this is real or noise, runs in turns on this machine's GPU say: "
            "compare A B --rounds 6"
        )
        return
    changed = sum(abs(theirs[spec] / ours[spec] - 1) > SAME for spec in shared)
    same = [key for key in MODEL_KEYS if _value(a, key) == _value(b, key)]
    if not a.document.fingerprint.model:  # runs that were kept before it was told
        same = [key for key in same if key != "model"]
    if len(same) == len(MODEL_KEYS):
        differ = f"{changed} of {len(shared)} cases differ by more than {SAME:.1%}"
        yield f"modelled with one model and one compiler: {differ}"
        if changed:
            yield from _real_lines(a, b, shared)
    else:
        others = ", ".join(key for key in MODEL_KEYS if key not in same)
        yield f"{changed} of {len(shared)} cases differ; not by the kernels alone: {others} changed as well"


def _real_lines(a: Side, b: Side, shared: list[str]) -> Iterator[str]:
    """Which differences would be seen on the card: the model's own error may be all of the others."""
    cases = [{case.spec: case for case in side.document.cases} for side in (a, b)]
    real = []
    for spec in shared:
        error = ratio_error_of(a, b, cases[0][spec], cases[1][spec])
        if is_real(b.document.times_us[spec] / a.document.times_us[spec], error):
            real.append(str(cases[0][spec].index))
    which = f": case {', '.join(real)}" if real else ""
    yield (
        f"{len(real)} of {len(shared)} cases differ by more than the model's own error (±: of nine in ten pairs of "
        f"published kernels){which}"
    )


def _value(side: Side, key: str) -> object:
    return getattr(side.document.fingerprint, key)


# ---------------------------------------------------------------- counters


Counter = int | float | tuple[int, ...]


def counters_of(case: CaseResult) -> dict[tuple[str, str], Counter]:
    """A case's counters by (kernel, counter), of one rank: the first, where there are several."""
    found: dict[tuple[str, str], Counter] = {}
    for kernel, known in case.device_report.by_rank[0].kernels.items():
        work = known.work
        for name, value in {**structs.asdict(known), **(structs.asdict(work) if work else {})}.items():
            if isinstance(value, int | float) or value and type(value) is tuple and isinstance(value[0], int):
                found[kernel, name] = value
        found |= {(kernel, f"{unit} instructions"): count for unit, count in known.by_unit.items()}
        found |= {(kernel, f"{unit} cycles"): count for unit, count in (work.cycles if work else {}).items()}
    return found


def _kernel_lines(a: Side, b: Side, all_lines: bool) -> Iterator[str]:
    """Of the case whose time changed the most; of every one that has any if all are asked for."""
    theirs = {case.spec: case for case in b.document.cases}
    tables = []
    for case in a.document.cases:
        spec = case.spec
        if spec not in theirs:
            continue
        ours, other = counters_of(case), counters_of(theirs[spec])
        rows = [
            (kernel, name, _shown(ours.get((kernel, name))), _shown(other.get((kernel, name))))
            for kernel, name in dict.fromkeys([*ours, *other])
            if ours.get((kernel, name)) != other.get((kernel, name))
        ]
        if rows:
            both = [side.document.times_us.get(spec) for side in (a, b)]
            tables.append((abs(math.log(both[1] / both[0])) if both[0] and both[1] else 0.0, spec, rows))
    for _, spec, rows in tables if all_lines else sorted(tables, key=lambda table: -table[0])[:1]:
        yield f"counters that differ in case {case_text(spec)}:"
        yield from (f"  {line}" for line in aligned([("kernel", "counter", "A", "B"), *rows], frozenset({2, 3})))
    if len(tables) > 1 and not all_lines:
        yield f"counters differ in {len(tables) - 1} more cases: --all-lines shows them"


def _shown(value: Counter | None) -> str:
    return f"{value:,}" if isinstance(value, int | float) else "-" if value is None else str(list(value))


def findings_of(document: Document) -> list[str]:
    """What the device's checks said, each once."""
    found = (one.text for case in document.cases for one in case.device_report.all_findings())
    return list(dict.fromkeys(map(harmless, found)))


def _finding_lines(a: Side, b: Side) -> Iterator[str]:
    found = [findings_of(side.document) for side in (a, b)]
    for name, ours, theirs in (("A", *found), ("B", *reversed(found))):
        yield from (f"only {name} has the finding: {text}" for text in ours if text not in theirs)


def _version_lines(a: Side, b: Side) -> Iterator[str]:
    skipped = ("time", "submission_sha256", "compilers")
    rows = [
        (name, str(_value(a, name))[:40], str(_value(b, name))[:40])
        for name in MadeWith.__struct_fields__
        if name not in skipped and _value(a, name) != _value(b, name)
    ]
    if rows:
        yield "made with:"
        yield from (f"  {line}" for line in aligned([("", "A", "B"), *rows]))


def _source_lines(a: Side, b: Side, all_lines: bool) -> Iterator[str]:
    if a.digest == b.digest:
        yield "the submissions are the same, byte for byte"
        return
    if a.submission is None or b.submission is None:
        missing = a if a.submission is None else b
        yield f"lines: the submission of {missing.name} ({missing.digest[:12]}) is not in the history"
        return
    before, after = (text.decode("utf-8", "replace").splitlines() for text in (a.submission, b.submission))
    changed = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
    counts = [sum(line.startswith(sign) for line in changed) for sign in "-+"]
    yield f"lines: {counts[0]} only in A, {counts[1]} only in B"
    shown = changed if all_lines else changed[:SHOWN_LINES]
    yield from (f"  {line}" for line in shown)
    if len(shown) < len(changed):
        yield f"  ... {len(changed) - len(shown)} more: --all-lines shows them"
