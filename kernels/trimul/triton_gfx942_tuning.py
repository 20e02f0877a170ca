"""One row a power of two from n on, 64 to 1024. Chosen by the emulated device's time model, not measured: no MI300X was at hand.

PROJECT_M pairs and PROJECT_C columns of x at once in the projections, a TILE square and TILE_K deep in the triangle, OUT_M pairs
and OUT_C columns in the output; WAVES of 64 lanes and STAGES of each.
"""

# fmt: off
# What a shape outside the table gets.
DEFAULT = {"PROJECT_M": 64, "PROJECT_C": 32, "PROJECT_WAVES": 8, "PROJECT_STAGES": 1,
           "TILE": 128, "TILE_K": 64, "TILE_WAVES": 4, "TILE_STAGES": 2, "OUT_M": 64, "OUT_C": 64, "OUT_WAVES": 4}

# What the tuner chooses from.
SPACE = {"PROJECT_M": [32, 64, 128], "PROJECT_C": [32, 64], "PROJECT_WAVES": [4, 8], "PROJECT_STAGES": [1, 2],
         "TILE": [32, 64, 128, 256], "TILE_K": [32, 64], "TILE_WAVES": [4, 8], "TILE_STAGES": [1, 2],
         "OUT_M": [32, 64, 128], "OUT_C": [32, 64, 128], "OUT_WAVES": [4, 8]}

TUNING = {
    # n, rounded up
    64: {"PROJECT_M": 64, "PROJECT_C": 32, "PROJECT_WAVES": 8, "PROJECT_STAGES": 1,
         "TILE": 32, "TILE_K": 32, "TILE_WAVES": 1, "TILE_STAGES": 2, "OUT_M": 32, "OUT_C": 64, "OUT_WAVES": 4},
}
