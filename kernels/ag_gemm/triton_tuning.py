"""One row a shape of amd-ag-gemm, by arch; N is a rank's, the keys' M is of all ranks."""

# fmt: off
DEFAULT = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "BAND": 2, "SPLIT_K": 1, "SENDERS":  56, "PUSH": 8192, "MFMA": 16, "SLICES": 0, "SEND_WARPS": 0, "LATE": 0, "TAIL": 0, "num_warps": 8, "num_stages": 2}

# What the tuner chooses from. Rows with SLICES are for Hopper's kernel, and the tuner passes over those that it refuses.
SPACE = {
    "gfx942": {
        "BLOCK_M": [64, 128, 256], "BLOCK_N": [32, 64, 128, 256], "BLOCK_K": [32, 64, 128], "SPLIT_K": [1, 2, 4, 8],
        "SENDERS": [28, 56, 112], "PUSH": [4096, 8192, 16384], "BAND": [1, 2, 4], "MFMA": [16, 32], "num_warps": [4, 8],
    },
    "sm_90": {
        "BLOCK_N": [32, 64, 128, 256], "BLOCK_M": [16, 32, 64, 128], "SPLIT_K": [1, 2, 4, 8], "num_stages": [3, 4, 6],
        "SENDERS": [16, 32, 64, 128], "PUSH": [4096, 8192, 16384, 32768], "BAND": [1, 2, 4], "BLOCK_K": [64, 128],
        "SLICES": [0, 1, 2, 4], "SEND_WARPS": [0, 1, 2], "LATE": [0, 3, 4], "TAIL": [0, 1, 2], "num_warps": [4, 8],
    },
}

TUNING = {
    # arch       M     N     K    benchmarks
    ("gfx942",   64, 2304, 7168): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K":  64, "BAND": 1, "SPLIT_K": 8, "SENDERS":  32, "PUSH": 16384, "MFMA": 16, "SLICES": 0, "SEND_WARPS": 0, "LATE": 0, "TAIL": 0, "num_warps": 4, "num_stages": 2},
    ("gfx942",  512, 1536, 4096): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "BAND": 1, "SPLIT_K": 1, "SENDERS":  56, "PUSH": 16384, "MFMA": 16, "SLICES": 0, "SEND_WARPS": 0, "LATE": 0, "TAIL": 0, "num_warps": 4, "num_stages": 2},
    ("gfx942", 2048,  360, 2880): {"BLOCK_M":  64, "BLOCK_N":  32, "BLOCK_K": 128, "BAND": 1, "SPLIT_K": 1, "SENDERS":  56, "PUSH": 16384, "MFMA": 16, "SLICES": 0, "SEND_WARPS": 0, "LATE": 0, "TAIL": 0, "num_warps": 4, "num_stages": 2},
    ("gfx942", 4096,  512, 4096): {"BLOCK_M": 128, "BLOCK_N":  64, "BLOCK_K":  64, "BAND": 1, "SPLIT_K": 1, "SENDERS":  56, "PUSH": 16384, "MFMA": 16, "SLICES": 0, "SEND_WARPS": 0, "LATE": 0, "TAIL": 0, "num_warps": 4, "num_stages": 2},
    ("gfx942", 8192, 1792, 4096): {"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K":  64, "BAND": 1, "SPLIT_K": 1, "SENDERS":  56, "PUSH": 16384, "MFMA": 16, "SLICES": 0, "SEND_WARPS": 0, "LATE": 0, "TAIL": 0, "num_warps": 8, "num_stages": 2},
    ("gfx942", 8192, 3696, 8192): {"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K":  64, "BAND": 1, "SPLIT_K": 1, "SENDERS":  56, "PUSH": 16384, "MFMA": 16, "SLICES": 0, "SEND_WARPS": 0, "LATE": 0, "TAIL": 0, "num_warps": 8, "num_stages": 2},
}
