"""One row a shape of amd-moe-mxfp4: the fastest by modelled times, none of them measured.

BLOCK_M: rows of a block. DOWN_TILES: tiles of 256 columns a workgroup of `down`. ADDS: rows are added to the output as they
come, in any order, each rounded to bf16: two runs may differ. Not unless no row without it comes near.
"""

# fmt: off
# What a shape outside the table gets, with another BLOCK_M where experts have more pairs (tuning_row).
DEFAULT = {"BLOCK_M": 16, "DOWN_TILES": 1, "ADDS": False}

# And where experts have more than 64 pairs.
MANY_ROWS = {"BLOCK_M": 144, "DOWN_TILES": 2, "ADDS": False}

SPACE = {"BLOCK_M": [16, 32, 64, 128, 144], "DOWN_TILES": [1, 2, 4, 7], "ADDS": [False, True]}

TUNING = {
    # tokens, experts, d_hidden, d_expert   benchmarks
    ( 16, 257, 7168,  256): {"BLOCK_M": 16, "DOWN_TILES": 2, "ADDS": False},
    (128, 257, 7168,  256): {"BLOCK_M": 32, "DOWN_TILES": 4, "ADDS": False},
    (512, 257, 7168,  256): {"BLOCK_M": 32, "DOWN_TILES": 4, "ADDS": True},
    ( 16,  33, 7168,  512): {"BLOCK_M": 16, "DOWN_TILES": 1, "ADDS": False},
    (128,  33, 7168,  512): {"BLOCK_M": 32, "DOWN_TILES": 1, "ADDS": False},
    (512,  33, 7168,  512): {"BLOCK_M": 128, "DOWN_TILES": 4, "ADDS": False},
    (512,  33, 7168, 2048): {"BLOCK_M": 144, "DOWN_TILES": 2, "ADDS": False},
}
