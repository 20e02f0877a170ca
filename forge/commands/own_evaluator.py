"""Judging by a folder's own eval.py, one that no row of forge/task/harness.py describes, and by ours beside it.

It gets what the leaderboard's runner gives it: a run folder, a file of spec lines, POPCORN_FD. What it writes there is
its verdict, no more private than it makes it. We make sure that it and its processes end, and that a case which ends
it does not cost the others: it runs again with those that are left.

Where the problem has the usual functions (generate_input, check_implementation, custom_kernel), our own judge goes
first, as for any problem: a case passes where both say so. Else what the calls of the submission's functions did is
told from inside (forge/judge/called.py). An emulated device has no times: the eval.py judges there in its mode test.
"""

import ast
import contextlib
import dataclasses
import json
import math
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from forge.commands.official_log import OfficialLog
from forge.device.hook import CALLS, STACKS
from forge.device.report import CaseReport, KernelReport, ModelledTimes, added
from forge.generate.submission import KERNEL
from forge.judge.evaluate import HANGS_BEFORE_STOP, Judge, Listener, keeps_builds, run_environment
from forge.judge.memory import free_memory, oom_kills
from forge.judge.messages import WHERE, Called, Malformed, Ready, decoder
from forge.judge.plan import EvalPlan
from forge.judge.process_tree import descendants
from forge.judge.processes import CHUNK_BYTES, Tail, describe_exit, end_all, stacks_of
from forge.judge.results import CaseResult, Fault, Run, Status
from forge.judge.standstill import STOPS, WAITS_ANYWAY, Standstill
from forge.judge.takings import Takings
from forge.judge.user_places import with_author_places
from forge.judge.what_ran import look, merged
from forge.judge.worker_pool import RankAnswer
from forge.judge.workspace import Workspace
from forge.task.cases import CaseSpec
from forge.task.problem import ROOT, Problem

# Started as `python -c BOOT ROOT BOUNDS eval.py MODE CASES`: confined as workers are, and then the eval.py alone.
BOOT = """
import json, os, sys
root, bounds = sys.argv[1], json.loads(sys.argv[2])
sys.path.insert(0, root)
from forge.judge.confinement import Bounds, confine
from forge.judge.libc import PR_SET_PDEATHSIG, try_prctl
try_prctl(PR_SET_PDEATHSIG, 9)
os.environ.update(bounds["environment"])
missing = confine(root, os.getcwd(), Bounds(**bounds), False)
os.write(int(os.environ["POPCORN_FD"]), f"unconfined: {json.dumps(missing)}\\n".encode())
os.execv(sys.executable, [sys.executable, "-u", *sys.argv[3:]])
"""

# Of faulthandler: an eval.py whose multiprocessing pool lost a process waits for it for ever.
CRASH_MARK = b"Fatal Python error:"
CRASH_PATIENCE_S, STACK_PATIENCE_S, CALL_PATIENCE_S, OOM_PATIENCE_S = 2.0, 1.0, 10.0, 60.0
MOST_CALL_BYTES = 64 << 20
MOST_OF_FREE_MEMORY = 0.75  # for the eval.py and all below it: it makes inputs itself, of whatever size
COUNTS = ("uncounted", "trials", "timed_itself", "flops")  # of a report
JUDGED = (Status.PASS, Status.FAIL, Status.ERROR)  # by our judge, of cases that the eval.py gets as well
WORD = re.compile(r"[^\W\d]\w*")
NOT_REACHED = "eval.py did not come to it"
UNSEEN = "its calls were not seen: nothing is told of its kernels, and nothing was checked"


def evaluate(plan: EvalPlan, own_eval: Path, run: Run, listener: Listener) -> None:
    """Fills `run`; an interrupted evaluation still has what it found."""
    started = time.monotonic()
    evaluation = _Evaluation(plan, own_eval, run, listener)
    try:
        evaluation.judge()
        evaluation.run_eval()
        run.complete = True
    finally:
        evaluation.tell_rest()
        run.elapsed_s = time.monotonic() - started


