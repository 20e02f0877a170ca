"""docs/custom-operators.md: its block runs on the emulated card and prints what the page says."""

import re
from pathlib import Path

import pytest

from tests.support.prepared import ROOT, run_prepared

PAGE = (ROOT / "docs/custom-operators.md").read_text()


def test_the_documented_block(tmp_path: Path) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    ((before, error, after),) = re.findall(r"It prints\n\n    (.*) (0\.\d+)(, .*)\n", PAGE)
    (tmp_path / "block.py").write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{source}")
    done = run_prepared(str(tmp_path / "block.py"))
    assert done.returncode == 0, done.stderr
    said = re.search(rf"^{before} (0\.\d+){after}\n\Z", done.stdout, re.MULTILINE)
    assert said, done.stdout
    assert float(said[1]) == pytest.approx(float(error), abs=0.002)  # sums of another CPU, in another order
