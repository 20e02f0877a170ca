"""LANE: outputs of a lane; WAVES: of a workgroup. Chosen by the time model and by reasoning, not measured: no MI300X was
at hand.

Few rows are bound by latency, and few outputs a lane spread the arithmetic over more CUs. From 256 rows on HBM is the
bound. Workgroups of one wave leave no CU waiting for the rest of a larger one in the end, and fit every width.
"""

# What a shape outside the table gets.
DEFAULT = {"LANE": 8, "WAVES": 1}

# What the tuner chooses from.
SPACE = {"LANE": [2, 4, 8, 16], "WAVES": [1, 2, 4, 8]}

TUNING = {
    # rows, rounded up to a power of two, at most 2048; n
    (   1,  6656): {"LANE": 2, "WAVES": 4},  # 2.961 us, before 3.156, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0, ziglang 0.17.0, clang 22.1.8
    (   1, 16384): {"LANE": 2, "WAVES": 4},  # 2.963 us, before 3.158, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0, ziglang 0.17.0, clang 22.1.8
    (2, 6656): {"LANE": 2, "WAVES": 1},
    (2, 16384): {"LANE": 2, "WAVES": 1},
    (4, 6656): {"LANE": 2, "WAVES": 1},
    (4, 16384): {"LANE": 2, "WAVES": 1},
    (   8,  6656): {"LANE": 2, "WAVES": 4},  # 2.97 us, before 3.056, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0, ziglang 0.17.0, clang 22.1.8
    (8, 16384): {"LANE": 2, "WAVES": 1},
    (16, 6656): {"LANE": 2, "WAVES": 1},
    (16, 16384): {"LANE": 4, "WAVES": 1},
    (32, 6656): {"LANE": 2, "WAVES": 1},
    (  32, 16384): {"LANE": 2, "WAVES": 1},  # 3.417 us, before 3.517, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0, ziglang 0.17.0, clang 22.1.8
    (64, 6656): {"LANE": 4, "WAVES": 1},
    (64, 16384): {"LANE": 8, "WAVES": 1},
    ( 128,  6656): {"LANE": 2, "WAVES": 2},  # 3.742 us, before 3.807, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0, ziglang 0.17.0, clang 22.1.8
    (128, 16384): {"LANE": 8, "WAVES": 1},
    ( 256,  6656): {"LANE": 4, "WAVES": 1},  # 4.757 us, before 4.847, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0, ziglang 0.17.0, clang 22.1.8
    (256, 16384): {"LANE": 8, "WAVES": 1},
    (512, 6656): {"LANE": 8, "WAVES": 1},
    (512, 16384): {"LANE": 8, "WAVES": 1},
    (1024, 6656): {"LANE": 8, "WAVES": 1},
    (1024, 16384): {"LANE": 2, "WAVES": 1},  # 21.04 us, before 21.53, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0, ziglang 0.17.0, clang 22.1.8
    (2048,  6656): {"LANE": 2, "WAVES": 1},  # 17.44 us, before 17.94, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0, ziglang 0.17.0, clang 22.1.8
    (2048, 16384): {"LANE": 8, "WAVES": 1},
}
