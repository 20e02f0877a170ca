"""Modelled times of many rows of a tuning table, offline: launches are sampled and replayed, and compute nothing.

A case takes seconds where judging it takes minutes, so a table can be made anew. What a row computes is not looked at:
tests execute every row of a table. Of several ranks rank 0 is modelled without its links; its peers have all
signalled already.

Rows are tried in a process of its own for each submission, started as `python -m lab.tuning_tables.modelled`: it takes
requests as JSON lines, and answers each row with a line.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import math
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msgspec import Struct

from forge.device import resolve, triton_versions
from forge.device.report import Caches
from forge.judge.worker import die_with_parent
from forge.task import json_lines
from forge.task.problem import ROOT, Case, Problem, find_problem
from forge.tune.search import Row
from forge.tune.trial import Outcome

ROW_VARIABLE = "FORGE_TUNE_ROW"  # where a submission without a TUNING in Python finds the row under trial
START_S = 300  # for the process to start, HIP sources to compile, and a case's inputs to be made
# Kernels, by parts of their names, that run whole: what they compute decides what the others of their problem do.
RUN_WHOLE = {"amd-mixture-of-experts": ("router", "sort"), "amd-moe-mxfp4": ("sort",)}
# What is larger keeps what its memory held: weights and caches decide nothing, an activation may decide who works.
DRAWN_ELEMENTS = 1 << 26
DRAWN_OF_A_MATRIX = 1 << 22
QUANTISERS = ("mxfp4_quantize", "quantize_fp8")  # of references: x -> parts
SIGNALLED = 1 << 30  # what flags of peers hold: an epoch that no call comes to


@dataclass(frozen=True)
class Sweep:
    """Rows of one case, tried one after the other: {} is the submission as it is."""

    problem: str
    text: str  # of the submission
    triton: str  # version, or installed
    caches: Caches
    case: Case
    key: str | None  # of the rows, as Python spells it; None: only {} is tried, and tells
    rows: tuple[Row, ...]
    row_timeout_s: float

    def __hash__(self) -> int:
        return id(self)


class Request(Struct):
    """One row of a case."""

    caches: Caches
    case: Case
    key: str | None
    row: Row


def sweep(job: Sweep) -> list[Outcome]:
    """Runs where a Dask worker is. What a row does to its process is its own loss."""
    outcomes: list[Outcome] = []
    for position, row in enumerate(job.rows):
        child = Child.serving(job)
        request = Request(job.caches, job.case, job.key, row)
        outcomes.append(child.ask(request, job.row_timeout_s + (0 if position else START_S)))
    return outcomes


class Child:
    """The process that models a submission's rows; one at a time for each Dask worker."""

    current: Child | None = None

    def __init__(self, job: Sweep) -> None:
        self.serves = (job.problem, job.text, job.triton)
        problem = find_problem(job.problem)
        assert problem.arch is not None
        environment = {**os.environ, **triton_versions.environment(job.triton), "CDNA_THREADS": "1"}
        environment |= {"OMP_NUM_THREADS": "1", "CDNA_CHECKS": ""}
        path = filter(None, [environment.get("PYTHONPATH")])
        environment["PYTHONPATH"] = os.pathsep.join([*path, str(ROOT)])
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "lab.tuning_tables.modelled", job.problem],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            preexec_fn=die_with_parent,
        )  # fmt: skip
        self._write(job.text)

    @classmethod
    def serving(cls, job: Sweep) -> Child:
        child = cls.current
        if child is None or child.serves != (job.problem, job.text, job.triton) or child.process.poll() is not None:
            if child is not None:
                child.end()
            child = cls.current = Child(job)
        return child

    def ask(self, request: Request, timeout_s: float) -> Outcome:
        try:
            self._write(request)
            assert self.process.stdout is not None
            if not select.select([self.process.stdout], [], [], timeout_s)[0]:
                self.end()
                return Outcome("timeout", f"not modelled within {timeout_s:g} s")
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            self.end()
            self.errors.seek(0)
            said = self.errors.read().decode(errors="replace").strip().splitlines() or ["it said nothing"]
            return Outcome("crash", f"exit code {self.process.returncode}: {said[-1]}")
        return json_lines.decode(line, Outcome)

    def _write(self, value: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json_lines.encode(value))
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        if Child.current is self:
            Child.current = None


# ---------------------------------------------------------------- the process


