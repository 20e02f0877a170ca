"""One row a shape of amd-moe-mxfp4. Chosen by modelled times, none of them measured; the fifth and sixth by forge.tune."""

# fmt: off
# What a shape outside the table gets, with another BLOCK_M where experts have more pairs (tuning_row).
DEFAULT = {"BLOCK_M": 16, "GATE_UP_N": 64, "DOWN_N": 128, "BLOCK_K": 256, "num_warps": 4, "num_stages": 2}

SPACE = {
    "BLOCK_M": [16, 32, 64, 128], "GATE_UP_N": [32, 64, 128], "DOWN_N": [64, 128, 256], "BLOCK_K": [256, 512],
    "num_warps": [2, 4, 8], "num_stages": [1, 2, 3],
}

TUNING = {
    # tokens, experts, d_hidden, d_expert   benchmarks
    ( 16, 257, 7168,  256): {"BLOCK_M": 16, "GATE_UP_N": 64, "DOWN_N": 128, "BLOCK_K": 256, "num_warps": 4, "num_stages": 2},
    (128, 257, 7168,  256): {"BLOCK_M": 16, "GATE_UP_N": 64, "DOWN_N": 128, "BLOCK_K": 256, "num_warps": 4, "num_stages": 2},
    (512, 257, 7168,  256): {"BLOCK_M": 32, "GATE_UP_N": 64, "DOWN_N": 128, "BLOCK_K": 256, "num_warps": 4, "num_stages": 2},
    ( 16,  33, 7168,  512): {"BLOCK_M": 16, "GATE_UP_N": 64, "DOWN_N": 128, "BLOCK_K": 256, "num_warps": 4, "num_stages": 2},
    (128,  33, 7168,  512): {"BLOCK_M": 16, "GATE_UP_N": 64, "DOWN_N": 128, "BLOCK_K": 256, "num_warps": 4, "num_stages": 2},
    (512,  33, 7168,  512): {"BLOCK_M": 64, "GATE_UP_N": 128, "DOWN_N": 128, "BLOCK_K": 256, "num_warps": 4, "num_stages": 2},
    (512,  33, 7168, 2048): {"BLOCK_M": 64, "GATE_UP_N": 128, "DOWN_N": 128, "BLOCK_K": 256, "num_warps": 4, "num_stages": 2},
}
