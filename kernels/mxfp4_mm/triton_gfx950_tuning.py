"""One row a shape of amd-mxfp4-mm: what `python -m forge.tune` chose by modelled times, none of them measured.

Tiles of 16 rows of a, even at M = 256: quantising a takes longer than multiplying, so it is spread over more
workgroups; b is read again for each 16 rows, out of the L2. K = 7168 alone is split: 17 tiles leave most CUs idle.
"""

# fmt: off
# What a shape outside the table gets.
DEFAULT = {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 256, "SPLIT_K": 1, "num_warps": 4, "num_stages": 2}

SPACE = {
    "BLOCK_M": [16, 32, 64, 128], "BLOCK_N": [32, 64, 128], "BLOCK_K": [256, 512], "SPLIT_K": [1, 2, 4, 7, 14],
    "num_warps": [2, 4], "num_stages": [1, 2, 3],
}

TUNING = {
    # m     n     k   benchmarks
    (  4, 2880,  512): {"BLOCK_M": 16, "BLOCK_N":  32, "BLOCK_K": 512, "SPLIT_K":  1, "num_warps": 4, "num_stages": 2},
    ( 16, 2112, 7168): {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 512, "SPLIT_K": 14, "num_warps": 4, "num_stages": 2},
    ( 32, 2880,  512): {"BLOCK_M": 16, "BLOCK_N":  32, "BLOCK_K": 512, "SPLIT_K":  1, "num_warps": 4, "num_stages": 2},
    ( 32, 4096,  512): {"BLOCK_M": 16, "BLOCK_N":  32, "BLOCK_K": 512, "SPLIT_K":  1, "num_warps": 4, "num_stages": 2},
    ( 64, 7168, 2048): {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 512, "SPLIT_K":  1, "num_warps": 4, "num_stages": 2},
    (256, 3072, 1536): {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 512, "SPLIT_K":  1, "num_warps": 4, "num_stages": 2},
    # a test that leaves most of the card idle without split-K
    (  8, 2112, 7168): {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 512, "SPLIT_K": 14, "num_warps": 4, "num_stages": 2},
}
