"""What is wrong with an output, in words: the shape of an error says more than its worst element.

Only what holds for nearly all elements is said, and nothing where no pattern is found.
"""

from collections.abc import Callable, Iterator

import torch

SLACK = 0.03  # of an element and of the output's root mean square: rounding of 8-bit results stays below
NEARLY = 0.99  # of the elements that a pattern explains
DENSE = 0.85  # of a block of rows and columns
FEW = 3  # ranges and indices that are listed
MOST_ELEMENTS = 2**24  # of a larger output the first so many, in whole rows
FACTORS = {
    2.0: "twice what is wanted",
    0.5: "half of what is wanted",
    4.0: "four times what is wanted",
    0.25: "a quarter of what is wanted",
    -1.0: "the negative of what is wanted",
}
# What makes such a factor where inputs are fp8 (fnuz has half of OCP's value in the same bits), and in products.
OF_FP8 = {2.0: "fnuz fp8 taken for OCP", 0.5: "OCP fp8 taken for fnuz"}
OF_BOTH = {factor**2: f"in both operands {words}" for factor, words in OF_FP8.items()}
OF_SUMS = {2.0: "a sum taken twice"}
OF_ONE_SIGN = {0.5: "half of k left out"}  # half of a sum of both signs is no half of its value


def pattern_of(got: torch.Tensor, wanted: torch.Tensor, fp8: int = 0, multiplies: bool = False) -> str:
    """One phrase; "" where the outputs agree, or differ in no way known here. Shapes must be equal.

    fp8: how many of the inputs are; multiplies: whether the output is of sums over k."""
    text = _pattern_of(got, wanted)
    one_sign = multiplies and wanted.numel() > 0 and bool((wanted >= 0).all() or (wanted <= 0).all())
    holding = ((OF_FP8, fp8 > 0), (OF_BOTH, fp8 > 1 and multiplies), (OF_SUMS, multiplies), (OF_ONE_SIGN, one_sign))
    for factor, words in FACTORS.items():
        causes = [known.get(factor, "") for known, holds in holding if holds]
        if text.startswith(words) and any(causes):
            return f"{words}: {', or '.join(filter(None, causes))}?{text.removeprefix(words)}"
    return text


