"""One row a shape of amd-moe-mxfp4: rows of a block, the fastest by modelled times, none of them measured."""

# fmt: off
# What a shape outside the table gets, with another BLOCK_M where experts have more pairs (tuning_row).
DEFAULT = {"BLOCK_M": 16}

SPACE = {"BLOCK_M": [16, 32, 64]}

TUNING = {
    # tokens, experts, d_hidden, d_expert   benchmarks
    ( 16, 257, 7168,  256): {"BLOCK_M": 16},
    (128, 257, 7168,  256): {"BLOCK_M": 16},
    (512, 257, 7168,  256): {"BLOCK_M": 32},
    ( 16,  33, 7168,  512): {"BLOCK_M": 16},
    (128,  33, 7168,  512): {"BLOCK_M": 32},
    (512,  33, 7168,  512): {"BLOCK_M": 64},
    (512,  33, 7168, 2048): {"BLOCK_M": 64},
}
