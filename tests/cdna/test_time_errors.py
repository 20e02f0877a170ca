"""The interval of a modelled time: from published times, and what is said where it may not hold."""

import pytest

from cdna.observe.errors import ANY, ONE_SHAPE, TWO_BOUNDS, Spread, of_file, with_interval
from cdna.results import ModelledTime, added, ratio_error

LINES = (
    Spread("MI355X", "L2", 8, 40, 50, 0.9, 1.2),
    Spread("MI355X", ANY, 4, 40, 60, 0.8, 1.3),
    Spread("MI355X", ANY, 40, 900, 60, 0.95, 1.05),
    Spread(ANY, ANY, 4, 900, 120, 0.7, 1.5),
    Spread(ANY, ONE_SHAPE, 4, 900, 20, 0.9, 1.1),
    Spread(ANY, TWO_BOUNDS, 4, 900, 20, 0.8, 1.25),
)


@pytest.mark.parametrize(
    ("card", "us", "bound", "interval", "unsure"),
    [
        ("MI355X", 20.0, "L2", "18..24", ""),
        ("MI355X", 100.0, "L2", "95..105", ""),  # no line of that bound at that length
        ("MI355X", 2.0, "L2", "1.6..2.6", "no published time is shorter than 4 us"),
        ("MI355X", 2000.0, "L2", "1.9e+03..2.1e+03", "no published time is longer than 900 us"),
        ("MI355X", 20.0, "fences", "16..26", "too few published times are bound by fences"),
        ("MI300X", 20.0, "L2", "14..30", "no published time of an MI300X: other cards' interval"),
    ],
)
def test_a_time_has_the_interval_of_its_card_bound_and_length(
    card: str, us: float, bound: str, interval: str, unsure: str
) -> None:
    time = with_interval(ModelledTime(us, bound), card, LINES)
    assert (time.interval, time.unsure) == (interval, unsure)


def test_of_a_time_that_lacks_lines_nobody_knows_how_long_it_may_be() -> None:
    time = with_interval(ModelledTime(20.0, "L2", unrecorded=0.3), "MI355X", LINES)
    assert time.interval == "18.." and ratio_error(time, time) is None


def test_errors_of_launches_that_follow_each_other_add_up() -> None:
    one, other = (with_interval(ModelledTime(us, "L2"), "MI355X", LINES) for us in (20.0, 2.0))
    both = added([one, other])
    assert both.interval == "19.6..26.6" and both.unsure == other.unsure and both.pair == one.pair
    fences = with_interval(ModelledTime(2.0, "fences"), "MI355X", LINES)  # each reason is said once
    assert added([other, fences]).unsure == f"{other.unsure}; too few published times are bound by fences"


def test_kernels_with_one_bound_err_alike() -> None:
    l2, hbm = (with_interval(ModelledTime(20.0, bound), "MI355X", LINES) for bound in ("L2", "HBM"))
    assert ratio_error(l2, l2) == pytest.approx(0.1) and ratio_error(l2, hbm) == pytest.approx(0.25)


def test_every_length_of_a_card_has_a_line() -> None:
    for card in {line.card for line in of_file()}:
        mine = sorted((s.from_us, s.to_us) for s in of_file() if (s.card, s.bound) == (card, ANY))
        assert all(one[1] == other[0] for one, other in zip(mine, mine[1:])), card
        for us in (1e-3, 10.0, 1e6):
            time = with_interval(ModelledTime(us, "L2"), card)
            assert 0 < time.low_us < time.high_us < 3 * us
