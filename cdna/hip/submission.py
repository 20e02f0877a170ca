"""What HIP a Python file builds: its calls of load_inline and load, found by importing it without building anything.

`python -m cdna report file.py` runs this in a process of its own, because importing a file may do anything. Calls that
only happen in a function are not made: their sources are found as the file's own texts with a kernel in them.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CompileError, ToolchainError
from .compilers import INCLUDE_FOR_TORCH, ask, package_dir
from .results import stored_as
from .toolchain import find

IMPORT_LIMIT_S = 300
_KERNEL = re.compile(r"\b__global__\b")
_CUDA_HEADER = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<(?:cuda|cuda_runtime|cuda_runtime_api)\.h>.*$", re.MULTILINE)
# Of a build's flags, those that say for which GPU, or leave files behind.
_NOT_OURS = re.compile(r"--?(offload-arch|amdgpu-target)=.*|--?save-temps(=.*)?")
# Modules that a leaderboard puts beside the file.
_BESIDE = ("task", "utils", "reference")


@dataclass
class Found:
    """One HIP source of a Python file."""

    name: str  # of the extension, or of the text
    text: str
    flags: list[str]
    include_dirs: list[str]
    torch_headers: bool  # whether load_inline puts torch's headers before it
    built: bool = True  # else a text that something may build, or make another of


@dataclass
class Contents:
    """What a Python file holds for the device."""

    sources: list[Found]
    triton: list[str]  # names of its Triton kernels
    problem: str  # why its import ended early; "" if it did not


def contents(file: Path, arch: str) -> Contents:
    """Import `file` in a process of its own; ToolchainError if that does not end."""
    if package_dir("torch") is None:
        raise ToolchainError(f"{file}: torch is not installed, and a Python file that builds HIP imports it")
    with tempfile.NamedTemporaryFile("r", suffix=".json") as answer:
        command = [sys.executable, "-m", "cdna.hip.submission", str(file.absolute()), arch, answer.name]
        path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
        try:
            done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                  timeout=IMPORT_LIMIT_S, env={**os.environ, "PYTHONPATH": path})
        except subprocess.TimeoutExpired:
            raise ToolchainError(f"{file}: its import did not end within {IMPORT_LIMIT_S} s") from None
        said = answer.read()
        if not said:
            last = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
            raise ToolchainError(f"{file}: its import ended with exit code {done.returncode}: {last}")
        found = json.loads(said)
        return Contents([Found(**source) for source in found["sources"]], found["triton"], found["problem"])


def assembly_of_source(source: Found, arch: str) -> str:
    """AMDGCN assembly of one of a Python file's sources."""
    text = source.text
    if source.torch_headers:
        text = "#include <torch/types.h>\n" + text
    flags = [*source.flags]
    if re.search(r"<(torch|ATen|c10)/", text):
        flags += _torch_flags()
    # at a place of its content's own, so that the same source is not compiled again
    path = stored_as("source.hip", ("#include <hip/hip_runtime.h>\n" + _CUDA_HEADER.sub("", text)).encode())
    try:
        return find().device_asm(path, arch, [Path(p) for p in source.include_dirs], extra=flags)
    except CompileError as error:
        raise CompileError(f"{source.name}: {str(error).replace(str(path), source.name)}") from None


def _torch_flags() -> list[str]:
    torch = package_dir("torch")
    python = ask(sys.executable, "-c", "import sysconfig; print(sysconfig.get_paths()['include'])")[0].strip()
    folders = (INCLUDE_FOR_TORCH, f"{torch}/include", f"{torch}/include/torch/csrc/api/include", python)
    return ["-D__HIP_PLATFORM_AMD__=1", "-DUSE_ROCM=1", *(word for folder in folders for word in ("-isystem", str(folder)))]


# ------------------------------------------------------------ in the process that imports the file

