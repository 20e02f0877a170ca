"""`gen_submission.py --check` where a submission builds HIP: kernels are compiled, launches noted, none carried out.

The process is prepared as for an emulated GPU, so that load_inline compiles; the HIP runtime then only notes launches
(forge/device/fake_rocm/recording.py). Tensors are real, for C++ code wants addresses, but nothing is ever written to
them: inputs are generated without data, and given memory that the operating system has not backed yet. Triton kernels
of the same file are compiled as in checker.py.
"""

import importlib
import io
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from forge.compile_report.checker import NEEDS_DATA, Checker, place_of, reason_of, run_check
from forge.compile_report.fake_gpu import GpuIsCpu, fake_tensors, pretend_gpu
from forge.compile_report.findings import Findings, KernelRow, Progress, Request, Tell
from forge.device import resolve
from forge.device.hip_compiler import compiler_notes, hip_compiler
from forge.device.triton_launches import launches_become
from forge.task.problem import Case


def check_with_hip(request: Request, tell: Tell) -> Findings:
    arch = request.arch
    with pretend_gpu(arch):
        inputs = inputs_without_data(request.cases, tell)
    resolve(arch, arch).prepare()
    checker = HipChecker(arch, tell, inputs)
    run_check(checker, request.cases)
    return checker.found()


def inputs_without_data(cases: dict[str, Case], tell: Tell) -> dict[str, bytes]:
    """Each case's input, pickled with tensors' shapes in their place; not those that depend on values."""
    made = {}
    for label, case in cases.items():
        tell(Progress(label))
        try:
            with GpuIsCpu(), fake_tensors():
                data = importlib.import_module("reference").generate_input(**case)
            text = io.BytesIO()
            _ShapesOnly(text).dump(data)
            made[label] = text.getvalue()
        except (*NEEDS_DATA, pickle.PicklingError, AttributeError, TypeError):
            continue  # an emulated device generates it
        except Exception:
            continue  # will be told when that is tried
    return made


class _ShapesOnly(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return _unwritten, (tuple(value.shape), value.stride(), value.dtype)
        return NotImplemented


def _unwritten(shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    from forge.device.fake_rocm.recording import unwritten

    return unwritten(shape, stride, dtype)


class HipChecker(Checker):
    def __init__(self, arch: str, tell: Tell, inputs: dict[str, bytes]) -> None:
        from forge.device.fake_rocm.recording import Recording

        super().__init__(arch, tell)
        self.inputs = inputs
        self.label = "its import"
        self.hip_launches: dict[Any, list[str]] = {}  # in which cases
        self.recording = Recording(arch, self.hip_launched)

    def hip_launched(self, launch: Any) -> None:
        cases = self.hip_launches.setdefault(launch, [])
        if self.label not in cases:
            cases.append(self.label)

    def anything_launched(self) -> bool:
        return bool(self.launched or self.hip_launches)

    def run_case(self, submission: Any, generate_input: Callable[..., Any], label: str, case: Case) -> None:
        self.label = label
        self.tell(Progress(label))
        try:
            known = self.inputs.get(label)
            data = generate_input(**case) if known is None else pickle.loads(known)
            with launches_become(self.launch):
                submission.custom_kernel(data)
        except Exception as error:
            self.errors.setdefault(f"{reason_of(error)} ({place_of(error)})", []).append(label)

    def found(self) -> Findings:
        found = super().found()
        found.kernels += [row for kernel in self.recording.kernels.values() for row in self.rows(kernel)]
        if self.recording.kernels:
            found.compilers.append(hip_compiler())
        found.notes += [str(note) for note in compiler_notes()]
        return found

    def rows(self, kernel: Any) -> list[KernelRow]:
        """A row for each number of threads and dynamic LDS that the kernel is launched with; one where it is not."""
        launches = {
            (launch.threads, launch.dynamic_lds_bytes): cases
            for launch, cases in self.hip_launches.items()
            if launch.kernel == kernel.name
        }
        return [
            KernelRow(
                replace(kernel.resources, kernel=kernel.function),
                {str(i): argument for i, argument in enumerate(kernel.arguments)},
                threads,
                dynamic_lds_bytes,
                cases,
                kernel.compile_s,
                place=kernel.place,
                wrong=kernel.wrong,
                undecided=kernel.undecided,
            )
            for (threads, dynamic_lds_bytes), cases in (launches or {(kernel.resources.max_threads, 0): []}).items()
        ]
