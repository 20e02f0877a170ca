"""LANE: elements of a row that a lane holds (at most 16 waves take a row). None was measured: no MI300X was at hand.

Rows of 16384 were modelled with LANE 8 to 64 by `python -m lab.tuning_tables` (docs/tuning.md). Up to 512 rows all are within
2 %, which is less than placing tensors changes, so one value stands for all; 1024 rows take 37.1 us with 16 and 64, 32.3 with 32.
Narrower rows are bound by latency; with 16 a row of 1032 has two waves, one of 5128 eight.
"""

# What a shape outside the table gets.
DEFAULT = {"LANE": 16}

# What the tuner chooses from.
SPACE = {"LANE": [8, 16, 32, 64]}

TUNING = {
    # rows, rounded up to a power of two, at most 2048; hidden
    (   1, 16384): {"LANE": 32},  # 6.32 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (2, 16384): {"LANE": 32},
    (   4, 16384): {"LANE": 32},  # 6.305 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (   8, 16384): {"LANE": 32},  # 6.324 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (16, 16384): {"LANE": 32},
    (  32, 16384): {"LANE": 32},  # 6.336 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (  64, 16384): {"LANE": 32},  # 6.458 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    ( 128, 16384): {"LANE": 32},  # 7.268 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    ( 256, 16384): {"LANE": 32},  # 10.48 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    ( 512, 16384): {"LANE": 32},  # 20.25 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (1024, 16384): {"LANE": 32},  # 32.33 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (2048, 16384): {"LANE": 32},  # 60.13 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
}
