"""One row a shape (arch, m, n, k of a rank). BLOCK_M 0: by the model in kernels/common/gemm_choice.py."""

# fmt: off
DEFAULT = {"BLOCK_M": 0, "BLOCK_N": 0, "SPLIT_K": 0, "GROUP_M": 4}

TUNING = {
}
