"""The symmetric heap and the signals between ranks, on emulated GPUs: heap_ranks.py has what the ranks do."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from cdna.hip.compile.build import build
from cdna.hip.compile.source import HipSource
from forge.device import resolve
from kernels.common.symmetric_heap import HeapError, creation_timeout_s, heap_timeout_s
from tests.support.limits import ENDS_S
from tests.support.prepared import run_prepared

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "lab" / "heap_kernels.hip"


def ranks(count: int, part: str, **more: str) -> str:
    """What the ranks wrote to standard error."""
    words = ["tests/support/emulated/heap_ranks.py", str(count), part]
    done = run_prepared(*words, environment={"POPCORN_GPUS": str(count), **more})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


def checked_ranks(count: int, part: str) -> None:
    """As `ranks`, with all checks on: a race or a wait that is missing is an error."""
    environment = {**os.environ, **resolve("gfx942", "gfx942").environment()}
    environment.update(CDNA_CHECKS="all", POPCORN_GPUS=str(count))
    command = [sys.executable, "tests/support/emulated/heap_ranks.py", str(count), part]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=ENDS_S)
    assert done.returncode == 0, done.stdout + done.stderr


def test_back_to_back_exchanges_with_late_ranks() -> None:
    ranks(3, "exchange")


@pytest.fixture(scope="module")
def hip_kernels() -> tuple[str, str]:
    """The shared library of heap_kernels.hip, and its assembly."""
    library = build([HipSource(KERNELS, "gfx942")], shared=True)
    return str(library.path), library.device_code[0].assembly.read_text()


def test_hip_and_triton_agree_on_the_barrier(hip_kernels: tuple[str, str]) -> None:
    shared, assembly = hip_kernels
    ranks(2, "hip", HEAP_KERNELS=shared)
    release = assembly.index("buffer_wbl2 sc0 sc1")
    assert "s_waitcnt vmcnt(0)" in assembly[release : assembly.index("global_store_dword", release)]


def test_regions_and_groups_come_and_go() -> None:
    checked_ranks(2, "rounds")


def test_a_rank_that_cannot_is_named_on_every_rank() -> None:
    ranks(2, "refusals", SYMMETRIC_HEAP_CREATION_S="2")


def test_a_rank_that_never_comes_is_named_by_those_that_wait(hip_kernels: tuple[str, str]) -> None:
    """By the kernel's error and the next call (heap_ranks.py); by what the kernel prints, for a card's runtime ends the
    process of a kernel that traps; and on standard error where no call follows."""
    environment = {"POPCORN_GPUS": "3", "SYMMETRIC_HEAP_TIMEOUT_S": "0.3", "HEAP_KERNELS": hip_kernels[0]}
    done = run_prepared("tests/support/emulated/heap_ranks.py", "3", "absent", environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    in_triton = "symmetric heap, assertion failed: this rank never came: 1"
    in_hip = "symmetric heap, assertion failed: rank 1 never came (wait 2, epoch 1)"
    assert done.stdout.count(in_triton) == done.stdout.count(in_hip) == 1, done.stdout
    assert done.stdout.count("symmetric heap") == 2, done.stdout
    told = [line for line in done.stderr.splitlines() if line.startswith("symmetric heap: ")]
    assert told == ["symmetric heap: rank 2 waited 0.3 s for rank 1 (wait 2, epoch 1): it never came"], done.stderr
    assert f" on gfx942: {in_hip}" in done.stderr and "cdna: barriers(" in done.stderr
    assert "peer_signals_gfx942.h:" in done.stderr, done.stderr


def test_a_store_beyond_a_region_is_found() -> None:
    ranks(2, "beyond")


def test_ctypes_finds_the_hip_runtime_under_its_name(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    for name in ("'libamdhip64.so.7'", "'/opt/rocm/lib/libamdhip64.so'", "find_library('amdhip64')"):
        script.write_text(
            textwrap.dedent(
                f"""
                import ctypes, torch
                from ctypes.util import find_library
                hip = ctypes.CDLL({name})
                count, p = ctypes.c_int(), ctypes.c_void_p()
                assert hip.hipGetDeviceCount(ctypes.byref(count)) == 0 and count.value == 2
                assert hip.hipMalloc(ctypes.byref(p), ctypes.c_size_t(4096)) == 0 and p.value
                assert "libamdhip64.so" in open("/proc/self/maps").read()
                """
            )
        )
        done = run_prepared(str(script), environment={"POPCORN_GPUS": "2"})
        assert done.returncode == 0, done.stderr


def test_no_group_and_a_dry_run(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            sys.path.insert(0, {str(ROOT)!r})
            import torch.distributed as dist
            from torch.testing._internal.distributed.fake_pg import FakeStore
            from kernels.common.symmetric_heap import symmetric_heap
            try:
                symmetric_heap()
            except RuntimeError as error:
                print(error)
            dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
            region = symmetric_heap().region("x", 4096)
            print(len(region.addresses), region.table.shape[0], region.next_epoch())
            """
        )
    )
    done = run_prepared(str(script))
    assert done.stdout == "no process group: torch.distributed.init_process_group comes first\n8 8 1\n", done.stderr


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf", "nan", ""])
@pytest.mark.parametrize("limit", [heap_timeout_s, creation_timeout_s])
def test_a_limit_that_is_none_is_refused_by_its_name(
    limit: Callable[[], float], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "SYMMETRIC_HEAP_TIMEOUT_S" if limit is heap_timeout_s else "SYMMETRIC_HEAP_CREATION_S"
    monkeypatch.setenv(variable, "0.5")
    assert limit() == 0.5
    monkeypatch.setenv(variable, text)
    with pytest.raises(HeapError, match=f"^.{variable} must be a number of seconds above 0, got '{text}'$"):
        limit()


@pytest.mark.parametrize("path", ["symmetric_heap.py", "peer_signals_gfx942.py", "symmetric_heap.h"])
def test_the_leaderboard_takes_the_sources(path: str) -> None:
    assert "stream" not in (ROOT / "kernels" / "common" / path).read_text().lower()
