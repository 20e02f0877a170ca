"""EIGHTS: eights of outputs that a workgroup computes; with 64 for each of its waves, a lane has one eight.

Chosen by the time model and by reasoning, not measured: no MI300X was at hand. Few rows are bound by latency, and small
workgroups reach the most CUs: by the model, 32 rows of 6656 take 2.23, 2.29 and 2.31 us in workgroups of 1, 2 and 4
waves. From 256 rows on HBM is the bound and all are alike; there, workgroups are larger so that fewer have to start,
and from 512 rows on a lane has two eights, which spares a twentieth of the vector instructions.
"""

# What a shape outside the table gets.
DEFAULT = {"EIGHTS": 256, "num_warps": 4}

# What the tuner chooses from.
SPACE = {"EIGHTS": [64, 128, 256, 512, 1024], "num_warps": [1, 2, 4, 8]}

TUNING = {
    # rows, rounded up to a power of two, at most 2048; n
    (1, 6656): {"EIGHTS": 64, "num_warps": 1},
    (8, 6656): {"EIGHTS": 64, "num_warps": 1},
    (32, 6656): {"EIGHTS": 64, "num_warps": 1},
    (128, 6656): {"EIGHTS": 64, "num_warps": 1},
    (256, 6656): {"EIGHTS": 256, "num_warps": 4},
    (512, 6656): {"EIGHTS": 512, "num_warps": 4},
    (1024, 6656): {"EIGHTS": 512, "num_warps": 4},
    (2048, 6656): {"EIGHTS": 512, "num_warps": 4},
    (1, 16384): {"EIGHTS": 64, "num_warps": 1},
    (32, 16384): {"EIGHTS": 64, "num_warps": 1},
    (256, 16384): {"EIGHTS": 512, "num_warps": 4},
    (1024, 16384): {"EIGHTS": 512, "num_warps": 4},
    (2048, 16384): {"EIGHTS": 512, "num_warps": 4},
}
