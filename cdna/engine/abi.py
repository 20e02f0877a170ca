"""What the engine and Python share, read from the engine's headers: its structures, enumerations and functions.

A header is the only place where they are written. The engine tells how its compiler lays the structures out
(run/abi_layout.cpp), and Python compares that with its own when it loads the engine.
"""

import contextlib
import ctypes
import functools
import operator
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import CdnaError
from ..isa import UNITS

HEADERS = Path(__file__).parent
# The structures that Python sees into: a pointer to another is an address.
SHARED = (
    "Operand Inst KernelArgument KernelInfo Launch Touch Finding Executed InstructionCounters Longest MemoryTraffic "
    "LaunchTime CounterTotals Left Change Span LoggedLaunch LoggedFinding WatchedLaunch WatchedWave Beat "
    "WrittenBytes"
).split()
_NUMBERS: dict[str, Any] = {
    "bool": ctypes.c_bool,
    "char": ctypes.c_char,
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "i32": ctypes.c_int32,
    "int": ctypes.c_int,
    "double": ctypes.c_double,
}
_COMMENT = re.compile(r"//[^\n]*")
_STRUCT = re.compile(r"^struct (\w+) \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_ENUM = re.compile(r"^enum (\w+)? ?(?:: (\w+) )?\{(.*?)\};", re.MULTILINE | re.DOTALL)
_CONSTANTS = re.compile(r"^constexpr u\d+ (.*?);", re.MULTILINE | re.DOTALL)
_CALLBACK = re.compile(r"^typedef (.+?) ?\(\*(\w+)\)\((.*?)\);", re.MULTILINE)
_FUNCTION = re.compile(r"^(?:extern \"C\" )?([\w ]+?[ *]+)(cdna_\w+)\((.*?)\);", re.MULTILINE | re.DOTALL)
_WORDS_BEFORE = re.compile(r"\b(?:const|volatile|struct) ")
_DECLARATOR = re.compile(r"(\**) ?(\w+)((?:\[\w+\])*)")


@functools.cache
def _text() -> str:
    """All headers, without comments."""
    try:
        return "\n".join(_COMMENT.sub("", file.read_text()) for file in sorted(HEADERS.rglob("*.h")))
    except OSError as error:
        raise CdnaError(f"{HEADERS}: {error.strerror}: the installation is incomplete") from None


@functools.cache
def _structs() -> dict[str, str]:
    return dict(_STRUCT.findall(_text()))


@functools.cache
def _names() -> tuple[dict[str, dict[str, int]], dict[str, Any], dict[str, int]]:
    """Of each enumeration its values by name, and its type; all values that headers name, constants too."""
    values: dict[str, dict[str, int]] = {}
    types: dict[str, Any] = {}
    known = {"N_UNITS": len(UNITS)}  # which a generated header has
    for name, kind, body in _ENUM.findall(_text()):
        following, of_name = 0, values.setdefault(name, {})
        for member in filter(None, map(str.strip, body.split(","))):
            word, _, value = member.partition(" = ")
            of_name[word] = known[word] = _number(value, known) if value else following
            following = known[word] + 1
        types[name] = _NUMBERS[kind or "u32"]
    for line in _CONSTANTS.findall(_text()):
        for name, value in re.findall(r"(\w+) = ([^,]+)", line):
            with contextlib.suppress(KeyError):  # of what C++ alone knows
                known[name] = _number(value, known)
    return values, types, known


def _number(text: str, known: Mapping[str, int]) -> int:
    """Of literals and names, +, - and <<. KeyError for names that are not known."""
    text = text.strip()
    if text in ("~0u", "-1"):
        return 0xFFFFFFFF
    if text.startswith("(") and text.endswith(")"):
        return _number(text[1:-1], known)
    for sign, of in (("<<", operator.lshift), ("+", operator.add), ("-", operator.sub)):
        left, found, right = text.partition(f" {sign} ")
        if found:
            return int(of(_number(left, known), _number(right, known)))
    literal = re.fullmatch(r"(0x[0-9a-fA-F]+|\d+)(?:u|ull)?", text)
    return int(literal[1], 0) if literal else known[text]


def constant(name: str) -> int:
    """`constexpr u32 NAME = ...`, or a member of an enumeration."""
    return _names()[2][name]


def enumeration(name: str) -> dict[str, int]:
    """`enum NAME`: its members' values, in order."""
    return _names()[0][name]


def _declared(kind: str, declarators: str) -> Iterator[tuple[str, Any]]:
    for declarator in declarators.split(","):
        match = _DECLARATOR.fullmatch(declarator.strip())
        if match is None:
            raise CdnaError(f"engine headers: cannot read {kind} {declarators}")
        stars, name, dimensions = match.groups()
        what = _type(kind, len(stars))
        for size in reversed(re.findall(r"\w+", dimensions)):
            what = what * (int(size) if size.isdecimal() else constant(size))
        yield name, what


def _type(kind: str, stars: int) -> Any:
    """Of a field. Text is what `char*` points to; bytes and what Python does not see into are addresses."""
    if kind in SHARED:
        seen: Any = structure(kind) if not stars or kind not in _open else None
    else:
        seen = _NUMBERS.get(kind) or _names()[1].get(kind)
    if stars == 0:
        return seen or ctypes.c_void_p  # a function's address
    if kind == "char":
        return ctypes.c_char_p if stars == 1 else ctypes.POINTER(ctypes.c_char_p)
    return ctypes.c_void_p if seen is None or kind == "u8" or stars > 1 else ctypes.POINTER(seen)


_open: list[str] = []  # structures that are being made: a pointer to one of these is an address


@functools.cache
def structure(name: str) -> Any:
    """`struct NAME` as a ctypes.Structure."""
    _open.append(name)
    fields: list[tuple[str, Any]] = []
    for line in filter(None, map(str.strip, _structs()[name].split(";"))):
        kind, _, declarators = " ".join(_WORDS_BEFORE.sub("", line).split()).partition(" ")
        stars = len(kind) - len(kind.rstrip("*"))
        fields += _declared(kind.rstrip("*"), "*" * stars + declarators)
    _open.pop()
    return type(name, (ctypes.Structure,), {"_fields_": fields, "__doc__": f"struct {name} of the engine."})


def record(name: str) -> struct.Struct:
    """`struct NAME` of numbers, structures and arrays of them: what packs one from its numbers, one after the other."""
    made = struct.Struct("@" + _format(structure(name)) + "0Q")
    assert made.size == ctypes.sizeof(structure(name)), name
    return made


def _format(kind: Any) -> str:
    if issubclass(kind, ctypes.Structure):
        return "".join(_format(field[1]) for field in kind._fields_)
    if issubclass(kind, ctypes.Array):
        return _format(kind._type_) * kind._length_
    return "Q" if kind is ctypes.c_void_p else str(kind._type_)


@functools.cache
def callback(name: str) -> Any:
    """`typedef ... (*NAME)(...)` as a ctypes function type."""
    for result, found, parameters in _CALLBACK.findall(_text()):
        if found == name:
            return ctypes.CFUNCTYPE(_result(result), *map(_result, parameters.split(", ")))
    raise CdnaError(f"engine headers: no function type {name}")


def _split(text: str) -> tuple[str, int]:
    """A parameter's type, without its name, and how often it is pointed to."""
    match = re.fullmatch(r"(\w+) ?(\**)&? ?(\w+)?", _WORDS_BEFORE.sub("", text.strip()))
    if match is None:
        raise CdnaError(f"engine headers: cannot read the parameter {text}")
    return match[1], len(match[2])


def _parameter(text: str) -> Any:
    """Text is bytes; a pointer to anything else takes an address, a reference, an array. Callbacks get structures."""
    kind, stars = _split(text)
    if stars:
        return ctypes.c_char_p if kind == "char" and stars == 1 else ctypes.c_void_p
    return _NUMBERS.get(kind) or _names()[1].get(kind) or ctypes.c_void_p


def _result(text: str) -> Any:
    kind, stars = _split(text)
    if kind == "void" and not stars:
        return None
    if stars and kind != "char" and (kind in SHARED or kind in _NUMBERS):
        return ctypes.POINTER(structure(kind) if kind in SHARED else _NUMBERS[kind])
    return _parameter(text)


def declare(lib: ctypes.CDLL) -> None:
    """Gives the library's functions their types; CdnaError where its structures lie otherwise than Python's."""
    for result, name, parameters in _FUNCTION.findall(_text()):
        function = getattr(lib, name, None)
        if function is not None:
            function.restype = _result(result.strip())
            function.argtypes = [_parameter(p) for p in parameters.split(",")] if parameters not in ("", "void") else []
    told = list((ctypes.c_uint32 * len(layout())).in_dll(lib, "cdna_layout"))
    if told != [number for _, number in layout()]:
        raise CdnaError("the engine and Python lay structures out differently: their files are of different versions")


@functools.cache
def layout() -> list[tuple[str, int]]:
    """(C++ expression, its value here) for the place of each shared field and the size of each shared structure."""
    rows = []
    for name in SHARED:
        kind = structure(name)
        rows += [(f"offsetof({name}, {field[0]})", getattr(kind, field[0]).offset) for field in kind._fields_]
        rows.append((f"sizeof({name})", ctypes.sizeof(kind)))
    return rows


def layout_rows() -> str:
    """The initialisers of the engine's own table."""
    return "".join(f"{expression},\n" for expression, _ in layout())
