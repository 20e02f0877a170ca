"""One row a shape (m, n, k of a rank). BLOCK_M 0: chosen by the model in kernels/common/gemm_choice.py.

The rows are the fastest, back to back, of 23 to 39 on two H200s, with n, m and k of a rank as on eight; (4096, 4096) and
(8192, 4096) have taken the (8192, 8192)'s tile since that sends tiles under products.
"""

# fmt: off
DEFAULT = {"BLOCK_M": 0, "BLOCK_N": 0, "SPLIT_K": 0, "GROUP_M": 4}

# What the tuner chooses from.
SPACE = {
    "BLOCK_M": [64, 128, 256], "BLOCK_N": [64, 128, 256], "SPLIT_K": [1, 2, 3, 4, 5, 6, 8],
    "GROUP_M": [1, 2, 4, 8, 16],
}

TUNING: dict[tuple[int, int, int], dict[str, int]] = {
    # benchmarks
    (  64, 7168, 2304): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 4},
    ( 512, 4096, 1536): {"BLOCK_M": 128, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 8},
    (2048, 2880,  360): {"BLOCK_M": 128, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 2},
    (4096, 4096,  512): {"BLOCK_M": 128, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 4},
    (8192, 4096, 1792): {"BLOCK_M": 128, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 4},
    (8192, 8192, 3696): {"BLOCK_M": 128, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 4},
}
