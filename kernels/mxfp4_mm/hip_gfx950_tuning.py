"""One row a shape of amd-mxfp4-mm: the fastest by modelled times of those that were tried, none of them measured.

FM times 16 rows of a, FN strips of 16 columns for each of WAVES_N waves; WAVES_K waves with STEPS times 128 columns
each make a chunk of k. Only the tiles that mxfp4_mm_gfx950.hip names are compiled.
"""

# fmt: off
# What a shape outside the table gets.
DEFAULT = {"FM": 2, "FN": 2, "WAVES_N": 4, "WAVES_K": 2, "STEPS":  2, "SPLIT_K": 1}

TUNING = {
    # m     n     k
    # benchmarks
    (  4, 2880,  512): {"FM": 1, "FN": 1, "WAVES_N": 1, "WAVES_K": 4, "STEPS":  1, "SPLIT_K": 1},
    ( 16, 2112, 7168): {"FM": 1, "FN": 1, "WAVES_N": 4, "WAVES_K": 1, "STEPS":  8, "SPLIT_K": 7},
    ( 32, 2880,  512): {"FM": 1, "FN": 1, "WAVES_N": 4, "WAVES_K": 1, "STEPS":  4, "SPLIT_K": 1},
    ( 32, 4096,  512): {"FM": 1, "FN": 1, "WAVES_N": 4, "WAVES_K": 1, "STEPS":  4, "SPLIT_K": 1},
    ( 64, 7168, 2048): {"FM": 1, "FN": 2, "WAVES_N": 4, "WAVES_K": 2, "STEPS":  8, "SPLIT_K": 1},
    (256, 3072, 1536): {"FM": 1, "FN": 2, "WAVES_N": 6, "WAVES_K": 1, "STEPS": 12, "SPLIT_K": 1},
    # tests
    (  8, 2112, 7168): {"FM": 1, "FN": 1, "WAVES_N": 4, "WAVES_K": 1, "STEPS":  8, "SPLIT_K": 7},
    ( 16, 3072, 1536): {"FM": 1, "FN": 1, "WAVES_N": 4, "WAVES_K": 1, "STEPS":  4, "SPLIT_K": 1},
    ( 64, 3072, 1536): {"FM": 1, "FN": 1, "WAVES_N": 4, "WAVES_K": 1, "STEPS":  4, "SPLIT_K": 1},
    (256, 2880,  512): {"FM": 1, "FN": 2, "WAVES_N": 4, "WAVES_K": 1, "STEPS":  4, "SPLIT_K": 1},
}
