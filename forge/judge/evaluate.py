"""One evaluation: a problem, a submission, a harness row and a device in; a Run out."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.util
import marshal
import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from msgspec import structs

from forge.device.base import EMULATED, Device
from forge.device.cards import CARDS
from forge.device.report import CaseReport
from forge.judge import kept_cases, landlock
from forge.judge.confinement import OURS
from forge.judge.forecast import WORTH_SAYING_S, Forecast
from forge.judge.fork_server import REPLAYS, ForkServer, ForkServers
from forge.judge.libc import PR_SET_DUMPABLE, try_prctl
from forge.judge.memory import make_memory
from forge.judge.messages import REFEREE_EVENTS, REPLAY_EVENTS, Setup
from forge.judge.plan import LARGE_FLOPS, LARGE_INSTRUCTIONS, LARGE_TORCH_FLOPS, EvalPlan, sample_of
from forge.judge.process_tree import is_hidden
from forge.judge.rank_order import RankOrder
from forge.judge.results import CaseResult, Run, Status
from forge.judge.standstill import STOPS
from forge.judge.triton_errors import lacking_format
from forge.judge.user_places import with_author_places
from forge.judge.verdict import CaseRun
from forge.judge.worker_pool import Progress, RankAnswer, WorkerPool, stop_at_once
from forge.judge.workspace import Workspace
from forge.task.cases import CaseSpec, spec_of
from forge.task.problem import ROOT, Problem

MOST_SOURCE_BYTES = 64 << 20  # a source that is larger is told by its size
PYC_HEAD_BYTES = 16
BEFORE_ALL = ("sitecustomize", "usercustomize")  # modules that Python imports by itself
SETTLED_NS = 2_000_000_000  # no file system tells times less exactly
FORETELLING = 8  # times the work of the small case, from which on that is run to tell how long another one takes
UNGUARDED = "if a kernel stores outside its memory, which damages the process here, --checks bounds says where"
HANGS_BEFORE_STOP = 2  # a submission that hung this often in a row is not given the other cases as well


class Listener(Protocol):
    """Hears of an evaluation's progress."""

    def case_started(self, case: CaseSpec, position: int, count: int) -> None: ...

    def case_progress(self, phase: str, seconds: float) -> None: ...

    def case_forecast(self, text: str) -> None:
        """Before a case that will be emulated for long: how long."""
        return None

    def case_finished(self, result: CaseResult) -> None: ...


def evaluate(plan: EvalPlan, run: Run, listener: Listener, servers: ForkServers | None = None) -> None:
    """Fills `run` case by case, so that an interrupted evaluation still has what it found. servers: that go on after
    it."""
    with Judge(plan, run, listener, servers) as judge:
        for position in range(len(judge.cases)):
            judge.step(position)
        run.complete = True


