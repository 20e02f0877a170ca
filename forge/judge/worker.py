"""A worker: the process in which one rank of a submission runs. It does what it is asked, case by case.

Forked by forge/judge/fork_server.py with its descriptor of the private channel. It trusts nothing that happens after
the submission is imported, and need not clean up: the evaluator ends it, and everything it started.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import faulthandler
import importlib
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from forge.judge import messages
from forge.judge.channel import worker_end
from forge.judge.failure import describe
from forge.judge.results import Accuracy, Status

MESSAGE_CHARS = 4000
PR_SET_PDEATHSIG = 1

Fields = dict[str, Any]  # of an answer
Act = Callable[[], Fields]


class TaskFault(Exception):
    """The problem's own files do not import: not the submission's fault."""


def supervise_worker(fd: int, status_fd: int, root: str, broken: BaseException | None, module: str) -> NoReturn:
    """Forks a worker and reports how it ended. This is the parent that a submission sees: killing it tells on it.

    fd: the worker's channel; root: of the repository, first in sys.path; broken: why torch could not be imported;
    module: the one whose WORKER serves.
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
    kind: type[Worker] = importlib.import_module(module).WORKER
    send, receive = worker_end(fd, kind.commands)
    faulthandler.enable()
    setup = receive()
    if setup is not None:
        kind(setup, send, receive).serve(root, broken)
    os._exit(0)  # not sys.exit: threads that the submission left behind could hold it up


