"""docs/environment.md lists the variables that the sources read, and no others."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOC = ROOT / "docs" / "environment.md"
SUFFIXES = {".py", ".c", ".cpp", ".h", ".hpp", ".hip"}
# One of ours: its name in quotes, wherever that stands. One of others: where the environment is read.
OURS = re.compile(r"""["']((?:CDNA|FORGE|POPCORN|SYMMETRIC_HEAP)_[A-Z0-9_]+)["']""")
READ = re.compile(
    r"""(?:environ(?:\.get|\.pop)?\s*[\[(]|getenv\()\s*["']([A-Za-z_]+)["'](?!\]\s*=[^=])"""
    r"""|["']([A-Z_]+)["']\s+(?:not\s+)?in\s+os\.environ"""
)


def variables_in(source: str) -> set[str]:
    read = {name for pair in READ.findall(source) for name in pair if name}
    return set(OURS.findall(source)) | read


def product_sources() -> list[Path]:
    folders = [path for name in ("cdna", "forge", "kernels", "reference") for path in (ROOT / name).rglob("*")]
    return [path for path in (*folders, ROOT / "eval.py", ROOT / "gen_submission.py") if path.suffix in SUFFIXES]


def documented() -> set[str]:
    """The names in the first column of the tables: one or several per row."""
    firsts = [line.split("|")[1] for line in DOC.read_text().splitlines() if line.startswith("| `")]
    return {name for first in firsts for name in re.findall(r"`([A-Z_]+)`", first)}


def test_every_variable_is_documented() -> None:
    missing = {
        name: path.relative_to(ROOT).as_posix()
        for path in product_sources()
        for name in variables_in(path.read_text(errors="replace")) - documented()
    }
    assert not missing, f"read by the sources and not in {DOC.name}: {missing}"


def test_what_is_documented_is_read() -> None:
    sources = "\n".join(path.read_text(errors="replace") for path in product_sources())
    unread = {name for name in documented() if not re.search(rf"""["']{name}["']""", sources)}
    assert not unread, f"in {DOC.name} and read by no source: {unread}"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('os.environ.get("NEW_ONE", "0")', {"NEW_ONE"}),
        ('if "NEW_ONE" in os.environ:', {"NEW_ONE"}),
        ('elif mode and "NEW_ONE" not in os.environ:', {"NEW_ONE"}),
        ('path = os.environ["NEW_ONE"]', {"NEW_ONE"}),
        ('os.getenv("NEW_ONE")', {"NEW_ONE"}),
        ('const char* text = getenv("NEW_ONE");', {"NEW_ONE"}),
        ('VARIABLE = "CDNA_NEW"', {"CDNA_NEW"}),
        ('seconds_of("SYMMETRIC_HEAP_NEW_S", "20")', {"SYMMETRIC_HEAP_NEW_S"}),
        ('os.environ["NEW_ONE"] = "1"', set()),  # set for others
        ("#define CDNA_MACRO 1", set()),
        ('text = "NEW_ONE"', set()),
    ],
)
def test_what_counts_as_reading(source: str, names: set[str]) -> None:
    assert variables_in(source) == names
