"""A planted fault of each kind that the checks look for, in HIP and in Triton: found, and named with kernel and line.

What Triton's language cannot say (registers, waits, LDS, barriers) its inline assembly can.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from torch.overrides import TorchFunctionMode

import cdna
from cdna.launch import tensors
from cdna.launch.tensors import memory_of
from tests.support.hip_programs import PROGRAMS, run, run_built

PLANTED = PROGRAMS / "planted.hip"


# --- HIP ---------------------------------------------------------------------------------------------


def planted(name: str, checks: str) -> subprocess.CompletedProcess[str]:
    return run_built(PLANTED, name, CDNA_CHECKS=checks)


FOUND = {  # kernel: the check that finds it, and what it says
    "out_of_bounds": ("bounds", "writes 4 bytes at .* 0 bytes past the end of the 512 bytes of hipMalloc"),
    "row_past_the_end": ("bounds", "writes 4 bytes at .* 0 bytes past the end of the 512 bytes of hipMalloc"),
    "use_after_free": ("bounds", "writes 4 bytes at .* in the 512 bytes of hipMalloc .*which has been freed"),
    "unwritten_register": ("uninitialised", "stores what was computed from v60, which no instruction has written"),
    "unwritten_lds": ("uninitialised", "reads LDS byte 20, which nothing has written"),
    "unwritten_global": ("unwritten", "reads 4 bytes at offset 0 of the 512 bytes of hipMalloc"),
    "misaligned_lds": ("alignment", "LDS atomic of 4 bytes at byte 2, which is not a multiple of 4"),
    "lds_race": ("race", "writes LDS byte .* which wave 0 has read, with no barrier between the two"),
    # Workgroups run on several threads: either may be the one that wrote first.
    "workgroup_race": ("race", "writes another value to 4 bytes .* which workgroup [01] .* in the same launch"),
    "variable_out_of_bounds": ("bounds", "writes 4 bytes at .* 0 bytes past the end of the variable variable"),
    "variable_overflow": ("bounds", "writes 4 bytes at .* 0 bytes past the end of the variable (left|right)_variable"),
    "constant_written": ("bounds", "writes 4 bytes of the variable constant_variable, which is __constant__"),
    "variable_race": ("race", "writes another value to 4 bytes of the variable shared_variable .* workgroup [01] "),
    "streams_race": (
        "race",
        r"reads 4 bytes of the 512 bytes .* at offset \d+, which fill\(int\*\) has written on another stream",
    ),
    "memset_race": (
        "race",
        "reads 4 bytes of .* which a copy, a fill or an earlier kernel has written on another stream",
    ),
    "upload_race": (
        "race",
        "reads 4 bytes of .* which a copy, a fill or an earlier kernel has written on another stream",
    ),
    "writers_race": (
        "race",
        r"writes other values to 4 bytes of the 512 .* which writers_race\(int\*, int\) has written on another stream",
    ),
    "reader_race": (
        "race",
        r"writes other values to 4 bytes of the 512 .* which streams_race\(int\*, int const\*\) has read on another",
    ),
    "branches_race": (
        "race",
        r"reads 4 bytes of .* which fill\(int\*\) has written in another branch of a graph, and no edge",
    ),
    "late_branch": (
        "race",
        r"reads 4 bytes of .* which fill\(int\*\) has written in another branch of a graph, and no edge",
    ),
    "branches_write": (
        "race",
        r"writes other values .* branches_write\(int\*, int\) has written in another branch of a graph",
    ),
    "branch_overwrites": (
        "race",
        r"writes other values .* branches_race\(int\*, int const\*\) has read in another branch of a graph",
    ),
    "lanes_disagree": (
        "race",
        "lanes 0 and 1 store different values to the same 4 bytes, at offset 0 of the 512 bytes",
    ),
    "before_vmcnt": ("wait", r"is read before the wait for it: `global_load_dword .* needs s_waitcnt vmcnt\(0\)"),
    "before_lgkmcnt": ("wait", r"is read before the wait for it: `ds_read_b32 .* needs s_waitcnt lgkmcnt\(0\)"),
    "matrix_hazard": (
        "hazard",
        r"reads the result of `v_mfma_f32_16x16x16_f16 .* after 0 wait states; the hardware needs 7 \(s_nop 6 between",
    ),
    "divergent_barrier": ("barrier", "wave 0 waits at .* while wave 1 waits at .* they pass 2 and 1 barriers"),
    "deadlock": (
        "deadlock",
        "nothing can make progress any more; workgroup 0 wave 0 and 1 more polls .* byte 0 of the 512 bytes",
    ),
    "deadlock_in_graph": ("deadlock", "nothing can make progress any more; workgroup 0 wave 0 and 1 more polls"),
}


@pytest.mark.parametrize("name", FOUND)
def test_hip(name: str) -> None:
    kind, says = FOUND[name]
    # Races are what other checks stop at first: a partner's value may not have been written yet.
    done = planted(name, kind if kind == "race" else "all")
    assert done.returncode == 1 and done.stdout == "hipErrorLaunchFailure\n", done.stdout + done.stderr
    first, place = done.stderr.splitlines()[:2]
    assert re.match(rf"cdna: {name}\(.*\) on gfx942: {kind}: .*{says}", first), done.stderr
    line = int(re.findall(r"planted\.hip:(\d+)", place)[-1])
    kernel_line = next(i for i, text in enumerate(PLANTED.read_text().splitlines(), 1) if f" {name}(" in text)
    assert kernel_line <= line <= kernel_line + 9


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("misaligned_global", r"misaligned_global\(int\*\) on gfx942: lane 0: atomic at misaligned address"),
        (
            "lds_over_limit",
            r"lds_over_limit\(int\*\): refused: it needs 204800 bytes of LDS, gfx942 has 65536 for a workgroup",
        ),
        (
            "registers_over_limit",
            r"registers_over_limit\(int\*\): refused: a workgroup of 1024 work-items; this kernel is compiled "
            r"for 1 to 256",
        ),
    ],
)
def test_hip_refuses(name: str, says: str) -> None:
    """What the card refuses too is an error without any checks."""
    done = planted(name, "none")
    assert done.returncode == 1 and re.search(says, done.stderr), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "int i = 0; while (true) i++; x[0] = i;",
            r"k(\(int\*\))?: refused: it has no code: the compiler removed its body",
        ),
        (
            'asm volatile("s_nop 0"); __builtin_unreachable();',
            r"k(\(int\*\))? on gfx942: ran past the end of its code: .*\n  at the end of the code, workgroup",
        ),
        (  # it wrote behind its counts of instructions
            'asm volatile("s_branch .Lfunc_end0"); x[0] = 1;',
            r"k(\(int\*\))? on gfx942: ran past the end of its code: .*\n  at the end of the code, workgroup",
        ),
    ],
)
def test_code_without_an_end_is_named(tmp_path: Path, body: str, says: str) -> None:
    source = tmp_path / "k.hip"
    source.write_text(
        "#include <hip/hip_runtime.h>\n"
        f'extern "C" __global__ void k(int* x) {{ {body} }}\n'
        "int main() { int* x; hipMalloc(&x, 64); k<<<1, 64>>>(x);\n"
        "  return hipGetLastError() != hipSuccess || hipDeviceSynchronize() != hipSuccess; }\n"
    )
    done = run(source)
    assert done.returncode == 1 and re.search(says, done.stderr), done.stderr


def test_a_variable_among_the_host_s_memory_is_found(tmp_path: Path) -> None:
    source = tmp_path / "k.hip"
    source.write_text(
        """#include <hip/hip_runtime.h>
        #include <stdlib.h>
        #define FOUR(x) x x x x
        __device__ int total[64];
        __global__ void k(int* x) {
          total[threadIdx.x] = blockIdx.x + 1;
          asm volatile(FOUR(FOUR(FOUR(FOUR(FOUR("v_mov_b32 v1, v1\\n"))))) : : : "v1");
        }
        int main() {
          void *small[256], *behind = nullptr;  // so that what is small lies before what is large
          for (int i = 0; i < 256; i++) small[i] = malloc(8 + 16 * (i % 8));
          for (int i = 0; i < 300; i++) behind = malloc(1 << 10);
          for (void* p : small) free(p);
          int* x;
          (void)hipMalloc(&x, 256);
          k<<<2, 64>>>(x);
          return hipDeviceSynchronize() != hipSuccess || !behind;
        }"""
    )
    done = run(source, CDNA_CHECKS="race")
    assert done.returncode == 1 and "race: writes another value to 4 bytes of the variable total" in done.stderr


@pytest.mark.parametrize(
    "name",
    (
        "variables_within streams_in_order memset_in_order upload_in_order branches_in_order "
        "late_branch_in_order cleared_in_order graph_in_order"
    ).split(),
)
def test_correct_neighbours_are_no_finding(name: str) -> None:
    done = planted(name, "all")
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "does"), [("copy_race", "reads"), ("overwritten_race", "writes over")])
def test_a_copy_beside_the_kernel_that_writes_is_found(name: str, does: str) -> None:
    done = planted(name, "race")
    assert done.returncode == 1 and done.stdout == "hipErrorLaunchFailure\n", done.stdout + done.stderr
    assert f"a copy {does} what fill(int*) has written on another stream" in done.stderr


def test_each_kind_of_access_to_what_another_stream_writes() -> None:
    """By plain, narrow, volatile and streaming stores and atomics; read by lanes, scalars, straight to LDS; copied."""
    program = PROGRAMS / "stream_kinds.hip"
    found, silent = run_built(program, CDNA_CHECKS="report:race").stderr.split("SILENT\n")
    pairs = {text.partition("\n")[0]: text.count("on another stream") for text in found.split("PAIR ")[1:]}
    assert len(pairs) > 50 and all(pairs.values()), pairs
    assert silent.count("PAIR ") == 5 and "race" not in silent, silent
    ordered = run_built(program, "ordered", CDNA_CHECKS="report:race").stderr
    assert ordered.count("PAIR ") == len(pairs) + 5 and "race" not in ordered, ordered


def test_a_fill_in_a_branch_beside_the_kernel_that_reads_is_found() -> None:
    done = planted("branch_clears", "race")
    assert done.returncode == 1 and done.stdout == "hipErrorLaunchFailure\n", done.stdout + done.stderr
    assert "race: a fill writes over what branches_race(int*, int const*) has read in another branch" in done.stderr


@pytest.mark.parametrize("name", ["late_thread", "late_host_function", "late_graph"])
def test_waiting_for_the_host_is_no_deadlock(name: str) -> None:
    done = planted(name, "all")
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr


# --- Triton ------------------------------------------------------------------------------------------


def above_4_gib(n: int) -> torch.Tensor:
    """Of so much memory that glibc maps it: an address in a heap below 4 GiB would be an i32 to Triton."""
    return torch.empty(9 << 20, dtype=torch.int64).view(torch.int32)[:n].copy_(torch.arange(n))


@triton.jit
def _copy_from_address(address, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(address.to(tl.pointer_type(tl.int32)) + i))


@triton.jit
def _copy(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i))


class _OnlyAPointer:
    """As packages wrap tensors for Triton, with a storage that is none."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor, self.dtype = tensor, tensor.dtype

    def data_ptr(self) -> int:
        return self.tensor.data_ptr()

    def untyped_storage(self) -> _OnlyAPointer:
        return self


