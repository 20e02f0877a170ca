"""VECTORS: eights of a row that a lane holds; PER_CU: workgroups that may share a CU, 0 as many as fit. Chosen by the time
model, not measured: no MI300X was at hand.

By the model, 1 row of 16384 takes 6.0 us with 2 and with 4 eights a lane; 4 need half the waves. Many rows are bound by
HBM, and a row or two a CU keep enough bytes under way: with all that fit, some CUs have a row more than others from the
start, and finish later. 512 rows take 18.4 us with one row a CU and 20.3 with four, 1024 rows 34.2 and 37.2.
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
    (512, 16384): {"VECTORS": 4, "PER_CU": 1},
    (1024, 16384): {"VECTORS": 4, "PER_CU": 1},
    (2048, 16384): {"VECTORS": 4, "PER_CU": 2},
}
