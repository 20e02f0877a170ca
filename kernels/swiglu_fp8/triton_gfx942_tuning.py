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
    (  32, 16384): {"LANE": 4, "PIECES":  64, "num_warps": 1},  # 4.487 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    ( 128,  6656): {"LANE": 4, "PIECES":  64, "num_warps": 1},  # 4.857 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    ( 256,  6656): {"LANE": 8, "PIECES":  64, "num_warps": 1},  # 5.752 us, before 5.923, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    ( 256, 16384): {"LANE": 8, "PIECES":  64, "num_warps": 1},  # 8.617 us, before 9.612, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    ( 512,  6656): {"LANE": 8, "PIECES":  64, "num_warps": 1},  # 7.651 us, before 8.189, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (1024,  6656): {"LANE": 8, "PIECES": 512, "num_warps": 4},  # 12.73 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (1024, 16384): {"LANE": 8, "PIECES": 512, "num_warps": 4},  # 25.06 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (2048,  6656): {"LANE": 8, "PIECES": 512, "num_warps": 4},  # 20.46 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (2048, 16384): {"LANE": 8, "PIECES": 512, "num_warps": 4},  # 45.09 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
}
