"""What tests of one variant share: the file generated of their PROBLEM and VARIANT, and their FAULTS one by one."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support import hip_calls
from tests.support.emulated_triton import card
from tests.support.evaltools import generate


@pytest.fixture(scope="module")
def submission(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.module.VARIANT == "hip":
        request.getfixturevalue("hip_compiler")
    return generate(request.module.PROBLEM, request.module.VARIANT, tmp_path_factory.mktemp("submission"))


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Any:
    """Of a variant on an MI355X: results of (case, row of the table or None for what it chooses) ..., with all checks.
    HIP's calls are all made in one process, each of whose launches has an order of its own; Triton's by the module's
    `launch`, in this one."""

    def by_hip(*calls: Any, order_seed: int = 0) -> list[torch.Tensor]:
        sent = [(hip_calls.sent(case.data()), row) for case, row in calls]
        return hip_calls.outputs(request.getfixturevalue("submission"), sent, order_seed)

    def by_triton(*calls: Any, order_seed: int = 0) -> list[torch.Tensor]:
        with card(order_seed=order_seed):
            return [request.module.launch(case.data(), row) for case, row in calls]

    return by_hip if request.module.VARIANT == "hip" else by_triton


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.long)  # each of these files


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault" in metafunc.fixturenames:
        metafunc.parametrize("fault", metafunc.module.FAULTS)
