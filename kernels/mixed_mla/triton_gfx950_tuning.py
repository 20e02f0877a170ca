"""One row a shape of amd-mixed-mla, chosen by modelled times of single launches, none of them measured."""

# What a shape outside the table gets, with as many splits as fill the card (tuning_row).
# fmt: off
DEFAULT = {"KV": "fp8", "BLOCK_KV": 128, "SPLITS": 1, "num_warps": 4, "num_stages": 2}

SPACE = {
    "KV": ["fp8", "bf16"], "BLOCK_KV": [32, 64, 128], "SPLITS": [1, 2, 4, 8, 16, 32, 64], "num_warps": [4, 8],
    "num_stages": [1, 2, 3],
}

TUNING = {
    # batch, queries each, tokens
    (  4, 1, 1024): {"KV": "fp8", "BLOCK_KV":  32, "SPLITS": 32, "num_warps": 4, "num_stages": 2},
    (  4, 1, 8192): {"KV": "fp8", "BLOCK_KV": 128, "SPLITS": 64, "num_warps": 4, "num_stages": 2},
    ( 32, 1, 1024): {"KV": "fp8", "BLOCK_KV": 128, "SPLITS":  8, "num_warps": 4, "num_stages": 2},
    ( 32, 1, 8192): {"KV": "fp8", "BLOCK_KV": 128, "SPLITS":  8, "num_warps": 4, "num_stages": 2},
    ( 64, 1, 1024): {"KV": "fp8", "BLOCK_KV": 128, "SPLITS":  4, "num_warps": 4, "num_stages": 2},
    ( 64, 1, 8192): {"KV": "fp8", "BLOCK_KV": 128, "SPLITS":  4, "num_warps": 4, "num_stages": 2},
    (256, 1, 1024): {"KV": "fp8", "BLOCK_KV": 128, "SPLITS":  1, "num_warps": 4, "num_stages": 2},
    (256, 1, 8192): {"KV": "fp8", "BLOCK_KV": 128, "SPLITS":  1, "num_warps": 4, "num_stages": 2},
}
