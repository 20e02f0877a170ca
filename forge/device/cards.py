"""The cards that can be emulated, by their archs, and the peaks of every GPU that a time is compared with."""

import sys

from cdna.cards import ARCHS, get_card
from cdna.errors import CdnaError
from forge.task.score import Peaks

MIB = 1024 * 1024
WARP_SIZE = 64

# What torch.version.hip says in the leaderboard's ROCm 7.1 image.
HIP_VERSION = "7.1.25424"


try:
    CARDS = {arch: get_card(arch) for arch in ARCHS}
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
