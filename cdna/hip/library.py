"""Builds the stand-in HIP runtime (runtime/*.cpp), a libamdhip64.so on top of the engine, once per machine."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..arch import ARCHS
from ..build import ENGINE_DIR, FLAGS, _cpu_features, _hash, _run, cache_dir, cpu_flags, engine_library, find_compiler
from ..errors import ToolchainError
from .compilers import triton_files

RUNTIME_DIR = Path(__file__).parent / "runtime"
NAME = "libamdhip64.so"
# ArchFacts of runtime.h, in its order
_FACTS = ("name", "product", "compute_units", "xcds", "lds_bytes", "clock_mhz", "max_waves_per_simd", "vgprs_per_lane",
          "vgpr_granule", "memory_bytes")


def _arch_facts() -> str:
    """arch.py's facts as a C++ header."""
    rows = []
    for arch in ARCHS.values():
        facts = dataclasses.asdict(arch)
        values = (f'"{facts[key]}"' if isinstance(facts[key], str) else f"{facts[key]}ull" for key in _FACTS)
        rows.append(f"  {{{', '.join(values)}}},")
    return "\n".join(["static const ArchFacts ARCH_FACTS[] = {", *rows, "};", ""])


def runtime_library() -> Path:
    """Path of the built libamdhip64.so, in a folder of its own; builds it where the cache has none."""
    engine = engine_library()
    compile_command, link_command = find_compiler()
    # HIP's headers include the C++ library's
    compile_command = [word for word in compile_command if word != "-nostdinc++"] + cpu_flags(compile_command)[-1:]
    hip = triton_files()
    facts = _arch_facts()
    sources = sorted(RUNTIME_DIR.glob("*.cpp"))
    headers = [*sorted(RUNTIME_DIR.glob("*.h")), *sorted(ENGINE_DIR.glob("*.h"))]
    # Guards of statics would need the C++ library's runtime, which a program may have linked into itself. What libc++'s
    # headers include of each other for old programs' sake is three quarters of what there is to parse.
    flags = [*(flag for flag in FLAGS if flag != "-O3"), "-O2", "-fno-threadsafe-statics", "-D__HIP_PLATFORM_AMD__",
             "-D_LIBCPP_REMOVE_TRANSITIVE_INCLUDES"]
    identity = " ".join([*compile_command, *flags, hip.version, facts]) + _cpu_features()
    folder = cache_dir() / f"hip-runtime-{_hash(sources + headers, identity, engine.name)}"
    library = folder / NAME
    if library.exists():
        return library
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolchainError(f"cannot create the cache folder {folder}: {error}; set CDNA_CACHE_DIR") from None
    with open(folder / "lock", "w") as lock:  # released by the system if the builder is killed
        fcntl.flock(lock, fcntl.LOCK_EX)
        if library.exists():
            return library
        print("cdna: building the HIP runtime (once per machine) ...", file=sys.stderr, flush=True)
        (folder / "arch_facts.h").write_text(facts)
        includes = [f"-I{RUNTIME_DIR}", f"-I{ENGINE_DIR}", f"-I{folder}",
                    "-isystem", str(Path(__file__).parent / "include"), "-isystem", str(hip.include)]

        def compile_one(source: Path) -> Path:
            output = folder / f"{source.stem}.o"
            _run([*compile_command, *flags, *includes, "-c", str(source), "-o", str(output)],
                 f"compiling {source.name}")
            return output

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            objects = list(pool.map(compile_one, sources))
        partial = folder / f"{os.getpid()}.so"
        # The engine by its full path: a process that has it already, as Python's side has, gets no second one.
        soname = ["-soname", NAME] if "ld.lld" in link_command else [f"-Wl,-soname,{NAME}"]
        _run([*link_command, *soname, *map(str, objects), str(engine), "-o", str(partial)], "linking the HIP runtime")
        partial.rename(library)
    return library