class Judge:
    """Context manager: a submission's workers and their referees, and its cases one by one."""

    def __init__(self, plan: EvalPlan, run: Run, listener: Listener, servers: ForkServers | None = None) -> None:
        self.plan, self.run, self.listener, self.servers = plan, run, listener, servers
        self.cases = _cases_of_mode(plan)
        self.stopped = ""  # why the cases that are left do not run
        self._warm = plan.mode not in ("benchmark", "leaderboard") or not run.timed
        self._hangs = 0
        self._small: CaseResult | None = None  # what stands for samples' correctness
        self._forecast = Forecast(plan)
        self._not_sampled = 0.0  # the largest case, by its FLOPs, of which a sample would have saved nothing

    def __enter__(self) -> Judge:
        try_prctl(PR_SET_DUMPABLE, 0)  # nor may a submission look into the process that counts its verdicts
        self._started = time.monotonic()
        self._digests = digests(self.plan.problem)
        self._packages = {} if landlock.there() else packages()  # which then nobody can change
        device = self.plan.device
        self.workspace = Workspace(self.plan.problem, self.plan.submission, keeps_builds=keeps_builds(device))
        self._texts = {name: data.decode(errors="replace") for name, data in self.workspace.files.items()}
        self.workspace.__enter__()
        environment = run_environment(self.plan, self.workspace)
        environment["TMPDIR"] = str(self.workspace.root / OURS)  # no submission writes there
        bounds = self.workspace.bounds(gpu=not device.emulated)
        forked_by = ForkServer if self.servers is None or not device.emulated else self.servers.of
        self.fork_server = forked_by(environment, device.name, device.arch, bounds)
        replayed = self.plan.replayed and device.emulated and not self.plan.grouped
        self.memory = [make_memory() for _ in range(self.plan.most_ranks + replayed)]
        self.pool, self.referees, self.replays = (
            make_pool(
                self.plan, folder, self.fork_server, self.listener.case_progress, **{"memory": self.memory, **kind}
            )
            for folder, kind in (
                (self.workspace.make_folder, {"one_each": True}),
                (self.workspace.make_judges_folder, {"worker": "forge.judge.referee", "events": REFEREE_EVENTS}),
                (
                    self.workspace.make_replays_folder,
                    {"worker": REPLAYS, "events": REPLAY_EVENTS, "memory": self.memory[-1:]},
                ),
            )
        )
        self.pool.setup = structs.replace(self.pool.setup, replayed=replayed)
        self.replays.order = RankOrder(1, None, fixed=True)
        self.pool.anew = self.replays if replayed else None
        ours = self.plan.problem.directory.is_relative_to(ROOT / "reference")
        self.referees.setup = structs.replace(
            self.referees.setup,
            replayed=replayed,
            seed=self.plan.seed,
            precision=self.plan.problem.precision,
            imports_nothing=ours,  # a test holds them to it
            kept=kept_cases.place_for(bounds) if ours and device.emulated else "",
            made_of=made_of(self._digests),
            multiplies=self.plan.problem.floors is not None and self.plan.problem.floors.matrix != "none",
            known_as=str(self.plan.problem.known_as or ""),
        )
        if not self.plan.limit_asked:
            self.pool.turns_of = self.plan.device.turns_of
        self.referees.order = RankOrder(self.plan.most_ranks, None, fixed=True)
        spare_each_other(self.pool, self.referees, self.replays)
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            stop_at_once(self.pool, self.referees, self.replays)
            pid = self.fork_server.pid()
            if not self.fork_server.ahead or pid is not None and is_hidden(pid):  # nor are those below it seen to end
                self.fork_server.close()
            for descriptor in self.memory:
                os.close(descriptor)
            self.run.fingerprint, self.run.unconfined = self.pool.fingerprint, self.pool.unconfined
            self.run.elapsed_s = time.monotonic() - self._started
            changed, before = self._changed(), self._packages
            now = packages() if before else {}
            changed += sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
            if changed:
                self.run.buts.append(f"files that judge were changed meanwhile: {', '.join(changed)}")
            self._compare_with_mode_limit()
        finally:
            self.workspace.__exit__(*exc)

    def _changed(self) -> list[str]:
        """Files that judge, or would in a later run, and are no longer what they were when this one began."""
        now, before = digests(self.plan.problem), self._digests
        changed = sorted(path for path in now.keys() | before.keys() if now.get(path) != before.get(path))
        return [
            path for path in changed if not path.endswith(".pyc") or path in now and not is_sources_code(Path(path))
        ]

    def step(self, position: int) -> CaseResult:
        """Runs one case, or says why it is not run."""
        case = self.cases[position]
        if position and not self.referees.workers and not self.stopped and (changed := self._changed()):
            self.stopped = f"files that judge were changed: {', '.join(changed)}"  # new referees would import them
        if self.stopped:
            result = CaseResult(case.index, case.spec, Status.NOT_RUN, self.stopped)
        else:
            self.listener.case_started(case, position, len(self.cases))
            started = time.monotonic()
            for pool in (self.referees, self.pool, *filter(None, [self.pool.anew])):
                pool.start()  # each takes its time, beside the other
            problem = self.referees.ensure_started() or self.pool.ensure_started()
            result = self._broken(case, problem, started) if problem is not None else self._judge(case, position)
        self.run.cases.append(result)
        self.listener.case_finished(result)
        return result

    def _compare_with_mode_limit(self) -> None:
        """The leaderboard's time-out is that of all cases together; ours is for each."""
        spent_s = sum(case.elapsed_s for case in self.run.cases)
        limit_s = self.plan.problem.timeouts.of_mode(self.plan.mode)
        if self.run.timed and spent_s > limit_s:
            self.run.warnings.append(
                f"these cases took {spent_s:.0f} s; the leaderboard ends mode {self.plan.mode} after {limit_s:g} s"
            )

    def _run(self, case: CaseSpec, after: list[CaseSpec]) -> CaseResult:
        try_sample = self._try_sample(case)
        if self._small is not None and not self._small.ran and self._small_is_official:
            return CaseResult(case.index, case.spec, Status.SAMPLED)  # which fails as the small one does

        def whole(report: CaseReport, torch_flops: float) -> None:
            self._forecast.note(case, report, torch_flops)
            if text := self._forecast.text(case, after):
                self.listener.case_forecast(text)

        if self.plan.device.emulated and not try_sample:
            self._foretell(case)
            whole(CaseReport(), 0.0)
        result = CaseRun(self.plan, self.pool, self.referees, case, try_sample, whole).run()
        ended = self.fork_server.ends_from_outside()
        if result.status is Status.NOT_RUN and self.plan.calls > 1 and not ended:  # where memory ran out one takes less
            alone = CaseRun(dataclasses.replace(self.plan, calls=1), self.pool, self.referees, case).run()
            said = alone.buts if alone.passed else alone.remarks
            said.append(f"one call of {self.plan.calls}; all of them: {result.message}")
            result = alone
        self._forecast.add(case, result)
        if try_sample and result.status is Status.PASS:
            self._not_sampled = max(self._not_sampled, self._forecast.work_of(case))
        return result

    @property
    def _small_is_official(self) -> bool:
        small = self.plan.small
        return small is not None and small.spec in map(spec_of, self.plan.problem.tests)

    def _try_sample(self, case: CaseSpec) -> bool:
        """Whether so much is to be emulated that a sample may have to do: as a small case foretells, judged first, and
        the cases before."""
        plan, work = self.plan, self._forecast.work_of(case)
        if plan.small is None:
            return False
        stated = plan.work_of(case) is not None  # else every case that is larger is tried: a sample's counts decide
        least = LARGE_FLOPS if stated else self._forecast.work_of(plan.small)
        if not plan.sample or not max(least, self._not_sampled) < work:
            return False
        if self._small is None:
            self._small = CaseRun(dataclasses.replace(plan, mode="test"), self.pool, self.referees, plan.small).run()
            self._forecast.add(plan.small, self._small)
            if self.pool.ensure_started() is not None or self.referees.ensure_started() is not None:
                return False
        known = self._forecast.of(case)
        large = known is not None and (
            known.instructions >= LARGE_INSTRUCTIONS or known.torch_flops >= LARGE_TORCH_FLOPS
        )
        return self._small.ran and (large or not stated)

    def _foretell(self, case: CaseSpec) -> None:
        """Before a large case of which nothing is known two calls of a small one: they tell how long to wait. Where
        that is worth saying, a sample of the case itself tells it better."""
        self._foretell_by_small(case)
        plan, known = self.plan, self._forecast.of(case)
        kind, _ = sample_of(plan.problem, [case])
        if kind and known is not None and known.seconds >= WORTH_SAYING_S and case.spec not in self._forecast.counted:
            one = CaseRun(dataclasses.replace(plan, sample=kind), self.pool, self.referees, case)
            self._forecast.note(case, *one.count())
            self.referees.ensure_started()
            self.pool.ensure_started()

    def _foretell_by_small(self, case: CaseSpec) -> None:
        plan, work = self.plan, self._forecast.work_of(case)
        if plan.small is None or self._forecast.of(case) is not None or not work >= LARGE_FLOPS:
            return
        if (plan.ranks_of(plan.small) or 1) > plan.most_ranks:
            return
        if self._forecast.work_of(plan.small) * FORETELLING <= work:
            one = dataclasses.replace(plan, mode="test", calls=2, accuracy=False)  # the first compiles
            self._forecast.add(plan.small, CaseRun(one, self.pool, self.referees, plan.small).run())
            self.referees.ensure_started()
            self.pool.ensure_started()

    def _judge_small(self, sample: CaseResult) -> None:
        """A small case stands for the correctness of those that are samples: where it fails, so do they."""
        judged, small = self._small, self.plan.small
        assert judged is not None and small is not None
        if judged.passed:
            sample.buts += [but for but in judged.buts if but not in sample.buts]
            sample.buts.append(f"judged instead, and passed: {small.spec}")
            return
        sample.status, sample.buts = judged.status, []
        sample.message = f"the case is too large to be judged; of a small one, {small.spec}: {judged.message}"
        sample.phase, sample.trace, sample.accuracy = judged.phase, judged.trace, judged.accuracy
        sample.last_words = judged.last_words

    def _broken(self, case: CaseSpec, problem: RankAnswer[Any], started: float) -> CaseResult:
        """The submission did not load: the case that it was to run says so, and no other is tried."""
        result = CaseResult(
            case.index,
            case.spec,
            problem.status,
            problem.message,
            problem.rank,
            problem.answer.phase,
            problem.answer.fault,
            problem.answer.trace,
            problem.last_words,
            elapsed_s=time.monotonic() - started,
        )
        if changes := self.workspace.changed():
            result.message += f"; {', '.join(changes)}"
        self.run.broken = result
        self.stopped = "the submission did not load" if problem.status is not Status.NOT_RUN else problem.message
        return result

    def _judge(self, case: CaseSpec, position: int) -> CaseResult:
        plan, result = self.plan, None
        if not self._warm:
            self._warm = True
            result = CaseRun(plan, self.pool, self.referees, case).run(warm_up=True)
            if result.status in (Status.PASS, Status.FAIL):
                result = None  # the warm-up's verdict does not count, the case's own does
        if result is None:
            result = self._run(case, self.cases[position + 1 :])
        if result.status is Status.SAMPLED:
            self._judge_small(result)
        result.device_report = with_author_places(result.device_report, self._texts, ROOT)
        result.last_words = with_author_places(result.last_words, self._texts, ROOT)
        _look_at_folder(result, self.pool, self.workspace)
        if not plan.device.emulated:
            self.stopped = short_of_a_format(result, plan)
        elif result.status is Status.CRASH and not result.fault and plan.device.unguarded():
            result.message += f"; {UNGUARDED}"
        self._hangs = self._hangs + 1 if result.status is Status.TIMEOUT else 0
        if self._hangs and result.elapsed_s < plan.limit_s:
            self.stopped = STOPS
        elif self._hangs >= HANGS_BEFORE_STOP:
            self.stopped = f"{self._hangs} cases in a row did not end in time"
        elif plan.mode == "leaderboard" and not result.passed:
            self.stopped = "leaderboard mode stops at the first failing case"
        return result


