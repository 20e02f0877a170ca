"""What integer atomics make of the value that is there, as AMD's CDNA3 ISA document has it."""

from collections.abc import Callable

Operation = Callable[[int, int], int]  # the new value from the old one and the data, as unsigned numbers


def signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> (bits - 1) else x


def integer_operations(bits: int) -> dict[str, Operation]:
    """By the names of global atomics; results are cut to the width by the caller."""
    return {
        "swap": lambda old, x: x,
        "add": lambda old, x: old + x,
        "sub": lambda old, x: old - x,
        "smin": lambda old, x: min(old, x, key=lambda y: signed(y, bits)),
        "smax": lambda old, x: max(old, x, key=lambda y: signed(y, bits)),
        "umin": min,
        "umax": max,
        "and": lambda old, x: old & x,
        "or": lambda old, x: old | x,
        "xor": lambda old, x: old ^ x,
        "inc": lambda old, x: 0 if old >= x else old + 1,
        "dec": lambda old, x: x if old == 0 or old > x else old - 1,
    }