def words_of(source: Path) -> set[str]:
    """Identifiers of a Python file, and texts that could be some; none of one that does not parse."""
    words: set[str] = set()
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        for node in ast.walk(ast.parse(source.read_bytes())):
            values = (getattr(node, key, None) for key in ("id", "attr", "name", "value"))
            words |= {value for value in values if isinstance(value, str) and value.isidentifier()}
    return words


def calls(own_eval: Path, function: str) -> bool:
    return function in words_of(own_eval)


def is_usual(problem: Problem, own_eval: Path) -> bool:
    """Whether our judge can judge it, too: its eval.py calls what official ones call, and reference.py has it."""
    reference, names = problem.source_of("reference.py"), {"generate_input", "check_implementation"}
    return reference is not None and names <= words_of(reference) and names | {KERNEL} <= words_of(own_eval)


class _Held:
    """A Listener of our judge's: its verdicts wait for those of the eval.py."""

    def __init__(self, listener: Listener) -> None:
        self.case_started, self.case_progress = listener.case_started, listener.case_progress
        self.case_forecast = listener.case_forecast

    def case_finished(self, result: CaseResult) -> None:
        pass


@dataclasses.dataclass(eq=False)
class _Below:
    """One of the eval.py's processes, as a rank that may stand still: it gets on where any of them does."""

    pid: int | None
    folder: Path
    tail: Tail
    read_output: Callable[[], object]
    phase: str = ""

    def stacks(self) -> list[list[str]]:
        return [] if self.pid is None else stacks_of(self.pid, self.tail, self.read_output)