def die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):  # not Linux
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Worker:
    commands: tuple[type, ...] = messages.COMMANDS

    def __init__(self, setup: messages.Setup, send: Callable[[Any], None], receive: Callable[[], Any]) -> None:
        self.setup, self.send, self.receive = setup, send, receive
        self.device: Any = None
        self.place = "start"  # the phase that the worker is in
        self.outcome: Any = None  # of the last run, until the evaluator has asked for its accuracy
        self.handlers: dict[type, Callable[[Any], None]] = {
            messages.RunCase: self.run,
            messages.CompareOutput: self.compare_output,
            messages.CallBackToBack: self.call_back_to_back,
            messages.EndCase: self.end,
        }

    def phase(self, name: str) -> None:
        self.place = name
        self.send(messages.Phase(name))

    def serve(self, root: str, broken: BaseException | None) -> None:
        self.send(messages.Pid(os.getpid()))
        self.answer(messages.Ready, lambda: self.prepare(root, broken))
        while (command := self.receive()) is not None:
            self.handlers[type(command)](command)

    def answer(
        self, kind: type[messages.Answer], act: Callable[[], Fields], always: Callable[[], Fields] = dict
    ) -> None:
        """Does something and sends what came of it: the fields that it returns, or how it failed.

        always: fields of the answer in both cases. Whatever a submission raises, SystemExit included, is its result.
        """
        fields: Fields
        try:
            fields = act()
        except TaskFault as fault:
            return self.send(messages.TaskBroken(str(fault)))
        except BaseException as error:
            fields = {"status": Status.ERROR, **describe(error, self.setup.folder), **self.after_failure()}
            if self.device is not None and self.device.is_device_fault(error):
                return self.send(messages.DeviceBroken(fields["message"]))
        self.send(kind(**fields, **always(), phase=self.place))

    def after_failure(self) -> Fields:
        """Fields of an answer that only a failure has."""
        return {}

    # ------------------------------------------------------------ getting ready

    def prepare(self, root: str, broken: BaseException | None) -> Fields:
        """Device, torch, reference, then the submission; each once."""
        from forge.device import resolve
        from forge.task.harness import harness_named

        self.phase("import torch")
        self.device = resolve(self.setup.device, self.setup.arch)
        if broken is not None:
            raise broken
        self.device.prepare()
        import torch

        self.import_ours()
        sys.path.remove(root)
        if os.path.isdir(os.path.join(root, "kernels")):  # an editable install may have put the checkout there
            sys.path[:] = [entry for entry in sys.path if entry != root]
        fingerprint = plain(self.device.fingerprint())
        self.harness = harness_named(self.setup.harness)
        self.reseed()
        self.phase("import reference")
        try:
            reference = importlib.import_module("reference")
            generate_input, check = reference.generate_input, reference.check_implementation
        except BaseException as error:
            raise TaskFault(f"reference.py does not load: {describe(error, self.setup.folder)['message']}") from None
        task = {
            "generate_input": generate_input,
            "check_implementation": check,
            "ref_kernel": getattr(reference, "ref_kernel", None),
            "harness": self.harness,
            "phase": self.phase,
            "timed": self.setup.timed,
            "synchronize": self.measure.synchronize_function(),
            "event": torch.cuda.Event if torch.cuda.is_available() else None,
            "reseed": self.reseed,
        }
        self.watch = self.integrity.Watch()
        self.phase("import submission")
        self.submission = importlib.import_module("submission")
        kernel = getattr(self.submission, "custom_kernel", None)
        if not callable(kernel):
            raise AttributeError("submission.py defines no custom_kernel(data)")
        self.task = self.measure.Task(custom_kernel=kernel, **task)
        return {"fingerprint": fingerprint}

    def import_ours(self) -> None:
        """All of ours that imports torch, before our folder leaves sys.path."""
        from forge.judge import compare, integrity, measure, ranks

        self.compare, self.integrity, self.measure = compare, integrity, measure
        self.group = ranks.Group
        self.ranks = self.alone = ranks.Ranks()

    def reseed(self) -> None:
        import torch

        seed = self.setup.seed or 42
        random.seed(seed)
        torch.manual_seed(seed)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(seed % 2**32)

    # ------------------------------------------------------------ one case

    def run(self, command: messages.RunCase) -> None:
        """Runs one case and sends its result. A rank's process group stays until `end`."""
        if command.mode in ("benchmark", "profile"):
            self.device.count_work()
        self.device.case_report()  # drop what was launched before
        self.answer(messages.CaseRun, lambda: self.run_case(command), self.after_calls)

    def run_case(self, command: messages.RunCase) -> Fields:
        task, args, mode = self.task, command.args, command.mode
        self.join(args, command.rank, command.port)
        profile = ""
        if mode == "test":
            outcome = self.measure.run_test(task, self.ranks, args)
        elif mode == "profile":
            outcome, profile = self.measure.run_profile(task, self.ranks, args)
        else:
            repeats = self.harness.warm_up(mode) if command.warm_up else self.harness.repeats(mode)
            recheck = mode == "leaderboard" and not command.warm_up
            with self.no_grad():
                outcome = self.measure.run_benchmark(task, self.ranks, args, repeats, recheck)
        self.outcome = outcome
        return {
            "status": Status.PASS if outcome.good else Status.FAIL,
            "message": outcome.message[:MESSAGE_CHARS],
            "check_s": task.check_s,
            "stats": outcome.stats,
            "profile": profile,
        }

    def after_calls(self) -> Fields:
        return {"device_report": plain(self.device.case_report()), "replaced": tuple(self.watch.replaced())}

    def no_grad(self) -> contextlib.AbstractContextManager[Any]:
        import torch

        return torch.no_grad() if self.harness.no_grad else contextlib.nullcontext()

    def join(self, args: Fields, rank: int | None, port: int) -> None:
        """Makes a case's process group, if it has one."""
        if rank is not None:
            self.phase("init_process_group")
            self.ranks = self.group(rank, args["world_size"], port, self.device.dist_backend)

    def end(self, command: messages.EndCase) -> None:
        """Leaves the process group and forgets the case."""
        self.outcome = None
        ranks, self.ranks = self.ranks, self.alone

        def leave() -> Fields:
            if ranks is not self.alone:
                self.phase("destroy_process_group")
                ranks.leave()
            return {}

        self.answer(messages.CaseEnded, leave)
        self.phase("idle")

    # ------------------------------------------------------------ beside the verdict

    def compare_output(self, command: messages.CompareOutput) -> None:
        """Relative L2 error of the output that was judged, and its worst element."""
        outcome, self.outcome = self.outcome, None
        self.phase("accuracy")
        self.answer(messages.Compared, lambda: {"accuracy": self.accuracy_of(outcome)})

    def accuracy_of(self, outcome: Any) -> Accuracy:
        task, compare = self.task, self.compare
        ref_kernel = task.ref_kernel
        if ref_kernel is None:
            return Accuracy(problem="reference.py has no ref_kernel")

        def make_data() -> Any:
            task.reseed()
            return task.generate_input(**outcome.args)

        try:
            if self.ranks is not self.alone:  # one collective call, the same on every rank
                plain_reference = best = ref_kernel(make_data())
                kind = "reference"
            else:
                plain_reference, best, kind = compare.best_reference(ref_kernel, make_data)
            accuracy: Accuracy = compare.accuracy_of(outcome.output, best, kind)
        except BaseException as error:
            return Accuracy(problem=describe(error, self.setup.folder)["message"])
        dtypes = compare.dtype_differences(outcome.output, plain_reference)
        return dataclasses.replace(accuracy, dtypes=tuple(dtypes))

    def call_back_to_back(self, command: messages.CallBackToBack) -> None:
        """Times calls without a pause between them, which no official evaluator makes."""
        self.outcome = None

        def call() -> Fields:
            with self.no_grad():
                times: Fields = self.measure.run_back_to_back(self.task, self.ranks, command.args)
            return {**times, "replaced": tuple(self.watch.replaced())}

        self.answer(messages.CalledBackToBack, call)


def plain(value: Any) -> Any:
    """Only what JSON knows."""
    return json.loads(json.dumps(value, default=str))


WORKER = Worker
