"""One row a shape of amd-mixed-mla: the fastest by modelled times of those that were tried, none of them measured.

Up to MOST_MERGED splits are added by the workgroup that comes last, more by a second launch.
"""

# fmt: off
# What a shape outside the table gets, with as many splits as fill the card (tuning_row).
DEFAULT = {"SPLITS": 1, "MOST_MERGED": 8}

SPACE = {"SPLITS": [1, 2, 4, 8, 16, 32, 64], "MOST_MERGED": [1, 8, 64]}

TUNING = {
    # batch, queries each, tokens
    (  4, 1, 1024): {"SPLITS":  8, "MOST_MERGED": 8},
    (  4, 1, 8192): {"SPLITS": 64, "MOST_MERGED": 8},
    ( 32, 1, 1024): {"SPLITS":  8, "MOST_MERGED": 8},
    ( 32, 1, 8192): {"SPLITS":  8, "MOST_MERGED": 8},
    ( 64, 1, 1024): {"SPLITS":  4, "MOST_MERGED": 8},
    ( 64, 1, 8192): {"SPLITS":  4, "MOST_MERGED": 8},
    (256, 1, 1024): {"SPLITS":  1, "MOST_MERGED": 8},
    (256, 1, 8192): {"SPLITS":  1, "MOST_MERGED": 8},
}
