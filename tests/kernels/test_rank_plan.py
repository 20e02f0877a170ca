"""Plans of kernels between ranks: when they are made anew, and that ranks meet before anybody waits in a kernel."""

from types import SimpleNamespace
from typing import Any

from kernels.common.rank_plan import RankPlan, place_bytes_for, plan_for


def test_ranks_meet_after_compiling_where_the_region_is_there() -> None:
    """Of a plan whose region another plan has made: a rank that compiled faster shall not wait in its kernel."""

    class Heap:
        steps: list[str] = []

        def region(self, key: Any, size_bytes: int) -> SimpleNamespace:
            self.steps.append("region")
            return SimpleNamespace(addresses=(4096, 8192))

        def name_waits(self, names: dict[int, str]) -> None:
            pass

        def agree(self, purpose: str) -> None:
            self.steps.append(purpose)

    plan = RankPlan(Heap())
    plan.take_region("ag_gemm", 4096, 8192, {1: "rows"})
    plan.meet("rows [8, 8]")
    assert plan.heap.steps == ["region", "to be ready for rows [8, 8]"] and plan.places == (4096, 12288)


def test_a_plan_is_made_anew_for_another_group_and_another_row() -> None:
    heaps, row = [SimpleNamespace(), SimpleNamespace()], {"BLOCK_M": 64}
    plans: dict[Any, RankPlan] = {}

    def plan(heap: Any, tuning: dict[Any, Any], key: Any = "inputs") -> RankPlan:
        return plan_for(plans, key, heap, tuning, lambda: RankPlan(heap, (1, 2), tuning.get((1, 2))))

    first = plan(heaps[0], {(1, 2): row})
    assert plan(heaps[0], {(1, 2): row}) is first, "the same row in another dict, as a tuner exchanges TUNING"
    equal = plan(heaps[0], {(1, 2): dict(row)})
    assert equal is not first, "a row is known by its identity"
    assert plan(heaps[0], {}) is not equal
    other_inputs = plan(heaps[0], {}, "others")
    assert set(plans.values()) == {other_inputs, plan(heaps[0], {})}
    of_other_group = plan(heaps[1], {})
    assert list(plans.values()) == [of_other_group], "nothing of a destroyed group is kept"


def test_shapes_of_one_size_class_share_a_region() -> None:
    assert [place_bytes_for(n) for n in (1, 1 << 20, (1 << 20) + 1, 5 << 20)] == [1 << 20, 1 << 20, 1 << 21, 8 << 20]
