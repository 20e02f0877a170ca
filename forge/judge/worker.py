"""A worker: the process in which one rank of a submission runs. It does what it is asked, call by call.

Forked by forge/judge/fork_server.py with its descriptor of the private channel. It judges nothing: what it sends back
is bytes (forge/judge/exchange.py), which a referee (forge/judge/referee.py) looks at in a process of its own. Nor need
it clean up: the evaluator ends it, and everything it started.
"""

import contextlib
import errno
import faulthandler
import importlib
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from forge.device.base import PRODUCTS
from forge.device.roofline import with_torch
from forge.judge import landlock, messages
from forge.judge.channel import worker_end
from forge.judge.failure import describe
from forge.judge.libc import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, try_prctl
from forge.judge.memory import give_back_freed_memory, keep_freed_memory
from forge.judge.process_tree import forget_it, machines_pid
from forge.judge.results import Status

Fields = dict[str, Any]  # of an answer
Act = Callable[[], Fields]


class TaskFault(Exception):
    """The problem's own files do not import: not the submission's fault."""


def supervise_worker(
    fd: int,
    status: tuple[int, bytes],
    root: str,
    broken: BaseException | None,
    module: str,
    memory: list[int],
    builder: int | None = None,
    apart: bool = False,
) -> NoReturn:
    """Forks a worker and reports how it ended. This is the parent that a submission sees: killing it tells on it.

    fd: the worker's channel; status: where to tell it, and what to tell at once; root: of the repository, first in
    sys.path; broken: why torch could not be imported; module: the one whose WORKER serves; memory: descriptors of
    exchanges; builder: the line to one; apart: no other worker that is confined may look into it.
    """
    die_with_parent()
    status_fd, told = status
    os.write(status_fd, told + b"\n")
    worker = os.fork()
    if worker:
        os.close(fd)
        code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
        os.write(status_fd, str(code).encode())
        os._exit(0)
    os.close(status_fd)
    die_with_parent()
    if apart:
        with contextlib.suppress(OSError):  # said of the room
            landlock.set_apart()
    kind: type[Worker] = importlib.import_module(module).WORKER
    send, receive = worker_end(fd, kind.commands)
    words = os.dup(2)  # which is still there where a submission silences its own
    faulthandler.enable(words)
    faulthandler.register(messages.WHERE, words)
    setup = receive()
    if setup is not None:
        one = kind(setup, send, receive, memory)
        one.builder = builder
        one.serve(root, broken)
    os._exit(0)  # not sys.exit: threads that the submission left behind could hold it up


