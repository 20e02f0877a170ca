"""What a compiled kernel takes of a CU, and its waits: the emulated device's own rules, for the rest of forge."""

from cdna.binary.all_paths import look_at
from cdna.binary.asm import AsmFile
from cdna.binary.compiled import parsed
from cdna.binary.kernel_names import demangled
from cdna.binary.resource_table import FIGURES, KernelUse, figures, lds_error, table
from cdna.binary.resources import WAVE_LANES, Resources, read_resources, waves_per_simd
from cdna.results import UNDECIDED

__all__ = [
    "FIGURES",
    "WAVE_LANES",
    "KernelUse",
    "Resources",
    "figures",
    "lds_error",
    "parsed",
    "paths_of",
    "read_resources",
    "table",
    "waves_per_simd",
]

Paths = dict[str, tuple[list[str], list[str]]]


def paths_of(asm: AsmFile) -> Paths:
    """Of each kernel, by its symbol: wrong waits and hazards on any path, and what is undecided."""
    found = {}
    for kernel in look_at(asm):
        doubts = [one for one in kernel.findings if one.certainty == UNDECIDED]
        undecided = [f"{why}: {len(places)} times, first at {places[0]}" for why, places in kernel.undecided.items()]
        undecided += [one.line for one in doubts]
        found[kernel.kernel] = [one.line for one in kernel.findings if one not in doubts], undecided
    return {name: found[demangled(name)] for name in asm.descriptors if demangled(name) in found}
