"""One row a shape of amd-mixture-of-experts. Chosen by the emulated device's time model, not measured: no MI300X was at hand.

TILE_ROWS 256 takes tiles of 256 x 256, and of 128 x 256 where an expert has no more rows left; 128 only these.
GROUP_ROWS tiles go down before the next column: an expert's rows at 2048 tokens, so that its weights are read once.
"""

# What a shape outside the table gets.
DEFAULT = {"TILE_ROWS": 256, "GROUP_ROWS": 8}

# What the tuner chooses from.
SPACE = {"TILE_ROWS": [128, 256], "GROUP_ROWS": [1, 2, 4, 8, 16]}

# fmt: off
TUNING = {
    # tokens, experts, top k, d_hidden, d_expert: benchmarks
    (2048, 32, 4, 7168, 2048): {"TILE_ROWS": 256, "GROUP_ROWS": 8},
    (8192, 32, 4, 7168, 2048): {"TILE_ROWS": 256, "GROUP_ROWS": 8},
    # tests
    ( 512,  4, 4, 7168, 2048): {"TILE_ROWS": 256, "GROUP_ROWS": 8},
    (1024,  8, 4, 7168, 2048): {"TILE_ROWS": 256, "GROUP_ROWS": 8},
    (8192,  8, 4, 7168, 2048): {"TILE_ROWS": 256, "GROUP_ROWS": 8},
}
