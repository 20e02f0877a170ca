"""One row a shape of amd-mixed-mla: the fastest by modelled times of those that were tried, none of them measured.

KV: the cache that is read. mxfp4 is half of fp8; beside attention on the bf16 cache its relative L2 error is 0.065 at
8192 tokens and 0.12 at 1024 (normally distributed values), so it is taken at 8192 alone. Up to MOST_MERGED splits are
added by the workgroup that comes last, more by a second launch, whose workgroups read 32 KB a split together.
"""

# fmt: off
# What a shape outside the table gets, with as many splits as fill the card (tuning_row).
DEFAULT = {"KV": "fp8", "SPLITS": 1, "MOST_MERGED": 2}

SPACE = {"KV": ["fp8", "mxfp4"], "SPLITS": [1, 2, 4, 8, 16, 32, 64], "MOST_MERGED": [1, 8, 64]}

TUNING = {
    # batch, queries each, tokens
    (  4, 1, 1024): {"KV": "fp8",   "SPLITS": 12, "MOST_MERGED": 1},
    (  4, 1, 8192): {"KV": "mxfp4", "SPLITS": 32, "MOST_MERGED": 1},
    ( 32, 1, 1024): {"KV": "fp8",   "SPLITS":  8, "MOST_MERGED": 1},
    ( 32, 1, 8192): {"KV": "mxfp4", "SPLITS":  8, "MOST_MERGED": 1},
    ( 64, 1, 1024): {"KV": "fp8",   "SPLITS":  4, "MOST_MERGED": 1},
    ( 64, 1, 8192): {"KV": "mxfp4", "SPLITS":  4, "MOST_MERGED": 1},
    (256, 1, 1024): {"KV": "fp8",   "SPLITS":  1, "MOST_MERGED": 1},
    (256, 1, 8192): {"KV": "mxfp4", "SPLITS":  1, "MOST_MERGED": 1},
}