class _Process:
    """One run of the eval.py, in a session of its own, and the line on which its calls are told."""

    def __init__(self, plan: EvalPlan, workspace: Workspace, mode: str, names: set[str], heard: Callable[[Any], None]):
        self.plan, self.folder, self.heard, self.tail = plan, workspace.folder, heard, Tail()
        self.oom_kills, self.crashed_at = oom_kills(), math.inf
        self.told, self.stood_still = 0, False  # told: so many bytes and calls
        most = free_memory() * MOST_OF_FREE_MEMORY
        self.takings = Takings(self.pids, int(most) if math.isfinite(most) else None, workspace.root)
        self.fault: Fault = ""
        self.below: dict[int, _Below] = {}
        self.standstill = None if plan.limit_asked else Standstill(lambda _: plan.device.turns_of(self.pids()))
        self.log_fd, writer = os.pipe()
        self.line = socket.socket(socket.AF_UNIX)
        bounds = workspace.bounds(gpu=not plan.device.emulated)
        path = workspace.root / "calls"
        path.unlink(missing_ok=True)
        self.line.bind(str(path))
        self.line.listen()
        environment = {**run_environment(plan, workspace), "POPCORN_FD": str(writer), STACKS: str(int(WHERE))}
        if plan.seed is not None:
            environment["POPCORN_SEED"] = str(plan.seed)
        if names:
            count = plan.mode in ("benchmark", "profile")
            environment[CALLS] = json.dumps({"socket": str(path), "names": sorted(names), "count": count})
        self.process = subprocess.Popen(
            [sys.executable, "-c", BOOT, str(ROOT), json.dumps(vars(bounds)), "eval.py", mode, "cases.txt"],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(writer,),
            start_new_session=True,
        )
        os.close(writer)

    def pids(self) -> list[int]:
        return [self.process.pid, *descendants(self.process.pid)]

    def read_output(self) -> bool | None:
        """What there is, at most a chunk: whether there was some, None at its end."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], 0)[0]:
            return False
        data = os.read(self.process.stdout.fileno(), CHUNK_BYTES)
        self.tail.add(data)
        if CRASH_MARK in data:
            self.crashed_at = min(self.crashed_at, time.monotonic())
        return bool(data) or None

    def supervise(self, log: OfficialLog, listener: Listener) -> tuple[Status, str]:
        """Runs it to its end or ours: how it ended, PASS meaning by itself with exit code 0."""
        assert self.process.stdout is not None
        waiting: set[Any] = {self.log_fd, self.process.stdout, self.line}
        try:
            while True:
                now, ended = time.monotonic(), self.process.poll()
                ready, _, _ = select.select(list(waiting), [], [], 0 if ended is not None else 0.1)
                # The log goes first: what was written to it before a call is told belongs before that.
                for source in sorted(ready, key=lambda source: source is self.line):
                    if source is self.line:
                        self._hear(log)
                    elif source is self.process.stdout:
                        if self.read_output() is None:
                            waiting.discard(source)
                    elif data := os.read(source, CHUNK_BYTES):
                        self.told += len(data)
                        log.feed(data)
                    else:
                        waiting.discard(source)
                listener.case_progress("eval.py", now - log.since)
                short = oom_kills() > self.oom_kills
                if short and (ended if ended is not None else now - log.since > OOM_PATIENCE_S) and not ready:
                    return Status.NOT_RUN, "not judged: memory ran out, and the system ended a process of eval.py's"
                if ended is not None and not ready:
                    return _ending(ended)
                too_much, self.fault = self.takings.too_much()
                if too_much:
                    return Status.CRASH, f"{too_much} in eval.py"
                if now - self.crashed_at > CRASH_PATIENCE_S and not ready:
                    return Status.CRASH, "a process of the submission died"
                if now - log.since > self.plan.limit_s:
                    below = descendants(os.getpid())
                    self._dump_stacks([pid for pid in below if not descendants(pid)])  # for which the others wait
                    return Status.TIMEOUT, f"no result after {self.plan.limit_s:g} s in eval.py"
                if stuck := self._stuck():
                    return Status.TIMEOUT, stuck
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            end_all([])
            self.process.wait()
            self.process.stdout.close()
            self.line.close()
            os.close(self.log_fd)

    def _stuck(self) -> str:
        """What is to be said where it gets nowhere; which of its processes does not is seen in the output."""
        if self.standstill is None or not self.standstill.is_due():
            return ""
        for pid in (pids := self.pids()):
            self.below.setdefault(pid, _Below(pid, self.folder, self.tail, self.read_output)).phase = str(self.told)
        if (found := self.standstill.found([self.below[pid] for pid in pids])) is None:
            return ""
        self.stood_still = True
        self._dump_stacks([rank.pid for rank in found[1] if rank.pid is not None])
        return f"{found[0]} in eval.py"

    def _hear(self, log: OfficialLog) -> None:
        """One call, whole: whoever tells it waits for the answer."""
        data = bytearray()
        with contextlib.suppress(OSError, ValueError, Malformed):
            told, _ = self.line.accept()
            self.told += 1
            with told:
                told.settimeout(CALL_PATIENCE_S)
                while (part := told.recv(1 << 20)) and len(data) < MOST_CALL_BYTES:
                    data += part
                message = decoder((Ready, Called))(bytes(data))
                log.finish_decided()  # the call is of the next case then
                self.heard(message)

    def _dump_stacks(self, pids: Sequence[int]) -> None:
        """Has processes say where they are, and end."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGABRT)  # faulthandler answers
        output = self.process.stdout
        while output and select.select([output], [], [], STACK_PATIENCE_S)[0] and self.read_output():
            pass


def _ending(code: int) -> tuple[Status, str]:
    if code == 0:
        return Status.PASS, ""
    return (Status.CRASH if code < 0 else Status.ERROR), f"eval.py: {describe_exit(code)}"


