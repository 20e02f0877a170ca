"""trimul: floors, inputs, the reference against its formula in double, what its probe tells apart."""

import copy
from typing import Any

import pytest
import torch

from forge.device.cards import peaks_of
from forge.task.problem import find_problem
from forge.task.score import work_of
from tests.support.reference_folders import generate, load_reference, relative_error
from tests.support.trimul_exact import exactly

trimul = load_reference("trimul")
CASE = {"seqlen": 21, "bs": 2, "dim": 24, "hiddendim": 16, "seed": 5, "nomask": False, "distribution": "normal"}


def test_floors_give_the_speed_of_light() -> None:
    """At 1307.4 TFLOP/s and 5.3 TB/s, in us."""
    problem = find_problem("trimul")
    work = [work_of(problem.floors, case, peaks_of("gfx942")) for case in problem.benchmarks]
    assert [one and one.light_us for one in work] == pytest.approx([26.3, 177, 76.3, 65.7, 368, 355, 683], rel=3e-3)


def test_inputs() -> None:
    x, mask, weights, config = generate(trimul, CASE)
    assert x.shape == (2, 21, 21, 24) and config == {"hidden_dim": 16, "dim": 24}
    assert mask.dtype == torch.int64 and mask.unique().tolist() == [0, 1] and 0.4 < mask.double().mean() < 0.6
    shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
    gates = dict.fromkeys(("left_gate.weight", "right_gate.weight", "out_gate.weight"), (16, 24))
    assert shapes == gates | {
        "norm.weight": (24,), "norm.bias": (24,), "left_proj.weight": (16, 24), "right_proj.weight": (16, 24),
        "to_out_norm.weight": (16,), "to_out_norm.bias": (16,), "to_out.weight": (24, 16),
    }  # fmt: skip
    again = generate(trimul, CASE)
    assert torch.equal(x, again[0]) and torch.equal(mask, again[1])  # but for the weights, which nobody seeds
    assert not torch.equal(weights["to_out.weight"], again[2]["to_out.weight"])
    for word in ("True", "False", True):  # as the leaderboard's harness hands it over
        ones = generate(trimul, CASE | {"nomask": word})[1]
        assert ones.dtype == torch.float32 and bool((ones == 1).all())
    assert generate(trimul, CASE | {"distribution": "cauchy"})[0].abs().max() > 100


@pytest.mark.parametrize("block_values", [1, 1 << 24])
def test_the_reference_is_the_formula(block_values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one block, and in as many as rows."""
    monkeypatch.setattr(trimul, "BLOCK_VALUES", block_values)
    data = generate(trimul, CASE)
    assert relative_error(trimul.ref_kernel(copy.deepcopy(data)), exactly(data)) < 1e-5


def test_verdicts() -> None:
    data = generate(trimul, CASE)
    out = trimul.ref_kernel(data)
    assert trimul.check_implementation(data, out.half())[0]  # the owners' check does not look at the dtype
    for share, good in ((0.8, True), (1.6, False)):
        other = out.clone()
        other[1, 2, 3, 4] += share * (0.02 + 0.02 * out[1, 2, 3, 4].abs())
        assert trimul.check_implementation(data, other)[0] is good


def test_the_probe_tells_what_leaves_something_out() -> None:
    limits = find_problem("trimul").precision
    assert limits.probe_rel_l2 is not None
    data = trimul.probe(generate(trimul, CASE | {"seqlen": 96, "nomask": True}))
    x, mask, weights, config = data
    assert mask.sum(-1).unique().tolist() == [16] and bool((mask[..., -1] == 1).all())
    wanted = trimul.ref_kernel(data)

    def error(mask: torch.Tensor, weights: dict[str, Any] = weights) -> float:
        return relative_error(trimul.ref_kernel((x, mask, weights, config)), wanted)

    without_last = mask.clone()
    without_last[..., -1] = 0
    half = {name: weight.half().float() for name, weight in weights.items()}
    assert error(mask, half) < limits.probe_rel_l2 / 10
    assert error(without_last) > 2 * limits.probe_rel_l2 and error(torch.ones_like(mask)) > 2 * limits.probe_rel_l2
    for columns in (1, 3):  # a single column is left, whatever there are
        few = trimul.probe(generate(trimul, CASE | {"seqlen": columns}))
        assert few[1].sum(-1).unique().tolist() == [1]
