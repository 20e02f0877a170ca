"""One row a shape of amd-mixed-mla; none was measured: no MI355X was at hand.

Rows were chosen by the emulated card's time model (docs/tuning.md).
"""

# What a shape outside the table gets, with as many splits as fill the card (tuning_row).
# fmt: off
DEFAULT = {"KV": "fp8", "BLOCK_KV": 128, "SPLITS": 1, "num_warps": 4, "num_stages": 2}

SPACE = {
    "KV": ["fp8", "bf16"], "BLOCK_KV": [32, 64, 128], "SPLITS": [1, 2, 4, 8, 16, 32, 64], "num_warps": [4, 8],
    "num_stages": [1, 2, 3],
}

TUNING = {
    # batch, queries each, tokens
    (  4, 1, 1024): {"KV": "fp8", "BLOCK_KV":  32, "SPLITS": 32, "num_warps": 4, "num_stages": 2},  # 10.85 us, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    (  4, 1, 8192): {"KV": "fp8", "BLOCK_KV": 128, "SPLITS": 64, "num_warps": 4, "num_stages": 2},  # 15.72 us, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    ( 32, 1, 1024): {"KV": "fp8", "BLOCK_KV": 128, "SPLITS":  8, "num_warps": 4, "num_stages": 2},  # 14.92 us, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    ( 32, 1, 8192): {"KV": "fp8", "BLOCK_KV": 128, "SPLITS":  8, "num_warps": 4, "num_stages": 2},  # 41.45 us, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    ( 64, 1, 1024): {"KV": "fp8", "BLOCK_KV": 128, "SPLITS":  4, "num_warps": 4, "num_stages": 2},  # 17.24 us, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    ( 64, 1, 8192): {"KV": "fp8", "BLOCK_KV": 128, "SPLITS":  4, "num_warps": 8, "num_stages": 2},  # 68.04 us, before 71.39, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    (256, 1, 1024): {"KV": "fp8", "BLOCK_KV": 128, "SPLITS":  1, "num_warps": 4, "num_stages": 2},  # 38.1 us, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    (256, 1, 8192): {"KV": "fp8", "BLOCK_KV": 128, "SPLITS":  1, "num_warps": 4, "num_stages": 2},  # 254.4 us, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
}
