"""A variant's tuning table: a Python file of literals beside it, `kernels/<stem>/<variant>_tuning.py`.

TUNING maps a shape to a row, DEFAULT is the row of every other shape. Literals only, so that a tuner can
rewrite the file and the generator can read it without running it.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from forge.pysource import GenerationError, error_at, load_module

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
            raise error_at(
                path, row.lineno, f"the row of {shape} has {_listed(found)}, DEFAULT has {_listed(columns)}"
            )


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
