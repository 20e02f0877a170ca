"""Every wait and barrier that a kernel needs is found to be missing when it is gone."""

from __future__ import annotations

import pytest
import torch

import cdna
from cdna.launch.module import ObjectKernel
from lab.mutations import Mutant, mutating
from tests.cdna import test_triton_language as language
from tests.support.checked_kernels import CASES
from tests.support.race_pairs import compiled

QUICK = ("softmax", "matmul_two_stages")
IN_HIP = ("tree", "tile_overwritten", "compaction", "flag_without_release", "last_block", "grid_barrier")


OTHERS = ("stream_k_waits_for_partial_sums",)  # functions of the arch alone


def missed(mutants: list[Mutant]) -> list[Mutant]:
    return [mutant for mutant in mutants if mutant.needed and not mutant.found]


def mutants_of_case(name: str, arch: str) -> list[Mutant]:
    collected: list[Mutant] = []
    torch.manual_seed(0)
    with cdna.device(arch), mutating(collected):
        CASES[name]() if name in CASES else getattr(language, f"test_{name}")(arch)
    return collected


@pytest.mark.sampled
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("name", QUICK)
def test_triton(arch: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_THREADS", "1")
    mutants = mutants_of_case(name, arch)
    assert missed(mutants) == []
    assert sum(mutant.needed for mutant in mutants) > 3 and len(mutants) > 5


@pytest.mark.parametrize("name", IN_HIP)
def test_hip(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_THREADS", "1")
    collected: list[Mutant] = []
    given, out = torch.arange(4096, dtype=torch.int32), torch.zeros(4096, dtype=torch.int32)
    with mutating(collected):
        kernel = ObjectKernel(compiled("gfx942").kernels[f"{name}_safe"])
        kernel((4,), (256,), given, out, torch.zeros(64, dtype=torch.int32), lds_bytes=2048)
    assert collected and missed(collected) == []


@pytest.mark.slow(reason="a launch for each wait and barrier of all kernels takes a quarter of an hour")
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("name", [*CASES, *OTHERS])
def test_all_kernels(arch: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_THREADS", "1")
    assert missed(mutants_of_case(name, arch)) == []
