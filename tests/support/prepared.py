"""Runs scripts of this checkout on emulated GPUs, forked from a process that has imported torch and Triton for them.

Importing these takes a core seconds, which every script, and every rank that one spawns, would spend again. What is
forked begins with what has been imported and not used: no thread, no kernel, no process group. Such parents are forked
themselves: from one that has imported torch alone comes one for each Triton, and from these one for each device and
its checks, which are read as it is prepared. eval.py can run so too: the fork server of its workers is then a fork of
it. And so can what calls forge.compile_report.report, whose worker is then a fork of a process without a device that
has compiled nothing yet.

The judge's own fork server cannot serve here: it forks workers that speak the evaluator's channel inside one
evaluation, and runs no script and no eval.py. To teach it that would put test code into the process that a submission
is judged by.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import patch

from tests.support.limits import ENDS_S

ROOT = Path(__file__).resolve().parents[2]
MOST_GPUS = "8"
RARELY, AS_EVER = 50_000, (700, 10, 10)  # new objects between two looks for garbage: of scripts, of what judges
HIP_EXTENSIONS = "torch.utils.cpp_extension"  # takes two seconds more: imported once a submission does
STARTS_IN_S = ENDS_S  # the first to start builds the emulated device
NO_DEVICE = ""  # in place of an arch
ALSO_READ_AT_IMPORT = ("FORGE_DEVICE", "CDNA_CHECKS")
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
        (theirs_in, self.orders), (self.answers, theirs_out) = os.pipe(), os.pipe()
        if above is None:
            command = [sys.executable, "-m", "tests.support.prepared", role]
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=theirs_in, stdout=theirs_out)
        else:
            pipes = [f"/proc/{os.getpid()}/fd/{fd}" for fd in (theirs_in, theirs_out)]
            above.fork({"role": role, "environment": dict(environment), "pipes": pipes})
            self.answer(STARTS_IN_S)  # until when it has these pipes open
        os.close(theirs_in)
        os.close(theirs_out)
        self.end = select.poll()
        self.end.register(self.answers, 0)  # nobody will write there any more
        atexit.register(self.close)

    def alive(self) -> bool:
        return not self.end.poll(0)

    def close(self) -> None:
        atexit.unregister(self.close)
        os.close(self.orders)
        self.end.poll()
        os.close(self.answers)

    def answer(self, timeout_s: float) -> int | None:
        """Its next number; None if none comes in this time."""
        line = b""  # without a buffer, which could hold a line that select knows nothing of
        while not line.endswith(b"\n"):
            if not select.select([self.answers], [], [], timeout_s)[0]:
                return None
            line += (read := os.read(self.answers, 1))
            if not read:
                raise RuntimeError("the prepared process has ended")
        return int(line)

    def fork(self, order: dict[str, Any]) -> int:
        os.write(self.orders, json.dumps(order).encode() + b"\n")
        pid = self.answer(STARTS_IN_S)
        assert pid is not None, f"no process forked in {STARTS_IN_S} s"
        return pid

    def run(self, order: dict[str, Any], timeout_s: float) -> int | None:
        """The exit code of a script, or minus the signal that ended it; None where it had to be ended."""
        pid, code = self.fork(order), None
        try:
            code = self.answer(timeout_s)
        finally:
            if code is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                self.answer(STARTS_IN_S)
        return code


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


def run_prepared(
    script: str,
    *arguments: str,
    environment: Mapping[str, str] = {},
    imports: Sequence[str] = (),
    timeout: float = ENDS_S,
    arch: str = "gfx942",
    checks: str = "",
) -> subprocess.CompletedProcess[str]:
    """`python script arguments`, script: relative to the root, where it runs. environment: what differs from this
    process's. imports: modules for this script and all later ones. checks: of the device, as for `--checks`.
    """
    order = {"script": script, "arguments": arguments, "imports": imports, "environment": dict(environment)}
    return _run(parent(arch, checks), order, timeout)


def run_evaluator(
    *arguments: str,
    folder: Path,
    environment: Mapping[str, str],
    arch: str,
    checks: str,
    timeout: float,
    triton: str = AS_HERE,
    script: str = "eval.py",
    imports: Sequence[str] = (),
    writes_to: Sequence[int] = (),
) -> subprocess.CompletedProcess[str]:
    """`python eval.py arguments` in that folder with exactly this environment; workers are forked from what is imported
    for this arch, these checks and this Triton, if it is those that eval.py chooses, and start as ever if not. script:
    another that starts workers. writes_to: descriptors of this process that it shall have too."""
    order = {
        "script": str(ROOT / script),
        "arguments": arguments,
        "imports": imports,
        "folder": str(folder),
        "environment": dict(environment),
        "writes to": {fd: f"/proc/{os.getpid()}/fd/{fd}" for fd in writes_to},
    }
    return _run(parent(arch, checks, triton), order, timeout)


def run_check(script: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """As run_prepared, without a device, for a script that calls forge.compile_report.report."""
    return run_prepared(script, *arguments, arch=NO_DEVICE, **options)


def _run(parent: Parent, order: dict[str, Any], timeout: float) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        order["outputs"] = [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (out, errors)]
        code = parent.run(order, timeout)
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read())
    command = [order["script"], *order["arguments"]]
    if code is None:
        raise subprocess.TimeoutExpired(command, timeout, *texts)
    return subprocess.CompletedProcess(command, code, *texts)


def run_submission(
    script: str, submission: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """run_prepared of a script that will load this submission."""
    return run_prepared(script, *arguments, imports=imports_of(submission), environment=environment)


def imports_of(submission: Path) -> list[str]:
    """What a process imports beforehand that will load this file."""
    return [HIP_EXTENSIONS] if HIP_EXTENSIONS in submission.read_text(errors="replace") else []


def serve(role: str) -> None:
    """A parent's own life: a line comes in for a script, or for another parent; its pid goes out, and how a script
    ended."""
    before = dict(os.environ)
    gc.disable()  # importing makes no garbage, and looking for it takes a quarter of the time
    IMPORTS[role]()
    gc.set_threshold(RARELY)
    gc.enable()
    set_by_import = [name for name, value in os.environ.items() if before.get(name) != value]
    for line in sys.stdin:
        order = {**json.loads(line), "set by import": set_by_import}
        for name in order.get("imports", ()):
            importlib.import_module(name)
        if "folder" in order:
            import_evaluator()
        gc.collect()
        gc.freeze()  # collecting would write to all of it, and so copy it in every child
        pid = os.fork()
        if pid == 0:
            os._exit(be_a_parent(order) if "role" in order else run_script(order))
        print(pid, flush=True)
        if "role" not in order:
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def be_a_parent(order: dict[str, Any]) -> int:
    """This process will be one that was started with the order's environment."""
    for standard, (path, mode) in enumerate(zip(order["pipes"], (os.O_RDONLY, os.O_WRONLY), strict=True)):
        opened = os.open(path, mode)
        os.dup2(opened, standard)
        os.close(opened)
    sys.stdin = open(0, closefd=False)
    print(os.getpid(), flush=True)
    paths = [os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ.clear()
    os.environ.update(order["environment"])
    paths.append(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    there, wanted = ([path for path in given if path] for given in paths)
    sys.path[1:] = [*wanted, *(path for path in sys.path[1:] if path not in there)]
    serve(order["role"])
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

    import forge.compile_report.report
    from forge.compile_report.fake_gpu import GpuIsCpu, fake_tensors
    from forge.device.fake_rocm.launch import share_among_forks

    share_among_forks()
    with GpuIsCpu(), fake_tensors():  # more is imported with the first of some functions
        torch.randn((2, 2), device="cuda").to(torch.float8_e4m3fn).view(4, 1).abs()
    forge.compile_report.report.start_worker = fork_a_checker  # type: ignore[assignment]


def fork_a_checker(folder: str, words: TextIO, descriptor: int, environment: dict[str, str]) -> Forked:
    """What forge.compile_report.report starts as a Python of its own, except that torch and Triton are there."""
    from forge.compile_report.worker import main

    theirs, ours = os.pipe()
    sys.stdout.flush()  # or it would print this process's lines as well
    pid = os.fork()
    if pid:
        os.close(theirs)
        return Forked(pid, os.fdopen(ours, "w"))
    code = 1
    try:
        os.close(ours)
        os.dup2(theirs, 0)
        for standard in (1, 2):
            os.dup2(words.fileno(), standard)
        sys.stdin = open(0)
        os.chdir(folder)
        warnings.simplefilter("ignore")
        main()
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def read_at_import(environment: Mapping[str, str]) -> list[Any]:
    """What of an environment decides what importing makes; workers lose this checkout from their path."""
    path = [one for one in environment.get("PYTHONPATH", "").split(os.pathsep) if one != str(ROOT)]
    return [path, *(environment.get(name) for name in (*ALSO_READ_AT_IMPORT, "OMP_NUM_THREADS"))]


def be_an_evaluator(order: dict[str, Any]) -> None:
    """This process will run eval.py: with the order's environment and folder, and a fork of it as fork server."""
    from forge.judge.fork_server import ForkServer

    imported_with = read_at_import(os.environ)
    set_by_import = {name: os.environ[name] for name in order["set by import"]}
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    spawn = ForkServer._spawn

    def fork(self: ForkServer, fd: int) -> subprocess.Popen[bytes] | Forked:
        if read_at_import(self.environment) != imported_with:
            return spawn(self, fd)
        pid = os.fork()
        if pid == 0:
            be_a_fork_server(fd, {**self.environment, **set_by_import})
        return Forked(pid)

    ForkServer._spawn = fork  # type: ignore[assignment, method-assign]


def be_a_fork_server(fd: int, environment: Mapping[str, str]) -> None:
    """What forge.judge.fork_server starts as a Python of its own, except that torch is there."""
    from forge.device.fake_rocm import launch
    from forge.judge.fork_server import serve

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    os.chdir("/")
    os.environ.clear()
    os.environ.update(environment, CDNA_DEVICES=environment["POPCORN_GPUS"])  # as on torch's import
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    os.closerange(3, fd)
    os.closerange(fd + 1, 1 << 16)
    compiler: Any = sys.modules["triton.compiler"]
    compiler.compile = launch.one_at_a_time(compiler.compile.__wrapped__)  # with a lock that is open
    gc.set_threshold(*AS_EVER)
    sys.argv[:] = ["eval.py"]
    sys.path[:] = [str(ROOT), "", *(folder for folder in sys.path if folder != str(ROOT))]
    try:
        serve(fd, str(ROOT))
    finally:
        os._exit(1)


class Forked:
    """A forked process, with the part of Popen that is used where one is started."""

    def __init__(self, pid: int, stdin: TextIO | None = None) -> None:
        self.pid, self.stdin = pid, stdin
        self.returncode: int | None = None

    def poll(self, flags: int = os.WNOHANG) -> int | None:
        if self.returncode is None:
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(self.pid, flags)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self) -> int | None:
        return self.poll(0)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def run_script(order: dict[str, Any]) -> int:
    os.setsid()
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    for descriptor, path in enumerate(order["outputs"], 1):
        with open(path, "a") as file:
            os.dup2(file.fileno(), descriptor)
    if "folder" in order:
        for descriptor, path in order["writes to"].items():
            with open(path, "w") as file:
                os.dup2(file.fileno(), int(descriptor))
        be_an_evaluator(order)
    else:
        os.environ.update(order["environment"])
    if "POPCORN_GPUS" in order["environment"]:
        os.environ["CDNA_DEVICES"] = order["environment"]["POPCORN_GPUS"]  # as on torch's import
    sys.argv[:] = [order["script"], *order["arguments"]]
    code = 0
    try:
        runpy.run_path(order["script"], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
        if code and end.code is not code:
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    return code


IMPORTS = {"torch": import_torch, "triton": import_triton, "device": import_for_device, "checks": import_for_checks}

if __name__ == "__main__":
    serve(sys.argv[1])
