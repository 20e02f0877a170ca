"""What the engine and Python share is written once, in the engine's headers."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

from cdna.engine import abi
from cdna.engine.library import engine
from cdna.errors import CdnaError

CDNA = Path(abi.__file__).parents[1]
SOURCES = [*(CDNA / "engine").rglob("*.cpp"), *(CDNA / "hip/runtime").rglob("*.cpp")]
# At the beginning of a line: calls are indented.
DECLARED = re.compile(r"^(?:extern \"C\" )?\w[\w ]*?[ *]+(cdna_\w+)\([^{}]*?\);", re.MULTILINE)


def test_python_sees_what_the_engines_compiler_has_laid_out() -> None:
    told = (ctypes.c_uint32 * len(abi.layout())).in_dll(engine().lib, "cdna_layout")
    assert [(name, value) for (name, _), value in zip(abi.layout(), told)] == abi.layout()
    assert len(abi.layout()) > 150 and ("sizeof(LaunchTime)", 32) in abi.layout()


def test_an_engine_of_another_layout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = [(name, value + 8 * (name == "offsetof(Launch, status)")) for name, value in abi.layout()]
    monkeypatch.setattr(abi, "layout", lambda: moved)
    with pytest.raises(CdnaError, match="lay structures out differently"):
        abi.declare(ctypes.CDLL(engine().lib._name))


def test_every_shared_function_has_its_types() -> None:
    for _, name, parameters in abi._FUNCTION.findall(abi._text()):
        function = getattr(engine().lib, name)
        count = 0 if parameters in ("", "void") else parameters.count(",") + 1
        assert function.argtypes is not None and len(function.argtypes) == count, name


def declared_in(source: str) -> list[str]:
    return DECLARED.findall(re.sub(r"//[^\n]*", "", source))


def test_no_function_of_the_engine_is_declared_outside_its_header() -> None:
    found = {source.name: names for source in SOURCES if (names := declared_in(source.read_text()))}
    assert found == {"image.cpp": ["cdna_no_images"]}  # textures, which end in an error
    assert declared_in('extern "C" {\nvoid cdna_memory_forget(u64 base,\n u64 bytes);  // elsewhere\n}')
