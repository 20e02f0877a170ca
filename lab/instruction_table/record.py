"""Marks in cdna/isa/instructions.txt what has been tested: runs the tests of single instructions and notes what they
executed.

    python -m lab.instruction_table.record

These tests compare an instruction's results with a definition of their own. Only what ran in a snippet counts: tests
of whole kernels and programs say nothing about one instruction.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cdna.isa import instructions
from cdna.isa.rows import read_rows
from lab.instruction_table.rows import archs_text, write_rows

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = "valu modifiers salu memory lds atomics dot low_precision matrix scalar_memory singles"
FILES = [f"tests/cdna/test_{family}.py" for family in FAMILIES.split()]


def main() -> int:
    """Run, and mark where every test passed; pytest's exit code."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "executed.txt"
        code = subprocess.call(
            [sys.executable, "-m", "pytest", "-q", *FILES],
            cwd=ROOT,
            env={**os.environ, "CDNA_COVERAGE_FILE": str(file)},
        )
        if code:
            print("record: a test failed; the table is left as it was", file=sys.stderr)
            return code
        table: dict[str, set[str]] = {}
        for line in file.read_text().splitlines():
            arch, *names = line.split()
            for name in names:
                table.setdefault(name, set()).add(arch)
    known = instructions()
    write_rows([name, archs_text(known[name].archs, table.get(name, ())), *rest] for _, (name, _, *rest) in read_rows())
    return 0


if __name__ == "__main__":
    sys.exit(main())
