"""One row a shape of amd-mixture-of-experts. Chosen by the emulated device's time model, not measured: no MI300X was at hand.

Modelled over 128, 64 and 256 rows, gate tiles of 64 and 128 columns (each of gate and of up), down tiles of 128 and 256,
4 and 8 waves, MFMA of 16 and 32 rows: 128 x (64 + 64) and 128 x 128 with 4 waves and the larger instruction use 0.79 and
0.65 of the matrix peak where an expert has 512 rows. Two such workgroups share a compute unit. 256 rows would read fewer
weights, but the last tile of an expert wastes more: at 2048 tokens an expert has 256 rows on average.
GROUP_M 8 holds an expert's rows at 2048 tokens, so that each of its weights is read from memory once.
"""

# What a shape outside the table gets: half the rows, for a few tokens an expert.
# fmt: off
DEFAULT = {"BLOCK_M": 64, "GATE_N": 64, "DOWN_N": 128, "BLOCK_K": 64, "GROUP_M": 8, "MFMA": 32, "num_warps": 4, "num_stages": 2}

# What the tuner chooses from.
SPACE = {
    "BLOCK_M": [16, 32, 64, 128, 256], "GATE_N": [32, 64, 128], "DOWN_N": [64, 128, 256], "BLOCK_K": [32, 64],
    "GROUP_M": [2, 4, 8, 16], "MFMA": [16, 32], "num_warps": [4, 8], "num_stages": [1, 2],
}

TUNING = {
    # tokens, experts, top k, d_hidden, d_expert: benchmarks
    (2048, 32, 4, 7168, 2048): {"BLOCK_M": 128, "GATE_N": 64, "DOWN_N": 128, "BLOCK_K": 64, "GROUP_M": 16, "MFMA": 16, "num_warps": 4, "num_stages": 2},  # 2310 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (8192, 32, 4, 7168, 2048): {"BLOCK_M": 128, "GATE_N": 64, "DOWN_N": 128, "BLOCK_K": 64, "GROUP_M":  8, "MFMA": 32, "num_warps": 4, "num_stages": 2},  # 7700 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    # tests
    ( 512,  4, 4, 7168, 2048): {"BLOCK_M": 128, "GATE_N": 64, "DOWN_N": 128, "BLOCK_K": 64, "GROUP_M":  8, "MFMA": 32, "num_warps": 4, "num_stages": 2},  # 573 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (1024,  8, 4, 7168, 2048): {"BLOCK_M": 128, "GATE_N": 64, "DOWN_N": 128, "BLOCK_K": 64, "GROUP_M":  8, "MFMA": 32, "num_warps": 4, "num_stages": 2},  # 1081 us, before 1329, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (8192,  8, 4, 7168, 2048): {"BLOCK_M": 128, "GATE_N": 64, "DOWN_N": 128, "BLOCK_K": 64, "GROUP_M":  8, "MFMA": 32, "num_warps": 4, "num_stages": 2},  # 7623 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
}
