"""reference/utils.py: verdicts of the comparisons, and what they say about a wrong output."""

import math

import pytest
import torch

from forge.compile_report.fake_gpu import fake_tensors
from forge.task.problem import find_problem
from tests.support.reference_folders import generate, load_reference

utils = load_reference("fp8_mm").utils
INF, NAN = math.inf, math.nan


def test_offers_what_submissions_of_all_three_sets_import() -> None:
    names = """set_seed get_device verbose_allclose verbose_allequal match_reference make_match_reference
        clear_l2_cache clear_l2_cache_large DisableCuDNNTF32 DeterministicContext""".split()
    assert [name for name in names if not hasattr(utils, name)] == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("got", "wanted", "good"),
    [
        (1.0, 1.0, True),
        (NAN, NAN, True),
        (INF, INF, True),
        (-INF, -INF, True),
        (0.0, -0.0, True),
        (NAN, 1.0, False),
        (1.0, NAN, False),
        (INF, -INF, False),
        (INF, 1.0, False),
        (1.0, INF, False),
        (NAN, INF, False),
        (1.015, 1.0, True),
        (1.03, 1.0, False),
    ],
)
def test_which_pairs_are_close(dtype: torch.dtype, got: float, wanted: float, good: bool) -> None:
    a, b = torch.tensor([0.5, got], dtype=dtype), torch.tensor([0.5, wanted], dtype=dtype)
    assert utils.verbose_allclose(a, b, rtol=1e-2, atol=1e-2)[0] is good
    # torch.allclose, which judges the multi-GPU problems, has NaN close to nothing
    assert utils.match_allclose(a, b, rtol=1e-2, atol=1e-2)[0] is (good and not math.isnan(got))


def test_rounds_the_tolerance_to_the_dtype_of_the_expected() -> None:
    # 1/256 away: a little more than 0.0039, which is 1/256 in bf16
    got, wanted = torch.tensor([1 / 256]), torch.tensor([0.0])
    assert utils.verbose_allclose(got.bfloat16(), wanted.bfloat16(), rtol=0.0, atol=0.0039)[0]
    assert not utils.verbose_allclose(got, wanted, rtol=0.0, atol=0.0039)[0]


def test_rounds_the_difference_where_the_harness_does() -> None:
    """amd-mla-decode's subtracts in bf16, where 0.008133 and its tolerance are both 0.008118."""
    got = torch.tensor([0.0030975341796875], dtype=torch.bfloat16)
    wanted = torch.tensor([-0.005035400390625], dtype=torch.bfloat16)
    assert not utils.verbose_allclose(got, wanted, rtol=2e-2, atol=8e-3)[0]
    assert utils.verbose_allclose(got, wanted, rtol=2e-2, atol=8e-3, diff_dtype=None)[0]


def test_names_the_worst_elements() -> None:
    wanted = torch.zeros(40, 50)
    got = wanted.clone()
    got[3, 7], got[39, 49], got[20, 0] = 0.5, -2.0, NAN
    good, lines = utils.verbose_allclose(got, wanted, rtol=0.0, atol=0.1, max_print=2)
    assert not good
    assert lines == [
        "3 of 2000 elements differ by more than 0.1 + 0*|wanted|",
        "worst at (20, 0): got nan, wanted 0",
        "at (39, 49): got -2, wanted 0",
        "and 1 more",
    ]
    assert (
        "worst at (20, 0): got nan, wanted 0; at (39, 49): got -2"
        in utils.match_allclose(got, wanted, rtol=0.0, atol=0.1)[1]
    )


def test_compares_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utils, "COMPARE_CHUNK", 7)
    wanted = torch.zeros(5, 6)
    got = wanted.clone()
    got.view(-1)[[2, 8, 29]] = torch.tensor([1.0, 3.0, 2.0])
    lines = utils.verbose_allclose(got, wanted)[1]
    assert [line.split(":")[0] for line in lines[1:]] == ["worst at (1, 2)", "at (4, 5)", "at (0, 2)"]