def short_of_a_format(result: CaseResult, plan: EvalPlan) -> str:
    """Says in one line that this GPU lacks the submission's fp8 format, where that is its error: it is every case's.
    Empty if it is not."""
    lacks = lacking_format("\n".join([result.message, result.trace])) if result.status is Status.ERROR else ""
    if not lacks:
        return ""
    emulated = plan.problem.arch if plan.problem.arch in CARDS else EMULATED
    text = f"{plan.device.label} has no {lacks} ({plan.device.arch}): --device {emulated} emulates a GPU that has it"
    result.message, result.trace, result.last_words = text, "", []
    return text


def keeps_builds(device: Device) -> bool:
    """Whether a submission's builds are there in its next run: a GPU's no builder makes, and nobody has no place."""
    return not device.emulated and os.getuid() != 0


def digests(problem: Problem) -> dict[str, bytes]:
    """Of what a run is judged with, by path: the problem's files, our own sources, their byte code, and what Python
    would run in their place or before them in a later run."""
    paths = {str(file.source) for file in problem.files if file.source is not None} | {str(ROOT / "task.yml")}
    for room, kinds in (("reference", (".py", ".yml")), ("forge", (".py", ".so")), ("cdna", (".py", ".so"))):
        for folder, folders, names in os.walk(ROOT / room):
            folders[:] = [name for name in folders if name != "__pycache__"]
            paths |= {f"{folder}/{name}" for name in names if name.endswith(kinds)}
    for entry in os.scandir(ROOT):
        paths |= {entry.path} if entry.name.endswith((".py", ".so")) else {f"{entry.path}/__init__.py"}
    for place in sys.path:
        with contextlib.suppress(OSError):
            own = (name for name in os.listdir(place) if name.endswith(".pth") or name.startswith(BEFORE_ALL))
            paths |= {os.path.join(place, name) for name in own}
    paths |= {_cached(path) for path in paths if path.endswith(".py")}
    return {path: digest for path in paths if (digest := _digest(path))}


