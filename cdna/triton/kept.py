"""Compiled kernels that last, named by the IR that they were compiled of: for processes that read the cache and have
somebody else compile into it. What Triton makes of a kernel's Python each process makes for itself.
"""

import base64
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget, Language

from ..engine.build import cache_dir
from ..engine.cached_files import publish, whole

Stages = dict[str, Callable[[Any, dict], Any]]
# Asks for a kernel to be compiled into the cache: "" where it is there then. None: this process compiles for itself.
ask: Callable[[dict[str, Any]], str | None] | None = None
anywhere = ""  # a folder whose place says nothing of what is compiled there: its files go by their names in it
VARIABLES, OF_FOLDERS = ("TRITON_", "AMDGCN_", "MLIR_", "LLVM_"), ("_DIR", "_HOME")
KNOBS = ("amd", "compilation", "language")


def from_cache(stages: Stages, backend: Any, options: Any) -> None:
    """Has the stages take what the cache has, or gets once `ask` has been called; and compile where it does not."""
    own: Stages = dict(stages)
    made: dict[str, Any] = {}
    first = next(iter(stages))

    def begin(module: Any, metadata: dict) -> Any:
        text = str(module).replace(f"{anywhere}/", "") if anywhere else str(module)
        found = _kept(request := request_for(backend, options, first, text))
        if found is None and ask is not None and ask(request) == "":
            found = _kept(request)
        if found is not None:
            metadata.update(found["metadata"])
            made.update(found["stages"], hsaco=base64.b64decode(found["hsaco"]))
        return made[first] if first in made else own[first](module, metadata)

    def go_on(stage: str) -> Callable[[Any, dict], Any]:
        return lambda module, metadata: made[stage] if stage in made else own[stage](module, metadata)

    stages.update({stage: go_on(stage) for stage in own}, **{first: begin})


def request_for(backend: Any, options: Any, first: str, text: str) -> dict[str, Any]:
    knobs = getattr(triton, "knobs", None)
    told = {
        "options": vars(options),
        "knobs": {name: vars(getattr(knobs, name)) for name in KNOBS if hasattr(knobs, name)},
        "variables": {
            name: value
            for name, value in os.environ.items()
            if name.startswith(VARIABLES) and not name.endswith(OF_FOLDERS)
        },
    }
    plain = json.loads(json.dumps(told, default=str, sort_keys=True))
    return {"what": "kernel", "arch": backend.target.arch, "first": first, "text": text, **plain}


def _path(request: dict[str, Any]) -> Path:
    from triton.runtime import cache

    key = getattr(cache, "triton_key", lambda: triton.__version__)()
    told = json.dumps([request, key, triton.__version__], sort_keys=True)
    return cache_dir() / "kernels" / hashlib.sha256(told.encode()).hexdigest()[:40]


def _kept(request: dict[str, Any]) -> dict[str, Any] | None:
    path = _path(request)
    if path.exists() and whole(path):
        kept: dict[str, Any] = json.loads(path.read_text())
        return kept
    return None


def build_kernel(request: dict[str, Any], backend_of: Callable[[GPUTarget], Any]) -> str:
    """Compiles into the cache what the request says: "" then, or why not."""
    from triton._C.libtriton import ir

    backend = backend_of(GPUTarget("hip", request["arch"], 64))
    given = {name: _tuples(value) for name, value in request["options"].items() if name != "extern_libs"}
    options = backend.parse_options(given)
    language = Language.TRITON if request["first"] == "ttir" else Language.GLUON
    if request_for(backend, options, request["first"], request["text"]) != request:
        return "options that this process would not compile with"
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    with tempfile.NamedTemporaryFile("w", suffix=f".{request['first']}") as file:
        file.write(request["text"])
        file.flush()
        module = ir.parse_mlir_module(file.name, context)
    module.context = context
    metadata: dict[str, Any] = {"target": backend.target, **vars(options)}
    before = dict(metadata)
    stages: Stages = {}
    made: dict[str, Any] = {}
    backend.add_stages(stages, options, language)
    try:
        for stage, compiled in stages.items():
            module = compiled(module, metadata)
            made[stage] = module if isinstance(module, bytes) else str(module)
    except Exception as error:  # whoever asked compiles again, and says so
        return f"{type(error).__name__}: {error}"
    added = {name: value for name, value in metadata.items() if before.get(name, ...) != value}
    path = _path(request)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    hsaco = base64.b64encode(made.pop("hsaco")).decode()
    partial.write_text(json.dumps({"metadata": added, "stages": made, "hsaco": hsaco}))
    publish(partial, path)
    return ""


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
