"""What torch itself does in a case, as a profile shows it: operations by line at the card's roofline, and advice."""

from collections.abc import Sequence

from forge.device.cards import launch_us, peaks_of
from forge.device.report import Caches, TorchOperation

LINES = 6  # that are shown
WORTH = 0.3  # share of torch's time from which on a rule speaks
TOO_MANY = 1.5  # times the FLOPs that a case needs, from which on fewer would do
SWELLS = 4  # times as many bytes as a product reads, from which on what it writes had better never be


def torch_lines(
    operations: Sequence[TorchOperation], caches: Caches, arch: str, needed_flops: float | None = None
) -> list[str]:
    """operations: a report's `torch`; needed_flops: of the case, where its problem says. Nothing without any."""
    if not operations:
        return []
    rows = sorted(operations, key=lambda one: -one.us.of(caches))
    calls, total_us = sum(one.calls for one in rows), sum(one.us.of(caches) for one in rows)
    parts = {"launches": calls * launch_us(arch), "products": 0.0, "memory": 0.0, "links": 0.0}
    for one in rows:
        parts[one.kind] += one.us.of(caches) - one.calls * launch_us(arch)
    beside = ", ".join(f"{name} {us:.4g}" for name, us in parts.items() if us >= 0.01)
    told = [
        f"torch's own operations: {calls} calls, {total_us:.4g} us at the card's roofline, no measurement ({beside})"
    ]
    for one in rows[:LINES]:
        us, times = one.us.of(caches), f" x {one.calls}" if one.calls > 1 else ""
        told.append(f"  {us / total_us:6.1%} {us:10.2f} us  {one.place or 'no line'}  {one.name}{times}")
    return told + [f"  advice     {text}" for text in _advice(rows, parts, total_us, calls, arch, needed_flops)]


def _advice(
    rows: list[TorchOperation],
    parts: dict[str, float],
    total_us: float,
    calls: int,
    arch: str,
    needed_flops: float | None,
) -> list[str]:
    told = []
    if parts["launches"] > WORTH * total_us and calls > 1:
        text = (
            f"{calls} operations take {parts['launches']:.4g} us to launch, {parts['launches'] / total_us:.0%} of all"
        )
        told.append(f"{text}: fewer and larger kernels of your own, each doing several")
    if parts["memory"] > WORTH * total_us:
        most = next(one for one in rows if one.kind == "memory")
        told.append(
            f"{parts['memory']:.4g} us move elements to memory and back between products, most at {most.place} "
            f"({most.name}): do it in the kernel that makes or takes them"
        )
    if parts["products"] > WORTH * total_us:
        told += _of_products([one for one in rows if one.kind == "products"], parts["products"], needed_flops)
    again_bytes, most = sum(one.again_bytes for one in rows), max(rows, key=lambda one: one.again_bytes)
    peaks = peaks_of(arch)
    if peaks and (again_us := again_bytes / peaks.hbm_gb_s * 1e-3) > WORTH / 2 * total_us:
        told.append(
            f"{again_bytes / 1e6:,.0f} MB of the input are read again by operation after operation, "
            f"{again_us:.4g} us of HBM, most at {most.place} ({most.name}): one kernel that keeps "
            "its part on the chip reads it once"
        )
    return told


def _of_products(products: list[TorchOperation], us: float, needed_flops: float | None) -> list[str]:
    """Where they multiply more than the case needs, and where one makes more than it is given."""
    flops, most = sum(one.flops for one in products), products[0]
    told = []
    if needed_flops and flops > TOO_MANY * needed_flops:
        told.append(
            f"products take {us:.4g} us: {flops / 1e9:,.4g} GFLOP, {flops / needed_flops:.3g} times what the case "
            f"needs, most at {most.place} ({most.name})"
        )
    elif needed_flops is None:
        told.append(f"products take {us:.4g} us at the card's peaks, most at {most.place} ({most.name})")
    large = max(products, key=lambda one: one.written_bytes)
    if large.us.cold > WORTH / 3 * us and large.written_bytes > SWELLS * large.read_bytes:
        told.append(
            f"the product at {large.place} ({large.name}) makes {large.written_bytes / 1e6:,.0f} MB of "
            f"{large.read_bytes / 1e6:,.0f} MB: where another product follows, multiply in another order, "
            "a (b c) for (a b) c, so that it is never made"
        )
    return told
