"""One row a shape (m, n, k of a rank). BLOCK_M 0: chosen by the model in kernels/common/gemm_choice.py.

None was measured: no MI300X was at hand. Rows with a time were chosen by it: the emulated card's time model without
its links, by `python -m lab.tuning_tables` (docs/tuning.md). The others are gemm_choice.py's for 8 ranks, which does
not know that own tiles of 256 x 256 are half as high, which evens out the last round: (8192, 8192) has them for that.
"""

# fmt: off
DEFAULT = {"BLOCK_M": 0, "BLOCK_N": 0, "SPLIT_K": 0, "GROUP_M": 4}

# What the tuner chooses from.
SPACE = {
    "BLOCK_M": [64, 128, 256], "BLOCK_N": [64, 128, 256], "SPLIT_K": [1, 2, 3, 4, 6, 8, 12, 16],
    "GROUP_M": [1, 2, 4, 8],
}

TUNING: dict[tuple[int, int, int], dict[str, int]] = {
    # benchmarks
    (  64, 7168, 2304): {"BLOCK_M":  64, "BLOCK_N":  64, "SPLIT_K": 5, "GROUP_M": 2},  # 20.08 us, before 35.61, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    ( 512, 4096, 1536): {"BLOCK_M":  64, "BLOCK_N":  64, "SPLIT_K": 2, "GROUP_M": 1},  # 28.66 us, before 39.49, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    (2048, 2880,  360): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K": 1, "GROUP_M": 1},  # 28.61 us, before 33.32, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    (4096, 4096,  512): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K": 1, "GROUP_M": 2},  # 39.56 us, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    (8192, 4096, 1792): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K": 1, "GROUP_M": 4},  # 221.8 us, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    (8192, 8192, 3696): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 4},
    # tests
    (  64, 2880,  360): {"BLOCK_M":  64, "BLOCK_N":  64, "SPLIT_K":  1, "GROUP_M": 1},
    (  64, 3584, 1792): {"BLOCK_M":  64, "BLOCK_N":  64, "SPLIT_K":  5, "GROUP_M": 1},
    ( 512, 3584, 1792): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 1},
    ( 512, 4608, 4608): {"BLOCK_M":  64, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 1},
    (2048, 4096,  896): {"BLOCK_M": 128, "BLOCK_N": 128, "SPLIT_K":  1, "GROUP_M": 2},
    (2048, 8192, 3840): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 1},
    (4096, 2880,  360): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 2},
    (4096, 8192,  256): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 2},
    (8192, 3584, 1792): {"BLOCK_M": 128, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 8},
    (8192, 4608, 4608): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 4},
    (8192, 8192, 3584): {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K":  1, "GROUP_M": 4},
}
