"""One aligned line per compiled kernel, of what it takes of the card: what `python -m cdna report` and forge print.

Every figure is the compiler's, or follows from it by the rules of resources.py; nothing is run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..cards import get_card
from .resources import WAVE_LANES, Resources, waves_per_simd

FIGURES = ("VGPR", "AGPR", "SGPR", "spills V/S", "scratch B", "LDS B st/dyn", "waves/SIMD", "MFMA", "code B")


@dataclass(frozen=True)
class KernelUse:
    """A compiled kernel and how it is launched."""

    resources: Resources
    threads: int  # of a workgroup
    dynamic_lds_bytes: int = 0  # that the launch adds
    labels: dict[str, str] = field(default_factory=dict)  # columns before the figures
    remarks: dict[str, str] = field(default_factory=dict)  # columns after them

    @property
    def lds_bytes(self) -> int:
        return self.resources.lds_bytes + self.dynamic_lds_bytes


def table(arch: str, uses: Sequence[KernelUse], compilers: str = "") -> list[str]:
    """The table's lines: a title, the columns' names, a line per kernel. All have the same labels and remarks.

    compilers: what made the code, with its version.
    """
    rows = [(*uses[0].labels, *FIGURES, *uses[0].remarks)]
    rows += [(*use.labels.values(), *figures(arch, use), *use.remarks.values()) for use in uses]
    first = len(uses[0].labels)
    numbers = range(first, first + len(FIGURES))
    widths = [max(map(len, column)) for column in zip(*rows)]
    by = f" by {compilers}" if compilers else ""
    lines = [f"compiled for {arch} ({get_card(arch).product}){by}; from the compiler's output; nothing was run"]
    for row in rows:
        cells = [
            cell.rjust(width) if i in numbers else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def lds_error(arch: str, who: str, use: KernelUse) -> str:
    """What is wrong where a workgroup takes more LDS than a compute unit has; "" if it does not."""
    limit = get_card(arch).lds_bytes
    return "" if use.lds_bytes <= limit else f"{who} takes {use.lds_bytes} bytes of LDS a workgroup; {arch} has {limit}"


def figures(arch: str, use: KernelUse) -> tuple[str, ...]:
    """What stands under FIGURES."""
    kernel = use.resources
    waves = waves_per_simd(arch, kernel.vgprs, kernel.sgprs, use.lds_bytes, -(-use.threads // WAVE_LANES))
    return (
        str(kernel.vgprs),
        str(kernel.agprs),
        str(kernel.sgprs),
        f"{kernel.vgpr_spills}/{kernel.sgpr_spills}",
        str(kernel.scratch_bytes),
        f"{kernel.lds_bytes}/{use.dynamic_lds_bytes}",
        f"{waves:g}",
        str(kernel.matrix_instructions),
        str(kernel.code_bytes),
    )
