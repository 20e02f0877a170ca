"""Real or noise: what repeated runs of two submissions, taken in turns, say of the difference between them."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.05
FEWEST_ROUNDS = 6  # with 5 the smallest p is 2/32, above the level
MOST_ROUNDS = 16  # 2**16 sign patterns are counted one by one
TEST = (
    "exact sign-flip test of the rounds' log ratios, two-sided: of all ways to swap A and B within rounds, the share "
    f"whose mean is as far from 0; real: p < {LEVEL}"
)


@dataclass(frozen=True)
class Verdict:
    ratio: float  # geometric mean over the rounds of B's time / A's
    p: float

    @property
    def real(self) -> bool:
        return self.p < LEVEL

    def __str__(self) -> str:
        return f"B / A {self.ratio:.4f}, p {self.p:.3f}: {'real' if self.real else 'noise'}"


def verdict(a_us: Sequence[float], b_us: Sequence[float]) -> Verdict:
    """Of times of the same rounds, in order."""
    logs = [math.log(b / a) for a, b in zip(a_us, b_us, strict=True)]
    return Verdict(math.exp(sum(logs) / len(logs)), sign_flip_p(logs))


def sign_flip_p(differences: Sequence[float]) -> float:
    """The share of the 2**n sign patterns whose sum is, in size, at least that of the differences as they are."""
    least = abs(sum(differences)) * (1 - 1e-12)  # rounding must not make a pattern differ from itself
    sums = (
        sum(s * d for s, d in zip(signs, differences)) for signs in itertools.product((1, -1), repeat=len(differences))
    )
    return sum(abs(total) >= least for total in sums) / 2 ** len(differences)
