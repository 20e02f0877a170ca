"""The engine's rooms: each uses those before it, by `#include` and by where functions are declared and defined."""

from __future__ import annotations

import graphlib
import re
from pathlib import Path

import pytest

CDNA = Path(__file__).resolve().parents[2] / "cdna"
ROOMS = ["isa", "program", "memory", "time", "checks", "run", "runtime"]  # the last is HIP's, which no other may use
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
# At the beginning of a line: calls are indented. Not what a file keeps to itself.
PROTOTYPE = re.compile(
    r'^(?!static\b|return\b|typedef\b|using\b|template\b)(?:extern (?:"C" )?)?'
    r"\w[\w:<>, ]*?[ *&]+(\w+)\([^{};]*\)(?: const)?;",
    re.MULTILINE,
)
VARIABLE = re.compile(r'^ *extern (?!"C")[^=({;\n]*?(\w+);', re.MULTILINE)
DEFINITION = re.compile(r'^(?!static\b)(?:extern "C" )?\w[\w:<>, ]*?[ *&]+(\w+)\([^{};]*\) \{', re.MULTILINE)
OF_NOBODY = {"cdna_no_images", "environ"}  # textures, which end in an error; the C library's


def sources(cdna: Path) -> dict[str, tuple[str, str]]:
    """Of each file its room and its text, by the path that it is included by."""
    found = {}
    for folder in (cdna / "engine", cdna / "hip" / "runtime"):
        root = cdna / "engine" if folder.name == "engine" else cdna / "hip"
        for file in sorted([*folder.rglob("*.cpp"), *folder.rglob("*.h")]):
            path = file.relative_to(root).as_posix()
            found[path] = path.split("/")[0], re.sub(r"//[^\n]*", "", file.read_text(encoding="utf-8"))
    return found


def included(path: str, name: str, files: dict[str, tuple[str, str]]) -> str | None:
    """None for what is generated."""
    beside = f"{path.rpartition('/')[0]}/{name}"
    return beside if beside in files else name if name in files else None


def faults(cdna: Path) -> list[str]:
    files = sources(cdna)
    uses = {
        path: {to for name in INCLUDE.findall(text) if (to := included(path, name, files))}
        for path, (_, text) in files.items()
    }
    found = [
        f"{path} uses {to}, of a room above"
        for path, targets in uses.items()
        for to in sorted(targets)
        if ROOMS.index(files[to][0]) > ROOMS.index(files[path][0])
    ]
    declared = {
        name: room for path, (room, text) in files.items() if path.endswith(".h") for name in PROTOTYPE.findall(text)
    }
    for path, (room, text) in files.items():
        if path.endswith(".h"):
            continue
        for name in [*PROTOTYPE.findall(text), *VARIABLE.findall(text)]:
            if name not in OF_NOBODY:
                found.append(f"{path} declares {name} by hand")
        for name in DEFINITION.findall(text):
            if declared.get(name, room) != room:
                found.append(f"{path} defines {name}, which a header of {declared[name]} declares")
    try:
        graphlib.TopologicalSorter(uses).prepare()
    except graphlib.CycleError as error:
        found.append(f"a circle: {' '.join(error.args[1])}")
    return found


def test_each_room_uses_those_before_it() -> None:
    assert faults(CDNA) == []
    files = sources(CDNA)
    assert {room for room, _ in files.values()} == set(ROOMS)
    declared = [name for path, (_, text) in files.items() if path.endswith(".h") for name in PROTOTYPE.findall(text)]
    defined = [name for _, text in files.values() for name in DEFINITION.findall(text)]
    assert len(declared) > 300 and len(set(declared) & set(defined)) > 250  # what the rule looks at


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        ("engine/isa/wave.cpp", '#include "run/seeded_order.h"\n', ["isa/wave.cpp uses run/seeded_order.h, of a room above"]),
        ("engine/run/seeded_order.h", '#include "isa/core.h"\n', []),
        ("engine/isa/core.h", '#include "isa/core.h"\n', ["a circle: isa/core.h isa/core.h"]),
        ("hip/runtime/memory.cpp", '#include "memory/registry.h"\n', []),
        (
            "engine/run/a.cpp",
            'extern "C" void cdna_forget(u64 base,\n    u64 bytes);\n',
            ["run/a.cpp declares cdna_forget by hand"],
        ),
        ("engine/run/a.cpp", 'extern "C" {\nu64 cdna_forget(u64);\n}\n', ["run/a.cpp declares cdna_forget by hand"]),
        ("engine/run/a.cpp", "void f() {\n  extern u32 elsewhere;\n}\n", ["run/a.cpp declares elsewhere by hand"]),
        ("engine/run/a.cpp", "static u32 own(u32 x);\n// u32 told(u32);\n", []),
        (
            "hip/runtime/a.cpp",
            "void cdna_memory_is_lent() {}\n",
            ["runtime/a.cpp defines cdna_memory_is_lent, which a header of memory declares"],
        ),
    ],
)
def test_the_rule_itself(tmp_path: Path, path: str, text: str, says: list[str]) -> None:
    for name, kept in {
        "engine/run/seeded_order.h": "",
        "engine/isa/core.h": "",
        "engine/memory/registry.h": "void cdna_memory_is_lent();\n",
        path: text,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(kept)
    assert faults(tmp_path) == says
