"""One row a shape of amd-mxfp4-mm; none was measured: no MI355X was at hand.

All were chosen by the emulated card's time model (docs/tuning.md). Tiles have few rows of a: quantising a takes longer than
multiplying, so it is spread over more workgroups.
"""

# fmt: off
# What a shape outside the table gets.
DEFAULT = {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 256, "SPLIT_K": 1, "num_warps": 4, "num_stages": 2}

SPACE = {
    "BLOCK_M": [16, 32, 64, 128], "BLOCK_N": [32, 64, 128], "BLOCK_K": [256, 512], "SPLIT_K": [1, 2, 4, 7, 14],
    "num_warps": [2, 4], "num_stages": [1, 2, 3],
}

TUNING = {
    # m     n     k   benchmarks
    (  4, 2880,  512): {"BLOCK_M": 16, "BLOCK_N":  32, "BLOCK_K": 512, "SPLIT_K":  2, "num_warps": 4, "num_stages": 2},  # 4.193 us, before 4.433, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    ( 16, 2112, 7168): {"BLOCK_M": 16, "BLOCK_N":  64, "BLOCK_K": 512, "SPLIT_K":  7, "num_warps": 4, "num_stages": 2},  # 7.526 us, before 9.431, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    ( 32, 2880,  512): {"BLOCK_M": 16, "BLOCK_N":  32, "BLOCK_K": 512, "SPLIT_K":  2, "num_warps": 4, "num_stages": 2},  # 4.249 us, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    ( 32, 4096,  512): {"BLOCK_M": 16, "BLOCK_N":  32, "BLOCK_K": 512, "SPLIT_K":  4, "num_warps": 4, "num_stages": 2},  # 4.321 us, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    ( 64, 7168, 2048): {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 512, "SPLIT_K":  1, "num_warps": 4, "num_stages": 2},  # 8.769 us, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    (256, 3072, 1536): {"BLOCK_M": 32, "BLOCK_N": 128, "BLOCK_K": 256, "SPLIT_K":  1, "num_warps": 4, "num_stages": 2},  # 9.202 us, before 9.523, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    # a test that leaves most of the card idle without split-K
    (  8, 2112, 7168): {"BLOCK_M": 16, "BLOCK_N":  64, "BLOCK_K": 512, "SPLIT_K":  7, "num_warps": 4, "num_stages": 2},  # 7.293 us, before 8.105, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
}