class Modeller:
    def __init__(self, problem: Problem, text: str, folder: Path) -> None:
        """Loads the submission as a worker of eval.py does, as rank 0 where there are several."""
        for file in problem.files:
            if file.source is not None and file.source.is_file():
                (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.source, folder / file.name)
        (folder / "submission.py").write_text(text, encoding="utf-8")
        sys.path.insert(0, str(folder))
        os.chdir(folder)
        self.ranks = problem.world_size
        self.run_whole = RUN_WHOLE.get(problem.name, ())
        if self.ranks > 1:
            import torch.distributed as dist
            from torch.testing._internal.distributed.fake_pg import FakeStore

            dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=self.ranks)
        reference = importlib.import_module("reference")
        for name in QUANTISERS:
            if hasattr(reference, name):
                setattr(reference, name, quantising_a_row(getattr(reference, name)))
        self.generate_input = reference.generate_input
        submission: Any = importlib.import_module("submission")
        self.submission = submission
        if hasattr(self.submission, "Region"):
            self.submission.Region = with_peers(self.submission.Region)
        self.rows = dict(getattr(self.submission, "TUNING", {}))
        self.case: Case | None = None

    def data(self, case: Case) -> Any:
        if case != self.case:
            self.inputs = None  # before there are others
            ranks = {"rank": 0} if self.ranks > 1 else {}
            with large_tensors_not_drawn():
                self.inputs, self.case = self.generate_input(**ranks, **case), case
        return self.inputs

    def model(self, asked: Request) -> Outcome:
        import torch

        from forge.device.base import version_of
        from forge.device.fake_rocm import work
        from forge.task.watched_table import WatchedTable

        data, key, row = self.data(asked.case), asked.key, asked.row
        table = WatchedTable(self.rows)
        if row and key is not None:
            table[ast.literal_eval(key)] = dict(row)
        self.submission.TUNING = table
        os.environ[ROW_VARIABLE] = " ".join(map(str, row.values()))

        def call() -> None:
            self.submission.custom_kernel(data)
            torch.cuda.synchronize()

        with torch.no_grad():
            times, scratch = work.sampled(call, self.run_whole)
        keys = tuple(map(repr, dict.fromkeys(table.asked)))
        status, message, us = "pass", "", {}
        if not times:
            status, message = "error", "no kernel was launched"
        elif row and key is not None and key not in keys and self.rows:
            status, message = "error", f"custom_kernel did not look up {key} again in TUNING: it keeps a plan"
        else:
            us = {"modelled": times.of(asked.caches).us}
            status, message = ("spills", scratch) if scratch else (status, message)
        found = {name: version_of(name) for name in ("torch", "triton")}
        return Outcome(status, message, us, keys, found)


@contextlib.contextmanager
def large_tensors_not_drawn() -> Iterator[None]:
    import torch

    draw = torch.randn

    def randn(shape: Any, *, generator: Any = None, **kind: Any) -> torch.Tensor:
        if math.prod(shape) >= (DRAWN_OF_A_MATRIX if len(shape) == 2 else DRAWN_ELEMENTS):
            return torch.empty(shape, **kind)
        return draw(shape, generator=generator, **kind)

    with patch.object(torch, "randn", randn):
        yield


def quantising_a_row(quantise: Callable[..., Sequence[Any]]) -> Callable[..., tuple[Any, ...]]:
    """The quantiser, but of what was not drawn only the first row is quantised."""

    def quantised(x: Any, **options: Any) -> tuple[Any, ...]:
        if x.numel() < DRAWN_ELEMENTS:
            return tuple(quantise(x, **options))
        parts = quantise(x[:1], **options)
        return tuple(part if part.ndim == 1 else part.new_empty((len(x), *part.shape[1:])) for part in parts)

    return quantised


def with_peers(region: Any) -> type:
    """kernels/common/symmetric_heap.py's Region of a process that is alone: memory for every rank.

    It counts as this GPU's own: the links, which every row loads alike, would hide what a row changes.
    """
    import torch

    class WithPeers(region):
        def __init__(self, size_bytes: int, addresses: Any, device: Any, alarm: Any = None) -> None:
            words = -(-size_bytes // 4)
            self.memory = [torch.empty(words, dtype=torch.int32) for _ in addresses]
            self.memory[0].fill_(SIGNALLED)
            super().__init__(size_bytes, tuple(one.data_ptr() for one in self.memory), device, alarm)

    return WithPeers


@contextlib.contextmanager
def own_output() -> Iterator[Any]:
    """The answers' stream; what anything else prints goes to standard error."""
    with os.fdopen(os.dup(1), "w") as channel:
        os.dup2(2, 1)
        yield channel


def main(problem_name: str) -> None:
    problem = find_problem(problem_name)
    assert problem.arch is not None
    resolve(problem.arch, problem.arch).prepare()
    with own_output() as channel, tempfile.TemporaryDirectory(prefix="forge-model-") as folder:
        modeller: Modeller | None = None
        text = json_lines.decode(sys.stdin.readline(), str)
        for line in sys.stdin:
            try:
                modeller = modeller or Modeller(problem, text, Path(folder))
                answer = modeller.model(json_lines.decode(line, Request))
            except Exception as error:  # the compiler's, the emulator's, the submission's
                said = " ".join(str(error).split())[:300]
                answer = Outcome("error", f"{type(error).__name__}: {said}")
            channel.write(json_lines.encode(answer).decode())
            channel.flush()


if __name__ == "__main__":
    main(sys.argv[1])
