"""Run by tests/kernels/test_moe_triton.py and test_moe_hip.py in a process prepared for an emulated GPU."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import cdna
from tests.support import checks as support
from tests.support.reference_folders import relative_error
from tests.support.spills import no_spills
from tests.support.table_rows import row_parameters

submission = support.load_submission()

# h, out and y are rounded to fp16, each to within 2^-11 of a value: three times 2^-11 / sqrt(3) in quadrature.
ROUNDING = 7e-4
IS_HIP = "TILE_ROWS" in submission.DEFAULT
ROUTINGS = ("nearly equal", "to one", "none to some", "any")
SMALL = {"BLOCK_M": 16, "GATE_N": 32, "DOWN_N": 32, "BLOCK_K": 32, "MFMA": 16, "num_warps": 2}
if IS_HIP:
    SMALL = {"TILE_ROWS": 128, "GROUP_ROWS": 2}


poisoned = support.poisoned


class Case:
    """Inputs whose routing does not hang on a rounding, and their exact output."""

    def __init__(
        self, batch: int, seq: int, experts: int, top_k: int, hidden: int = 64, inner: int = 64, shared: int = 1
    ) -> None:
        self.gen = torch.Generator().manual_seed(batch * seq + experts)
        self.weights = {"router.weight": self.normal(experts, hidden) / hidden**0.5}
        for name, width in {
            **{f"experts.{i}": inner for i in range(experts)},
            "shared_experts": inner * shared,
        }.items():
            self.weights[f"{name}.0.weight"] = self.normal(hidden, width) / hidden**0.5
            self.weights[f"{name}.1.weight"] = self.normal(hidden, width) / hidden**0.5
            self.weights[f"{name}.2.weight"] = self.normal(width, hidden) / width**0.5
        self.x = self.normal(batch, seq, hidden)
        self.config = {
            "d_hidden": hidden, "d_expert": inner, "n_routed_experts": experts, "n_shared_experts": shared,
            "n_experts_per_token": top_k, "batch_size": batch, "seq_len": seq,
        }  # fmt: skip
        while top_k < experts and (undecided := self.gap() < 0.01).any():
            self.x[undecided] = self.normal(int(undecided.sum()), hidden)

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self.gen).half()

    def logits(self) -> torch.Tensor:
        return self.x.double() @ self.weights["router.weight"].double().T

    def gap(self) -> torch.Tensor:
        """[batch, seq]: by how much the last chosen expert is ahead of the next one."""
        ordered = self.logits().sort(descending=True).values
        top_k = self.config["n_experts_per_token"]
        return ordered[..., top_k - 1] - ordered[..., top_k]

    def chosen(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(scores as fp16 holds them, experts), [batch, seq, top_k]; of equal scores those of the smallest indices."""
        scores = self.logits().half().double().softmax(-1).half()
        ordered = scores.sort(descending=True, stable=True)
        top_k = self.config["n_experts_per_token"]
        return ordered.values[..., :top_k], ordered.indices[..., :top_k]

    def expert(self, name: str) -> torch.Tensor:
        gate, up, down = (self.weights[f"{name}.{i}.weight"].double() for i in range(3))
        x = self.x.double()
        return (F.silu(x @ gate) * (x @ up)) @ down

    def output(self) -> torch.Tensor:
        """float64, rounded nowhere but where the choice of experts hangs on it."""
        scores, experts = self.chosen()
        y = self.expert("shared_experts")
        for i in range(self.config["n_routed_experts"]):
            share = (scores.double() * (experts == i)).sum(-1, keepdim=True)
            if share.any():
                y += share * self.expert(f"experts.{i}")
        return y

    def data(self) -> tuple[Any, ...]:
        return self.x.cuda(), {name: weight.cuda() for name, weight in self.weights.items()}, self.config

    def run(self, row: dict[str, Any] | None = None) -> torch.Tensor:
        with support.table_row(submission, {**submission.DEFAULT, **(row or {})}):
            return submission.custom_kernel(self.data()).cpu()


def assert_right(case: Case, row: dict[str, Any] | None = None) -> torch.Tensor:
    got, wanted = case.run(row), case.output()
    assert got.shape == wanted.shape and got.dtype == torch.float16
    assert relative_error(got, wanted) < ROUNDING, relative_error(got, wanted)  # NaN fails as well
    worst = (got.double() - wanted).norm(dim=-1) / wanted.norm(dim=-1)
    assert (worst < 3 * ROUNDING).all(), worst  # not a token
    return got


@pytest.mark.parametrize("batch,seq", support.differ((1, 1), (3, 5), (1, 17), alike=[(1, 16), (2, 30)]))
def test_numbers_of_tokens(batch: int, seq: int) -> None:
    assert_right(Case(batch, seq, experts=8, top_k=4), SMALL)


@pytest.mark.parametrize("experts,top_k", support.differ((1, 1), (32, 4), (63, 5), alike=[(3, 2), (4, 4)]))
def test_numbers_of_experts(experts: int, top_k: int) -> None:
    """With 32 and more most experts get no token or one."""
    assert_right(Case(1, 7, experts, top_k), SMALL)


