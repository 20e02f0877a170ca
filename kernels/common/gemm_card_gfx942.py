"""MI300X, as gemm_choice.py sees it."""

from kernels.common.gemm_choice import GemmCard

# Tiles: 85 % of what the emulated device's time model says (lab/tried/bf16_gemm.md), less where the L2 bounds.
MI300X = GemmCard(
    compute_units=304,
    unit_flop_per_us=4.3e6,
    l2_bytes_per_us=12e6,
    tiles={
        (256, 256): (1, 0.85, 6.4),
        (128, 256): (1, 0.75, 4.0),
        (128, 128): (2, 0.75, 3.9),
        (64, 128): (2, 0.6, 2.5),
        (64, 64): (4, 0.5, 2.6),
    },
)
