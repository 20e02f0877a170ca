"""Running a folder's own eval.py, one that no row of forge/task/harness.py describes, under supervision.

It gets what the leaderboard's runner gives it: a run folder, a file of spec lines, POPCORN_FD. What it writes
there is its verdict, no more private than it makes it. We make sure that it and its processes end.
"""

from __future__ import annotations

import base64
import contextlib
import os
import select
import subprocess
import sys
import time
from pathlib import Path

from forge.judge.evaluate import Listener, run_environment
from forge.judge.plan import EvalPlan
from forge.judge.processes import Tail, describe_exit, end_all
from forge.judge.results import CaseResult, Run, Stats, Status
from forge.judge.workspace import Workspace

# Of faulthandler: an eval.py whose multiprocessing pool lost a process waits for it for ever.
CRASH_MARK = "Fatal Python error:"
CRASH_PATIENCE_S = 2.0


def evaluate(plan: EvalPlan, own_eval: Path, run: Run, listener: Listener) -> None:
    """Fills `run` from what the eval.py logs."""
    started = time.monotonic()
    with Workspace(plan.problem, plan.submission) as workspace:
        folder = workspace.make_folder()
        (folder / "eval.py").write_bytes(own_eval.read_bytes())
        (folder / "cases.txt").write_text("".join(f"{case.spec}\n" for case in plan.cases))
        environment = run_environment(plan, workspace)
        log = _Log(plan, run, listener)
        tail = Tail()
        try:
            ending = _supervise(plan, folder, environment, log, tail, listener)
        finally:
            run.elapsed_s = time.monotonic() - started
        log.close(ending, tail, folder)
        run.complete = True


def _supervise(
    plan: EvalPlan, folder: Path, environment: dict[str, str], log: _Log, tail: Tail, listener: Listener
) -> tuple[Status, str]:
    """Runs it to its end or ours: how it ended, PASS meaning by itself with exit code 0."""
    reader, writer = os.pipe()
    environment = {**environment, "POPCORN_FD": str(writer)}
    if plan.seed is not None:
        environment["POPCORN_SEED"] = str(plan.seed)
    process = subprocess.Popen(
        [sys.executable, "-u", "eval.py", plan.mode, "cases.txt"],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(writer,),
        start_new_session=True,
    )
    os.close(writer)
    assert process.stdout is not None
    descriptors = {reader, process.stdout.fileno()}
    started = time.monotonic()
    crashed_at: float | None = None
    try:
        while True:
            now = time.monotonic()
            ended = process.poll()
            ready, _, _ = select.select(list(descriptors), [], [], 0 if ended is not None else 0.1)
            for descriptor in ready:
                data = os.read(descriptor, 1 << 20)
                if not data:
                    descriptors.discard(descriptor)
                elif descriptor == reader:
                    log.feed(data)
                else:
                    tail.add(data)
                    if crashed_at is None and CRASH_MARK.encode() in data:
                        crashed_at = now
            listener.case_progress("eval.py", now - started)
            if ended is not None and not ready:
                return _ending(ended)
            if crashed_at is not None and now - crashed_at > CRASH_PATIENCE_S and not ready:
                return Status.CRASH, "a process of the submission died"
            if now - started > plan.limit_s:
                return Status.TIMEOUT, f"eval.py did not end within {plan.limit_s:g} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        end_all([])
        process.wait()
        process.stdout.close()
        os.close(reader)


def _ending(code: int) -> tuple[Status, str]:
    if code == 0:
        return Status.PASS, ""
    return (Status.CRASH if code < 0 else Status.ERROR), f"eval.py: {describe_exit(code)}"


class _Log:
    """The official evaluators' keys, read as they come."""

    def __init__(self, plan: EvalPlan, run: Run, listener: Listener) -> None:
        self.plan, self.run, self.listener = plan, run, listener
        self.buffer = b""
        self.values: dict[str, dict[str, str]] = {}  # "test.0" -> {"spec": ..., "status": ...}
        self.current: str | None = None
        self.check = self.error = ""
        self.open = list(plan.cases)

    def feed(self, data: bytes) -> None:
        self.buffer += data
        *lines, self.buffer = self.buffer.split(b"\n")
        for line in lines:
            key, colon, value = line.decode("utf-8", "replace").partition(": ")
            parts = key.split(".")
            if key == "check":
                self.check = value.strip()
            elif key == "error":  # of the whole run: some log one before any case
                self.error = value.strip()
            elif colon and len(parts) == 3 and parts[0] in ("test", "benchmark") and parts[1].isdigit():
                self._case_value(f"{parts[0]}.{parts[1]}", parts[2], value)

    def _case_value(self, name: str, key: str, value: str) -> None:
        if name != self.current:
            self._finish()
            self.current = name
            self.values[name] = {}
        self.values[name][key] = value
        if key == "spec":
            position = len(self.run.cases)
            case = next((case for case in self.open if case.spec == value), None)
            if case is not None:
                self.listener.case_started(case, position, len(self.plan.cases))

    def _finish(self) -> None:
        """The case that is over: a pass if it says so or has times."""
        values = self.values.get(self.current or "", {})
        self.current = None
        case = next((case for case in self.open if case.spec == values.get("spec")), None)
        if case is None:
            return
        stats = _stats(values)
        if "status" not in values and stats is None and "report" not in values:
            return
        self.open.remove(case)
        failed = values.get("status", "pass") != "pass"
        result = CaseResult(
            case.index,
            case.spec,
            Status.FAIL if failed else Status.PASS,
            values.get("error", values.get("message", "")),
            stats=stats if self.run.timed else None,
        )
        if "report" in values:
            with contextlib.suppress(ValueError):
                result.profile = base64.b64decode(values["report"], b"+*").decode("utf-8", "replace")
        self.run.cases.append(result)
        self.listener.case_finished(result)

    def close(self, ending: tuple[Status, str], tail: Tail, folder: Path) -> None:
        """What the eval.py left unsaid: the first case without a verdict was running when it ended."""
        self._finish()
        status, message = ending
        message = self.error or message
        if status is Status.PASS and self.check != "pass" and all(case.passed for case in self.run.cases):
            status, message = Status.ERROR, f"eval.py ended without a passing check ({self.check or 'none'})"
        last_only = self.plan.mode == "leaderboard" and self.check == "pass"
        for position, case in enumerate([] if last_only else self.open):
            result = CaseResult(case.index, case.spec, Status.NOT_RUN, "eval.py did not come to it")
            if position == 0 and status is not Status.PASS:
                place = tail.stack_place(folder)
                result.status, result.message = status, message + (f" ({place})" if place else "")
                result.last_words = tail.last_words()
            self.run.cases.append(result)
            self.listener.case_finished(result)
        if status is not Status.PASS and not self.open:
            self.run.notes.append(message)
            self.run.broken = CaseResult(-1, "", status, message, last_words=tail.last_words())


def _stats(values: dict[str, str]) -> Stats | None:
    try:
        runs, mean, std, err = (float(values[key]) for key in ("runs", "mean", "std", "err"))
        return Stats(int(runs), mean, std, err, float(values.get("best", mean)), float(values.get("worst", mean)))
    except (KeyError, ValueError):
        return None
