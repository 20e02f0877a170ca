"""--check: every configuration a submission can choose is compiled for the problem's GPU, without one."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from forge.device.resources import waves_per_simd
from tests.support.toy_check import Checked, check_toy, check_toy_alone, tasks, write_files

pytestmark = pytest.mark.long

TASK = """
files: [{name: submission.py, source: "@SUBMISSION@"}, {name: reference.py, source: reference.py}]
lang: py
tests: [{m: 64, n: 64, seed: 1}, {m: 64, n: 65, seed: 1}]
benchmarks: [{m: 128, n: 64, seed: 1}]
"""
REFERENCE = """
import torch
def generate_input(m, n, seed):
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    return torch.randn((m, n), device="cuda", dtype=torch.bfloat16, generator=gen)
"""
KERNEL = """
import torch
import triton
import triton.language as tl
from kernels.toy.plain_tuning import DEFAULT, TUNING


@triton.jit
def square(x, y, ROWS: tl.constexpr):
    i = tl.arange(0, ROWS)[:, None] * 64 + tl.arange(0, 64)[None, :]
    a = tl.load(x + i)
    tl.store(y + i, tl.dot(a, tl.trans(a)) if ROWS == 64 else a)


@triton.autotune(
    configs=[triton.Config({"BLOCK": 256}, num_warps=2), triton.Config({"BLOCK": 512})], key=["n"])
@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


def custom_kernel(data):
    m, n = data.shape
    y = torch.empty((m, n), device=data.device, dtype=torch.float32)
    torch.cuda.synchronize()
    assert torch.cuda.get_device_properties(0).multi_processor_count > 0
    row = TUNING.get((m, n), DEFAULT)
    square[(1,)](data, y, ROWS=row["ROWS"], num_warps=row["warps"])
    double[lambda meta: (triton.cdiv(m * n, meta["BLOCK"]),)](y, m * n)
    return y
"""
TUNING = """
DEFAULT = {"ROWS": 32, "warps": 4}
TUNING = {
    (64, 64): {"ROWS": 64, "warps": 4},
    (128, 64): {"ROWS": 128, "warps": 4},
    (9, 9): {"ROWS": 16, "warps": 1},
}
"""

Check = Callable[..., Checked]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Triton's cache, empty at first: most tests check the same kernels with other host code."""
    return tmp_path_factory.mktemp("triton")


