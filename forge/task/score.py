"""The score that the leaderboard ranks by, and the speed of light: the shortest time a case can take.

The latter is arithmetic, never a measurement: max(flops / matrix peak, HBM bytes / HBM bandwidth,
link bytes / link bandwidth), from the problem's floors and the GPU's peaks.
"""

import ast
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from forge.task.cases import spec_of
from forge.task.harness import Clock
from forge.task.problem import Case, Floors, Problem, Published


@dataclass(frozen=True)
class Peaks:
    """Dense peaks of one GPU as its vendor states them."""

    gpu: str
    tflops: dict[str, float]  # by matrix kind: fp8, f16 (bf16 as well), fp4
    hbm_gb_s: float
    link_gb_s: float | None  # per GPU and direction, all links together; None where nobody states it
    source: str
    cache_bytes: int = 0  # that may hold a part of an input from the call before


class FloorError(Exception):
    """An expression of a task.yml's floors that cannot be evaluated. One line."""


# ---------------------------------------------------------------- expressions

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "ceil": math.ceil}
MAX_EXPONENT = 64


def evaluate_floor(expression: str, case: Case) -> float:
    """Arithmetic over a case's keys: + - * / // % **, min, max, ceil, comparisons as 0 or 1."""
    try:
        tree = ast.parse(expression, mode="eval")
        value = _value(tree.body, case)
    except FloorError as error:
        raise FloorError(f"floor {expression!r}: {error}") from None
    except (SyntaxError, ArithmeticError, TypeError, ValueError, RecursionError) as error:
        raise FloorError(f"floor {expression!r}: {error}") from None
    return float(value)


def _value(node: ast.expr, case: Case) -> Any:
    match node:
        case ast.Constant(value=value) if isinstance(value, (int, float)):
            return value
        case ast.Name(id=name):
            if name not in case:
                raise FloorError(f"the case has no key {name!r} (it has {', '.join(case)})")
            return _number(name, case[name])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            a, b = _value(left, case), _value(right, case)
            if isinstance(op, ast.Pow) and abs(b) > MAX_EXPONENT:
                raise FloorError(f"an exponent above {MAX_EXPONENT}")
            return _BINARY[type(op)](a, b)
        case ast.UnaryOp(op=op1, operand=operand) if type(op1) in _UNARY:
            return _UNARY[type(op1)](_value(operand, case))
        case ast.Compare(left=left, ops=[op2], comparators=[right]) if type(op2) in _COMPARE:
            return int(_COMPARE[type(op2)](_value(left, case), _value(right, case)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS and args:
            return _FUNCTIONS[name](*(_value(arg, case) for arg in args))
    raise FloorError(f"{ast.unparse(node)!r} is not arithmetic over the case's keys")


def _number(name: str, value: Any) -> int | float:
    """A case's value in a formula. "True" and "False" are how the leaderboard spells booleans."""
    if isinstance(value, (int, float)):
        return value
    if value in ("True", "False", "true", "false"):
        return int(value.lower() == "true")
    raise FloorError(f"key {name!r} is {value!r}, not a number")


# ---------------------------------------------------------------- speed of light

LIGHT_SLACK = 0.95  # of the least time: what a clock's error, or a printed time's rounding, may hide


@dataclass(frozen=True)
class Work:
    """What a case costs at least, and the time that takes at a GPU's peaks."""

    flops: float | None = None
    hbm_bytes: float | None = None
    link_bytes: float | None = None
    light_us: float | None = None  # None: no peak is known for what bounds it
    bound: str = ""  # compute | memory | link | "" if light_us is None


def work_of(floors: Floors | None, case: Case, peaks: Peaks | None) -> Work | None:
    """None for a problem that states no floors. peaks: of the GPU; None where nobody has stated them."""
    if floors is None:
        return None
    flops, hbm_bytes, link_bytes = (
        None if text is None else evaluate_floor(str(text), case)
        for text in (floors.flops, floors.hbm_bytes, floors.link_bytes)
    )
    times: dict[str, float] = {}
    if peaks is not None:
        tflops = peaks.tflops.get(floors.matrix)
        if flops and tflops:
            times["compute"] = flops / tflops * 1e-6
        if hbm_bytes:
            times["memory"] = hbm_bytes / peaks.hbm_gb_s * 1e-3
        if link_bytes and peaks.link_gb_s:
            times["link"] = link_bytes / peaks.link_gb_s * 1e-3
    bound = max(times, key=lambda name: times[name]) if times else ""
    return Work(flops, hbm_bytes, link_bytes, times.get(bound), bound)


def too_fast(work: Work | None, us: float, peaks: Peaks | None, matrix: str, warm: bool) -> str:
    """Why a time cannot be that of all of a case's work; "" where nothing says so. warm: caches may hold what is read,
    as far as it fits there."""
    if work is None or peaks is None:
        return ""
    read = (work.hbm_bytes or 0.0) - (peaks.cache_bytes if warm else 0)
    parts = [
        (read, peaks.hbm_gb_s * 1e9, "B/s", "memory gives", "data were not read"),
        (work.link_bytes or 0.0, (peaks.link_gb_s or 0.0) * 1e9, "B/s", "links give", "data were not sent"),
        (
            work.flops or 0.0,
            peaks.tflops.get(matrix, 0.0) * 1e12,
            "FLOP/s",
            "matrix units give",
            "not all was computed",
        ),
    ]
    for amount, peak, unit, what, so in parts:
        if peak and us < LIGHT_SLACK * amount / peak * 1e6:
            reached, most = amount / us * 1e-6, peak * 1e-12
            return (
                f"faster than light: {us:.4g} us, and the card's peaks need {amount / peak * 1e6:.4g} us: "
                f"{reached:.3g} T{unit}, and a {peaks.gpu}'s {what} {most:.3g}: {so}"
            )
    return ""


# ---------------------------------------------------------------- score


def geometric_mean(values: Sequence[float]) -> float:
    if not values or min(values) <= 0:
        raise ValueError("a geometric mean needs values above 0")
    return math.exp(sum(math.log(v) for v in values) / len(values))


def rank_score(means: Sequence[float], ranking_by: str) -> float:
    """The number the leaderboard ranks by, from the cases' mean times and in their unit."""
    if ranking_by == "geom":
        return geometric_mean(means)
    return means[-1] if ranking_by == "last" else sum(means) / len(means)


def score_on(clock: Clock, times: Sequence[tuple[float, float, float]], ranking_by: str) -> tuple[float, ...] | None:
    """The score of kernels' times (us, from, to) as that clock sees them, with its own ends (0: nobody knows)."""
    seen = [on for us, low_us, high_us in times if (on := clock.sees_us(us, low_us, high_us))]
    if not seen or len(seen) < len(times):
        return None
    return tuple(rank_score(ends, ranking_by) if all(ends) else 0.0 for ends in zip(*seen))


def published_scores(problem: Problem, cases: Sequence[tuple[int, str]]) -> list[tuple[Published, float]]:
    """What others' published times would score over these cases (index, spec line), in us; those who published all."""
    specs = [spec_of(case) for case in problem.benchmarks]
    found = []
    for row in problem.published:
        times = [row.us[index] for index, spec in cases if row.us and index < len(specs) and specs[index] == spec]
        known = [us for us in times if us is not None]
        if known and len(known) == len(cases):
            found.append((row, rank_score(known, problem.ranking_by)))
        elif row.all_us is not None and [spec for _, spec in cases] == specs:
            found.append((row, row.all_us))
    return found
