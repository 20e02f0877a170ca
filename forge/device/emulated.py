"""An emulated GPU, as the evaluator sees it. The work is done in child processes, by hook.py and fake_rocm/."""

import ctypes
import math
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import asdict, replace

from cdna.cards import Card
from forge.device import hook, rocm_folder
from forge.device.base import Device, DeviceError, Fingerprint, causes
from forge.device.cards import HIP_VERSION
from forge.device.release import model
from forge.device.report import Caches, DeviceReport, Finding
from forge.device.roofline import Roofline

PRODUCT_RECORDER = ctypes.CFUNCTYPE(ctypes.c_bool, *[ctypes.c_int64] * 5)  # m, n, k, batches, bytes of an element


class EmulatedDevice(Device):
    """gfx942 or gfx950 on CPU memory: torch runs on the CPU, kernels are executed by cdna."""

    emulated = True
    prepared: ClassVar[tuple[str, ...]] = ()  # for what this process is
    dist_backend = "nccl"  # gloo, behind that name: see fake_rocm/collectives.py

    def __init__(self, card: Card) -> None:
        self.card = card
        self.name = self.arch = card.name
        self.label = f"emulated {card.name} ({card.product})"
        self.timelines = ""  # cold | warm: the caches of profiles whose timelines a report carries
        self.checks = ""  # as cdna's variable takes them; empty: what this process's environment says
        self._started_with: str | None = None  # of a worker: what `checks` was
        self.counting = False
        self._recorder: Any = None  # that a loaded library may call

    def environment(self) -> dict[str, str]:
        return {
            **hook.environment(self.arch),
            **rocm_folder.environment(self.card),
            **({"CDNA_CHECKS": self.checks} if self.checks else {}),
            **({"CDNA_TIMELINES": self.timelines} if self.timelines else {}),
            # Ranks lead sessions of their own: whose work keeps whose clock from running on (time/device_clock.cpp).
            "CDNA_PEERS": os.environ.get("CDNA_PEERS") or str(os.getpid()),
            # kernels/common/symmetric_heap.py: a rank that still emulates a kernel comes late to make memory
            "SYMMETRIC_HEAP_CREATION_S": os.environ.get("SYMMETRIC_HEAP_CREATION_S", "600"),
            # ... and one that still makes its inputs on a shared core, late to a kernel that peers wait in
            "SYMMETRIC_HEAP_TIMEOUT_S": os.environ.get("SYMMETRIC_HEAP_TIMEOUT_S", "120"),
            # torch's threads would spin between operations and take the cores that the emulated device needs
            "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "passive"),
        }

    def prepare(self) -> None:
        prepared, EmulatedDevice.prepared = EmulatedDevice.prepared, (self.arch, self.checks, self.timelines)
        if prepared == EmulatedDevice.prepared and os.environ.get(hook.VARIABLE) == self.arch:
            return  # this process, or what it was forked from
        os.environ.update(self.environment())  # for the processes that this one will spawn
        sys.path.append(hook.SITE)  # as those have it: `amdsmi`
        hook.install(self.arch)

    def fingerprint(self) -> Fingerprint:
        return replace(
            super().fingerprint(),
            card=self.card.product,
            model=model(),
            hip=f"{HIP_VERSION} (claimed)",
            cpu=_cpu_name(),
            python=platform.python_version(),
        )

    def is_device_fault(self, error: BaseException) -> bool:
        """No compiler for the engine, or a torch or triton that cannot be prepared."""
        # By name: the hook that sitecustomize loads is not the module that is imported here.
        return any(
            type(cause).__name__ == "NotPrepared"
            or (type(cause).__module__, type(cause).__name__) == ("cdna.errors", "ToolchainError")
            for cause in causes(error)
        )

    def keep_timelines(self, caches: Caches) -> None:
        self.timelines = caches

    def use_checks(self, names: str) -> None:
        from cdna.checks import parse_kinds
        from cdna.errors import CdnaError

        try:
            kinds = parse_kinds(names)
        except CdnaError as error:
            raise DeviceError(f"--checks {names}: {error}") from None
        self.checks = "report:" + (",".join(sorted(kinds)) or "none")  # a finding does not stop the kernel

    def unguarded(self) -> bool:
        from cdna.checks import parse_kinds

        return "bounds" not in parse_kinds((self.checks or os.environ.get("CDNA_CHECKS", "")).removeprefix("report:"))

    def check_variables(self) -> None:
        from cdna.checks import VARIABLE, settings
        from cdna.errors import CdnaError

        try:
            settings()
        except CdnaError as error:
            raise DeviceError(f"{VARIABLE}={os.environ[VARIABLE]}: {error}") from None

    def set_checks(self, which: str) -> None:
        if self._started_with is None:
            self._started_with = os.environ.get("CDNA_CHECKS", "")
        given, chosen = self._started_with, ""
        if which != "none" and given:
            from cdna.checks import parse_kinds

            report = "report:" if given.startswith("report:") else ""
            one = {which} & parse_kinds(given.removeprefix("report:"))
            chosen = given if which == "all" else report + "".join(one) if one else ""
        os.environ["CDNA_CHECKS"] = chosen

    def count_work(self, on: bool = True, sample: str = "") -> None:
        self.counting = on
        if sample:
            import cdna.observe.counters  # noqa: F401
        counters = sys.modules.get("cdna.observe.counters")
        if counters is not None:
            counters.sample_all(getattr(counters.Sample, sample or "NONE"))
        if on == ("CDNA_COUNT" in os.environ):
            return
        if on:
            os.environ["CDNA_COUNT"] = "1"  # for when cdna gets imported: with the first kernel
        else:
            del os.environ["CDNA_COUNT"]
        if counters is not None:
            counters.count(on)

    def take_builder(self, line: int) -> None:
        from forge.device.fake_rocm import kept

        kept.take_line(line)

    def prepare_builds(self) -> None:
        from cdna.engine.build import engine_library

        engine_library()

    def build_for(self, line: int, run: str, calling: Callable[[list[str], str], list[str]]) -> None:
        from forge.device.fake_rocm.builder import serve

        serve(line, run, calling)

    def roofline(self) -> Roofline:
        from cdna.cards import get_card

        return Roofline(get_card(self.arch))

    def watch_products(self, told: Callable[[float, int], None]) -> None:
        maps = Path("/proc/self/maps").read_text()
        found = re.search(r"/\S*/libhipblaslt\.so$", maps, re.MULTILINE)  # where a submission's extension has loaded it
        if found is None:
            return
        card = self.roofline()

        def record(*product: int) -> bool:
            told(card.library_product_us(*product), 2 * math.prod(product[:4]))
            return False  # it is carried out

        self._recorder = PRODUCT_RECORDER(record)
        ctypes.CDLL(found[0]).cdna_record_products(self._recorder)

    def turns_of(self, pids: Iterable[int]) -> int | None:
        from cdna.memory.peers import turns_of

        return turns_of(pids)

    def look_at_output(self, tensors: Iterable[tuple[str, Any]]) -> None:
        from cdna.checks.launch_checks import look_at_read
        from forge.device.fake_rocm.tags import quiet

        with quiet():
            for name, tensor in tensors:
                look_at_read(name, tensor, self.arch, "the judge", raises=False)

    def writers(self) -> Any:
        from cdna.memory import written

        written.watch()
        return written

    def replays(self) -> Any:
        from cdna.launch import replay

        return replay

    def hear_children(self) -> None:
        from forge.device.fake_rocm import children

        children.hear()

    def case_report(self) -> DeviceReport:
        from cdna.engine.library import is_loaded
        from forge.device.fake_rocm import children

        report, found = DeviceReport(), children.heard()
        if is_loaded():  # it comes with the first Triton or HIP kernel
            from forge.device.fake_rocm import work

            report = work.report(self.counting)
        theirs = (Finding(**asdict(one), text=str(one)) for one in found)
        return replace(report, findings=(*report.findings, *theirs))


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()
