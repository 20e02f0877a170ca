"""What `eval.py profile` writes beside its text: a timeline for Chrome's tracing or Perfetto, and one page."""

import argparse
from pathlib import Path

import msgspec
from msgspec import structs

from forge.console import UsageError, refuse_unwritable
from forge.device.report import Timeline
from forge.history.document import Document
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


def take(run: Run) -> list[tuple[str, Timeline]]:
    """(case, kernel's section of the page and events) of all cases, taken out of their reports; of ranks the
    first's."""
    found = []
    for case in run.cases:
        report = case.device_report
        found += [(case_text(case.spec), timeline) for timeline in report.by_rank[0].timelines.values()]
        ranks = tuple(structs.replace(one, timelines={}) for one in report.ranks)
        case.device_report = structs.replace(report, timelines={}, ranks=ranks)
    return found


def write(
    args: argparse.Namespace, plan: EvalPlan, document: Document, timelines: list[tuple[str, Timeline]]
) -> list[str]:
    """The lines that say what was written. UsageError where it cannot be."""
    told = []
    if args.trace is not None:
        events = []
        for process, (case, timeline) in enumerate(timelines):
            for event in timeline.events:
                named = {"name": f"{event.args.get('name')}; {case}"} if event.name == "process_name" else {}
                events.append(structs.replace(event, pid=process, args={**event.args, **named}))
        trace = {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"note": "modelled, not measured"}}
        try:
            args.trace.write_bytes(msgspec.json.encode(trace))
        except OSError as error:
            raise UsageError(f"--trace {args.trace}: {error.strerror}") from None
        told.append(f"written: {args.trace}; open it in ui.perfetto.dev or chrome://tracing")
    if args.html is not None:
        matrix = plan.problem.floors.matrix if plan.problem.floors else "none"
        sections = [(case, timeline.page) for case, timeline in timelines]
        try:
            write_page(args.html, page_of(document, matrix, (), plan.submission, sections))
        except PageError as error:
            raise UsageError(f"--html: {error}") from None
        told.append(f"written: {args.html}")
    return told
