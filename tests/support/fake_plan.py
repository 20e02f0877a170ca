"""A plan and a device for tests of what judges, without a problem's folder, processes or a GPU."""

from pathlib import Path
from typing import Any

import msgspec

from forge.device.report import CaseReport, DeviceReport
from forge.judge.plan import EvalPlan
from forge.task.harness import HARNESSES, Harness
from forge.task.problem import Floors, Precision, Problem


class FakeDevice:
    name = arch = "gfx942"

    def __init__(self, emulated: bool = True) -> None:
        self.emulated, self.sampling = emulated, False

    def case_report(self) -> DeviceReport:
        return DeviceReport()

    def set_checks(self, which: str) -> None:
        pass

    def count_work(self, on: bool = True, sample: str = "") -> None:
        self.sampling = bool(sample)

    def roofline(self) -> None:
        return None

    def watch_products(self, told: Any) -> None:
        pass

    def look_at_output(self, tensors: Any) -> None:
        pass

    def is_device_fault(self, error: BaseException) -> bool:
        return False


def reported(**parts: Any) -> CaseReport:
    """As a file has it."""
    return msgspec.convert(parts, CaseReport)


def fake_plan(
    mode: str,
    harness: str = "amd",
    emulated: bool = True,
    row: Harness | None = None,
    precision: Precision | None = None,
    floors: Floors | None = None,
    **changes: Any,
) -> EvalPlan:
    problem = Problem(
        name="toy", stem="toy", directory=Path("/"), gpus=(), arch="gfx942", harness=None, variant=None, files=(),
        world_size=1, precision=precision or Precision(), floors=floors,
    )  # fmt: skip
    device: Any = FakeDevice(emulated)
    return EvalPlan(mode, problem, b"", row or HARNESSES[harness], device, [], None, 10.0, **changes)
