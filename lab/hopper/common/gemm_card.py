"""H200, as gemm_choice.py sees it."""

from kernels.common.gemm_choice import GemmCard

# Tiles: guessed.
H200 = GemmCard(
    compute_units=132,
    unit_flop_per_us=7.5e6,
    l2_bytes_per_us=12e6,
    tiles={
        (128, 256): (1, 0.84, 4.6),
        (256, 128): (1, 0.76, 3.2),
        (128, 128): (2, 0.63, 2.2),
        (64, 256): (1, 0.7, 3.0),
        (64, 128): (2, 0.62, 3.0),
        (64, 64): (3, 0.6, 3.0),
    },
)

# Tiles that gemm-rs' workgroups take one after the other (bf16_in_turn.h); of others each takes one.
IN_TURN = {(128, 256), (256, 128)}
