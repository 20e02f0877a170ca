"""What the process that compiles is asked, and tells the one that prints: JSON lines."""

from collections.abc import Callable

from msgspec import Struct

from forge.device.resources import Resources
from forge.task.problem import Case


class Request(Struct):
    """To check the submission in the folder that the process is in."""

    arch: str
    cases: dict[str, Case]  # by a short label
    descriptor: int  # where to tell
    ranks: int


class Progress(Struct, tag=True):
    """Many times before the findings."""

    what: str


class KernelRow(Struct):
    """A kernel as compiled for one set of compile-time arguments and launched in one way."""

    resources: Resources  # its kernel: the name that the source has
    constants: dict[str, str]  # compile-time arguments by name; a HIP template's by place
    threads: int  # of a workgroup
    dynamic_lds_bytes: int
    cases: list[str]  # that launch it
    compile_s: float | None = None  # None: the compiler's cache had it
    stages: int | None = None  # Triton's num_stages; None: HIP
    place: str = ""  # file:line of a HIP kernel's first instruction
    wrong: list[str] = []  # waits and hazards, on any path
    undecided: list[str] = []  # of those

    @property
    def kernel(self) -> str:
        return self.resources.kernel


class Failure(Struct):
    """What went wrong, and in which cases; none: outside all of them."""

    error: str
    cases: list[str]
    kernel: str = ""  # that does not compile


class Findings(Struct, tag=True):
    kernels: list[KernelRow] = []
    failures: list[Failure] = []
    notes: list[str] = []
    compilers: list[str] = []  # what made the kernels, with its version


Tell = Callable[[Progress | Findings], None]
