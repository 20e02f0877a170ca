"""How findings read: one a source line with its text, causes first, and the file that the user wrote."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import cdna
from cdna import checks
from tests.support.assembled import program
from tests.support.checked_launch import buffer, launch

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def _beyond_{name}(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + i, i, mask=i <= n)
"""


def module_of(file: Path, name: str) -> ModuleType:
    file.parent.mkdir(exist_ok=True)
    file.write_text(KERNEL.format(name=name))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def finding_of(kernel: Any) -> cdna.Finding:
    cdna.findings()
    with cdna.device("gfx942", checks="bounds", raises=False):
        kernel[(1,)](torch.zeros(500, dtype=torch.int32), 500, B=512)
    (finding,) = cdna.findings()
    return finding


def test_the_file_is_not_that_of_triton_s_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same kernel at the same line of three files: compiled once, and named after each."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    for file in (tmp_path / "one.py", tmp_path / "two.py", tmp_path / "elsewhere" / "one.py"):
        finding = finding_of(module_of(file, "cached")._beyond_cached)
        assert finding.source == f"{file}:8"
        assert finding.source_text == "tl.store(x + i, i, mask=i <= n)"
        assert str(finding).endswith("\n  | tl.store(x + i, i, mask=i <= n)")


def test_one_entry_a_line_with_its_count(tmp_path: Path) -> None:
    finding = finding_of(module_of(tmp_path / "count.py", "counted")._beyond_counted)
    assert finding.count == 1 and ", the first of" not in str(finding)
    text = "v_lshlrev_b32_e32 v1, 2, v0\nds_write_b32 v1, v0 offset:16\ns_waitcnt lgkmcnt(0)"
    cdna.findings()
    with checks.use("bounds", raises=False):
        launch(program(text, lds_bytes=256), [], groups=3)
    (finding,) = cdna.findings()
    assert finding.count == 12 and "lane 60, the first of 12" in str(finding)


def test_causes_come_first() -> None:
    """Wave 1 writes what wave 0 has read too early: told in the order of cause and effect."""
    text = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_xor_b32_e32 v2, 0x100, v1
s_waitcnt lgkmcnt(0)
ds_write_b32 v1, v0
ds_read_b32 v4, v2
s_waitcnt lgkmcnt(0)
global_store_dword v1, v4, s[4:5] offset:256
"""
    cdna.findings()
    with checks.use("all", raises=False):
        launch(program(text, lds_bytes=512), [("x", buffer(128))], block=128)
    kinds = dict.fromkeys(finding.kind for finding in cdna.findings())
    assert list(kinds) == ["race", "bounds", "uninitialised"]
