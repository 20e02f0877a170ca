"""`pytest --cdna gfx942`: a project's GPU tests on the emulated card.

Findings of the checks belong to the report of the test that caused them, and fail it; what is not emulated is skipped
with its reason; each is counted at the end. docs/pytest.md. Without --cdna nothing here does anything.
"""

import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from _pytest.outcomes import Failed
from msgspec import convert, structs

from . import checks, sarif
from .cards import ARCHS, get_card
from .engine import build
from .errors import CdnaError, NotEmulated
from .observe import records
from .results import Finding

# Who can make torch's device "cuda" the emulated card names a function that takes the arch here. Without one, kernels
# run on CPU tensors.
GROUP = "cdna.torch_device"
SIGNAL = getattr(signal, "SIGRTMIN", signal.SIGALRM) + 1  # pytest-timeout has SIGALRM
# What torch's CPU build says of an operation that it lacks, and a GPU build may have.
TORCH_LACKS = re.compile(r"""not implemented for|Torch not compiled with CUDA|from the '(CPU|CUDA)' backend""")
WITHOUT_DEVICE = 'torch\'s device "cuda" needs the package cdna-forge; cdna alone runs Triton kernels on CPU tensors'


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cdna", "an emulated AMD GPU (cdna)")
    group.addoption("--cdna", metavar="ARCH", help=f"run tests on this emulated card: {', '.join(ARCHS)}")
    group.addoption(
        "--cdna-checks",
        metavar="KINDS",
        help="checks of kernels: all, none, or names of checks (default: $CDNA_CHECKS, else none)",
    )
    group.addoption(
        "--cdna-findings",
        choices=("fail", "report"),
        default="fail",
        help="what a finding does to its test: fail it (default), or stand in its report only",
    )
    group.addoption(
        "--cdna-timeout",
        type=float,
        metavar="SECONDS",
        help="end a test after this time and say where its kernels' waves are",
    )
    group.addoption(
        "--cdna-autotune",
        choices=("all", "first"),
        help="what @triton.autotune tries: every configuration (default), or the first that runs",
    )
    group.addoption("--cdna-sarif", metavar="FILE", help="also write findings for code scanning")
    group.addoption(
        "--annotations", choices=("github",), help="also print findings as workflow commands of GitHub Actions"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before a conftest.py can import torch."""
    options = early_config.known_args_namespace
    if not options.cdna:
        for name in ("cdna_checks", "cdna_timeout", "cdna_autotune", "cdna_sarif", "annotations"):
            if getattr(options, name) is not None:
                raise pytest.UsageError(f"--{name.replace('_', '-')} has no meaning without --cdna ARCH")
        return
    if options.cdna not in ARCHS:
        raise pytest.UsageError(f"--cdna {options.cdna}: no such card: {', '.join(ARCHS)}")
    if options.cdna_timeout is not None and not options.cdna_timeout > 0:
        raise pytest.UsageError(f"--cdna-timeout {options.cdna_timeout:g}: seconds, more than 0")
    said = options.cdna_checks or os.environ.get(checks.VARIABLE, "none").removeprefix("report:")
    try:
        kinds = checks.parse_kinds(said)
    except CdnaError as error:
        raise pytest.UsageError(f"--cdna-checks {said}: {error}") from None
    # Findings are taken after each phase of a test: a kernel goes on, and there may be more than one.
    os.environ[checks.VARIABLE] = "report:" + (",".join(sorted(kinds)) or "none")
    if options.cdna_autotune:
        os.environ["CDNA_AUTOTUNE"] = options.cdna_autotune
    _share_cores()
    early_config.pluginmanager.register(_Session(options), "cdna session")
    prepare(options.cdna)


def prepare(arch: str) -> None:
    """Make the emulated `arch` this process's GPU: torch's too, where a package for that is installed."""
    devices = list(entry_points(group=GROUP))
    for device in devices:
        device.load()(arch)
    if not devices:
        from .triton import install

        install(arch)


def _share_cores() -> None:
    """Of pytest-xdist's workers each has its part of the cores, unless somebody has said something else."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        share = str(max(1, len(os.sched_getaffinity(0)) // workers))
        for name in ("CDNA_THREADS", "OMP_NUM_THREADS"):
            os.environ.setdefault(name, share)


@dataclass
class _Seen:
    """What a phase of a test did, as its report carries it from xdist's workers."""

    launches: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list)  # fields of Finding, and `text`
    not_emulated: str = ""
    over_time: bool = False


