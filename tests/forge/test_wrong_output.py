"""The words for an output's error: each pattern, what must not be taken for it, and rounding, which is none."""

from collections.abc import Callable

import pytest
import torch

from forge.judge.wrong_output import pattern_of

WANTED = torch.randn(64, 96, generator=torch.Generator().manual_seed(1))
OTHER = torch.randn(64, 96, generator=torch.Generator().manual_seed(2))


def changed(change: Callable[[torch.Tensor], object]) -> torch.Tensor:
    got = WANTED.clone()
    change(got)
    return got


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (WANTED.clone(), ""),
        (WANTED.bfloat16(), ""),
        (WANTED * (1 + 0.01 * OTHER.clamp(-1, 1)), ""),
        (OTHER, ""),
        (torch.zeros(64, 96), "never written, or 0 written"),
        (torch.full((64, 96), torch.nan), "NaN, or never written"),
        (changed(lambda t: t[:, 91:].zero_()), "never written, or 0 written, in columns 91 to 95 of every row"),
        (changed(lambda t: t[48:].fill_(7)), "never written, or 7 written, in rows 48 to 63"),
        (changed(lambda t: t[:, 91:].copy_(OTHER[:, 91:])), "wrong in columns 91 to 95 of every row"),
        (changed(lambda t: t[3].copy_(OTHER[3])), "wrong in row 3"),
        (changed(lambda t: t[16:32, 64:].copy_(OTHER[16:32, 64:])), "wrong in columns 64 to 95 of rows 16 to 31"),
        (changed(lambda t: t[:, 1::2].copy_(OTHER[:, 1::2])), "wrong in every second column from 1 on of every row"),
        (WANTED.T.contiguous().reshape(64, 96), "the transpose of what is wanted"),
        (WANTED.roll(1, 0), "a row late: row i holds what row i-1 should"),
        (WANTED.roll(-1, 1), "a column early: column i holds what column i+1 should"),
        (2 * WANTED, "twice what is wanted"),
        (0.5 * WANTED, "half of what is wanted"),
        (-WANTED, "the negative of what is wanted"),
        (WANTED / 3, "0.3333 times what is wanted"),
        (changed(lambda t: t[:, :32].mul_(2)), "twice what is wanted in columns 0 to 31 of every row"),
        (WANTED.view(4, 16, 96).transpose(0, 1).reshape(64, 96), "rows in another order: row 1 holds row 16"),
    ],
)
def test_words(got: torch.Tensor, words: str) -> None:
    said = pattern_of(got, WANTED)
    assert (words in said) if words else said == ""
    assert not said.endswith((",", "?"))


def test_causes_that_the_problem_has() -> None:
    """Of the same bits the card's fnuz fp8 has half of OCP's value."""
    bits = torch.arange(96, 120, dtype=torch.uint8).view(4, 6)
    fnuz, ocp = (bits.view(kind).float() for kind in (torch.float8_e4m3fnuz, torch.float8_e4m3fn))
    assert pattern_of(ocp, fnuz, fp8=1) == "twice what is wanted: fnuz fp8 taken for OCP?"
    both = pattern_of(ocp @ ocp.T, fnuz @ fnuz.T, fp8=2, multiplies=True)
    assert both == "four times what is wanted: in both operands fnuz fp8 taken for OCP?"
    assert pattern_of(4 * fnuz, fnuz, fp8=2) == "four times what is wanted"  # a norm's again
    assert pattern_of(4 * fnuz, fnuz, fp8=1, multiplies=True) == "four times what is wanted"  # the other is no fp8
    said = pattern_of(fnuz, ocp, fp8=1, multiplies=True)
    assert said == "half of what is wanted: OCP fp8 taken for fnuz, or half of k left out?"
    assert pattern_of(fnuz, ocp) == "half of what is wanted"  # a norm's, say
    half = changed(lambda t: t[:, :32].mul_(2))
    assert pattern_of(half, WANTED, multiplies=True).endswith("a sum taken twice? in columns 0 to 31 of every row")


def test_half_of_k_is_half_of_sums_of_one_sign_alone() -> None:
    draw = torch.Generator().manual_seed(3)
    a, b = torch.rand(8, 4096, generator=draw), torch.rand(4096, 12, generator=draw)
    for sign in (1, -1):
        said = pattern_of(sign * a[:, ::2] @ b[::2], sign * a @ b, multiplies=True)
        assert said == "half of what is wanted: half of k left out?"
    assert pattern_of(0.5 * WANTED, WANTED, multiplies=True) == "half of what is wanted"


def test_outputs_of_other_shapes() -> None:
    assert pattern_of(torch.zeros(3), torch.zeros(4)) == "" and pattern_of(torch.zeros(()), torch.zeros(())) == ""
    assert pattern_of(torch.zeros(128), torch.arange(100.0, 228)) == "never written, or 0 written"
    batched = WANTED.view(4, 16, 96)
    assert pattern_of(2 * batched, batched).startswith("twice what")
    empty = torch.zeros(0, 4)
    assert pattern_of(empty, empty) == ""
