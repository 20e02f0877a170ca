"""Findings name the file that their author wrote, not the judge's copy of what was generated from it."""

from pathlib import Path

from forge.judge.user_places import author_place, with_author_places
from tests.support.evaltools import ROOT, generate


def test_every_kernel_line_of_a_generated_file_is_found(tmp_path: Path) -> None:
    text = generate("amd-fp8-mm", "triton", tmp_path).read_text()
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines, 1) if "tl.dot(" in line or "tl.dot_scaled(" in line)
    place = author_place(text, first, ROOT)
    file, line = place.rsplit(":", 1)
    assert file.startswith(("kernels/fp8_mm/", "kernels/common/"))
    assert (ROOT / file).read_text().splitlines()[int(line) - 1].strip() == lines[first - 1].strip()


def test_a_report_is_renamed_through_and_through(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    mine = "import os\n\n\ndef kernel(x):\n    y = x + 1\n    return y * 2\n"
    (tmp_path / "kernels" / "k.py").write_text(mine)
    generated = "# generated\n" + mine
    report = {"findings": [{"text": "race at `v` (/tmp/run1/submission.py:6), wave 0", "count": 2}], "kernels": {}}
    renamed = with_author_places(report, {"submission.py": generated}, tmp_path)
    assert renamed["findings"] == [{"text": "race at `v` (kernels/k.py:5), wave 0", "count": 2}]
    unknown = with_author_places(report, {"submission.py": "other = 1\n" * 9}, tmp_path)
    assert unknown["findings"] == [{"text": "race at `v` (submission.py:6), wave 0", "count": 2}]
    assert with_author_places(report, {}, tmp_path) == report
    assert author_place(generated, 99, tmp_path) == "" == author_place(generated, 3, tmp_path)
