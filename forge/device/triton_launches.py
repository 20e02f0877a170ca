"""cdna's, for the rest of forge; to be imported once a Triton has been chosen."""

from cdna.triton.launches import launches_become

__all__ = ["launches_become"]
