"""One row a shape of amd-fp8-mm; none was measured: no MI300X was at hand.

Rows with a time, in us, were chosen by it: the emulated card's time model of an AMD Instinct MI300X, with code of Triton
3.6.0, of about 150 rows that were tried by hand; `before`: what the row and the kernel until then took. The rows of tests
are of an earlier, coarser model and have not been tried since.

MFMA is the instruction's row count: 32x32x16 moves half the LDS bytes per FLOP of 16x16x32. WAVES: of a SIMD, for which
the compiler keeps registers free (0: it chooses; two workgroups of four waves then often do not fit). VEC: bytes of one
row of k that a lane loads. KPACK: 2 reads LDS 16 bytes a lane. TURN: 1 turns both operands in a launch before; M and N
are multiples of 4 there.
"""

# What a shape outside the table gets: small enough to fill the card at M = 64, and no partial sums.
# fmt: off
DEFAULT = {"BLOCK_M":  64, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 0, "VEC": 16, "KPACK": 1, "TURN": 0}

# What the tuner chooses from.
SPACE = {
    "BLOCK_M": [64, 128, 256], "BLOCK_N": [64, 128], "BLOCK_K": [64, 128], "SPLIT_K": [1, 2, 3, 4, 6, 8, 9, 14],
    "GROUP_M": [1, 4, 8], "num_warps": [4, 8], "num_stages": [1, 2], "MFMA": [16, 32],
    "WAVES": [0, 1, 2], "VEC": [4, 8, 16], "KPACK": [1, 2], "TURN": [0, 1],
}

TUNING = {
    # m     n     k   benchmarks
    (1024,  512, 7168): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  9, "MFMA": 32, "num_warps": 8, "num_stages": 2, "WAVES": 2, "VEC":  8, "KPACK": 1, "TURN": 0},  # 22.29 us, before 27.1
    (1024,  576, 7168): {"BLOCK_M": 128, "BLOCK_N":  64, "BLOCK_K": 128, "GROUP_M": 1, "SPLIT_K":  8, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 2, "VEC":  8, "KPACK": 1, "TURN": 0},  # 23.98 us, before 28.6
    (1024, 1536, 7168): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 8, "SPLIT_K":  3, "MFMA": 32, "num_warps": 8, "num_stages": 2, "WAVES": 2, "VEC":  8, "KPACK": 1, "TURN": 0},  # 43.13 us, before 48.2
    (1024, 3072, 1536): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 1, "SPLIT_K":  1, "MFMA": 32, "num_warps": 8, "num_stages": 2, "WAVES": 2, "VEC":  8, "KPACK": 1, "TURN": 0},  # 23.21 us, before 24.1
    (1024, 4096, 512): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 2, "VEC":  8, "KPACK": 2, "TURN": 0},  # 13.4 us, before 14.3
    (1024, 4608, 7168): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 8, "SPLIT_K":  1, "MFMA": 32, "num_warps": 8, "num_stages": 2, "WAVES": 0, "VEC":  8, "KPACK": 1, "TURN": 0},  # 96.62 us, before 105.7
    (1024, 7168, 256): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 8, "SPLIT_K":  1, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 2, "VEC":  8, "KPACK": 2, "TURN": 0},  # 14.18 us, before 15.0
    (1024, 7168, 2048): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 8, "SPLIT_K":  1, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 2, "VEC": 16, "KPACK": 2, "TURN": 1},  # 48.89 us, before 53.5
    (1024, 7168, 2304): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 8, "SPLIT_K":  1, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 2, "VEC": 16, "KPACK": 2, "TURN": 1},  # 53.67 us, before 59.0
    (6144,  512, 7168): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  3, "MFMA": 16, "num_warps": 4, "num_stages": 2, "WAVES": 2, "VEC":  8, "KPACK": 2, "TURN": 0},  # 74.85 us, before 83.1
    (6144,  576, 7168): {"BLOCK_M": 128, "BLOCK_N":  64, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 2, "VEC":  4, "KPACK": 1, "TURN": 0},  # 91.76 us, before 99.5
    (6144, 1536, 7168): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 2, "VEC": 16, "KPACK": 2, "TURN": 1},  # 151.14 us, before 177.1
    (6144, 3072, 1536): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 2, "VEC": 16, "KPACK": 2, "TURN": 1},  # 74.79 us, before 88.1
    (6144, 4096, 512): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 2, "VEC": 16, "KPACK": 2, "TURN": 1},  # 49.46 us, before 57.0
    (6144, 4608, 7168): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 2, "VEC": 16, "KPACK": 2, "TURN": 1},  # 412.1 us, before 520.7
    (6144, 7168, 256): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 1, "SPLIT_K":  1, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 2, "VEC": 16, "KPACK": 2, "TURN": 1},  # 53.62 us, before 64.7
    (6144, 7168, 2048): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 2, "VEC": 16, "KPACK": 2, "TURN": 1},  # 208.35 us, before 267.4
    (6144, 7168, 2304): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  1, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 2, "VEC": 16, "KPACK": 2, "TURN": 1},  # 228.7 us, before 296.3
    # tests that leave most of the card idle without split-K
    (  64, 1536, 7168): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  8, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 0, "VEC": 16, "KPACK": 1, "TURN": 0},
    (  64,  576, 7168): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K": 14, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 0, "VEC": 16, "KPACK": 1, "TURN": 0},
    (  96, 4608, 7168): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  4, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 0, "VEC": 16, "KPACK": 1, "TURN": 0},
    (  96, 7168, 2048): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  2, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 0, "VEC": 16, "KPACK": 1, "TURN": 0},
    ( 128,  512, 7168): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K": 14, "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 0, "VEC": 16, "KPACK": 1, "TURN": 0},
    ( 512, 1536, 7168): {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K":  7, "MFMA": 32, "num_warps": 8, "num_stages": 2, "WAVES": 0, "VEC": 16, "KPACK": 1, "TURN": 0},
}
