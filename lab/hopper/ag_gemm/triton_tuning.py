"""One row a shape of amd-ag-gemm on Hopper GPUs; M is of all ranks, N of one.

The best of some that were measured on four H200 (lab/tried/ag_gemm.md). SENDERS: workgroups in all. PUSH: elements a
turn (SLICES 0) or a piece. SLICES > 0: the warp-specialised kernel, which reads SEND_WARPS, LATE and TAIL too. BAND: row
tiles of a peer that are taken together.
"""

# fmt: off
DEFAULT = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "BAND": 2, "SPLIT_K": 1, "SENDERS":  56, "PUSH": 8192, "SLICES": 0, "SEND_WARPS": 0, "LATE": 0, "TAIL": 0, "num_warps": 8, "num_stages": 2}

# What the tuner chooses from.
SPACE = {
    "BLOCK_N": [32, 64, 128, 256], "BLOCK_M": [16, 32, 64, 128], "SPLIT_K": [1, 2, 4, 8], "num_stages": [3, 4, 6],
    "SENDERS": [16, 32, 64, 128], "PUSH": [4096, 8192, 16384, 32768], "BAND": [1, 2, 4], "BLOCK_K": [64, 128],
    "SLICES": [0, 1, 2, 4], "SEND_WARPS": [0, 1, 2], "LATE": [0, 3, 4], "TAIL": [0, 1, 2], "num_warps": [4, 8],
}

TUNING = {
    # M     N     K    benchmarks
    ( 64, 2304, 7168): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "BAND": 2, "SPLIT_K": 4, "SENDERS":  24, "PUSH":  4096, "SLICES": 0, "SEND_WARPS": 0, "LATE": 0, "TAIL": 0, "num_warps": 4, "num_stages": 3},
    (512, 1536, 4096): {"BLOCK_M":  64, "BLOCK_N": 128, "BLOCK_K":  64, "BAND": 2, "SPLIT_K": 1, "SENDERS": 120, "PUSH":  8192, "SLICES": 0, "SEND_WARPS": 0, "LATE": 0, "TAIL": 0, "num_warps": 4, "num_stages": 4},
    (2048,  360, 2880): {"BLOCK_M": 128, "BLOCK_N":  64, "BLOCK_K":  64, "BAND": 2, "SPLIT_K": 1, "SENDERS":  96, "PUSH":  8192, "SLICES": 0, "SEND_WARPS": 0, "LATE": 0, "TAIL": 0, "num_warps": 4, "num_stages": 4},
    (4096,  512, 4096): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K":  64, "BAND": 2, "SPLIT_K": 1, "SENDERS": 132, "PUSH": 16384, "SLICES": 4, "SEND_WARPS": 2, "LATE": 0, "TAIL": 0, "num_warps": 8, "num_stages": 6},
    (8192, 1792, 4096): {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K":  64, "BAND": 2, "SPLIT_K": 1, "SENDERS": 132, "PUSH": 32768, "SLICES": 1, "SEND_WARPS": 1, "LATE": 0, "TAIL": 0, "num_warps": 8, "num_stages": 4},
    (8192, 3696, 8192): {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K":  64, "BAND": 2, "SPLIT_K": 4, "SENDERS":  64, "PUSH": 16384, "SLICES": 1, "SEND_WARPS": 2, "LATE": 0, "TAIL": 1, "num_warps": 8, "num_stages": 4},
}
