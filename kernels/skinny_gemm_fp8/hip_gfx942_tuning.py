"""One row a weight shape; m is the rows of a as they are padded, 16 or 32. BLOCKS: of 16 columns, in a workgroup's tile;
WAVES: of a workgroup; SPLIT_K: slices of k.

Chosen by the time model and by reasoning, not measured: no MI300X was at hand. The weight's bytes are the bound, and what a
slice of k takes at the end (1.5 us) is more than it gains: n = 2304 has 144 workgroups, which pull all that HBM gives by
the model. Of n = 13312 and 16384 workgroups of one wave are all on the card at once, and need no LDS.
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
