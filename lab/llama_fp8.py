"""Times the Triton variants of residual-rmsnorm-fp8 and swiglu-fp8 on this machine's NVIDIA GPU, with OCP's fp8.

    python lab/llama_fp8.py [-o FILE.json] [--rows 1 256 2048]

Beside them, on the same data in turns: plain PyTorch, torch.compile of it, and Liger's kernels where liger-kernel is
installed (fused_add_rms_norm and SwiGLU, with torch.compile's quantisation behind them: Liger has no fp8 output).
Medians of calls by GPU events. Before each call the L2 is flushed, by reading 256 MiB: writing would leave lines
that the call then has to write back. floor: bytes that must move over what a copy of 1 GiB reaches in the same run.
Results are compared first: exit code 1 where one is wrong.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kernels.residual_rmsnorm_fp8.triton_gfx942 import residual_rmsnorm_fp8  # noqa: E402
from kernels.swiglu_fp8.triton_gfx942 import swiglu_fp8  # noqa: E402

try:
    from liger_kernel.ops.fused_add_rms_norm import fused_add_rms_norm_forward
    from liger_kernel.ops.swiglu import swiglu_forward
except ImportError:
    fused_add_rms_norm_forward = swiglu_forward = None

WIDTH, EPS = 16384, 1e-5  # of Llama 3.1 405B; half of its MLP's width lies on each of the two GPUs of a pair
FP8 = torch.float8_e4m3fn
FP8_MAX = torch.finfo(FP8).max
ROUNDS, CALLS = 5, 40
FLUSHED_BYTES = 256 << 20
COPIED_BYTES = 1 << 30

Call = Callable[[], Any]


def quantised(y: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (y.float() * (1 / scale)).clamp(-FP8_MAX, FP8_MAX).to(FP8)


def plain_rmsnorm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    residual.add_(x)
    wide = residual.float()
    r = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + EPS)
    return quantised((wide * r).half() * weight, scale)


def plain_swiglu(gate_up: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.float().chunk(2, dim=-1)
    return quantised(F.silu(gate) * up, scale)


def rmsnorm_calls(rows: int) -> tuple[dict[str, Call], int]:
    """Each way, and the bytes that must move."""
    x, residual = (torch.randn(rows, WIDTH, dtype=torch.float16, device="cuda") for _ in range(2))
    weight = 1 + 0.1 * torch.randn(WIDTH, dtype=torch.float16, device="cuda")
    scale = torch.full((1,), 1 / 96, device="cuda")
    compiled, quantise = torch.compile(plain_rmsnorm), torch.compile(quantised)
    calls: dict[str, Call] = {
        "ours": lambda: residual_rmsnorm_fp8(x, residual, weight, scale, EPS, fp8=FP8),
        "PyTorch": lambda: plain_rmsnorm(x, residual, weight, scale),
        "torch.compile": lambda: compiled(x, residual, weight, scale),
    }
    if fused_add_rms_norm_forward is not None:
        calls["Liger"] = lambda: quantise(fused_add_rms_norm_forward(x, residual, weight, EPS, 0.0, "llama")[0], scale)
    return {name: on_fresh(call, residual) for name, call in calls.items()}, rows * WIDTH * 7


def on_fresh(call: Call, residual: torch.Tensor) -> Call:
    """A first result on the residual as it was; it grows by x from call to call, which costs no time."""
    before = residual.clone()

    def checked() -> Any:
        residual.copy_(before)
        return call()

    call.checked = checked  # type: ignore[attr-defined]
    return call


def swiglu_calls(rows: int) -> tuple[dict[str, Call], int]:
    gate_up = torch.randn(rows, 2 * WIDTH, dtype=torch.float16, device="cuda")
    gate, up = (half.contiguous() for half in gate_up.chunk(2, dim=-1))
    scale = torch.full((1,), 1 / 96, device="cuda")
    compiled, quantise = torch.compile(plain_swiglu), torch.compile(quantised)
    calls: dict[str, Call] = {
        "ours": lambda: swiglu_fp8(gate_up, scale, fp8=FP8),
        "PyTorch": lambda: plain_swiglu(gate_up, scale),
        "torch.compile": lambda: compiled(gate_up, scale),
    }
    if swiglu_forward is not None:
        calls["Liger"] = lambda: quantise(swiglu_forward(gate, up)[-1], scale)
    return calls, rows * WIDTH * 5


def wrong(calls: dict[str, Call]) -> list[str]:
    """Ways whose result is not PyTorch's: ours to a step of fp8, others (which round once more) by 2 % in all."""
    results = {name: getattr(call, "checked", call)().float() for name, call in calls.items()}
    wanted = results["PyTorch"]
    found = []
    for name, got in results.items():
        gap = (got - wanted).abs()
        if name == "ours" and bool((gap > 0.13 * wanted.abs() + 2**-9).any()):
            found.append(name)
        if not float(gap.norm() / wanted.norm()) < 0.02:
            found.append(name)
    return found


def times_us(calls: dict[str, Call]) -> dict[str, float]:
    """Medians, the ways in turns."""
    flushed = torch.zeros(FLUSHED_BYTES // 4, dtype=torch.int32, device="cuda")
    seen: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()
            events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(CALLS)]
            for start, end in events:
                flushed.max()
                start.record()
                call()
                end.record()
            torch.cuda.synchronize()
            seen[name] += [1e3 * start.elapsed_time(end) for start, end in events]
    return {name: statistics.median(of_name) for name, of_name in seen.items()}


def copy_gb_s() -> float:
    source = torch.empty(COPIED_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * COPIED_BYTES / times_us({"copy": lambda: target.copy_(source)})["copy"] * 1e-3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE", help="write the table as JSON")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 32, 256, 1024, 2048])
    options = parser.parse_args()
    gb_s, bad = copy_gb_s(), False
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, a copy reaches {gb_s:.0f} GB/s", flush=True)
    table = []
    for problem, make in (("residual-rmsnorm-fp8", rmsnorm_calls), ("swiglu-fp8", swiglu_calls)):
        for rows in options.rows:
            calls, moved_bytes = make(rows)
            for name in wrong(calls):
                bad = True
                print(f"wrong: {name} of {problem}, {rows} rows", file=sys.stderr)
            us = times_us(calls) | {"floor": moved_bytes / gb_s * 1e-3}
            table.append({"problem": problem, "rows": rows, "us": us})
            print(f"{problem} {rows:5} rows  " + ", ".join(f"{name} {t:.1f}" for name, t in us.items()), flush=True)
    if options.output is not None:
        machine = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "copy_gb_s": gb_s}
        options.output.write_text(json.dumps(machine | {"rows": table}, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
