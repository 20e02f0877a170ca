"""The cards that can be emulated, with the values that torch.cuda.get_device_properties gives for them."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024

# What torch.version.hip says in the leaderboard's ROCm 7.1 image.
HIP_VERSION = "7.1.25424"


@dataclass(frozen=True)
class Card:
    """One GPU model. Sizes in bytes, clocks in kHz, as torch.cuda.get_device_properties has them."""

    arch: str
    name: str
    compute_units: int
    total_memory_bytes: int
    lds_bytes: int  # per workgroup and per compute unit
    clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int = 8192
    l2_bytes: int = 4 * MIB  # of one XCD
    warp_size: int = 64

    @property
    def arch_name(self) -> str:
        """The target ID: ECC on, XNACK off, as the leaderboard's machines run."""
        return f"{self.arch}:sramecc+:xnack-"

    @property
    def capability(self) -> tuple[int, int]:
        return int(self.arch[3]), int(self.arch[4])


CARDS = {
    card.arch: card
    for card in (
        Card("gfx942", "AMD Instinct MI300X", 304, 196592 * MIB, 64 * 1024, 2_100_000, 1_300_000),
        Card("gfx950", "AMD Instinct MI355X", 256, 294896 * MIB, 160 * 1024, 2_400_000, 2_000_000),
    )
}
