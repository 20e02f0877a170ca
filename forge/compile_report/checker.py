"""Compiles what a submission launches, and runs none of it.

The submission is loaded as the leaderboard would load it, and its custom_kernel is called for every case on
fake tensors: shapes, strides and types without data (torch's FakeTensorMode). Every launch of a Triton kernel
becomes a compilation. So whatever the host code decides, its tuning table included, is decided by the host
code itself, and pointers are as aligned as they will be. A case in which something reads a tensor's values is
run again on real tensors, with the launches still only compiled: what its host code then reads of a kernel's
output is whatever memory held. Where a submission builds HIP, hip_checker.py takes over.
"""

import ast
import dataclasses
import importlib
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import triton
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from triton.runtime.jit import JITFunction

from forge.compile_report.fake_gpu import CompileOnly, GpuIsCpu, fake_tensors
from forge.compile_report.findings import Failure, Findings, KernelRow, Progress, Tell
from forge.device.resources import WAVE_LANES, parsed, paths_of, read_resources
from forge.device.triton_launches import launches_become
from forge.device.triton_versions import keep_triton_key, known_faults_of, provide_linker
from forge.judge.triton_errors import first_cause, message_of, said_of
from forge.task.problem import Case
from forge.task.watched_table import WatchedTable

# What fake tensors raise where something asks for their values.
NEEDS_DATA = (DataDependentOutputException, DynamicOutputShapeException)


class Checker:
    def __init__(self, arch: str, tell: Tell) -> None:
        self.arch, self.tell = arch, tell
        self.label = ""  # of the case being run
        self.kernels: dict[str, KernelRow] = {}  # by the hash of the compiled kernel
        self.failures: dict[str, Failure] = {}  # by kernel and compile-time arguments
        self.errors: dict[str, list[str]] = {}  # what went wrong outside the compiler: in which cases
        self.notes: list[str] = []
        self.launched: set[str] = set()
        self.fresh: dict[str, Any] = {}  # what the compiler said about the kernel it made last
        provide_linker()
        keep_triton_key()
        triton.runtime.driver.set_active(CompileOnly(arch))
        triton.knobs.compilation.listener = self.compiled

    # ------------------------------------------------------------ compiling

    def compiled(self, *, src: Any, metadata: Any, metadata_group: Any, times: Any, cache_hit: bool) -> None:
        constants = {src.fn.arg_names[path[0]]: value for path, value in src.constants.items() if len(path) == 1}
        self.fresh = {
            "constants": {k: _shown(v) for name, value in constants.items() for k, v in _parts(name, value).items()},
            "compile_s": None if cache_hit else times.total / 1e6,
        }

    def launch(self, kernel: JITFunction[Any], original: Callable[..., Any], args: Any, kwargs: Any) -> None:
        name = kernel.__name__
        self.launched.add(name)
        given = {**dict(zip(kernel.arg_names, args)), **kwargs}
        fixed = {n: v for n, v in given.items() if not isinstance(v, torch.Tensor) and n not in _runtime_names(kernel)}
        known = f"{name} {fixed}"
        if known in self.failures:
            self.failures[known].cases.append(self.label)
            return
        try:
            self.fresh = {}
            made = original(kernel, *args, **{**kwargs, "warmup": True})
        except Exception as error:  # the compiler's errors share no base class
            self.failures[known] = Failure(reason_of(error), [self.label], name)
            return
        if made.hash not in self.kernels:
            self.kernels[made.hash] = row_of(made, name, **self.fresh)
            texts = [f"{name}: compiler: {text}" for text in known_faults_of(made.asm, triton.__version__)]
            self.notes += [text for text in texts if text not in self.notes]
            self.tell(Progress(f"{name} for {self.label}"))
        cases = self.kernels[made.hash].cases
        if self.label not in cases:
            cases.append(self.label)

    def found(self) -> Findings:
        failures = [*self.failures.values(), *(Failure(error, cases) for error, cases in self.errors.items())]
        compilers = [f"Triton {triton.__version__}"] if self.launched else []
        return Findings(list(self.kernels.values()), failures, self.notes, compilers)

    # ------------------------------------------------------------ running

    def check(self, submission: Any, generate_input: Callable[..., Any], cases: dict[str, Case]) -> None:
        """Call custom_kernel for every case, then for every row of its table that no case chose."""
        table = getattr(submission, "TUNING", None)
        recorder = WatchedTable(table) if isinstance(table, dict) else None
        if recorder is not None:
            submission.TUNING = recorder
        caches = [value for value in vars(submission).values() if type(value) is dict and not value]
        for label, case in cases.items():
            self.run_case(submission, generate_input, label, case)
        if recorder is not None:
            self.run_other_rows(submission, generate_input, recorder, cases, caches)
        for name in sorted(launched_names(submission.__file__) - self.launched):
            if name in vars(submission):
                self.notes.append(f"{name} is launched by no case and no row of the table: not compiled")
        if not self.anything_launched() and not self.errors:
            self.errors["no kernel was launched"] = []

    def anything_launched(self) -> bool:
        return bool(self.launched)

    def run_case(self, submission: Any, generate_input: Callable[..., Any], label: str, case: Case) -> None:
        self.label = label
        self.tell(Progress(label))
        try:
            with GpuIsCpu(), fake_tensors(), launches_become(self.launch):
                submission.custom_kernel(generate_input(**case))
            return
        except NEEDS_DATA:
            self.tell(Progress(f"{label}, on real tensors"))
        except Exception as error:
            self.errors.setdefault(f"{reason_of(error)} ({place_of(error)})", []).append(label)
            return
        try:
            with GpuIsCpu(), launches_become(self.launch):
                submission.custom_kernel(generate_input(**case))
        except Exception as error:
            self.errors.setdefault(f"{reason_of(error)} ({place_of(error)})", []).append(label)

    def run_other_rows(
        self,
        submission: Any,
        generate_input: Callable[..., Any],
        table: WatchedTable,
        cases: dict[str, Case],
        caches: list[dict[Any, Any]],
    ) -> None:
        """With an empty table every shape takes DEFAULT: so each row in turn is made the default.

        caches: the submission's dicts, empty after its import, in which it may keep what it has chosen for a shape.
        """
        label, case = next(iter(cases.items()))
        default = getattr(submission, "DEFAULT", None)
        asked = set(table.asked)
        rows = {
            f"row {key}": row
            for key, row in table.items()
            if key not in asked and self.arch in archs_in(key, self.arch)
        }
        if not asked - table.keys() and default is not None:
            rows["DEFAULT"] = default
        submission.TUNING = {}
        for name, row in rows.items():
            submission.DEFAULT = row
            for cache in caches:
                cache.clear()
            self.run_case(submission, generate_input, f"{name}, tried on {label}", case)


