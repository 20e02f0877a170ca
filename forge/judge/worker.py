"""A worker: the process in which one rank of a submission runs. It does what it is told, case by case.

Forked by forge/judge/fork_server.py with its descriptor of the private channel. It trusts nothing that happens after
the submission is imported, and need not clean up: the evaluator ends it, and everything it started.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import dataclasses
import faulthandler
import importlib
import itertools
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from forge.judge.channel import Message, worker_end
from forge.judge.triton_errors import first_cause, is_tritons, message_of, said_of

TRITON = f"{os.sep}triton{os.sep}"
TRACE_FRAMES, TRACE_LINES, LINE_CHARS = 4, 6, 300  # of an exception: frames, lines of its text, width of each
MESSAGE_CHARS = 4000
PR_SET_PDEATHSIG = 1
JUDGE = Path(__file__).resolve().parent


class TaskBroken(Exception):
    """The problem's own files do not import: not the submission's fault."""


def supervise_worker(fd: int, status_fd: int, root: str, broken: BaseException | None) -> NoReturn:
    """Forks a worker and reports how it ended. This is the parent that a submission sees: killing it tells on it.

    fd: the worker's channel; root: of the repository, first in sys.path; broken: why torch could not be imported.
    """
    die_with_parent()
    os.write(status_fd, f"{os.getpid()}\n".encode())
    worker = os.fork()
    if worker:
        os.close(fd)
        code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
        os.write(status_fd, str(code).encode())
        os._exit(0)
    os.close(status_fd)
    die_with_parent()
    send, receive = worker_end(fd)
    faulthandler.enable()
    setup = receive()
    if setup is not None:
        Worker(setup, send, receive).serve(root, broken)
    os._exit(0)  # not sys.exit: threads that the submission left behind could hold it up


def die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):  # not Linux
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Worker:
    def __init__(self, setup: Message, send: Callable[[Message], None], receive: Callable[[], Message | None]) -> None:
        self.setup, self.send, self.receive = setup, send, receive
        self.rank: int | None = setup["rank"]
        self.device: Any = None
        self.place = "start"  # the phase that the worker is in
        self.outcome: Any = None  # of the last run, until the evaluator has asked for its accuracy
        self.commands: dict[str, Callable[[Message], None]] = {
            "run": self.run,
            "accuracy": self.accuracy,
            "back-to-back": self.back_to_back,
            "begin-tuning": self.begin_tuning,
            "run-row": self.run_row,
            "check-row": self.check_row,
            "time-row": self.time_row,
            "end": self.end,
        }

    def phase(self, name: str) -> None:
        self.place = name
        self.send({"event": "phase", "phase": name})

    def serve(self, root: str, broken: BaseException | None) -> None:
        self.send({"event": "pid", "pid": os.getpid()})
        try:
            self.phase("import torch")
            self.prepare(root, broken)
        except TaskBroken as error:
            self.send({"event": "task-broken", "message": str(error)})
            return
        except BaseException as error:  # SystemExit at import included
            event = "device-broken" if self.is_device_fault(error) else "broken"
            self.send({"event": event, "phase": self.place, **self.describe(error)})
            return
        self.send({"event": "ready", "fingerprint": self.fingerprint})
        while (command := self.receive()) is not None:
            self.commands[command["command"]](command)

    def is_device_fault(self, error: BaseException) -> bool:
        return self.device is not None and self.device.is_device_fault(error)

    def describe(self, error: BaseException) -> Message:
        return describe(error, self.setup["folder"])

    # ------------------------------------------------------------ getting ready

    def prepare(self, root: str, broken: BaseException | None) -> None:
        """Device, torch, reference, then the submission; each once."""
        from forge.device import resolve
        from forge.task.harness import harness_named

        self.device = resolve(self.setup["device"], self.setup["arch"])
        if broken is not None:
            raise broken
        self.device.prepare()
        import torch

        from forge.judge import (
            compare,
            integrity,
            measure,  # all of ours before its folder leaves sys.path
        )
        from forge.tune import candidates

        self.candidates, self.compare, self.measure = candidates, compare, measure
        sys.path.remove(root)
        if os.path.isdir(os.path.join(root, "kernels")):  # an editable install may have put the checkout there
            sys.path[:] = [entry for entry in sys.path if entry != root]
        self.fingerprint = plain(self.device.fingerprint())
        harness = harness_named(self.setup["harness"])
        self.reseed()
        self.phase("import reference")
        try:
            reference = importlib.import_module("reference")
            generate_input, check = reference.generate_input, reference.check_implementation
        except BaseException as error:
            raise TaskBroken(f"reference.py does not load: {self.describe(error)['message']}") from None
        task = {
            "generate_input": generate_input,
            "check_implementation": check,
            "ref_kernel": getattr(reference, "ref_kernel", None),
            "harness": harness,
            "phase": self.phase,
            "timed": self.setup["timed"],
            "synchronize": measure.synchronize_function(),
            "event": torch.cuda.Event if torch.cuda.is_available() else None,
            "reseed": self.reseed,
        }
        self.watch = integrity.Watch()
        self.phase("import submission")
        submission = importlib.import_module("submission")
        kernel = getattr(submission, "custom_kernel", None)
        if not callable(kernel):
            raise AttributeError("submission.py defines no custom_kernel(data)")
        self.submission = submission
        self.task = measure.Task(custom_kernel=kernel, **task)
        self.harness = harness

    def reseed(self) -> None:
        import torch

        seed = self.setup["seed"] or 42
        random.seed(seed)
        torch.manual_seed(seed)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(seed % 2**32)

    # ------------------------------------------------------------ one case

    def run(self, command: Message) -> None:
        """Runs one case and sends its result. A rank's process group stays until `end`."""
        if command["mode"] in ("benchmark", "profile"):
            self.device.count_work()
        self.device.case_report()  # drop what was launched before
        result: Message = {"event": "result", "status": "error", "message": ""}
        started = time.monotonic()
        try:
            if command["port"]:
                self.join(command["args"]["world_size"], command["port"])
            outcome, extra = self.dispatch(command)
            self.outcome = outcome
            result["status"] = "pass" if outcome.good else "fail"
            result["message"] = outcome.message[:MESSAGE_CHARS]
            result["check_s"] = self.task.check_s
            if outcome.stats is not None:
                result["stats"] = dataclasses.asdict(outcome.stats)
            result.update(extra)
        except BaseException as error:  # whatever a submission raises, SystemExit included, is its result
            result.update(self.describe(error))
            if self.is_device_fault(error):
                result["event"] = "device-broken"
        result["phase"] = self.place
        result["elapsed_s"] = time.monotonic() - started
        result["report"] = plain(self.device.case_report())
        result["replaced"] = self.watch.replaced()
        self.send(result)

    def dispatch(self, command: Message) -> tuple[Any, Message]:
        measure, task, args, kind = self.measure, self.task, command["args"], command["kind"]
        rank = self.rank if command["port"] else None
        if kind == "test":
            run_test = measure.run_test(task, args) if rank is None else measure.run_rank_test(task, args, rank)
            return run_test, {}
        if kind == "profile":
            outcome, table = measure.run_profile(task, args, rank)
            return outcome, {"profile": table}
        mode = command["mode"]
        repeats = self.harness.warm_up(mode) if kind == "warm-up" else self.harness.repeats(mode)
        recheck = mode == "leaderboard" and kind != "warm-up"
        with self.no_grad():
            if rank is None:
                return measure.run_benchmark(task, args, repeats, recheck), {}
            return measure.run_rank_benchmark(task, args, rank, repeats, recheck), {}

    def no_grad(self) -> contextlib.AbstractContextManager[Any]:
        import torch

        return torch.no_grad() if self.harness.no_grad else contextlib.nullcontext()

    def join(self, world_size: int, port: int) -> None:
        """Makes the process group, as the official evaluator does before each case."""
        import torch
        import torch.distributed as dist

        assert self.rank is not None
        self.phase("init_process_group")
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
        options: dict[str, Any] = {}
        if self.device.dist_backend == "nccl":
            options["device_id"] = torch.device(f"cuda:{self.rank}")
        dist.init_process_group(
            self.device.dist_backend,
            init_method="env://",
            rank=self.rank,
            world_size=world_size,
            **options,
        )

    def end(self, command: Message) -> None:
        """Leaves the process group and forgets the case."""
        self.outcome = None
        error = ""
        try:
            if command["port"]:
                import torch.distributed as dist

                self.phase("destroy_process_group")
                if dist.is_initialized():
                    dist.destroy_process_group()
        except BaseException as problem:
            error = self.describe(problem)["message"]
        self.phase("idle")
        self.send({"event": "ended", "error": error})

    # ------------------------------------------------------------ tuning

    def begin_tuning(self, command: Message) -> None:
        """Makes a case's process group, data and reference, for the rows that follow."""

        def begin() -> Message:
            if command["port"]:
                self.join(command["args"]["world_size"], command["port"])
            if not self.setup["timed"]:
                self.device.count_work()
            rank = self.rank if command["port"] else None
            with self.no_grad():
                self.bench = self.candidates.Bench(self.task, self.submission, command["args"], rank)
            return {}

        self._answer("begun", begin)

    def run_row(self, command: Message) -> None:
        def run() -> Message:
            self.device.case_report()  # drop what was launched before
            key = None if command["key"] is None else ast.literal_eval(command["key"])
            with self.no_grad():
                found = self.bench.run_row(key, command["row"])
            return plain({**found, "report": self.device.case_report()})

        self._answer("ran", run)

    def check_row(self, command: Message) -> None:
        self._answer("checked", lambda: self.bench.check_row())

    def time_row(self, command: Message) -> None:
        def time_it() -> Message:
            with self.no_grad():
                return self.bench.time_row(command["best_us"])

        self._answer("timed", time_it)

    def _answer(self, event: str, act: Callable[[], Message]) -> None:
        reply: Message = {"event": event, "status": "error"}
        try:
            reply.update(act(), status="pass")
        except BaseException as error:
            reply.update(self.describe(error), last_line=last_line(error))
            if self.is_device_fault(error):
                reply["event"] = "device-broken"
            try:
                self.task.synchronize()
            except Exception:  # a GPU that faulted answers nothing any more in this process
                reply["lost"] = True
        reply["phase"] = self.place
        self.send(reply)

    # ------------------------------------------------------------ beside the verdict

    def accuracy(self, command: Message) -> None:
        """Relative L2 error of the output that was judged, and its worst element."""
        reply: Message = {"event": "accuracy"}
        self.phase("accuracy")
        try:
            reply.update(self.compare_output(self.outcome, ranks=bool(command["port"])))
        except BaseException as error:
            reply["problem"] = self.describe(error)["message"]
        self.outcome = None
        self.send(reply)

    def back_to_back(self, command: Message) -> None:
        """Times calls without a pause between them, which no official evaluator makes."""
        self.outcome = None

        def call() -> Message:
            rank = self.rank if command["port"] else None
            with self.no_grad():
                times = self.measure.run_back_to_back(self.task, command["args"], rank)
            return {**times, "replaced": self.watch.replaced()}

        self._answer("back-to-back", call)

    def compare_output(self, outcome: Any, ranks: bool) -> Message:
        task, compare = self.task, self.compare
        ref_kernel = task.ref_kernel
        if ref_kernel is None:
            return {"problem": "reference.py has no ref_kernel"}

        def make_data() -> Any:
            task.reseed()
            return task.generate_input(**outcome.args)

        if ranks:  # one collective call, the same on every rank
            plain_reference = best = ref_kernel(make_data())
            kind = "reference"
        else:
            plain_reference, best, kind = compare.best_reference(ref_kernel, make_data)
        accuracy = compare.accuracy_of(outcome.output, best, kind)
        dtypes = compare.dtype_differences(outcome.output, plain_reference)
        return plain({**accuracy.as_dict(), "dtypes": dtypes})


