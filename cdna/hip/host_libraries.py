"""Builds the stand-in HIP runtime (runtime/*.cpp), a libamdhip64.so.7 on top of the engine, once per machine; and, for
programs that call it, a libhipblaslt.so (libraries/hipblaslt/host/*.cpp)."""

import contextlib
import fcntl
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..engine.build import (
    ENGINE_DIR,
    FLAGS,
    _cpu_features,
    _hash,
    _run,
    cache_dir,
    cpu_flags,
    engine_library,
    find_compiler,
    generated_headers,
    own_cache_dir,
    sources_of,
)
from ..engine.cached_files import whole_elf
from ..errors import ToolchainError
from .compile.compilers import INCLUDE_DIR, LIBRARIES_DIR, package_dir, triton_files

RUNTIME_DIR = Path(__file__).parent / "runtime"
NAME = "libamdhip64.so.7"
OTHER_NAMES = ("libamdhip64.so", "libhiprtc.so.7", "libhiprtc.so")  # of the same file: it has hipRTC's functions too
# Versions that binaries linked with ROCm's library ask of it (ROCm/clr, hipamd/src/hip_hcc.map.in). Our functions are
# of none of them, which the loader takes for any that is there.
VERSIONS = [f"hip_{n}" for n in "4.2 4.3 4.4 4.5 5.0 5.1 5.2 5.3 5.5 5.6 6.0 6.1 6.2 6.4 6.5 7.1 7.2".split()]
BLAS_DIR = LIBRARIES_DIR / "hipblaslt"
BLAS_NAME = "libhipblaslt.so"


def runtime_library() -> Path:
    """Path of the built libamdhip64.so.7, in a folder where it has its other names too; builds it where the cache has
    none."""
    # Guards of statics would need the C++ library's runtime, which a program may have linked into itself. What libc++'s
    # headers include of each other for old programs' sake is three quarters of what there is to parse.
    flags = ["-O2", "-fno-threadsafe-statics", "-D_LIBCPP_REMOVE_TRANSITIVE_INCLUDES"]
    # The engine by its full path: a process that has it already, as Python's side has, gets no second one.
    return _built(
        NAME,
        "hip-runtime",
        "HIP runtime",
        [RUNTIME_DIR, ENGINE_DIR, generated_headers()],
        flags,
        [engine_library()],
        RUNTIME_DIR / "runtime.h",
        OTHER_NAMES,
        VERSIONS,
    )


def environment_of_programs() -> dict[str, str]:
    """In which C code opens the runtime by its names, and a program's hipRTC finds this package."""
    return {
        "LD_LIBRARY_PATH": first_in(os.environ.get("LD_LIBRARY_PATH", ""), _this_process_library(cache_dir()).parent),
        "CDNA_PYTHON": sys.executable,
        "CDNA_ROOT": str(Path(__file__).parents[2]),
    }


_found: dict[Path, Path] = {}


def _this_process_library(cache: Path) -> Path:
    """`runtime_library`, found once: a process keeps the sources that it began with, which take long to read anew."""
    if cache not in _found or not whole_elf(_found[cache]):
        _found[cache] = runtime_library()
    return _found[cache]


def first_in(paths: str, folder: Path) -> str:
    """A variable's folders with one before them."""
    return os.pathsep.join(dict.fromkeys([str(folder), *filter(None, paths.split(os.pathsep))]))


def blas_library() -> Path:
    """Path of the built libhipblaslt.so, likewise. Only programs that call it need it; it multiplies by numpy's
    OpenBLAS."""
    flags = ["-O3", "-ffp-contract=fast", "-fno-threadsafe-statics", "-D_LIBCPP_REMOVE_TRANSITIVE_INCLUDES"]
    flags.append(f"-DOPENBLAS={json.dumps(str(_openblas()))}")
    return _built(BLAS_NAME, "hipblaslt", "hipBLASLt", [BLAS_DIR / "host", BLAS_DIR], flags, [runtime_library()])


def _openblas() -> Path:
    """The OpenBLAS that numpy's wheel brings: with 64-bit sizes, and names that begin with scipy_."""
    numpy = package_dir("numpy")
    found = sorted(numpy.parent.glob("numpy.libs/libscipy_openblas64_*.so")) if numpy else []
    if not found:
        raise ToolchainError(
            "hipBLASLt's products are OpenBLAS's, which numpy's wheel brings, and it is not there: `pip install numpy`"
        )
    return found[0]


def libraries_called_by(objects: Sequence[Path], flags: Sequence[str] = ()) -> list[str]:
    """The linker's words for our libraries, other than the runtime, that objects call or `flags` name."""
    if not any(b"hipblasLt" in file.read_bytes() for file in objects) and "-lhipblaslt" not in flags:
        return []
    folder = blas_library().parent
    return [f"-L{folder}", "-lhipblaslt", f"-Wl,-rpath,{folder}"]


