"""One row a shape of amd-moe-mxfp4; none was measured: no MI355X was at hand.

Rows were chosen by the emulated card's time model (docs/tuning.md).
"""

# fmt: off
# What a shape outside the table gets, with another BLOCK_M where experts have more pairs (tuning_row).
DEFAULT = {"BLOCK_M": 16, "GATE_UP_N": 64, "DOWN_N": 128, "BLOCK_K": 256, "num_warps": 4, "num_stages": 2}

SPACE = {
    "BLOCK_M": [16, 32, 64, 128], "GATE_UP_N": [32, 64, 128], "DOWN_N": [64, 128, 256], "BLOCK_K": [256, 512],
    "num_warps": [2, 4, 8], "num_stages": [1, 2, 3],
}

TUNING = {
    # tokens, experts, d_hidden, d_expert   benchmarks
    ( 16,  33, 7168,  512): {"BLOCK_M": 16, "GATE_UP_N":  32, "DOWN_N": 128, "BLOCK_K": 256, "num_warps": 4, "num_stages": 2},  # 56.46 us, before 67.9, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    ( 16, 257, 7168,  256): {"BLOCK_M": 16, "GATE_UP_N":  32, "DOWN_N": 128, "BLOCK_K": 512, "num_warps": 4, "num_stages": 2},  # 77.99 us, before 105.9, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    (128,  33, 7168,  512): {"BLOCK_M": 16, "GATE_UP_N":  64, "DOWN_N": 128, "BLOCK_K": 256, "num_warps": 4, "num_stages": 2},  # 71.63 us, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    (128, 257, 7168,  256): {"BLOCK_M": 16, "GATE_UP_N":  64, "DOWN_N": 128, "BLOCK_K": 256, "num_warps": 4, "num_stages": 2},  # 158.1 us, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    (512,  33, 7168,  512): {"BLOCK_M": 64, "GATE_UP_N": 128, "DOWN_N": 256, "BLOCK_K": 512, "num_warps": 8, "num_stages": 2},  # 99.27 us, before 113, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    (512,  33, 7168, 2048): {"BLOCK_M": 64, "GATE_UP_N": 128, "DOWN_N": 128, "BLOCK_K": 256, "num_warps": 4, "num_stages": 2},  # 288.8 us, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
    (512, 257, 7168,  256): {"BLOCK_M": 32, "GATE_UP_N":  64, "DOWN_N": 128, "BLOCK_K": 256, "num_warps": 4, "num_stages": 2},  # 233.4 us, modelled, not measured: emulated gfx950 (AMD Instinct MI355X), triton 3.6.0
}
