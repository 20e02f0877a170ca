"""One row a shape of amd-gemm-rs on gfx942: (m, n, k of a rank).

None was measured: no MI300X was at hand. All were chosen by the emulated card's time model without its links (docs/tuning.md).
SUM_ROWS: rows that an adder adds. MFMA: the matrix instruction's rows.
"""

# fmt: off
# What a shape outside the table begins with; fitted() in triton_gfx942.py says what becomes of it.
DEFAULT = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K":  64, "GROUP_M":  4, "SPLIT_K": 1, "SUM_ROWS": 32, "MFMA": 16, "num_warps": 8, "num_stages": 2}

# What the tuner chooses from.
SPACE = {
    "BLOCK_M": [64, 128, 256], "BLOCK_N": [64, 128, 256], "BLOCK_K": [32, 64, 128], "GROUP_M": [2, 4, 8],
    "SPLIT_K": [1, 2, 4], "SUM_ROWS": [8, 16, 32, 64, 128], "MFMA": [16, 32], "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}

TUNING = {
    # m     n     k
    (  64, 7168, 2304): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K":  64, "GROUP_M": 2, "SPLIT_K": 4, "SUM_ROWS":  8, "MFMA": 16, "num_warps": 4, "num_stages": 4},  # 22.32 us, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    ( 512, 4096, 1536): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K":  64, "GROUP_M": 4, "SPLIT_K": 1, "SUM_ROWS": 32, "MFMA": 16, "num_warps": 4, "num_stages": 2},  # 53.15 us, before 56.51, modelled with links, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (2048, 2880,  360): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 8, "SPLIT_K": 1, "SUM_ROWS": 32, "MFMA": 32, "num_warps": 4, "num_stages": 2},  # 25.57 us, before 25.95, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (4096, 4096,  512): {"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K":  64, "GROUP_M": 2, "SPLIT_K": 1, "SUM_ROWS": 32, "MFMA": 16, "num_warps": 8, "num_stages": 2},  # 55.37 us, before 62.98, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (8192, 4096, 1792): {"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K":  64, "GROUP_M": 4, "SPLIT_K": 1, "SUM_ROWS": 64, "MFMA": 16, "num_warps": 8, "num_stages": 2},  # 209 us, before 240.7, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (8192, 8192, 3696): {"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K":  32, "GROUP_M": 4, "SPLIT_K": 1, "SUM_ROWS": 64, "MFMA": 16, "num_warps": 8, "num_stages": 2},  # 950.7 us, before 1217, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
}
