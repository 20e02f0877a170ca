"""One row a weight shape; m is the rows of a as they are padded, 16 or 32. None was measured: no MI300X was at hand.

Chosen by the emulated card's time model (docs/tuning.md); lab/tried has the others. The weight's bytes from HBM bound every
benchmark, so a row has to keep enough of them in flight and to add little traffic of its own.
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
    (16,  2304, 16384): {"BLOCK_N": 32, "BLOCK_K": 256, "SPLIT_K":  8, "num_warps": 2, "num_stages": 2},  # 13.88 us, before 14.51, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (16, 13312, 16384): {"BLOCK_N": 32, "BLOCK_K": 256, "SPLIT_K":  5, "num_warps": 2, "num_stages": 2},  # 59.55 us, before 73.44, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (16, 16384,  6656): {"BLOCK_N": 32, "BLOCK_K": 512, "SPLIT_K":  1, "num_warps": 2, "num_stages": 2},  # 37.34 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (32,  2304, 16384): {"BLOCK_N": 32, "BLOCK_K": 512, "SPLIT_K":  8, "num_warps": 2, "num_stages": 2},  # 16.46 us, before 18.4, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (32, 13312, 16384): {"BLOCK_N": 32, "BLOCK_K": 256, "SPLIT_K":  5, "num_warps": 2, "num_stages": 2},  # 61.63 us, before 77.34, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (32, 16384,  6656): {"BLOCK_N": 64, "BLOCK_K": 512, "SPLIT_K":  1, "num_warps": 2, "num_stages": 2},  # 35.99 us, before 38, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
}