class _NothingOfTorch(TorchFunctionMode):
    """As a package has it that puts its own kernels in place of torch's operations."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        assert function.__name__.strip("_") not in ("ge", "and", "any", "getitem"), "the launch itself asks torch"
        return function(*args, **(kwargs or {}))


def test_triton_arguments_of_other_packages() -> None:
    """Of FlagGems' tests 39 failed in the checks' own look at the arguments."""
    x, out = torch.arange(64), torch.zeros(64, dtype=torch.int64)
    with cdna.device("gfx942", checks="all"):
        _copy[(1,)](_OnlyAPointer(x), out, B=64)
        assert torch.equal(out, x)
        with _NothingOfTorch():
            _copy[(1,)](out, x, B=64)


def test_triton_large_integers_are_no_addresses() -> None:
    """Where the process has no memory. Else an access outside of all tensors might be what the kernel means."""
    x, number = torch.tensor([7, 5 << 36]), 5 << 36
    assert not memory_of([("x", x, "*i64"), ("n", number, "i64")]).open
    assert memory_of([("x", torch.tensor([7, x.data_ptr()]), "*i64")]).open
    assert memory_of([("n", x.data_ptr(), "i64")]).open


@pytest.fixture
def maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In place of the process's own."""
    monkeypatch.setattr(tensors, "MAPS", str(tmp_path / "maps"))
    tensors.lowest_data.cache_clear()
    yield tmp_path / "maps"
    tensors.lowest_data.cache_clear()


