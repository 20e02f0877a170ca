"""One row a weight shape; m is the rows of a as they are padded, 16 or 32. Chosen by the time model and by reasoning,
not measured: no MI300X was at hand.

Every benchmark is bound by the weight's bytes from HBM, so a row has to keep enough of them in flight and to add little
traffic of its own. A tile of 32 x 512 is 16 KB, in flight while the one before it is multiplied; LDS holds two
workgroups a CU, which makes 9 MB in flight on the card where there are two for each. n = 13312 and 16384 have 416 and
512 tiles, all resident at once, and need no split; n = 2304 has 72, which eight slices make 576. By the model two
slices cost m = 32 at n = 13312 1.2 us of 56.4, and eight instead of four at n = 2304 0.3 of 11.4.
"""

# What a shape outside the table gets. SPLIT_K 0: as many slices as fill the card, see split_k() in host.py.
DEFAULT = {"BLOCK_N": 32, "BLOCK_K": 512, "SPLIT_K": 0, "num_warps": 2, "num_stages": 2}

# What the tuner chooses from.
SPACE = {
    "BLOCK_N": [16, 32, 64],
    "BLOCK_K": [128, 256, 512],
    "SPLIT_K": [1, 2, 4, 6, 8, 12, 16],
    "num_warps": [1, 2, 4],
    "num_stages": [2, 3],
}

# fmt: off
TUNING = {
    # m   n      k
    (16,  2304, 16384): {"BLOCK_N": 32, "BLOCK_K": 512, "SPLIT_K": 8, "num_warps": 2, "num_stages": 2},
    (32,  2304, 16384): {"BLOCK_N": 32, "BLOCK_K": 512, "SPLIT_K": 8, "num_warps": 2, "num_stages": 2},
    (16, 13312, 16384): {"BLOCK_N": 32, "BLOCK_K": 512, "SPLIT_K": 1, "num_warps": 2, "num_stages": 2},
    (32, 13312, 16384): {"BLOCK_N": 32, "BLOCK_K": 512, "SPLIT_K": 1, "num_warps": 2, "num_stages": 2},
    (16, 16384,  6656): {"BLOCK_N": 32, "BLOCK_K": 512, "SPLIT_K": 1, "num_warps": 2, "num_stages": 2},
    (32, 16384,  6656): {"BLOCK_N": 32, "BLOCK_K": 512, "SPLIT_K": 1, "num_warps": 2, "num_stages": 2},
}
