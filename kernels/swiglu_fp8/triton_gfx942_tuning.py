"""LANE: outputs of a piece; PIECES: of a workgroup; with 64 for each of its waves, a lane has one piece.

None was measured: no MI300X was at hand. Rows were chosen by the emulated card's time model (docs/tuning.md): lab/tried.
"""

# What a shape outside the table gets.
DEFAULT = {"LANE": 8, "PIECES": 256, "num_warps": 4}

# What the tuner chooses from.
SPACE = {"LANE": [2, 4, 8], "PIECES": [64, 128, 256, 512, 1024], "num_warps": [1, 2, 4, 8]}

TUNING = {
    # rows, rounded up to a power of two, at most 2048; n
    (   1,  6656): {"LANE": 2, "PIECES":  64, "num_warps": 1},  # 3.926 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (   1, 16384): {"LANE": 2, "PIECES":  64, "num_warps": 1},  # 3.918 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (   8,  6656): {"LANE": 2, "PIECES":  64, "num_warps": 1},  # 3.969 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (  32,  6656): {"LANE": 2, "PIECES":  64, "num_warps": 1},  # 4.13 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (  32, 16384): {"LANE": 4, "PIECES":  64, "num_warps": 2},  # 3.426 us, before 3.491, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0
    ( 128,  6656): {"LANE": 2, "PIECES":  64, "num_warps": 1},  # 3.765 us, before 3.852, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0
    ( 256,  6656): {"LANE": 4, "PIECES":  64, "num_warps": 1},  # 4.774 us, before 4.869, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0
    ( 256, 16384): {"LANE": 8, "PIECES":  64, "num_warps": 1},  # 8.617 us, before 9.612, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    ( 512,  6656): {"LANE": 8, "PIECES":  64, "num_warps": 1},  # 7.651 us, before 8.189, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (1024,  6656): {"LANE": 4, "PIECES": 256, "num_warps": 1},  # 10.73 us, before 10.86, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0
    (1024, 16384): {"LANE": 2, "PIECES": 128, "num_warps": 1},  # 21.26 us, before 21.61, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0
    (2048,  6656): {"LANE": 4, "PIECES":  64, "num_warps": 1},  # 17.85 us, before 18.07, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0
    (2048, 16384): {"LANE": 8, "PIECES": 512, "num_warps": 4},  # 45.09 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
}
