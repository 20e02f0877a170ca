"""LANE: outputs of a lane; WAVES: of a workgroup."""

# What a shape outside the table gets.
DEFAULT = {"LANE": 8, "WAVES": 4}

# What the tuner chooses from.
SPACE = {"LANE": [2, 4, 8, 16], "WAVES": [1, 2, 4, 8, 13]}

TUNING = {
    # rows, rounded up to a power of two, at most 2048; n
    (1, 6656): {"LANE": 2, "WAVES": 1},
    (8, 6656): {"LANE": 2, "WAVES": 1},
    (32, 6656): {"LANE": 2, "WAVES": 1},
    (128, 6656): {"LANE": 4, "WAVES": 1},
    (256, 6656): {"LANE": 8, "WAVES": 1},
    (512, 6656): {"LANE": 8, "WAVES": 13},
    (1024, 6656): {"LANE": 8, "WAVES": 13},
    (2048, 6656): {"LANE": 8, "WAVES": 13},
    (1, 16384): {"LANE": 2, "WAVES": 1},
    (32, 16384): {"LANE": 2, "WAVES": 1},
    (256, 16384): {"LANE": 16, "WAVES": 8},
    (1024, 16384): {"LANE": 16, "WAVES": 8},
    (2048, 16384): {"LANE": 16, "WAVES": 8},
}
