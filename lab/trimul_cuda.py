"""trimul's Triton variant on an NVIDIA GPU, beside the formula in PyTorch, eager and compiled, in one run.

    python -m lab.trimul_cuda           needs a GPU, torch and Triton; the problem's own check judges all cases

PyTorch's own: fp32 with TF32 products and a bf16 product over k, as a user who reads the tolerance would write it.
Times are of events around calls back to back, in us.
"""

from __future__ import annotations

import functools
import importlib
import math
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
import yaml

ROOT = Path(__file__).resolve().parents[1]
PROBLEM = ROOT / "reference" / "trimul"
sys.path[:0] = [str(PROBLEM), str(PROBLEM.parent), str(ROOT)]

from kernels.trimul.triton_gfx942 import custom_kernel  # noqa: E402

reference = importlib.import_module("reference")


def plain(x: torch.Tensor, mask: torch.Tensor, weights: dict[str, torch.Tensor]) -> torch.Tensor:
    def linear(name: str) -> torch.Tensor:
        return F.linear(y, weights[f"{name}.weight"])

    y = F.layer_norm(x, x.shape[-1:], weights["norm.weight"], weights["norm.bias"])
    left = linear("left_proj") * mask[..., None] * linear("left_gate").sigmoid()
    right = linear("right_proj") * mask[..., None] * linear("right_gate").sigmoid()
    product = torch.einsum("bikh,bjkh->bijh", left.bfloat16(), right.bfloat16()).float()
    normed = F.layer_norm(product, product.shape[-1:], weights["to_out_norm.weight"], weights["to_out_norm.bias"])
    return F.linear(normed * linear("out_gate").sigmoid(), weights["to_out.weight"])


def us_of(call: Callable[[], object], times: int) -> float:
    for _ in range(2):
        call()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(times):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / times * 1e3


@torch.no_grad()
def main() -> None:
    cases = yaml.safe_load((PROBLEM / "task.yml").read_text(encoding="utf-8"))
    compiled = torch.compile(plain, dynamic=False)
    times_us = []
    for case in cases["benchmarks"]:
        data = reference.generate_input(**case)
        good = reference.check_implementation(data, custom_kernel(data))[0]
        own = us_of(functools.partial(custom_kernel, data), 10)
        torch.set_float32_matmul_precision("high")
        others = [us_of(functools.partial(call, *data[:3]), 3) for call in (plain, compiled)]
        torch.set_float32_matmul_precision("highest")
        times_us.append((own, *others))
        print(
            case["seqlen"], case["bs"], case["dim"], "pass" if good else "FAIL", *(f"{us:.1f}" for us in times_us[-1])
        )
    print("geometric means", *(f"{math.exp(sum(map(math.log, us)) / len(us)):.1f}" for us in zip(*times_us)))
    for case in cases["tests"]:
        data = reference.generate_input(**case)
        print(case, reference.check_implementation(data, custom_kernel(data))[0])


if __name__ == "__main__":
    main()
