"""One row a shape (m, n of a rank, k). BLOCK_M 0: chosen by the model in kernels/common/gemm_choice.py.

SENDERS: workgroups that push, to all peers together. The rows are the fastest, back to back, of 51 to 85 on two H200s, with
n, m and k of a rank as on eight; but (512, 1536, 4096) has the model's tile for 8 ranks, not measured: 256 rows, the
fastest on two, took 91 us on eight H200s, where a rank has 64, and the Triton variant 43.
"""

# fmt: off
DEFAULT = {"BLOCK_M": 0, "BLOCK_N": 0, "SPLIT_K": 0, "GROUP_M": 2, "BAND": 1, "SENDERS": 28}

# What the tuner chooses from.
SPACE = {
    "BLOCK_M": [64, 128, 256], "BLOCK_N": [64, 128, 256], "SPLIT_K": [1, 2, 3, 4, 5, 6, 8], "GROUP_M": [1, 2, 4, 8],
    "BAND": [1, 2, 4], "SENDERS": [16, 24, 32, 48, 64, 96],
}

TUNING: dict[tuple[int, int, int], dict[str, int]] = {
    # benchmarks
    (  64, 2304, 7168): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K":  6, "GROUP_M": 1, "BAND": 1, "SENDERS": 32},
    ( 512, 1536, 4096): {"BLOCK_M":  64, "BLOCK_N": 256, "SPLIT_K":  2, "GROUP_M": 2, "BAND": 1, "SENDERS": 32},
    (2048,  360, 2880): {"BLOCK_M": 256, "BLOCK_N": 128, "SPLIT_K":  5, "GROUP_M": 4, "BAND": 1, "SENDERS": 32},
    (4096,  512, 4096): {"BLOCK_M": 256, "BLOCK_N": 128, "SPLIT_K":  5, "GROUP_M": 8, "BAND": 1, "SENDERS": 32},
    (8192, 1792, 4096): {"BLOCK_M": 256, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 1, "BAND": 1, "SENDERS": 32},
    (8192, 3696, 8192): {"BLOCK_M": 128, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 4, "BAND": 1, "SENDERS": 24},
}
