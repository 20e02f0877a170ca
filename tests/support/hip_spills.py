"""What the kernels of a HIP submission spill, of the machine code that it was built to: nothing is compiled once more.

    python hip_spills.py SUBMISSION

Prints JSON: {a kernel's symbol: the most of its spilled registers and bytes of scratch memory}.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

KERNEL = re.compile(
    r"\.name: +(\S+)\n +\.private_segment_fixed_size: +(\d+)\n"
    r".*?\.sgpr_spill_count: +(\d+)\n.*?\.vgpr_spill_count: +(\d+)",
    re.DOTALL,
)


def spilled_of(submission: Path, arch: str) -> dict[str, int]:
    """Of all kernels of this file."""
    from tests.support.prepared import HIP_EXTENSIONS, run_prepared

    done = run_prepared("tests/support/hip_spills.py", str(submission), imports=[HIP_EXTENSIONS], arch=arch)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def spilled_in(assembly: str) -> dict[str, int]:
    return {name: max(map(int, counts)) for name, *counts in KERNEL.findall(assembly)}


def main() -> None:
    from cdna.hip.compile.toolchain import DeviceCode, Toolchain
    from tests.support.gemm_ranks import load

    made, compile_source = [], Toolchain.device_code

    def noting(self: Toolchain, source: Any) -> DeviceCode:
        made.append(compile_source(self, source))
        return made[-1]

    with patch.object(Toolchain, "device_code", noting):
        load(sys.argv[1]).extension()
    print(json.dumps(spilled_in("".join(code.assembly.read_text() for code in made))))


if __name__ == "__main__":
    main()
