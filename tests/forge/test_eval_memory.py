"""What ranks save on an emulated device: pages that are fresh, products with zeros, imports that all of them make."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from forge.device.fake_rocm.launch import OF_EXTENSIONS
from forge.judge import compare
from forge.judge.memory import _is_plenty

ROUNDS = """
import resource, sys
import torch
from forge.judge.memory import keep_freed_memory
torch.set_num_threads(1)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def work():
    sums = torch.ones(1024, int(sys.argv[2]), dtype=torch.bfloat16)
    for _ in range(3):
        sums = sums + 1
work()
if sys.argv[1] != "none":
    keep_freed_memory(sys.argv[1] == "referee")
    work()
before = faults()
for _ in range(8):
    work()
print(faults() - before)
"""


def faults_of_rounds(who: str, columns: int, **environment: str) -> int:
    command = [sys.executable, "-c", ROUNDS, who, str(columns)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return int(done.stdout)


@pytest.mark.parametrize(("who", "megabytes"), [("referee", 64), ("worker", 8)])
def test_freed_memory_is_used_again(who: str, megabytes: int) -> None:
    """In most rounds: small blocks may come to lie in a place that a large one had, so that it takes another."""
    # Held at where it begins: glibc raises it when a block is freed, and then sometimes keeps small ones by itself.
    fresh = faults_of_rounds("none", megabytes * 512, MALLOC_MMAP_THRESHOLD_=str(128 << 10))
    assert fresh > 8 * megabytes * 256  # a page is 4 KiB
    assert faults_of_rounds(who, megabytes * 512) < fresh / 2


@pytest.mark.parametrize(
    ("available", "limit", "plenty"),
    [(700, None, True), (700, "max\n", True), (700, "100000\n", False), (600, None, False)],
)
def test_it_is_kept_where_there_is_plenty(tmp_path: Path, available: int, limit: str | None, plenty: bool) -> None:
    """Sixteen processes that kept all that they had had were ended by the system."""
    meminfo, most = tmp_path / "meminfo", tmp_path / "memory.max"
    meminfo.write_text(f"MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: {available} kB\nHugePages_Total: 0\n")
    if limit is not None:
        most.write_text(limit)
    assert _is_plenty(str(meminfo), str(most)) is plenty


BIG = torch.arange(48 * 32, dtype=torch.bfloat16).reshape(48, 32)
PRODUCTS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "matmul": lambda a, b: torch.matmul(a, b),
    "operator": lambda a, b: a @ b,
    "method": lambda a, b: a.mm(b),
    "linear": lambda a, b: torch.nn.functional.linear(a, b.T.contiguous()),
    "batch": lambda a, b: torch.bmm(a[None], b[None])[0],
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_zeros_are_left_out_and_no_others(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros, product = torch.zeros(8, 48, dtype=torch.bfloat16), PRODUCTS[name]
    asked: list[bool] = []
    really = compare._zero

    def zero(one: torch.Tensor, other: torch.Tensor) -> bool:
        asked.append(really(one, other))
        return asked[-1]

    monkeypatch.setattr(compare, "_zero", zero)
    for one, other in ((zeros, BIG), (zeros + 1, BIG * 0), (zeros + 1, BIG), (zeros, BIG / 0), (zeros.T @ zeros, BIG)):
        wanted = product(one, other)
        with compare.zero_products():
            got = product(one, other)
        assert got.dtype == wanted.dtype and torch.equal(got.nan_to_num(1e9), wanted.nan_to_num(1e9))
    assert True in asked and False in asked


def test_what_does_not_fit_is_refused_as_ever() -> None:
    for one, other in (
        (torch.zeros(4, 3), torch.zeros(4, 3)),
        (torch.zeros(4, 3), torch.zeros(3, 4, dtype=torch.half)),
    ):
        with compare.zero_products(), pytest.raises(RuntimeError):
            torch.matmul(one, other)
    with compare.zero_products():
        assert torch.matmul(torch.zeros(3), torch.ones(3)) == 0
        assert torch.nn.functional.linear(torch.zeros(2, 3), torch.ones(3)).tolist() == [0, 0]


def test_ranks_find_what_extensions_import_but_not_the_module_that_they_ask_for() -> None:
    """torch.utils.cpp_extension stays out: who forgets to import it must not find it here."""
    text = f"import importlib, sys, torch\nfor name in {OF_EXTENSIONS!r}: importlib.import_module(name)\n"
    text += "print('torch.utils.cpp_extension' in sys.modules, hasattr(torch.utils, 'cpp_extension'))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
