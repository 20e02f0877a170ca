"""Checks and times the tile product of bf16_gemm.h, without any exchange, on this machine's NVIDIA GPU.

    python lab/bf16_gemm.py [--check]

Every tile and several slices of k against fp32 products, with NaN around all matrices and in the output; then the
benchmarks' products, in turns with torch.mm (cuBLAS), so that both find the GPU equally warm: back-to-back calls, us a
call, median of the rounds. --check: the first alone. Exit code 1 where a result is wrong.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from forge import device  # noqa: E402
from forge.generate.flatten import Flattener  # noqa: E402
from kernels.common.gemm_choice import choose_gemm_tile  # noqa: E402
from kernels.common.hip_extension import load_extension  # noqa: E402
from lab.hopper.common.gemm_card import H200, IN_TURN  # noqa: E402
from lab.rank_shapes import rank_shapes  # noqa: E402

SOURCE = "lab/hopper/bf16_gemm.hip"
WAYS = [(tile, in_turn) for tile in H200.tiles for in_turn in ([False, True] if tile in IN_TURN else [False])]
MARGIN = 256  # elements
TOLERANCE = 2e-3  # relative L2 error; half a step of bf16 everywhere would be 2^-9 of a value

# m, n, k: less than a chunk of anything, edges in all three, one line of k more than a whole number of stages.
CHECKED = [(8, 8, 8), (1, 72, 96), (130, 136, 72), (300, 264, 360), (513, 1032, 2312), (1000, 776, 200)]

TIMED = [*rank_shapes("amd-gemm-rs"), *rank_shapes("amd-ag-gemm")]
ROUNDS, ROUND_US = 5, 4000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="time nothing")
    options = parser.parse_args()
    device.resolve("cuda", "gfx942").prepare()
    module = load_extension("bf16_gemm", "\n".join(Flattener(ROOT).flatten(SOURCE)), functions=["gemm"])
    product = Product(module.gemm)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}", flush=True)
    wrong = check(product)
    if not options.check:
        time_products(product)
    return 1 if wrong else 0


class Product:
    def __init__(self, gemm: Any) -> None:
        self.gemm = gemm
        self.partial = torch.empty(1 << 26, device="cuda")
        self.counters = torch.zeros(1 << 16, dtype=torch.int32, device="cuda")  # the tickets', and one a tile

    def __call__(
        self, a: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, c: torch.Tensor,
        tile: tuple[int, int], split_k: int, group_rows: int = 4, in_turn: bool = False,
    ) -> None:  # fmt: skip
        """c [m, n] = a [m, k] @ w [n, k].T + bias [n], all bf16; n and k multiples of 8."""
        (m, k), n = a.shape, w.shape[0]
        # fmt: off
        memory = (a.data_ptr(), w.data_ptr(), 0 if bias is None else bias.data_ptr(), c.data_ptr(),
                  self.partial.data_ptr(), self.counters[1:].data_ptr(), self.counters.data_ptr())
        # fmt: on
        self.gemm(*memory, m, n, k, *tile, split_k, group_rows, in_turn)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").bfloat16()


def surrounded(x: torch.Tensor, value: float = float("nan")) -> tuple[torch.Tensor, torch.Tensor]:
    """x again, in the middle of a larger tensor of `value`, and that tensor."""
    whole = torch.full((x.numel() + 2 * MARGIN,), value, dtype=x.dtype, device="cuda")
    return whole[MARGIN:-MARGIN].view(x.shape).copy_(x), whole


def check(product: Product) -> int:
    """The number of wrong results."""
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    wrong, worst = 0, 0.0
    for m, n, k in CHECKED:
        for split_k in (1, 3):
            a, w, bias = (surrounded(x)[0] for x in (normal(m, k), normal(n, k), 4 * normal(n)))
            exact = a.float() @ w.float().T + bias.float()
            for tile, in_turn in WAYS:
                c, around = surrounded(torch.full((m, n), float("nan"), dtype=torch.bfloat16, device="cuda"), 7.0)
                product(a, w, bias, c, tile, split_k, in_turn=in_turn)
                error = ((c.float() - exact).norm() / exact.norm()).item()
                outside = bool((around[:MARGIN] != 7).any() or (around[-MARGIN:] != 7).any())
                if not error < TOLERANCE or outside or counters_left(product):
                    wrong += 1
                    where = f"{(m, n, k)}, {tile=}, {in_turn=}, {split_k} slices"
                    print(f"wrong: {where}: error {error:.2e}, {outside=}", flush=True)
                worst = max(worst, error)
    count = 2 * len(CHECKED) * len(WAYS)
    print(f"{count} products, {wrong} wrong, largest relative L2 error {worst:.2e}", flush=True)
    return wrong


def counters_left(product: Product) -> bool:
    """Whether a counter is not zero again after a launch; it is then made so."""
    left = bool(product.counters.any())
    product.counters.zero_()
    return left


def round_us(call: Callable[[], Any], repeats: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / repeats


def time_products(product: Product) -> None:
    print(
        "m, n, k | chosen tile, slices | us | best, GROUP_M, in turn | us | TFLOP/s | cuBLAS us | TFLOP/s", flush=True
    )
    for m, n, k in TIMED:
        a, w, c = normal(m, k), normal(n, k), torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
        flop = 2.0 * m * n * k
        chosen = choose_gemm_tile(H200, 1, m, n, k)
        repeats = max(4, min(100, int(ROUND_US / (flop / 6e8))))

        def ours(row: tuple[int, int, int, int, bool]) -> Callable[[], None]:
            return lambda: product(a, w, None, c, row[:2], *row[2:])  # noqa: B023

        calls: dict[Any, Callable[[], Any]] = {"cuBLAS": lambda: torch.mm(a, w.T, out=c)}  # noqa: B023
        options = {(*chosen, False)}
        for tile, in_turn in WAYS:
            tiles = -(-m // tile[0]) * -(-n // tile[1])
            options |= {
                (*tile, s, in_turn) for s in (1, 2, 3, 4, 6, 8) if s == 1 or (tiles <= 132 and s * tiles <= 600)
            }
        for *option, in_turn in sorted(options):
            for group_rows in [2, 8] if m >= 4096 else [4]:
                calls[*option, group_rows, in_turn] = ours((*option, group_rows, in_turn))
        rough = {name: round_us(call, 3) for name, call in calls.items() if round_us(call, 1)}
        quick = sorted(rough, key=lambda name: rough[name])[:6]
        kept = {"cuBLAS", *quick, *(row for row in calls if row[:3] == chosen)}
        times: dict[Any, list[float]] = {name: [] for name in calls if name in kept}
        for _ in range(ROUNDS):
            for name, found in times.items():
                found.append(round_us(calls[name], repeats))
        us = {name: statistics.median(found) for name, found in times.items()}
        library = us.pop("cuBLAS")
        best = min(us, key=lambda row: us[row])
        model = min(us[row] for row in us if row[:3] == chosen)
        print(f"{m}, {n}, {k} | {chosen} | {model:.1f} | {best} | {us[best]:.1f} | {flop / us[best] / 1e6:.0f} | "
              f"{library:.1f} | {flop / library / 1e6:.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