def _compiled(
    short: str, folders: Sequence[Path], compiling: list[str], begins_with: Path | None, identity: str
) -> list[Path]:
    """Objects of the first folder's sources: those whose headers are as they were come from the cache."""
    seen, places = [*folders, INCLUDE_DIR, LIBRARIES_DIR], own_cache_dir() / "objects"
    objects = {
        source: places / f"{short}-{source.stem}-{_hash(sources_of(source, seen), identity)}.o"
        for source in sorted(folders[0].glob("*.cpp"))
    }
    missing = [source for source, output in objects.items() if not whole_elf(output)]
    systems = (INCLUDE_DIR, LIBRARIES_DIR, triton_files().include)
    compiling = [*compiling, *(f"-I{place}" for place in folders)]
    compiling += [word for place in systems for word in ("-isystem", str(place))]
    with tempfile.TemporaryDirectory(dir=places) as folder:
        parsed = Path(folder) / "parsed.pch"
        if begins_with is not None and missing:
            header = ["-x", "c++-header", str(begins_with), "-Xclang", "-fno-pch-timestamp"]
            _run([*compiling, *header, "-o", str(parsed)], f"compiling {begins_with.name}")

        def compile_one(source: Path) -> None:
            ahead = parsed.exists() and '#include "' in source.read_text()
            begin = ["-Xclang", "-include-pch", "-Xclang", str(parsed)] if ahead else []
            partial = Path(folder) / f"{source.stem}.o"
            _run([*compiling, *begin, "-c", str(source), "-o", str(partial)], f"compiling {source.name}")
            partial.rename(objects[source])

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(compile_one, missing))
    return list(objects.values())


def _built(
    name: str,
    short: str,
    what: str,
    folders: Sequence[Path],
    extra: Sequence[str],
    linked: Sequence[Path],
    begins_with: Path | None = None,
    other_names: Sequence[str] = (),
    versions: Sequence[str] = (),
) -> Path:
    """A shared library of the first folder's sources and all folders' headers.

    extra: compiler flags beside the engine's, whose optimisation they replace; linked: libraries that it calls.
    begins_with: a header of every source that includes one of ours; parsed once, it is half of what there is to do.
    other_names: links to it; versions: of symbols.
    """
    compile_command, link_command = find_compiler()
    # HIP's headers include the C++ library's
    compile_command = [word for word in compile_command if word != "-nostdinc++"] + cpu_flags(compile_command)[-1:]
    hip = triton_files()
    flags = [*(flag for flag in FLAGS if flag != "-O3"), *extra, "-D__HIP_PLATFORM_AMD__"]
    sources = sorted(folders[0].glob("*.cpp"))
    headers = [header for folder in folders for header in sorted(folder.rglob("*.h"))]
    identity = " ".join([*compile_command, *flags, hip.version]) + _cpu_features()
    # It names the engine that it was linked with by its path: in a cache that was moved it would load another one.
    made = [str(cache_dir().resolve()), name, *other_names, *versions]
    called = [f"{path.parent.name}/{path.name}" for path in linked]
    folder = cache_dir() / f"{short}-{_hash(sources + headers, identity, *made, *called)}"
    library = folder / name
    if whole_elf(library):
        return library
    folder = own_cache_dir() / folder.name
    library = folder / name
    if whole_elf(library):
        return library
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (own_cache_dir() / "objects").mkdir(exist_ok=True)
    except OSError as error:
        raise ToolchainError(f"cannot create the cache folder {folder}: {error}; set CDNA_CACHE_DIR") from None
    with open(folder / "lock", "w") as lock:  # released by the system if the builder is killed
        fcntl.flock(lock, fcntl.LOCK_EX)
        if whole_elf(library):
            return library
        print(f"cdna: building the {what} (once per machine) ...", file=sys.stderr, flush=True)
        objects = _compiled(short, folders, [*compile_command, *flags], begins_with, identity)
        partial, script = folder / f"{os.getpid()}.so", folder / "versions"
        script.write_text("".join(f"{version} {{}};\n" for version in versions))
        for link in other_names:
            with contextlib.suppress(FileExistsError):
                (folder / link).symlink_to(name)
        lld = "ld.lld" in link_command

        def given(*words: str) -> list[str]:
            return list(words) if lld else [f"-Wl,{','.join(words)}"]

        words = [*given("-soname", name), *(given("--version-script", str(script)) if versions else [])]
        words += [word for path in linked for word in given("-rpath", str(path.parent))]
        _run([*link_command, *words, *map(str, [*objects, *linked]), "-o", str(partial)], f"linking the {what}")
        partial.rename(library)
    return library
