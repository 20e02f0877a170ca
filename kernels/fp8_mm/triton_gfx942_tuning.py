"""One row a shape of amd-fp8-mm; none was measured: no MI300X was at hand.

Rows with a time were chosen by it: the emulated card's time model, by `python -m forge.tune.tables` (docs/tuning.md).
The others are of an earlier, coarser model and have not been tried since.
MFMA is the instruction's row count: 32x32x16 moves half the LDS bytes per FLOP of 16x16x32.
"""

# What a shape outside the table gets: small enough to fill the card at M = 64, and no partial sums.
# fmt: off
DEFAULT = {"BLOCK_M":  64, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 4, "num_stages": 2}

# What the tuner chooses from.
SPACE = {
    "BLOCK_M": [64, 128, 256], "BLOCK_N": [64, 128], "BLOCK_K": [64, 128], "SPLIT_K": [1, 2, 3, 4, 6, 8, 14],
    "GROUP_M": [1, 4, 8], "num_warps": [4, 8], "num_stages": [1, 2], "MFMA": [16, 32],
}

TUNING = {
    # m     n     k   benchmarks
    (1024,  512, 7168): {"BLOCK_M":  64, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  6, "MFMA": 16, "num_warps": 4, "num_stages": 2},  # 22.19 us, before 24.11, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (1024,  576, 7168): {"BLOCK_M": 128, "BLOCK_N":  64, "BLOCK_K": 128, "GROUP_M": 1, "SPLIT_K":  4, "MFMA": 16, "num_warps": 4, "num_stages": 2},  # 28.56 us, before 29.41, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (1024, 1536, 7168): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  3, "MFMA": 32, "num_warps": 8, "num_stages": 2},  # 48.1 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (1024, 3072, 1536): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 8, "num_stages": 2},  # 25.41 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (1024, 4096,  512): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 16, "num_warps": 8, "num_stages": 2},  # 13.47 us, before 14.55, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (1024, 4608, 7168): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 8, "SPLIT_K":  1, "MFMA": 32, "num_warps": 8, "num_stages": 2},  # 78.95 us, before 80.47, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (1024, 7168,  256): {"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 1, "SPLIT_K":  1, "MFMA": 32, "num_warps": 8, "num_stages": 2},  # 18.11 us, before 18.72, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (1024, 7168, 2048): {"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 1, "SPLIT_K":  1, "MFMA": 32, "num_warps": 8, "num_stages": 2},  # 46.61 us, before 55.93, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (1024, 7168, 2304): {"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 8, "num_stages": 2},  # 50.69 us, before 61.15, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (6144,  512, 7168): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  3, "MFMA": 32, "num_warps": 8, "num_stages": 2},  # 67.14 us, before 74.15, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (6144,  576, 7168): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 8, "num_stages": 2},  # 83.77 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (6144, 1536, 7168): {"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 8, "num_stages": 2},  # 137.3 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (6144, 3072, 1536): {"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 8, "num_stages": 2},  # 80.54 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (6144, 4096,  512): {"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 8, "num_stages": 2},  # 65.29 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (6144, 4608, 7168): {"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 8, "num_stages": 2},  # 405.9 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (6144, 7168,  256): {"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 1, "SPLIT_K":  1, "MFMA": 32, "num_warps": 8, "num_stages": 2},  # 90.77 us, before 92.01, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (6144, 7168, 2048): {"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 8, "num_stages": 2},  # 234.6 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (6144, 7168, 2304): {"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 8, "num_stages": 2},  # 255.2 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    # tests that leave most of the card idle without split-K
    (  64, 1536, 7168): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  8, "MFMA": 32, "num_warps": 4, "num_stages": 2},
    (  64,  576, 7168): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K": 14, "MFMA": 32, "num_warps": 4, "num_stages": 2},
    (  96, 4608, 7168): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  4, "MFMA": 32, "num_warps": 4, "num_stages": 2},
    (  96, 7168, 2048): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  2, "MFMA": 32, "num_warps": 4, "num_stages": 2},
    ( 128,  512, 7168): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K": 14, "MFMA": 32, "num_warps": 4, "num_stages": 2},
    ( 512, 1536, 7168): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  7, "MFMA": 32, "num_warps": 8, "num_stages": 2},
}
