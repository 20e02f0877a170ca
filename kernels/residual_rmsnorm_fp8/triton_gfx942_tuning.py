"""LANE: elements of a row that a lane holds (at most 16 waves take a row). None was measured: no MI300X was at hand."""

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
    ( 256, 16384): {"LANE": 64},  # 10.18 us, before 10.65, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0
    ( 512, 16384): {"LANE": 64},  # 17.83 us, before 18.08, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0
    (1024, 16384): {"LANE": 32},  # 32.33 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), triton 3.6.0
    (2048, 16384): {"LANE": 64},  # 55.15 us, before 55.96, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), torch 2.11.0, triton 3.6.0
}
