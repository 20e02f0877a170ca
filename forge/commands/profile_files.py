"""What `eval.py profile` writes beside its text: a timeline for Chrome's tracing or Perfetto, and one page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from forge.console import UsageError, refuse_unwritable
from forge.history.page import PageError, page_of, write_page
from forge.judge.plan import EvalPlan
from forge.judge.results import Run
from forge.task.cases import case_text


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trace",
        metavar="FILE",
        type=Path,
        help="profile, emulated: what one CU's waves do over time, for Chrome's tracing or Perfetto; modelled",
    )
    parser.add_argument("--html", metavar="FILE", type=Path, help="profile, emulated: write it all as one page")


def check(args: argparse.Namespace, plan: EvalPlan) -> None:
    """Before anything runs; has the device's workers keep what is to be written."""
    for option, file in (("--trace", args.trace), ("--html", args.html)):
        if file is None:
            continue
        if plan.mode != "profile" or not plan.device.emulated:
            raise UsageError(f"{option} goes with mode profile on an emulated device")
        refuse_unwritable(option, file)
        plan.device.keep_timelines(plan.caches)


def take(run: Run) -> list[tuple[str, dict[str, Any]]]:
    """(case, kernel's section of the page and events) of all cases, taken out of their reports; of ranks the
    first's."""
    found = []
    for case in run.cases:
        for number, kernels in enumerate(_kernels(case.device_report)):
            for known in kernels.values():
                timeline = known.pop("timeline", None)
                if timeline is not None and number == 0:
                    found.append((case_text(case.spec), timeline))
    return found


def _kernels(report: dict[str, Any]) -> Iterator[dict[str, Any]]:
    ranks = sorted(name for name in report if name.startswith("rank "))
    for part in [report[name] for name in ranks] or [report]:
        yield part.get("kernels", {})


def write(
    args: argparse.Namespace, plan: EvalPlan, document: dict[str, Any], timelines: list[tuple[str, dict[str, Any]]]
) -> list[str]:
    """The lines that say what was written. UsageError where it cannot be."""
    told = []
    if args.trace is not None:
        events = []
        for process, (case, timeline) in enumerate(timelines):
            for event in timeline["events"]:
                event["pid"] = process
                if event["name"] == "process_name":
                    event["args"]["name"] += f"; {case}"
                events.append(event)
        note = "times are modelled, not measured"
        try:
            args.trace.write_text(
                json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"note": note}})
            )
        except OSError as error:
            raise UsageError(f"--trace {args.trace}: {error.strerror}") from None
        told.append(f"written: {args.trace}; open it in ui.perfetto.dev or chrome://tracing")
    if args.html is not None:
        matrix = plan.problem.floors.matrix if plan.problem.floors else "none"
        sections = [(case, timeline["page"]) for case, timeline in timelines]
        try:
            write_page(args.html, page_of(document, matrix, (), plan.submission, sections))
        except PageError as error:
            raise UsageError(f"--html: {error}") from None
        told.append(f"written: {args.html}")
    return told
