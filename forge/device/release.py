"""Which version this is, and which model its times are of. No torch."""

from pathlib import Path

from cdna import version

# What is said of torch's own operations, which cdna knows nothing of.
OF_TORCH = Path(__file__).parent, Path(__file__).parents[1] / "judge" / "operations.py"


def release() -> str:
    """Such as "0.1.0, commit 12df46fc12"."""
    return version.release()


def model() -> str:
    """The hash by which times of one model are told."""
    return version.model_version(*OF_TORCH)