class _Evaluation:
    def __init__(self, plan: EvalPlan, own_eval: Path, run: Run, listener: Listener) -> None:
        self.plan, self.own_eval, self.run, self.listener = plan, own_eval, run, listener
        self.ours: dict[int, CaseResult] = {}
        self.beside = is_usual(plan.problem, own_eval)
        self.called: list[Called] = []  # in the case that runs
        self.places = {case.index: place for place, case in enumerate(plan.cases)}
        self.at = 0  # how many cases have been told

    # ------------------------------------------------------------ our judge

    def judge(self) -> None:
        if not self.beside:
            return
        # On a GPU the times are the eval.py's.
        plan = dataclasses.replace(self.plan, mode="test") if self.run.timed else self.plan
        inner = Run(plan.mode, [], self.run.timed)
        try:
            with Judge(plan, inner, _Held(self.listener)) as judge:
                for position in range(len(judge.cases)):
                    judge.step(position)
        finally:
            self.ours = {result.index: result for result in inner.cases}
            self.run.fingerprint, self.run.broken, self.run.unconfined = (
                inner.fingerprint,
                inner.broken,
                inner.unconfined,
            )
            self.run.warnings += inner.warnings
            self.run.buts += inner.buts

    # ------------------------------------------------------------ the eval.py

    def wanted(self) -> list[CaseSpec]:
        if not self.beside:
            return self.plan.cases
        if self.plan.mode == "profile" and not self.run.timed:
            return []
        return [case for case in self.plan.cases if case.index in self.ours and self.ours[case.index].status in JUDGED]

    def run_eval(self) -> None:
        """Once, and again with the cases that are left where one has ended it."""
        left, hangs = self.wanted() if self.run.broken is None else [], 0
        mode = self.plan.mode if self.run.timed else "test"
        self.plan.device.prepare_builds()
        with Workspace(self.plan.problem, self.plan.submission, keeps_builds(self.plan.device)) as workspace:
            self.workspace, names = workspace, set[str]()
            if self.plan.device.emulated and not self.beside:  # programs within texts call as well
                files = (data for name, data in workspace.files.items() if name != workspace.submission)
                names = {word for data in files for word in WORD.findall(data.decode(errors="replace"))}
            while left:
                (workspace.make_folder() / "cases.txt").write_text("".join(f"{case.spec}\n" for case in left))
                log = OfficialLog(left, self.run.timed, self.begun, self.told)
                process = _Process(self.plan, workspace, mode, names, self.heard)
                status, message = process.supervise(log, self.listener)
                left = self.close(log, process, status, message, mode)
                self.run.unconfined = log.unconfined or []
                hangs = hangs + 1 if status is Status.TIMEOUT else 0
                if left and (process.stood_still or hangs >= HANGS_BEFORE_STOP):
                    self.tell_not_run(
                        left, STOPS if process.stood_still else f"{hangs} cases in a row did not end in time"
                    )
                    left = []

    def close(self, log: OfficialLog, ended: _Process, status: Status, message: str, mode: str) -> list[CaseSpec]:
        """What the eval.py left unsaid: the case that was running is to blame. Returns those to run again with."""
        begun, others, tail = log.undecided, log.verdicts, ended.tail
        log.finish()
        message = log.error or message
        if status is Status.PASS and log.check != "pass" and all(case.passed for case in others):
            status, message = Status.ERROR, f"eval.py ended without a passing check ({log.check or 'none'})"
        blamed = begun or (log.open[0] if log.open and not others else None)
        if status is not Status.PASS and blamed is not None:
            place = tail.stack_place(ended.folder)
            text = message + (f" ({place})" if place else "") + f"; {WAITS_ANYWAY}" * ended.stood_still
            words = tail.last_words()
            log.tell(blamed, CaseResult(blamed.index, blamed.spec, status, text, last_words=words, fault=ended.fault))
        elif status is not Status.PASS and not log.open and all(case.passed for case in others):
            self.run.notes.append(message)
            self.run.broken = CaseResult(-1, "", status, message, last_words=tail.last_words())
        if status is not Status.PASS and (begun or others) and mode in ("test", "benchmark"):
            return log.open
        if not (mode == "leaderboard" and log.check == "pass"):  # some time the last case alone
            self.tell_not_run(log.open, NOT_REACHED)
        return []

    # ------------------------------------------------------------ what a case's verdict is made of

    def begun(self, case: CaseSpec) -> None:
        self.listener.case_started(case, self.places[case.index], len(self.plan.cases))

    def heard(self, message: Any) -> None:
        """A call: of the case whose verdict comes next."""
        if isinstance(message, Ready):
            self.run.fingerprint = message.fingerprint
        else:
            self.called.append(message)

    def told(self, theirs: CaseResult) -> None:
        ours = self.ours.get(theirs.index)
        if theirs.passed and (changes := self.workspace.changed()):
            theirs.status = Status.TAMPERED
            theirs.message = f"the submission changed its run folder: {', '.join(changes)}"
        self.tell_before(self.places[theirs.index])
        self.tell(self.seen(theirs) if ours is None else together(ours, theirs))

    def seen(self, result: CaseResult) -> CaseResult:
        """With what its calls did, as a worker of ours would have told it."""
        called, self.called = self.called, []
        case = self.plan.cases[self.places[result.index]]
        result.calls = len(called)
        texts = {name: data.decode(errors="replace") for name, data in self.workspace.files.items()}
        result.device_report = with_author_places(report_of(called), texts, ROOT)
        result.last_words = with_author_places(result.last_words, texts, ROOT)
        if self.plan.device.emulated and result.passed and not called:
            result.buts.append(UNSEEN)
        look(self.plan, case, result, {number: [RankAnswer(None, 0.0, one)] for number, one in enumerate(called)})
        return result

    def tell_not_run(self, cases: Sequence[CaseSpec], why: str) -> None:
        for case in list(cases):
            self.told(CaseResult(case.index, case.spec, Status.NOT_RUN, why))

    def tell_before(self, place: int) -> None:
        """The cases before this place that the eval.py did not get: ours alone has judged them."""
        while self.at < place:
            if (ours := self.ours.get(self.plan.cases[self.at].index)) is not None:
                self.tell(ours)
            else:
                self.at += 1

    def tell_rest(self) -> None:
        self.tell_before(len(self.plan.cases))

    def tell(self, result: CaseResult) -> None:
        self.at = self.places[result.index] + 1
        self.run.cases.append(result)
        self.listener.case_finished(result)