def machine_fault(error: BaseException, folder: str) -> bool:
    """Whether an exception says that a disk is full or cannot be written to, where no line of the submission writes."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EROFS, errno.EDQUOT):
        return False
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return bool(files) and os.path.dirname(files[-1]) != folder


def die_with_parent() -> None:
    try_prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Worker:
    """What all kinds have in common: the device, torch, the task's files, and a case's process group."""

    commands: tuple[type, ...] = messages.COMMANDS
    is_referee = False

    def __init__(
        self, setup: messages.Setup, send: Callable[[Any], None], receive: Callable[[], Any], memory: list[int]
    ) -> None:
        self.setup, self.send, self.receive, self.memory = setup, send, receive, memory
        self.device: Any = None
        self.builder: int | None = None
        self.place = "start"  # the phase that the worker is in
        self.handlers: dict[type, Callable[[Any], None]] = {
            messages.BeginCase: self.begin_case,
            messages.EndCase: self.end,
        }

    def phase(self, name: str) -> None:
        self.place = name
        self.send(messages.Phase(name))

    def serve(self, root: str, broken: BaseException | None) -> None:
        self.send(messages.Pid(machines_pid()))
        forget_it()
        self.answer(messages.Ready, lambda: self.prepare(root, broken))
        while (command := self.receive()) is not None:
            self.handlers[type(command)](command)

    def answer(self, kind: type[messages.Answer], act: Act, always: Act = dict) -> None:
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
            ours = self.device is not None and self.device.is_device_fault(error)
            if ours or machine_fault(error, self.setup.folder):
                return self.send(messages.DeviceBroken(fields["message"]))
        answer = kind(**fields, **always(), phase=self.place)
        del fields
        if self.device is not None and self.device.emulated:
            give_back_freed_memory()
        self.send(answer)

    def after_failure(self) -> Fields:
        """Fields of an answer that only a failure has."""
        return {}

    # ------------------------------------------------------------ getting ready

    def prepare(self, root: str, broken: BaseException | None) -> Fields:
        """Device, torch and the reference, each once."""
        from forge.device import resolve
        from forge.task.harness import harness_named

        self.phase("import torch")
        self.device = resolve(self.setup.device, self.setup.arch)
        if broken is not None:
            raise broken
        self.device.prepare()
        if self.device.emulated:
            keep_freed_memory(self.is_referee)
        import torch

        self.import_ours()
        fingerprint = self.device.fingerprint()
        sys.path.remove(root)
        if os.path.isdir(os.path.join(root, "kernels")):  # an editable install may have put the checkout there
            sys.path[:] = [entry for entry in sys.path if entry != root]
        self.harness = harness_named(self.setup.harness)
        self.reseed()
        self.phase("import reference")
        try:
            reference = importlib.import_module("reference")
            generate_input, check = reference.generate_input, reference.check_implementation
        except BaseException as error:
            raise TaskFault(f"reference.py does not load: {describe(error, self.setup.folder)['message']}") from None
        self.task = self.measure.Task(
            generate_input=generate_input,
            check_implementation=check,
            ref_kernel=getattr(reference, "ref_kernel", None),
            settle=getattr(reference, "settle", None),
            probe=getattr(reference, "probe", None),
            redraw=getattr(reference, "redraw", None),
            part=getattr(reference, "part", None),
            harness=self.harness,
            phase=self.phase,
            timed=self.setup.timed,
            synchronize=self.measure.synchronize_function(),
            event=torch.cuda.Event if torch.cuda.is_available() else None,
            reseed=self.reseed,
        )
        return {"fingerprint": fingerprint}

    def import_ours(self) -> None:
        """All of ours that imports torch, before our folder leaves sys.path."""
        from forge.judge import exchange, measure, ranks

        self.exchange, self.measure = exchange, measure
        self.group = ranks.Group
        self.ranks = self.alone = ranks.Ranks()

    def reseed(self, seed: int | None = None) -> None:
        import torch

        seed = seed or self.setup.seed or 42
        random.seed(seed)
        torch.manual_seed(seed)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(seed % 2**32)

    def no_grad(self) -> contextlib.AbstractContextManager[Any]:
        import torch

        return torch.no_grad() if self.harness.no_grad else contextlib.nullcontext()

    # ------------------------------------------------------------ one case

    def begin_case(self, command: messages.BeginCase) -> None:
        def begin() -> Fields:
            self.join(command.world_size, command.rank, command.port)
            self.new_case(self.memory[command.exchange])
            return {}

        self.answer(messages.CaseBegun, begin)

    def new_case(self, memory: int | None) -> None:
        """memory: the descriptor of this rank's exchange; None at the end of a case."""

    def join(self, world_size: int | None, rank: int | None, port: int) -> None:
        """Makes a case's process group, if it has one."""
        if rank is not None and world_size is not None:
            self.phase("init_process_group")
            self.ranks = self.group(rank, world_size, port, self.device.dist_backend)

    def end(self, command: messages.EndCase) -> None:
        """Leaves the process group and forgets the case."""
        self.new_case(None)
        ranks, self.ranks = self.ranks, self.alone

        def leave() -> Fields:
            if ranks is not self.alone:
                self.phase("destroy_process_group")
                ranks.leave()
            return {}

        self.answer(messages.CaseEnded, leave)
        self.phase("idle")


