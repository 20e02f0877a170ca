"""One row a weight shape; m is the rows of a as they are padded, 16 or 32. BLOCKS: of 16 columns, in a workgroup's tile;
WAVES: of a workgroup; SPLIT_K: slices of k.

Chosen by the time model and by reasoning, not measured: no MI300X was at hand. The weight's bytes are the bound, and the
CU that has most of them ends last, so a row's workgroups are to divide evenly among 304 CUs: n = 13312 has 832 tiles of
16 columns, 3 for the fullest CU and 2.7 in the mean, by the model 65 us; 416 tiles of 32 columns, 2 and 1.4, take 85.
n = 16384 has 2048 workgroups with two slices (7 and 6.7), n = 2304 has 288, one for each CU.
"""

# What a shape outside the table gets. SPLIT_K 0: as many as fill the card, see split_k() in host.py.
DEFAULT = {"BLOCKS": 1, "WAVES": 4, "SPLIT_K": 0}

# What the tuner chooses from.
SPACE = {"BLOCKS": [1, 2], "WAVES": [1, 2, 4, 8], "SPLIT_K": [1, 2, 4, 8, 16]}

# fmt: off
TUNING = {
    # m   n      k
    (16,  2304, 16384): {"BLOCKS": 1, "WAVES": 4, "SPLIT_K": 1},
    (32,  2304, 16384): {"BLOCKS": 1, "WAVES": 2, "SPLIT_K": 1},
    (16, 13312, 16384): {"BLOCKS": 1, "WAVES": 1, "SPLIT_K": 1},
    (32, 13312, 16384): {"BLOCKS": 1, "WAVES": 1, "SPLIT_K": 1},
    (16, 16384,  6656): {"BLOCKS": 1, "WAVES": 1, "SPLIT_K": 1},
    (32, 16384,  6656): {"BLOCKS": 1, "WAVES": 1, "SPLIT_K": 1},
}
