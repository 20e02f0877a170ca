"""What torch itself does in a case, as a profile shows it: operations by line at the card's roofline, and advice."""

from __future__ import annotations

from typing import Any

from forge.device.cards import launch_us

LINES = 6  # that are shown
WORTH = 0.3  # share of torch's time from which on a rule speaks


def torch_lines(operations: list[dict[str, Any]], caches: str, arch: str) -> list[str]:
    """operations: a report's `torch`. Nothing without any."""
    if not operations:
        return []
    rows = sorted(operations, key=lambda one: -one["us"][caches])
    calls, total_us = sum(one["calls"] for one in rows), sum(one["us"][caches] for one in rows)
    parts = {"launches": calls * launch_us(arch), "products": 0.0, "memory": 0.0, "links": 0.0}
    for one in rows:
        parts[one["kind"]] += one["us"][caches] - one["calls"] * launch_us(arch)
    beside = ", ".join(f"{name} {us:.4g}" for name, us in parts.items() if us >= 0.01)
    told = [
        f"torch's own operations: {calls} calls, {total_us:.4g} us at the card's roofline, no measurement ({beside})"
    ]
    for one in rows[:LINES]:
        us, times = one["us"][caches], f" x {one['calls']}" if one["calls"] > 1 else ""
        told.append(f"  {us / total_us:6.1%} {us:10.2f} us  {one['place'] or 'no line'}  {one['name']}{times}")
    return told + [f"  advice     {text}" for text in _advice(rows, caches, parts, total_us, calls)]


def _advice(rows: list[dict[str, Any]], caches: str, parts: dict[str, float], total_us: float, calls: int) -> list[str]:
    told = []
    if parts["launches"] > WORTH * total_us and calls > 1:
        text = (
            f"{calls} operations take {parts['launches']:.4g} us to launch, {parts['launches'] / total_us:.0%} of all"
        )
        told.append(f"{text}: fewer and larger kernels of your own, each doing several")
    if parts["memory"] > WORTH * total_us:
        most = next(one for one in rows if one["kind"] == "memory")
        told.append(
            f"{parts['memory']:.4g} us move elements to memory and back between products, most at {most['place']} "
            f"({most['name']}): do it in the kernel that makes or takes them"
        )
    if parts["products"] > WORTH * total_us:
        most = next(one for one in rows if one["kind"] == "products")
        told.append(
            f"products take {parts['products']:.4g} us at the card's peaks, most at {most['place']} ({most['name']}): "
            "of the case's own FLOPs 'of light' says how much must be; compute fewer, in a narrower format"
        )
    return told
