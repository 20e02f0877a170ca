"""Of products of parameters `make test` runs a sample, which conftest.py draws."""

from types import SimpleNamespace
from typing import Any

from conftest import not_sampled


def items(**values: list[Any]) -> list[Any]:
    made: list[dict[str, Any]] = [{}]
    for name, of_name in values.items():
        made = [{**one, name: value} for one in made for value in of_name]
    return [SimpleNamespace(callspec=SimpleNamespace(params=params)) for params in made]


def test_each_value_runs_once_and_archs_take_turns() -> None:
    products = items(arch=["A", "B"], dtype=[1, 2, 3, 4], warps=[4, 8]), items(arch=["A", "B"]), items(arch=["A", "B"])
    left = {id(item) for item in not_sampled([[*one] for one in products])}
    taken = [[item.callspec.params for item in one if id(item) not in left] for one in products]
    assert [len(one) for one in taken] == [4, 1, 1]
    assert {params["dtype"] for params in taken[0]} == {1, 2, 3, 4} and {params["warps"] for params in taken[0]} == {
        4,
        8,
    }
    assert sorted(params["arch"] for params in taken[0]) == ["A", "A", "B", "B"]
    assert {taken[1][0]["arch"], taken[2][0]["arch"]} == {"A", "B"}