def archs_in(key: Any, otherwise: str) -> list[str]:
    """The archs that a row's key names; a key without any is for every arch."""
    parts = key if isinstance(key, tuple) else (key,)
    return [p for p in parts if isinstance(p, str) and re.fullmatch(r"gfx\w+|sm_\w+", p)] or [otherwise]


def row_of(kernel: Any, name: str, constants: dict[str, str], compile_s: float | None) -> KernelRow:
    """What the assembly says of a compiled Triton kernel. Triton asks for all of its LDS at launch."""
    (found,) = read_resources(kernel.asm["amdgcn"])
    made = kernel.metadata
    wrong, undecided = paths_of(parsed(kernel.asm["amdgcn"], kernel.asm["hsaco"]))[found.kernel]
    return KernelRow(
        replace(found, kernel=name),
        constants,
        made.num_warps * WAVE_LANES,
        made.shared,
        [],
        compile_s,
        made.num_stages,
        wrong=wrong,
        undecided=undecided,
    )


def launched_names(path: str) -> set[str]:
    """Names that the file launches: `name[grid](...)`."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    return {
        node.func.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript) and isinstance(node.func.value, ast.Name)
    }


def _parts(name: str, value: Any) -> dict[str, Any]:
    """A compile-time argument; of one that is an object, its fields."""
    return vars(value) if dataclasses.is_dataclass(value) else {name: value}


def _shown(value: Any) -> str:
    return value.__name__ if isinstance(value, JITFunction) else str(value)


def _runtime_names(kernel: JITFunction[Any]) -> set[str]:
    return {"grid", "warmup"} | {param.name for param in kernel.params if not param.is_constexpr}


def reason_of(error: BaseException) -> str:
    """The first cause in one line."""
    cause, code, _ = first_cause(error)
    said = message_of(cause)
    if "PassManager" in said:  # the compiler's passes explain themselves on standard error only
        said = next((line for line in reversed(_own_words().splitlines()) if "error:" in line), said)
    said = said.partition("Exception raised from")[0]  # of C++ code, with its stack below
    return f"{type(cause).__name__}: {re.sub(r' at 0x[0-9a-f]+', '', said_of(said, code))}"


def _own_words() -> str:
    """What this process has written to standard error, which the command that started it keeps in a file."""
    try:
        return os.pread(2, 1 << 20, 0).decode(errors="replace")
    except OSError:
        return ""


def place_of(error: BaseException) -> str:
    """Where in the run folder an error arose."""
    place, trace = "", error.__traceback__
    while trace is not None:
        if os.path.dirname(os.path.abspath(trace.tb_frame.f_code.co_filename)) == os.getcwd():
            place = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place or "outside the submission"


def run_check(checker: Checker, cases: dict[str, Case]) -> None:
    """Import what is in the run folder, and check it."""
    try:
        generate_input = importlib.import_module("reference").generate_input
        submission = importlib.import_module("submission")
    except Exception as error:
        checker.errors[f"cannot be imported: {reason_of(error)} ({place_of(error)})"] = []
    else:
        checker.check(submission, generate_input, cases)
