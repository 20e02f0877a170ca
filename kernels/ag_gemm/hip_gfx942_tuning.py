"""One row a shape (m, n of a rank, k). BLOCK_M 0: chosen by the model in kernels/common/gemm_choice.py.

SENDERS: workgroups that push, to all peers together. The rows are that model's choice for 8 ranks, not measured: no MI300X
was at hand.
"""

# fmt: off
DEFAULT = {"BLOCK_M": 0, "BLOCK_N": 0, "SPLIT_K": 0, "GROUP_M": 2, "BAND": 1, "SENDERS": 28}

# What the tuner chooses from.
SPACE = {
    "BLOCK_M": [64, 128, 256], "BLOCK_N": [64, 128, 256], "SPLIT_K": [1, 2, 3, 4, 6, 8, 12, 16],
    "GROUP_M": [1, 2, 4, 8], "BAND": [1, 2, 4], "SENDERS": [8, 16, 28, 56],
}

TUNING: dict[tuple[int, int, int], dict[str, int]] = {
    # benchmarks
    (  64, 2304, 7168): {"BLOCK_M":  64, "BLOCK_N":  64, "SPLIT_K":  8, "GROUP_M": 2, "BAND": 1, "SENDERS": 16},
    ( 512, 1536, 4096): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K":  3, "GROUP_M": 2, "BAND": 1, "SENDERS": 28},
    (2048,  360, 2880): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K":  3, "GROUP_M": 2, "BAND": 1, "SENDERS": 28},
    (4096,  512, 4096): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 2, "BAND": 1, "SENDERS": 28},
    (8192, 1792, 4096): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 2, "BAND": 1, "SENDERS": 28},
    (8192, 3696, 8192): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 2, "BAND": 1, "SENDERS": 28},
    # tests
    (  64,  360, 2880): {"BLOCK_M":  64, "BLOCK_N":  64, "SPLIT_K": 16, "GROUP_M": 2, "BAND": 1, "SENDERS": 16},
    (  64, 1792, 3584): {"BLOCK_M":  64, "BLOCK_N":  64, "SPLIT_K": 10, "GROUP_M": 2, "BAND": 1, "SENDERS": 16},
    ( 512, 1792, 3584): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K":  4, "GROUP_M": 2, "BAND": 1, "SENDERS": 28},
    ( 512, 4608, 4608): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 2, "BAND": 1, "SENDERS": 28},
    (2048,  896, 4096): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 2, "BAND": 1, "SENDERS": 28},
    (2048, 3840, 8192): {"BLOCK_M": 128, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 2, "BAND": 1, "SENDERS": 28},
    (4096,  360, 2880): {"BLOCK_M": 128, "BLOCK_N": 128, "SPLIT_K":  3, "GROUP_M": 2, "BAND": 1, "SENDERS": 28},
    (4096,  256, 8192): {"BLOCK_M": 128, "BLOCK_N": 128, "SPLIT_K":  9, "GROUP_M": 2, "BAND": 1, "SENDERS": 28},
    (8192, 1792, 3584): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 2, "BAND": 1, "SENDERS": 28},
    (8192, 4608, 4608): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 2, "BAND": 1, "SENDERS": 28},
    (8192, 3584, 8192): {"BLOCK_M": 128, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 2, "BAND": 1, "SENDERS": 28},
}
