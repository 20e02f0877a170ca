"""Finds what can compile HIP for gfx942 and gfx950: ROCm's own clang, a clang on PATH, or ziglang from pip.

Only ROCm brings HIP's headers and device bitcode. With the other two they come from Triton's wheel
(triton/backends/amd/{include,lib}), and what that lacks from include/ here. Clang's own HIP headers, which
come with Debian's clang but not with ziglang, are replaced by include/wrapper where they are missing.
"""

import functools
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...engine.build import cache_dir, own_cache_dir
from ...errors import ToolchainError

INCLUDE_DIR = Path(__file__).parents[1] / "include"
LIBRARIES_DIR = Path(__file__).parents[1] / "libraries"  # headers of ROCm's libraries, as far as programs use them
INCLUDE_FOR_HIP_6 = INCLUDE_DIR / "hip6"  # what sources written for ROCm 6 want
OLDEST_CLANG = 20  # the first release that knows gfx950
OLDEST_HIP = 7  # the runtime in runtime/ is written against its headers
REMEDY = (
    "`pip install ziglang triton` (needs no root), or install clang 20 or later with lld "
    "(Debian 12: apt-get install clang-22 lld-22), or ROCm 7; `python -m cdna doctor` shows what was found"
)


def hip_version() -> int:
    """The major version of HIP that sources are written for: $CDNA_HIP_VERSION, 7 if that is not set."""
    said = os.environ.get("CDNA_HIP_VERSION") or "7"
    if said not in ("6", "7"):
        raise ToolchainError(f"CDNA_HIP_VERSION={said}: say 6 or 7, for sources written for ROCm 6 or 7")
    return int(said)


@dataclass(frozen=True)
class HipFiles:
    """HIP's headers and device bitcode."""

    origin: str
    include: Path
    bitcode: tuple[Path, ...]
    version: str


@dataclass(frozen=True)
class Compiler:
    """A compiler that makes AMDGCN code, and how to call it."""

    kind: str  # rocm | clang | ziglang
    driver: tuple[str, ...]  # compiles HIP, C++ and LLVM IR
    linker: tuple[str, ...]  # links host objects, with the C++ library whose headers the driver uses
    version: str
    headers: tuple[str, ...]  # flags that give the HIP headers
    bitcode: tuple[Path, ...]  # device library to link; empty: the driver knows
    cxx_library: str  # libstdc++ | libc++
    hip: str  # where HIP's headers come from
    wrapper: str  # whose HIP wrapper headers: clang | cdna
    plain_linker: tuple[str, ...] = ()  # links without the C++ library, where that has to be built first

    @property
    def label(self) -> str:
        return f"{self.kind} {self.version} ({self.driver[0]})"


@dataclass(frozen=True)
class Missing:
    """Why a compiler is not usable, and what to do."""

    kind: str
    reason: str


def environment() -> dict[str, str]:
    """For compilers' processes: messages in English, zig's cache beside ours."""
    zig = str(own_cache_dir() / "zig")
    return {**os.environ, "LC_ALL": "C", "ZIG_GLOBAL_CACHE_DIR": zig, "ZIG_LOCAL_CACHE_DIR": zig}


def ask(*command: str) -> tuple[str, str]:
    """What a program says on standard output and on standard error; ToolchainError if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), stdin=subprocess.DEVNULL)
    except OSError as error:
        raise ToolchainError(f"cannot run {command[0]}: {error.strerror}") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise ToolchainError(f"{' '.join(command)}: {said[0]}")
    return done.stdout, done.stderr


def package_dir(name: str) -> Path | None:
    """Folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def triton_files() -> HipFiles:
    """HIP's headers and bitcode in Triton's wheel: of several on the path, the last whose HIP is 7 or later, which is
    the installed one. A Triton that is put before it, to compile Triton kernels as another version does, may have older
    ones, and would have every HIP source compiled once more."""
    packages = [*(Path(folder or ".", "triton") for folder in reversed(sys.path)), package_dir("triton")]
    found = [_files_of(package) for package in packages if package and (package / "__init__.py").is_file()]
    usable = [files for files in found if isinstance(files, HipFiles)]
    if usable:
        return usable[0]
    raise ToolchainError(
        f"no HIP headers: {found[0]}" if found else "no HIP headers: Triton's package has them: `pip install triton`"
    )


def _files_of(package: Path) -> HipFiles | str:
    """What a Triton package has, or why that does not serve."""
    amd = package / "backends" / "amd"
    header, bitcode = amd / "include/hip/hip_version.h", (amd / "lib/ocml.bc", amd / "lib/ockl.bc")
    for file in (header, amd / "include/hip/hip_runtime.h", *bitcode):
        if not file.is_file():
            return f"this Triton has no {file}: install 3.6 or later from PyPI, for Linux"
    version = _version_in(header)
    if int(version.partition(".")[0]) < OLDEST_HIP:
        return f"those of {package} are HIP {version}: install Triton 3.6 or later"
    return HipFiles(f"Triton's package ({amd})", amd / "include", bitcode, version)


