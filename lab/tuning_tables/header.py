"""A tuning table that is C++: `constexpr TuningRow TUNING[]` of a HIP variant that has no Python of its own.

Rows are {m, n, k, column, ...}; the columns are the other members of struct TuningRow, with their values to choose from
in comments: `int split_k;  // tune: 1 2 4`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from forge.generate.pysource import GenerationError
from forge.generate.tuning import NewRow, Table
from forge.task.problem import Case
from lab.tuning_tables.modelled import ROW_VARIABLE

KEY = ("m", "n", "k")
_ROW = re.compile(r"^ *\{((?: *\d+,){3})([^{}\n]*)\},.*$", re.MULTILINE)
_COLUMN = re.compile(r"^ *(\w+) (\w+); *// *tune: *(.+?) *$", re.MULTILINE)
_LOOK_UP = re.compile(r"^inline TuningRow tuning\(int m, int n, int k\) \{$", re.MULTILINE)
_DEFAULT = re.compile(r"^constexpr TuningRow DEFAULT = \{0, 0, 0, (.*)\};", re.MULTILINE)


def path_of(path: str) -> str:
    return path.removesuffix(".py") + ".h"


def key_of(case: Case) -> str:
    return repr(tuple(case[name] for name in KEY))


def read_table(text: str, path: str) -> Table:
    space = {name: [_value(word) for word in words.split()] for _, name, words in _COLUMN.findall(text)}
    default = _DEFAULT.search(text)
    if not space or default is None or not _LOOK_UP.search(text):
        raise GenerationError(f"{path}: no columns marked '// tune: values', no DEFAULT, or no tuning(m, n, k)")
    rows = {
        tuple(int(word) for word in match[1].split(",")[:3]): dict(zip(space, _values(match[2])))
        for match in _ROW.finditer(text)
    }
    return Table(dict(zip(space, _values(default[1]))), rows, space)


def for_trials(text: str) -> str:
    """A submission whose look-up takes the row under trial from the environment, where there is one."""
    columns = [(kind, name) for kind, name, _ in _COLUMN.findall(text)]
    declared, values = "", []
    for kind, name in columns:
        declared += f" char {name}[32];"
        enum = re.search(rf"enum {kind} \{{([^}}]*)\}}", text)
        members = [one.strip() for one in enum[1].split(",")] if enum else []
        of_names = [f'!strcmp({name}, "{one}") ? {one} :' for one in members]
        values.append(" ".join([*of_names, f"{kind}(atoi({name}))"]))
    scan = f'sscanf(tried, "{"%31s " * len(columns)}", {", ".join(name for _, name in columns)})'
    look_up = (
        "#include <cstdio>\n#include <cstdlib>\n#include <cstring>\n"
        "inline TuningRow tuning(int m, int n, int k) {\n"
        f'    const char* tried = getenv("{ROW_VARIABLE}");{declared}\n'
        f"    if (tried && {scan} == {len(columns)}) return {{m, n, k, {', '.join(values)}}};"
    )
    return _LOOK_UP.sub(lambda _: look_up, text)


def with_rows(text: str, path: str, new: Sequence[NewRow]) -> str:
    """The header's text with those rows replaced."""
    by_key = {row.key: row for row in new}

    def replaced(match: re.Match[str]) -> str:
        row = by_key.get(tuple(int(word) for word in match[1].split(",")[:3]))
        if row is None:
            return match[0]
        return f"    {{{match[1]} {', '.join(str(value) for value in row.row.values())}}},  // {row.note}"

    return _ROW.sub(replaced, text)


def _values(text: str) -> list[Any]:
    return [_value(word) for word in text.split(",")]


def _value(word: str) -> Any:
    return int(word) if word.strip().isdecimal() else word.strip()
