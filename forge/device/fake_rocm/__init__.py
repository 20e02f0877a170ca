"""Lets a CPU build of torch pass for a ROCm build with emulated GPUs; docs/emulated-device.md has the limits.

Nothing here knows the evaluator or the problems. `apply` is called once a process, right after torch's first
import.
"""

import os

_applied = False


def apply(arch: str) -> None:
    """Prepare the torch of this process for cards of `arch`."""
    global _applied
    if _applied:
        return
    from forge.device.fake_rocm import (
        children,
        collectives,
        factories,
        generators,
        graphs,
        hip,
        histogram,
        operators,
        passthrough,
        products,
        propagate,
        runtime,
        scaled_mm,
        streams,
        tags,
        tensors,
        topk,
    )

    _applied = True
    streams.apply()
    hip.apply(arch)
    runtime.apply(arch)
    graphs.apply()
    factories.apply()
    generators.apply()
    tensors.apply()
    passthrough.apply()
    operators.apply()
    products.apply()
    scaled_mm.apply(arch)
    topk.apply()
    histogram.apply()
    collectives.apply()
    propagate.apply()
    children.tell()
    tags.tell_checks()
    checks = os.environ.get("CDNA_CHECKS", "")
    from cdna.memory import torch_memory

    if not checks:  # they count no lines, and watch the allocator themselves
        torch_memory.align_torch()
    elif "all" in checks or "unwritten" in checks:
        torch_memory.fill_fresh(True)