class SubmissionWorker(Worker):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        try_prctl(PR_SET_DUMPABLE, 1)  # unlike the processes that judge: a submission may look at itself
        self.handlers |= {
            messages.Call: self.call,
            messages.FetchOutput: self.fetch,
            messages.CallBackToBack: self.call_back_to_back,
        }

    def import_ours(self) -> None:
        super().import_ours()
        from forge.judge import integrity, journal, operations

        self.integrity, self.operations, self.journals = integrity, operations, journal

    def prepare(self, root: str, broken: BaseException | None) -> Fields:
        ready = super().prepare(root, broken)
        self.entered = self.operations.count_entries(sys.modules["reference"], "ref_kernel")
        self.watch = self.integrity.Watch()
        if self.builder is not None:
            self.device.take_builder(self.builder)
        self.device.hear_children()
        self.host_work = self.operations.host_work()
        self.writers = self.device.writers()
        if self.writers is not None and self.setup.replayed:
            self.writers.place()
        self.phase("import submission")
        with self.operations.watch(self.writers is not None, writers=self.writers) as work:
            self.submission = importlib.import_module("submission")
        self.at_import = work.accounting
        kernel = getattr(self.submission, "custom_kernel", None)
        if not callable(kernel):
            raise AttributeError("submission.py defines no custom_kernel(data)")
        self.task.custom_kernel = kernel
        return ready

    def new_case(self, memory: int | None) -> None:
        self.data: Any = None
        self.inputs: Any = None  # where `data` lies
        self.outputs: list[Any] = []  # the first and the last
        self.work: Any = None  # of torch, in the last counted call
        self.kept: list[Any] = []  # inputs of earlier calls: what is elsewhere lies beside them
        self.flush: Callable[[], None] | None = None
        if memory is not None:
            self.from_judge = self.exchange.Region(memory, self.exchange.INPUTS)
            self.to_judge = [self.exchange.Region(memory, number) for number in self.exchange.OUTPUTS]

    def call(self, command: messages.Call) -> None:
        """One call. What it printed, and what its kernels did, is told even if it fails."""

        def call() -> Fields:
            self.before = ()
            if command.layout is not None:
                self.load(command.layout, command.where)
            self.before = self.device.case_report().findings  # as it was imported, say: no work of this call
            self.work = None
            self.device.set_checks(command.checks)
            self.device.count_work(command.count, command.sample)
            if command.how == "timed":
                return self.timed()
            calls: dict[str, Callable[[Any], Any]] = {"profile": self.profiled, "checked": self.unsynchronized}
            entered = self.entered()
            card = self.device.roofline() if command.count else None
            writers = None if command.sample else self.writers
            if writers is not None:
                given = [(storage.data_ptr(), len(storage)) for storage in self.inputs.storages]
                writers.begin(given, first=not self.outputs)
            notes: Any = None
            if writers is not None and command.journal:
                notes = self.journals.Notes(writers)
                writers.keep_journal(not self.outputs, self.journals.MOST_BYTES)
            sample = command.sample not in ("", PRODUCTS)
            self.host_work()
            free = self.operations.FREE_PASSES * sum(map(len, self.inputs.storages))
            with self.operations.watch(command.watched or command.count, card, sample, writers, notes, free) as work:
                self.work = work if command.count else None
                if command.watched:
                    self.device.watch_products(work.add_product)
                started = time.monotonic()
                output = calls.get(command.how, self.task.kernel)(self.data)
            fields: Fields = {"profile": "", "call_s": time.monotonic() - started}
            entries = notes.writers.journal() if notes is not None else b""
            if command.how == "profile":
                output, fields["profile"] = output
            if not command.sample:  # which is no call of the case
                self.outputs = [*self.outputs[:1], output]
            with contextlib.suppress(Exception):  # of what is no output: the referee says so
                self.device.look_at_output((n, t) for n, t, _ in self.exchange.named_tensors(output, "the output"))
            self.device.set_checks("none")  # what is read from here on the submission has not asked for
            work.entered_reference = self.entered() > entered
            fields["torch_work"], fields["host"] = work.told(), self.host_work()
            with work.accounting:
                if writers is not None:
                    fields["written"] = writers.of(self.operations.memory_of(output, writers))
            if notes is not None:
                fields["journal"] = self.journal_of(entries, notes, output)
            fields["unaccounted"] = (self.at_import.failed or work.accounting.failed)[:200]
            if command.slot is None:
                return fields
            self.phase("hand over the output")
            return {**fields, "output": self.exchange.write_output(output, self.inputs, self.to_judge[command.slot])}

        self.answer(messages.Called, call, self.after_call)

    def journal_of(self, entries: bytes | None, notes: Any, output: Any) -> messages.Journal:
        operations = notes.taken()
        if entries is None or len(entries) + len(operations) > self.journals.MOST_BYTES:
            return messages.Journal(missing="what it was made by is more than can be told")
        outputs = tuple(tensor.data_ptr() for tensor in self.exchange.tensors_in(output))
        inputs = tuple(storage.data_ptr() for storage in self.inputs.storages)
        return messages.Journal(entries, operations, inputs, outputs)

    def after_call(self) -> Fields:
        report = with_torch(self.device.case_report(), self.work.estimates if self.work else [], self.before)
        return {"device_report": report, "replaced": tuple(self.watch.replaced())}

    def load(self, layout: bytes, where: str) -> None:
        """Takes a new input from the exchange; at the end nothing waits on the GPU."""
        self.phase("take over the input")
        if where != "same" or self.inputs is None:
            if where == "elsewhere":
                self.kept.append((self.inputs, self.data))
            if self.inputs is not None:
                self.inputs.leave()
            self.inputs = self.exchange.Inputs(self.from_judge, shown=self.ranks is self.alone)
        self.data = self.inputs.read(layout)
        self.reseed()
        self.ranks.synchronize()

    def unsynchronized(self, data: Any) -> Any:
        """Officially nothing waits between a benchmark's checked call and its check."""
        return self.task.kernel(self.ranks.call_input(data), wait=not self.setup.timed)

    def profiled(self, data: Any) -> Any:
        return self.measure.profile(self.task, data)

    def timed(self) -> Fields:
        if self.flush is None:
            self.phase("timed runs")
            self.flush = self.measure.flush_function(self.harness)
        with self.no_grad():
            output, ns, late_ns = self.measure.timed_call(self.task, self.ranks, self.data, self.flush)
        self.outputs = [*self.outputs[:1], output]
        return {"ns": float(ns), "late_ns": float(late_ns)}

    def fetch(self, command: messages.FetchOutput) -> None:
        def fetch() -> Fields:
            output = self.outputs[0 if command.first else -1]
            return {"output": self.exchange.write_output(output, self.inputs, self.to_judge[command.slot])}

        self.answer(messages.Fetched, fetch)

    def call_back_to_back(self, command: messages.CallBackToBack) -> None:
        """Times calls without a pause between them, which no official evaluator makes."""

        def call() -> Fields:
            self.load(command.layout, "fresh")
            with self.no_grad():
                times, output = self.measure.run_back_to_back(self.task, self.ranks, self.data)
            self.outputs = [*self.outputs[:1], output]
            return {**times, "replaced": tuple(self.watch.replaced())}

        self.answer(messages.CalledBackToBack, call)


WORKER = SubmissionWorker
