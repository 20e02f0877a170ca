"""What the evaluator knows of a device: one small interface and one exception."""

import functools
import importlib.metadata
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from forge.device.cards import CARDS
from forge.device.report import Caches, DeviceReport
from forge.device.roofline import Roofline

# Of a large case, what is emulated: three rounds of a grid; of kernels that multiply some rounds, and the others whole.
SAMPLES = ROUNDS, PRODUCTS = "ROUNDS", "PRODUCTS"
NOT_INSTALLED = "not installed"
EMULATED = " or ".join(CARDS)  # as messages name them


class DeviceError(Exception):
    """A device cannot be used here. The message is one line: what, why, and what to do instead."""


class Fingerprint(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a reader needs in order to know what a result was got on."""

    device: str = ""
    arch: str = ""
    emulated: bool | None = None
    card: str = ""
    gpus: tuple[str | dict[str, str], ...] = ()
    model: str = ""  # the hash of all that a modelled time depends on
    hip: str = ""
    torch: str = ""
    triton: str = ""
    python: str = ""
    cpu: str = ""


def causes(error: BaseException) -> Iterator[BaseException]:
    """The exception, and those that it came from, each once: `raise error from error` makes a circle."""
    cause: BaseException | None = error
    seen = set[int]()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def version_of(package: str, path: Iterable[str] | None = None) -> str:
    """Of one that decides what a kernel becomes: as Python finds it on a path, by default its own."""
    places = (os.path.abspath(entry) for entry in (sys.path if path is None else path))
    return next(filter(None, (_version_in(entry, package) for entry in places)), NOT_INSTALLED)


@functools.cache
def _version_in(entry: str, package: str) -> str:
    return next((one.version for one in importlib.metadata.distributions(name=package, path=[entry])), "")


class Device(ABC):
    """Where a submission runs.

    The evaluator starts its workers with `environment()`; a worker, and every Python process that it spawns,
    is then prepared by itself. `prepare()` does the same to a process that is already running.
    """

    name: str  # rocm | cuda | gfx942 | gfx950
    arch: str  # gfx942, gfx950, sm_90, ...
    label: str  # for people
    emulated: bool
    dist_backend: str  # what to name in init_process_group, with device_id if it is "nccl"

    def __repr__(self) -> str:
        return f"Device({self.name!r}, arch={self.arch!r})"

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """Environment variables to add for a child process; {} where nothing is needed."""

    @abstractmethod
    def prepare(self) -> None:
        """Prepare this process. May be called any number of times, before or after torch is imported."""

    def fingerprint(self) -> Fingerprint:
        """Does not import torch."""
        torch, triton = (version_of(package) for package in ("torch", "triton"))
        return Fingerprint(device=self.name, arch=self.arch, emulated=self.emulated, torch=torch, triton=triton)

    def is_device_fault(self, error: BaseException) -> bool:
        """Whether an exception in a worker says that this device cannot be had here, whatever is submitted."""
        return False

    def use_checks(self, names: str) -> None:
        """Choose the checks of kernels: "all", "none" or names. What they find is in `case_report`."""
        raise DeviceError(f"device {self.name} has no checks of kernels: leave --checks out, or take {EMULATED}")

    def check_variables(self) -> None:
        """DeviceError for a variable of this process that the device would trip over."""
        return None

    def unguarded(self) -> bool:
        """Whether what a kernel stores outside its memory may damage the process that runs it."""
        return False

    def set_checks(self, which: str) -> None:
        """Run all checks that this process was started with, none, or one of them, in the launches to come."""
        return None  # a GPU has none

    @abstractmethod
    def count_work(self, on: bool = True, sample: str = "") -> None:
        """Have `case_report` tell from now on what bounds kernels, or not, where this device can. It slows them.

        sample: one of SAMPLES; what a sample computes is of no use."""

    def keep_timelines(self, caches: Caches) -> None:
        """Have the reports of counted cases carry each kernel's timeline and its section of a page, of cold or warm
        caches."""
        return None  # a GPU has none

    def take_builder(self, line: int) -> None:
        """Have what this process builds be built by whoever is at the other end, and last; see `build_for`."""
        os.close(line)

    def prepare_builds(self) -> None:
        """Make now what every process of this device would otherwise."""
        return None  # a GPU needs nothing

    def begin(self) -> None:
        """All that torch imports with a device's first use. Not for a process that will fork."""
        return None  # an emulated one is begun already

    def build_for(self, line: int, run: str, calling: Callable[[list[str], str], list[str]]) -> None:
        """Be the builder, until the line ends. run: the folder of those who ask; calling: how compilers are called that
        write to this folder alone."""
        raise NotImplementedError

    def roofline(self) -> Roofline | None:
        """What torch's own operations, which it does not emulate, are counted at; None where they are timed."""
        return None

    def watch_products(self, told: Callable[[float, int], None]) -> None:
        """Have `told` hear of each product of a library that a submission's own code calls what it cannot take less
        than, in us, and its FLOPs."""
        return None

    def turns_of(self, pids: Iterable[int]) -> int | None:
        """What grows while kernels of these processes execute instructions; None where nobody can tell."""
        return None

    def look_at_output(self, tensors: Iterable[tuple[str, Any]]) -> None:
        """Have `case_report` tell what of a call's output, by name, nobody has written."""
        return None  # of a GPU's memory nobody knows

    def writers(self) -> Any:
        """Who says which bytes launches wrote, as cdna.memory.written does, from now on; None where nobody knows."""
        return None

    def hear_children(self) -> None:
        """Have `case_report` tell, too, what is found in processes that this one starts from now on."""
        return None  # on a GPU nothing is looked for

    @abstractmethod
    def case_report(self) -> DeviceReport:
        """What the device can say about the kernels launched since the last call."""
