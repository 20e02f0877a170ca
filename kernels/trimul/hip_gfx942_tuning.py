"""One row a power of two from n on, 64 to 1024. Chosen by the emulated device's time model, not measured: no MI300X was at hand.

TILE: rows and columns of the triangle product's tile. Of 64 four share a CU, of 128 two.
"""

# What a shape outside the table gets.
DEFAULT = {"TILE": 128}

# What the tuner chooses from.
SPACE = {"TILE": [64, 128, 256]}

TUNING = {
    # n, rounded up
    64: {"TILE": 64},
    128: {"TILE": 128},
    256: {"TILE": 128},
    512: {"TILE": 128},
    1024: {"TILE": 128},
}
