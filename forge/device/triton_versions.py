"""Which Triton compiles: the one that the leaderboard's image has, another version, or the one installed.

A version that is not installed comes from the package index, once, into the cache ($CDNA_CACHE_DIR/triton), in a folder
of its own for each version and Python; a process takes it by having that folder first on its path.
"""

import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cdna.engine.build import cache_dir
from cdna.errors import CdnaError
from cdna.triton import known_faults
from cdna.triton.cache_key import keep_triton_key
from cdna.triton.linker import provide_linker
from cdna.triton.versions import interface_of, minor_of
from forge.device.base import NOT_INSTALLED, DeviceError, version_of

__all__ = [
    "INSTALLED",
    "VARIABLE",
    "environment",
    "folder_of",
    "is_here",
    "keep_triton_key",
    "known_faults_of",
    "named",
    "provide_linker",
    "take",
    "wanted",
]

INSTALLED = "installed"
VARIABLE = "FORGE_TRITON"  # what --triton says where a command has no such option, as in tests
HELP = (
    "the Triton that compiles: a version such as 3.6.0, brought from the package index and kept, or 'installed' "
    "(default: on an emulated device the version of the leaderboard's image, as task.yml states it; on a GPU the "
    "installed one)"
)
_WAY_OUT = "or take the installed one with --triton installed"


def named(option: str | None) -> str | None:
    """What somebody asked for: by the option, else by $FORGE_TRITON."""
    return option or os.environ.get(VARIABLE) or None


def wanted(option: str | None, emulated: bool, of_runner: str | None, submission: bytes) -> str:
    """What to take: what was asked for, else the runner's where a Triton kernel is emulated."""
    if said := named(option):
        return said
    return of_runner if emulated and of_runner and b"triton" in submission else INSTALLED


def take(version: str, reason: str = "") -> None:
    """Have this process, and those it starts, import that version. reason: for the line that tells of a download."""
    folder = folder_of(version, reason)
    front = [] if folder is None else [str(folder)]
    sys.path[:] = [*front, *_without_ours(sys.path)]
    path = [*front, *_without_ours(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))]
    if path:
        os.environ["PYTHONPATH"] = os.pathsep.join(path)
    else:
        os.environ.pop("PYTHONPATH", None)


