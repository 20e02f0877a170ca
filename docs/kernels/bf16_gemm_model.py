"""Models the products of amd-gemm-rs and amd-ag-gemm on one MI300X: the table of docs/kernels/bf16_gemm.md.

    THP_MEM_ALLOC_ENABLE=1 PYTHONPATH=.:tests python docs/kernels/bf16_gemm_model.py

One launch of the tile product on a rank's whole share, by the row that hip_tuning.py has, without the exchange. Nothing
here was measured. The variable: see docs/time-model.md, lines.
"""

from __future__ import annotations

import sys

import torch
import yaml

import cdna
from cdna.engine import Program
from cdna.model import modelled_time_us
from kernels.ag_gemm.hip_tuning import TUNING as AG_GEMM
from kernels.gemm_rs.hip_tuning import TUNING as GEMM_RS
from tests.support import bf16_gemm_hip as hip

RANKS = 8
PEAK_FLOP_PER_US = 1307.4e6
HBM_BYTES_PER_US = 5.3e6
LINK_BYTES_PER_US = 336e3  # seven links at 48 GB/s


def main() -> None:
    program = Program(hip.assembly())
    tiles = {tile[:2]: tile for tile in hip.TILES}
    print("| problem | m, n, k of a rank | tile, slices | modelled us | bound | at peak us | HBM us | links us |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for stem, table in (("gemm_rs", GEMM_RS), ("ag_gemm", AG_GEMM)):
        problem = yaml.safe_load((hip.ROOT / "reference" / stem / "task.yml").read_text())
        for case in problem["benchmarks"]:
            m, n, k = case["m"], case["n"], case["k"]
            link_bytes = 2 * m * (n if stem == "gemm_rs" else k) * (RANKS - 1) / RANKS
            n, k = (n, k // RANKS) if stem == "gemm_rs" else (n // RANKS, k)
            row = table["gfx942", m, n, k]
            inputs = hip.Inputs(torch.ones(m, k).bfloat16(), torch.ones(n, k).bfloat16(), None)
            tile = tiles[row["BLOCK_M"], row["BLOCK_N"]]
            with cdna.counting():
                _, record = hip.run(program, inputs, tile, row["SPLIT_K"], row["GROUP_M"])
            time = modelled_time_us(record)
            hbm_us = 2 * (m * k + n * k + m * n) / HBM_BYTES_PER_US
            print(
                f"| {stem} | {m}, {n}, {k} | {tile.rows} x {tile.columns}, {row['SPLIT_K']} | {time.us:.1f} |"
                f" {time.bound} | {2 * m * n * k / PEAK_FLOP_PER_US:.1f} | {hbm_us:.1f} |"
                f" {link_bytes / LINK_BYTES_PER_US:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main())
