"""One row a batch of amd-mla-decode. Chosen by the emulated device's time model, not measured: no MI300X was at hand.

SPLIT_DOWN and SPLIT_OUT slices of k of the first and the last product: more are more workgroups, and more for the one that
adds a tile's slices.
"""

# What a shape outside the table gets.
DEFAULT = {"SPLIT_DOWN": 6, "SPLIT_OUT": 8}

# What the tuner chooses from.
SPACE = {"SPLIT_DOWN": [1, 3, 5, 6, 7, 9, 14], "SPLIT_OUT": [1, 2, 3, 4, 5, 8, 11]}

# fmt: off
TUNING = {
    # batch  dim    dq
    (   128, 7168, 1536): {"SPLIT_DOWN": 6, "SPLIT_OUT": 8},
}
