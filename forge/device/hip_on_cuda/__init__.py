"""torch.utils.cpp_extension on an NVIDIA GPU: load() and load_inline() with HIP sources.

What a ROCm torch builds with hipcc, nvcc builds here: HIP's headers come from include/, sources and flags go through
translate.py. Everything else, and every extension without HIP in it, is left to torch.
"""

import functools
import hashlib
import inspect
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch.utils import cpp_extension

from forge.device.hip_on_cuda.translate import (
    first_error,
    flags_for_nvcc,
    host_flags,
    link_flags,
    source_for_nvcc,
    uses_hip,
)
from forge.files import keep_written

INCLUDE = Path(__file__).with_name("include")
# What CUDA's runtime has with the same meaning and arguments: under the same name but for `hip` before it, or under the
# one behind `=` (pinned memory is coherent in CUDA, always). An attribute of a device is `cudaDevAttr` there. What has
# another meaning is in hip_runtime_api.h; names without any are not declared, so that their use is an error.
NAMES = Path(__file__).with_name("runtime_names.txt")
HIP_SUFFIXES = (".hip", ".cu", ".cuh", ".cpp", ".cc", ".cxx", ".c++")


def apply(arch: str) -> None:
    cpp_extension._jit_compile = _with_hip(cpp_extension._jit_compile, arch)


def _with_hip(original: Callable[..., Any], arch: str) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def jit_compile(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        given = bound.arguments
        cuda_flags = list(given.get("extra_cuda_cflags") or [])
        sources = [Path(os.path.abspath(source)) for source in given["sources"]]
        texts = {path: path.read_text(errors="replace") for path in sources if path.is_file()}
        on_gpu = bool(given.get("with_cuda")) or any(path.suffix in (".hip", ".cu", ".cuh") for path in sources)
        if not on_gpu or not (uses_hip(texts.values()) or any("offload-arch" in str(flag) for flag in cuda_flags)):
            return original(*args, **kwargs)
        folder = Path(given["build_directory"])
        given["sources"] = [str(_translated(path, texts.get(path), folder)) for path in sources]
        given["with_cuda"] = True
        given["extra_include_paths"] = [*headers(folder), *(given.get("extra_include_paths") or [])]
        given["extra_cflags"] = host_flags(given.get("extra_cflags") or [])
        nvcc, dropped = flags_for_nvcc(cuda_flags)
        # The digest has ninja build anew what it built with other headers.
        own = [f"-DHIP_ON_CUDA={_headers_digest()}", "-include", "hip/hip_runtime.h"]
        given["extra_cuda_cflags"] = [*nvcc, *_arch_flags(nvcc, arch), *own]
        given["extra_ldflags"] = link_flags(given.get("extra_ldflags") or [])
        if given.get("verbose") and dropped:
            print(f"forge: flags without a counterpart in nvcc, left out: {' '.join(dropped)}", file=sys.stderr)
        given["verbose"] = False  # else the compiler's words are printed, and missing from the exception
        with _host_compiler(), _no_dependencies():
            try:
                return original(*bound.args, **bound.kwargs)
            except RuntimeError as error:
                if not str(error).startswith("Error building extension"):
                    raise
                print(error, file=sys.stderr)
                told = f"Error building extension '{given['name']}': {first_error(str(error))}"
                raise RuntimeError(told) from None

    return jit_compile


def _translated(path: Path, text: str | None, folder: Path) -> Path:
    """What nvcc compiles in the place of a HIP source; host-only sources stay as they are."""
    if text is None or path.suffix not in (".hip", ".cu", ".cuh"):
        return path
    wanted = source_for_nvcc(text, path.name if path.parent == folder else str(path))
    return keep_written(folder / f"{path.stem}.nvidia.cu", wanted)


def headers(folder: Path) -> list[str]:
    """Where the compiler finds HIP's headers: ours, and one that is made in this folder."""
    names = [name.partition("=") for name in NAMES.read_text().split()]
    lines = [f"#define hip{hip} cuda{cuda or hip.replace('DeviceAttribute', 'DevAttr')}\n" for hip, _, cuda in names]
    keep_written(folder / "hip_runtime_names.h", "".join(["#pragma once\n", *lines]))
    return [str(INCLUDE), str(folder)]


def _arch_flags(flags: Sequence[str], arch: str) -> list[str]:
    """Hopper's flags, with the instructions that it alone has (wgmma): torch would build for sm_90 without them.
    Nothing where the source's flags or the environment choose."""
    if arch != "sm_90" or os.environ.get("TORCH_CUDA_ARCH_LIST") or any("arch" in flag for flag in flags):
        return []
    return ["-gencode=arch=compute_90a,code=sm_90a"]


@functools.cache
def _headers_digest() -> str:
    digest = hashlib.sha256()
    for path in [NAMES, *sorted(INCLUDE.rglob("*.h"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


@contextmanager
def _host_compiler() -> Iterator[None]:
    """Without CXX and CC where they name a compiler that is not here, as the leaderboard's clang++ may not be."""
    absent = {
        name: os.environ[name]
        for name in ("CXX", "CC")
        if os.environ.get(name, "").split() and not shutil.which(os.environ[name].split()[0])
    }
    for name in absent:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(absent)


@contextmanager
def _no_dependencies() -> Iterator[None]:
    """Without the list of headers that nvcc makes for ninja: it has the files that `#line` names as well, which are not
    there, and every rank would build again what the first has built."""
    name = "TORCH_EXTENSION_SKIP_NVCC_GEN_DEPENDENCIES"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