def _drain() -> _Seen:
    found = [{**structs.asdict(one), "text": str(one)} for one in records.findings()]
    for one in found:
        one["workgroup"] = list(one["workgroup"] or ())
    return _Seen(len(records.take_records("tests")), found)


def _texts(findings: list[dict[str, Any]]) -> str:
    return "\n".join(one["text"] for one in findings)


def why_not_emulated(error: BaseException | None) -> str:
    """The reason, where an exception comes from something that the emulated card lacks; else ""."""
    while error is not None:
        text = str(error).strip()
        if isinstance(error, NotEmulated):
            return f"not emulated: {text}"
        if isinstance(error, RuntimeError | AssertionError) and (match := TORCH_LACKS.search(text)):
            if match[0].startswith("Torch not compiled"):
                return f"not emulated: {WITHOUT_DEVICE}"
            return f"not emulated: torch's CPU build: {text.splitlines()[0]}"
        error = error.__cause__ or error.__context__
    return ""


class _OverTime(Failed):
    """No `except Exception` of a test takes it for its own."""


class _Session:
    """The hooks of a session with --cdna."""

    def __init__(self, options: Any) -> None:
        self.arch, self.timeout_s = options.cdna, options.cdna_timeout
        self.fails, self.annotates = options.cdna_findings == "fail", options.annotations == "github"
        self.kinds = os.environ[checks.VARIABLE].removeprefix("report:")
        self.until = 0.0  # of the test that runs
        self.files: set[str] = set()  # of `tests`, those that are collected files
        self.tests: dict[str, list[_Seen]] = {}  # of each test, its phases; of a file, what its import did

    def pytest_report_header(self) -> str:
        limit = f", {self.timeout_s:g} s a test" if self.timeout_s else ""
        return f"cdna: emulated {self.arch} ({get_card(self.arch).product}), checks: {self.kinds}{limit}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """The engine is built once per machine: before pytest-xdist starts workers, and in no test's time."""
        build.engine_library()

    # Time.

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Within the block, the end of the test's time ends the kernels under way, and raises _OverTime here."""
        if not self.timeout_s or threading.current_thread() is not threading.main_thread():
            yield
            return
        where: list[str] = []
        here = threading.get_ident()

        def expire() -> None:
            where.append(records.waits())
            # A time-out begins in Python first: else the test would see its launches fail.
            signal.pthread_kill(here, SIGNAL)
            records.cancel()

        def end(number: int, frame: FrameType | None) -> None:
            __tracebackhide__ = True
            if where:
                kernels = f"; its kernels:\n{where.pop()}" if where[0] else ", and no kernel of it ran just then"
                raise _OverTime(f"the test took longer than {self.timeout_s:g} s (--cdna-timeout){kernels}")

        before = signal.signal(SIGNAL, end)
        timer = threading.Timer(max(0.001, self.until - time.monotonic()), expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            where.clear()
            signal.signal(SIGNAL, signal.SIG_IGN)  # what is on its way
            signal.signal(SIGNAL, before)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        self.until = time.monotonic() + (self.timeout_s or 0)
        with self._limited():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        with self._limited():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, Any, Any]:
        self.until = time.monotonic() + (self.timeout_s or 0)
        with self._limited():
            return (yield)

    # Reports.

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        seen = _drain()
        for one in seen.findings:  # JUnit XML shows them
            what = f"{one['kind']}: {one['source']}: {one['kernel']}: {one['message']}"
            item.user_properties.append(("cdna_finding", what))
        if seen.launches:
            item.user_properties.append(("cdna_launches", seen.launches))
        report = yield
        error = call.excinfo.value if call.excinfo else None
        if report.outcome == "failed":
            seen.over_time = isinstance(error, _OverTime)
            seen.not_emulated = why_not_emulated(error)
        if seen.findings:
            report.sections.append(("findings of the emulated card", _texts(seen.findings)))
            if self.fails and report.outcome == "passed" and not hasattr(report, "wasxfail"):
                report.outcome, report.longrepr = "failed", _texts(seen.findings)
        elif seen.not_emulated:
            path, line, _ = item.location
            report.outcome, report.longrepr = "skipped", (str(path), (line or 0) + 1, f"Skipped: {seen.not_emulated}")
        report.cdna = asdict(seen)
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """Kernels that a file launches as it is imported belong to no test."""
        report = yield
        seen = _drain()
        if seen.findings:
            report.sections.append(("findings of the emulated card", _texts(seen.findings)))
            if self.fails and report.outcome == "passed":
                report.outcome, report.longrepr, report.result = "failed", _texts(seen.findings), []
        report.cdna = asdict(seen)
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        """In the process that shows the results, whichever ran the test."""
        if getattr(report, "cdna", None):
            self.tests.setdefault(report.nodeid, []).append(_Seen(**report.cdna))

    def pytest_collectreport(self, report: Any) -> None:
        self.files.add(report.nodeid)
        self.pytest_runtest_logreport(report)

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        write = terminalreporter.write_line
        if config.option.collectonly:
            return
        terminalreporter.section(f"emulated {self.arch}")
        of_tests = [phases for test, phases in self.tests.items() if test not in self.files]
        launches = [sum(phase.launches for phase in phases) for phases in of_tests]
        with_finding = [test for test, phases in self.tests.items() if any(phase.findings for phase in phases)]
        reasons = Counter(phase.not_emulated for phases in of_tests for phase in phases if phase.not_emulated)
        over_time = sum(phase.over_time for phases in of_tests for phase in phases)
        write(f"{sum(map(bool, launches))} of {len(of_tests)} tests launched kernels, {sum(launches)} launches")
        found = "no checks" if self.kinds == "none" else f"{len(with_finding)} with findings"
        write(f"{found}, {reasons.total()} not emulated, {over_time} over the time limit")
        for reason, n in reasons.most_common():
            write(f"  skipped {n}: {reason.splitlines()[0]}")
        for (_, _, kind, source), (text, tests) in sorted(self._by_cause().items()):
            others = f" and {len(tests) - 1} more tests" if len(tests) > 1 else ""
            write(f"  {kind} at {source}: in {tests[0]}{others}")
            if self.annotates:
                write(self._annotation(kind, source, text, config.rootpath))
        if config.option.cdna_sarif:
            seen = [one for phases in self.tests.values() for phase in phases for one in phase.findings]
            known = {one["text"]: convert({**one, "workgroup": one["workgroup"] or None}, Finding) for one in seen}
            sarif.write(Path(config.option.cdna_sarif), (("", one) for one in known.values()))

    def _by_cause(self) -> dict[tuple[str, int, str, str], tuple[str, list[str]]]:
        """(file, line, kind, source) -> a finding's text, the tests that had one."""
        causes: dict[tuple[str, int, str, str], tuple[str, list[str]]] = {}
        for test, phases in self.tests.items():
            for one in (finding for phase in phases for finding in phase.findings):
                file, _, line = one["source"].rpartition(":")
                key = (file, int(line) if line.isdecimal() else 0, one["kind"], one["source"])
                tests = causes.setdefault(key, (one["text"], []))[1]
                if test not in tests:
                    tests.append(test)
        return causes

    def _annotation(self, kind: str, source: str, text: str, root: Path) -> str:
        """A workflow command; files are named from the root of the repository, as GitHub shows them."""
        file, _, line = source.rpartition(":")
        base = Path(os.environ.get("GITHUB_WORKSPACE") or root)
        if (path := Path(file)).is_absolute() and path.is_relative_to(base):
            file = str(path.relative_to(base))
        place = f"file={_escaped(file, ':,')},line={line}," if file and line.isdecimal() else ""
        return f"::{'error' if self.fails else 'warning'} {place}title=cdna {kind} on {self.arch}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    return "".join(f"%{ord(c):02X}" if c in "%\r\n" + more else c for c in text)
