"""One row a shape of amd-ag-gemm, by arch; M is of all ranks, N of one.

gfx942: by reasoning and the compile report, no MI300X was at hand. The largest tile that still makes about a tile a
compute unit, of those that do not spill; SPLIT_K where M = 64 leaves too few; 56 senders, eight a peer, as published
solutions use. sm_90: the best of some that were measured on four H200 (docs/kernels/ag_gemm.md).
SENDERS: workgroups in all. PUSH: elements a turn (SLICES 0) or a piece. SLICES > 0: the kernel for Hopper, which reads
SEND_WARPS, LATE and TAIL too. BAND: row tiles of a peer that are taken together. MFMA: gfx942's instruction's rows.
"""

# fmt: off
DEFAULT = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "BAND": 2, "SPLIT_K": 1, "SENDERS":  56, "PUSH": 8192, "MFMA": 16, "SLICES": 0, "SEND_WARPS": 0, "LATE": 0, "TAIL": 0, "num_warps": 8, "num_stages": 2}

# What the tuner chooses from. Rows with SLICES are for Hopper's kernel; one that it does not take is timed as what the
# shape gets then: DEFAULT, adapted.
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
    ("sm_90",   64, 2304, 7168): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "BAND": 2, "SPLIT_K": 4, "SENDERS":  24, "PUSH":  4096, "MFMA": 16, "SLICES": 0, "SEND_WARPS": 0, "LATE": 0, "TAIL": 0, "num_warps": 4, "num_stages": 3},
    ("sm_90",  512, 1536, 4096): {"BLOCK_M":  64, "BLOCK_N": 128, "BLOCK_K":  64, "BAND": 2, "SPLIT_K": 1, "SENDERS": 120, "PUSH":  8192, "MFMA": 16, "SLICES": 0, "SEND_WARPS": 0, "LATE": 0, "TAIL": 0, "num_warps": 4, "num_stages": 4},
    ("sm_90", 2048,  360, 2880): {"BLOCK_M": 128, "BLOCK_N":  64, "BLOCK_K":  64, "BAND": 2, "SPLIT_K": 1, "SENDERS":  96, "PUSH":  8192, "MFMA": 16, "SLICES": 0, "SEND_WARPS": 0, "LATE": 0, "TAIL": 0, "num_warps": 4, "num_stages": 4},
    ("sm_90", 4096,  512, 4096): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K":  64, "BAND": 2, "SPLIT_K": 1, "SENDERS": 132, "PUSH": 16384, "MFMA": 16, "SLICES": 4, "SEND_WARPS": 2, "LATE": 0, "TAIL": 0, "num_warps": 8, "num_stages": 6},
    ("sm_90", 8192, 1792, 4096): {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K":  64, "BAND": 2, "SPLIT_K": 1, "SENDERS": 132, "PUSH": 32768, "MFMA": 16, "SLICES": 1, "SEND_WARPS": 1, "LATE": 0, "TAIL": 0, "num_warps": 8, "num_stages": 4},
    ("sm_90", 8192, 3696, 8192): {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K":  64, "BAND": 2, "SPLIT_K": 4, "SENDERS":  64, "PUSH": 16384, "MFMA": 16, "SLICES": 1, "SEND_WARPS": 2, "LATE": 0, "TAIL": 1, "num_warps": 8, "num_stages": 4},
}
