"""One row a batch of amd-mla-decode. Chosen by the emulated device's time model, not measured: no MI300X was at hand.

In the products of whole requests (LINEAR: q down, kv down, o) there is little to read but weights: one tile of BLOCK_M
rows holds the batch, so that each weight is read once, and SPLIT_* slices of k give every compute unit one or two
workgroups. HEAD_M is the rows of a tile in the products by head: 64 make 256 workgroups of a batch of 128, 128 only 128.

Attention: BLOCK_H heads and BLOCK_N keys. 64 heads hold their queries and results in registers, 458 of 512 with blocks of
32 keys (Triton 3.6.0): one wave a SIMD. A batch of 128 are 256 workgroups without splits; two splits would be 512, two rounds of
half the keys on 304 CUs.
"""

# What a batch outside the table gets, with as many SPLITS as there are compute units for.
# fmt: off
DEFAULT = {"BLOCK_M": 128, "HEAD_M": 64, "LINEAR_N": 64, "LINEAR_K": 64, "SPLIT_Q": 14, "SPLIT_KV": 14, "SPLIT_OUT": 5, "QUERY_K": 64, "BLOCK_H": 64, "BLOCK_N": 32, "SPLITS": 1, "num_warps": 4}

# What the tuner chooses from.
SPACE = {
    "BLOCK_M": [16, 32, 64, 128], "HEAD_M": [16, 32, 64, 128], "LINEAR_N": [32, 64, 128], "LINEAR_K": [64, 128],
    "SPLIT_Q": [1, 2, 4, 6, 8, 12, 14], "SPLIT_KV": [1, 4, 7, 14, 28], "SPLIT_OUT": [1, 2, 3, 4, 5, 8], "QUERY_K": [32, 64, 128],
    "BLOCK_H": [32, 64, 128], "BLOCK_N": [16, 32, 64], "SPLITS": [1, 2, 4, 7, 8, 16], "num_warps": [4, 8],
}

TUNING = {
    # batch  dim    dq
    (   128, 7168, 1536): {"BLOCK_M": 128, "HEAD_M": 64, "LINEAR_N": 64, "LINEAR_K": 64, "SPLIT_Q": 14, "SPLIT_KV": 14, "SPLIT_OUT": 5, "QUERY_K": 64, "BLOCK_H": 64, "BLOCK_N": 32, "SPLITS": 1, "num_warps": 4},  # 711 us with 4096 tokens cached, before 719, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
}
