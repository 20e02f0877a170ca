"""todo"""

# fmt: off
DEFAULT = {"BLOCK_M":  64, "GATE_N": 64, "DOWN_N": 128, "BLOCK_K": 64, "GROUP_M": 4, "MFMA": 16, "num_warps": 4, "num_stages": 2}

SPACE = {
    "BLOCK_M": [32, 64, 128, 256], "GATE_N": [64, 128], "DOWN_N": [64, 128, 256], "BLOCK_K": [32, 64],
    "GROUP_M": [2, 4, 8, 16], "MFMA": [16, 32], "num_warps": [4, 8], "num_stages": [1, 2],
}

TUNING = {
    (2048, 32, 4, 7168, 2048): {"BLOCK_M": 128, "GATE_N": 128, "DOWN_N": 256, "BLOCK_K": 64, "GROUP_M": 4, "MFMA": 16, "num_warps": 8, "num_stages": 2},
    (8192, 32, 4, 7168, 2048): {"BLOCK_M": 256, "GATE_N": 128, "DOWN_N": 256, "BLOCK_K": 64, "GROUP_M": 4, "MFMA": 16, "num_warps": 8, "num_stages": 2},
}
