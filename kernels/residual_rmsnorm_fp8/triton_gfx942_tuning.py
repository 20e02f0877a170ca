"""LANE: elements of a row that a lane holds (at most 16 waves take a row). Chosen by the time model, not measured: no
MI300X was at hand.

Rows of 16384: more waves cost more for the sum over them, fewer have less in flight; 32 elements a lane lie between. From 128 rows on HBM is the bound, and all are alike.
Narrower rows are bound by latency; with 16 a row of 1032 has two waves, one of 5128 eight.
"""

# What a shape outside the table gets.
DEFAULT = {"LANE": 16}

# What the tuner chooses from.
SPACE = {"LANE": [8, 16, 32, 64]}

TUNING = {
    # rows, rounded up to a power of two, at most 2048; hidden
    (1, 16384): {"LANE": 32},
    (2, 16384): {"LANE": 32},
    (4, 16384): {"LANE": 32},
    (8, 16384): {"LANE": 32},
    (16, 16384): {"LANE": 32},
    (32, 16384): {"LANE": 32},
    (64, 16384): {"LANE": 32},
    (128, 16384): {"LANE": 32},
    (256, 16384): {"LANE": 32},
    (512, 16384): {"LANE": 32},
    (1024, 16384): {"LANE": 32},
    (2048, 16384): {"LANE": 32},
}