@pytest.mark.parametrize("hidden,inner,shared", support.differ((16, 80, 1), (80, 32, 3), alike=[(112, 48, 1)]))
def test_widths_that_fit_no_tile(hidden: int, inner: int, shared: int) -> None:
    assert_right(Case(1, 9, 3, 2, hidden, inner, shared), SMALL)


@pytest.mark.parametrize("row", row_parameters(submission))
def test_rows_of_the_table(row: dict[str, Any]) -> None:
    """With a row more than a tile has for the shared expert, and more tile columns than one."""
    with no_spills("gate_up_kernel"):
        assert_right(Case(1, row["TILE_ROWS" if IS_HIP else "BLOCK_M"] + 1, 3, 2, 272, 144), row)


@pytest.mark.skipif(not IS_HIP, reason="the Triton variant has tiles of one height")
@pytest.mark.parametrize("tokens", [127, 129, 255, 300])
def test_tiles_of_both_heights(tokens: int) -> None:
    """Of the shared expert, and of one that half of the tokens choose."""
    assert_right(Case(1, tokens, 2, 1, 48, 144))


def test_all_tokens_to_one_expert() -> None:
    case = Case(1, 35, 5, 1)
    case.x[..., 0] = 4.0
    case.weights["router.weight"][:, 0] = torch.tensor([0.0, 0.0, 0.0, 2.0, 0.0])
    assert (case.chosen()[1] == 3).all()
    assert_right(case, SMALL)


def test_of_equal_scores_the_first_experts_are_chosen() -> None:
    """All equal, and two equal ones of which only one is chosen."""
    case = Case(1, 20, 8, 3)
    case.weights["router.weight"][:] = 0
    assert (case.chosen()[1] == torch.tensor([0, 1, 2])).all()
    assert_right(case, SMALL)
    case.weights["router.weight"][6] = case.weights["router.weight"][2] = 0.25
    case.x.abs_()
    assert (case.chosen()[1] == torch.tensor([2, 6, 0])).all()
    assert_right(case, SMALL)


@pytest.mark.parametrize("weight", [2e-6, 0.25])
def test_scores_that_fp16_makes_equal(weight: float) -> None:
    """An expert ahead by less than a step of fp16, of the score (logits of 0 and 1e-4) or of a logit of 13."""
    case = Case(1, 20, 8, 1)
    case.x.abs_()
    router = case.weights["router.weight"]
    router[:] = 0
    router[2] = weight if weight > 0.1 else 0
    router[6] = weight
    router[6, 0] += 2**-12 if weight > 0.1 else 0
    exactly = case.logits()
    assert (exactly.argmax(-1) == 6).all()
    assert (case.chosen()[1] == (2 if weight > 0.1 else 0)).all()
    assert_right(case, SMALL)


@pytest.mark.parametrize("seed", support.random_seeds(5 if IS_HIP else 1))
def test_random_shapes(seed: int) -> None:
    """Up to 300 tokens; experts without any, all tokens to one, scores that are nearly equal."""
    draw = random.Random(seed)
    experts = support.random_size(draw, 63)
    routing = ROUTINGS[seed % len(ROUTINGS)]
    top_k = 1 if routing == "to one" else draw.randint(1, min(experts, 8))
    hidden, expert = (16 * support.random_size(draw, 20) for _ in range(2))
    tokens, shared = support.random_size(draw, 300), min(draw.randint(1, 2), 64 - experts)
    case = Case(1, tokens, experts, top_k, hidden, expert, shared=shared)
    router, favoured = case.weights["router.weight"], draw.randrange(experts)
    if routing == "to one":
        case.x[..., 0] = 4
        router[:, 0] = 4 * (torch.arange(experts) == favoured)
        assert (case.chosen()[1] == favoured).all()
    elif routing == "none to some":
        case.x[..., 0] = 4
        router[:, 0] = -4.0 * (torch.arange(experts) >= max(top_k, experts // 2))
        while top_k < experts and (undecided := case.gap() < 0.01).any():
            case.x[undecided] = case.normal(int(undecided.sum()), hidden)
            case.x[..., 0] = 4
    elif routing == "nearly equal":  # exact in fp32, in steps of 2^-9 about 16, where fp16 has steps of 2^-6
        case.x = torch.randint(-2, 3, case.x.shape, generator=case.gen).half()
        router[:] = torch.randint(-1, 2, router.shape, generator=case.gen).half() * 2**-9
        case.x[..., 0], router[:, 0] = 4, 4
    row = {"TILE_ROWS": draw.choice([128, 256]), "GROUP_ROWS": draw.choice([1, 2, 8])} if IS_HIP else SMALL
    with cdna.device("gfx942", order_seed=seed):
        assert_right(case, row)


def test_an_expert_whose_weights_are_zero() -> None:
    case = Case(1, 12, 4, 2)
    for i in range(3):
        case.weights[f"experts.1.{i}.weight"][:] = 0
    assert_right(case, SMALL)


def test_a_nan_stays_in_its_token() -> None:
    case = Case(1, 20, 4, 2)
    case.x[0, 7, 3] = float("nan")
    out = case.run(SMALL)
    assert out[0, 7].isnan().all() and out.isnan().sum() == out.shape[-1]


def test_later_calls_only_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Case(1, 20, 4, 2).data()
    with support.table_row(submission, {**submission.DEFAULT, **SMALL}):
        support.assert_later_calls_only_launch(submission, data, launches=5)
        monkeypatch.setattr(submission, "plan_of", submission.Plan)
        with pytest.raises(AssertionError, match="aten.empty"):
            support.assert_later_calls_only_launch(submission, data, launches=5)


def test_calls_of_different_shapes_and_weights_in_turn() -> None:
    cases = [Case(1, 20, 4, 2), Case(2, 20, 4, 2), Case(1, 20, 4, 2)]
    first = [assert_right(case, SMALL) for case in cases]
    cases[2].weights["experts.0.2.weight"].neg_()
    cases[2].weights["shared_experts.2.weight"].neg_()
    again = [assert_right(case, SMALL) for case in cases]
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1]) and not torch.equal(first[2], again[2])


