"""torch.utils.cpp_extension on an emulated GPU: load() and load_inline() with HIP or CUDA sources.

What a ROCm torch does with hipcc and ninja is done with cdna's toolchain: hipify, a device pass to an image that the
emulated device executes, a host pass with that image embedded, a link with the stand-in libamdhip64. All results are
cached by content (cdna/hip/compile/). Extensions without GPU code are left to torch.
"""

import functools
import hashlib
import importlib.util
import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils import cpp_extension

from cdna.engine.build import own_cache_dir
from cdna.errors import CompileError, NotEmulated, ToolchainError
from cdna.hip.compile import results
from cdna.hip.compile.diagnostics import ROCM_LIBRARIES
from cdna.hip.compile.source import HipSource
from cdna.hip.compile.toolchain import find
from forge.device.fake_rocm import hip, kept, torch_headers
from forge.device.fake_rocm.hipify import RUNTIME, directive, hipify, with_places
from forge.device.fake_rocm.locks import locked
from forge.files import keep_written

DEVICE_SUFFIXES = (".cu", ".hip", ".cuh")
_USES_PYTHON = re.compile(r'^\s*#\s*include\s*[<"]Python\.h', re.MULTILINE)
_QUOTED = re.compile(r'^\s*#\s*include\s*"', re.MULTILINE)
_ROCM_HEADER = re.compile(rf'^\s*#\s*include\s*[<"]((?:{"|".join(ROCM_LIBRARIES)})/[^>"\n]+)[>"]', re.MULTILINE)
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"\n]+)[>"].*$', re.MULTILINE)
_TARGET = re.compile(r"^--?(?:offload-arch|amdgpu-target)[=\n]([\w:+-]+(?:,[\w:+-]+)*)$", re.MULTILINE)
# Of a ROCm torch's own libraries: here they are in libtorch_cpu, in forge_torch_hip.h, or the runtime.
_PART_OF_TORCH = (
    "-lc10_hip",
    "-ltorch_hip",
    "-lc10_cuda",
    "-ltorch_cuda",
    "-lamdhip64",
    "-lhiprtc",
    "-lcudart",
    "-lcuda",
)
_OPTIMISES = re.compile(r"-O\w*|-f(no-)?fast-math|-f(no-)?unsafe-math-optimizations|-ffp-contract=\w+")
_KEEPS_FILES = re.compile(r"^--?save-temps(=.*)?$", re.MULTILINE)


_versions: dict[str, list[Path]] = {}


class BuildError(RuntimeError):
    """What torch's own load() raises where a source does not compile."""


@dataclass
class Extension:
    """What load() was given."""

    name: str
    sources: list[Path]
    arch: str
    cflags: list[str]
    device_flags: list[str]
    ldflags: list[str]
    include_paths: list[str]
    build_directory: str
    optimised_host: bool = False  # host code with torch's headers too
    cache: Path = field(default_factory=own_cache_dir)
    copied: str = ""  # the folder whose parts are copies of where its sources were
    folder: Path = field(init=False)  # where its sources lie as they are compiled

    def __post_init__(self) -> None:
        contents = [(path.name, path.read_text()) for path in self.sources]
        given = [self.name, contents, self.arch, self.cflags, self.device_flags, self.ldflags, self.include_paths]
        self.folder = self.cache / "torch" / f"{self.name}-{hashlib.sha256(repr(given).encode()).hexdigest()[:16]}"


def apply(arch: str) -> None:
    cpp_extension.IS_HIP_EXTENSION = True
    cpp_extension.ROCM_HOME = cpp_extension.ROCM_HOME or "/opt/rocm"
    cpp_extension._jit_compile = _with_hip(cpp_extension._jit_compile, arch)
    cpp_extension.load_inline = _one_at_a_time(cpp_extension.load_inline)


