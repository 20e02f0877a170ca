"""Launches of assembly programs on named tensors, with checks: what they find."""

import struct

import pytest
import torch

import cdna
from cdna import checks
from cdna.launch.program import Program

Plain = list[tuple[str, torch.Tensor]]


def memory(tensors: Plain) -> checks.Memory:
    return checks.Memory(
        [checks.Tensor(t.data_ptr(), t.nbytes, t.data_ptr(), f"`{n}` (i32[{t.numel()}])") for n, t in tensors], False
    )


def launch(p: Program, tensors: Plain, groups: int = 1, block: int = 64, name: str = "k") -> None:
    kernarg = b"".join(struct.pack("<Q", t.data_ptr()) for _, t in tensors)
    p.kernels[name].launch((groups, 1, 1), (block, 1, 1), kernarg, memory=memory(tensors))


def found(p: Program, tensors: Plain, groups: int = 1, block: int = 64, kinds: str = "all") -> cdna.Finding:
    """What the launch raises; `findings` has the same."""
    with checks.use(kinds), pytest.raises(cdna.CheckError) as caught:
        launch(p, tensors, groups, block)
    assert cdna.findings()[0] == caught.value.finding
    return caught.value.finding


def clean(p: Program, tensors: Plain, groups: int = 1, block: int = 64) -> None:
    with checks.use("all"):
        launch(p, tensors, groups, block)
    assert cdna.findings() == []


def buffer(n: int = 64) -> torch.Tensor:
    return torch.zeros(n, dtype=torch.int32)
