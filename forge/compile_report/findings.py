"""What the process that compiles tells the one that prints: one JSON document."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from forge.device.resources import Resources


@dataclass
class KernelRow:
    """A kernel as compiled for one set of compile-time arguments and launched in one way."""

    resources: Resources  # its kernel: the name that the source has
    constants: dict[str, str]  # compile-time arguments by name; a HIP template's by place
    threads: int  # of a workgroup
    dynamic_lds_bytes: int
    cases: list[str]  # that launch it
    compile_s: float | None = None  # None: the compiler's cache had it
    stages: int | None = None  # Triton's num_stages; None: HIP
    place: str = ""  # file:line of a HIP kernel's first instruction

    @property
    def kernel(self) -> str:
        return self.resources.kernel


@dataclass
class Failure:
    """What went wrong, and in which cases; none: outside all of them."""

    error: str
    cases: list[str]
    kernel: str = ""  # that does not compile


@dataclass
class Findings:
    kernels: list[KernelRow] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compilers: list[str] = field(default_factory=list)  # what made the kernels, with its version

    def document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, document: dict[str, Any]) -> Findings:
        """The findings that `document` was made of."""
        rows = [KernelRow(**{**row, "resources": Resources(**row["resources"])}) for row in document["kernels"]]
        return cls(
            rows, [Failure(**failure) for failure in document["failures"]], document["notes"], document["compilers"]
        )