def test_the_order_of_workgroups_changes_nothing() -> None:
    case = Case(1, 40, 5, 3)
    first = case.run(SMALL)
    for seed in range(1, 4):
        with cdna.device("gfx942", order_seed=seed):
            assert torch.equal(case.run(SMALL), first)


def test_an_error_is_noticed() -> None:
    """The comparison itself: a score that is a step of fp16 off."""
    case = Case(1, 9, 4, 2)
    wanted = case.output()
    case.weights["router.weight"] *= 1.01
    with pytest.raises(AssertionError):
        case.output = lambda: wanted  # type: ignore[method-assign]
        assert_right(case, SMALL)


def test_weights_changed_in_place_are_checked_again() -> None:
    """What was checked in one call is not in the next one where a tensor has moved or its place is another's."""
    case = Case(1, 20, 4, 2)
    data = case.data()
    submission.custom_kernel(data)
    up = data[1]["experts.2.1.weight"]
    up.data = up.data.clone().neg_()
    case.weights["experts.2.1.weight"] = case.weights["experts.2.1.weight"].neg()
    assert relative_error(submission.custom_kernel(data).cpu(), case.output()) < ROUNDING
    data[1]["experts.2.1.weight"] = up[:32]
    with pytest.raises(ValueError, match="experts.2.1.weight must have the shape"):
        submission.custom_kernel(data)


def test_refused_before_anything_is_launched() -> None:
    case = Case(1, 4, 3, 2)
    x, weights, config = case.data()

    def changed(**changes: int) -> tuple[Any, ...]:
        return x, weights, {**config, **changes}

    def with_weight(name: str, weight: Any) -> tuple[Any, ...]:
        return x, {key: w for key, w in {**weights, name: weight}.items() if w is not None}, config

    up, down = weights["experts.1.1.weight"], weights["shared_experts.2.weight"]
    askew = torch.zeros(64 * 64 + 1, dtype=torch.float16, device="cuda")[1:].view(64, 64)
    support.assert_refused(lambda data: submission.custom_kernel(data), {}, {
        "data: x must have the shape (1, 4, 64), got (1, 3, 64)": (x[:, :3].contiguous(), weights, config),
        "data: x must be torch.float16, got torch.float32": (x.float(), weights, config),
        "data: x must be on a GPU, got cpu": (x.cpu(), weights, config),
        "data: x must be contiguous": (x.mT.contiguous().mT, weights, config),
        "data: weights lack experts.1.1.weight": with_weight("experts.1.1.weight", None),
        "data: experts.1.1.weight must be torch.float16": with_weight("experts.1.1.weight", up.bfloat16()),
        "data: experts.1.1.weight must be contiguous": with_weight("experts.1.1.weight", up.T),
        "data: experts.1.1.weight must be on cuda:0": with_weight("experts.1.1.weight", up.cpu()),
        "data: shared_experts.2.weight must have the shape": with_weight("shared_experts.2.weight", down[:32]),
        "data: shared_experts.2.weight must begin at a multiple of 16": with_weight("shared_experts.2.weight", askew),
        "data: router.weight must have the shape (4, 64), got (3, 64)": changed(n_routed_experts=4),
        "data: at most 64 experts, shared ones included, got n_routed=64": changed(n_routed_experts=64),
        "data: 1 <= top k <= experts and a shared expert expected, got top_k=4": changed(n_experts_per_token=4),
        "data: got top_k=0, n_routed=3, n_shared=1": changed(n_experts_per_token=0),
        "data: got top_k=2, n_routed=3, n_shared=0": changed(n_shared_experts=0),
        "data: multiples of 16 and matrices below 2^31 elements expected, got d_hidden=72": changed(d_hidden=72),
        "data: x must have 1 to 2^31 - 1 elements, got (1, 0, 64)": (x[:, :0], weights, {**config, "seq_len": 0}),
    })  # fmt: skip


if __name__ == "__main__":
    support.main(__file__)