def environment(version: str, reason: str = "") -> dict[str, str]:
    """What makes a child process import that version."""
    folder = folder_of(version, reason)
    path = [*([] if folder is None else [str(folder)])]
    path += _without_ours(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    return {"PYTHONPATH": os.pathsep.join(path)}


def folder_of(version: str, reason: str = "") -> Path | None:
    """The folder to put on the path for a version, brought here if need be; None: the installed one is it."""
    if version == INSTALLED:
        return None
    version = _checked(version)
    if _public(installed_version()) == version:
        return None
    folder = _place(version)
    if not folder.is_dir():
        _bring(version, folder, reason)
    _hold_to(version, folder)
    return folder


def is_here(version: str) -> bool:
    """Whether a version is installed, or in the cache, so that nothing need be brought."""
    return version in (INSTALLED, _public(installed_version())) or _place(version).is_dir()


def known_faults_of(asm: dict[str, str], version: str) -> list[str]:
    """What a version is known to make wrong of a compiled kernel; asm: its texts by stage, as Triton keeps them."""
    return known_faults.texts_in(known_faults.notes_on(asm["ttgir"], asm["amdgcn"], minor_of(version)))


def installed_version() -> str:
    """Of the Triton that Python finds when none of ours is on the path; "" if there is none."""
    found = version_of("triton", _without_ours(sys.path))
    return "" if found == NOT_INSTALLED else found


def _home() -> Path:
    return cache_dir() / "triton"


def _place(version: str) -> Path:
    return _home() / f"{version}-{_python_tag()}-{platform.machine()}"


def _without_ours(path: Iterable[str]) -> list[str]:
    home = str(_home())
    return [entry for entry in path if os.path.dirname(entry.rstrip("/")) != home]


def _python_tag() -> str:
    return f"cp{sys.version_info.major}{sys.version_info.minor}"


def _public(version: str) -> str:
    """3.6.0 of 3.6.0+rocm7.1: builds of one version differ in where they link, not in what they compile."""
    return version.partition("+")[0]


def _checked(version: str) -> str:
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", version):
        raise DeviceError(f"--triton or {VARIABLE} is {version!r}: say a version such as 3.6.0, or {INSTALLED}")
    try:
        interface_of(version)
    except CdnaError as error:
        raise DeviceError(str(error)) from None
    return version if version.count(".") == 2 else f"{version}.0"


def _hold_to(version: str, folder: Path) -> None:
    """DeviceError where a folder of the cache is not what its name says, as when it was copied from elsewhere."""
    tags = [
        line.partition(":")[2].strip()
        for wheel in folder.glob(f"triton-{version}*.dist-info/WHEEL")
        for line in wheel.read_text().splitlines()
        if line.startswith("Tag:")
    ]
    if not tags:
        raise DeviceError(f"{folder} does not hold Triton {version}: delete it, {_WAY_OUT}")
    if not any(tag.startswith((f"{_python_tag()}-", "py3-")) for tag in tags):
        raise DeviceError(f"{folder} is of another Python ({tags[0]}), this is {_python_tag()}: delete it, {_WAY_OUT}")
    if not (folder / "triton/backends/amd/compiler.py").is_file():
        raise DeviceError(f"Triton {version} in {folder} has no AMD backend: choose another version, {_WAY_OUT}")


# ---------------------------------------------------------------- bringing


def _bring(version: str, folder: Path, reason: str) -> None:
    with _alone(folder):
        if folder.is_dir():  # another process brought it meanwhile
            return
        said = f", {reason}," if reason else ""
        print(
            f"bringing Triton {version}{said} from the package index into {folder} (once, about 200 MB) ...",
            file=sys.stderr,
            flush=True,
        )
        partial = folder.with_name(f"{folder.name}.partial")  # of a process that was killed: the lock is ours
        shutil.rmtree(partial, ignore_errors=True)
        try:
            _pip_install(version, partial)
            partial.rename(folder)
        except OSError as error:
            raise DeviceError(f"{folder}: cannot be written: {error.strerror}; set CDNA_CACHE_DIR") from None
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = open(folder.with_name("lock"), "w")
    except OSError as error:
        raise DeviceError(
            f"{folder.parent}: Triton versions cannot be kept here: {error.strerror}; set CDNA_CACHE_DIR, {_WAY_OUT}"
        ) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _pip_install(version: str, target: Path) -> None:
    person = sys.stderr.isatty()
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-deps"]
    command += ["--only-binary=:all:", "--retries=2", f"--target={target}", f"triton=={version}"]
    done = subprocess.run(
        command if person else [*command, "--quiet"],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr if person else subprocess.DEVNULL,  # its progress
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PIP_USER": "0"},
    )
    if done.returncode:
        raise DeviceError(f"Triton {version} cannot be brought: {_why(version, done.stderr)}; {_WAY_OUT}{_which()}")


def _which() -> str:
    there = installed_version()
    return f" ({there})" if there else ""


def _why(version: str, said: str) -> str:
    """The reason in pip's words on standard error, and what to do."""
    here = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if "No module named pip" in said:
        return f"{sys.executable} has no pip: `{sys.executable} -m ensurepip`"
    offered = re.search(r"from versions: ([^)]*)\)", said)
    if offered and offered[1] != "none":
        versions = offered[1].split(", ")
        return f"the package index has none for {here} (it has {', '.join(versions[-8:])}): choose another version"
    if offered:
        return f"no package index answers, or it has no Triton for {here}: connect once"
    errors = [line for line in said.splitlines() if line.startswith("ERROR:")] or said.splitlines() or ["no word"]
    return f"pip: {errors[-1].removeprefix('ERROR:').strip()}"
