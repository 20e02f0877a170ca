"""How launches run: on how many host threads, as which card, in which order. What a block sets, or the environment."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..cards import Card, get_card
from ..errors import CdnaError


def n_threads() -> int:
    """Host threads a launch uses: $CDNA_THREADS, else every core this process may run on."""
    return int(os.environ.get("CDNA_THREADS") or len(os.sched_getaffinity(0)))


_models: dict[str, str] = {}  # arch -> the card that `cdna.device` was given
_order_seeds: list[int] = []


def emulated_card(arch: str) -> Card:
    """The card of launches for `arch`: what `cdna.device` was given, else $CDNA_CARD's, else the arch's default."""
    return get_card(arch, _models.get(arch))


@contextmanager
def as_card(arch: str, model: str | None) -> Iterator[None]:
    """Within the block, launches for `arch` run on this model; None leaves what is set."""
    before = dict(_models)
    if model is not None:
        _models[arch] = get_card(arch, model).model
    try:
        yield
    finally:
        _models.clear()
        _models.update(before)


def order_seed() -> int:
    """What draws the order of workgroups and waves: `cdna.device`'s seed, else $CDNA_ORDER_SEED; 0: the card's."""
    if _order_seeds:
        return _order_seeds[-1]
    text = os.environ.get("CDNA_ORDER_SEED") or "0"
    if not text.isdecimal():
        raise CdnaError(f"CDNA_ORDER_SEED={text}: a whole number from 1 on, or 0 for the card's order")
    return int(text)


@contextmanager
def ordered(seed: int | None) -> Iterator[None]:
    """Within the block, launches run in the order that this seed draws; None leaves what is set."""
    if seed is not None and seed < 0:
        raise CdnaError(f"order_seed={seed}: a whole number from 1 on, or 0 for the card's order")
    _order_seeds.append(order_seed() if seed is None else seed)
    try:
        yield
    finally:
        _order_seeds.pop()
