"""One row a shape of amd-ag-gemm on gfx942; M is of all ranks, N of one.

None was measured: no MI300X was at hand. All were chosen by the emulated card's time model without its links (docs/tuning.md).
SENDERS: workgroups in all. PUSH: elements a turn. BAND: row tiles of a peer that are taken together. MFMA: the
instruction's rows.
"""

# fmt: off
DEFAULT = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "BAND": 2, "SPLIT_K": 1, "SENDERS":  56, "PUSH": 8192, "MFMA": 16, "num_warps": 8, "num_stages": 2}

# What the tuner chooses from.
SPACE = {
    "BLOCK_M": [64, 128, 256], "BLOCK_N": [32, 64, 128, 256], "BLOCK_K": [32, 64, 128], "SPLIT_K": [1, 2, 4, 8],
    "SENDERS": [28, 56, 112], "PUSH": [4096, 8192, 16384], "BAND": [1, 2, 4], "MFMA": [16, 32], "num_warps": [4, 8],
}

TUNING = {
    # M     N     K    benchmarks
    (  64, 2304, 7168): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "BAND": 1, "SPLIT_K": 8, "SENDERS": 28, "PUSH": 16384, "MFMA": 16, "num_warps": 4, "num_stages": 2},  # 21 us, before 33.15, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    ( 512, 1536, 4096): {"BLOCK_M":  64, "BLOCK_N":  64, "BLOCK_K": 128, "BAND": 1, "SPLIT_K": 2, "SENDERS": 28, "PUSH": 16384, "MFMA": 16, "num_warps": 4, "num_stages": 2},  # 32.02 us, before 35.32, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (2048,  360, 2880): {"BLOCK_M":  64, "BLOCK_N":  32, "BLOCK_K": 128, "BAND": 1, "SPLIT_K": 1, "SENDERS": 56, "PUSH": 16384, "MFMA": 16, "num_warps": 8, "num_stages": 2},  # 37.3 us, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (4096,  512, 4096): {"BLOCK_M":  64, "BLOCK_N":  32, "BLOCK_K": 128, "BAND": 1, "SPLIT_K": 1, "SENDERS": 28, "PUSH": 16384, "MFMA": 16, "num_warps": 4, "num_stages": 2},  # 71.76 us, before 129.9, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (8192, 1792, 4096): {"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K":  64, "BAND": 2, "SPLIT_K": 1, "SENDERS": 56, "PUSH": 16384, "MFMA": 16, "num_warps": 8, "num_stages": 2},  # 220.6 us, before 226, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (8192, 3696, 8192): {"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K":  64, "BAND": 1, "SPLIT_K": 1, "SENDERS": 56, "PUSH": 16384, "MFMA": 16, "num_warps": 8, "num_stages": 2},  # 807.5 us, modelled, not measured: 8 ranks, emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
}