def together(ours: CaseResult, theirs: CaseResult) -> CaseResult:
    """Our judge's result of a case with the eval.py's verdict: it passes where both say so."""
    ours.stats, ours.profile = theirs.stats, theirs.profile or ours.profile
    if theirs.passed:
        if ours.passed:
            ours.message = ours.message or theirs.message
        else:
            ours.official = True
            ours.remarks.append("the folder's own eval.py passes this")
        return ours
    if ours.passed:
        ours.official, ours.buts, ours.last_words = False, [], theirs.last_words
        ours.status, ours.message = theirs.status, f"the folder's own eval.py: {theirs.message}"
    return ours


def report_of(called: Sequence[Called]) -> CaseReport:
    """What the last call of each function did, together, and what the checks found in any."""
    last = {one.phase: one.device_report for one in called}
    kernels: dict[str, KernelReport] = {}
    for function, one in last.items():
        for name, kernel in one.kernels.items():
            kernels[name if name not in kernels else f"{name} in {function}"] = kernel
    times = [one.modelled for one in last.values() if one.modelled]
    cold, warm = [time.cold for time in times], [time.warm for time in times]
    told = CaseReport(
        kernels=kernels,
        modelled=ModelledTimes(added(cold).rounded(), added(warm).rounded(), times[0].what) if times else None,
        **{count: sum(getattr(one, count) for one in last.values()) for count in COUNTS},
        autotuned=tuple(text for one in last.values() for text in one.autotuned),
        torch=tuple(row for one in last.values() for row in one.torch),
    )
    return merged(told, [told, *(one.device_report for one in called)])