@pytest.mark.parametrize("chunk", [5, 100])  # most pieces equal, which are passed over; and one piece, which is not
def test_equal_pieces_change_no_verdict(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utils, "COMPARE_CHUNK", chunk)
    wanted = torch.arange(50.0)
    wanted[[7, 8, 9]] = torch.tensor([NAN, math.inf, -0.0])
    got = wanted.clone()
    got[[9, 31]] = torch.tensor([0.0, 31.25])
    assert utils.verbose_allclose(got, wanted, atol=0.3) == (True, ["largest |got - wanted| 0.25"])
    good, lines = utils.verbose_allclose(got, wanted, atol=0.2, rtol=0.0)
    assert (good, lines[0][:7]) == (False, "1 of 50") and lines[1:] == ["worst at (31,): got 31.25, wanted 31"]
    assert utils.verbose_allclose(wanted, wanted.clone()) == (True, ["largest |got - wanted| 0"])


@pytest.mark.parametrize("compare", ["verbose_allclose", "verbose_allequal"])
def test_refuses_another_shape_or_type(compare: str) -> None:
    wanted = torch.zeros(4, 3)
    for got, message in [
        (torch.zeros(1, 3), "shape mismatch: got float32[1, 3], wanted float32[4, 3]"),
        (None, "output is of type NoneType, wanted float32[4, 3]"),
        ((wanted,), "output is of type tuple, wanted float32[4, 3]"),
    ]:
        assert getattr(utils, compare)(got, wanted) == (False, [message])


def test_another_dtype_is_judged_as_the_owners_functions_do() -> None:
    """verbose_allclose takes it, torch.allclose (the multi-GPU problems) does not; both say where values differ."""
    wanted = torch.full((2, 3), 256.0, dtype=torch.bfloat16)
    got = torch.full((2, 3), 256.0)
    got[1, 2] = 300.0
    good, text = utils.match_reference(None, got, lambda _: wanted, rtol=1e-2, atol=1e-2)
    assert not good and text.startswith("1 of 6 elements") and "worst at (1, 2): got 300, wanted 256" in text
    good, text = utils.match_allclose(got, wanted, rtol=1e-2, atol=1e-2)
    assert not good and "worst at (1, 2): got 300, wanted 256" in text
    assert text.startswith("dtype mismatch: got float32[2, 3], wanted bfloat16[2, 3]; 1 of 6 elements")
    assert utils.match_reference(None, wanted.float(), lambda _: wanted)[0]
    assert not utils.match_allclose(wanted.float(), wanted, rtol=1e-2, atol=1e-2)[0]
    assert not utils.verbose_allclose(wanted.float(), wanted, same_dtype=True)[0]


def test_one_byte_floats_and_integers_compare() -> None:
    wanted = torch.tensor([1.0, -2.0, 0.5]).to(torch.float8_e4m3fnuz)
    assert utils.verbose_allclose(wanted, wanted.clone())[0]
    assert not utils.verbose_allclose(wanted[[2, 1, 0]], wanted)[0]
    assert utils.verbose_allequal(torch.arange(4), torch.arange(4)) == (True, [])
    lines = utils.verbose_allequal(torch.tensor([0, 1, 9]), torch.arange(3))[1]
    assert lines == ["1 of 3 elements are not equal", "worst at (2,): got 9, wanted 2"]


def test_a_share_of_misses_may_be_allowed() -> None:
    wanted = torch.ones(100)
    got = wanted.clone()
    got[:4] = 2.0
    check = utils.make_match_reference(lambda data: wanted, rtol=0.1, atol=0.1, tol_err_ratio=0.05)
    assert check(None, got)[0]
    got[4:6] = 2.0
    assert not check(None, got)[0]
    assert not utils.match_reference(None, wanted[:99], lambda _: wanted, tol_err_ratio=1.0)[0]


def test_seeds_every_global_generator() -> None:
    import random

    import numpy

    drawn = []
    for _ in range(2):
        utils.set_seed(7)
        drawn.append((random.random(), numpy.random.rand(), torch.rand(1).item()))
    assert drawn[0] == drawn[1]


def test_contexts_restore_what_they_set() -> None:
    before = torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic
    for context in (utils.DisableCuDNNTF32, utils.DeterministicContext):
        with context():
            assert (torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic) == (False, True)
            assert torch.are_deterministic_algorithms_enabled() is (context is utils.DeterministicContext)
        assert (torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic) == before
        assert not torch.are_deterministic_algorithms_enabled()


