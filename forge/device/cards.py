"""The cards that can be emulated, with the values that torch.cuda.get_device_properties gives for them, and the peaks
of every GPU that a time is compared with."""

import sys
from dataclasses import dataclass

from cdna.cards import ARCHS, get_card
from cdna.errors import CdnaError
from forge.task.score import Peaks

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
    memory_bus_bits: int
    l2_bytes: int  # of one XCD
    capability: tuple[int, int]
    fp8_format: str  # fnuz or ocp
    warp_size: int = 64

    @property
    def arch_name(self) -> str:
        """The target ID: ECC on, XNACK off, as the leaderboard's machines run."""
        return f"{self.arch}:sramecc+:xnack-"


def _as_torch_has_it(arch: str) -> Card:
    card = get_card(arch)
    return Card(
        arch,
        card.product,
        card.compute_units,
        card.memory_bytes,
        card.lds_bytes,
        card.clock_mhz * 1000,
        card.memory_clock_mhz * 1000,
        card.memory_bus_bits,
        card.l2_bytes,
        card.capability,
        card.fp8_format,
    )


try:
    CARDS = {arch: _as_torch_has_it(arch) for arch in ARCHS}
except CdnaError as error:  # $CDNA_CARD names none, or a card's file is wrong: nothing can begin
    raise SystemExit(f"{sys.argv[0] or 'forge'}: {error}") from None

_H200 = Peaks(
    "H200",
    {"fp8": 1978.9, "f16": 989.4},
    4800.0,
    450.0,
    "NVIDIA H200 SXM data sheet, dense; NVLink 900 GB/s, both directions together",
    50 * MIB,
)


def launch_us(arch: str) -> float:
    """What the model gives a kernel before its first instruction and after its last."""
    return get_card(arch).launch_us


def peaks_of(arch: str | None) -> Peaks | None:
    """Peaks of the GPU that stands for an arch; None where nobody has stated them."""
    if arch in CARDS:
        card = get_card(arch)
        tflops = {kind: peak for kind in ("f16", "fp8", "fp4") if (peak := card.matrix_tflops(kind))}
        return Peaks(
            card.model, tflops, card.hbm_gb_s, card.links * card.link_gb_s, "cdna/cards", card.memory_side_bytes
        )
    return _H200 if arch == "sm_90" else None
