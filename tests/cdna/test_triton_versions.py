"""Every version of Triton that this machine has, installed or in the cache, runs the same small kernels."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from cdna import ARCHS
from cdna.errors import CdnaError
from cdna.triton.versions import INTERFACES, interface_of, value_of_flag
from forge.device import triton_versions
from lab.triton_matrix import VERSIONS

TAKEN = pytest.mark.slow(reason="the version that all other tests take")


@pytest.mark.parametrize(
    "version", [pytest.param(version, marks=[TAKEN] * (version == "3.6.0")) for version in VERSIONS]
)
def test_two_kernels_and_what_surrounds_them(version: str) -> None:
    if not triton_versions.is_here(version):
        pytest.skip(f"Triton {version} is not in the cache: python -m lab.triton_matrix {version} brings it")
    environment = {**os.environ, **triton_versions.environment(version)}
    command = [sys.executable, "-W", "ignore", "-m", "tests.support.version_kernels", *ARCHS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "Exception ignored" not in done.stderr, done.stderr
    assert [line for line in done.stdout.splitlines() if "passed" in line] == [f"{version} {a} passed" for a in ARCHS]


def test_the_table_has_every_version_that_is_tried() -> None:
    assert {tuple(map(int, version.split(".")[:2])) for version in VERSIONS} == set(INTERFACES)


def test_versions_outside_the_table() -> None:
    with pytest.raises(CdnaError, match=r"Triton 3\.3\.1 is too old .* one of 3\.4 to 3\.9"):
        interface_of("3.3.1")
    with pytest.raises(CdnaError, match="not a version number"):
        interface_of("nightly")
    assert interface_of("3.6.0+rocm7.1") is INTERFACES[3, 6]
    assert interface_of("3.12.0") is INTERFACES[3, 9]


def test_flags_of_a_descriptor() -> None:
    descriptor = SimpleNamespace(padding="nan")
    assert value_of_flag(descriptor, "padding") is True
    assert value_of_flag(descriptor, "round_f32_to_tf32") is False  # which an older descriptor lacks
