"""Which compiler gets which reproducer wrong, on which arch.

    python -m lab.compilers                          # what is missing, with every compiler of COMPILERS
    python -m lab.compilers triton-3.9.1             # a new version: brought from the package index, all reproducers
    python -m lab.compilers ziglang-0.18.0 /usr/bin/clang++-22
    python -m lab.compilers --only NAME --again      # one reproducer, anew

An outcome is kept as soon as it is there, so that a run that was ended goes on where it stood. It is had anew when the
reproducer's text has changed. Outcomes lie in lab/results/compilers/, their tables in lab/results/compilers_*.json,
from where `python lab/measurements.py` brings them into docs/compilers.md.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cdna import ARCHS
from cdna.engine.build import cache_dir
from forge.device import triton_versions

from . import run, table
from .table import Rows

# Of Triton all from 3.4 on; of ziglang, whose clang is LLVM's, the last of each clang that knows gfx950.
COMPILERS = (
    *(f"triton-{version}" for version in "3.4.0 3.5.0 3.5.1 3.6.0 3.7.0 3.7.1 3.8.0 3.9.0".split()),
    *(f"ziglang-{version}" for version in "0.15.2 0.16.0 0.17.1".split()),
)
HERE = "--here"


def language(compiler: str) -> str:
    return "triton" if compiler.startswith("triton-") else "hip"


def zig_folder(version: str) -> Path:
    """A ziglang of that version, brought from the package index into the cache if need be."""
    folder = cache_dir() / "ziglang" / version
    if not (folder / "ziglang" / "zig").exists():
        partial = folder.with_name(f"{version}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps", f"--target={partial}"]
        subprocess.run([*command, f"ziglang=={version}"], check=True, env={**os.environ, "PIP_USER": "0"})
        partial.rename(folder)
    return folder


def environment(compiler: str) -> dict[str, str]:
    """What makes a child process compile with it."""
    kind, _, version = compiler.partition("-")
    if kind == "triton":
        return triton_versions.environment(version)
    return {} if kind == "ziglang" else {"CDNA_HIP_COMPILER": compiler}


def compile_with(compiler: str) -> str:
    """Have this process take it; what it calls itself."""
    if compiler.startswith("triton-"):
        import triton

        return triton.__version__
    from cdna.engine.library import engine
    from cdna.hip.compile.toolchain import find

    engine()  # built by the ziglang that is installed, whatever compiles HIP
    if compiler.startswith("ziglang-"):
        sys.path.insert(0, str(zig_folder(compiler.partition("-")[2])))
        os.environ["CDNA_HIP_COMPILER"] = "ziglang"
    return re.sub(r"^\S+, ", "", find().compiler.version)


def missing(rows: Rows, compiler: str, options: argparse.Namespace) -> list[str]:
    """ARCH:NAME of what is to be run."""
    todo = []
    for name, one in run.load_all().items():
        if one.language != language(compiler) or (options.only and name not in options.only):
            continue
        for arch in (arch for arch in one.archs if arch in (options.arch or ARCHS)):
            old = rows.get((name, compiler, arch))
            if options.again or old is None or old["digest"] != one.digest:
                todo.append(f"{arch}:{name}")
    return todo


def have_run(compiler: str, todo: list[str], rows: Rows) -> None:
    command = [sys.executable, "-W", "ignore", "-m", __package__, HERE, compiler, *todo]
    with subprocess.Popen(
        command, env={**os.environ, **environment(compiler)}, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            row = table.row_of(line, compiler)
            rows[row["reproducer"], compiler, row["arch"]] = row
            table.append(row)
            print(f"{compiler} {row['arch']} {row['reproducer']}: {table.told(row)} {row['first_wrong']}", flush=True)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("compilers", nargs="*", metavar="COMPILER", help=f"default: {' '.join(COMPILERS)}")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="of a reproducer")
    parser.add_argument("--arch", action="append", choices=ARCHS, default=[])
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="compilers at a time")
    parser.add_argument("--again", action="store_true", help="what is there already, too")
    return parser


def main(arguments: list[str]) -> int:
    if arguments[:1] == [HERE]:
        run.main(arguments[2:], compile_with(arguments[1]))
        return 0
    options = parser().parse_args(arguments)
    rows = table.read()
    todo = {compiler: missing(rows, compiler, options) for compiler in options.compilers or COMPILERS}
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda compiler: have_run(compiler, todo[compiler], rows), filter(todo.get, todo)))
    rows = table.read()  # with what other commands have added meanwhile
    table.write(rows)
    table.write_results(rows, run.load_all())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
