"""HIP programs that check themselves, and `python -m cdna` as a user would start it."""

import functools
import os
import subprocess
import sys
from pathlib import Path

from cdna.hip.compile.source import HipSource
from cdna.hip.run import build_program, environment_of_run
from tests.support.limits import ENDS_S

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "support" / "hip"


def cdna(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m cdna` with these words, as a user would start it; without the lines of what is built once per machine,
    which whichever test runs first would see."""
    done = subprocess.run(
        [sys.executable, "-m", "cdna", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=ENDS_S,
        env={**os.environ, **environment},
    )
    said = done.stderr.splitlines(keepends=True)
    done.stderr = "".join(line for line in said if not line.startswith("cdna: building "))
    return done


def run(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return cdna("run", *words, **environment)


@functools.cache
def built(program: Path) -> Path:
    """The executable that `python -m cdna run` replaces itself by."""
    return build_program([HipSource(program, "gfx942")])


def run_built(program: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As `run(program, "--", *words)`, without a Python that looks for what has been built, for programs that are run
    often."""
    variables = {**environment_of_run("gfx942"), **environment}
    return subprocess.run(
        [program, *words], executable=built(program), cwd=ROOT, capture_output=True, text=True, timeout=ENDS_S,
        env=variables,
    )  # fmt: skip


def preload(name: str, folder: Path) -> Path:
    """A C file of PROGRAMS as a library for $LD_PRELOAD."""
    library, object_file = folder / "late.so", folder / "late.o"
    zig = [sys.executable, "-m", "ziglang"]
    subprocess.run([*zig, "cc", "-fPIC", "-c", PROGRAMS / name, "-o", object_file], check=True, timeout=ENDS_S)
    # To link, `cc` would build a run-time library first, 40 s of processor time, that is not needed.
    subprocess.run([*zig, "ld.lld", "-shared", object_file, "-o", library], check=True, timeout=ENDS_S)
    return library
