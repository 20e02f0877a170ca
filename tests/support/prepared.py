"""Runs Python on emulated GPUs in forks of a process that has imported torch and Triton for them.

Importing these takes a core seconds, which every script, and every rank that one spawns, would spend again. What is
forked begins with what has been imported and not used: no thread, no kernel, no process group. Such parents are forked
themselves: from one that has imported torch alone comes one for each Triton, and from these one for each device and
its checks, which are read as it is prepared. eval.py and `forge judge` can run so too: the processes that these start
as Pythons of their own (WARM) are then forks of them. And so can what calls forge.compile_report.report, whose worker
is then a fork of a process without a device that has compiled nothing yet.

The judge's own fork server cannot serve here: it forks workers that speak the evaluator's channel inside one
evaluation, and runs no script and no eval.py. To teach it that would put test code into the process that a submission
is judged by.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import fcntl
import functools
import gc
import importlib
import inspect
import io
import json
import multiprocessing.process
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from tests.support.limits import ENDS_S

ROOT = Path(__file__).resolve().parents[2]
MOST_GPUS = "8"
RARELY, AS_EVER = 50_000, (700, 10, 10)  # new objects between two looks for garbage: of scripts, of what judges
HIP_EXTENSIONS = "torch.utils.cpp_extension"  # takes two seconds more: imported once a submission does
STARTS_IN_S = ENDS_S  # the first to start builds the emulated device
NO_DEVICE = ""  # in place of an arch
ALSO_READ_AT_IMPORT = ("FORGE_DEVICE", "CDNA_CHECKS")
ORDER_BYTES, MOST_DESCRIPTORS = 1 << 17, 64
# By module, a constant that is the program of a Python that will need torch, or that starts such.
WARM = {
    "forge.judge.fork_server": "BOOT", "forge.commands.own_evaluator": "BOOT", "forge.compile_report.report": "WORKER",
    "forge.bulk.slots": "BOOT",
}  # fmt: skip
STARTS_OTHERS = "forge.bulk.slots"  # as eval.py does, and has no device itself
AS_HERE = "as here"  # of Triton's versions: this process's


def environment_of(arch: str, checks: str, triton: str) -> dict[str, str]:
    """What eval.py gives its workers for this arch and `--checks` (empty: none given), with that Triton."""
    from forge.device import resolve, triton_versions

    with patch.dict(os.environ, {} if triton == AS_HERE else triton_versions.environment(triton)):
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if arch != NO_DEVICE:
            device = resolve(arch, arch)
            if checks:
                device.use_checks(checks)
            environment |= device.environment()
            environment["POPCORN_GPUS"] = MOST_GPUS  # generators are made for these on import; later one may say fewer
    return environment


@contextlib.contextmanager
def path_kept() -> Iterator[None]:
    """Around a test: a command that runs in this process takes a Triton for itself, and what is forked for a later test
    shall have the one from before."""
    path, variable = list(sys.path), os.environ.get("PYTHONPATH")
    try:
        yield
    finally:
        sys.path[:] = path
        os.environ.pop("PYTHONPATH", None)
        if variable is not None:
            os.environ["PYTHONPATH"] = variable


class Parent:
    """A process that others are forked from, as this one sees it. above: what it is a fork of itself."""

    def __init__(self, above: Parent | None, role: str, environment: Mapping[str, str]) -> None:
        self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if above is None:
            command = [sys.executable, "-m", "tests.support.prepared", role, str(theirs.fileno())]
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=(theirs.fileno(),))
        else:
            above.fork({"role": role, "environment": dict(environment)}, [theirs.fileno()])
        theirs.close()
        self.ended: dict[int, int] = {}  # exit codes, of those that nobody has waited for
        self.alone = threading.RLock()
        atexit.register(self.close)

    def alive(self) -> bool:
        events = select.poll()
        events.register(self.line, 0)
        return not events.poll(0)

    def close(self) -> None:
        atexit.unregister(self.close)
        self.line.close()

    def said(self, timeout_s: float | None = 0) -> bool:
        """Whether there is an answer to be heard."""
        return bool(select.select([self.line], [], [], timeout_s)[0])

    def hear(self) -> int | None:
        """One answer: the pid of what it has forked, or None for an end."""
        if not (data := self.line.recv(ORDER_BYTES)):
            raise RuntimeError("the prepared process has ended")
        pid, code = json.loads(data)
        if code is None:
            return int(pid)
        self.ended[pid] = code
        return None

    def fork(self, order: dict[str, Any], descriptors: Sequence[int]) -> int:
        with self.alone:
            socket.send_fds(self.line, [json.dumps(order).encode()], list(descriptors))
            while self.said(STARTS_IN_S):
                if (pid := self.hear()) is not None:
                    return pid
        raise AssertionError(f"no process forked in {STARTS_IN_S} s")


_parents: dict[tuple[str, ...], Parent] = {}  # that used last at the end
MOST_PARENTS = 16  # each keeps 20 MB of its own, that of torch 80


def parent(arch: str = "gfx942", checks: str = "", triton: str = AS_HERE) -> Parent:
    # A test may have set these for itself; what was imported then serves no other.
    path, *set_here = (os.environ.get(name, "") for name in ("PYTHONPATH", *ALSO_READ_AT_IMPORT))

    def found(above: Callable[[], Parent | None], *key: str) -> Parent:
        one = _parents.pop(key, None)
        if one and not one.alive():  # a test of how a run ends all below it ended this, too
            one.close()
            one = None
        if one is None:
            one = Parent(above(), key[0], environment_of(arch if key[0] == "device" else NO_DEVICE, checks, triton))
            if len(_parents) == MOST_PARENTS:
                _parents.pop(next(iter(_parents))).close()
        _parents[key] = one
        return one

    def of_torch() -> Parent:
        return found(lambda: None, "torch", path)

    def of_triton() -> Parent:
        return found(of_torch, "triton", triton, path)

    if arch == NO_DEVICE:
        return found(of_triton, "checks", triton, path, *set_here)
    return found(of_triton, "device", arch, checks, triton, path, *set_here)


_execv = os.execv
START = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]


class ForkedPopen(subprocess.Popen[Any]):
    """subprocess.Popen, except that a Python which is one of WARM is a fork of this process, which is a parent's."""

    def is_warm(self, words: Sequence[str], environment: Mapping[str, str]) -> bool:
        if os.getpid() != _this.pid or words[0] != sys.executable:  # as in a worker, which is a fork of it
            return False
        starts = [name for name in WARM if getattr(sys.modules.get(name), WARM[name], None) in words]
        return STARTS_OTHERS in starts or bool(starts) and read_at_import(environment) == _this.imported_with

    def fork(self, order: dict[str, Any], descriptors: list[int]) -> int:
        if (pid := os.fork()) == 0:
            be_python(order, descriptors)
        return pid

    def _execute_child(self, *args: Any) -> None:
        given = START.bind(self, *args).arguments
        environment = dict(os.environ if given["env"] is None else given["env"])
        if isinstance(given["args"], str) or not self.is_warm(given["args"], environment):
            super()._execute_child(*args)  # type: ignore[misc]
            return
        here = {0: given["p2cread"], 1: given["c2pwrite"], 2: given["errwrite"]}
        descriptors = {number: number if end == -1 else end for number, end in here.items()}
        descriptors |= {int(number): int(number) for number in given["pass_fds"]}
        order = {
            "words": list(map(os.fspath, given["args"]))[1:],
            "folder": os.fspath(given["cwd"] or os.getcwd()),
            "environment": environment,
            "new session": given["start_new_session"],
            "descriptors": list(descriptors),
        }
        try:
            self.pid = self.fork(order, list(descriptors.values()))
        finally:
            ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
            self._close_pipe_fds(*(given[end] for end in ends))  # type: ignore[attr-defined, unused-ignore]
        self._child_created = True


