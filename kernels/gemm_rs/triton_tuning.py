"""One row a shape (arch, m, n, k of a rank) of amd-gemm-rs."""

# What a shape outside the table begins with; `fitted` in triton.py says what becomes of it.
# fmt: off
DEFAULT = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 4, "SPLIT_K": 1, "SUM_ROWS": 32, "PRODUCERS": 0, "DESCRIPTORS": True, "MFMA": 16, "num_warps": 8, "num_stages": 2}

# What the tuner chooses from.
SPACE = {
    "gfx942": {
        "BLOCK_M": [64, 128, 256], "BLOCK_N": [64, 128, 256], "BLOCK_K": [32, 64, 128], "SPLIT_K": [1, 2, 4, 8],
        "SUM_ROWS": [8, 16, 32], "GROUP_M": [2, 4, 8], "MFMA": [16, 32], "num_warps": [4, 8],
    },
    "sm_90": {
        "BLOCK_N": [64, 128, 256], "BLOCK_M": [64, 128], "SPLIT_K": [1, 2, 3, 4, 6, 8], "num_stages": [2, 3, 4, 5],
        "PRODUCERS": [0, 128, 132], "SUM_ROWS": [8, 16, 32, 64], "GROUP_M": [4, 8], "num_warps": [4, 8],
        "DESCRIPTORS": [True, False],
    },
}

TUNING = {
    # arch       m     n     k of a rank
    ("gfx942",   64, 7168, 2304): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 64, "GROUP_M": 4, "SPLIT_K": 2, "SUM_ROWS": 8, "PRODUCERS": 0, "DESCRIPTORS": False, "MFMA": 16, "num_warps": 4, "num_stages": 2},
    ("gfx942",  512, 4096, 1536): {"BLOCK_M":  64, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 4, "SPLIT_K": 1, "SUM_ROWS": 16, "PRODUCERS": 0, "DESCRIPTORS": False, "MFMA": 16, "num_warps": 4, "num_stages": 2},
    ("gfx942", 2048, 2880,  360): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 4, "SPLIT_K": 1, "SUM_ROWS": 32, "PRODUCERS": 0, "DESCRIPTORS": False, "MFMA": 16, "num_warps": 4, "num_stages": 2},
    ("gfx942", 4096, 4096,  512): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 4, "SPLIT_K": 1, "SUM_ROWS": 32, "PRODUCERS": 0, "DESCRIPTORS": False, "MFMA": 16, "num_warps": 4, "num_stages": 2},
    ("gfx942", 8192, 4096, 1792): {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 4, "SPLIT_K": 1, "SUM_ROWS": 32, "PRODUCERS": 0, "DESCRIPTORS": False, "MFMA": 16, "num_warps": 8, "num_stages": 2},
    ("gfx942", 8192, 8192, 3696): {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 4, "SPLIT_K": 1, "SUM_ROWS": 32, "PRODUCERS": 0, "DESCRIPTORS": False, "MFMA": 16, "num_warps": 8, "num_stages": 2},
}
