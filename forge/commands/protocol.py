"""The official evaluators' protocol: in a run folder, POPCORN_FD=n [POPCORN_SEED=s] eval.py MODE CASESFILE.

It is what a leaderboard's runner expects of the eval.py that it starts: keys on the descriptor, exit codes.
"""

import base64
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import msgspec

from forge.console import EXIT_INTERRUPTED, UsageError
from forge.device import DeviceError, resolve
from forge.judge import compilers
from forge.judge.evaluate import evaluate
from forge.judge.plan import STAND_IN_ARCH, EvalPlan, choose_harness
from forge.judge.process_tree import adopt_orphans
from forge.judge.results import LEADERBOARD_KEYS, CaseResult, Run, Status
from forge.judge.worker_pool import TaskError
from forge.task.cases import CaseError, CaseSpec, parse_case_file
from forge.task.harness import HarnessError
from forge.task.problem import MODES, Problem, ProblemError, TaskFile, Timeouts, own_entries

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_NO_FD = 111
EXIT_FAILED = 112
EXIT_BAD_CASES = 113
EXIT_TIMEOUT = 114  # the runner's own code for a time-out; ours when a rank does not answer

NEVER_S = 10.0**9  # the runner has the time-outs
MAX_FILE_BYTES = 16 * 2**20


def main(argv: list[str]) -> int:
    fd = os.environ.get("POPCORN_FD")
    if not fd or not fd.isdigit() or not _is_open(int(fd)):
        _complain(f"POPCORN_FD={fd!r} is not an open descriptor")
        return EXIT_NO_FD
    if len(argv) < 2:
        _complain("expected MODE CASESFILE")
        return EXIT_USAGE
    mode, case_file = argv[0], Path(argv[1])
    try:
        options = _options(argv[2:])
        folder = Path.cwd()
        text = case_file.read_text(encoding="utf-8")
        seed = int(os.environ.get("POPCORN_SEED") or 0) or None
        gpus = int(os.environ.get("POPCORN_GPUS") or 1)
        problem = _run_folder(folder, gpus)
        harness, _ = choose_harness(problem, options.get("harness"))
        cases = parse_case_file(text, harness, seed)
        device = resolve(options.get("device", "auto"), problem.arch or STAND_IN_ARCH)
    except (OSError, UnicodeDecodeError) as error:
        _complain(f"could not read {case_file}: {error}")
        return EXIT_BAD_CASES
    except CaseError as error:
        _complain(str(error))
        return EXIT_BAD_CASES
    except (ValueError, DeviceError, HarnessError, ProblemError) as error:
        _complain(str(error))
        return EXIT_USAGE
    if mode not in MODES or (mode == "profile" and not harness.profile):
        _complain(f"unknown mode {mode!r}")
        return EXIT_USAGE
    if not cases:
        _complain(f"{case_file} holds no case")
        return EXIT_BAD_CASES
    submission = (folder / "submission.py").read_bytes()
    try:
        compilers.take(options.get("triton"), problem, device, submission)
    except DeviceError as error:
        _complain(str(error))
        return EXIT_USAGE
    plan = EvalPlan(
        mode=mode,
        problem=problem,
        submission=submission,
        harness=harness,
        device=device,
        cases=cases,
        seed=seed,
        limit_s=harness.rank_s(mode) or NEVER_S if any(case.world_size for case in cases) else NEVER_S,
        accuracy=False,
        back_to_back=False,
        as_officially=True,
    )
    return _run(plan, int(fd))


def _run(plan: EvalPlan, fd: int) -> int:
    os.set_inheritable(fd, False)
    adopt_orphans()
    run = Run(plan.mode, [], timed=not plan.device.emulated)
    with os.fdopen(fd, "w", encoding="utf-8") as stream:
        log = _Log(plan, stream)
        log.begin()
        try:
            evaluate(plan, run, log)
        except (TaskError, DeviceError, UsageError) as error:
            _complain(str(error))
            log.key("check", "fail")
            return EXIT_FAILED
        except KeyboardInterrupt:
            _complain("interrupted")
            return EXIT_INTERRUPTED
        log.end(run)
    if any(case.status is Status.TIMEOUT for case in run.cases):
        return EXIT_TIMEOUT
    # A failing leaderboard run exits 0: the official evaluators fall off the end of main(). The keys say
    # "fail".
    return EXIT_OK if run.passed or plan.mode in ("leaderboard", "profile") else EXIT_FAILED


