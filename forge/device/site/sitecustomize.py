"""Found through PYTHONPATH at the start of every Python process of a prepared run: installs the import hook,
then hands over to the sitecustomize that this one hides, if there is one."""

import importlib.machinery
import importlib.util
import os
import sys


def _install_hook() -> None:
    arch = os.environ.get("FORGE_DEVICE")
    if not arch:
        return
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(os.path.dirname(here), "hook.py")
    spec = importlib.util.spec_from_file_location("_forge_device_hook", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not readable")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    hook.install(arch)


def _run_hidden_sitecustomize() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    elsewhere = [path for path in sys.path if os.path.abspath(path or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


try:
    _install_hook()
except Exception as error:  # a process that never touches torch must not be disturbed
    print(f"forge: this process is not prepared for its GPU: {type(error).__name__}: {error}", file=sys.stderr)
_run_hidden_sitecustomize()