def _pattern_of(got: torch.Tensor, wanted: torch.Tensor) -> str:
    if got.shape != wanted.shape or not wanted.numel():
        return ""
    rows = wanted.reshape(-1, wanted.shape[-1] if wanted.dim() else 1)
    most = max(1, MOST_ELEMENTS // rows.shape[1])
    mine = got.detach().reshape(rows.shape)[:most].to(torch.float64)
    theirs = rows.detach()[:most].to(torch.float64)
    finite = theirs[theirs.isfinite()]
    scale = float(finite.square().mean().sqrt()) if finite.numel() else 0.0

    def alike(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return ((a - b).abs() <= SLACK * (scale + b.abs())) | (a == b) | (a.isnan() & b.isnan())

    wrong = ~alike(mine, theirs)
    if not wrong.any() or scale == 0.0:
        return ""
    for find in (_left_unwritten, _transposed, _shifted, _scaled, _permuted_rows):
        if text := find(mine, theirs, wrong, alike):
            where = _where(wrong) if find is _left_unwritten else ""
            return f"{text},{where}" if where else text
    return f"wrong{_where(wrong)}" if _where(wrong) else ""


Alike = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _most(mask: torch.Tensor) -> bool:
    return mask.numel() > 0 and _share(mask) >= NEARLY


def _left_unwritten(got: torch.Tensor, wanted: torch.Tensor, wrong: torch.Tensor, alike: Alike) -> str:
    """All wrong elements hold one value."""
    values = got[wrong]
    if _most(values.isnan()):
        return "NaN, or never written"
    first = values[0]
    if values.numel() > 8 and _most(values == first):
        return f"never written, or {float(first):g} written"
    return ""


def _transposed(got: torch.Tensor, wanted: torch.Tensor, wrong: torch.Tensor, alike: Alike) -> str:
    rows, columns = wanted.shape
    if min(rows, columns) > 1 and _most(alike(got.reshape(columns, rows).T, wanted)):
        return "the transpose of what is wanted"
    return ""


def _shifted(got: torch.Tensor, wanted: torch.Tensor, wrong: torch.Tensor, alike: Alike) -> str:
    for axis, name in ((0, "row"), (1, "column")):
        size = wanted.shape[axis]
        if size < 4:
            continue
        for by, word in ((1, "late"), (-1, "early")):
            mine = got.narrow(axis, max(by, 0), size - 1)
            theirs = wanted.narrow(axis, max(-by, 0), size - 1)
            if _most(alike(mine, theirs)):
                return f"a {name} {word}: {name} i holds what {name} i{'-' if by > 0 else '+'}1 should"
    return ""


def _scaled(got: torch.Tensor, wanted: torch.Tensor, wrong: torch.Tensor, alike: Alike) -> str:
    theirs = wanted[wrong]
    known = theirs.abs() > 0.1 * theirs[theirs.isfinite()].abs().max().clamp_min(1e-300)
    if int(known.sum()) < 8:
        return ""
    factor = float((got[wrong][known] / theirs[known]).nanmedian())
    if not 1e-6 < abs(factor) < 1e6 or not _most(alike(got[wrong] / factor, theirs)):
        return ""
    text = next((text for known_one, text in FACTORS.items() if abs(factor / known_one - 1) < SLACK), "")
    return (text or f"{factor:.4g} times what is wanted") + _where(wrong)


def _permuted_rows(got: torch.Tensor, wanted: torch.Tensor, wrong: torch.Tensor, alike: Alike) -> str:
    """Every wrong row is another row of what is wanted."""
    bad = wrong.any(dim=1).nonzero().flatten().tolist()
    if wanted.shape[1] < 4 or len(bad) < 2 or wanted.shape[0] > 4096:
        return ""
    found = []
    for row in bad[: 4 * FEW]:
        nearest = int((wanted - got[row]).abs().nan_to_num(1e300).sum(dim=1).argmin())
        if nearest == row or not _most(alike(got[row], wanted[nearest])):
            return ""
        found.append((row, nearest))
    listed = ", ".join(f"row {row} holds row {nearest}" for row, nearest in found[:FEW])
    return f"rows in another order: {listed}" + (", ..." if len(bad) > FEW else "")


def _where(wrong: torch.Tensor) -> str:
    """ " in columns 59 to 63 of every row"; "" where wrong elements lie all over."""
    rows, columns = wrong.any(dim=1), wrong.any(dim=0)
    if _share(wrong[rows]) >= DENSE:  # some elements are right by chance
        columns = torch.ones_like(columns)
    if _share(wrong[:, columns]) >= DENSE:
        rows = torch.ones_like(rows)
    every_row, every_column = bool(rows.all()), bool(columns.all())
    if (every_row and every_column) or _share(wrong[rows][:, columns]) < DENSE:
        return ""
    if wrong.shape[0] == 1:
        return f" in {_listed(columns, 'element')}"
    if every_column:
        return f" in {_listed(rows, 'row')}"
    return f" in {_listed(columns, 'column')} of {'every row' if every_row else _listed(rows, 'row')}"


def _share(mask: torch.Tensor) -> float:
    return float(mask.to(torch.float64).mean())


def _listed(mask: torch.Tensor, name: str) -> str:
    """Which rows or columns: one range, several, or every n-th."""
    at = mask.nonzero().flatten().tolist()
    ranges = list(_ranges(at))
    steps = {b - a for a, b in zip(at, at[1:])}
    if len(at) > FEW and len(steps) == 1 and steps != {1}:
        return f"every {_ordinal(steps.pop())} {name} from {at[0]} on"
    shown = [f"{a} to {b}" if b > a else f"{a}" for a, b in ranges[:FEW]]
    plural = "s" if len(at) > 1 else ""
    return f"{name}{plural} {', '.join(shown)}" + (f" and {len(ranges) - FEW} more ranges" if len(ranges) > FEW else "")


def _ranges(at: list[int]) -> Iterator[tuple[int, int]]:
    start = previous = at[0]
    for i in at[1:]:
        if i != previous + 1:
            yield start, previous
            start = i
        previous = i
    yield start, previous


def _ordinal(n: int) -> str:
    return {2: "second", 3: "third"}.get(n, f"{n}th")