_cached = functools.cache(importlib.util.cache_from_source)


def made_of(digests: dict[str, bytes]) -> str:
    """What inputs and references follow from: our sources, not what Python or a builder makes of them."""
    sources = sorted(path for path in digests if path.endswith((".py", ".yml")))
    return hashlib.sha256(
        b"".join(path.removeprefix(f"{ROOT}/").encode() + digests[path] for path in sources)
    ).hexdigest()


def packages() -> dict[str, bytes]:
    """What lies on Python's path besides, each package by its files' names, sizes, times and numbers."""
    found = {}
    for place in {Path(place) for place in sys.path if os.path.isdir(place) and not ROOT.is_relative_to(place)}:
        for entry in os.scandir(place):
            told = hashlib.sha256()
            for folder, folders, names in os.walk(entry.path) if entry.is_dir() else [(str(place), [], [entry.name])]:
                folders[:] = sorted(name for name in folders if name != "__pycache__")  # any run of theirs writes there
                for name in sorted(names):
                    with contextlib.suppress(OSError):
                        state = os.lstat(os.path.join(folder, name))
                        told.update(f"{name} {state.st_size} {state.st_mtime_ns} {state.st_ino}\n".encode())
            found[entry.path] = told.digest()
    return found


_read: dict[str, tuple[tuple[int, ...], bytes]] = {}  # of a file that did not change since: its state and its digest


