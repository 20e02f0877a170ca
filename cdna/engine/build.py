"""The engine (engine/*.cpp): a wheel's, made for this CPU's level, or built once per machine.

A compiler that pip brings or the machine has builds it: $CDNA_CXX, ziglang (pip), clang++ on PATH, in this order. The
result is cached under $CDNA_CACHE_DIR (default ~/.cache/cdna) by a hash of the sources, the compiler and the CPU's
features. $CDNA_CXX has it built where a wheel brings one, too.
"""

import ctypes
import fcntl
import functools
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .. import cards, isa
from ..errors import ToolchainError
from ..isa import cpp
from . import abi
from .cached_files import whole_elf

ENGINE_DIR = abi.HEADERS
PREBUILT = Path(__file__).parent / "prebuilt"  # a wheel's engines: LEVEL-HASH.so, of sources with that hash
GLIBC = "2.28"  # which they run with, or a later one: manylinux_2_28's
# The levels that they are made for, of each machine, best first: what Linux calls the features of one beyond the level
# below (x86-64 psABI, 3.1.1; Armv8.2-A with half precision and dot products, as Neoverse N1 has them).
LEVELS = {
    "x86_64": {
        "x86_64_v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
        "x86_64_v3": "avx2 bmi1 bmi2 f16c fma abm movbe",
    },
    "aarch64": {"neoverse_n1": "atomics fphp asimdhp asimddp"},
}
# Bits of getauxval(AT_HWCAP) on AArch64 (Linux, arm64 ELF hwcaps).
AT_HWCAP, AT_HWCAP2, HWCAP = 16, 26, {"atomics": 8, "fphp": 9, "asimdhp": 10, "asimddp": 20}
FLAGS = [
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-fno-exceptions",
    "-fno-rtti",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-sanitize=all",
    "-fno-stack-protector",
    "-Wall",
    "-Wno-unused-function",
]


def cache_dir() -> Path:
    """Where built engines lie: $CDNA_CACHE_DIR, else ~/.cache/cdna."""
    return Path(os.environ.get("CDNA_CACHE_DIR") or Path.home() / ".cache" / "cdna")


def own_cache_dir() -> Path:
    """Where this process keeps what it makes: $CDNA_OWN_CACHE_DIR, of one that only reads the cache; else the cache."""
    return Path(os.environ.get("CDNA_OWN_CACHE_DIR") or cache_dir())


def zig_binary() -> str | None:
    """The program in pip's package ziglang; None where that is not installed."""
    zig = importlib.util.find_spec("ziglang")
    return str(Path(zig.origin).parent / "zig") if zig is not None and zig.origin else None


def elf_linker() -> list[str]:
    """Of code objects: the machine's ld.lld, or zig's; ToolchainError where there is none."""
    found, zig = shutil.which("ld.lld"), zig_binary()
    if found is None and zig is None:
        raise ToolchainError("no ld.lld to link a code object with: `pip install ziglang`, or install lld")
    return [found] if found else [str(zig), "ld.lld"]


def find_compiler() -> tuple[list[str], list[str]]:
    """(compile command, link command) of the first usable compiler; ToolchainError where there is none."""
    chosen = os.environ.get("CDNA_CXX")
    if chosen:
        if not shutil.which(chosen):
            raise ToolchainError(f"CDNA_CXX={chosen}: no such program; point it at clang++ (17 or later), or unset it")
        return [chosen], [chosen, "-shared"]
    binary = zig_binary()
    if binary is not None:
        return [binary, "c++", "-target", f"{platform.machine()}-linux-gnu", "-nostdinc++"], [
            binary,
            "ld.lld",
            "-shared",
        ]
    clang = shutil.which("clang++")
    if clang:
        return [clang], [clang, "-shared"]
    raise ToolchainError(
        "no C++ compiler for the emulated device: `pip install ziglang` (needs no root), "
        "or install clang++ 17 or later, or set CDNA_CXX"
    )


