"""VECTORS: eights of a row that a lane holds. Chosen by the time model, not measured: no MI300X was at hand.

By the model, 1 row of 16384 takes 3.50 us with 2 and 3.33 with 4, in half the waves. From 128 rows on HBM is the bound,
and both are alike.
"""

# What a shape outside the table gets; more where 1024 threads could not hold the row so.
DEFAULT = {"VECTORS": 1}

# What the tuner chooses from.
SPACE = {"VECTORS": [1, 2, 4]}

TUNING = {
    # rows, rounded up to a power of two, at most 2048; hidden
    (1, 16384): {"VECTORS": 4},
    (2, 16384): {"VECTORS": 4},
    (4, 16384): {"VECTORS": 4},
    (8, 16384): {"VECTORS": 4},
    (16, 16384): {"VECTORS": 4},
    (32, 16384): {"VECTORS": 4},
    (64, 16384): {"VECTORS": 4},
    (128, 16384): {"VECTORS": 4},
    (256, 16384): {"VECTORS": 4},
    (512, 16384): {"VECTORS": 4},
    (1024, 16384): {"VECTORS": 4},
    (2048, 16384): {"VECTORS": 4},
}
