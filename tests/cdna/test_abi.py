"""What the engine and Python share is written once, in the engine's headers."""

import ctypes

import pytest

from cdna.engine import abi
from cdna.engine.library import engine
from cdna.errors import CdnaError


def test_python_sees_what_the_engines_compiler_has_laid_out() -> None:
    told = (ctypes.c_uint32 * len(abi.layout())).in_dll(engine().lib, "cdna_layout")
    assert [(name, value) for (name, _), value in zip(abi.layout(), told)] == abi.layout()
    assert len(abi.layout()) > 150 and ("sizeof(LaunchTime)", 40) in abi.layout()


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