def levels_here() -> list[str]:
    """Of this machine's LEVELS those that this CPU has, with all below, best first."""
    has, found = set(_cpu_features().split()), list[str]()
    for level, features in reversed(LEVELS.get(platform.machine(), {}).items()):
        if not has.issuperset(features.split()):
            break
        found.insert(0, level)
    return found


def cpu_flags(compile_command: list[str]) -> list[str]:
    """Options that choose the CPU to compile for, in the order to try: this one, one that most machines are.

    A compiler may crash on one CPU's vector instructions (clang 22 on AVX-512's, seen with ldexp).
    """
    is_zig = "-target" in compile_command  # which has its own names
    flags = ["-mcpu=native"] if is_zig else ["-march=native"]
    if platform.machine() == "x86_64":
        flags.append("-mcpu=x86_64_v3" if is_zig else "-march=x86-64-v3")
    return flags


def _cpu_features() -> str:
    if platform.machine() == "aarch64":  # as the CPU that a program sees has it, be that emulated
        getauxval = ctypes.CDLL(None).getauxval
        getauxval.restype = ctypes.c_ulong
        bits, more = getauxval(AT_HWCAP), getauxval(AT_HWCAP2)
        return " ".join([*(name for name, bit in HWCAP.items() if bits >> bit & 1), f"{bits:x}", f"{more:x}"])
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith("flags")), platform.machine())


def _hash(paths: list[Path], *parts: str) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:20]


@functools.cache
def _includes_of(file: Path) -> list[str]:
    return re.findall(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)', file.read_text(), re.MULTILINE)


def sources_of(file: Path, folders: Sequence[Path]) -> list[Path]:
    """The file, and all that it includes of these folders and of those beside what includes it."""
    found = [file]
    for one in found:
        for name in _includes_of(one):
            there = (Path(os.path.normpath(folder / name)) for folder in (one.parent, *folders))
            place = next((path for path in there if path.is_file()), one)
            found += [place] * (place not in found)
    return found


def _hash_of_sources(*ends: str) -> str:
    """Of the engine's files with these ends, and of all that its other headers are made from."""
    tables = [Path(abi.__file__), Path(__file__), *isa.rows.TABLE.parent.iterdir(), *cards.FOLDER.iterdir()]
    own = [file for end in ends for file in ENGINE_DIR.rglob(f"*{end}")]
    return _hash(sorted(file for file in [*own, *tables] if file.is_file()))


def generated_headers() -> Path:
    """A folder with the headers made from the tables that Python reads too; named by what they are made of, which is
    sooner read than they are made."""
    folder = cache_dir() / f"generated-{_hash_of_sources('.h')}"
    if (folder / "complete").exists():
        return folder
    files = {"cards.h": cards.header(), "isa.h": cpp.header(), "isa.inc": cpp.rows(), "layout.inc": abi.layout_rows()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolchainError(f"cannot create the cache folder {folder}: {error}; set CDNA_CACHE_DIR") from None
    for name, text in {**files, "complete": ""}.items():
        if not (folder / name).exists():
            partial = folder / f"{name}.{os.getpid()}"
            partial.write_text(text)
            partial.rename(folder / name)
    return folder


def _run(command: list[str], what: str) -> None:
    environment = dict(
        os.environ,
        ZIG_GLOBAL_CACHE_DIR=str(own_cache_dir() / "zig"),
        ZIG_LOCAL_CACHE_DIR=str(own_cache_dir() / "zig"),
    )
    try:
        result = subprocess.run(command, capture_output=True, text=True, env=environment)
    except OSError as error:
        raise ToolchainError(f"{what}: cannot run {command[0]}: {error}") from None
    if result.returncode:
        raise ToolchainError(f"{what} failed with {command[0]}:\n{result.stderr.strip()[-4000:]}")


def _compiled(sources: Sequence[Path], command: list[str], place_of: Callable[[Path], Path]) -> list[Path]:
    """Objects of the sources, by all cores, each made where it is not there."""

    def compile_one(source: Path) -> Path:
        output = place_of(source)
        if not whole_elf(output):
            partial = output.with_suffix(f".{os.getpid()}.o")
            _run([*command, "-c", str(source), "-o", str(partial)], f"compiling {source.name}")
            partial.rename(output)
        return output

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(compile_one, sources))


