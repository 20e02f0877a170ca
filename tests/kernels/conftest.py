"""What tests of one variant share: the file generated of their PROBLEM and VARIANT, and their FAULTS one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.evaltools import generate


@pytest.fixture(scope="module")
def submission(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.module.VARIANT == "hip":
        request.getfixturevalue("hip_compiler")
    return generate(request.module.PROBLEM, request.module.VARIANT, tmp_path_factory.mktemp("submission"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault" in metafunc.fixturenames:
        metafunc.parametrize("fault", metafunc.module.FAULTS)
