"""The wheels and source distributions of a release, with engines for x86-64 and AArch64 inside.

    python -m lab.wheels [-o dist] [--commit HEAD] [--tag]

Made of what git has of a commit, in a folder of its own, with ziglang: the same commit gives the same bytes, wherever
and whenever. cdna has a wheel for each machine, for Linux with glibc 2.28 or later; on a CPU below the levels of
cdna/engine/build.py an engine is built as from the source distribution. This machine's wheels are tried in an
environment of their own, which sees this one's packages. --tag: the commit is tagged with its version, which
CHANGELOG.md has to have.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cdna.engine.build import LEVELS

ROOT = Path(__file__).resolve().parents[1]
PLATFORM = "manylinux_2_28_"
ENGINES = """
import shutil, sys
from cdna.engine.build import LEVELS, PREBUILT, prebuild
shutil.rmtree(PREBUILT, ignore_errors=True)
shutil.rmtree("cdna/build", ignore_errors=True)  # else the wheel has what was copied there for another machine's
PREBUILT.mkdir()
for level in LEVELS[sys.argv[1]]:
    print(f"engine for {level}: {prebuild(level, PREBUILT).stat().st_size} bytes", flush=True)
"""
BUILD = """
import sys
from setuptools import build_meta
platform = [f"--plat-name={sys.argv[2]}"] if sys.argv[2] else []
build_meta.build_wheel(sys.argv[1], {"--build-option": platform})
"""
TRIAL = """
import torch, triton, triton.language as tl, cdna, forge
from cdna.engine.build import PREBUILT, engine_library, levels_here
from cdna.version import release
@triton.jit
def plus_one(x, n: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, n)
    tl.store(x + at, tl.load(x + at) + 1)
x = torch.zeros(1024)
with cdna.device("gfx942", checks="all"):
    plus_one[(16,)](x, 64)
assert x.sum() == 1024 and engine_library().parent == PREBUILT or not levels_here()
print(f"tried: cdna {release()}, {engine_library().name}")
"""
SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


def output_of(*command: str) -> bytes:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout


def set_times(tree: Path, epoch: int) -> None:
    for path in tree.rglob("*"):
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def run(tree: Path, script: str, *words: str, epoch: int, quiet: bool = True) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONPATH": str(tree.parent), "TZ": "UTC"}
    environment |= {"CDNA_CACHE_DIR": str(tree.parent / ".cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=tree, env=environment, text=True,
        stdout=subprocess.PIPE if quiet else None, stderr=subprocess.STDOUT if quiet else None,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{done.stdout or ''}lab.wheels: failed: {script.strip().splitlines()[-1]}")


def set_archive_times(archive: Path, epoch: int) -> None:
    """A source distribution's: the compressed file's own, those of its entries, and their order and owners."""
    with tarfile.open(archive) as read:
        entries = [(one, read.extractfile(one)) for one in sorted(read.getmembers(), key=lambda one: one.name)]
        text = io.BytesIO()
        with tarfile.open(fileobj=text, mode="w", format=tarfile.PAX_FORMAT) as made:
            for one, content in entries:
                one.mtime, one.uid, one.gid, one.uname, one.gname, one.pax_headers = epoch, 0, 0, "", "", {}
                made.addfile(one, content)
    archive.write_bytes(gzip.compress(text.getvalue(), mtime=epoch))


def try_wheels(folder: Path, wheels: Sequence[Path]) -> None:
    """TRIAL is a file: Triton reads the source of its kernels."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    new = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", new], check=True)
    (packages,) = new.glob("lib/python*/site-packages")
    python = new / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "-q", "--no-deps", "--no-index", *wheels], check=True)
    others = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "others.pth").write_text("".join(f"{path}\n" for path in others))
    (folder / "trial.py").write_text(TRIAL)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "CDNA_CACHE_DIR": str(folder / "cache")}
    subprocess.run([python, folder / "trial.py"], cwd=folder, env=environment, check=True)


def tag(tree: Path, commit: str) -> None:
    version, changes = ((tree / name).read_text().strip() for name in ("cdna/VERSION", "CHANGELOG.md"))
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE):
        sys.exit(f"lab.wheels: CHANGELOG.md has no section `## [{version}] - YYYY-MM-DD`: not tagged")
    output_of("git", "tag", "-a", "-m", f"cdna and cdna-forge {version}", f"v{version}", commit)
    print(f"tagged v{version}")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("dist"), metavar="FOLDER", help="default: dist")
    parser.add_argument("--commit", default="HEAD", help="what is released (default: HEAD)")
    parser.add_argument("--tag", action="store_true", help="tag it, once all this has worked")
    options = parser.parse_args(argv)
    options.output.mkdir(parents=True, exist_ok=True)
    output = options.output.resolve()
    epoch = int(output_of("git", "log", "-1", "--format=%ct", options.commit))
    os.umask(0o022)
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "tree"
        tree.mkdir()
        with tarfile.open(fileobj=io.BytesIO(output_of("git", "archive", options.commit))) as archive:
            archive.extractall(tree, filter="data")
        (tree / "cdna" / "COMMIT").write_text(output_of("git", "rev-parse", options.commit).decode()[:10] + "\n")
        made = Path(name) / "made"
        for project in (tree / "cdna", tree):
            set_times(tree, epoch)
            run(project, SDIST, str(made), epoch=epoch)
            for machine in LEVELS if project != tree else [""]:
                if machine:
                    run(tree, ENGINES, machine, epoch=epoch, quiet=False)
                    set_times(tree, epoch)
                run(project, BUILD, str(made), machine and PLATFORM + machine, epoch=epoch)
        for archive_path in made.glob("*.tar.gz"):
            set_archive_times(archive_path, epoch)
        for file in sorted(made.iterdir()):
            data = file.read_bytes()
            (output / file.name).write_bytes(data)
            print(f"{hashlib.sha256(data).hexdigest()}  {file.name}  {len(data) / 1e6:.1f} MB", flush=True)
        here = ("*-any.whl", f"*{platform.machine()}.whl")
        try_wheels(Path(name), [wheel for kind in here for wheel in sorted(made.glob(kind))])
        if options.tag:
            tag(tree, options.commit)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
