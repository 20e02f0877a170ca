"""torch's headers for HIP sources on an emulated GPU, where torch is a CPU build.

A folder that comes before torch's own holds what differs: the headers of c10/hip and ATen/hip, which only a ROCm build
has (all of them are include/forge_torch_hip.h here), and copies of torch's in which tensors claim to be on their GPU.
include/thrust has what torch's headers want of rocThrust.
Parsing torch's headers takes ten seconds a pass, so that is done once, and kept (precompiled headers, 100 MB each).
Half of what they hold no kernel needs: the C++ frontend (torch::nn and its like) and functions of thousands of
operators. The light ones leave that out, but for the operators that a source mentions, and are tried first.
"""

import functools
import hashlib
import re
import sysconfig
from dataclasses import replace
from pathlib import Path

import torch

from cdna.engine.build import cache_dir, own_cache_dir
from cdna.errors import ToolchainError
from cdna.hip.compile.compilers import Compiler
from cdna.hip.compile.source import HipSource, ParsedHeader
from forge.device.fake_rocm.tags import HOST_INDEX, TAG
from forge.files import keep_written

INCLUDE = Path(__file__).with_name("include")
TORCH = Path(torch.__file__).parent
# As torch.utils.cpp_extension has them for ROCm.
DEFINES = (
    "-D__HIP_PLATFORM_AMD__=1",
    "-DUSE_ROCM=1",
    "-DHIPBLAS_V2",
    "-DCUDA_HAS_FP16=1",
    "-D__HIP_NO_HALF_OPERATORS__=1",
    "-D__HIP_NO_HALF_CONVERSIONS__=1",
    "-DHIP_ENABLE_WARP_SYNC_BUILTINS=1",
    "-DTORCH_API_INCLUDE_EXTENSION_H",
)
_USES_TORCH = re.compile(r'^\s*#\s*include\s*[<"](torch/|ATen/|c10/|pybind11/|forge_torch_hip)', re.MULTILINE)
_SETS_MACRO = re.compile(r"^\s*#\s*(define|undef|pragma push_macro)\b", re.MULTILINE)

# XX is CUDA in the folder cuda, HIP in the folder hip.
C10 = "XXStream XXGuard XXException XXFunctions XXMiscFunctions XXCachingAllocator XXEvent impl/XXGuardImpl"
ATEN = "XXContext XXContextLight XXEvent Exceptions XXUtils XXDevice PeerToPeerAccess"
MASQUERADING = "HIPAllocator HIPCachingAllocator HIPGuardImpl HIPStream"
PRECOMPILED = """#include <hip/hip_runtime.h>
#include <torch/extension.h>
#include <forge_torch_hip.h>
"""

# (pattern, replacement) in a header of torch's; each must match.
CLAIMS = {
    "ATen/core/TensorBase.h": (
        (r"\A", f'#define FORGE_TAG "{TAG}"\n#define FORGE_HOST_INDEX {HOST_INDEX}\n#include <forge_claim.h>\n'),
        (r"(Device device\(\) const \{\s*return )impl_->device\(\);", r"\1forge::claimed_device(impl_.get());"),
        (r"(get_device\(\) const \{[^}]*return )impl_->get_device\(\);", r"\1device().index();"),
        (r"(bool is_cpu\(\) const \{[^}]*return )impl_->is_cpu\(\);", r"\1device().is_cpu();"),
        (r"(bool is_cuda\(\) const \{[^}]*return )impl_->is_cuda\(\);", r"\1device().is_cuda();"),
    ),
    "ATen/ops/from_blob.h": (
        (r"(target_device\([^)]*\)[^{]*\{\s*device_ = )value;", r"\1forge::host_if_gpu(value);"),
        (
            r"(TensorMaker& options\([^)]*\)[^{]*\{\s*opts_ = )value;",
            r"\1value.device(forge::host_if_gpu(value.device_opt()));",
        ),
    ),
}


# Factories of tensors that lie in the host's memory where no GPU is asked for.
FACTORIES = "arange empty empty_strided eye full linspace logspace ones rand randint randn randperm zeros".split()
# The headers of which the light ones leave something out, and what: lines that match. torch/extension.h is made anew.
_LEFT_OUT = {"ATen/ATen.h": r"^#include <ATen/(Native)?Functions\.h>\n"}
_OF_PYTHON = re.compile(r"^#include <torch/csrc/.*>\n", re.MULTILINE)
# With it torch's headers include the operators that they use one by one.
_LIGHT = "-DAT_PER_OPERATOR_HEADERS"


def standins() -> list[str]:
    """Names of the headers that are all forge_torch_hip.h."""
    names = [f"ATen/hip/impl/{name}MasqueradingAsCUDA.h" for name in MASQUERADING.split()]
    for folder in ("hip", "cuda"):
        names += [f"c10/{folder}/{name}.h".replace("XX", folder.upper()) for name in C10.split()]
        names += [f"ATen/{folder}/{name}.h".replace("XX", folder.upper()) for name in ATEN.split()]
    return names


def claiming(name: str, text: str) -> str:
    """A header of torch's in which a tensor claims its GPU."""
    for pattern, replacement in CLAIMS[name]:
        text, count = re.subn(pattern, replacement, text, count=1)
        if not count:
            raise ToolchainError(f"torch {torch.__version__} has another {name} than expected: no match of {pattern!r}")
    return text


