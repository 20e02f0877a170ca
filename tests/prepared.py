"""Runs scripts of this checkout on emulated GPUs, forked from one process that has imported torch and Triton for them.

Importing these takes a core seconds, which every script, and every rank that one spawns, would spend again. What is
forked begins with what has been imported and not used: no thread, no kernel, no process group. A script that sets what
is read as torch is imported (CDNA_CHECKS) needs a process of its own.
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HIP_EXTENSIONS = "torch.utils.cpp_extension"  # takes two seconds more: imported once a submission does
STARTS_IN_S = 120


class Parent:
    """The process that the others are forked from, as this one sees it."""

    def __init__(self) -> None:
        from forge import device

        environment = {**os.environ, **device.resolve("gfx942", "gfx942").environment()}
        command = [sys.executable, "-m", "tests.prepared"]
        pipe = subprocess.PIPE  # without a buffer, which could hold a line that select knows nothing of
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, bufsize=0)
        atexit.register(self.close)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def answer(self, timeout_s: float) -> int | None:
        """Its next number; None if none comes in this time."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], timeout_s)
        if not ready:
            return None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the prepared process has ended, with exit code {self.process.wait()}")
        return int(line)

    def run(self, order: dict[str, Any], timeout_s: float) -> int | None:
        """The exit code of a script, or minus the signal that ended it; None where it had to be ended."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        pid, code = self.answer(STARTS_IN_S), None
        assert pid is not None, f"no process forked in {STARTS_IN_S} s"
        try:
            code = self.answer(timeout_s)
        finally:
            if code is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                self.answer(STARTS_IN_S)
        return code


_newest_parent = functools.cache(Parent)


def parent() -> Parent:
    if _newest_parent().process.poll() is not None:  # a test of how a run ends everything below it ended this, too
        _newest_parent.cache_clear()
    return _newest_parent()


def run_prepared(
    script: str, *arguments: str, environment: Mapping[str, str] = {}, imports: Sequence[str] = (), timeout: float = 280
) -> subprocess.CompletedProcess[str]:
    """`python script arguments`, script: relative to the root, where it runs. environment: what differs from this
    process's. imports: modules for this script and all later ones.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        order = {
            "script": script,
            "arguments": arguments,
            "imports": imports,
            "environment": dict(environment),
            "outputs": [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (out, errors)],
        }
        code = parent().run(order, timeout)
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read())
    command = [script, *arguments]
    if code is None:
        raise subprocess.TimeoutExpired(command, timeout, *texts)
    return subprocess.CompletedProcess(command, code, *texts)


def run_submission(
    script: str, submission: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """run_prepared of a script that will load this submission."""
    imports = [HIP_EXTENSIONS] if HIP_EXTENSIONS in submission.read_text() else []
    return run_prepared(script, *arguments, imports=imports, environment=environment)


def serve() -> None:
    """The parent's own life: a line comes in for a script; its pid goes out, and how it ended."""
    import torch.distributed
    import torch.multiprocessing  # noqa: F401
    import triton  # noqa: F401 - which is prepared then, by asgpu.launch

    from forge.device.asgpu.launch import share_among_forks

    share_among_forks()
    for line in sys.stdin:
        order = json.loads(line)
        for name in order["imports"]:
            importlib.import_module(name)
        gc.collect()
        gc.freeze()  # collecting would write to all of it, and so copy it in every child
        pid = os.fork()
        if pid == 0:
            os._exit(run_script(order))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def run_script(order: dict[str, Any]) -> int:
    os.setsid()
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    for descriptor, path in enumerate(order["outputs"], 1):
        with open(path, "a") as file:
            os.dup2(file.fileno(), descriptor)
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


if __name__ == "__main__":
    serve()
