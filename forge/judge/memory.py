"""The memory through which a rank's tensors pass (forge/judge/exchange.py), made by the evaluator. No torch."""

from __future__ import annotations

import fcntl
import os
import resource

from forge.console import UsageError

REGION_BYTES, REGIONS = 1 << 38, 3  # memory is taken where something is written
ALIGN_BYTES = 4096


def make_memory() -> int:
    """A descriptor of one rank's memory, whose size nobody can change: reading it never faults."""
    descriptor = os.memfd_create("forge-exchange", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits[1], limits[1]))
        os.ftruncate(descriptor, REGIONS * REGION_BYTES)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    except OSError as error:
        os.close(descriptor)
        raise UsageError(f"no memory to share with the submission: {error.strerror} (ulimit -f unlimited?)") from None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    return descriptor