CODE = "0041f000-006d2000 r-xp 0001f000 fe:00 260811                             /usr/bin/python3.11\n"
HEAP = "18ddd000-18e84000 rw-p 00000000 00:00 0                          [heap]\n"
HIGH = "7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n"


def test_triton_addresses_in_a_heap_below_4_gib(maps: Path) -> None:
    """Debian's interpreter is not position independent: small tensors lie there, and numbers may."""
    maps.write_text(CODE + HEAP + HIGH)
    found = [memory_of([("n", n, "i64")]).open for n in (0x18DDD010, 0x7F0000000010, 0x420000, 0x18E84000, 7)]
    assert found == [True, True, False, False, False]


def test_triton_addresses_in_memory_that_comes_to_lie_lower(maps: Path) -> None:
    for text, is_open in ((HIGH, False), (f"200000000-200001000 rw-p 00000000 00:00 0\n{HIGH}", True)):
        maps.write_text(text)
        assert memory_of([("n", 0x200000010, "i64")]).open is is_open


def test_triton_addresses_are_told_from_numbers() -> None:
    x, out = above_4_gib(64), torch.zeros(64, dtype=torch.int32)
    with cdna.device("gfx942", checks="all"):
        _copy_from_address[(1,)](x.data_ptr(), out, B=64)
    assert torch.equal(out, x)


