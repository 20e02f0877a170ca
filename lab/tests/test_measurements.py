"""Pages hold what lab/results/*.json say, all results can be had as one, and nonsense is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab import measurements

RESULT = {
    "title": "A table",
    "kind": "measured",
    "machine": "1 GPU",
    "versions": {"torch": "2.11.0"},
    "command": "a command",
    "columns": ["case", "us"],
    "rows": [["0", "1.5"]],
}


def test_pages_are_what_their_data_say_and_a_page_has_them_all(tmp_path: Path) -> None:
    command = [sys.executable, "lab/measurements.py", "--check", "--page", str(tmp_path / "page.md")]
    done = subprocess.run(command, cwd=measurements.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "page.md").read_text()
    assert all(measurements.read(file).section() in text for file in measurements.RESULTS.glob("*.json"))


def test_a_page_that_was_changed_by_hand_is_noticed() -> None:
    results = {"one": measurements.Result("one", **RESULT)}  # type: ignore[arg-type]
    readme = "<!-- results: one -->\nanything\n<!-- end of results -->\n"
    page = measurements.with_tables(results, readme)
    assert "| 0 | 1.5 |" in page and "anything" not in page
    assert measurements.with_tables(results, page) == page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "guessed"}, "kind must be measured, modelled, emulated"),
        ({"rows": [["0"]]}, "row 0 has 1 cells for 2 columns"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, change: dict[str, object], said: str) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(RESULT | change))
    with pytest.raises(measurements.ResultError, match="wrong.json") as caught:
        measurements.read(file)
    assert said in str(caught.value)


def test_results_that_are_not_there_are_named() -> None:
    with pytest.raises(measurements.ResultError, match="no lab/results/none.json"):
        measurements.with_tables({}, "<!-- results: none -->\n<!-- end of results -->\n")
