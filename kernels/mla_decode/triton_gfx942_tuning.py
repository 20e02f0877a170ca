"""todo"""

# fmt: off
DEFAULT = {"BLOCK_M": 16, "HEAD_M": 16, "LINEAR_N": 64, "LINEAR_K": 128, "SPLIT_Q": 8, "SPLIT_KV": 14, "SPLIT_OUT": 4, "QUERY_K": 64, "BLOCK_H": 64, "BLOCK_N": 64, "SPLITS": 16, "num_warps": 4}

SPACE = {
    "BLOCK_M": [16, 32, 64, 128], "LINEAR_N": [32, 64, 128], "LINEAR_K": [64, 128], "SPLIT_Q": [1, 2, 4, 6, 8, 12],
    "SPLIT_KV": [1, 4, 7, 14], "SPLIT_OUT": [1, 2, 3, 4, 5, 6], "QUERY_K": [32, 64, 128], "BLOCK_H": [32, 64, 128],
    "BLOCK_N": [16, 32, 64], "SPLITS": [1, 2, 4, 8, 16], "num_warps": [4, 8],
}

TUNING = {
    (128, 7168, 1536): {"BLOCK_M": 64, "HEAD_M": 64, "LINEAR_N": 64, "LINEAR_K": 128, "SPLIT_Q": 6, "SPLIT_KV": 14, "SPLIT_OUT": 3, "QUERY_K": 64, "BLOCK_H": 64, "BLOCK_N": 64, "SPLITS": 1, "num_warps": 4},
}
