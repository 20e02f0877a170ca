"""A variant's tuning table: a Python file of literals beside it, `kernels/<stem>/<variant>_tuning.py`.

TUNING maps a shape to a row, DEFAULT is the row of every other shape. Literals only, so that a tuner can
rewrite the file and the generator can read it without running it.
"""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forge.generate.pysource import GenerationError, error_at, load_module

Row = dict[str, Any] | tuple[Any, ...]


def table_path(variant_path: str) -> str:
    return variant_path.rpartition(".")[0] + "_tuning.py"


def check_table(root: Path, path: str) -> None:
    """Refuse a table to stumble over: no default, a row with other columns, two rows for a shape."""
    module = load_module(root, path)
    values: dict[str, ast.expr] = {}
    for statement in module.statements:
        for node in statement.nodes:
            name, value = _assignment(path, node)
            if name != "TUNING":  # which is read row by row below, to name the line
                _literal(path, value)
            values[name] = value
    if module.imports:
        raise error_at(path, module.imports[0].line, "a tuning table imports nothing: it holds literals only")
    for name in ("DEFAULT", "TUNING"):
        if name not in values:
            what = "the row of every shape outside the table" if name == "DEFAULT" else "the rows by shape"
            raise GenerationError(f"{path}: defines no {name} ({what})")
    table = values["TUNING"]
    if not isinstance(table, ast.Dict):
        raise error_at(path, table.lineno, "TUNING must be a dict from shape to row")
    columns = _columns(path, values["DEFAULT"])
    lines: dict[Any, int] = {}
    for key, row in zip(table.keys, table.values):
        if key is None:
            raise error_at(path, row.lineno, "TUNING must list its rows: '**' hides them")
        shape = _literal(path, key)
        if shape in lines:
            raise error_at(path, key.lineno, f"a second row for {shape}; the first is in line {lines[shape]}")
        lines[shape] = key.lineno
        found = _columns(path, row)
        if found != columns:
            raise error_at(path, row.lineno, f"the row of {shape} has {_listed(found)}, DEFAULT has {_listed(columns)}")


def _assignment(path: str, node: ast.stmt) -> tuple[str, ast.expr]:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return node.target.id, node.value
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    raise error_at(path, node.lineno, "a tuning table holds only assignments of literals to names")


def _literal(path: str, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise error_at(path, node.lineno, f"not a literal: {ast.unparse(node)[:60]}") from None


def _columns(path: str, node: ast.expr) -> tuple[str, ...] | int:
    row = _literal(path, node)
    if isinstance(row, dict):
        return tuple(sorted(row))
    if isinstance(row, tuple | list):
        return len(row)
    raise error_at(path, node.lineno, f"a row must be a dict or a tuple, found {row!r}")


def _listed(columns: tuple[str, ...] | int) -> str:
    return f"{columns} values" if isinstance(columns, int) else ", ".join(columns) or "nothing"


# ---------------------------------------------------------------- reading a table, and writing rows into it


@dataclass(frozen=True)
class Table:
    """What a tuner needs of a table file."""

    default: dict[str, Any]
    rows: dict[Any, dict[str, Any]]
    space: dict[str, list[Any]]  # column -> the values to choose from; {} where the file states none


def read_table(root: Path, path: str, arch: str = "") -> Table:
    """The table as values. Rows must be dicts: a tuner needs the columns' names.

    SPACE is {column: [values]}, or that by architecture: {"gfx942": {column: [values]}, "sm_90": ...}.
    """
    check_table(root, path)
    values = {}
    for statement in load_module(root, path).statements:
        for node in statement.nodes:
            name, value = _assignment(path, node)
            values[name] = (node.lineno, _literal(path, value))
    for name in ("DEFAULT", "TUNING"):
        line, value = values[name]
        rows = [value] if name == "DEFAULT" else list(value.values())
        if not all(isinstance(row, dict) for row in rows):
            raise error_at(path, line, f"{name}: a tuner needs rows with named columns (dicts), found tuples")
    default = values["DEFAULT"][1]
    line, space = values.get("SPACE", (0, {}))
    if isinstance(space, dict) and space and all(isinstance(part, dict) for part in space.values()):
        space = space.get(arch, {})
    if not isinstance(space, dict) or not all(isinstance(v, (list, tuple)) and v for v in space.values()):
        raise error_at(path, line, "SPACE must be a dict from column to a list of values")
    if unknown := set(space) - set(default):
        raise error_at(path, line, f"SPACE has a column that DEFAULT lacks: {min(unknown)}")
    return Table(default, values["TUNING"][1], {column: list(choices) for column, choices in space.items()})


@dataclass(frozen=True)
class NewRow:
    key: Any
    row: dict[str, Any]
    note: str  # becomes the comment at the row's end


def with_rows(text: str, path: str, new: list[NewRow]) -> str:
    """The table file's text with rows replaced or added; every other line stays as it is.

    Comments on lines of their own part the table into groups. A row that is there stays in its group, a new one joins
    the group that has rows most like it (the last one otherwise), and rows of a group that got one are sorted.
    """
    table = _table_node(text, path)
    lines = text.split("\n")
    first, last = table.lineno, table.end_lineno or table.lineno  # of the braces, counted from 1
    if first == last:  # TUNING = {}
        if table.keys:
            raise error_at(path, first, "TUNING stands on one line: put each row on its own")
        opening, _, closing = lines[first - 1].rpartition("{")
        lines[first - 1 : first] = [opening + "{", closing]
        return with_rows("\n".join(lines), path, new)
    groups: list[_Group] = [_Group([], [])]
    at = first  # index of the line after the opening brace
    for key, row in zip(table.keys, table.values):
        assert key is not None
        if key.lineno <= at:
            raise error_at(path, key.lineno, "two rows on a line: put each on its own")
        above, end = lines[at : key.lineno - 1], row.end_lineno or row.lineno
        if above:
            groups.append(_Group(above, []))
        groups[-1].rows.append((_literal(path, key), "\n".join(lines[key.lineno - 1 : end])))
        at = end
    tail = lines[at : last - 1]  # comments after the last row
    widths = _Widths([*((_literal(path, k), _literal(path, v)) for k, v in zip(table.keys, table.values) if k)])
    widths.add([(row.key, row.row) for row in new])
    for added in new:
        _insert(groups, added.key, widths.line(added))
    body = [line for group in groups for line in [*group.head, *(text for _, text in group.rows)]]
    return "\n".join([*lines[:first], *body, *tail, *lines[last - 1 :]])


@dataclass
class _Group:
    head: list[str]  # lines of comments
    rows: list[tuple[Any, str]]  # key and lines


def _table_node(text: str, path: str) -> ast.Dict:
    for node in ast.parse(text, path).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "TUNING" for target in targets):
                return node.value
    raise GenerationError(f"{path}: defines no TUNING")