@pytest.fixture
def check(tmp_path: Path, compiled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Exit code, lines of the table and error output of checking the toy problem's kernel. alone: as users start it."""

    def checked(
        kernel: str = KERNEL,
        arch: str = "gfx942",
        reference: str = REFERENCE,
        task: str = TASK,
        gpus: str = "MI300",
        tuning: str = TUNING,
        alone: bool = False,
    ) -> Checked:
        files = {"task.yml": tasks(gpus, arch), "reference/toy/task.yml": task, "reference/toy/reference.py": reference}
        write_files(tmp_path, files | {"kernels/toy/plain.py": kernel, "kernels/toy/plain_tuning.py": tuning})
        if not alone:
            return check_toy(tmp_path, TRITON_CACHE_DIR=str(compiled))
        monkeypatch.setenv("TRITON_CACHE_DIR", str(compiled))
        return check_toy_alone(tmp_path, capsys)

    return checked


def test_every_row_the_default_and_every_autotuned_configuration(check: Check) -> None:
    code, lines, errors = check(alone=True)
    assert (code, errors) == (0, "")
    square = {re.search(r"ROWS=(\d+)", line)[1]: line for line in lines if line.startswith("square")}  # type: ignore[index]
    assert set(square) == {"16", "32", "64", "128"}  # 16: a row no case chooses; 32: DEFAULT, which test 1 takes
    assert "row (9, 9), tried on test 0" in square["16"] and "warps=1" in square["16"]
    assert "test 1" in square["32"] and "benchmark 0" in square["128"] and "test 0" in square["64"]
    columns = re.split(r"\s{2,}", square["64"])
    assert int(columns[9]) > 0 and int(columns[2]) > 0, f"matrix instructions and registers in {columns}"
    assert re.split(r"\s{2,}", square["32"])[9] == "0"
    double = [line for line in lines if line.startswith("double")]
    assert any("BLOCK=256" in line and "warps=2" in line for line in double) and any(
        "BLOCK=512" in line for line in double
    )
    assert not [line for line in lines if line.startswith("spills")]
    again = check(alone=True)[1]  # as before: what a prepared process inherits may make other keys
    assert not [line for line in again if line.startswith(("square", "double")) and " cached " not in line]
    assert [line.split()[:8] for line in again] == [line.split()[:8] for line in lines]


def test_rows_of_this_arch_though_the_variant_remembers_its_choice(check: Check) -> None:
    kernel = KERNEL.replace("def custom_kernel", "_plans: dict = {}\n\n\ndef custom_kernel").replace(
        "row = TUNING.get((m, n), DEFAULT)", 'row = _plans.setdefault((m, n), TUNING.get(("gfx942", m, n), DEFAULT))'
    )
    foreign = '    ("sm_90", 7, 7): {"ROWS": 3, "warps": 1},\n}\n'
    tuning = TUNING.replace("    (", '    ("gfx942", ').replace("\n}\n", "\n" + foreign)
    code, lines, errors = check(kernel, tuning=tuning)
    assert (code, errors) == (0, "")
    found = {re.search(r"ROWS=(\d+)", line)[1]: line for line in lines if line.startswith("square")}  # type: ignore[index]
    assert set(found) == {"16", "32", "64", "128"}, "3 is another arch's"
    assert "row ('gfx942', 9, 9), tried on test 0" in found["16"]


def test_a_row_that_host_code_only_looks_for(check: Check) -> None:
    """`in` is a look-up too: the default is then known to be some case's, and not tried again as a row of its own."""
    kernel = KERNEL.replace("TUNING.get((m, n), DEFAULT)", "TUNING[m, n] if (m, n) in TUNING else DEFAULT")
    code, lines, errors = check(kernel)
    assert (code, errors) == (0, "")
    (line,) = [line for line in lines if line.startswith("square") and "ROWS=32" in line]
    assert line.endswith("  test 1"), line


def test_what_does_not_compile_or_fit_is_an_error(check: Check) -> None:
    kernel = KERNEL.replace("tl.dot(a, tl.trans(a)) if ROWS == 64 else a", "helper(a, ROWS)").replace(
        "@triton.jit\ndef square",
        "@triton.jit\ndef helper(a, ROWS: tl.constexpr):\n    if ROWS == 128:\n"
        "        return a + absent\n    return a\n\n\n@triton.jit\ndef never(x):\n    tl.store(x, 1)\n\n\n"
        "def unused(x):\n    never[(1,)](x)\n\n\n@triton.jit\ndef square",
    )
    code, lines, errors = check(kernel)
    assert code == 1
    assert errors.splitlines() == [
        "gen_submission.py: square does not compile for gfx942 (benchmark 0): "
        "CompilationError: NameError('absent is not defined') in \"return a + absent\""
    ]
    assert any("ROWS=64" in line for line in lines), "the others are compiled all the same"
    assert "note: never is launched by no case and no row of the table: not compiled" in lines


def test_lds_beyond_the_gpus(check: Check) -> None:
    """A dot of two 128 KiB operands, in one of the rows."""
    kernel = KERNEL.replace("tl.dot(a, tl.trans(a)) if", "wide(x) if").replace(
        "@triton.jit\ndef square",
        "@triton.jit\ndef wide(x):\n    i, k = tl.arange(0, 64), tl.arange(0, 1024)\n"
        "    a = tl.load(x + i[:, None] * 1024 + k[None, :])\n"
        "    return tl.dot(a, tl.load(x + k[:, None] * 64 + i[None, :]))\n\n\n@triton.jit\ndef square",
    )
    code, lines, errors = check(kernel)
    assert code == 1 and re.search(r"takes \d+ bytes of LDS a workgroup; gfx942 has 65536", errors), errors
    assert errors.count("\n") == 1 and any("ROWS=128" in line for line in lines)


@pytest.mark.parametrize(
    ("line", "expected", "words"),
    [
        ("import os; os._exit(7)", 2, "exit code 7"),
        ("raise ValueError('early')", 1, "cannot be imported: ValueError: early (submission.py:"),
    ],
)
def test_a_submission_that_cannot_be_loaded(check: Check, line: str, expected: int, words: str) -> None:
    code, _, errors = check(KERNEL + f"\n\nif True:\n    {line}\n")
    assert code == expected and words in errors


def test_torchs_compiler_is_there_for_host_code_that_wants_it(check: Check) -> None:
    wants = "    from torch._dynamo.utils import counters\n    assert torch._dynamo.utils.counters is counters\n"
    wants += "    assert torch._dynamo.config.cache_size_limit and not torch._dynamo.is_compiling()\n"
    code, lines, errors = check(KERNEL.replace("    row = ", wants + "    row = "))
    assert (code, errors) == (0, "") and any("ROWS=64" in line for line in lines)


def test_host_code_may_pin_memory(check: Check) -> None:
    line = "    torch.empty(4, pin_memory=True)\n    torch.ones(2).pin_memory().to(data.device, non_blocking=True)\n"
    kernel = KERNEL.replace("    torch.cuda.synchronize()\n", line)
    assert kernel != KERNEL
    code, _, errors = check(kernel)
    assert code == 0, errors


def test_host_code_that_reads_data_is_followed_on_real_tensors(check: Check) -> None:
    kernel = KERNEL.replace("    row = ", "    if data.abs().max().item() < 0:\n        raise ValueError\n    row = ")
    code, lines, errors = check(kernel)
    assert (code, errors) == (0, "")
    assert {"test 0", "test 1", "benchmark 0"} <= set(re.findall(r"(?:test|benchmark) \d", "\n".join(lines)))


def test_an_error_of_host_code_names_its_cases_and_line(check: Check) -> None:
    kernel = KERNEL.replace(
        "    return y\n", "    if n == 65:\n        raise ValueError('no odd widths')\n    return y\n"
    )
    code, _, errors = check(kernel)
    assert code == 1
    assert re.fullmatch(r"gen_submission\.py: ValueError: no odd widths \(submission\.py:\d+\) \(test 1\)\n", errors)


def test_a_distributed_problem_as_rank_0_sees_it(check: Check) -> None:
    reference = REFERENCE.replace("(m, n, seed)", "(m, n, seed, rank, world_size)").replace(
        "    return", "    m += 0 * torch.randint(1, 9, [1], device='cuda').item()\n    assert rank == 0\n    return"
    )
    kernel = (
        KERNEL.replace("import torch\n", "import torch\nimport torch.distributed as dist\n")
        .replace(
            "    y = ",
            "    everyone = data.new_empty((m * dist.get_world_size(), n))\n"
            "    dist.all_gather_into_tensor(everyone, data)\n    dist.barrier()\n    y = ",
        )
        .replace("double[lambda", "square[(1,)](everyone, y, ROWS=256)\n    double[lambda")
    )
    task = TASK.replace("seed: 1", "world_size: 8, seed: 1")
    code, lines, errors = check(kernel, reference=reference, task=task, gpus="MI300x8")
    assert (code, errors) == (0, "")
    assert any("ROWS=256" in line for line in lines)


def test_gfx950_has_more_lds(check: Check) -> None:
    code, lines, errors = check(arch="gfx950")
    assert (code, errors) == (0, "") and lines[0].startswith("compiled for gfx950")


@pytest.mark.parametrize(
    ("vgprs", "sgprs", "waves"),
    [
        (64, 80, 8),
        (65, 80, 7),
        (72, 80, 7),
        (128, 102, 4),
        (129, 80, 3),
        (256, 80, 2),
        (257, 80, 1),
        (512, 80, 1),
        (8, 106, 7),
    ],
)
def test_waves_that_registers_allow(vgprs: int, sgprs: int, waves: int) -> None:
    assert waves_per_simd("gfx942", vgprs, sgprs, lds_bytes=0, waves_per_workgroup=1) == waves


@pytest.mark.parametrize(
    ("arch", "vgprs", "lds_bytes", "warps", "waves"),
    [
        ("gfx942", 128, 0, 4, 4),
        ("gfx942", 128, 32768, 4, 2),
        ("gfx942", 128, 32769, 4, 1),
        ("gfx942", 128, 65536, 8, 2),
        ("gfx942", 256, 0, 16, 0),
        ("gfx942", 128, 65537, 4, 0),
        ("gfx950", 128, 65536, 4, 2),
        ("gfx950", 64, 81920, 2, 1),
        ("gfx942", 512, 65536, 1, 0.25),
    ],
)
def test_waves_that_lds_allows(arch: str, vgprs: int, lds_bytes: int, warps: int, waves: float) -> None:
    assert waves_per_simd(arch, vgprs, 80, lds_bytes, warps) == waves
