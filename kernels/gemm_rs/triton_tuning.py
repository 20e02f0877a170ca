"""One row a shape (arch, m, n, k of a rank)."""

# fmt: off
DEFAULT = {"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 4, "SPLIT_K": 1, "SUM_ROWS": 32, "PRODUCERS": 0, "DESCRIPTORS": True, "MFMA": 16, "num_warps": 8, "num_stages": 2}

TUNING = {
}