class PreparedPopen(ForkedPopen):
    """`python words` as a fork of a prepared process. added: in place of env, what is added to that process's, of which
    it keeps the path too; imports: modules for this process and all later ones; evaluator: whether it will start
    workers itself, those of arch, checks and triton."""

    returncode: int | None

    def __init__(
        self, words: Sequence[str | Path], *, arch: str = "gfx942", checks: str = "", triton: str = AS_HERE,
        added: Mapping[str, str] | None = None, imports: Sequence[str] = (), evaluator: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        self.above = parent(arch, checks, triton)
        self.more = {"imports": list(imports), "evaluator": evaluator, "added": None if added is None else dict(added)}
        super().__init__([sys.executable, *map(str, words)], **options)

    def is_warm(self, words: Sequence[str], environment: Mapping[str, str]) -> bool:
        return True

    def fork(self, order: dict[str, Any], descriptors: list[int]) -> int:
        return self.above.fork(order | self.more, descriptors)

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        with self.above.alone:
            while self.returncode is None and self.pid not in self.above.ended and self.above.said():
                self.above.hear()
            if self.returncode is None:
                self.returncode = self.above.ended.pop(self.pid, None)
            return self.returncode

    def _wait(self, timeout: float | None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self._internal_poll()) is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.above.said(0.5 if left is None else min(left, 0.5))  # another thread may hear it
        return code


def run_evaluator(
    *arguments: str | Path, folder: Path, environment: Mapping[str, str], script: str | Path = "eval.py",
    writes_to: Sequence[int] = (), timeout: float = ENDS_S, **options: Any,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """`python eval.py arguments` in that folder with exactly this environment; workers are forked from what is imported
    for this arch, these checks and this Triton, if it is those that eval.py chooses, and start as ever if not. script:
    another that starts workers. writes_to: descriptors of this process that it shall have too."""
    words = [ROOT / script, *arguments]
    return _run(words, timeout, cwd=folder, env=environment, pass_fds=writes_to, **options)


def run_prepared(
    script: str, *arguments: str, environment: Mapping[str, str] = {}, timeout: float = ENDS_S, **options: Any
) -> subprocess.CompletedProcess[str]:
    """`python script arguments`, script: relative to the root, where it runs. environment: what differs from that of
    eval.py's workers; arch, checks: of the device, as for `--checks`."""
    return _run([script, *arguments], timeout, cwd=ROOT, added=environment, evaluator=False, **options)


def run_check(script: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """As run_prepared, without a device, for a script that calls forge.compile_report.report."""
    return run_prepared(script, *arguments, arch=NO_DEVICE, **options)


def _run(words: Sequence[str | Path], timeout: float, **options: Any) -> subprocess.CompletedProcess[str]:
    """What it prints goes to files: a pipe may be kept open by what it leaves behind."""
    options |= {"stdin": subprocess.DEVNULL, "start_new_session": True}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = PreparedPopen(words, stdout=out, stderr=errors, **options)
        try:
            code = process.wait(timeout)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read())
    return subprocess.CompletedProcess(process.args, code, *texts)


def run_submission(
    script: str, submission: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """run_prepared of a script that will load this submission."""
    return run_prepared(script, *arguments, imports=imports_of(submission), environment=environment)


def imports_of(submission: Path) -> list[str]:
    """What a process imports beforehand that will load this file."""
    return [HIP_EXTENSIONS] if HIP_EXTENSIONS in submission.read_text(errors="replace") else []


def serve(role: str, line: socket.socket) -> None:
    """A parent's own life: an order comes in for a process; its pid goes out, and how it ended."""
    before = dict(os.environ)
    gc.disable()  # importing makes no garbage, and looking for it takes a quarter of the time
    IMPORTS[role]()
    gc.set_threshold(RARELY)
    gc.enable()
    _this.imported_with = read_at_import(os.environ)
    _this.set_by_import = {name: value for name, value in os.environ.items() if before.get(name) != value}
    line.set_inheritable(False)
    below: dict[int, int] = {}  # pids by what is readable once they end
    events = select.poll()
    events.register(line, select.POLLIN)
    while True:
        for ready in [number for number, _ in events.poll()]:
            if pid := below.pop(ready, 0):
                events.unregister(ready)
                os.close(ready)
                line.send(json.dumps([pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]).encode())
                continue
            data, descriptors, _, _ = socket.recv_fds(line, ORDER_BYTES, MOST_DESCRIPTORS)
            if not data:
                return
            order = json.loads(data)
            for name in order.get("imports", ()):
                importlib.import_module(name)
            if order.get("evaluator"):
                import_evaluator()
            gc.collect()
            gc.freeze()  # collecting would write to all of it, and so copy it in every child
            if (pid := os.fork()) == 0:
                os._exit(be_a_parent(order, *descriptors) if "role" in order else be_python(order, descriptors))
            for descriptor in descriptors:
                os.close(descriptor)
            ended = os.pidfd_open(pid)
            below[ended] = pid
            events.register(ended, select.POLLIN)
            line.send(json.dumps([pid, None]).encode())


def be_a_parent(order: dict[str, Any], line: int) -> int:
    """This process will be one that was started with the order's environment."""
    paths = [os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ.clear()
    os.environ.update(order["environment"])
    paths.append(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    there, wanted = ([path for path in given if path] for given in paths)
    sys.path[1:] = [*wanted, *(path for path in sys.path[1:] if path not in there)]
    serve(order["role"], socket.socket(fileno=line))
    return 0


def import_torch() -> None:
    import torch.distributed
    import torch.multiprocessing  # noqa: F401


def import_triton() -> None:
    import triton.experimental.gluon.nvidia.hopper  # with the first launch

    from cdna.triton.cache_key import keep_triton_key
    from forge.judge.frozen import WITHIN_TORCH, import_ahead

    import_ahead(WITHIN_TORCH)
    keep_triton_key()
    triton.runtime.cache.triton_key()


def import_for_device() -> None:
    sys.modules.pop("sitecustomize", None)
    import sitecustomize  # noqa: F401 - prepares torch and Triton, which are there

    from forge.device.fake_rocm.launch import share_among_forks

    share_among_forks()
    del os.environ["POPCORN_GPUS"]
    os.environ["CDNA_DEVICES"] = "1"


@functools.cache
def import_evaluator() -> None:
    from forge.generate.kernelguard import remarks

    for name in ("commands.eval", "judge.referee", "judge.exchange", "judge.measure", "judge.operations"):
        importlib.import_module(f"forge.{name}")
    remarks(b"pass\n")  # has its patterns compiled


def import_for_checks() -> None:
    import torch

    from forge.compile_report.fake_gpu import GpuIsCpu, fake_tensors
    from forge.device.fake_rocm.launch import share_among_forks

    share_among_forks()
    with GpuIsCpu(), fake_tensors():  # more is imported with the first of some functions
        torch.randn((2, 2), device="cuda").to(torch.float8_e4m3fn).view(4, 1).abs()


def read_at_import(environment: Mapping[str, str]) -> list[Any]:
    """What of an environment decides what importing makes; workers lose this checkout from their path."""
    path = [one for one in environment.get("PYTHONPATH", "").split(os.pathsep) if one != str(ROOT)]
    return [path, *(environment.get(name) for name in (*ALSO_READ_AT_IMPORT, "OMP_NUM_THREADS"))]


class _This:
    """This process, which is a parent or a fork of one."""

    pid = 0  # of a Python that others may be forked from
    imported_with: list[Any] = []  # as read_at_import has it
    set_by_import: dict[str, str] = {}  # variables


_this = _This()


def be_python(order: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """From now on this process is a Python that was started with the order's words, environment and descriptors."""
    code = 1
    try:
        if order["new session"]:
            os.setsid()
        take_descriptors(descriptors, order["descriptors"])
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(order["folder"])
        tempfile.tempdir = None  # known before
        multiprocessing.process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined] # where it looks for the script
        if (added := order.get("added")) is None:
            os.environ.clear()
            os.environ.update(order["environment"])
            if read_at_import(os.environ) == _this.imported_with:
                os.environ.update(_this.set_by_import)
                gc.set_threshold(*AS_EVER)
                be_prepared()
        else:
            os.environ.update(added)
            be_prepared()
        if "POPCORN_GPUS" in (added or os.environ):
            os.environ["CDNA_DEVICES"] = os.environ["POPCORN_GPUS"]  # as on torch's import
        _this.pid = os.getpid()
        subprocess.Popen, os.execv = ForkedPopen, execute  # type: ignore[misc, assignment]
        code = run_words(order["words"], keeps_path=added is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def take_descriptors(descriptors: Sequence[int], targets: Sequence[int]) -> None:
    """Has these under these numbers, and no others."""
    beyond = max(targets) + 1
    copies = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, beyond) for descriptor in descriptors]
    os.closerange(3, beyond)
    for copy, target in zip(copies, targets, strict=True):
        os.dup2(copy, target)
    os.closerange(beyond, 1 << 16)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)


def be_prepared() -> None:
    """What this process has imported for its device is as if it had been imported now."""
    from forge.device import hook
    from forge.device.fake_rocm import launch

    compiler: Any = sys.modules["triton.compiler"]
    compiler.compile = launch.one_at_a_time(compiler.compile.__wrapped__)  # with a lock that is open
    if hook.STACKS in os.environ:
        faulthandler.register(int(os.environ[hook.STACKS]), os.dup(2))
    if hook.CALLS in os.environ:
        (finder,) = (one for one in sys.meta_path if type(one).__name__ == hook.AfterImport.__name__)
        told = hook._emulating(os.environ[hook.VARIABLE])
        finder.waiting |= {name: told[name] for name in ("reference", "submission")}  # type: ignore[attr-defined]


def execute(path: str, words: Sequence[str]) -> None:
    """os.execv: of a Python this process begins anew."""
    if os.getpid() != _this.pid or path != sys.executable:
        _execv(path, list(words))
    os._exit(run_words(words[1:]))


def run_words(words: Sequence[str], keeps_path: bool = False) -> int:
    """What `python words` would do, and its exit code."""
    words = [*words]
    while words[0] in ("-u", "-P", "-W"):
        if (option := words.pop(0)) == "-W":
            warnings.simplefilter(words.pop(0))  # type: ignore[arg-type]
        elif option == "-u":
            sys.stdout = io.TextIOWrapper(open(1, "wb", 0, closefd=False), write_through=True)
    kind = words.pop(0) if words[0] in ("-c", "-m") else ""
    if not keeps_path:
        first = {"-c": "", "-m": os.getcwd()}.get(kind, os.path.dirname(os.path.abspath(words[0])))
        asked = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:] = [first, *(folder for folder in sys.path if folder != str(ROOT) or folder in asked)]
    sys.argv[:] = [kind if kind == "-c" else words[0], *words[1:]]
    if "PYTHONFAULTHANDLER" in os.environ:
        faulthandler.enable()
    code: Any = 0
    try:
        if kind == "-m":
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        elif kind == "-c":
            sys.modules["__main__"] = module = types.ModuleType("__main__")
            exec(compile(words[0], "<string>", "exec"), vars(module))
        else:
            runpy.run_path(os.path.abspath(words[0]), run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
        if code and end.code is not code:
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    return int(code)


IMPORTS = {"torch": import_torch, "triton": import_triton, "device": import_for_device, "checks": import_for_checks}

if __name__ == "__main__":
    serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