def _one_at_a_time(original: Callable[..., Any]) -> Callable[..., Any]:
    """load_inline: its sources get their places in the caller's file, and only one process writes them."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def load_inline(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        given = bound.arguments
        if not given.get("cuda_sources"):
            return original(*args, **kwargs)
        for key in ("cpp_sources", "cuda_sources"):
            sources = given.get(key) or []
            given[key] = with_places([sources] if isinstance(sources, str) else list(sources), key)
        given["use_pch"] = False  # torch's way of precompiling headers
        folder = given.get("build_directory") or os.environ.get("TORCH_EXTENSIONS_DIR", "")
        with locked(f"load_inline {os.path.abspath(folder)} {given['name']}"):
            try:
                return original(*bound.args, **bound.kwargs)
            except BuildError as error:
                raise error.with_traceback(None) from None  # where in here it was found helps nobody

    return load_inline


def _with_hip(original: Callable[..., Any], arch: str) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def jit_compile(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        sources = [Path(os.path.abspath(source)) for source in given["sources"]]
        if not (given.get("with_cuda") or any(source.suffix in DEVICE_SUFFIXES for source in sources)):
            return original(*args, **kwargs)
        if given.get("is_standalone"):
            raise NotEmulated(
                f"load({given['name']!r}, is_standalone=True) on an emulated GPU: use `python -m cdna run`"
            )
        for source in sources:
            if not source.is_file():
                raise RuntimeError(f"load({given['name']!r}): {source}: no such file")
        extension = _named_apart(
            given["name"],
            sources,
            arch,
            _words(given.get("extra_cflags")),
            _words(given.get("extra_cuda_cflags")),
            _words(given.get("extra_ldflags")),
            [os.path.abspath(path) for path in given.get("extra_include_paths") or []],
            os.path.abspath(given["build_directory"]),
        )
        notes = bool(given.get("verbose"))

        def built() -> Any:
            library = build_kept(
                extension, lambda text: print(f"forge: {text}", file=sys.stderr, flush=True) if notes else None
            )
            hip.load(arch)
            return _import(extension.name, library, given.get("is_python_module", True))

        try:
            return built()
        except (ImportError, OSError) as error:
            if "undefined symbol" not in str(error):
                raise
            extension.optimised_host = True  # a name whose uses optimisation removes need not be defined
            return built()

    return jit_compile


def _named_apart(name: str, *rest: Any) -> Extension:
    """As torch does it: other sources of a name that this process has loaded already are name_v1, name_v2, ...

    Python, and pybind11, would take them for the module that they know.
    """
    versions = _versions.setdefault(name, [])
    original = Extension(name, *rest)
    if original.folder not in versions:
        versions.append(original.folder)
    number = versions.index(original.folder)
    return Extension(f"{name}_v{number}", *rest) if number else original


def build_kept(extension: Extension, note: Callable[[str], None]) -> Path:
    """As `build`; with a builder it is one that lasts, which this process does not make but ask for."""
    if not kept.has_builder():
        return build(extension, note)
    try:
        copy = kept.copy_of(extension, kept.run_folder())
    except (OSError, kept.NotTaken):
        return build(extension, note)
    note(f"building {extension.name} for {extension.arch}")
    for asked in (False, True):
        if asked and (said := kept.ask(kept.request_of(extension))) != "":
            if said is None:
                break
            raise BuildError(said)
        if copy.place.is_dir():
            with results.only_known():
                try:
                    return build(kept.in_copy(extension, copy), note)
                except (results.NotKnown, OSError):  # of what a builder began, and did not end, neither is there
                    pass
    return build(extension, note)


def build(extension: Extension, note: Callable[[str], None]) -> Path:
    """The extension's shared library; BuildError with the compiler's first message if it does not compile."""
    from cdna.hip.compile.build import build as build_sources

    with locked(f"build {extension.folder}") as first:
        extension.folder.mkdir(parents=True, exist_ok=True)
        _check_targets(extension)
        sources = [_source(extension, path) for path in extension.sources]
        if first:
            names = ", ".join(path.name for path in extension.sources)
            parsed = (
                "; torch's headers are parsed once per machine and set of flags"
                if any(s.header for s in sources)
                else ""
            )
            note(f"building {extension.name} for {extension.arch} ({names}){parsed}")
        # In one word each, so that half a gigabyte of torch is not read to name the result.
        of_torch = f"-Wl,-L{torch_headers.TORCH / 'lib'},-lc10,-ltorch_cpu,-ltorch,-ltorch_python"
        given = [flag for flag in extension.ldflags if flag not in _PART_OF_TORCH]
        try:
            built = build_sources(sources, [*given, of_torch], shared=True)
        except ToolchainError as error:
            hint = _hint(extension) if isinstance(error, CompileError) else ""
            raise BuildError(f"Error building extension '{extension.name}': {error}{hint}") from None
    for listener in hip.device_code_listeners:
        for code in built.device_code:
            listener(code)
    return built.path


def _absent_headers(extension: Extension, text: str) -> Path | None:
    """A folder of empty headers, to be looked in last, by the names of those in `text` that come with ROCm's libraries.

    Sources include more than they use. What they do use is missing then, and `_hint` says from where.
    """
    folder = extension.folder / "absent"
    names = set(_ROCM_HEADER.findall(text))
    for name in names:
        keep_written(folder / name, "")
    return folder if names else None


def _hint(extension: Extension) -> str:
    """Which headers of ROCm's libraries the sources include that are nowhere to be found."""
    given = os.environ.get("CPATH", "").split(os.pathsep) + extension.include_paths
    given += [flag[2:] for flag in [*extension.cflags, *extension.device_flags] if flag.startswith("-I")]
    headers = find().compiler.headers
    given += [path for flag, path in zip(headers, headers[1:], strict=False) if flag == "-isystem"]
    included = {name for source in extension.sources for name in _ROCM_HEADER.findall(source.read_text())}
    absent = sorted(name for name in included if not any(Path(path, name).is_file() for path in given if path))
    if not absent or find().compiler.kind == "rocm":
        return ""
    return (
        f" (taken as empty: {', '.join(absent)}, of libraries that come with ROCm and are not emulated; "
        "real headers are found where CPATH says)"
    )


