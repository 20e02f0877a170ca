"""LANE: outputs of a piece; PIECES: of a workgroup; with 64 for each of its waves, a lane has one piece.

Chosen by the time model and by reasoning, not measured: no MI300X was at hand. Few rows are bound by latency: small
workgroups reach the most CUs, and small pieces spread the arithmetic over more lanes. From 256 rows on HBM is the bound;
there, workgroups are larger so that fewer have to start, and from 512 rows on a lane has two pieces of 8, which spares a
twentieth of the vector instructions.
"""

# What a shape outside the table gets.
DEFAULT = {"LANE": 8, "PIECES": 256, "num_warps": 4}

# What the tuner chooses from.
SPACE = {"LANE": [2, 4, 8], "PIECES": [64, 128, 256, 512, 1024], "num_warps": [1, 2, 4, 8]}

TUNING = {
    # rows, rounded up to a power of two, at most 2048; n
    (1, 6656): {"LANE": 2, "PIECES": 64, "num_warps": 1},
    (8, 6656): {"LANE": 2, "PIECES": 64, "num_warps": 1},
    (32, 6656): {"LANE": 2, "PIECES": 64, "num_warps": 1},
    (128, 6656): {"LANE": 4, "PIECES": 64, "num_warps": 1},
    (256, 6656): {"LANE": 8, "PIECES": 256, "num_warps": 4},
    (512, 6656): {"LANE": 8, "PIECES": 512, "num_warps": 4},
    (1024, 6656): {"LANE": 8, "PIECES": 512, "num_warps": 4},
    (2048, 6656): {"LANE": 8, "PIECES": 512, "num_warps": 4},
    (1, 16384): {"LANE": 2, "PIECES": 64, "num_warps": 1},
    (32, 16384): {"LANE": 4, "PIECES": 64, "num_warps": 1},
    (256, 16384): {"LANE": 8, "PIECES": 512, "num_warps": 4},
    (1024, 16384): {"LANE": 8, "PIECES": 512, "num_warps": 4},
    (2048, 16384): {"LANE": 8, "PIECES": 512, "num_warps": 4},
}
