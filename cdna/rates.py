"""What the two cards reach, as the time model uses it: one table, a source for each row.

MI300X bandwidths and latencies are measurements by mt4g (github.com/caps-tum/mt4g, its report "AMD Instinct
MI300X VF", pointer chases and streams at 2100 MHz), not data-sheet peaks. No such report is known for the
MI355X: its latencies are taken to be the same in cycles, its L2 to be as fast a cycle, its memory side
to gain what HBM gains.
"""

from __future__ import annotations

from dataclasses import dataclass

from .arch import Arch

GIB = float(1 << 30)


@dataclass(frozen=True)
class Rates:
    """Bandwidths of the whole card in GB/s, latencies in cycles of the CU clock."""

    l2_read_gb_s: float
    l2_write_gb_s: float
    fabric_read_gb_s: float  # memory-side cache to the L2s
    fabric_write_gb_s: float
    hbm_read_gb_s: float
    hbm_write_gb_s: float
    l2_bytes: int = 4 << 20  # per XCD
    memory_side_bytes: int = 256 << 20
    l1_cycles: int = 116
    l2_cycles: int = 288
    memory_side_cycles: int = 497  # L2 latency and the measured penalty of an L2 miss (209)
    memory_cycles: int = 900
    lds_cycles: int = 51
    scalar_cycles: int = 172  # scalar L1 miss that the L2 has: 48 and the measured penalty (124)
    # Before the first instruction and after the last. Hugging Face's one-row SwiGLU kernel takes 1.93 us
    # in all on an MI300X (huggingface/blog, mi300kernels.md); about half of that is trips to memory.
    launch_us: float = 1.0


def _gb_s(gib_s: float) -> float:
    return gib_s * GIB * 1e-9


_MI300X = Rates(
    l2_read_gb_s=_gb_s(14364.7),
    l2_write_gb_s=_gb_s(6562.2),
    fabric_read_gb_s=_gb_s(5399.6),
    fabric_write_gb_s=_gb_s(5090.3),
    hbm_read_gb_s=_gb_s(3689.7),
    hbm_write_gb_s=_gb_s(4116.6),
)
_CLOCK = 2400 / 2100  # MI355X over MI300X
_HBM = 8000 / 5300  # data sheets
RATES = {
    "gfx942": _MI300X,
    "gfx950": Rates(
        l2_read_gb_s=_MI300X.l2_read_gb_s * _CLOCK,
        l2_write_gb_s=_MI300X.l2_write_gb_s * _CLOCK,
        fabric_read_gb_s=_MI300X.fabric_read_gb_s * _HBM,
        fabric_write_gb_s=_MI300X.fabric_write_gb_s * _HBM,
        hbm_read_gb_s=_MI300X.hbm_read_gb_s * _HBM,
        hbm_write_gb_s=_MI300X.hbm_write_gb_s * _HBM,
    ),
}


def rates_of(arch: Arch) -> Rates:
    return RATES[arch.name]