def _version_in(header: Path) -> str:
    """What a hip_version.h says."""
    numbers = dict(re.findall(r"#define HIP_VERSION_(MAJOR|MINOR|PATCH) +(\d+)", header.read_text()))
    return ".".join(numbers[part] for part in ("MAJOR", "MINOR", "PATCH"))


def _clang_version(clang: str) -> str:
    found = re.search(r"clang version (\d+\.\d+\.\d+)", ask(clang, "--version")[0])
    if not found:
        raise ToolchainError(f"{clang} does not say that it is clang")
    return found[1]


def _usable_clang(clang: str) -> str:
    """Its version; ToolchainError if it is too old or makes no AMDGCN code."""
    version = _clang_version(clang)
    if int(version.partition(".")[0]) < OLDEST_CLANG:
        raise ToolchainError(f"{clang} is clang {version}: {OLDEST_CLANG} or later is needed")
    if not re.search(r"\bamdgcn\b", ask(clang, "--print-targets")[0]):
        raise ToolchainError(f"{clang} was built without the AMDGPU target")
    return version


def _ours_before(files: HipFiles) -> tuple[str, ...]:
    folders = [INCLUDE_DIR, LIBRARIES_DIR, files.include]
    if hip_version() == 6:
        folders[:0] = INCLUDE_FOR_HIP_6, _vector_types_of_hip_6(files.include)
    return tuple(word for folder in folders for word in ("-isystem", str(folder)))


def _vector_types_of_hip_6(include: Path) -> Path:
    """A folder whose vector types (float4, ...) have `data` too, all elements as one vector of the compiler's, as
    HIP had it until 6: a copy of the header in `include` with that, in the cache."""
    header = Path("hip", "amd_detail", "amd_hip_vector_types.h")
    together = r"  union {\n    Native_vec_ data;\n    struct {\n      \1\n    };\n  };"
    text = re.sub(r"^  (T x(?:, y)?(?:, z)?(?:, w)?;)$", together, (include / header).read_text(), flags=re.MULTILINE)
    folder = own_cache_dir() / "hip6" / hashlib.sha256(text.encode()).hexdigest()[:12]
    file = folder / header
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f"{file.name}.{os.getpid()}")
        partial.write_text(text)
        partial.rename(file)
    return folder


def _included_first(wrapper: str) -> tuple[str, ...]:
    files = ["hip/amd_detail/amd_hip_vector_types.h", wrapper, "cdna_hip_6.h"] if hip_version() == 6 else [wrapper]
    return tuple(word for file in files for word in ("-include", file))


# ------------------------------------------------------------ ROCm


