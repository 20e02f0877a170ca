"""What references offer for calls with other data: an input made of another, and rows that depend on no other."""

import copy
from typing import Any

import pytest
import torch

from tests.support.reference_folders import generate, load_reference, relative_error

MLA = {"batchsize": 12, "qseqlen": 2, "kvseqlen": 130, "seed": 5}
MOE = {"dhidden": 512, "dexpert": 384, "nroutedexperts": 16, "nexpertspertoken": 4, "nsharedexperts": 1}
MOE |= {"bs": 24, "seed": 3}
CASES = {"mla_decode": {"batchsize": 12, "dim": 256, "dq": 128, "prefill": 40, "seed": 3}}
CASES |= {"mixed_mla": MLA, "moe_mxfp4": MOE, "fp8_mm": {"m": 40, "n": 136, "k": 384, "seed": 3}}
ROUTED = {"dhidden": 128, "dexpert": 64, "nroutedexperts": 16, "nsharedexperts": 1, "nexpertspertoken": 4}
ROUTED |= {"bs": 2, "seqlen": 24, "seed": 3}
CASES |= {"moe": ROUTED}


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


def choose_five(of: int, what: str) -> torch.Tensor:
    return torch.randperm(of)[:5].sort().values


@pytest.mark.parametrize("stem", CASES)
def test_the_reference_of_a_part_is_that_part_of_the_reference(stem: str) -> None:
    module = load_reference(stem)
    data = generate(module, CASES[stem])
    whole = module.ref_kernel(copy.deepcopy(data))
    few, wanted = module.part(copy.deepcopy(data), whole, choose_five)
    got = module.ref_kernel(copy.deepcopy(few))
    for mine, theirs in zip(*((one if isinstance(one, tuple) else (one,)) for one in (got, wanted))):
        assert mine.numel() // mine.size(-1) >= 5 and relative_error(mine, theirs) < 1e-3
    verdict = module.check_implementation(few, wanted)
    assert verdict == "" or verdict[0] is True


def test_redrawn_caches_agree_and_no_request_keeps_its_own() -> None:
    module = load_reference("mixed_mla")
    data = generate(module, MLA)
    q, kv_data, *_ = module.redraw(copy.deepcopy(data))
    kv = kv_data["bf16"]
    for quantize, form in ((module.quantize_fp8, "fp8"), (module.quantize_mxfp4, "mxfp4")):
        assert all(torch.equal(bits(a), bits(b)) for a, b in zip(quantize(kv), kv_data[form]))
    before = data[1]["bf16"].view(12, -1)
    assert not (kv.view(12, -1) == before).all(dim=1).any() and not torch.equal(q, data[0])
    assert torch.equal(kv.view(12, -1).sum(dim=1).sort().values, before.sum(dim=1).sort().values)


def test_redrawn_experts_agree_in_all_their_orders() -> None:
    module = load_reference("moe_mxfp4")
    data: Any = generate(module, MOE)
    made = module.redraw(copy.deepcopy(data))
    shuffle_weight, shuffle_scale = module.utils.shuffle_weight, module.utils.shuffle_scale
    assert all(torch.equal(shuffle_weight(bits(made[i])), bits(made[i + 4])) for i in (1, 2))
    assert all(torch.equal(shuffle_scale(bits(made[i])), bits(made[i + 4])) for i in (3, 4))
    other = {i for i in range(17) if not torch.equal(bits(made[1][i]), bits(data[1][i]))}
    assert 16 in other and 2 <= len(other) <= 3  # the shared one, and of 16 routed ones at most an eighth
    assert other - {16} <= set(made[10].unique().tolist()) and not torch.equal(made[0], data[0])


def test_redrawn_layers_have_other_tokens_and_some_other_weights() -> None:
    module = load_reference("moe")
    x, weights, _ = data = generate(module, ROUTED)
    made, others, _ = module.redraw(copy.deepcopy(data))
    changed = {name.rsplit(".", 2)[0] for name in weights if not torch.equal(others[name], weights[name])}
    assert {"router.weight".rsplit(".", 2)[0], "shared_experts"} < changed and len(changed) == 4  # and 2 of 16
    spread = [(others[name].float().std() / weights[name].float().std()).item() for name in weights]
    assert 0.8 < min(spread) and max(spread) < 1.25 and not torch.equal(made, x)
