"""lab/whole_submissions.py: what torch and libraries are counted at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from forge.device.roofline import Roofline
from lab import whole_submissions
from lab.mi355x_against_aiter import EMPTY_CALL_US, GEMM_US, on_leaderboards_clock
from lab.tuning_tables.modelled import large_tensors_not_drawn
from lab.whole_submissions import CARD, LibraryTime, print_table

LAUNCH_US = CARD.launch_us
moved_us = Roofline(CARD).moved_us


@pytest.fixture
def library() -> Iterator[LibraryTime]:
    with LibraryTime(tflops=100.0) as library:
        yield library


def test_products_take_their_flops_or_their_bytes(library: LibraryTime) -> None:
    wide = torch.zeros(256, 512, dtype=torch.bfloat16)
    library.us.clear()
    torch.einsum("ik,jk->ij", wide, wide)
    assert library.us["bmm"] == pytest.approx(LAUNCH_US + 2 * 256 * 256 * 512 / 100e6)
    narrow = torch.zeros(1, 512, dtype=torch.bfloat16)
    library.us.clear()
    narrow @ wide.t()
    assert library.us == {"mm": pytest.approx(LAUNCH_US + moved_us(2 * 257 * 512, 2 * 256))}


def test_large_products_are_counted_and_not_computed(library: LibraryTime, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.zeros(3, 64, 32, dtype=torch.float16)
    before = torch.bmm(x, x.mT)
    assert not before.any()
    first = library.us["bmm"]
    monkeypatch.setattr(whole_submissions, "LARGE_FLOPS", 1)
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda self, shape: x.new_ones(shape))
    assert (torch.bmm(x, x.mT) == 1).all() and library.us["bmm"] == pytest.approx(2 * first)


def test_other_operations_take_their_bytes_and_views_nothing(library: LibraryTime) -> None:
    x, row = torch.zeros(128, 64), torch.zeros(64)
    library.us.clear()
    x.view(64, 128).t()[3:], row.expand(128, 64), torch.empty(9)
    assert not library.us
    x += row.expand(128, 64)
    assert library.us == {"add_": pytest.approx(LAUNCH_US + moved_us(4 * 65 * 128 - 4 * 64, 4 * 64 * 128))}


def test_what_torch_compile_fuses_is_counted_once(library: LibraryTime) -> None:
    x = torch.zeros(64, 64)
    library.us.clear()

    @library.compiled
    def fused(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).exp() * 2

    @library.compiled(fullgraph=True)
    def around(x: torch.Tensor) -> torch.Tensor:
        return fused(x).exp() @ x

    assert fused(x).shape == x.shape
    assert library.us == {"torch.compile": pytest.approx(LAUNCH_US + moved_us(4 * 64 * 64, 4 * 64 * 64))}
    library.us.clear()
    around(x)
    assert list(library.us) == ["mm"]


def test_products_of_hipblaslt(library: LibraryTime) -> None:
    assert library.hipblaslt(2048, 7168, 2048, 1, 2)
    assert not library.hipblaslt(32, 16, 2048, 1, 2)
    assert library.us["hipBLASLt"] > 2 * 2048 * 7168 * 2048 / 100e6


def test_only_large_tensors_are_not_drawn() -> None:
    with large_tensors_not_drawn():
        generator = torch.Generator().manual_seed(1)
        drawn = torch.randn((64, 64), generator=generator)
        assert torch.randn((2048, 2048), dtype=torch.float16, generator=generator).shape == (2048, 2048)
    generator.manual_seed(1)
    assert torch.equal(drawn, torch.randn((64, 64), generator=generator))


def test_the_table_has_geometric_means(capsys: pytest.CaptureFixture[str]) -> None:
    def result(name: str, case: str, us: float) -> dict:
        return {"submission": name, "case": case, "us": us, "libraries_us": {"mm": us / 2}}

    print_table([result("hip", "k: 1", 100.0), result("hip", "k: 2", 400.0), result("theirs", "k: 1", 50.0)])
    said = capsys.readouterr().out
    assert "| hip | 100 (50) | 400 (200) | 200 |" in said and "| theirs | 50 (25) | 50 |" in said


def test_the_leaderboards_clock_adds_to_each_case() -> None:
    """An empty kernel takes what an empty call does, or its launch besides; published calls lie between."""
    inside, published, beside = on_leaderboards_clock([LAUNCH_US])
    assert inside == pytest.approx(EMPTY_CALL_US) and beside == pytest.approx(EMPTY_CALL_US + LAUNCH_US)
    assert inside < published < beside
    short, long = on_leaderboards_clock([5.0, 5.0]), on_leaderboards_clock([1.0, 25.0])
    assert all(one < other for one, other in zip(short, long, strict=True))  # of equal geometric means
    # What is published for a kernel alone (reference/mxfp4_mm/task.yml) and for the call that launches it.
    assert [round(call - kernel, 2) for call, kernel in zip(GEMM_US[4:], (6.81, 6.18), strict=True)] == [2.93, 2.18]
