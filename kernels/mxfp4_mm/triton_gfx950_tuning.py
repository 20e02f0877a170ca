"""One row a shape of amd-mxfp4-mm."""

# fmt: off
DEFAULT = {"BLOCK_M": 32, "BLOCK_N": 128, "BLOCK_K": 256, "SPLIT_K": 1, "num_warps": 4, "num_stages": 2}

SPACE = {
    "BLOCK_M": [16, 32, 64, 128], "BLOCK_N": [32, 64, 128], "BLOCK_K": [256, 512], "SPLIT_K": [1, 2, 4, 7, 14],
    "num_warps": [1, 2, 4], "num_stages": [1, 2, 3],
}

TUNING = {
    # m     n     k   benchmarks
    (  4, 2880,  512): {"BLOCK_M": 16, "BLOCK_N":  32, "BLOCK_K": 512, "SPLIT_K":  1, "num_warps": 2, "num_stages": 1},
    ( 16, 2112, 7168): {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 512, "SPLIT_K": 14, "num_warps": 4, "num_stages": 1},
    ( 32, 4096,  512): {"BLOCK_M": 32, "BLOCK_N":  32, "BLOCK_K": 512, "SPLIT_K":  1, "num_warps": 2, "num_stages": 1},
    ( 32, 2880,  512): {"BLOCK_M": 32, "BLOCK_N":  32, "BLOCK_K": 512, "SPLIT_K":  1, "num_warps": 2, "num_stages": 1},
    ( 64, 7168, 2048): {"BLOCK_M": 64, "BLOCK_N":  64, "BLOCK_K": 256, "SPLIT_K":  2, "num_warps": 4, "num_stages": 2},
    (256, 3072, 1536): {"BLOCK_M": 64, "BLOCK_N":  64, "BLOCK_K": 256, "SPLIT_K":  1, "num_warps": 4, "num_stages": 2},
    # tests
    (  8, 2112, 7168): {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 512, "SPLIT_K": 14, "num_warps": 4, "num_stages": 1},
}
