"""One row a shape of amd-ag-gemm."""

DEFAULT = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "BAND": 2, "SPLIT_K": 1, "SENDERS": 2, "PUSH": 4096, "MFMA": 16, "num_warps": 4, "num_stages": 2}

TUNING = {
}
