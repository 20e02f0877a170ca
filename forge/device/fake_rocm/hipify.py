"""CUDA spellings to HIP's, line by line, with the tables of torch.utils.hipify: as a ROCm torch does it."""

import ast
import functools
import sys
from pathlib import Path
from types import FrameType

from torch.utils.hipify import hipify_python

RUNTIME = "hip/hip_runtime.h"


def hipify(text: str) -> str:
    """`text` with as many lines. Launches with <<<>>> stay: the compiler knows them."""
    mapping = hipify_python.PYTORCH_MAP
    text = hipify_python.RE_PYTORCH_PREPROCESSOR.sub(lambda found: str(mapping[found[0]]), f"\n{text}\n")[1:-1]
    return hipify_python.replace_math_functions(text)


def directive(line: int, file: str) -> str:
    """What makes the compiler count the next line as `line` of `file`."""
    escaped = file.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {line} "{escaped}"\n'


def with_places(sources: list[str], argument: str) -> list[str]:
    """Sources given as strings, each at its place in the Python file whose constant it is.

    A file goes by its bare name, so that what is compiled does not depend on the folder it is run in.
    """
    path = _caller()
    known = _constants(str(path)) if path else {}
    placed = []
    for number, source in enumerate(sources):
        line = known.get(source)
        where = directive(line, path.name) if path and line else directive(1, f"{argument}[{number}]")
        placed.append(where + source)
    return placed


def _caller() -> Path | None:
    """The file that the nearest frame outside of torch and of this package belongs to."""
    ours = (str(Path(__file__).parent), str(Path(hipify_python.__file__).parents[2]))
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(ours):
        frame = frame.f_back
    return Path(frame.f_code.co_filename) if frame is not None else None


@functools.lru_cache(maxsize=8)
def _constants(path: str) -> dict[str, int]:
    """Line of every string constant of a Python file that spans lines, by its value."""
    try:
        tree = ast.parse(Path(path).read_text())
    except (OSError, SyntaxError, ValueError):
        return {}
    return {
        node.value: node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value
    }
