"""EIGHTS: eights of outputs of a workgroup. Chosen by the time model and by reasoning, not measured: no MI300X was at hand.
"""
# What a shape outside the table gets.
DEFAULT = {"EIGHTS": 256, "num_warps": 4}
# What the tuner chooses from.
SPACE = {"EIGHTS": [64, 128, 256, 512, 1024], "num_warps": [1, 2, 4, 8]}
TUNING = {}
