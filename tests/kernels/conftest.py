"""What tests of one variant share: the file generated of their PROBLEM and VARIANT, and their FAULTS one by one.

Each fault of a HIP variant is compiled, which takes seconds; the checks that have to notice it are the Triton variant's
too. So those of a name that its faults have as well are left to --slow, and all but the first of the others.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.support.evaltools import generate
from tests.support.gemm_submissions import SPILLS_ARE_SEEN


@pytest.fixture(scope="module")
def submission(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.module.VARIANT == "hip":
        request.getfixturevalue("hip_compiler")
    return generate(request.module.PROBLEM, request.module.VARIANT, tmp_path_factory.mktemp("submission"))


SLOW = pytest.mark.slow(reason="compiles one of many faults that the same checks notice")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.long)  # each of these files
        if item.name == "test_no_case_spills":  # of HIP variants test_no_kernel_spills tells
            item.add_marker(SPILLS_ARE_SEEN)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault" in metafunc.fixturenames:
        module = metafunc.module
        of_triton = importlib.import_module(f"tests.kernels.test_{module.STEM}_triton").FAULTS
        own = [name for name in module.FAULTS if name not in of_triton]
        quick = own[:1] if module.VARIANT == "hip" else module.FAULTS
        cases = [pytest.param(name, marks=[SLOW] * (name not in quick)) for name in module.FAULTS]
        metafunc.parametrize("fault", cases)
