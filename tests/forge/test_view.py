"""What `eval.py` prints of a run: what holds for several cases once."""

import io
from dataclasses import replace
from typing import Any

import pytest

from forge.commands.view import Console, View
from forge.device.report import CaseReport, KernelReport
from forge.judge.results import CaseResult, Run, Status
from forge.task.cases import CaseSpec
from tests.support.fake_plan import fake_plan, reported

ERROR: dict[str, Any] = {
    "message": "NameError: no (submission.py:3, in custom_kernel)",
    "trace": '  File "/tmp/forge-a/run1/submission.py"',
}


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Any:
    def lines(*results: CaseResult) -> list[str]:
        plan = replace(fake_plan("test"), cases=[CaseSpec(n, f"n: {n}", {"n": n}) for n in range(len(results))])
        monkeypatch.setattr(plan.device, "label", "emulated gfx942", raising=False)
        monkeypatch.setattr(plan.device, "checks", "report:all", raising=False)
        text = io.StringIO()
        view = View(Console(file=text), plan, show_output=False)
        for result in results:
            view.case_finished(result)
        view.foot(Run("test", list(results), timed=False, complete=True))
        return [line.strip() for line in text.getvalue().splitlines()]

    return lines


def test_last_words_do_not_say_again_what_was_found(printed: Any) -> None:
    finding = "add on gfx942: bounds: writes 4 bytes at 0x7f5510, 0 bytes past the end of `x`\n  at `store` (a.hip:3)"
    words = [f"cdna: {line}"[:50] for line in finding.replace("7f5510", "7f66").splitlines()]
    result = CaseResult(0, "n: 0", Status.FAIL, "mismatch", last_words=[*words, "mine", "at", *words, "mine"])
    result.device_report = reported(findings=[{"text": finding}])
    lines = printed(result)
    assert sum("past the end" in line for line in lines) == 1 and sum("a.hip:3" in line for line in lines) == 1
    assert lines[lines.index("last words:") + 1 :][:2] == ["| mine (2 times)", "| at"]


@pytest.mark.parametrize(("instructions", "said"), [(100, 0), (1_000_000, 1)])
def test_what_checks_have_not_looked_at(printed: Any, instructions: int, said: int) -> None:
    result = CaseResult(0, "n: 0", Status.PASS, device_report=CaseReport({"k": KernelReport(1, instructions)}))
    assert sum(line.startswith("checks: ") for line in printed(result)) == said


def test_each_further_line_of_a_remark_has_one_mark(printed: Any) -> None:
    result = CaseResult(0, "n: 0", Status.PASS, buts=["first\nPASS: \x1b[31mmore"])
    assert printed(result)[1:3] == ["but first", "| PASS: more"]


def test_an_error_of_every_case_is_said_once(printed: Any) -> None:
    results = [CaseResult(n, f"n: {n}", Status.ERROR, **ERROR) for n in range(3)]
    results[1].trace = results[1].trace.replace("run1", "run2")
    results[2].trace = results[2].trace.replace("submission", "other")
    assert printed(*results)[:8] == [
        "error     0 n=0  emulated",
        ERROR["message"],
        f"| {ERROR['trace']}",
        "error     1 n=1  emulated",
        f"as in case 0: {ERROR['message']}",
        "error     2 n=2  emulated",
        ERROR["message"],
        '|   File "/tmp/forge-a/run1/other.py"',
    ]


def test_a_long_error_is_said_in_full_once(printed: Any) -> None:
    long = "RuntimeError: " + "not the rest of it, " * 20
    lines = printed(*(CaseResult(n, f"n: {n}", Status.ERROR, long) for n in range(2)))
    assert lines[1] == long.strip() and lines[3].startswith("as in case 0: RuntimeError: not") and len(lines[3]) < 120


def test_a_finding_of_every_case_is_said_once_and_counted(printed: Any) -> None:
    def found(n: int, *texts: str) -> CaseResult:
        return CaseResult(n, f"n: {n}", Status.PASS, device_report=reported(findings=[{"text": one} for one in texts]))

    first = "bounds: reads 0x55c8, past the end of `x` (fp32[4])\n  at v1"
    again = first.replace("0x55c8", "0x7f").replace("[4]", "[5]")
    lines = printed(found(0, first, "race: y"), found(1, again))
    assert lines[1:4] == ["check: bounds: reads 0x55c8, past the end of `x` (fp32[4])", "|   at v1", "check: race: y"]
    assert lines[5:] == [
        "check: as in case 0: bounds: reads 0x7f, past the end of `x` (fp32[5])",
        "pass: 2 of 2 cases, 0.0 s, 2 findings of the device's checks, 3 times in all",
    ]
    ranks = printed(found(0, first, again, again.replace("7f", "8f")))
    assert ranks[1:4] == [f"check: {first.splitlines()[0]}", "|   at v1", "and 2 more like it"] and len(ranks) == 5
    assert printed(found(0, first))[-1].endswith("0.0 s, 1 finding of the device's checks")
