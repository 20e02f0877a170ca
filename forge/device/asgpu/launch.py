"""Triton on an emulated GPU: cdna launches the kernels, and what it cannot know of torch is added here."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import triton

import cdna
from cdna import counters
from cdna.triton_driver import Launcher
from forge.device.asgpu import tags, work

# A launcher is called with the grid, the queue, the kernel, two kinds of metadata and two hooks before the
# kernel's own arguments.
LEADING_ARGUMENTS = 9


class CheckedLauncher(Launcher):
    """Refuses a tensor in host memory, as the driver of a real GPU does."""

    def __call__(self, *args: Any) -> None:
        for position, value in enumerate(args[LEADING_ARGUMENTS:]):
            if (
                isinstance(value, torch.Tensor)
                and tags.tag_of(value) == tags.CPU
                and not tags.is_pinned(value)
            ):
                raise ValueError(
                    f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?)"
                )
        super().__call__(*args)


def apply(arch: str) -> None:
    cdna.install(arch)
    driver = triton.runtime.driver.active
    driver.launcher_cls = CheckedLauncher
    driver.get_active_torch_device = lambda: tags.gpu(tags.current.index)
    # As on a real GPU, Triton's caches of compiled kernels go by the number that torch.cuda.current_device() gives.
    driver.get_current_device = lambda: tags.current.index
    driver.set_current_device = torch.cuda.set_device


def count_work() -> None:
    counters.count(True)


def report() -> dict[str, Any]:
    """The kernels launched since the last call, by name, with what they executed in all launches together.

    Where work is counted, also what it says; the next case then starts with the modelled caches cold.
    """
    kernels: dict[str, dict[str, Any]] = {}
    records = cdna.stats()
    counters.clear_caches()
    for record in records:
        known = kernels.setdefault(record.kernel, {"launches": 0, "wave_instructions": 0, "by_class": {}})
        known["launches"] += 1
        known |= {
            "grid": record.grid,
            "block": record.block,
            "lds_bytes": record.lds_bytes,
        }  # of the last one
        known["wave_instructions"] += record.wave_instructions
        for name, count in record.by_class.items():
            known["by_class"][name] = known["by_class"].get(name, 0) + count
    for name, known in kernels.items():
        if counted := [r.counters for r in records if r.kernel == name and r.counters is not None]:
            known["work"] = work.kernel_work(counted)
    findings = [{"text": str(f), **dataclasses.asdict(f)} for f in cdna.findings()]
    if not kernels:
        return {"findings": findings} if findings else {}
    times = work.modelled(records)
    return {"kernels": kernels} | ({"modelled": times} if times else {}) | ({"findings": findings} if findings else {})
