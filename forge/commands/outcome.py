"""What a run comes to: one word of a closed list, whose fault it is, and why, in a line or in under thirty."""

import re
import shlex
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from forge.commands import texts
from forge.console import EXIT_PASS, harmless
from forge.history.document import Document
from forge.judge.results import CaseResult, Fault, Status
from forge.task.cases import case_text
from forge.task.problem import own_entries

Outcome = Literal[
    "passed",
    "doubtful",  # every case passed, with a doubt, a finding of the checks, or a confinement that lacks something
    "wrong",
    "crashed",  # an exception, or the process died
    "compile_error",
    "invalid",  # it cannot be judged: no valid Python, no custom_kernel; a request that cannot be met
    "timeout",
    "out_of_memory",
    "tampered",
    "machine_error",  # says nothing of the submission
]
Blame = Literal["", "submission", "request", "machine"]
OF_FAULT: dict[Fault, Outcome] = {"compiler": "compile_error", "memory": "out_of_memory"}
OF_STATUS: dict[Status, Outcome] = {
    Status.UNJUDGED: "doubtful",
    Status.FAIL: "wrong",
    Status.ERROR: "crashed",
    Status.CRASH: "crashed",
    Status.TIMEOUT: "timeout",
    Status.TAMPERED: "tampered",
    Status.NOT_RUN: "machine_error",
}
MOST_DOUBTS, MOST_LINES, MOST_CHARS = 5, 28, 300  # in a message; in a compact text, and of each of its lines
UNJUDGED = "nothing was judged (--no-judge)"
PLACE = re.compile(r"\b([\w-]+\.py):(\d+)\b")
NEXT = {
    "doubtful": "docs/harness.md says what a doubt is, docs/emulated-device.md what the checks see",
    "compile_error": "gen_submission.py PROBLEM --check-file FILE compiles each of its kernels, with registers and LDS",
    "timeout": "a shorter case first: --cases smoke; what waits is named above",
    "out_of_memory": "less memory at a time; --calls 1 has one call of a case judged, not three",
    "tampered": "docs/confinement.md says what a submission may touch",
    "machine_error": "not the submission's: mend what is named above, and judge it again",
}


class Cause(Struct, frozen=True):
    status: Outcome
    blame: Blame = ""
    message: str = ""  # the first cause in a line, or the doubts
    case: CaseResult | None = None  # in which it showed


def cause_of(report: Document) -> Cause:
    """report: with the exit code of a strict run."""
    failing = report.broken or next((case for case in report.cases if not case.passed), None)
    if failing is not None:
        status = OF_FAULT.get(failing.fault, OF_STATUS[failing.status])
        if failing.status is Status.UNJUDGED:
            return Cause(status, "request", UNJUDGED, failing)
        return Cause(status, "machine" if failing.status is Status.NOT_RUN else "submission", failing.message, failing)
    if report.exit_code == EXIT_PASS:
        return Cause("passed")
    if report.verdict == "incomplete" or not report.cases:
        return Cause("machine_error", "machine", report.error or "not all cases were judged")
    doubts = list(dict.fromkeys([*report.buts, *(text for case in report.cases for text in doubts_of(case))]))
    blame: Blame = "submission" if doubts else "machine"
    doubts += [f"not confined: {text}" for text in report.unconfined]
    more = [f"and {len(doubts) - MOST_DOUBTS} more"] if len(doubts) > MOST_DOUBTS else []
    doubted = next((case for case in report.cases if doubts_of(case)), None)
    return Cause("doubtful", blame, "; ".join([*doubts[:MOST_DOUBTS], *more]), doubted)


def doubts_of(case: CaseResult) -> list[str]:
    return [*case.buts, *texts.finding_texts(case.device_report)]


def compact(report: Document, file: str, source: str) -> list[str]:
    """The verdict, the first cause with its line of the submission, and one next step. file: the submission's name."""
    cause = cause_of(report)
    case = cause.case
    passed = sum(one.passed for one in report.cases)
    what = f"{report.problem.name} {report.mode} on {report.device.name}"
    lines = [f"{cause.status}: {passed} of {len(report.cases)} cases passed; {what}, {report.elapsed_s:.1f} s"]
    if case is not None and cause.status != "doubtful":
        told = texts.details(case)
        alike = [one.index for one in report.cases if one is not case and _gist(one) == _gist(case)]
        also = f" (and {len(alike)} more alike: {', '.join(map(str, alike[:8]))})" if alike else ""
        lines += [f"case {case.index}: {case_text(case.spec)}{also}", *told[:8]]
        lines += source_lines([case.message, *told], source)
        found = texts.finding_texts(case.device_report)
    else:
        found = cause.message.split("; ") if cause.message else []
    lines += [f"check: {text}" for text in found[:3]] + [f"and {len(found) - 3} more"] * (len(found) > 3)
    lines += source_lines(found[:3], source)
    lines.append("next: " + next_step(report, cause, file))
    return [part[:MOST_CHARS] for line in lines for part in harmless(line).splitlines()][: MOST_LINES - 1]


def _gist(case: CaseResult) -> tuple[Status, str]:
    return case.status, texts.NUMBERS.sub("", case.message)


def source_lines(words: Sequence[str], source: str) -> list[str]:
    """The first line of the submission that they name."""
    lines = source.splitlines()
    for name, number in (found for text in words for found in PLACE.findall(text)):
        if name == "submission.py" and 0 < int(number) <= len(lines):
            return [f"submission.py:{number}: {lines[int(number) - 1].strip()}"]
    return []


def next_step(report: Document, cause: Cause, file: str) -> str:
    problem = report.problem
    named = any(str(entry.directory) == problem.directory for entry in own_entries())
    on = shlex.join(
        [problem.name if named else problem.directory, "--submission", file, "--device", report.device.name]
    )
    if cause.status == "passed":
        return f"eval.py benchmark {on}" if report.mode == "test" else "eval.py report shows it whole"
    if cause.status in ("wrong", "crashed") and cause.case is not None and cause.case.index >= 0:
        found = texts.finding_texts(cause.case.device_report)
        return "mend what the check found" if found else f"eval.py test {on} --case {shlex.quote(cause.case.spec)}"
    return NEXT.get(cause.status, "mend the line above")
