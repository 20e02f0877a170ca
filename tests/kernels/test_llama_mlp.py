"""docs/custom-operators.md: its block runs on the emulated card and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.evaltools import generate
from tests.support.prepared import HIP_EXTENSIONS, ROOT, run_prepared

PAGE = (ROOT / "docs/custom-operators.md").read_text()
IMPORTS = re.compile(r"import kernels\.(\w+)\.triton_gfx942.*\n")


def assert_prints_what_the_page_says(folder: Path, source: str, *imports: str) -> None:
    ((before, error, after),) = re.findall(r"It prints\n\n    (.*) (0\.\d+)(, .*)\n", PAGE)
    (folder / "block.py").write_text(f"import sys\nsys.path[:0] = {[str(ROOT), str(folder)]!r}\n{source}")
    done = run_prepared(str(folder / "block.py"), imports=imports)
    assert done.returncode == 0, done.stderr
    said = re.search(rf"^{before} (0\.\d+){after}\n\Z", done.stdout, re.MULTILINE)
    assert said, done.stdout
    assert float(said[1]) == pytest.approx(float(error), abs=0.002)  # sums of another CPU, in another order


def documented() -> str:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    return source


def test_the_documented_block(tmp_path: Path) -> None:
    assert_prints_what_the_page_says(tmp_path, documented())


@pytest.mark.slow(reason="the same block with other operators, which each variant's checks call alone")
def test_the_block_with_the_hip_variants(tmp_path: Path, hip_compiler: None) -> None:
    stems = IMPORTS.findall(documented())
    assert len(stems) == 3
    for stem in stems:
        (tmp_path / stem).mkdir()
        generate(stem.replace("_", "-"), "hip", tmp_path / stem)
    source = IMPORTS.sub(lambda found: f"import {found[1]}.submission\n", documented())
    assert_prints_what_the_page_says(tmp_path, source, HIP_EXTENSIONS)
