"""How large each room may be: a change that outgrows its room's budget raises it here, and says why in its commit."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINES = {
    "cdna": 45_376,
    "docs": 4_858,
    "forge": 28_753,
    "kernels": 14_486,
    "reference": 2_962,
    "tests": 43_715,
}
MOST_OF_A_FILE = 600  # of a product file's lines: it is read in one sitting
TABLES = {"cdna/isa/instructions.txt"}


def lines_of(*folders: str) -> dict[str, int]:
    """Lines of the files that git knows in these folders."""
    files = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name: (ROOT / name).read_bytes().count(b"\n") for name in files.split("\n") if (ROOT / name).is_file()}


def over(lines: int, most: int) -> str:
    return f"{lines} lines, and its budget is {most}" if lines > most else ""


@pytest.mark.parametrize("room", LINES)
def test_a_room_keeps_to_its_budget(room: str) -> None:
    assert not over(sum(lines_of(room).values()), LINES[room]), room


def test_no_product_file_is_too_long_to_read() -> None:
    product = lines_of("cdna", "forge", "kernels", "reference")
    long = {name: n for name, n in product.items() if n > MOST_OF_A_FILE and name not in TABLES}
    assert not long


def test_a_room_over_its_budget_is_noticed() -> None:
    assert over(LINES["forge"] + 1, LINES["forge"]) and not over(LINES["forge"], LINES["forge"])