def _source(extension: Extension, original: Path) -> HipSource:
    """One source as it is compiled: after hipify, with the flags of its kind and the headers that it wants."""
    has_kernels = original.suffix in DEVICE_SUFFIXES
    text = hipify(original.read_text())
    path = extension.folder / f"{original.stem}.{original.suffix[1:]}.hip"
    runtime = f"#include <{RUNTIME}>\n" if has_kernels else ""
    keep_written(path, runtime + directive(1, _shown(extension, original)) + text)

    flags = [*torch_headers.DEFINES, f"-DTORCH_EXTENSION_NAME={extension.name}"]
    flags += [f"-I{folder}" for folder in extension.include_paths]
    if _QUOTED.search(text):
        flags += ["-iquote", str(original.parent)]
    flags += _compile_flags(extension.device_flags if has_kernels else extension.cflags)
    if not any(flag.startswith("-std=") for flag in flags):
        flags.append("-std=c++20")
    everything = _with_headers(text, [original.parent, *map(Path, extension.include_paths)], set())
    if absent := _absent_headers(extension, everything):
        flags += ["-idirafter", str(absent)]
    uses_torch = torch_headers.is_included_in(everything)
    if not uses_torch and _USES_PYTHON.search(everything):
        flags += torch_headers.python_flags()
    # The host's code has one way of optimisation, and so one set of precompiled headers. With torch's headers it is
    # none: it takes three times as long.
    host_flags = [flag for flag in flags if not _OPTIMISES.fullmatch(flag)]
    if uses_torch and not extension.optimised_host:
        host_flags.append("-O0")
    source = HipSource(
        path,
        extension.arch,
        tuple(flags),
        host_flags=tuple(host_flags),
        has_kernels=has_kernels,
        folder=str(extension.folder),
    )
    if not uses_torch:
        return source
    torch_headers.need_libstdcxx(find().compiler, f"{extension.name}: {_shown(extension, original)}")
    return torch_headers.with_torch(source, everything)


def _with_headers(text: str, folders: Sequence[Path], seen: set[Path]) -> str:
    """`text` with those headers in place that lie in folders of the user's."""

    def content(found: re.Match[str]) -> str:
        for folder in folders:
            path = folder / found[1]
            if path.is_file() and path not in seen:
                seen.add(path)
                return _with_headers(path.read_text(errors="replace"), [path.parent, *folders], seen)
        return found[0]

    return _INCLUDE.sub(content, text)


def _shown(extension: Extension, path: Path) -> str:
    """How messages name a source: what load_inline wrote by its bare name, which is the same wherever it was written;
    others from the current folder where they lie in there."""
    if str(path.parent) == extension.build_directory:
        return path.name
    if extension.copied and path.is_relative_to(extension.copied):
        return str(Path(*path.relative_to(extension.copied).parts[1:]))
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _words(flags: Any) -> list[str]:
    """One word each: torch hands its flags to a shell."""
    return [word for flag in flags or [] for word in shlex.split(str(flag))]


def _compile_flags(flags: Sequence[str]) -> list[str]:
    """Without what chooses the arch, or leaves files behind."""
    return _TARGET.sub("", _KEEPS_FILES.sub("", "\n".join(flags))).split()


def _check_targets(extension: Extension) -> None:
    """As with hipcc: --offload-arch, else PYTORCH_ROCM_ARCH, else this machine's GPU."""
    asked, told = _TARGET.findall("\n".join(extension.device_flags)), "--offload-arch"
    if not asked:
        asked, told = re.findall(r"[\w:+-]+", os.environ.get("PYTORCH_ROCM_ARCH", "")), "PYTORCH_ROCM_ARCH"
    targets = [target.partition(":")[0] for group in asked for target in group.split(",")]
    if targets and extension.arch not in targets and "native" not in targets:
        raise BuildError(
            f"Error building extension '{extension.name}': {told} names {', '.join(targets)}, "
            f"and the emulated GPU is {extension.arch}: its code could not be launched"
        )


def _import(name: str, library: Path, is_python_module: bool) -> Any:
    try:
        if not is_python_module:
            torch.ops.load_library(str(library))
            return str(library)
        spec = importlib.util.spec_from_file_location(name, library)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except (ImportError, OSError) as error:
        missing = re.search(r"undefined symbol: (\w+)", str(error))
        if missing and re.match(r"(__)?hip", missing[1]):
            raise NotEmulated(f"extension '{name}' calls {missing[1]}, which the emulated runtime lacks") from None
        raise
