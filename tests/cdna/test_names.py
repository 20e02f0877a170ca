"""Nothing is told from an instruction's name: what is known of one stands in its row of the table."""

import ast
import re
from collections.abc import Iterator

import pytest

from cdna.isa import instructions
from tests.support.evaltools import ROOT

MNEMONIC = re.compile(r"\W*(v|s|ds|flat|global|scratch|buffer|tbuffer)_")
# Names of registers and of HIP's kinds of arguments that an instruction begins like.
OTHERS = {"global_buffer"}
IN_CPP = re.compile(r'\b(?:str\w+|memcmp|starts_with)\([^;]*"([^"\n]*)"|op_info\([^;\n]*\)\.name')


def told_in_python(source: str) -> Iterator[tuple[int, str]]:
    """Strings of code, no documentation, that a mnemonic begins with, or patterns of such."""
    tree = ast.parse(source)
    said = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            not isinstance(node, ast.Constant)
            or not isinstance(node.value, str)
            or node in said
            or node.value in OTHERS
            or node.value.startswith(" ")  # within a sentence
        ):
            continue
        text = node.value.strip("^(")
        pattern = MNEMONIC.match(node.value) and re.search(r"[\\[(|*?]", text)
        if pattern or MNEMONIC.match(text) and any(name.startswith(text) for name in instructions()):
            yield node.lineno, node.value


def told_in_cpp(source: str) -> Iterator[tuple[int, str]]:
    """Comparisons of strings with a part of a mnemonic, and names that are asked for."""
    for found in IN_CPP.finditer(source):
        part = found[1]
        if part is None or len(part) > 2 and any(part in name for name in instructions()):
            yield source.count("\n", 0, found.start()) + 1, found[0]


def test_python_asks_the_table() -> None:
    files = [file for file in (ROOT / "cdna").rglob("*.py") if file.parent.name != "isa"]
    told = [(str(file.relative_to(ROOT)), *one) for file in files for one in told_in_python(file.read_text())]
    assert len(files) > 80 and told == []


def test_the_engine_asks_the_table() -> None:
    files = [file for kind in ("cpp", "h") for file in (ROOT / "cdna" / "engine").rglob(f"*.{kind}")]
    told = [(str(file.relative_to(ROOT)), *one) for file in files for one in told_in_cpp(file.read_text())]
    assert len(files) > 80 and told == []


@pytest.mark.parametrize(
    "line",
    [
        'x = statement.mnemonic == "s_getpc_b64"',
        'x = name.startswith(("v_readlane", "v_writelane"))',
        'NAMES = {"v_fma_f64"}',
        'x = re.match(r"v_(pk_)?fma_", name)',
    ],
)
def test_a_name_in_python_is_found(line: str) -> None:
    assert list(told_in_python(f'"""s_getpc_b64"""\n{line}\n'))


@pytest.mark.parametrize(
    "line",
    [
        'bool x = !strcmp(name, "s_getpc_b64");',
        'bool x = strstr(op_info(in.op).name, "readfirstlane");',
        'bool x = !strncmp(f.name, "v_mov_b32",\n 9);',
        "const char* name = op_info(in.op).name;",
    ],
)
def test_a_name_in_the_engine_is_found(line: str) -> None:
    assert list(told_in_cpp(f"int i;\n{line}\n"))
