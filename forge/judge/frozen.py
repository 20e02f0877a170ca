"""A process that judges imports nothing once submissions run: no file that one of them writes can become its code.

What torch and a problem's files import only within functions, as where a check describes a wrong element, is imported
before. No torch.
"""

import ast
import contextlib
import gc
import importlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

# With the first argument that torch looks at (500 modules: sympy), and the first tensor that is printed.
WITHIN_TORCH = ("torch.fx.experimental.symbolic_shapes", "torch._subclasses.schema_check_mode")
# What a word in the problem's files has imported once it is called.
FOR_WORDS = {
    "use_deterministic": ("torch._inductor.config",),
    "assert_close": ("torch.distributed.tensor",),
    "torch.compile": ("torch._dynamo", "torch._inductor"),
}


class Refusing:
    """In place of all of Python's finders."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> NoReturn:
        text = f"{name} cannot be imported any more: reference.py has to import it at its top, not when it is called"
        raise ModuleNotFoundError(text, name=name)


def import_ahead(names: Iterable[str]) -> None:
    for name in names:
        with contextlib.suppress(Exception):  # who needs it says so
            importlib.import_module(name)


def freeze(folder: str, ahead: bool = True) -> None:
    """To be called when all is imported. folder: of the problem's files; ahead: import what they will need."""
    gc.disable()  # importing makes no garbage, and looking for it takes a fifth of the time
    for source in (file.read_text() for file in Path(folder).rglob("*.py") if ahead):
        import_ahead(imports_in(source))
        import_ahead([name for word, names in FOR_WORDS.items() if word in source for name in names])
    if ahead:
        import_ahead(WITHIN_TORCH)
    gc.enable()
    sys.path.clear()
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()
    sys.meta_path[:] = [Refusing()]


def imports_in(source: str) -> Iterator[str]:
    """The modules that a file names to import, at any depth."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
