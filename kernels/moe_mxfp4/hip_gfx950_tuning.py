"""One row a shape of amd-moe-mxfp4: the fastest by modelled times, none of them measured.

BLOCK_M: rows of a block of gate and up. TURN_ROWS: of `down` by columns, rows that a wave takes at a time; 0: it goes by
tiles. DOWN_TILES: then tiles of 256 columns a workgroup.
"""

# fmt: off
# What a shape outside the table gets where `down` goes by tiles, with another BLOCK_M where experts have more pairs (tuning_row).
DEFAULT = {"BLOCK_M": 16, "TURN_ROWS": 0, "DOWN_TILES": 1}

# And where experts have more than 64 pairs.
MANY_ROWS = {"BLOCK_M": 144, "TURN_ROWS": 0, "DOWN_TILES": 2}

SPACE = {"BLOCK_M": [16, 32, 64, 128, 144], "TURN_ROWS": [0, 16, 32, 48, 144], "DOWN_TILES": [0, 1, 2, 4]}

TUNING = {
    # tokens, experts, d_hidden, d_expert   benchmarks
    ( 16, 257, 7168,  256): {"BLOCK_M":  16, "TURN_ROWS":  16, "DOWN_TILES": 0},
    (128, 257, 7168,  256): {"BLOCK_M":  32, "TURN_ROWS":  16, "DOWN_TILES": 0},
    (512, 257, 7168,  256): {"BLOCK_M":  32, "TURN_ROWS":  32, "DOWN_TILES": 0},
    ( 16,  33, 7168,  512): {"BLOCK_M":  16, "TURN_ROWS":  16, "DOWN_TILES": 0},
    (128,  33, 7168,  512): {"BLOCK_M":  32, "TURN_ROWS":  48, "DOWN_TILES": 0},
    (512,  33, 7168,  512): {"BLOCK_M": 128, "TURN_ROWS": 144, "DOWN_TILES": 0},
    (512,  33, 7168, 2048): {"BLOCK_M": 144, "TURN_ROWS":   0, "DOWN_TILES": 2},
}
