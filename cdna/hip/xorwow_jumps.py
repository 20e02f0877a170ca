"""Writes the table with which hipRAND's XORWOW generator skips ahead (include/hiprand/cdna/xorwow_jumps.inc).

One step of the generator's shift register is a linear map A of its 160 bits, so A^n is a polynomial in A of degree
below 160: x^n modulo A's characteristic polynomial. The table holds x^(c 2^(4k)) and x^(c 2^(4k + 67)) for c from 1 to
15 and k from 0 to 15: what a digit of a 64-bit number of steps, or of sequences of 2^67 steps, stands for.

    python -m cdna.hip.xorwow_jumps
"""

from __future__ import annotations

from pathlib import Path

TABLE = Path(__file__).parent / "include/hiprand/cdna/xorwow_jumps.inc"
BITS, WORD = 160, 0xFFFFFFFF
SEQUENCE = 67  # the binary logarithm of a sequence's steps
MARSAGLIA = (123456789, 362436069, 521288629, 88675123, 5783321)  # his first state


def step(state: tuple[int, ...]) -> tuple[int, ...]:
    """The shift register's next state (G. Marsaglia, "Xorshift RNGs", 2003, xorwow)."""
    x, *rest, v = state
    t = x ^ x >> 2
    return (*rest, v, (v ^ v << 4 ^ t ^ t << 1) & WORD)


def characteristic_polynomial() -> int:
    """Bit i is the coefficient of x^i; by Berlekamp and Massey, from one bit of each of twice as many states."""
    sequence: list[int] = []
    state: tuple[int, ...] = MARSAGLIA
    for _ in range(2 * BITS):
        state = step(state)
        sequence.append(state[-1] & 1)
    current, previous, length, since = 1, 1, 0, 1  # bit i: the coefficient of the term i back
    for n in range(len(sequence)):
        if sum(sequence[n - i] for i in range(length + 1) if current >> i & 1) & 1:
            if 2 * length <= n:
                current, previous, length, since = current ^ previous << since, current, n + 1 - length, 1
                continue
            current ^= previous << since
        since += 1
    assert length == BITS
    return int(f"{current:0{BITS + 1}b}"[::-1], 2)


def product(a: int, b: int, modulus: int) -> int:
    """Of polynomials over GF(2)."""
    result = 0
    while b:
        if b & 1:
            result ^= a
        a <<= 1
        if a >> BITS:
            a ^= modulus
        b >>= 1
    return result


def table() -> str:
    """The file: for steps, then for sequences, 16 digits of 15 polynomials of 5 words, the lowest powers first."""
    modulus = characteristic_polynomial()
    power = 2  # x^(2^bit)
    digits: dict[int, int] = {}
    for bit in range(SEQUENCE + 64):
        digits[bit] = power
        power = product(power, power, modulus)
    lines = []
    for first in (0, SEQUENCE):
        for digit in range(16):
            one = digits[first + 4 * digit]
            value = 1
            for _ in range(15):
                value = product(value, one, modulus)
                lines.append(", ".join(f"0x{value >> 32 * i & WORD:x}" for i in range(5)) + ",")
    return "\n".join(["// Written by cdna/hip/xorwow_jumps.py.", *lines, ""])


if __name__ == "__main__":
    TABLE.write_text(table())
