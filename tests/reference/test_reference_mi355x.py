"""The three MI355X problems: MXFP4 and its layouts against their definitions, references, verdicts.

Values written out here were compared with the organisers' definitions over a stand-in for AMD's aiter that
follows aiter's own. Inputs were equal bit by bit, outputs too, those of mixed_mla to one rounding of bf16.
"""

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from forge.task.problem import ROOT, ProblemError, find_problem
from tests.support.reference_folders import generate, load_reference, relative_error

mxfp4_mm, mixed_mla, moe_mxfp4 = (load_reference(stem) for stem in ("mxfp4_mm", "mixed_mla", "moe_mxfp4"))
utils = mxfp4_mm.utils

MM = {"m": 5, "n": 48, "k": 192, "seed": 124}
MLA = {"batchsize": 2, "qseqlen": 1, "kvseqlen": 100, "seed": 4217}
MOE = {"dhidden": 256, "dexpert": 256, "nroutedexperts": 6, "nexpertspertoken": 2, "nsharedexperts": 1}
MOE |= {"bs": 5, "seed": 9371}

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


def byte_sums(*tensors: torch.Tensor) -> list[int]:
    return [int(as_bytes(t).long().sum()) for t in tensors]


# ---- the format, from its definition ---------------------------------------------------------------------


def nearest_code(value: float, ties: str) -> int:
    distance = [abs(one - abs(value)) for one in E2M1.tolist()]
    nearest = [code for code in range(8) if distance[code] == min(distance)]
    code = nearest[0] if len(nearest) == 1 or (ties == "even" and nearest[0] % 2 == 0) else nearest[1]
    return code + (8 if math.copysign(1, value) < 0 else 0)


@pytest.mark.parametrize("ties", ["even", "away"])
def test_codes_of_all_bf16_below_7_are_the_nearest(ties: str) -> None:
    magnitudes = torch.arange(0x40E0, dtype=torch.int16).view(torch.bfloat16)  # 0 ... 6.96875
    values = torch.cat([magnitudes, -magnitudes])
    values = torch.cat([values, values.new_zeros(-len(values) % 31)]).view(-1, 31)
    blocks = torch.cat([values, torch.full((len(values), 1), 4.0)], dim=1).bfloat16()  # 4 makes the scale 1
    codes, scales = utils.mxfp4_quantize(blocks, ties=ties)
    assert (scales == 127).all()
    unpacked = torch.stack([codes & 15, codes >> 4], dim=-1).view(blocks.shape)  # low nibble first
    distinct = blocks.unique()  # -0 and 0 are one here: looked at below
    wanted = {value: nearest_code(value, ties) for value in distinct.tolist() if value != 0}
    flat = [(v, c) for v, c in zip(blocks.flatten().tolist(), unpacked.flatten().tolist()) if v != 0]
    assert [c for _, c in flat] == [wanted[v] for v, _ in flat]


@pytest.mark.parametrize("bump_at", [1.75, 1.5])
def test_scales_of_all_positive_bf16(bump_at: float) -> None:
    amax = torch.arange(1, 0x7F80, dtype=torch.int16).view(torch.bfloat16)
    amax = amax[amax.float() >= 2.0**-124]  # below, aiter's quantisers differ in corners no input reaches
    blocks = torch.zeros((len(amax), 32), dtype=torch.bfloat16)
    blocks[:, 17] = -amax
    _, scales = utils.mxfp4_quantize(blocks, bump_at=bump_at)
    wanted = []
    for value in amax.tolist():
        mantissa, exponent = math.frexp(value)  # value = mantissa * 2**exponent, 0.5 <= mantissa < 1
        wanted.append(exponent - 1 - 2 + (2 * mantissa >= bump_at) + 127)
    assert scales.flatten().tolist() == wanted


def test_zeros_take_the_smallest_scale_and_keep_their_signs() -> None:
    zeros = torch.zeros((1, 32))
    zeros[0, 1::2] = -0.0
    codes, scales = utils.mxfp4_quantize(zeros)
    assert scales.tolist() == [[0]] and codes.tolist() == [[0x80] * 16]


