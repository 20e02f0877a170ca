"""What can be tuned in a submission's file, and the file with a row of it set.

Three kinds, each found by reading, none by running: a TUNING table of literals, the configurations of a
@triton.autotune, and #defines in HIP that say what they may be: `#define BLOCK_K 64  // tune: 32 64 128`.
"""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from forge.tune.search import Row

DEFINE = re.compile(r"^([ \t]*#define[ \t]+(\w+)[ \t]+)(\S+)([ \t]*//[ \t]*tune:[ \t]*(.+?)[ \t]*)$", re.MULTILINE)
KEYS_FILE = "@KEYS_FILE@"  # in a trial's text: where it notes the keys that TUNING was asked for


class SpaceError(Exception):
    """Nothing in a file can be tuned, or not as it is written. One line."""


@dataclass(frozen=True)
class FileSpace:
    """The columns of a file's rows, the row that it has now, and the file with another."""

    what: str  # for people
    columns: dict[str, list[Any]]
    start: Row
    by_case: bool  # each case may have its own row; else one row serves all
    with_row: Callable[[Row], str]  # the file, for a trial
    text: str
    without_rows: str  # the file, whichever row it has
    shortens: bool = False  # a row that is as fast is worth writing: nothing is left to try on the leaderboard


def space_of(text: str, path: str, arch: str) -> FileSpace:
    """The first kind that the file has: defines, then an autotuner's configurations, then a table."""
    try:
        tree = ast.parse(text, path)
    except SyntaxError as error:
        raise SpaceError(f"{path}:{error.lineno}: not valid Python: {error.msg}") from None
    for find in (_defines, _configs, _table):
        found = find(text, tree, path, arch)
        if found is not None:
            return found
    raise SpaceError(
        f"{path}: nothing to tune: no '#define NAME value  // tune: values', no @triton.autotune with a list of "
        "configs, and no TUNING table"
    )


# ---------------------------------------------------------------- defines


def _defines(text: str, tree: ast.Module, path: str, arch: str) -> FileSpace | None:
    columns: dict[str, list[Any]] = {}
    start: Row = {}
    for match in DEFINE.finditer(text):
        name, value, choices = match[2], match[3], match[5].split()
        line = text.count("\n", 0, match.start()) + 1
        if name in columns:
            raise SpaceError(f"{path}:{line}: a second '#define {name}' to tune")
        columns[name] = choices if value in choices else [value, *choices]
        start[name] = value
    if not columns:
        return None

    def with_row(row: Row) -> str:
        return DEFINE.sub(lambda match: f"{match[1]}{row[match[2]]}{match[4]}", text)

    return FileSpace(
        "#defines: " + ", ".join(columns), columns, start, False, with_row, text, DEFINE.sub(r"\1\4", text)
    )


# ---------------------------------------------------------------- autotuners


def _configs(text: str, tree: ast.Module, path: str, arch: str) -> FileSpace | None:
    columns: dict[str, list[Any]] = {}
    lists: dict[str, ast.List] = {}
    assigned = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            if not isinstance(decorator, ast.Call) or not ast.unparse(decorator.func).endswith("autotune"):
                continue
            given = [word.value for word in decorator.keywords if word.arg == "configs"] or decorator.args[:1]
            value = given[0] if given else None
            value = assigned.get(value.id) if isinstance(value, ast.Name) else value
            if not isinstance(value, ast.List):
                raise SpaceError(
                    f"{path}:{decorator.lineno}: the configs of {node.name}'s autotune are computed: write them as a "
                    "list of triton.Config(...)"
                )
            columns[node.name] = [ast.unparse(config) for config in value.elts]
            lists[node.name] = value
    if not columns:
        return None

    def with_row(row: Row) -> str:
        changed = text
        places = {(value.lineno, value.col_offset): (value, row[name]) for name, value in lists.items()}
        for _, (value, config) in sorted(places.items(), reverse=True):  # from the end: places before stay
            segment = ast.get_source_segment(text, value) or ""
            at = _offset(text, value)
            changed = changed[:at] + f"[{config}]" + changed[at + len(segment) :]
        return changed

    start = {name: configs[0] for name, configs in columns.items()}
    shortens = any(len(configs) > 1 for configs in columns.values())
    without_rows = with_row(dict.fromkeys(lists, ""))
    what = "@triton.autotune of " + ", ".join(columns)
    return FileSpace(what, columns, start, False, with_row, text, without_rows, shortens)


def _offset(text: str, node: ast.expr) -> int:
    """Where a node begins, in characters; ast counts columns in bytes."""
    lines = text.split("\n")[: node.lineno]
    before = lines[-1].encode()[: node.col_offset].decode()
    return sum(len(line) + 1 for line in lines[:-1]) + len(before)


# ---------------------------------------------------------------- tables


def _table(text: str, tree: ast.Module, path: str, arch: str) -> FileSpace | None:
    values: dict[str, Any] = {}
    lines = text.split("\n")
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name == "TUNING":
                lines[node.lineno - 1 : node.end_lineno] = []
            if name in ("TUNING", "DEFAULT", "SPACE"):
                try:
                    values[name] = ast.literal_eval(node.value)
                except ValueError:
                    raise SpaceError(f"{path}:{node.lineno}: {name} is no literal") from None
    if "TUNING" not in values:
        return None
    rows = [*values["TUNING"].values(), *([values["DEFAULT"]] if "DEFAULT" in values else [])]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise SpaceError(f"{path}: TUNING: a tuner needs rows with named columns (dicts)")
    space = values.get("SPACE") or {}
    if space and all(isinstance(part, dict) for part in space.values()):
        space = space.get(arch, {})
    if not space:  # what other shapes' rows have
        for row in rows:
            for column, value in row.items():
                choices = space.setdefault(column, [])
                if value not in choices:
                    choices.append(value)
        space = {column: _sorted(choices) for column, choices in space.items() if len(choices) > 1}
    if not space:
        raise SpaceError(f"{path}: TUNING has one value in each column: say in SPACE what else to try")
    start = values.get("DEFAULT", rows[0])

    def with_row(row: Row) -> str:
        return f"{text}\n\n{_EVERY_KEY.format(row=row or None, file=KEYS_FILE)}"

    what = "TUNING, columns " + ", ".join(space)
    columns = {name: list(choices) for name, choices in space.items()}
    return FileSpace(what, columns, start, True, with_row, text, "\n".join(lines))


def _sorted(values: list[Any]) -> list[Any]:
    return sorted(values) if all(isinstance(value, int | float) for value in values) else values


# Behind the submission: its TUNING has the row under trial for every key, and notes which it was asked for.
_EVERY_KEY = """\
class _Tried(dict):
    row = {row!r}

    def note(self, key):
        with open("{file}", "a") as file:
            file.write(repr(key) + "\\n")

    def get(self, key, default=None):
        self.note(key)
        return dict.get(self, key, default) if self.row is None else self.row

    def __getitem__(self, key):
        self.note(key)
        return dict.__getitem__(self, key) if self.row is None else self.row

    def __contains__(self, key):
        return self.row is not None or dict.__contains__(self, key)


TUNING = _Tried(TUNING)
"""