@functools.cache
def overlay() -> Path:
    """The folder that comes before torch's own."""
    files = dict.fromkeys(standins(), "#pragma once\n#include <forge_torch_hip.h>\n")
    for name in CLAIMS:
        files[name] = claiming(name, (TORCH / "include" / name).read_text())
    for name in FACTORIES:
        text = (TORCH / "include/ATen/ops" / f"{name}.h").read_text()
        told = re.sub(r"options\.device_opt\(\)|(?<= )device(?=, pin_memory)", r"forge::told_device(\g<0>)", text)
        files[f"ATen/ops/{name}.h"] = told
    files["forge_precompiled.h"] = PRECOMPILED
    return _written(files)


@functools.cache
def light_overlay() -> Path:
    """The folder that comes before overlay() where the light headers are meant."""
    files = {}
    for name, lines in _LEFT_OUT.items():
        files[name] = re.sub(lines, "", (TORCH / "include" / name).read_text(), flags=re.MULTILINE)
    of_python = _OF_PYTHON.findall((TORCH / "include/torch/csrc/api/include/torch/python.h").read_text())
    files["torch/extension.h"] = "".join(["#pragma once\n#include <torch/types.h>\n", *of_python])
    return _written(files)


def _written(files: dict[str, str]) -> Path:
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    folder = cache_dir() / "torch" / f"headers-{digest}"
    # Another process may be at it, and a confined one writes to its own alone.
    if not all((folder / name).is_file() for name in files):
        folder = own_cache_dir() / "torch" / folder.name
    for name, text in files.items():
        keep_written(folder / name, text)
    return folder


def include_flags(light: bool) -> list[str]:
    """Compiler flags that give torch's headers, or the light ones, and Python's."""
    torch_include = TORCH / "include"
    folders = [overlay(), INCLUDE, torch_include, torch_include / "torch/csrc/api/include"]
    if light:
        folders.insert(0, light_overlay())
    flags = [flag for folder in folders for flag in ("-isystem", str(folder))] + python_flags()
    return [_LIGHT, *flags] if light else flags


@functools.cache
def _operators() -> frozenset[str]:
    """Names of torch's operators, each of which has a header."""
    return frozenset(path.stem for path in (TORCH / "include/ATen/ops").glob("*.h"))


def operator_flags(text: str) -> list[str]:
    """Compiler flags that give the functions of the operators whose names are in `text`, with the light headers."""
    words = {re.sub(r"(_outf?|_)$", "", word) for word in re.findall(r"\w+", text)}
    return [flag for name in sorted(words & _operators()) for flag in ("-include", f"ATen/ops/{name}.h")]


_TORCHS_NAME = re.compile(r"\b(torch|at|c10)::|namespace '(torch|at|c10)|'(TORCH|AT|C10)_\w+'")
_UNKNOWN = re.compile(r"undeclared|unknown type|no (template|type) named|no matching")
_USING = re.compile(r"\busing\s+namespace\s+(torch|at|c10)\b")


def may_lack(message: str, text: str) -> bool:
    """Whether a compiler's message about `text` may come from what the light headers leave out."""
    if str(TORCH) in message or _TORCHS_NAME.search(message):
        return True
    return bool(_USING.search(text) and _UNKNOWN.search(message))


def python_flags() -> list[str]:
    """Compiler flags that give Python's headers alone."""
    python = sysconfig.get_paths()["include"]
    if not Path(python, "Python.h").is_file():
        raise ToolchainError(
            f"no {python}/Python.h, which torch extensions include: install Python's headers (Debian: python3-dev)"
        )
    return ["-isystem", python]


def need_libstdcxx(compiler: Compiler, what: str) -> None:
    """torch's wheels are built with libstdc++: a std::string of another C++ library would not be theirs."""
    if compiler.cxx_library != "libstdc++":
        raise ToolchainError(
            f"{what} includes torch's headers, which need libstdc++ as torch's own wheel does, and "
            f"{compiler.label} has only libc++: "
            "install g++ (Debian, Ubuntu: apt-get install g++), or keep torch out of the source"
        )


def with_torch(source: HipSource, text: str) -> HipSource:
    """A source that includes torch's headers, with what gives them: the light ones, and all of them where it does not
    compile with these. text: the source, with the user's headers in it."""

    def given(light: bool) -> HipSource:
        flags = include_flags(light)
        header = ParsedHeader(overlay() / "forge_precompiled.h", (*DEFINES, *flags))
        flags += operator_flags(text) if light else []
        host = source.flags if source.host_flags is None else source.host_flags
        return replace(source, flags=(*source.flags, *flags), host_flags=(*host, *flags), header=header)

    # A macro that is set before torch's headers may be meant for them: then they are parsed with it.
    if _SETS_MACRO.search(text, 0, _first_torch_header(text)):
        return replace(given(light=False), header=None)
    return replace(given(light=True), instead=lambda error: given(light=False) if may_lack(str(error), text) else None)


def is_included_in(text: str) -> bool:
    """Whether a source, with the user's headers in it, includes torch's."""
    return _first_torch_header(text) >= 0


def _first_torch_header(text: str) -> int:
    found = _USES_TORCH.search(text)
    return found.start() if found else -1