class _Log:
    """A Listener that writes the official keys, in the official order."""

    def __init__(self, plan: EvalPlan, stream: TextIO) -> None:
        self.plan, self.stream = plan, stream
        self.kind = "test" if plan.mode == "test" else "benchmark"
        # One official evaluator logs its leaderboard mode's count and spec only once it has passed.
        self.late = plan.mode == "leaderboard" and plan.harness.leaderboard_cases == "last"

    def key(self, name: str, value: object) -> None:
        """One line, whatever the value: its other lines would read as keys, so a literal \\n joins them."""
        text = str(value).replace("\r", "").replace("\n", "\\n")
        self.stream.write(f"{name}: {text}\n")
        self.stream.flush()

    def begin(self) -> None:
        if not self.late:
            self.key(f"{self.kind}-count", len(self.plan.cases))

    def case_started(self, case: CaseSpec, position: int, count: int) -> None:
        if self.plan.mode != "leaderboard":
            self.key(f"{self.kind}.{position}.spec", case.spec)
        self.position = position

    def case_forecast(self, text: str) -> None:
        """No key says it."""

    def case_progress(self, phase: str, seconds: float) -> None:
        pass

    def case_finished(self, result: CaseResult) -> None:
        if result.status is Status.NOT_RUN:
            return
        for text in result.remarks:
            if "officially" in text:
                _complain(f"case {self.position}: {text}")
        if self.late:
            return self._late_result(result)
        name = f"{self.kind}.{self.position}"
        if self.plan.mode == "leaderboard":
            self.key(f"{name}.spec", result.spec)
        if self.plan.mode == "profile":
            report = result.profile or str(msgspec.to_builtins(result.device_report) or result.message)
            self.key(f"{name}.report", base64.b64encode(report.encode(), b"+*").decode())
        elif result.passed and self.kind == "test":
            self.key(f"{name}.status", "pass")
            if result.message:
                self.key(f"{name}.message", result.message)
        elif result.passed:
            self._stats(name, result, LEADERBOARD_KEYS)
        else:
            self.key(f"{name}.status", "fail")
            self.key(f"{name}.error", error_text(result))

    def _late_result(self, result: CaseResult) -> None:
        if result.passed:
            self.key("benchmark-count", 1)
            self.key("benchmark.0.spec", result.spec)
            self._stats("benchmark.0", result, LEADERBOARD_KEYS[:4])
        else:
            self.key("test-count", 1)
            self.key("test.0.status", "fail")
            self.key("test.0.error", error_text(result))

    def _stats(self, name: str, result: CaseResult, names: Sequence[str]) -> None:
        if result.stats is None:  # an emulated device: there is no time to log
            self.key(f"{name}.status", "pass")
            return
        values = msgspec.to_builtins(result.stats)
        for key in names:
            self.key(f"{name}.{key}", values[key])

    def end(self, run: Run) -> None:
        if run.broken is not None:
            name = f"{self.kind}.{self.position}"
            self.key(f"{name}.status", "fail")
            self.key(f"{name}.error", error_text(run.broken))
            _complain(f"the submission did not load: {run.broken.message}")
        if self.late and not run.passed:
            return
        self.key("check", "pass" if run.passed or self.plan.mode == "profile" else "fail")


def error_text(result: CaseResult) -> str:
    """A failure in one line, naming its rank as the official multi-rank evaluator does."""
    who = f"rank {result.rank} - " if result.rank is not None else ""
    kind = "" if result.status in (Status.FAIL, Status.ERROR) else f"{result.status.value}: "
    return f"{who}{kind}{result.message}"


def _options(argv: list[str]) -> dict[str, str]:
    """--device NAME, --harness FLAVOUR and --triton VERSION, which the official evaluators do not have."""
    options: dict[str, str] = {}
    rest = list(argv)
    while rest:
        name = rest.pop(0)
        if name not in ("--device", "--harness", "--triton") or not rest:
            raise ValueError(
                f"unknown argument {name!r}: only --device, --harness and --triton, each with a value, may follow"
            )
        options[name[2:]] = rest.pop(0)
    return options


def _run_folder(folder: Path, gpus: int) -> Problem:
    """The run folder as a problem: the repository's with the same reference.py, or one that nobody knows."""
    names = sorted(p.name for p in folder.iterdir() if p.is_file() and p.stat().st_size <= MAX_FILE_BYTES)
    if "submission.py" not in names:
        raise ProblemError(f"{folder}: no submission.py here")
    if "reference.py" not in names:
        raise ProblemError(f"{folder}: no reference.py here, so this is not a run folder")
    reference = (folder / "reference.py").read_bytes()
    same = [entry for entry in own_entries() if _bytes_of(entry.directory / "reference.py") == reference]
    entry = same[-1] if same else None
    return Problem(
        name=entry.name if entry else folder.name,
        stem=folder.name,
        directory=folder,
        gpus=entry.gpus if entry else (),
        arch=entry.arch if entry else None,
        harness=entry.harness if entry else None,
        variant=None,
        files=tuple(TaskFile(name, None if name == "submission.py" else folder / name) for name in names),
        world_size=gpus,
        timeouts=Timeouts(NEVER_S, NEVER_S, NEVER_S),
    )


def _bytes_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _complain(text: str) -> None:
    print(f"eval.py: {text}", file=sys.stderr)
