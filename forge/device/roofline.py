"""What a card cannot be faster than at work that is not emulated: torch's own operations and a library's products.

Arithmetic over the card's file; never a measurement.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from cdna.cards import Card
from forge.device.report import Caches, DeviceReport, Finding, ModelledTime, ModelledTimes, TorchOperation

# Matrix FLOPs of a CU and cycle in fp32, the same on both instruction sets: CDNA3 white paper, MI355X data sheet.
F32_FLOPS_PER_CYCLE = 256


@dataclass(frozen=True)
class Roofline:
    """tflops: of products, whatever their operands; None: the card's peaks."""

    card: Card
    tflops: float | None = None

    def peak_tflops(self, kind: str) -> float:
        """kind: f32, f16 (bf16 as well), fp8 (int8 as well) or fp4."""
        f32 = self.card.compute_units * F32_FLOPS_PER_CYCLE * self.card.clock_mhz * 1e-6
        return self.tflops or (f32 if kind == "f32" else self.card.matrix_tflops(kind)) or f32

    def moved_us(self, read_bytes: int, written_bytes: int, warm: bool = False) -> float:
        """warm: what fits there comes from the memory-side cache."""
        card = self.card
        read_gb_s, write_gb_s = card.hbm_read_gb_s, card.hbm_write_gb_s
        if warm and read_bytes + written_bytes <= card.memory_side_bytes:
            read_gb_s, write_gb_s = card.fabric_read_gb_s, card.fabric_write_gb_s
        return 1e-3 * (read_bytes / read_gb_s + written_bytes / write_gb_s)

    def product_us(self, flops: int, kind: str, moved_us: float) -> float:
        return max(flops / self.peak_tflops(kind) * 1e-6, moved_us)

    def library_product_us(self, m: int, n: int, k: int, batches: int, element_bytes: int) -> float:
        """A product of hipBLASLt's, of a batch or a group; its launch is not told."""
        kind = {1: "fp8", 2: "f16"}.get(element_bytes, "f32")
        elements = element_bytes * batches
        return self.product_us(2 * m * n * k * batches, kind, self.moved_us(elements * k * (m + n), elements * m * n))

    def operation_us(self, bytes: tuple[int, int], flops: int = 0, kind: str = "f16", warm: bool = False) -> float:
        """One operation with its launch: the longer of what it moves (read, written) and what it multiplies."""
        moved_us = self.moved_us(*bytes, warm)
        return self.card.launch_us + (self.product_us(flops, kind, moved_us) if flops else moved_us)

    def collective_us(self, bytes: int, ranks: int, passes: int = 1) -> float:
        """bytes: of the whole, of which each rank has its part already. passes: 2 where sums are spread again."""
        crossing = passes * bytes * (ranks - 1) / max(ranks, 1)
        return self.card.launch_us + self.card.signals_us + 1e-3 * crossing / self.card.links_read_gb_s


def with_torch(
    report: DeviceReport, operations: Sequence[TorchOperation], before: Sequence[Finding] = ()
) -> DeviceReport:
    """A device's report whose modelled times hold torch's own operations as well; these beside them.

    A part of its own in each: `kernels_us` is what kernels alone take. Where torch takes most of it, it is the bound.
    before: findings to tell with it, as of what a submission launched while it was imported.
    """
    report = replace(report, findings=(*before, *report.findings))
    if not operations or report.uncounted:  # a part of a time would be told for all of it
        return report

    def with_both(caches: Caches) -> ModelledTime:
        by_name: dict[str, float] = {}
        for one in operations:
            by_name[one.name] = by_name.get(one.name, 0.0) + one.us.of(caches)
        kernels = report.modelled.of(caches) if report.modelled else ModelledTime(0.0, "")
        torch_us = sum(by_name.values())
        bound = "torch" if torch_us > kernels.us else kernels.bound
        most_first = dict(sorted(by_name.items(), key=lambda item: -item[1]))
        both = replace(kernels, us=kernels.us + torch_us, bound=bound, kernels_us=kernels.us, torch_us=most_first)
        # A roofline is a floor: how much longer torch takes is not known.
        return replace(both, low_us=kernels.low_us + torch_us, high_us=0.0).rounded()

    what = "modelled, not measured: kernels, and torch's own operations at the card's roofline"
    return replace(report, modelled=ModelledTimes(with_both("cold"), with_both("warm"), what), torch=tuple(operations))