def plain(value: Any) -> Any:
    """Only what JSON knows."""
    return json.loads(json.dumps(value, default=str))


# ---------------------------------------------------------------- exceptions


def describe(error: BaseException, folder: str) -> Message:
    """An exception as a result: one line with its place in the run folder, and the trace below our code."""
    kind = type(error).__name__
    try:
        lines = str(error).strip().splitlines() or [""]
    except Exception:
        lines = ["(its text cannot be made)"]
    if isinstance(error, SystemExit):
        kind, lines = f"sys.exit({error.code!r})", [""]
    frames = traceback.extract_tb(_below_forge(error.__traceback__))
    if is_tritons(error):
        cause, code, excerpt = first_cause(error)
        lines = [said_of(message_of(cause), code), *excerpt]
        frames = traceback.StackSummary(itertools.takewhile(lambda frame: TRITON not in frame.filename, frames))
    place = _place(error.__traceback__, folder)
    first = lines[0].strip()[:LINE_CHARS]
    message = kind + (f": {first}" if first else "") + (f" ({place})" if place else "")
    trace = "".join(frames.format()[-TRACE_FRAMES:]).splitlines() + [f"{kind}: {lines[0]}", *lines[1:TRACE_LINES]]
    if len(lines) > TRACE_LINES:
        trace.append(f"... and {len(lines) - TRACE_LINES} more lines")
    return {"status": "error", "message": message, "trace": "\n".join(line[:LINE_CHARS] for line in trace)}


def last_line(error: BaseException) -> str:
    """Of a text of several lines, the last: where a C++ compiler says what is wrong. Empty if there is one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:LINE_CHARS] if len(lines) > 1 and not is_tritons(error) else ""


def _below_forge(trace: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that starts with the first frame outside the evaluator."""
    start = trace
    while start is not None and Path(start.tb_frame.f_code.co_filename).parent == JUDGE:
        start = start.tb_next
    while start is not None and "importlib" in start.tb_frame.f_code.co_filename:
        start = start.tb_next
    return start


def _place(trace: TracebackType | None, folder: str) -> str:
    """submission.py:12, in custom_kernel: the innermost frame in the run folder."""
    place = ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if os.path.dirname(name) == folder:
            place = f"{os.path.basename(name)}:{trace.tb_lineno}, in {trace.tb_frame.f_code.co_name}"
        trace = trace.tb_next
    return place
