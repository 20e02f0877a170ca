"""The kernels of hip/race_pairs.hip, compiled. As a program, `ROUNDS NAME...`: those of them that have findings."""

import functools
import re
import sys

import torch

import cdna
from cdna import checks
from cdna.hip.compile.source import HipSource
from cdna.hip.compile.toolchain import find
from cdna.launch.module import ObjectKernel
from cdna.launch.program import Program
from tests.support.hip_programs import PROGRAMS

SOURCE = PROGRAMS / "race_pairs.hip"
PAIRS = re.findall(r"^PAIR\((\w+)\)", SOURCE.read_text(), re.MULTILINE)
KINDS = "bounds,wait,race,uninitialised,barrier"
BLOCKS = 4


@functools.cache
def compiled(arch: str) -> Program:
    """All kernels: NAME_safe and NAME_racy of each name in PAIRS."""
    return Program(find().assembly(HipSource(SOURCE, arch, ("-O3",))))


def findings(arch: str, kernel: str) -> list[cdna.Finding]:
    """Of one launch."""
    torch.manual_seed(1)
    given, out = torch.randint(1, 100, (4096,), dtype=torch.int32), torch.zeros(4096, dtype=torch.int32)
    given[0] = 1
    cdna.findings()
    with checks.use(KINDS, raises=False):
        run = ObjectKernel(compiled(arch).kernels[kernel])
        run((BLOCKS,), (256,), given, out, torch.zeros(64, dtype=torch.int32), lds_bytes=2048)
    return cdna.findings()


if __name__ == "__main__":
    for name in sys.argv[2:]:
        if any(findings("gfx942", name) for _ in range(int(sys.argv[1]))):
            print(name)
