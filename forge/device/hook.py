"""Prepares a Python process for an emulated GPU, or for HIP on an NVIDIA one, when it imports torch, and no earlier.

`site/sitecustomize.py` loads this file by its path into every process of such a run, so it may import
nothing but the standard library and must cost next to nothing.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

VARIABLE = "FORGE_DEVICE"  # names the emulated architecture, or CUDA, for a process and all it spawns
CALLS = "FORGE_CALLS"  # has a submission's calls told: forge/judge/called.py
STACKS = "FORGE_STACKS"  # the signal upon which a process says where its threads are, and goes on
CUDA = "cuda"
SITE = str(Path(__file__).with_name("site"))
ROOT = str(Path(__file__).resolve().parents[2])  # where the packages `forge` and `cdna` lie

Action = Callable[[ModuleType], None]


def environment(arch: str) -> dict[str, str]:
    """What makes a child process, and those that it spawns, prepare itself for `arch`."""
    path = [SITE, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(path)), VARIABLE: arch}


def emulating() -> bool:
    """Whether this process is one of an emulated GPU: then nothing of a driver's keeps it from forking."""
    return os.environ.get(VARIABLE, CUDA) != CUDA


class NotPrepared(ImportError):
    """This torch or triton cannot be prepared: is_device_fault of the devices knows it by its name."""


class AfterImport:
    """A finder on sys.meta_path that finds nothing itself, but runs an action after a module is imported."""

    def __init__(self, actions: dict[str, Action]) -> None:
        self.waiting = actions

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        action = self.waiting.get(name)
        if action is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        loader = spec.loader
        if loader is None or not hasattr(loader, "exec_module"):
            return spec
        original = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            collecting = gc.isenabled()
            gc.disable()  # importing makes no garbage, and looking for it takes a tenth of the time
            try:
                original(module)
            finally:
                if collecting:
                    gc.enable()
            if self.waiting.pop(name, None) is not None:
                action(module)

        # On this one instance: module.__loader__ stays the loader that it is.
        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install(arch: str) -> None:
    """Arrange that torch and triton are prepared for `arch` once imported; at once if they already are."""
    if any(type(finder).__name__ == AfterImport.__name__ for finder in sys.meta_path):
        return
    if STACKS in os.environ:
        faulthandler.register(int(os.environ[STACKS]), os.dup(2))  # the submission may silence its own
    actions: dict[str, Action] = {
        "torch.utils.cpp_extension": lambda _: _apply("forge.device.hip_on_cuda", "apply", arch, "torch")
    }
    if arch != CUDA:
        actions = _emulating(arch)
    finder = AfterImport(actions)
    sys.meta_path.insert(0, finder)
    for name in list(actions):
        if (module := sys.modules.get(name)) is not None:
            actions.pop(name)(module)


def _emulating(arch: str) -> dict[str, Action]:
    told: dict[str, Action] = {
        "reference": lambda _: _apply("forge.judge.called", "watch_reference", arch, "torch"),
        "submission": lambda _: _apply("forge.judge.called", "watch_submission", arch, "torch"),
    }
    return {
        **(told if CALLS in os.environ else {}),
        "torch": lambda _: _apply("forge.device.fake_rocm", "apply", arch, "torch"),
        "torch.utils.cpp_extension": lambda _: _apply("forge.device.fake_rocm.build", "apply", arch, "torch"),
        "triton": lambda _: _apply("forge.device.fake_rocm.launch", "apply", arch, "triton"),
    }


def _apply(module: str, function: str, arch: str, package: str) -> None:
    """Call module.function(arch), with ROOT importable for as long as that takes and not a moment longer: a
    submission must not be able to import this checkout."""
    sys.path.insert(0, ROOT)
    try:
        getattr(importlib.import_module(module), function)(arch)
    except Exception as error:
        version = getattr(sys.modules.get(package), "__version__", "?")
        what = "HIP on NVIDIA" if arch == CUDA else f"an emulated {arch}"
        raise NotPrepared(
            f"{package} {version} cannot be prepared for {what}: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path.remove(ROOT)
