"""One row a batch of amd-mla-decode. Chosen by the emulated device's time model, not measured: no MI300X was at hand.

In the products of whole requests (LINEAR: q down, kv down, o) there is little to read but weights: one tile of BLOCK_M
rows holds the batch, so that each weight is read once, and SPLIT_* slices of k give every compute unit one or two
workgroups. HEAD_M is the rows of a tile in the products by head: 64 make 256 workgroups of a batch of 128, 128 only 128.

Attention: BLOCK_H heads and BLOCK_N keys. 64 heads hold their queries and results in registers, 458 of 512 with blocks of
32 keys (Triton 3.6.0): one wave a SIMD. Blocks of 64 are 1.05 times as fast by the model, but spill with that version.
A batch of 128 are 256 workgroups without splits; two splits would be 512, two rounds of half the keys on 304 CUs.

LINEAR_*, SPLIT_*, HEAD_M and QUERY_K are of launches that do not know the cache's length: they were chosen under Triton 3.6.0 with
128 tokens cached, as `python -m forge.tune.tables` (docs/tuning.md) does it. 28 slices of kv down save 11 us, 8 of q down 10.
Steps of 128 in query would save 7, but what an H200 keeps of them on the way exceeds its shared memory. The next best rows
are 0.1 to 7 us off. The attention's columns were tried under 3.6.0 with 512 tokens: 249.3 us, 262 with two splits or 16 keys, 300
with 32 heads; 8 waves and 64 keys spill, 128 heads exceed LDS. The benchmarks' lengths take a core many minutes a row.
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
    (   128, 7168, 1536): {"BLOCK_M": 128, "HEAD_M": 64, "LINEAR_N": 64, "LINEAR_K": 64, "SPLIT_Q": 8, "SPLIT_KV": 28, "SPLIT_OUT": 5, "QUERY_K": 64, "BLOCK_H": 64, "BLOCK_N": 32, "SPLITS": 1, "num_warps": 4},  # with QUERY_K 128 170.7 us with 128 tokens cached, before 200.1, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
}
