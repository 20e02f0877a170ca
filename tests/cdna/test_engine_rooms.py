"""The engine's rooms: each uses those before it, by `#include` and by where functions are declared and defined."""

import graphlib
import re
from pathlib import Path

import pytest

CDNA = Path(__file__).resolve().parents[2] / "cdna"
ROOMS = ["isa", "program", "memory", "time", "checks", "run", "runtime"]  # the last is HIP's, which no other may use
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
# At the beginning of a line: calls are indented. Not what a file keeps to itself.
SIGNATURE = r'^(?!(?:static|return|typedef|template)\b)(?:extern "C" )?\w[\w:<>, ]*?[ *&]+(\w+)\([^{};]*\)(?: const)?'
PROTOTYPE, DEFINITION = (re.compile(SIGNATURE + end, re.MULTILINE) for end in (";", r" \{"))
VARIABLE = re.compile(r'^ *extern (?!"C")[^=({;\n]*?(\w+);', re.MULTILINE)
BODY = re.compile(r"\)(?: const)? \{\n((?:(?!\}).*\n)+)\}", re.MULTILINE)
OF_NOBODY = {"cdna_no_images", "environ"}  # textures, which end in an error; the C library's


def sources(cdna: Path) -> dict[str, str]:
    """The text of each file, by the path that it is included by: it begins with the room."""
    return {
        file.relative_to(root).as_posix(): re.sub(r"//[^\n]*", "", file.read_text(encoding="utf-8"))
        for root, folder in ((cdna / "engine", "."), (cdna / "hip", "runtime"))
        for file in sorted((root / folder).rglob("*.[ch]*"))
        if file.suffix in (".cpp", ".h")
    }


def faults(cdna: Path) -> list[str]:
    files = sources(cdna)
    room = {path: path.split("/")[0] for path in files}
    found, uses = [], {}
    for path, text in files.items():
        # Beside the file, or from the engine's folder; others are generated.
        named = [(f"{path.rpartition('/')[0]}/{name}", name) for name in INCLUDE.findall(text)]
        uses[path] = {near if near in files else name for near, name in named if near in files or name in files}
        above = [to for to in sorted(uses[path]) if ROOMS.index(room[to]) > ROOMS.index(room[path])]
        found += [f"{path} uses {to}, of a room above" for to in above]
    declared = {name: room[path] for path in files if path.endswith(".h") for name in PROTOTYPE.findall(files[path])}
    for path in (path for path in files if path.endswith(".cpp")):
        by_hand = [*PROTOTYPE.findall(files[path]), *VARIABLE.findall(files[path])]
        found += [f"{path} declares {name} by hand" for name in by_hand if name not in OF_NOBODY]
        found += [
            f"{path} defines {name}, which a header of {declared[name]} declares"
            for name in DEFINITION.findall(files[path])
            if declared.get(name, room[path]) != room[path]
        ]
    found += [f"{path} has {n} lines" for path, text in files.items() if (n := text.count("\n")) > 600]
    bodies = [(path, body.count("\n")) for path, text in files.items() for body in BODY.findall(text)]
    found += [f"{path} has a function of {n} lines" for path, n in bodies if n > 98]
    try:
        graphlib.TopologicalSorter(uses).prepare()
    except graphlib.CycleError as error:
        found.append(f"a circle: {' '.join(error.args[1])}")
    return found


def test_each_room_uses_those_before_it() -> None:
    files = sources(CDNA)
    assert faults(CDNA) == [] and {path.split("/")[0] for path in files} == set(ROOMS)
    declared = {name for path in files if path.endswith(".h") for name in PROTOTYPE.findall(files[path])}
    assert len(declared & {name for text in files.values() for name in DEFINITION.findall(text)}) > 250


FORGET, DECLARES = "void cdna_forget(u64 base,\n    u64 bytes);\n", ["run/a.cpp declares cdna_forget by hand"]
LONG = ["isa/a.cpp has 601 lines", "isa/a.cpp has a function of 599 lines"]
LENT = ["runtime/a.cpp defines cdna_memory_is_lent, which a header of memory declares"]


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        ("engine/isa/a.cpp", '#include "run/seeded_order.h"\n', ["isa/a.cpp uses run/seeded_order.h, of a room above"]),
        ("engine/isa/a.cpp", "int f() {\n" + 599 * "  g();\n" + "}\n", LONG),
        ("engine/isa/core.h", '#include "isa/core.h"\n', ["a circle: isa/core.h isa/core.h"]),
        ("hip/runtime/a.cpp", '#include "memory/registry.h"\n', []),
        ("engine/run/a.cpp", f'extern "C" {FORGET}', DECLARES),
        ("engine/run/a.cpp", f'extern "C" {{\n{FORGET}}}\n', DECLARES),
        ("engine/run/a.cpp", "void f() {\n  extern u32 elsewhere;\n}\n", ["run/a.cpp declares elsewhere by hand"]),
        ("engine/run/a.cpp", "static u32 own(u32 x);\n// u32 told(u32);\n", []),
        ("hip/runtime/a.cpp", "void cdna_memory_is_lent() {}\n", LENT),
    ],
)
def test_the_rule_itself(tmp_path: Path, path: str, text: str, says: list[str]) -> None:
    others = {"run/seeded_order.h": "", "isa/core.h": "", "memory/registry.h": "void cdna_memory_is_lent();\n"}
    for name, kept in ({f"engine/{name}": of for name, of in others.items()} | {path: text}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(kept)
    assert faults(tmp_path) == says