@triton.jit
def _rows_touched(x, stride, B: tl.constexpr):
    tl.store(x + tl.program_id(0) * stride + tl.arange(0, B), tl.full((B,), 1, x.dtype.element_ty))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16])
def test_triton_an_offset_of_32_bits_overflows(dtype: torch.dtype) -> None:
    x = torch.empty(2**31 + 64, dtype=dtype)  # takes what is written
    with cdna.device("gfx942", checks="bounds"), pytest.raises(cdna.CheckError) as caught:
        _rows_touched[(3,)](x, 2**30, B=64)
    below = f"and 2^32 elements of {dtype.itemsize} bytes below a place in it: a 32-bit offset overflowed"
    assert f"of `x` (i{8 * dtype.itemsize}[2147483712]), {below}" in caught.value.finding.message


def test_triton_what_lies_before_a_tensor_is_no_overflow() -> None:
    x = torch.empty(64, dtype=torch.int8)
    with cdna.device("gfx942", checks="bounds"), pytest.raises(cdna.CheckError) as caught:
        _rows_touched[(2,)](x, -(2**30), B=64)
    assert "overflowed" not in caught.value.finding.message


@triton.jit
def _first_programs_only(x):
    if tl.program_id(0) + tl.program_id(1) + tl.program_id(2) == 0:
        tl.store(x, 1)


@pytest.mark.parametrize(
    ("grid", "says"),
    [
        ((1, 65537, 1), "1 x 65537 x 1 programs: HIP takes 65536 along y at most"),
        ((1, 1, 65537), "1 x 1 x 65537 programs: HIP takes 65536 along z at most"),
        ((1 << 24, 1, 1), "16777216 x 1 x 1 programs of 256 work-items: .* along x at most, 16777215 such programs"),
    ],
)
def test_triton_grid_over_the_limit(grid: tuple[int, int, int], says: str) -> None:
    x = torch.zeros(1, dtype=torch.int32)
    with cdna.device("gfx942"):
        with pytest.raises(cdna.LaunchError, match=says):
            _first_programs_only[grid](x, num_warps=4)
        assert x.item() == 0
        _first_programs_only[tuple(min(n, 65536 // 16) for n in grid)](x, num_warps=4)
    assert x.item() == 1
