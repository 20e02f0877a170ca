"""Run by test_mla_decode_triton.py and test_mla_decode_hip.py in a process prepared for an emulated GPU."""

from __future__ import annotations

import functools
import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import cdna
from tests.support import checks as support
from tests.support.reference_folders import load_reference, relative_error
from tests.support.spills import no_spills
from tests.support.table_rows import row_parameters

submission = support.load_submission()
reference = load_reference("mla_decode")

# Six roundings to bf16 stand between x and y (q's latent, queries twice, weights of keys, means, values), and y's own,
# each 2^-9 / sqrt(3) in the root of the mean square. The reference itself is off by 0.003 to 0.006 on these inputs.
ROUNDING = 6e-3
IS_HIP = "BLOCK_H" not in submission.DEFAULT
SMALL = {"BLOCK_M": 16, "HEAD_M": 16, "LINEAR_N": 32, "LINEAR_K": 32, "SPLIT_Q": 1, "SPLIT_KV": 2, "SPLIT_OUT": 3,
         "QUERY_K": 32, "BLOCK_H": 16, "BLOCK_N": 16, "SPLITS": 2, "num_warps": 1}  # fmt: skip
WIDTHS = {"heads": 32, "latent": 64, "rope": 32, "nope": 32, "value": 64}
if IS_HIP:  # it has no others
    SMALL = {"SPLIT_DOWN": 2, "SPLIT_OUT": 3}
    WIDTHS = {"heads": 128, "latent": 512, "rope": 64, "nope": 128, "value": 128}
only_hip = pytest.mark.skipif(not IS_HIP, reason="of the HIP variant")
only_triton = pytest.mark.skipif(IS_HIP, reason="of the Triton variant")


poisoned = support.poisoned