def test_quantising_a_fake_tensor_takes_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """gen_submission.py --check has only shapes: a case of amd-moe-mxfp4 took it half a minute, piece by piece."""
    utils = load_reference("moe_mxfp4").utils
    signbit, pieces = torch.signbit, list[int]()

    def noted(part: torch.Tensor) -> torch.Tensor:
        pieces.append(len(part))
        return signbit(part)

    monkeypatch.setattr(torch, "signbit", noted)
    monkeypatch.setattr(utils, "MX_CHUNK_BLOCKS", 2)
    utils.mxfp4_quantize(torch.ones(8, 32))
    with fake_tensors():
        codes, scales = utils.mxfp4_quantize(torch.empty(8, 32))
    assert pieces == [2, 2, 2, 2, 8]
    assert (codes.shape, scales.shape) == ((8, 16), (8, 1))


@pytest.mark.parametrize("ties", ["even", "away"])
@pytest.mark.parametrize("bump_at", [1.5, 1.75])
def test_bf16_quantises_on_a_cpu_as_its_fp32_does(bump_at: float, ties: str) -> None:
    """Each number of seven binades below a block's largest, about each boundary, and what has no plain exponent."""
    every = torch.arange(1 << 15, dtype=torch.int16).view(torch.bfloat16)
    exponents = (*range(-126, -112), -64, -1, 0, 1, 64, *range(120, 128))
    for top in (2.0**e * m for e in exponents for m in (1, 1.4921875, 1.5, 1.7421875, 1.75, 1.9921875)):
        below = every[(every <= top) & (every >= top * 2**-7)]
        values = torch.cat([below, -below, torch.zeros(-2 * len(below) % 31, dtype=torch.bfloat16)]).view(-1, 31)
        blocks = torch.cat([values, torch.full((len(values), 1), top, dtype=torch.bfloat16)], dim=1)
        got, wanted = (utils.mxfp4_quantize(one, bump_at, ties) for one in (blocks, blocks.float()))
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(got, wanted)), top
    odd = (
        torch.randn(8, 64, dtype=torch.bfloat16) * torch.tensor([1, 0, 1e-38, 1e-40, 1, 1, 1, 1e38])[:, None].bfloat16()
    )
    odd[4, 3], odd[5, 4], odd[6, 5] = math.inf, math.nan, -math.inf
    got, wanted = (utils.mxfp4_quantize(one, bump_at, ties) for one in (odd, odd.float()))
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(got, wanted))


@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz]
)
def test_fp8_looked_up_is_fp8_converted(dtype: torch.dtype) -> None:
    every = torch.arange(256, dtype=torch.uint8).repeat(3)[torch.randperm(768)].view(dtype)
    for x in (every.view(3, 256), every.view(3, 256).T, every.view(2, 3, 128), every[1:], every.view(3, 256)[:, 1:]):
        got, wanted = utils.fp8_to_f32(x), x.float()
        assert got.stride() == wanted.stride() and torch.equal(got.view(torch.int32), wanted.view(torch.int32))


def test_large_16_bit_products_are_rounded_once_on_a_cpu() -> None:
    x, weight = torch.randn(300, 700, dtype=torch.bfloat16), torch.randn(400, 700, dtype=torch.bfloat16)
    assert x.numel() * len(weight) >= utils.SLOW_MACS
    wanted = x.double() @ weight.double().T
    assert ((utils.linear(x, weight).double() - wanted).abs() <= wanted.abs() * 2**-8 + 1e-4).all()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_beside_do_each_and_hand_on_what_goes_wrong(threads: int) -> None:
    generator, made = torch.Generator().manual_seed(3), torch.empty(40, 64)
    drawn = ((there, torch.randn(64, generator=generator)) for there in made)
    utils.beside(drawn, lambda one: one[0].copy_(one[1] * 2), threads)
    alone = torch.Generator().manual_seed(3)
    assert torch.equal(made, torch.stack([torch.randn(64, generator=alone) for _ in made]) * 2)
    with pytest.raises(ZeroDivisionError):
        utils.beside(iter([1, 0, 2]), lambda one: 1 // one, threads)


def test_experts_weights_are_the_same_from_any_number_of_threads() -> None:
    case = find_problem("amd-moe-mxfp4").smoke[0]
    reference, threads, made = load_reference("moe_mxfp4"), torch.get_num_threads(), []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            data = generate(reference, case)
            made.append([one.view(torch.uint8) for one in data if isinstance(one, torch.Tensor)])
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, two) for one, two in zip(*made, strict=True))
