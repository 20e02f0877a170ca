"""One row a shape of amd-gemm-rs on Hopper GPUs: (m, n, k of a rank).

The fastest of 4 to 7 rows measured on 4xH200, with n, m and k of a rank as on eight; (512, 4096, 1536) before tiles were
copied in bulk. On 2xH200 none of 26 to 72 other rows was faster beyond the spread for (512, 4096, 1536), (4096, 4096, 512)
and (8192, 4096, 1792); (2048, 2880, 360) is from there: as fast as one with descriptors on the GPU, less work for the host.
SUM_ROWS: rows that an adder adds. PRODUCERS: workgroups that compute tiles, 0 for one a tile. DESCRIPTORS: load tiles by TMA.
"""

# fmt: off
# What a shape outside the table begins with; fitted() in triton.py says what becomes of it.
DEFAULT = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K":  64, "GROUP_M":  4, "SPLIT_K": 1, "SUM_ROWS": 32, "PRODUCERS":   0, "DESCRIPTORS":  True, "num_warps": 8, "num_stages": 2}

# What the tuner chooses from.
SPACE = {
    "BLOCK_M": [64, 128, 256], "BLOCK_N": [64, 128, 256], "BLOCK_K": [32, 64, 128], "GROUP_M": [2, 4, 8],
    "SPLIT_K": [1, 2, 4], "SUM_ROWS": [8, 16, 32, 64, 128], "PRODUCERS": [0, 132, 264], "DESCRIPTORS": [False, True],
    "num_warps": [4, 8], "num_stages": [2, 3, 4],
}

TUNING = {
    # m     n     k
    (  64, 7168, 2304): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "GROUP_M":  8, "SPLIT_K": 1, "SUM_ROWS":  8, "PRODUCERS":   0, "DESCRIPTORS": False, "num_warps": 4, "num_stages": 4},
    ( 512, 4096, 1536): {"BLOCK_M":  64, "BLOCK_N": 128, "BLOCK_K":  64, "GROUP_M":  8, "SPLIT_K": 1, "SUM_ROWS": 16, "PRODUCERS":   0, "DESCRIPTORS": False, "num_warps": 4, "num_stages": 3},
    (2048, 2880,  360): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K":  64, "GROUP_M":  8, "SPLIT_K": 1, "SUM_ROWS": 32, "PRODUCERS":   0, "DESCRIPTORS": False, "num_warps": 4, "num_stages": 3},
    (4096, 4096,  512): {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K":  64, "GROUP_M":  8, "SPLIT_K": 1, "SUM_ROWS": 32, "PRODUCERS": 132, "DESCRIPTORS":  True, "num_warps": 8, "num_stages": 3},
    (8192, 4096, 1792): {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K":  64, "GROUP_M":  4, "SPLIT_K": 1, "SUM_ROWS": 32, "PRODUCERS": 132, "DESCRIPTORS":  True, "num_warps": 8, "num_stages": 3},
    (8192, 8192, 3696): {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K":  64, "GROUP_M":  4, "SPLIT_K": 1, "SUM_ROWS": 32, "PRODUCERS": 132, "DESCRIPTORS":  True, "num_warps": 8, "num_stages": 3},
}
