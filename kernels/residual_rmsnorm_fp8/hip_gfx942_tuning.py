"""VECTORS: eights of a row that a lane holds; PER_CU: workgroups that may share a CU, 0 as many as fit. Chosen by the time
model, not measured: no MI300X was at hand.

Many rows are bound by HBM, and a row or two a CU keep enough bytes under way.
"""

# What a shape outside the table gets; more eights where 1024 threads could not hold the row so.
DEFAULT = {"VECTORS": 1, "PER_CU": 0}

# What the tuner chooses from.
SPACE = {"VECTORS": [1, 2, 4], "PER_CU": [0, 1, 2, 3]}

TUNING = {
    # rows, rounded up to a power of two, at most 2048; hidden
    (1, 16384): {"VECTORS": 4, "PER_CU": 0},
    (2, 16384): {"VECTORS": 4, "PER_CU": 0},
    (4, 16384): {"VECTORS": 4, "PER_CU": 0},
    (8, 16384): {"VECTORS": 4, "PER_CU": 0},
    (16, 16384): {"VECTORS": 4, "PER_CU": 0},
    (32, 16384): {"VECTORS": 4, "PER_CU": 0},
    (64, 16384): {"VECTORS": 4, "PER_CU": 0},
    (128, 16384): {"VECTORS": 4, "PER_CU": 0},
    (256, 16384): {"VECTORS": 4, "PER_CU": 0},
    ( 512, 16384): {"VECTORS": 4, "PER_CU": 0},  # 17.68 us, before 17.96, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0, ziglang 0.17.0, clang 22.1.8
    (1024, 16384): {"VECTORS": 2, "PER_CU": 2},  # 28.58 us, before 32.6, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0, ziglang 0.17.0, clang 22.1.8
    (2048, 16384): {"VECTORS": 4, "PER_CU": 0},  # 54.77 us, before 55.51, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0, ziglang 0.17.0, clang 22.1.8
}