def _rocm_roots() -> Iterator[Path]:
    for variable in ("ROCM_PATH", "ROCM_HOME", "HIP_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    hipcc = shutil.which("hipcc")
    if hipcc:
        yield Path(hipcc).resolve().parent.parent
    yield Path("/opt/rocm")


def rocm() -> Compiler:
    """ROCm's own clang, with ROCm's headers and bitcode: what hipcc calls."""
    for root in _rocm_roots():
        for folder in ("llvm/bin", "lib/llvm/bin"):
            clang, header = root / folder / "clang++", root / "include/hip/hip_version.h"
            if clang.exists() and header.exists():
                hip, version = _version_in(header), _clang_version(str(clang))
                if os.environ.get("CDNA_HIP_VERSION") and hip.split(".")[0] != str(hip_version()):
                    raise ToolchainError(f"{root} is ROCm {hip}, and CDNA_HIP_VERSION={hip_version()}")
                return Compiler(
                    "rocm",
                    (str(clang),),
                    (str(clang),),
                    version,
                    (f"--rocm-path={root}",),
                    (),
                    "libstdc++",
                    f"ROCm ({root})",
                    "clang",
                )
    raise ToolchainError("no ROCm under $ROCM_PATH, beside hipcc or in /opt/rocm")


# ------------------------------------------------------------ clang


def _clangs_on_path() -> list[str]:
    """clang++ and clang++-N of every folder of PATH, the highest N first."""
    found: dict[str, int] = {}
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            match = re.fullmatch(r"clang\+\+(?:-(\d+))?", name)
            if match:
                found.setdefault(os.path.join(folder, name), int(match[1] or 0))
    return sorted(found, key=lambda path: -found[path])


def clang_at(clang: str) -> Compiler:
    """The Compiler of a clang++ of the machine."""
    version = _usable_clang(clang)
    files = triton_files()
    resources = Path(ask(clang, "-print-resource-dir")[0].strip()) / "include"
    headers: tuple[str, ...] = ("-nogpuinc", "-nogpulib")
    own = (resources / "__clang_hip_runtime_wrapper.h").is_file()
    if own:
        headers += (
            "-isystem",
            str(resources / "cuda_wrappers"),
            *_ours_before(files),
            *_included_first("__clang_hip_runtime_wrapper.h"),
        )
    else:
        headers += (
            "-isystem",
            str(INCLUDE_DIR / "wrapper"),
            *_ours_before(files),
            *_included_first("cdna_hip_wrapper.h"),
        )
    return Compiler(
        "clang",
        (clang,),
        (clang,),
        version,
        headers,
        files.bitcode,
        "libstdc++",
        files.origin,
        "clang" if own else "cdna",
    )


def clang() -> Compiler:
    """The newest usable clang++ on PATH."""
    reasons = []
    for path in _clangs_on_path():
        try:
            return clang_at(path)
        except ToolchainError as error:
            reasons.append(str(error))
    raise ToolchainError("; ".join(reasons) or "no clang++ on PATH")


# ------------------------------------------------------------ ziglang


def ziglang(cxx_library: str = "") -> Compiler:
    """The clang inside pip's ziglang. C++ library: g++'s where the machine has g++, else zig's own libc++."""
    package = package_dir("ziglang")
    if package is None:
        raise ToolchainError("the package ziglang is not installed: `pip install ziglang`")
    zig, target = str(package / "zig"), f"--target={platform.machine()}-linux-gnu"
    version = f"{ask(zig, 'version')[0].strip()}, clang {_clang_version_of_zig(zig)}"
    files = triton_files()
    gxx = shutil.which("g++")
    cxx_library = cxx_library or ("libstdc++" if gxx else "libc++")
    headers = ("-nogpuinc", "-nogpulib", "-isystem", str(INCLUDE_DIR / "wrapper"), *_ours_before(files))
    if cxx_library == "libstdc++":
        headers += ("-isystem", str(package / "lib/include"))
        linker: tuple[str, ...] = (gxx or "g++",)
        plain_linker: tuple[str, ...] = ()
    else:
        headers += ("-nostdinc", *_zig_cxx_headers(zig, target))
        # without -O2 zig builds what finds undefined behaviour as well, half a minute of it
        linker, plain_linker = (zig, "c++", target, "-O2"), (zig, "cc", target, "-O2")
    headers += _included_first("cdna_hip_wrapper.h")
    return Compiler(
        "ziglang",
        (zig, "clang", target),
        linker,
        version,
        headers,
        files.bitcode,
        cxx_library,
        files.origin,
        "cdna",
        plain_linker,
    )


def zigs_cxx_library_is_built() -> bool:
    """Whether a link with zig's C++ library need not build it first, which takes two minutes of processor time."""
    return any((cache_dir() / "zig" / "o").glob("*/libc++.a"))


def _clang_version_of_zig(zig: str) -> str:
    version = re.search(r"clang version (\d+\.\d+\.\d+)", ask(zig, "clang", "--version")[0])
    if not version or int(version[1].partition(".")[0]) < OLDEST_CLANG:
        raise ToolchainError(f"{zig} holds no clang {OLDEST_CLANG} or later: `pip install -U ziglang`")
    return version[1]


@functools.cache
def _zig_cxx_headers(zig: str, target: str) -> tuple[str, ...]:
    """Folders and macros with which `zig c++` makes libc++ and the C library's headers usable."""
    macros, said = ask(zig, "c++", target, "-x", "c++", "-dD", "-E", "-v", "/dev/null")
    folders = said.partition("#include <...> search starts here:")[2].partition("End of search list")[0].split()
    given = macros.partition('"<command line>" 1')[2].partition('"<built-in>" 2')[0]
    if not folders:
        raise ToolchainError(f"{zig} c++ does not say where its C++ headers are: `pip install ziglang==0.17.0`")
    flags = [flag for folder in folders for flag in ("-isystem", folder)]
    return (*flags, *(f"-D{name}={value}" for name, value in re.findall(r"#define (\w+) (.*)", given)))


# ------------------------------------------------------------ choosing

FINDERS = {"rocm": rocm, "clang": clang, "ziglang": ziglang}


def search() -> list[Compiler | Missing]:
    """Every kind of compiler in the order of preference, or why it is not usable."""
    found: list[Compiler | Missing] = []
    for kind, finder in FINDERS.items():
        try:
            found.append(finder())
        except ToolchainError as error:
            found.append(Missing(kind, str(error)))
    return found


def choose(wanted: str = "") -> Compiler:
    """The compiler to use. `wanted`, or $CDNA_HIP_COMPILER: rocm, clang, ziglang, or a clang++'s path."""
    wanted = wanted or os.environ.get("CDNA_HIP_COMPILER", "")
    if wanted in FINDERS:
        return FINDERS[wanted]()
    if wanted:
        path = shutil.which(wanted)
        if not path:
            raise ToolchainError(
                f"CDNA_HIP_COMPILER={wanted}: no such program; say {', '.join(FINDERS)} or a clang++'s path"
            )
        return clang_at(path)
    reasons = []
    for kind, finder in FINDERS.items():
        try:
            return finder()
        except ToolchainError as error:
            reasons.append(f"{kind}: {error}")
    raise ToolchainError(f"no compiler for HIP: {'; '.join(reasons)}. Remedy: {REMEDY}")
