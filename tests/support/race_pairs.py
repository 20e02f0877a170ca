"""The kernels of hip/race_pairs.hip, compiled."""

from __future__ import annotations

import functools
import re

from cdna.hip.compile.source import HipSource
from cdna.hip.compile.toolchain import find
from cdna.launch.program import Program
from tests.support.hip_programs import PROGRAMS

SOURCE = PROGRAMS / "race_pairs.hip"
PAIRS = re.findall(r"^PAIR\((\w+)\)", SOURCE.read_text(), re.MULTILINE)


@functools.cache
def compiled(arch: str) -> Program:
    """All kernels: NAME_safe and NAME_racy of each name in PAIRS."""
    return Program(find().assembly(HipSource(SOURCE, arch, ("-O3",))))
