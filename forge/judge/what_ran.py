"""What a call consisted of, and whether a kernel would do it so: reasons to doubt a pass, and remarks. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from forge.device.cards import peaks_of
from forge.judge.messages import Called
from forge.judge.plan import EvalPlan
from forge.judge.results import CaseResult, modelled_time
from forge.task.cases import CaseSpec
from forge.task.score import Work, work_of

MOST_SHARE, SOME_SHARE = 0.5, 0.1  # of a case's FLOPs: most of the work; what own kernels do at least
# What a wave's instruction can do at most, by unit: 64 lanes of v_dot4, a scaled 32x32x64 product of FP4.
MOST_FLOPS = {"vector": 64 * 8, "matrix": 2 * 32 * 32 * 64}
LIGHT_SLACK = 0.95  # of the speed of light: what a clock's error may hide


def look(plan: EvalPlan, case: CaseSpec, result: CaseResult, called: Sequence[Called]) -> None:
    """Fills the result's buts, remarks and torch_work."""
    problem = plan.problem
    work = work_of(problem.floors, case.args, peaks_of(plan.device.arch)) if problem.floors else None
    told = [one.torch_work for one in called if one.torch_work]
    flops = max((number_of(one, "flops") for one in told), default=0.0)  # of a rank, as the floor is
    result.torch_work = max(told, key=lambda one: number_of(one, "flops"), default={})
    launches = _launches(result.device_report)
    needed = (work.flops or 0.0) if work is not None else 0.0
    matrix = problem.floors is not None and problem.floors.matrix != "none" and needed > 0
    share = flops / needed if needed else 0.0
    said = modelled_time(result.device_report, plan.caches)
    if plan.device.emulated and said is not None and not 0 < said["us"] < math.inf:
        _drop_modelled(result.device_report)
    doubts = []
    if any(one.get("entered_reference") is True for one in told):
        doubts.append("custom_kernel calls the problem's own ref_kernel")
    if matrix and share >= MOST_SHARE:
        products = result.torch_work.get("products")
        names = ", ".join(f"aten::{name}" for name in products) if type(products) is dict else "torch"
        with_kernels = f", beside {launches} launches of its own" if launches else ""
        doubts.append(f"{names} did {min(share, 9.99):.0%} of the case's FLOPs{with_kernels}")
        if share > 1 + MOST_SHARE:
            result.remarks.append(f"torch's products and sums are {share:.3g} times the FLOPs that the case needs")
    elif plan.device.emulated and not launches and called:
        text = "no kernel of its own was launched"
        doubts.append(text) if matrix else result.remarks.append(text)
    elif plan.device.emulated and matrix and called:
        own_share = _most_flops(result.device_report) / needed  # whoever else did the rest, and wherever
        if own_share < SOME_SHARE:
            doubts.append(f"its {launches} launches can have done {own_share:.2g} of the case's FLOPs at most")
    limit, own_limit = problem.precision.rel_l2, problem.precision.probe_rel_l2
    errors = [(result.accuracy.rel_l2 if result.accuracy else None, limit, "")]
    if result.probe_rel_l2 is not None and own_limit is not None:
        errors.append((result.probe_rel_l2, own_limit, " on the problem's probe"))
    elif result.probe_rel_l2 is not None:
        # Alone: a bias may be most of an output, and what a reference rounds of it of the error.
        without = " without a bias" if problem.precision.bias is not None else ""
        errors = [(result.probe_rel_l2, limit, f" on larger numbers{without}")]
    rel_l2, limit, what = next((one for one in errors if _is_beyond(*one[:2])), errors[-1])
    if _is_beyond(rel_l2, limit):
        doubts.append(f"relative L2 error {rel_l2:.3g}{what}, an honest kernel's is below {limit:g}")
    elif result.share != 1:
        doubts.append(f"of what its input adds to the output {result.share:.3g} times is there")
    elif limit is not None and rel_l2 is None and result.accuracy and result.accuracy.reference:
        doubts.append(f"its error cannot be told: {result.accuracy.problem}")
    if result.accuracy and result.accuracy.rel_l2 == math.inf and rel_l2 != math.inf:
        doubts.append("a number that is not finite where the reference's is, or the other way round")
    if (text := _faster_than_light(plan, result, work)) and matrix:
        doubts.append(text)
    if result.passed:
        result.buts += doubts


def _faster_than_light(plan: EvalPlan, result: CaseResult, work: Work | None) -> str:
    """Caches may be warm: then only the products take their time."""
    if work is None or plan.problem.floors is None:
        return ""
    peaks = peaks_of(plan.device.arch)
    tflops = peaks.tflops.get(plan.problem.floors.matrix) if peaks else None
    light_us = work.flops / tflops * 1e-6 if work.flops and tflops else None
    if plan.caches == "cold":
        light_us = work.light_us
    if plan.device.emulated:
        found = modelled_time(result.device_report, plan.caches)
        us, how = (found["us"], "modelled") if found else (None, "")
    else:
        us, how = (result.stats.mean_us if result.stats else None), "measured"
    if us is None or light_us is None or us >= LIGHT_SLACK * light_us:
        return ""
    return f"faster than light: {how} {us:.4g} us, and the card's peaks need {light_us:.4g} us"


def number_of(values: dict[str, Any], key: str) -> float:
    value = values.get(key)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _launches(report: dict[str, Any]) -> int:
    """Of all kernels, of all ranks."""
    here = report.get("launches", 0)
    below = sum(_launches(value) for value in report.values() if isinstance(value, dict))
    return below + (here if isinstance(here, int) else 0)


def _is_beyond(error: float | None, limit: float | None) -> bool:
    return error is not None and limit is not None and not error <= limit  # NaN is


def _most_flops(report: dict[str, Any]) -> int:
    """More than this the kernels of a report have not done; of several ranks', those of the busiest."""
    kernels = report.get("kernels", {}).values()
    own = sum(most * kernel["by_unit"].get(unit, 0) for kernel in kernels for unit, most in MOST_FLOPS.items())
    return max([own, *(_most_flops(one) for name, one in report.items() if name.startswith("rank "))])


def _drop_modelled(report: dict[str, Any]) -> None:
    """Of a process that told nonsense, a modelled time that is none."""
    report.pop("modelled", None)
    for value in report.values():
        if isinstance(value, dict):
            _drop_modelled(value)
