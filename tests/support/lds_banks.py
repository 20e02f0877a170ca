"""Bank conflicts of one wave's LDS access, by either way in which the hardware may group lanes."""

# ---- LDS banks. 32 of 4 bytes; of accesses of 4 bytes 32 lanes are served at a time, of 8 bytes 16, of 16 bytes 8.
# Which lanes go together is documented nowhere for gfx942: consecutive ones, or (measured on CDNA4 where that acts as
# 32 banks) 0-3 with 20-23 and so on. Accesses must be free of conflicts either way.
CONSECUTIVE_32 = [list(range(first, first + 32)) for first in (0, 32)]
CONSECUTIVE_16 = [list(range(first, first + 16)) for first in range(0, 64, 16)]
CONSECUTIVE_8 = [list(range(first, first + 8)) for first in range(0, 64, 8)]
_PAIRS = [(0, 20), (4, 16), (8, 28), (12, 24)]
PAIRED_8 = [[h + f + i for f in pair for i in range(4)] for h in (0, 32) for pair in _PAIRS]


def conflicts(addresses: list[int], width: int, groups: list[list[int]]) -> int:
    """Extra cycles of one wave's access: how often lanes served together need the same bank for different words."""
    assert all(address % width == 0 for address in addresses)
    extra = 0
    for group in groups:
        words = {address // 4 + i for lane in group for address in [addresses[lane]] for i in range(width // 4)}
        per_bank = [sum(word % 32 == bank for word in words) for bank in range(32)]
        extra += max(per_bank) - 1
    return extra
