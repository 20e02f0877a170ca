"""Runs reproducers in this process's compiler, each in a child of its own: one may end its process, or never end."""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections import Counter
from typing import Any

import torch

import cdna
from cdna.engine.library import engine
from cdna.errors import CdnaError, UnsupportedInstruction

from . import corpus

FILES = ("conversions", "arithmetic", "matrix", "loops", "reductions", "memory", "clang", "clang_waits")
MOST_CPU_S = 150  # of one reproducer
RIGHT, WRONG, REFUSED, ENDLESS, UNKNOWN = "right", "wrong", "does not compile", "does not end", "not emulated"


def load_all() -> dict[str, corpus.Reproducer]:
    for file in FILES:
        importlib.import_module(f"{__package__}.{file}")
    return corpus.ALL


def outcome(one: corpus.Reproducer, arch: str) -> dict[str, Any]:
    """What becomes of a reproducer in this process."""
    torch.manual_seed(0)
    corpus.put_on(arch)
    cdna.findings()
    try:
        with cdna.device(arch, checks="all", raises=False):
            first_wrong = corpus.first_wrong(one.run())
    except UnsupportedInstruction as error:
        return {"result": UNKNOWN, "first_wrong": str(error).splitlines()[0]}
    except Exception as error:  # compilers' errors share no base class
        said = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
        inside = traceback.extract_tb(error.__traceback__)[-1].filename
        told = said[0] if isinstance(error, CdnaError) else said[-1]
        return {"result": REFUSED, "first_wrong": f"{type(error).__name__}: {told[:160]} ({os.path.basename(inside)})"}
    result = WRONG if first_wrong else RIGHT
    kinds = Counter(finding.kind for finding in cdna.findings())
    return {"result": result, "first_wrong": first_wrong} | ({"findings": dict(sorted(kinds.items()))} if kinds else {})


def in_a_child(one: corpus.Reproducer, arch: str) -> dict[str, Any]:
    """The outcome, whatever the compiler or the kernel does to the process."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S + 5))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60 * MOST_CPU_S)  # one that waits takes no processor time
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            try:
                os.write(writing, json.dumps(outcome(one, arch)).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        if told:
            return json.loads(told)
        by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if by in (signal.SIGXCPU, signal.SIGKILL, signal.SIGALRM):
            return {"result": ENDLESS, "first_wrong": f"within {MOST_CPU_S} s of a core"}
        said.seek(0)
        lines = [line.strip() for line in said.read().decode(errors="replace").splitlines()]
        why = next((line for line in lines if "LLVM ERROR" in line or "Assertion" in line or "error:" in line), "")
        return {"result": REFUSED, "first_wrong": f"{signal.Signals(by).name if by else 'ended'}: {why[:160]}"}


def main(todo: list[str], version: str) -> None:
    """A line of JSON for each ARCH:NAME; version: of this process's compiler."""
    torch.set_num_threads(1)
    known = load_all()
    engine()  # all children have it then
    for arch, _, name in (one.partition(":") for one in todo):
        one = known[name]
        row = {"reproducer": name, "arch": arch, **in_a_child(one, arch), "version": version, "digest": one.digest}
        print(json.dumps(row), flush=True)
    sys.stdout.flush()
