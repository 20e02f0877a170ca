"""One row a weight shape; m is the rows of a as they are padded, 16 or 32. BLOCKS: of 16 columns, in a workgroup's tile;
WAVES: of a workgroup; SPLIT_K: slices of k.
"""

# What a shape outside the table gets. SPLIT_K 0: as many as fill the card, see split_k() in host.py.
DEFAULT = {"BLOCKS": 2, "WAVES": 4, "SPLIT_K": 0}

# What the tuner chooses from.
SPACE = {"BLOCKS": [1, 2], "WAVES": [2, 4, 8], "SPLIT_K": [1, 2, 4, 8, 16]}

# fmt: off
TUNING = {
    # m   n      k
    (16,  2304, 16384): {"BLOCKS": 1, "WAVES": 8, "SPLIT_K": 2},
    (32,  2304, 16384): {"BLOCKS": 1, "WAVES": 8, "SPLIT_K": 2},
    (16, 13312, 16384): {"BLOCKS": 2, "WAVES": 4, "SPLIT_K": 1},
    (32, 13312, 16384): {"BLOCKS": 2, "WAVES": 4, "SPLIT_K": 1},
    (16, 16384,  6656): {"BLOCKS": 2, "WAVES": 4, "SPLIT_K": 1},
    (32, 16384,  6656): {"BLOCKS": 2, "WAVES": 4, "SPLIT_K": 1},
}