def test_the_quantiser_takes_pieces_and_any_leading_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn((3, 5, 96), generator=torch.Generator().manual_seed(3)).bfloat16()
    codes, scales = utils.mxfp4_quantize(x)
    assert codes.shape == (3, 5, 48) and scales.shape == (3, 5, 3)
    monkeypatch.setattr(utils, "MX_CHUNK_BLOCKS", 7)
    again = utils.mxfp4_quantize(x)
    assert torch.equal(codes, again[0]) and torch.equal(scales, again[1])
    with pytest.raises(ValueError, match=r"multiple of 32 columns, got shape \(2, 33\)"):
        utils.mxfp4_quantize(torch.zeros(2, 33))


def test_every_byte_is_dequantised() -> None:
    codes = torch.arange(256, dtype=torch.uint8).view(16, 16)
    for scale in (0, 1, 100, 127, 140, 254):
        values = utils.mxfp4_dequantize(codes, torch.full((16, 1), scale, dtype=torch.uint8))
        signed = torch.cat([E2M1, -E2M1])
        wanted = torch.stack([signed[codes.long() % 16], signed[codes.long() // 16]], dim=-1).view(16, 32)
        assert torch.equal(values, (wanted * 2.0 ** (scale - 127)).float()), f"{scale=}"
    powers = utils.e8m0_to_f32(torch.arange(256, dtype=torch.uint8))
    assert powers[:255].tolist() == [2.0 ** (byte - 127) for byte in range(255)] and powers[255].isnan()


# ---- the two layouts, from their formulas ----------------------------------------------------------------


def test_weights_are_shuffled_by_the_formula() -> None:
    weights = torch.randint(0, 256, (3, 48, 96), dtype=torch.uint8)
    shuffled = utils.shuffle_weight(weights)
    n, kb = torch.meshgrid(torch.arange(48), torch.arange(96), indexing="ij")
    offset = ((((n // 16) * 3 + kb // 32) * 2 + kb // 16 % 2) * 16 + n % 16) * 16 + kb % 16
    assert sorted(offset.flatten().tolist()) == list(range(48 * 96))
    assert shuffled.shape == weights.shape and shuffled.is_shuffled
    assert torch.equal(shuffled.view(3, -1)[:, offset], weights)
    with pytest.raises(ValueError, match="tiles of 16 rows by 32 bytes, got 40 rows of 96 bytes"):
        utils.shuffle_weight(weights[:, :40])


@pytest.mark.parametrize(("rows", "columns"), [(256, 8), (300, 11), (37, 24)])
def test_scales_are_shuffled_by_the_formula(rows: int, columns: int) -> None:
    scales = torch.randint(1, 256, (rows, columns), dtype=torch.uint8)
    shuffled = utils.shuffle_scale(scales)
    padded = -(-columns // 8) * 8
    assert shuffled.shape == (-(-rows // 256) * 256, padded)
    r, c = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    offset = (((r // 32 * (padded // 8) + c // 8) * 4 + c % 4) * 16 + r % 16) * 2 + c // 4 % 2
    offset = offset * 2 + r // 16 % 2
    assert len(offset.unique()) == rows * columns
    assert torch.equal(shuffled.view(-1)[offset], scales)
    assert int(shuffled.count_nonzero()) == rows * columns  # the padding is zero


# ---- inputs ----------------------------------------------------------------------------------------------


def test_mxfp4_mm_inputs() -> None:
    a, b, b_q, b_shuffle, b_scale_sh = generate(mxfp4_mm, MM)
    assert a.dtype == b.dtype == torch.bfloat16 and a.shape == (5, 192) and b.shape == (48, 192)
    assert b_q.dtype == b_shuffle.dtype == torch.float4_e2m1fn_x2 and b_q.shape == b_shuffle.shape == (48, 96)
    assert b_scale_sh.dtype == torch.float8_e8m0fnu and b_scale_sh.shape == (256, 8)
    assert a[0, :4].tolist() == [-0.57421875, 0.25, 1.2109375, -1.0703125]
    assert b[-1, -4:].tolist() == [-0.1669921875, 0.181640625, 1.015625, -0.15625]
    assert as_bytes(b_q)[0, :8].tolist() == [218, 22, 161, 173, 218, 194, 90, 155]
    assert as_bytes(b_shuffle)[1, :8].tolist() == [195, 218, 217, 38, 74, 160, 155, 171]
    assert byte_sums(b_q, b_shuffle, b_scale_sh) == [543735, 543735, 36274]
    with pytest.raises(ValueError, match="n must be a multiple of 16 and k of 64, got n=40 k=192"):
        generate(mxfp4_mm, MM | {"n": 40})


def test_mixed_mla_inputs() -> None:
    q, kv_data, qo_indptr, kv_indptr, config = generate(mixed_mla, MLA)
    (fp8, fp8_scale), (mxfp4, mxfp4_scale) = kv_data["fp8"], kv_data["mxfp4"]
    assert q.shape == (2, 16, 576) and kv_data["bf16"].shape == fp8.shape == (200, 1, 576)
    assert mxfp4.shape == (200, 1, 288) and mxfp4_scale.shape == (256, 24) and fp8_scale.shape == (1,)
    assert [t.dtype for t in (q, fp8, fp8_scale, mxfp4, mxfp4_scale, qo_indptr, kv_indptr)] == [
        torch.bfloat16, torch.float8_e4m3fn, torch.float32, torch.float4_e2m1fn_x2, torch.float8_e8m0fnu,
        torch.int32, torch.int32,
    ]  # fmt: skip
    assert q[0, 0, :3].tolist() == [-0.431640625, 0.08984375, 0.53515625]
    assert kv_data["bf16"][0, 0, :3].tolist() == [-0.06298828125, 1.0703125, 0.1552734375]
    assert byte_sums(fp8, mxfp4, mxfp4_scale) == [19016998, 6776069, 453414]
    assert fp8_scale.item() == 0.01031494140625  # amax / 448, rounded to bf16
    assert qo_indptr.tolist() == [0, 1, 2] and kv_indptr.tolist() == [0, 100, 200]
    assert (config["sm_scale"], config["kv_seq_len"], len(config)) == (1 / 24, 100, 10)


def test_moe_mxfp4_inputs() -> None:
    data = generate(moe_mxfp4, MOE)
    assert [tuple(t.shape) for t in data[:-1]] == [
        (5, 256), (7, 512, 128), (7, 256, 128), (3584, 8), (1792, 8),
        (7, 512, 128), (7, 256, 128), (3584, 8), (1792, 8), (5, 3), (5, 3),
    ]  # fmt: skip
    assert byte_sums(*data[1:5]) == byte_sums(*data[5:9]) == [52522050, 26279580, 3500036, 1750052]
    assert data[9][0].tolist() == [0.337890625, 0.310546875, 1.0] and data[9].dtype == torch.float32
    assert data[10].tolist() == [[1, 5, 6], [3, 0, 6], [1, 5, 6], [4, 3, 6], [5, 2, 6]]
    assert data[10].dtype == torch.int32 and data[5].is_shuffled and data[6].is_shuffled
    padded = generate(moe_mxfp4, MOE | {"dhidden": 320, "dexpert": 64})
    assert [tuple(t.shape) for t in padded[:3]] == [(5, 320), (7, 512, 256), (7, 512, 128)]
    assert [padded[-1][key] for key in ("d_hidden_pad", "d_expert_pad", "total_top_k")] == [512, 256, 3]


# ---- references, in double precision from the quantised operands -----------------------------------------


def mxfp4_in_double(x: torch.Tensor, ties: str) -> torch.Tensor:
    return utils.mxfp4_dequantize(*utils.mxfp4_quantize(x, ties=ties)).double()


def test_mxfp4_mm_is_the_product_of_quantised_operands() -> None:
    data = generate(mxfp4_mm, MM)
    a, b, b_q, *_ = data
    weight = utils.mxfp4_dequantize(as_bytes(b_q), utils.mxfp4_quantize(b)[1]).double()
    out = mxfp4_mm.ref_kernel(data)
    assert torch.equal(out, (mxfp4_in_double(a, "even") @ weight.T).bfloat16())
    assert out[0, :4].tolist() == [10.75, -0.0625, 9.0, -7.3125]
    assert out[-1, -4:].tolist() == [13.75, 5.75, 8.25, -9.5]


@pytest.mark.parametrize("qseqlen", [1, 3])
def test_mixed_mla_is_causal_attention_in_fp8(qseqlen: int) -> None:
    data = generate(mixed_mla, MLA | {"qseqlen": qseqlen})
    q, kv_data, *_ = data
    amax = q.abs().max()
    scale = amax / 448
    q64 = (q / scale).to(torch.float8_e4m3fn).double() * scale.double()
    kv64 = (kv_data["fp8"][0].double() * kv_data["fp8"][1].double()).view(2, 100, 576)
    out = mixed_mla.ref_kernel(data)
    assert out.dtype == torch.bfloat16 and out.shape == (2 * qseqlen, 16, 512)
    for row in range(2 * qseqlen):
        tokens = kv64[row // qseqlen, : 100 - (qseqlen - 1 - row % qseqlen)]
        wanted = (q64[row] @ tokens.T / 24).softmax(-1) @ tokens[:, :512]
        assert relative_error(out[row], wanted) < 3e-3, f"{row=}"


def test_weights_are_the_same_drawn_in_pieces_and_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a GPU draws them, whose inputs a CPU's must have."""
    pieces = generate(moe_mxfp4, MOE)
    monkeypatch.setattr(moe_mxfp4, "on_host", lambda x: False)
    at_once = generate(moe_mxfp4, MOE)
    for one, other in zip(pieces[:-1], at_once[:-1]):
        assert one.shape == other.shape and torch.equal(one.view(torch.uint8), other.view(torch.uint8))


@pytest.mark.parametrize("sizes", [{}, {"dhidden": 320, "dexpert": 96}])
def test_moe_mxfp4_adds_the_experts_a_token_chose(sizes: dict[str, int]) -> None:
    data = generate(moe_mxfp4, MOE | sizes)
    hidden_states, gate_up, down, gate_up_scale, down_scale, *_, weights, ids, config = data
    d_hidden, d_expert, padded = config["d_hidden"], config["d_expert"], config["d_expert_pad"]
    scales = as_bytes(gate_up_scale).view(7, 2 * padded, -1), as_bytes(down_scale).view(7, len(down[0]), -1)
    x = mxfp4_in_double(hidden_states, "away")
    wanted = torch.zeros_like(x)
    for token in range(5):
        for weight, e in zip(weights[token].tolist(), ids[token].tolist()):
            w1 = utils.mxfp4_dequantize(as_bytes(gate_up[e]), scales[0][e]).double()[:, :d_hidden]
            w2 = utils.mxfp4_dequantize(as_bytes(down[e]), scales[1][e]).double()[:d_hidden, :d_expert]
            gate, up = w1[:d_expert] @ x[token], w1[padded : padded + d_expert] @ x[token]
            inner = (gate / (1 + (-gate).exp()) * up).float().bfloat16()
            wanted[token] += weight * (w2 @ mxfp4_in_double(inner, "away"))
    assert relative_error(moe_mxfp4.ref_kernel(data), wanted) < 3e-3
    if not sizes:
        assert moe_mxfp4.ref_kernel(data)[0, :3].tolist() == [0.216796875, 0.216796875, 0.306640625]


# ---- verdicts --------------------------------------------------------------------------------------------

# The leaderboard's rtol and atol, which are equal, and what share of the elements may miss them.
CASES: dict[str, tuple[Any, dict[str, Any], float, float]] = {
    "mxfp4_mm": (mxfp4_mm, MM, 0.01, 0.0),
    "mixed_mla": (mixed_mla, MLA, 0.1, 0.05),
    "moe_mxfp4": (moe_mxfp4, MOE, 0.05, 0.0),
}


@pytest.mark.parametrize("stem", CASES)
def test_verdicts(stem: str) -> None:
    module, case, tolerance, share = CASES[stem]
    data = generate(module, case)
    out = module.ref_kernel(data)

    def judge(output: Any) -> tuple[bool, str]:
        return module.check_implementation(data, output)

    def off_by(tolerances: float, elements: int) -> torch.Tensor:
        wrong = out.clone().view(-1)
        wrong[:elements] += tolerances * tolerance * (1 + wrong[:elements].abs())
        return wrong.view_as(out)

    free = int(share * out.numel())  # so many elements may be anything
    assert judge(out)[0] and judge(off_by(0.5, out.numel()))[0] and judge(off_by(2.0, free))[0]
    good, text = judge(off_by(2.0, free + 1))
    assert not good and text.startswith(f"{free + 1} of {out.numel()} elements differ")
    good, text = judge(torch.zeros_like(out))
    index = tuple(map(int, text.partition("worst at (")[2].partition(")")[0].split(",")))
    assert not good and f": got 0, wanted {out[index].item():.6g};" in text
    assert judge(out.float())[0]  # the owners' check does not look at the dtype
    assert judge(out[:1])[1].startswith("shape mismatch: got bfloat16[1, ")
    assert judge(None)[1].startswith("output is of type NoneType, wanted bfloat16[")
    assert not judge(out * float("nan"))[0]


@pytest.mark.parametrize("stem", ["mxfp4_mm", "moe_mxfp4"])
@pytest.mark.parametrize("other", ["ties", "bump", "unquantised"])
def test_another_quantisation_of_the_activations_fails(stem: str, other: str) -> None:
    module, case, *_ = CASES[stem]
    data = generate(module, case)
    right, wrong = ("even", "away") if stem == "mxfp4_mm" else ("away", "even")
    how: dict[str, Any] = {"ties": {"ties": wrong}, "bump": {"bump_at": 1.5, "ties": right}}

    def activations(x: torch.Tensor) -> torch.Tensor:
        if other == "unquantised":
            return x.float()
        return utils.mxfp4_dequantize(*utils.mxfp4_quantize(x, **how[other]))

    if stem == "mxfp4_mm":
        b = utils.mxfp4_dequantize(*utils.mxfp4_quantize(data[1]))
        out = (activations(data[0]) @ b.T).bfloat16()
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_mxfp4", activations)
            out = module.ref_kernel(data)
    good, text = module.check_implementation(data, out)
    missed = int(text.split()[0]) / out.numel()
    assert not good and missed > 0.2, text


def test_ties_go_away_from_zero_once_the_lowest_bit_of_fp32_is_set() -> None:
    """What the description of moe_mxfp4 advises for a conversion instruction that rounds ties to even."""
    x = torch.randn((64, 256), generator=torch.Generator().manual_seed(5)).bfloat16()
    away = utils.mxfp4_quantize(x, ties="away")
    nudged = (x.float().view(torch.int32) | 1).view(torch.float32)
    even = utils.mxfp4_quantize(nudged, ties="even")
    assert torch.equal(even[0], away[0]) and torch.equal(even[1], away[1])
    assert not torch.equal(utils.mxfp4_quantize(x, ties="even")[0], away[0])


def test_mixed_mla_passes_outputs_that_hardly_look_at_the_cache() -> None:
    """The official tolerance, reproduced as it is; the problem's description warns of it."""
    long = generate(mixed_mla, MLA | {"batchsize": 1, "kvseqlen": 8192})
    out = mixed_mla.ref_kernel(long)
    assert mixed_mla.check_implementation(long, torch.zeros_like(out))[0]
    short = generate(mixed_mla, MLA | {"batchsize": 4, "kvseqlen": 1024})
    out = mixed_mla.ref_kernel(short)
    assert not mixed_mla.check_implementation(short, torch.zeros_like(out))[0]
    scaled_q = short[0][..., :512] / 24
    assert mixed_mla.check_implementation(short, scaled_q)[0] and relative_error(scaled_q, out) > 0.7


@pytest.mark.parametrize("tokens", [256, 8192])
def test_the_probe_tells_each_cache_of_mixed_mla_from_what_leaves_something_out(tokens: int) -> None:
    data = generate(mixed_mla, MLA | {"batchsize": 1, "kvseqlen": tokens})
    q, kv, *_ = mixed_mla.probe(data)
    wanted = mixed_mla.ref_kernel(data)[0]
    codes, scales = (as_bytes(part)[:tokens] for part in kv["mxfp4"])
    bf16 = kv["bf16"][:, 0].float()
    caches = {
        "bf16": bf16,
        "fp8": kv["fp8"][0][:, 0].float() * kv["fp8"][1],
        "mxfp4": utils.mxfp4_dequantize(codes[:, 0], scales[:, :18]),
    }
    assert torch.equal(bf16, caches["mxfp4"]) and relative_error(caches["fp8"], bf16) < 2**-8
    assert sorted(bf16.abs().unique().tolist()) == [0.5, 1, 2]

    def error(cache: torch.Tensor, without: Any = (), columns: slice = slice(None), fp8: bool = False) -> float:
        scores = q[0, :, columns].float() @ cache[:, columns].T / 24
        scores[:, without] = -torch.inf
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        weights = weights.to(torch.float8_e4m3fn).float() if fp8 else weights
        return relative_error(weights / weights.sum(-1, keepdim=True) @ cache[:, :512], wanted)

    limit = find_problem("amd-mixed-mla").precision.probe_rel_l2
    assert limit is not None
    assert all(error(cache) < limit / 3 for cache in caches.values()) and error(caches["fp8"], fp8=True) < 0.6 * limit
    tenth, hundredth = tokens // 10, tokens // 100
    some = torch.randperm(tokens, generator=torch.Generator().manual_seed(1))
    parts = (slice(tenth), slice(tokens - tenth, None), slice(None, None, 10), some[:tenth], slice(tokens // 2, None))
    assert all(error(caches["mxfp4"], without=part) > 4 * limit for part in parts)
    assert tokens < 8192 or error(caches["mxfp4"], without=some[:hundredth]) > 1.3 * limit
    assert error(bf16, columns=slice(512)) > 4 * limit < error(bf16, columns=slice(544))  # without q's last ones
    assert error(bf16, columns=slice(512, None)) > 3 * limit  # and without its first
    assert relative_error(q[0, :, :512] / 24, wanted) > 4 * limit < relative_error(bf16[:, :512].mean(0), wanted)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("{rel_l2: 0.3, probe_rel_l2: 0.05}", "'probe_rel_l2' asks for 'input'"),
        ("{rel_l2: 0.3, input: 0, probe_rel_l2: 0}", "Expected `float` > 0.0 - at `..probe_rel_l2`"),
        ("{rel_l2: 0.3, input: 0, probe: 0.05}", "unknown key 'probe' "),
    ],
)
def test_what_a_problem_states_of_its_probe_is_looked_at(tmp_path: Path, stated: str, said: str) -> None:
    shutil.copytree(ROOT / "reference" / "mixed_mla", tmp_path / "mixed_mla")
    shutil.copy(ROOT / "reference" / "utils.py", tmp_path)
    task = tmp_path / "mixed_mla" / "task.yml"
    lines = [f"precision: {stated}" if line.startswith("precision:") else line for line in task.read_text().split("\n")]
    task.write_text("\n".join(lines))
    with pytest.raises(ProblemError, match=said):
        find_problem(tmp_path / "mixed_mla")
