"""One row a weight shape; m is the rows of a as they are padded, 16 or 32. BLOCKS: of 16 columns, in a workgroup's tile;
WAVES: of a workgroup; SPLIT_K: slices of k.

Chosen by the time model, `python -m lab.tuning_tables`, not measured: no MI300X was at hand. The weight's bytes are the
bound. A slice of k takes 1.5 us at the end, which pays for 32 rows of n = 2304 alone: 144 workgroups leave half of the CUs idle.
"""

# What a shape outside the table gets. SPLIT_K 0: as many as fill the card, see split_k() in host.py.
DEFAULT = {"BLOCKS": 1, "WAVES": 4, "SPLIT_K": 0}

# What the tuner chooses from.
SPACE = {"BLOCKS": [1, 2], "WAVES": [1, 2, 4, 8], "SPLIT_K": [1, 2, 4, 8, 16]}

# fmt: off
TUNING = {
    # m   n      k
    (16,  2304, 16384): {"BLOCKS": 1, "WAVES": 4, "SPLIT_K": 1},  # 12.2 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    (16, 13312, 16384): {"BLOCKS": 2, "WAVES": 4, "SPLIT_K": 2},  # 52.86 us, before 58.88, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0, ziglang 0.17.0, clang 22.1.8
    (16, 16384,  6656): {"BLOCKS": 1, "WAVES": 4, "SPLIT_K": 1},  # 29.5 us, before 31.16, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    (32,  2304, 16384): {"BLOCKS": 1, "WAVES": 2, "SPLIT_K": 2},  # 14.1 us, before 14.62, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    (32, 13312, 16384): {"BLOCKS": 1, "WAVES": 4, "SPLIT_K": 1},  # 55.24 us, before 72.62, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    (32, 16384,  6656): {"BLOCKS": 1, "WAVES": 4, "SPLIT_K": 1},  # 29.41 us, before 32.67, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
}
