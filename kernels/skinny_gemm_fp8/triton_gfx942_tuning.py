"""One row a weight shape; m is the rows of a as they are padded, 16 or 32. Chosen by the time model and by reasoning,
not measured: no MI300X was at hand.

Every benchmark is bound by the weight's bytes from HBM, so a row has to keep enough of them in flight and to add little
traffic of its own. A tile of 32 x 512 is 16 KB, in flight while the one before it is multiplied; LDS holds two
workgroups a CU, which makes 9 MB in flight on the card where there are two for each. The CU that has most of the weight
ends last: n = 13312 has 416 tiles, 2 for the fullest of 304 CUs and 1.4 in the mean; five slices make them 7 and 6.8,
by the model 66 us instead of 85 at m = 1. n = 16384 has 512 tiles, of which four slices save nothing; n = 2304 has 72,
which eight slices make 576.
"""

# What a shape outside the table gets. SPLIT_K 0: as many slices as fill the card, see split_k() in host.py.
DEFAULT = {"BLOCK_N": 32, "BLOCK_K": 512, "SPLIT_K": 0, "num_warps": 2, "num_stages": 2}

# What the tuner chooses from.
SPACE = {
    "BLOCK_N": [16, 32, 64],
    "BLOCK_K": [128, 256, 512],
    "SPLIT_K": [1, 2, 4, 5, 6, 8, 12, 16],
    "num_warps": [1, 2, 4],
    "num_stages": [2, 3],
}

# fmt: off
TUNING = {
    # m   n      k
    (16,  2304, 16384): {"BLOCK_N": 32, "BLOCK_K": 256, "SPLIT_K":  8, "num_warps": 4, "num_stages": 2},  # 14.95 us, before 15.62, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (16, 13312, 16384): {"BLOCK_N": 32, "BLOCK_K": 256, "SPLIT_K":  5, "num_warps": 2, "num_stages": 2},  # 59.55 us, before 73.44, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (16, 16384,  6656): {"BLOCK_N": 32, "BLOCK_K": 512, "SPLIT_K": 1, "num_warps": 2, "num_stages": 2},
    (32,  2304, 16384): {"BLOCK_N": 32, "BLOCK_K": 256, "SPLIT_K": 12, "num_warps": 2, "num_stages": 2},  # 15.91 us, before 16.69, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (32, 13312, 16384): {"BLOCK_N": 32, "BLOCK_K": 512, "SPLIT_K": 5, "num_warps": 2, "num_stages": 2},
    (32, 16384,  6656): {"BLOCK_N": 32, "BLOCK_K": 512, "SPLIT_K": 1, "num_warps": 2, "num_stages": 2},
}