class Recorder:
    """Stands for load_inline and load: notes what they are given, and gives a module that answers to everything."""

    def __init__(self, lines: dict[str, int], file: str) -> None:
        self.found: list[Found] = []
        self.lines, self.file = lines, file

    def replace_in(self, cpp_extension: Any) -> None:
        for name in ("load_inline", "load"):
            signature = inspect.signature(getattr(cpp_extension, name))

            def record(*args: Any, _signature: inspect.Signature = signature, **kwargs: Any) -> Any:
                self.note(_signature.bind(*args, **kwargs).arguments)
                return _Anything("extension")

            record.__signature__ = signature  # type: ignore[attr-defined]
            setattr(cpp_extension, name, record)

    def note(self, given: dict[str, Any]) -> None:
        words = [word for flag in given.get("extra_cuda_cflags") or [] for word in shlex.split(str(flag))]
        flags = [word for word in words if not _NOT_OURS.fullmatch(word)]
        if not any(flag.startswith("-std=") for flag in flags):
            flags.append("-std=c++20")
        includes = [str(path) for path in given.get("extra_include_paths") or []]
        inline = given.get("cuda_sources") or []
        for text in [inline] if isinstance(inline, str) else inline:
            bare = bool(given.get("no_implicit_headers"))
            self.found.append(Found(given["name"], self.placed(text), flags, includes, not bare))
        listed = given.get("sources") or []
        for path in map(Path, [listed] if isinstance(listed, str) else listed):
            if path.suffix in (".hip", ".cu"):
                text = f'#line 1 "{path}"\n{path.read_text(errors="replace")}'
                self.found.append(Found(given["name"], text, flags, [*includes, str(path.parent.absolute())], False))

    def placed(self, text: str) -> str:
        """The text, named as what it is in the file."""
        return f'#line {self.lines.get(text, 1)} "{self.file}"\n{text}'

    def note_texts(self, texts: dict[str, str]) -> None:
        """The file's own texts with kernels in them that nothing has built yet."""
        known = "\0".join(source.text for source in self.found)
        for name, text in texts.items():
            if _KERNEL.search(text) and text not in known:
                self.found.append(Found(name, self.placed(text), ["-std=c++20"], [], "torch::" in text, built=False))


class _Anything(types.ModuleType):
    """A module of which every attribute exists, can be called, and subscribed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _Anything("result")

    def __getitem__(self, key: Any) -> Any:
        return _Anything("item")


def _texts_of(tree: ast.Module) -> dict[str, tuple[str, int]]:
    """Top-level names that are given a text, with the text and its line."""
    return {
        target.id: (node.value.value, node.value.lineno)
        for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }


def main(file: str, arch: str, answer: str) -> None:
    path = Path(file)
    problem = ""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = {name: text for name, (text, _) in _texts_of(tree).items()}
    lines = {node.value: node.lineno for node in ast.walk(tree)
             if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value}
    recorder = Recorder(lines, path.name)
    module = types.ModuleType("submission")
    sys.path.insert(0, str(path.parent))
    try:
        import torch
        from torch.utils import cpp_extension

        import cdna

        recorder.replace_in(cpp_extension)
        torch.version.hip = "7.1"
        if package_dir("triton") is not None:
            cdna.install(arch)
        for name in _BESIDE:
            if importlib.util.find_spec(name) is None:
                sys.modules[name] = _Anything(name)
        spec = importlib.util.spec_from_file_location("submission", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["submission"] = module
        spec.loader.exec_module(module)
    except BaseException as error:  # whatever a file does when imported, SystemExit included
        said = str(error).strip().splitlines() or [""]
        problem = f"{type(error).__name__}: {said[0]}"
    texts.update({name: value for name, value in vars(module).items() if type(value) is str})
    recorder.note_texts(texts)
    triton = [name for name, value in vars(module).items() if type(value).__name__ in ("JITFunction", "Autotuner")]
    found = {"sources": [dataclasses.asdict(source) for source in recorder.found], "triton": triton, "problem": problem}
    Path(answer).write_text(json.dumps(found))
    os._exit(0)  # threads that the file started keep nobody waiting


if __name__ == "__main__":
    main(*sys.argv[1:])
