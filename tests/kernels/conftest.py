"""What tests of one variant share: the file generated of their PROBLEM and VARIANT, and their FAULTS one by one.

Each fault of a HIP variant is compiled, which takes seconds; the checks that have to notice it are the Triton variant's
too. So those of a name that its faults have as well are left to --slow.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.support.evaltools import generate


@pytest.fixture(scope="module")
def submission(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.module.VARIANT == "hip":
        request.getfixturevalue("hip_compiler")
    return generate(request.module.PROBLEM, request.module.VARIANT, tmp_path_factory.mktemp("submission"))


SLOW = pytest.mark.slow(reason="the Triton variant's test has the same fault")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault" in metafunc.fixturenames:
        module = metafunc.module
        of_triton = importlib.import_module(f"tests.kernels.test_{module.STEM}_triton").FAULTS
        there = of_triton if module.VARIANT == "hip" else {}
        metafunc.parametrize("fault", [pytest.param(name, marks=[SLOW] * (name in there)) for name in module.FAULTS])
