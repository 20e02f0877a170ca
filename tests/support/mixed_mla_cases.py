"""Small requests of amd-mixed-mla for tests of its variants."""

from collections.abc import Callable
from typing import Any

import torch

from tests.support.mxfp4_values import exact
from tests.support.reference_folders import load_reference

Refused = dict[str, tuple[int, Callable[[Any], Any], str]]
reference = load_reference("mixed_mla")


class MlaCase:
    """Requests of given numbers of tokens and queries."""

    # The output's rounding to bf16, and the probabilities'; of HIP q and the probabilities are pairs of fp8, 2^-8 of a
    # value at the worst. Of the official tolerance zeros would pass at 8192 tokens.
    ROUNDING = 4e-3

    def __init__(self, tokens: list[int], queries: list[int] | None = None, q_seq_len: int = 1, seed: int = 0) -> None:
        gen = torch.Generator().manual_seed(seed)
        queries = queries or [q_seq_len] * len(tokens)
        self.q = torch.randn((q_seq_len * len(tokens), 16, 576), generator=gen).bfloat16()
        self.kv = torch.randn((sum(tokens), 1, 576), generator=gen).bfloat16()
        self.fp8 = reference.quantize_fp8(self.kv) if sum(tokens) else (self.kv.to(torch.float8_e4m3fn), torch.ones(1))
        codes, scales = reference.quantize_mxfp4(self.kv)
        self.fp4 = codes.view(torch.uint8), scales.view(torch.uint8)
        self.fp4[1][:, 18:] = 255  # not to be used: NaN
        self.qo_indptr, self.kv_indptr = (
            torch.tensor([0, *torch.tensor(counts).cumsum(0)], dtype=torch.int32) for counts in (queries, tokens)
        )
        self.config = {
            "batch_size": len(tokens), "num_heads": 16, "num_kv_heads": 1, "qk_head_dim": 576, "v_head_dim": 512,
            "q_seq_len": q_seq_len, "kv_seq_len": max(tokens), "sm_scale": 576**-0.5,
        }  # fmt: skip

    def data(self) -> tuple[Any, ...]:
        return (
            self.q,
            {"bf16": self.kv, "fp8": self.fp8, "mxfp4": self.fp4},
            self.qo_indptr,
            self.kv_indptr,
            self.config,
        )

    def wanted(self, row: dict[str, Any] | None = None) -> torch.Tensor:
        return self.attention(row["KV"] if row else "fp8")

    def attention(self, cache: str = "fp8") -> torch.Tensor:
        """float64 [queries, 16, 512] on the cache as it is stored; zeros for what sees no token."""
        if cache == "mxfp4":
            kv = exact(self.fp4[0], self.fp4[1][: len(self.kv), None, :18])
        else:
            kv = self.kv.double() if cache == "bf16" else self.fp8[0].double() * self.fp8[1].double()
        out = torch.zeros((len(self.q), 16, 512), dtype=torch.float64)
        for request in range(len(self.kv_indptr) - 1):
            tokens = kv[self.kv_indptr[request] : self.kv_indptr[request + 1], 0]
            first, end = self.qo_indptr[request].item(), self.qo_indptr[request + 1].item()
            for query in range(first, end):
                seen = tokens[: max(0, len(tokens) - (end - 1 - query))]
                if len(seen):
                    scores = self.q[query].double() @ seen.T * self.config["sm_scale"]
                    out[query] = scores.softmax(-1) @ seen[:, :512]
        return out


Q, KV, QO_INDPTR, CONFIG = 0, 1, 2, 4
# A part of MlaCase([10, 10]).data(), what to make of it, and what the error must say.
REFUSED: Refused = {
    "q is fp16": (Q, lambda q: q.half(), "q must be torch.bfloat16, got torch.float16"),
    "a query is missing": (Q, lambda q: q[:1], "q must have the shape (2, 16, 576), got (1, 16, 576)"),
    "q has gaps": (Q, lambda q: q.transpose(0, 1).contiguous().transpose(0, 1), "q must be contiguous"),
    "cache of 512 columns": (
        KV,
        lambda kv: {"fp8": (kv["fp8"][0][:, :, :512].contiguous(), kv["fp8"][1])},
        'kv_data["fp8"][0] must have the shape (20, 1, 576), got (20, 1, 512)',
    ),
    "fp8 of another kind": (
        KV,
        lambda kv: {"fp8": (kv["fp8"][0].view(torch.float8_e4m3fnuz), kv["fp8"][1])},
        'kv_data["fp8"][0] must be torch.float8_e4m3fn, got torch.float8_e4m3fnuz',
    ),
    "scale in bf16": (
        KV,
        lambda kv: {"fp8": (kv["fp8"][0], kv["fp8"][1].bfloat16())},
        'kv_data["fp8"][1] must be torch.float32',
    ),
    "int64 offsets": (QO_INDPTR, lambda x: x.long(), "qo_indptr must be torch.int32, got torch.int64"),
    "offsets of one request": (QO_INDPTR, lambda x: x[:2], "qo_indptr must have the shape (3,), got (2,)"),
    "128 heads": (CONFIG, lambda c: {**c, "num_heads": 128}, "config['num_heads'] must be 16, got 128"),
    "an odd head size": (CONFIG, lambda c: {**c, "v_head_dim": 500}, "config['v_head_dim'] must be 512, got 500"),
    "no request": (CONFIG, lambda c: {**c, "batch_size": 0}, "batch_size and q_seq_len must be 1 or more"),
}
