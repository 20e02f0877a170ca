"""One row a shape (arch, m, n, k of a rank). BLOCK_M 0: chosen by the model in kernels/common/gemm_choice.py.

gfx942's rows are that model's choice for 8 ranks, not measured: no MI300X was at hand. It does not know that own tiles of
256 x 256 are half as high, which evens out the last round: (8192, 8192) has them for that. sm_90's rows are the fastest,
back to back, of 23 to 39 on two H200s, with n, m and k of a rank as on eight; (4096, 4096) and (8192, 4096) have taken the
(8192, 8192)'s tile since that sends tiles under products.
"""

# fmt: off
DEFAULT = {"BLOCK_M": 0, "BLOCK_N": 0, "SPLIT_K": 0, "GROUP_M": 4}

SPACE = {
    "gfx942": {
        "BLOCK_M": [64, 128, 256],
        "BLOCK_N": [64, 128, 256],
        "SPLIT_K": [1, 2, 3, 4, 6, 8, 12, 16],
        "GROUP_M": [1, 2, 4, 8],
    },
    "sm_90": {
        "BLOCK_M": [64, 128, 256],
        "BLOCK_N": [64, 128, 256],
        "SPLIT_K": [1, 2, 3, 4, 5, 6, 8],
        "GROUP_M": [1, 2, 4, 8, 16],
    },
}

TUNING: dict[tuple[str, int, int, int], dict[str, int]] = {
    # benchmarks
    ("gfx942",   64, 7168, 2304): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K":  5, "GROUP_M": 1},
    ("gfx942",  512, 4096, 1536): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 1},
    ("gfx942", 2048, 2880,  360): {"BLOCK_M": 128, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 2},
    ("gfx942", 4096, 4096,  512): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 2},
    ("gfx942", 8192, 4096, 1792): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 4},
    ("gfx942", 8192, 8192, 3696): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 4},
    ("sm_90",    64, 7168, 2304): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 4},
    ("sm_90",   512, 4096, 1536): {"BLOCK_M": 128, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 8},
    ("sm_90",  2048, 2880,  360): {"BLOCK_M": 128, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 2},
    ("sm_90",  4096, 4096,  512): {"BLOCK_M": 128, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 4},
    ("sm_90",  8192, 4096, 1792): {"BLOCK_M": 128, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 4},
    ("sm_90",  8192, 8192, 3696): {"BLOCK_M": 128, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 4},
    # tests
    ("gfx942",   64, 2880,  360): {"BLOCK_M":  64, "BLOCK_N":  64, "SPLIT_K":  1, "GROUP_M": 1},
    ("gfx942",   64, 3584, 1792): {"BLOCK_M":  64, "BLOCK_N":  64, "SPLIT_K":  5, "GROUP_M": 1},
    ("gfx942",  512, 3584, 1792): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 1},
    ("gfx942",  512, 4608, 4608): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 1},
    ("gfx942", 2048, 4096,  896): {"BLOCK_M": 128, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 2},
    ("gfx942", 2048, 8192, 3840): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 1},
    ("gfx942", 4096, 2880,  360): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 2},
    ("gfx942", 4096, 8192,  256): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 2},
    ("gfx942", 8192, 3584, 1792): {"BLOCK_M": 128, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 8},
    ("gfx942", 8192, 4608, 4608): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 4},
    ("gfx942", 8192, 8192, 3584): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 4},
}