def prebuilt_name(level: str) -> str:
    return f"{level}-{_hash_of_sources('.cpp', '.h')}.so"


def prebuild(level: str, folder: Path) -> Path:
    """A wheel's engine for one of LEVELS, built with ziglang: from the same sources the same bytes, wherever."""
    if (zig := zig_binary()) is None:
        raise ToolchainError("a wheel's engines are built with ziglang: `pip install ziglang`")
    machine = next(machine for machine, levels in LEVELS.items() if level in levels)
    compiler = [zig, "c++", "-target", f"{machine}-linux-gnu.{GLIBC}", f"-mcpu={level}", "-nostdinc++", *FLAGS, "-g0"]
    output = folder / prebuilt_name(level)
    (scratch := folder / f"{level}.objects").mkdir(parents=True)
    includes = [f"-I{ENGINE_DIR}", f"-I{generated_headers()}"]

    objects = _compiled(
        sorted(ENGINE_DIR.rglob("*.cpp")),
        [*compiler, *includes],
        lambda source: scratch / f"{source.relative_to(ENGINE_DIR).as_posix().replace('/', '-')}.o",
    )
    _run([zig, "ld.lld", "-shared", "--strip-all", *map(str, objects), "-o", str(output)], "linking the engine")
    shutil.rmtree(scratch)
    return output


def engine_library() -> Path:
    """Path of the engine: a wheel's, else one built where the cache has none (half a minute on two cores)."""
    if PREBUILT.is_dir() and not os.environ.get("CDNA_CXX"):
        for level in levels_here():
            if (made := PREBUILT / prebuilt_name(level)).exists():
                return made
    compile_command, link_command = find_compiler()
    generated = generated_headers()
    sources = sorted(ENGINE_DIR.rglob("*.cpp"))
    headers = [*sorted(ENGINE_DIR.rglob("*.h")), *sorted(generated.glob("*.h")), *sorted(generated.glob("*.inc"))]
    includes = [f"-I{ENGINE_DIR}", f"-I{generated}"]
    identity = " ".join([*compile_command, *cpu_flags(compile_command), *FLAGS]) + _cpu_features()
    library = cache_dir() / f"engine-{_hash([*sources, *headers], identity)}.so"
    if whole_elf(library):
        return library
    try:
        (cache_dir() / "objects").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolchainError(f"cannot create the cache folder {cache_dir()}: {error}; set CDNA_CACHE_DIR") from None

    def objects_for(cpu: str) -> list[Path]:
        def place_of(source: Path) -> Path:
            made_of = _hash(sources_of(source, [ENGINE_DIR, generated]), identity, cpu)
            return cache_dir() / "objects" / f"{source.stem}-{made_of}.o"

        return _compiled(sources, [*compile_command, cpu, *FLAGS, *includes], place_of)

    with open(cache_dir() / "lock", "w") as lock:  # released by the system if the builder is killed
        fcntl.flock(lock, fcntl.LOCK_EX)
        if whole_elf(library):
            return library
        print("cdna: building the emulated device (once per machine) ...", file=sys.stderr, flush=True)
        native, *portable = cpu_flags(compile_command)
        try:
            objects = objects_for(native)
        except ToolchainError as error:
            if not portable:
                raise
            what = str(error).splitlines()[0].rstrip(":")
            print(f"cdna: {what} and {native}; trying {portable[0]} ...", file=sys.stderr, flush=True)
            objects = objects_for(portable[0])
        partial = library.with_suffix(f".{os.getpid()}.so")
        _run([*link_command, *map(str, objects), "-o", str(partial)], "linking the engine")
        partial.rename(library)
    return library
