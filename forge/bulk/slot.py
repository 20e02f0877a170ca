"""A process that judges submissions one after the other for whoever started it: eval.py without a person.

It speaks MessagePack on a connection: an Order comes in, Progress and a Verdict go out. Python's environment and path,
which a run changes for its workers, are put back after each. No submission's text runs in it.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection

import msgspec
from msgspec import Struct

from forge.bulk.reward import speedup_of, times_of
from forge.bulk.verdict import Request, Verdict, refused, verdict_of
from forge.commands.against import other_named
from forge.commands.jsonfile import document_of
from forge.commands.planning import eval_parser, make_plan
from forge.commands.run import exit_code_of, fill, new_run, with_hint
from forge.console import UsageError, end_on_signals
from forge.device import DeviceError
from forge.judge.fork_server import ForkServers
from forge.judge.plan import EvalPlan
from forge.judge.process_tree import adopt_orphans
from forge.judge.results import CaseResult
from forge.judge.worker_pool import TaskError
from forge.task.cases import CaseSpec

TELLS_EVERY_S = 0.5


class Baseline(Struct, frozen=True):
    name: str = ""  # as --against has it
    digest: str = ""  # of a file


class Order(Struct, frozen=True, tag=True):
    request: Request
    source: bytes
    name: str  # of the source, for people
    options: list[str]  # of eval.py
    baseline: Baseline = Baseline()

    @property
    def key(self) -> str:
        """The same for what is judged alike: the text, and all that is asked of it."""
        one = self.request
        beside = [self.baseline.name, self.baseline.digest] if self.baseline.name else []
        asked = json.dumps([one.problem, one.mode, one.cases, one.device, *self.options, *beside])
        return hashlib.sha256(asked.encode() + b"\0" + self.source).hexdigest()


class Progress(Struct, frozen=True, tag=True):
    text: str  # what is being done


class Done(Struct, frozen=True, tag=True):
    verdict: Verdict


Told = Progress | Done
told_decoder = msgspec.msgpack.Decoder(Told)


class Teller:
    """A Listener that tells whoever asked, and ends the run where nobody is left to hear of it."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.case, self.at_s = connection, "", 0.0

    def case_started(self, case: CaseSpec, position: int, count: int) -> None:
        self.case = f"case {position + 1} of {count}"

    def case_progress(self, phase: str, seconds: float) -> None:
        if self.connection.poll():  # nothing is asked meanwhile: it is closed
            raise KeyboardInterrupt
        if (now := time.monotonic()) >= self.at_s + TELLS_EVERY_S:
            self.at_s = now
            tell(self.connection, Progress(f"{self.case}: {phase}"))

    def case_forecast(self, text: str) -> None:
        pass

    def case_finished(self, result: CaseResult) -> None:
        pass


def tell(connection: Connection, message: Told) -> None:
    connection.send_bytes(msgspec.msgpack.encode(message))


@contextlib.contextmanager
def surroundings_kept() -> Iterator[None]:
    variables, path = dict(os.environ), list(sys.path)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(variables)
        sys.path[:] = path


def judge(order: Order, teller: Teller, servers: ForkServers) -> Verdict:
    """What eval.py would say of it, strictly."""
    request, key, started = order.request, order.key, time.monotonic()
    try:
        words = [f"--device={request.device}", f"--cases={request.cases}", f"--submission={order.name}", "--strict"]
        words += [*order.options, "--", request.mode, *filter(None, [request.problem])]
        args = eval_parser().parse_args(words)
        if args.json or args.sarif or args.against or args.show_output or args.compact or args.no_judge:
            raise UsageError("--json, --sarif, --against, --show-output, --compact and --no-judge are eval.py's own")
        plan, own_eval = make_plan(args, order.source)
        run = new_run(plan, own_eval)
        try:
            fill(run, plan, own_eval, teller, servers)
        except TaskError as error:
            raise with_hint(error, plan) from None
        exit_code = exit_code_of(run, run.passed, run.doubted, args.strict, args.trust)
        checked = getattr(plan.device, "checks", "") not in ("", "report:none")
        verdict = verdict_of(request, document_of(plan, run, exit_code, ["eval.py", *words]), key, checked)
        beside = order.baseline.name and own_eval is None
        return with_speedup(verdict, plan, order.baseline, teller, servers) if beside else verdict
    except (Exception, SystemExit) as error:
        if not isinstance(error, (DeviceError, TaskError)):
            traceback.print_exc()  # whoever started this process keeps the end of it
        return refused(request, error, key, time.monotonic() - started)


_baselines: dict[tuple[str, ...], dict[str, float]] = {}  # times by case


def with_speedup(verdict: Verdict, plan: EvalPlan, baseline: Baseline, teller: Teller, servers: ForkServers) -> Verdict:
    """Beside the baseline's times on the same cases, which are got once, for the first submission that has some."""
    mine = times_of(verdict.report)
    if verdict.reward is None or not mine:
        return verdict
    key = (baseline.name, baseline.digest, str(plan.problem.directory), plan.mode, plan.device.name, *mine)
    if key not in _baselines:
        theirs = dataclasses.replace(plan, submission=other_named(plan, baseline.name, "--baseline").submission)
        run = new_run(theirs, None)
        fill(run, theirs, None, teller, servers)
        _baselines[key] = times_of(document_of(theirs, run, 0, [])) if run.passed else {}
        if not _baselines[key]:
            raise UsageError(f"baseline {baseline.name}: has no times here: {run.verdict}")
    speedup = msgspec.structs.replace(verdict.reward.speedup, value=speedup_of(mine, _baselines[key]))
    reward = msgspec.structs.replace(verdict.reward, speedup=speedup, baseline=baseline.name)
    return msgspec.structs.replace(verdict, reward=reward)


def serve(fd: int) -> None:
    end_on_signals()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is for whoever started this process
    adopt_orphans()
    connection, decode, servers = Connection(fd), msgspec.msgpack.Decoder(Order).decode, ForkServers()
    with contextlib.suppress(KeyboardInterrupt, EOFError, OSError):
        while True:
            order = decode(connection.recv_bytes())
            with surroundings_kept():
                verdict = judge(order, Teller(connection), servers)
            tell(connection, Done(verdict))
    servers.close()
