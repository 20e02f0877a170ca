"""What checks files share, and the tests that run them.

Checks (emulated/checks_<stem>.py) are pytest files that run in a process prepared for an emulated GPU, with the
generated submission in $SUBMISSION: run_checks() starts one, the rest is for use in there.
"""

import importlib.util
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
import torch
import yaml

from tests.support.poison import poisoned_memory

ROOT = Path(__file__).resolve().parents[2]
FP8 = {"gfx942": torch.float8_e4m3fnuz, "gfx950": torch.float8_e4m3fn}
GUARD_BYTES = 4096  # before and behind each guarded tensor


def run_checks(
    stem: str, submission: Path, arch: str = "gfx942", only: str = "", all_of_it: bool = False, **environment: str
) -> str:
    """Runs emulated/checks_<stem>.py, or its tests that match `only`; "" if they pass, else what they print.

    all_of_it: those marked `slow` as well."""
    from tests.support.prepared import run_prepared

    file = f"tests/support/emulated/checks_{stem}.py"
    environment |= {"SUBMISSION": str(submission), "CHECKED_ARCH": arch}
    done = run_prepared(
        file, *(["-k", only] if only else []), *["--slow"] * all_of_it, arch=arch, environment=environment
    )
    said = done.stdout + done.stderr
    assert "passed" in said or "failed" in said or "Segmentation fault" in said, said
    return "" if done.returncode == 0 else said


def main(file: str) -> None:
    """What a checks file does as a script."""
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:warnings", *sys.argv[1:]]
    sys.exit(pytest.main([file, *words]))


# ---- in the prepared process ---------------------------------------------------------------------------------