def _digest(path: str) -> bytes:
    """Empty if that is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return b""
    if not stat.S_ISREG(found.st_mode):
        return b""
    if found.st_size > MOST_SOURCE_BYTES:
        return b"%d bytes" % found.st_size
    # The last of them nobody can set back who may not set the clock.
    state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    known = _read.get(path)
    if known is None or known[0] != state:
        known = state, hashlib.sha256(Path(path).read_bytes()).digest()
        if time.time_ns() - found.st_ctime_ns > SETTLED_NS:  # a second change would show
            _read[path] = known
    return known[1]


def is_sources_code(path: Path) -> bool:
    """Whether a file of byte code is what its source compiles to: then any run of ours may have written it."""
    try:
        source = Path(importlib.util.source_from_cache(path))
        made = compile(source.read_bytes(), source, "exec", dont_inherit=True)
        return bool(marshal.loads(path.read_bytes()[PYC_HEAD_BYTES:]) == made)
    except (OSError, ValueError, EOFError, TypeError, SyntaxError):
        return False


def make_pool(
    plan: EvalPlan, make_folder: Callable[[], Path], fork_server: ForkServer, progress: Progress, **worker: Any
) -> WorkerPool:
    """worker: of which kind, as WorkerPool takes it. It is told no seed: nothing but its input says what is drawn."""
    setup = Setup("", plan.device.name, plan.device.arch, plan.harness.name, None, not plan.device.emulated)
    order = RankOrder(plan.most_ranks, plan.seed, plan.fixed_ranks)
    return WorkerPool(make_folder, fork_server, setup, order, plan.grouped, plan.limit_s, progress, **worker)


def spare_each_other(*pools: WorkerPool) -> None:
    """Lets each of them live on when another one stops."""
    for pool in pools:
        pool.beside = list({id(other): other for other in [*pool.beside, *pools] if other is not pool}.values())


def run_environment(plan: EvalPlan, workspace: Workspace) -> dict[str, str]:
    """For every process of a run: the workspace's variables and the device's."""
    environment = workspace.environment()
    added = plan.device.environment()
    if "PYTHONPATH" in added:  # the device's comes from this process's, which names our own folder
        kept = environment["PYTHONPATH"].split(os.pathsep)
        first = added["PYTHONPATH"].split(os.pathsep)[0]
        added = {**added, "PYTHONPATH": os.pathsep.join([first, *filter(None, kept)])}
    environment.update(added, POPCORN_GPUS=str(plan.most_ranks))
    if plan.device.emulated and plan.most_ranks > 1:  # all ranks share this machine's cores
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // plan.most_ranks)))
    return environment


def _cases_of_mode(plan: EvalPlan) -> list[CaseSpec]:
    """Leaderboard mode of some harnesses times the last case alone."""
    return plan.cases[-1:] if plan.mode == "leaderboard" and plan.harness.leaderboard_cases == "last" else plan.cases


def _look_at_folder(result: CaseResult, pool: WorkerPool, workspace: Workspace) -> None:
    """A submission that rewrites or removes the files it is judged with has no verdict worth keeping."""
    changes = workspace.changed()
    if not changes:
        return
    pool.stop()
    text = f"the submission changed its run folder: {', '.join(changes)}"
    if result.status in (Status.PASS, Status.FAIL):
        result.status, result.message, result.stats, result.back_to_back = Status.TAMPERED, text, None, None
    else:
        result.message += f"; {text}"