def _insert(groups: list[_Group], key: Any, line: str) -> None:
    def alike(group: _Group) -> tuple[int, int]:
        """How many leading parts of the key a row of the group shares; later groups win a tie."""
        return max((_shared(key, other) for other, _ in group.rows), default=-1), groups.index(group)

    home = next((group for group in groups if any(other == key for other, _ in group.rows)), None)
    home = home or max(groups, key=alike)
    home.rows = [row for row in home.rows if row[0] != key] + [(key, line)]
    home.rows.sort(key=lambda row: tuple(map(_sortable, row[0] if isinstance(row[0], tuple) else (row[0],))))


def _shared(key: Any, other: Any) -> int:
    if not (isinstance(key, tuple) and isinstance(other, tuple)):
        return 0
    count = 0
    while count < min(len(key), len(other)) and key[count] == other[count]:
        count += 1
    return count


def _sortable(part: Any) -> tuple[int, Any]:
    return (0, part) if isinstance(part, int | float) else (1, str(part))


class _Widths:
    """How wide the parts of keys and the values of columns are, so that rows stand below each other."""

    def __init__(self, rows: list[tuple[Any, Any]]) -> None:
        self.key: dict[int, int] = {}
        self.column: dict[str, int] = {}
        self.add(rows)

    def add(self, rows: list[tuple[Any, Any]]) -> None:
        for key, row in rows:
            for place, part in enumerate(key if isinstance(key, tuple) else (key,)):
                self.key[place] = max(self.key.get(place, 0), len(_spelled(part)))
            for name, value in row.items() if isinstance(row, dict) else ():
                self.column[name] = max(self.column.get(name, 0), len(_spelled(value)))

    def line(self, new: NewRow) -> str:
        parts = new.key if isinstance(new.key, tuple) else (new.key,)
        told = [(_spelled(part), self.key[place], isinstance(part, str)) for place, part in enumerate(parts)]
        key = " ".join(f"{part + ',':{width + 1}}" if text else f"{part:>{width}}," for part, width, text in told)
        shown = f"({key.rstrip().rstrip(',')})" if isinstance(new.key, tuple) and len(parts) > 1 else _spelled(new.key)
        items = [(f'"{name}": ', _spelled(value), self.column[name]) for name, value in new.row.items()]
        row = ", ".join(name + value.rjust(width) for name, value, width in items)
        return f"    {shown}: {{{row}}},  # {new.note}"


def _spelled(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) and '"' not in value and "\\" not in value else repr(value)