def load_submission() -> ModuleType:
    """A new module of the generated file, each time."""
    spec = importlib.util.spec_from_file_location("submission", os.environ["SUBMISSION"])
    assert spec is not None and spec.loader is not None
    module = sys.modules["submission"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def poisoned() -> Iterator[None]:
    """Where a file takes it over."""
    with poisoned_memory():
        yield


def checked_fp8() -> torch.dtype:
    """The type that the emulated card's instructions know."""
    return FP8[os.environ["CHECKED_ARCH"]]


def benchmarks(stem: str) -> list[dict[str, int]]:
    return yaml.safe_load((ROOT / "reference" / stem / "task.yml").read_text())["benchmarks"]


def random_seeds(usually: int = 6) -> range:
    """Of as many random shapes as $RANDOM_SHAPES says: a few in the suite, 200 for a kernel that was changed."""
    return range(int(os.environ.get("RANDOM_SHAPES", usually)))


def random_size(generator: random.Random, most: int) -> int:
    """From 1 to most, as often below any number as above it by the same factor."""
    return int(most ** generator.random())


@contextmanager
def table_row(module: ModuleType, row: dict[str, int]) -> Iterator[None]:
    """Inside, every shape gets this row."""
    with patch.object(module, "TUNING", {}), patch.object(module, "DEFAULT", row):
        yield


def differ(*cases: Any, alike: Sequence[Any]) -> list[Any]:
    """For parametrize: those that differ most, and with --slow others alike."""
    more = [case if isinstance(case, tuple) else (case,) for case in alike]
    return [*cases, *(pytest.param(*case, marks=ALIKE) for case in more)]


ALIKE = pytest.mark.slow(reason="one of many alike, of which those run that differ most")


class Guards:
    """Tensors of NaN between bytes that nobody may write."""

    def __init__(self) -> None:
        self.rooms: list[tuple[torch.Tensor, int]] = []  # with the byte that stands there

    def empty(self, shape: Any, dtype: torch.dtype = torch.float32, device: Any = "cuda") -> torch.Tensor:
        """As torch.empty; of an integer type it is -1 throughout."""
        byte = 0x80 if dtype == torch.float8_e4m3fnuz else 0xFF
        shape = torch.Size([shape] if isinstance(shape, int) else shape)
        size_bytes = shape.numel() * dtype.itemsize
        room = torch.full((size_bytes + 2 * GUARD_BYTES,), byte, dtype=torch.uint8, device=device)
        self.rooms.append((room, byte))
        return room[GUARD_BYTES : GUARD_BYTES + size_bytes].view(dtype).view(shape)

    def holding(self, x: torch.Tensor) -> torch.Tensor:
        return self.empty(x.shape, x.dtype).copy_(x)

    def assert_untouched(self) -> None:
        for room, byte in self.rooms:
            edges = torch.cat([room[:GUARD_BYTES], room[-GUARD_BYTES:]])
            assert bool((edges == byte).all()), "written outside a tensor"


@contextmanager
def guarded() -> Iterator[Guards]:
    """Inside, torch.empty gives tensors between guards; they are looked at in the end."""
    guards = Guards()
    with patch.object(torch, "empty", guards.empty):
        yield guards
    guards.assert_untouched()


def quantised(exact: torch.Tensor, fp8: torch.dtype) -> torch.Tensor:
    """Doubles rounded to fp8; beyond its largest value that one, and NaN where they are."""
    largest = torch.finfo(fp8).max
    return exact.clamp(-largest, largest).float().to(fp8)


def assert_same_fp8(got: torch.Tensor, exact: torch.Tensor, unequal_share: float) -> None:
    """got is `exact`, rounded: elements are one step away at most, and no more than this share of them."""
    wanted = quantised(exact, got.dtype).float()
    assert got.shape == exact.shape
    assert torch.equal(got.float().isnan(), wanted.isnan()), "NaN is not where it belongs"
    info = torch.finfo(got.dtype)
    step = wanted.abs() * info.eps + info.smallest_normal * info.eps
    off = (got.float() - wanted).abs()
    assert not (off > step).any(), f"off by {(off / step).nan_to_num().max()} steps"
    assert (off > 0).sum() <= max(1, unequal_share * got.numel()), f"{(off > 0).sum()} of {got.numel()} are off"


def assert_refused(call: Callable[..., Any], inputs: dict[str, Any], refusals: dict[str, Any]) -> None:
    """Each of these replaced inputs, keyed "name: message", is a ValueError that says so, and nothing is launched."""
    import cdna

    cdna.stats()
    for key, value in refusals.items():
        name, _, message = key.partition(": ")
        with pytest.raises(ValueError) as error:
            call(**{**inputs, name: value})
        assert message in str(error.value) and "\n" not in str(error.value), str(error.value)
    assert not cdna.stats()


def noting(dispatched: list[str], views: bool = True) -> Any:
    """Inside, each of torch's operations is noted; views: those that make a view, too."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Noting(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls) -> bool:  # or torch imports its compiler, which takes longer than torch's import
            return False

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            dispatched.extend([str(function)] if views or not function.is_view else [])
            return function(*args, **(kwargs or {}))

    return Noting()


def assert_later_calls_only_launch(module: ModuleType, data: Any, launches: int) -> None:
    """After the first call of a shape: that many launches, no memory but the result's, no copy, no wait for the GPU."""
    import cdna

    dispatched: list[str] = []
    module.custom_kernel(data)
    cdna.stats()
    waits = [patch.object(kind, "synchronize", side_effect=AssertionError) for kind in (torch.cuda, torch.cuda.Event)]
    with waits[0], waits[1], noting(dispatched, views=False):
        module.custom_kernel(data)
    assert len(cdna.stats()) == launches
    assert len(dispatched) == 1 and dispatched[0].startswith("aten.empty"), dispatched


def assert_operator(module: ModuleType, name: str, inputs: tuple[Any, ...], wanted: torch.Tensor) -> None:
    """torch.ops.cdna_forge.<name> gives these bits and shape, also of a second copy of the file, and custom_kernel does
    not go through it."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    def copies() -> list[Any]:
        return [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]

    operator = getattr(torch.ops.cdna_forge, name)
    assert torch.equal(operator(*copies()).view(torch.uint8), wanted.view(torch.uint8))
    load_submission()
    # That copy's has taken the place of the first, which torch has freed: what was held of it leads to other memory.
    operator = getattr(torch.ops.cdna_forge, name)
    dispatched: list[str] = []
    with noting(dispatched):
        assert torch.equal(operator(*copies()).view(torch.uint8), wanted.view(torch.uint8))
        by_operator = f"cdna_forge.{name}.default" in dispatched
        dispatched.clear()
        module.custom_kernel(tuple(copies()))
    assert by_operator and not any("cdna_forge" in called for called in dispatched)
    # the first writes to the inputs, by a product that torch has not for fp8
    schema = () if any(x.dtype.itemsize == 1 for x in inputs if isinstance(x, torch.Tensor)) else ("test_schema",)
    torch.library.opcheck(operator.default, tuple(copies()), test_utils=(*schema, "test_faketensor"))
    on_host = [x.cpu() if isinstance(x, torch.Tensor) else x for x in inputs]
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in on_host]
    with mode:
        fake = operator(*fakes)
    assert (fake.shape, fake.dtype) == (wanted.shape, wanted.dtype)