class Case:
    """A step after `cached` tokens; what the cache has no token for is NaN."""

    def __init__(
        self,
        batch: int,
        cached: int,
        capacity: int = 0,
        dim: int = 72,  # no multiple of a tile
        rank: int = 48,
        heads: int = WIDTHS["heads"],
        latent: int = WIDTHS["latent"],
        rope: int = WIDTHS["rope"],
        nope: int = WIDTHS["nope"],
        value: int = WIDTHS["value"],
    ) -> None:
        self.gen = torch.Generator().manual_seed(100 * cached + batch)
        self.x = self.normal(batch, 1, dim)
        self.cache = torch.full((batch, capacity or cached + 5, latent + rope), torch.nan, dtype=torch.bfloat16)
        self.cache[:, :cached] = self.normal(batch, cached, latent + rope)
        self.cached = cached
        self.config = SimpleNamespace(
            batch_size=batch, dim=dim, n_heads=heads, q_lora_rank=rank, kv_lora_rank=latent, qk_nope_head_dim=nope,
            qk_rope_head_dim=rope, v_head_dim=value,
            Q_proj_down_weight=self.weight(rank, dim), Q_proj_up_weight=self.weight(heads * (nope + rope), rank),
            KV_proj_down_weight=self.weight(latent + rope, dim),
            KV_proj_up_weight=up_weight(heads * (nope + value), latent)[0], wo_weight=self.weight(dim, heads * value),
        )  # fmt: skip

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self.gen).bfloat16()

    def weight(self, rows: int, columns: int) -> torch.Tensor:
        return self.normal(rows, columns) / columns**0.5

    def new_latent(self) -> torch.Tensor:
        """float64 [batch, latent + rope]"""
        return self.x[:, 0].double() @ self.config.KV_proj_down_weight.double().T

    def output(self, cache: torch.Tensor) -> torch.Tensor:
        """float64 y on a filled cache; keys' rotation as the reference rounds it, else rounded nowhere."""
        config, length = self.config, self.cached + 1
        heads, nope, rope = config.n_heads, config.qk_nope_head_dim, config.qk_rope_head_dim
        latent = config.kv_lora_rank
        q = self.x[:, 0].double() @ config.Q_proj_down_weight.double().T @ config.Q_proj_up_weight.double().T
        q = q.view(-1, heads, nope + rope)
        cos, sin = rotation(self.cached, rope)
        q_rope = q[..., nope:]
        q_rope = q_rope * cos + torch.cat((-q_rope[..., rope // 2 :], q_rope[..., : rope // 2]), -1) * sin
        up = up_weight(*config.KV_proj_up_weight.shape)[1].view(heads, -1, latent)
        key_up, value_up = up.split([nope, config.v_head_dim], 1)
        latents = cache[:, :length, :latent].double()
        k_rope = reference._rope(cache[:, :length, latent:], first=0).double()
        of_latents = torch.einsum("bhk,hkl->bhl", q[..., :nope], key_up)  # less work than the keys of all heads
        scores = torch.einsum("bhl,bnl->bhn", of_latents, latents) + torch.einsum("bhr,bnr->bhn", q_rope, k_rope)
        p = (scores / (nope + rope) ** 0.5).softmax(-1)
        values = torch.einsum("bhn,bnl,hvl->bhv", p, latents, value_up)
        return values.flatten(1)[:, None] @ config.wo_weight.double().T

    def data(self) -> tuple[Any, ...]:
        weights = {name: w.cuda() if isinstance(w, torch.Tensor) else w for name, w in vars(self.config).items()}
        return (
            SimpleNamespace(**weights),
            self.x.cuda(),
            SimpleNamespace(data=self.cache.clone().cuda(), seq_len=self.cached),
        )

    def run(self, row: dict[str, Any] | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """(y, the cache)"""
        data = self.data()
        key = (len(self.x), self.config.dim, self.config.q_lora_rank)
        with support.table_row(submission, submission.DEFAULT):
            if row is not None:
                submission.TUNING[key] = row
            y, cache = submission.custom_kernel(data)
        assert cache is data[2].data and data[2].seq_len == self.cached + 1
        return y.cpu(), cache.cpu()


@functools.cache
def up_weight(rows: int, latent: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of keys and values, in bf16 and float64: the same in all cases, for it may hold 17 million numbers."""
    weight = torch.randn((rows, latent), generator=torch.Generator().manual_seed(rows)).bfloat16() / latent**0.5
    return weight, weight.double()


def rotation(position: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """float64 cosines and sines [width] of one position, as the reference rounds them: what it makes of (1, 0)."""
    low = torch.arange(width)[None] < width // 2
    cos, sin = reference._rope(low.bfloat16(), position)[0].double().view(2, -1)
    return cos.repeat(2), sin.repeat(2)


def assert_right(case: Case, row: dict[str, Any] | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    y, cache = case.run(row)
    assert y.shape == case.x.shape and y.dtype == torch.bfloat16
    # not torch.testing's assert_close, which imports torch.distributed.tensor and sympy
    assert torch.allclose(cache[:, case.cached].double(), case.new_latent(), rtol=2**-8, atol=2**-12)
    cache_before = case.cache.clone()
    cache_before[:, case.cached] = cache[:, case.cached]
    assert torch.equal(cache.view(torch.int16), cache_before.view(torch.int16))  # the rest is as it was
    wanted = case.output(cache)
    # Of n outputs the root of their mean square is off by 1 / sqrt(2 n) itself: a case of 48 came to 0.00601, where the
    # same roundings in float64 leave 0.0051 and the reference is off by 0.0084.
    limit = ROUNDING * (1 + y.numel() ** -0.5)
    assert relative_error(y, wanted) < limit, relative_error(y, wanted)  # NaN fails as well
    return y, cache


@pytest.mark.parametrize("cached", support.differ(0, 15, 33, alike=[1, 14, 16, 70]))
def test_lengths(cached: int) -> None:
    """Of less than a block of keys, of blocks and one more; with one block only one of the two splits has one."""
    assert_right(Case(2, cached), SMALL)


MORE_THAN_A_TILE = pytest.param(131, marks=only_hip)  # of rows


@pytest.mark.parametrize("batch", support.differ(1, 17, MORE_THAN_A_TILE, alike=[8]))
def test_batches(batch: int) -> None:
    assert_right(Case(batch, 20), SMALL)


@only_hip
@pytest.mark.parametrize("workgroups", support.differ(1, 5, 9, alike=[2]))
def test_shares_of_the_tokens(workgroups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 15 tiles of 3 requests: several requests of a workgroup, a part of one, or up to 4 workgroups of a request."""
    monkeypatch.setattr(submission, "COMPUTE_UNITS", workgroups)
    submission.plan_of.cache_clear()
    assert_right(Case(3, 75))
    submission.plan_of.cache_clear()


@only_triton
@pytest.mark.parametrize("splits", [1, 3])
def test_splits(splits: int) -> None:
    assert_right(Case(2, 75), {**SMALL, "SPLITS": splits})


def test_sizes() -> None:
    """A rank and a width that are no multiples of a block of k, more heads, wider latents."""
    widths = {} if IS_HIP else {"heads": 64, "latent": 128, "rope": 64, "nope": 64, "value": 32}
    assert_right(Case(3, 21, dim=200, rank=112, **widths), SMALL)


@pytest.mark.parametrize("row", row_parameters(submission))
def test_rows_of_the_table(row: dict[str, Any]) -> None:
    """With more requests than a quarter of a tile, and the model's own widths of a head."""
    batch, heads = (3, 128) if IS_HIP else (row["BLOCK_M"] // 4 + 1, 64)
    case = Case(batch, 66, 70, 64, 64, heads, latent=512, rope=64, nope=128, value=128)
    with no_spills("attention_kernel"):
        assert_right(case, row)


@only_triton
def test_what_the_default_chooses() -> None:
    case = Case(2, 40)
    assert submission.tuning_row(case.data()) == {**submission.DEFAULT, "SPLITS": 152}  # two workgroups without splits
    assert_right(case)
    wide = Case(400, 1, dim=32)
    assert submission.tuning_row(wide.data())["SPLITS"] == 1


@only_triton
def test_the_rotation_is_the_references_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """At all positions: beyond 256 they are bf16 and far from exact."""
    written: list[Any] = []

    def noted_plan(*shape: Any) -> Any:
        written.append(submission.Plan(*shape))
        return written[-1]

    monkeypatch.setattr(submission, "plan_of", noted_plan)
    case = Case(1, 8191, 8192, heads=32)
    _, cache = assert_right(case, {**SMALL, "BLOCK_N": 64, "SPLITS": 4, "num_warps": 4})
    rotated = written[-1].rope
    wanted = reference._rope(cache[..., case.config.kv_lora_rank :], first=0)
    assert torch.equal(rotated.cpu().view(torch.int16), wanted.view(torch.int16))


@pytest.mark.parametrize("seed", support.random_seeds(4 if IS_HIP else 1))
def test_random_shapes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to 8 requests and 1000 tokens, some at the cache's end, shared out among any number of workgroups."""
    draw = random.Random(seed)
    batch, cached = draw.randint(1, 8), support.random_size(draw, 1000) - 1
    dim, rank = 8 * support.random_size(draw, 40), 16 * support.random_size(draw, 12)
    row = SMALL
    if IS_HIP:
        monkeypatch.setattr(submission, "COMPUTE_UNITS", support.random_size(draw, 304))
        submission.plan_of.cache_clear()
        row = {"SPLIT_DOWN": draw.randint(1, -(-dim // 64)), "SPLIT_OUT": draw.randint(1, 11)}
    with cdna.device("gfx942", order_seed=seed):
        assert_right(Case(batch, cached, cached + draw.choice([1, 1, 7, 64]), dim, rank), row)
    submission.plan_of.cache_clear()


def test_later_calls_only_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though each is a token longer than the one before."""
    data, launches = Case(2, 13, 40).data(), 6 if IS_HIP else 7
    with support.table_row(submission, SMALL):
        support.assert_later_calls_only_launch(submission, data, launches)
        monkeypatch.setattr(submission, "plan_of", submission.Plan)
        with pytest.raises(AssertionError, match="aten.empty"):
            support.assert_later_calls_only_launch(submission, data, launches)


def test_step_after_step() -> None:
    """The same cache, appended to; lengths cross a block of keys, and the number of splits changes."""
    case = Case(2, 13, 40)
    for _ in range(6):
        _, case.cache = assert_right(case, SMALL)
        case.cached += 1


def test_one_key_may_take_all_the_weight() -> None:
    """Wherever it stands: the others' shares vanish, in the other split as well."""
    for place in (0, 20, 40):
        case = Case(1, 40)
        case.cache[:, :40] *= 0.1
        case.cache[0, place] *= 100
        assert_right(case, SMALL)


def test_a_nan_stays_in_its_request() -> None:
    case = Case(3, 40)
    case.cache[1, 7, 5] = torch.nan
    y, _ = case.run(SMALL)
    assert y[[0, 2]].isfinite().all() and y[1].isnan().all()


def test_the_order_of_workgroups_changes_nothing() -> None:
    case = Case(3, 50)
    first = case.run(SMALL)
    for seed in range(1, 4):
        with cdna.device("gfx942", order_seed=seed):
            again = case.run(SMALL)
        assert all(torch.equal(a.view(torch.int16), b.view(torch.int16)) for a, b in zip(again, first))


@only_hip
def test_the_last_position_of_a_cache() -> None:
    """And the keys' rotation far beyond position 256, where it is no exact one."""
    assert_right(Case(1, 1023, 1024))


def test_refused_before_anything_is_launched() -> None:
    case = Case(2, 9, 10)
    config, x, cache = case.data()

    def changed(**changes: Any) -> tuple[Any, ...]:
        return SimpleNamespace(**{**vars(config), **changes}), x, cache

    def cached(data: torch.Tensor, seq_len: int = 9) -> tuple[Any, ...]:
        return config, x, SimpleNamespace(data=data, seq_len=seq_len)

    up, out = config.KV_proj_up_weight, config.wo_weight
    width = cache.data.shape[2]
    wide = torch.zeros(2, 10, width + 8, dtype=torch.bfloat16, device="cuda")
    size = {name: str(WIDTHS[name]) if IS_HIP else "a power of two and at least 32" for name in WIDTHS}
    support.assert_refused(lambda data: submission.custom_kernel(data), {}, {
        "data: the cache is full: it holds 10 tokens, this would be number 11": cached(cache.data, 10),
        "data: it holds 10 tokens, this would be number 0": cached(cache.data, -1),
        f"data: kv_cache.data must have the shape (2, 10, {width}), got (1, 10, {width})": cached(cache.data[:1]),
        "data: kv_cache.data must be torch.bfloat16, got torch.float16": cached(cache.data.half()),
        "data: kv_cache.data must be contiguous": cached(wide[..., :width]),
        "data: kv_cache.data must be on cuda:0": cached(cache.data.cpu()),
        "data: x [batch, 1, dim] of at least one request expected, got (2, 2, 72)": (config, x.expand(2, 2, 72), cache),
        "data: of at least one request expected, got (0, 1, 72)": (config, x[:0], cache),
        "data: x must be torch.bfloat16, got torch.float32": (config, x.float(), cache),
        "data: x must have the shape (2, 1, 72), got (2, 1, 64)": (config, x[..., :64], cache),
        "data: x must be on a GPU, got cpu": (config, x.cpu(), cache),
        "data: KV_proj_up_weight must be torch.bfloat16": changed(KV_proj_up_weight=up.half()),
        "data: KV_proj_up_weight must have the shape": changed(KV_proj_up_weight=up[1:]),
        "data: wo_weight must be contiguous": changed(wo_weight=out.T.contiguous().T),
        "data: wo_weight must be on cuda:0": changed(wo_weight=out.cpu()),
        f"data: n_heads must be {size['heads']}, got 48": changed(n_heads=48),
        f"data: kv_lora_rank must be {size['latent']}, got 16": changed(kv_lora_rank=16),
        f"data: qk_rope_head_dim must be {size['rope']}, got 0": changed(qk_rope_head_dim=0),
        "data: q_lora_rank must be a multiple of 16, got 36": changed(q_lora_rank=36),
    })  # fmt: skip
    assert cache.seq_len == 9


if __name__ == "__main__":
    support.main(__file__)
