"""Which file of kernels/<stem>/ is a problem's variant: by its name and by the GPU in it. One line where that fails."""

from pathlib import Path

import pytest

from forge.generate.archs import name_and_arch
from forge.generate.pysource import GenerationError
from forge.generate.render import generate, variants_of
from forge.task.problem import ProblemEntry
from tests.support.toy_check import write_files

KERNEL = "def custom_kernel(data): return data\n"


def entry(root: Path, *files: str, variant: str | None = "triton") -> ProblemEntry:
    """A problem on gfx942 whose folder, or that of another GPU, holds these files."""
    write_files(root, {name if "/" in name else f"kernels/toy/{name}": KERNEL for name in files})
    return ProblemEntry("toy-problem", "toy", root, ("MI300",), "gfx942", None, variant)


def refused(problem: ProblemEntry, name: str | None = None, also: str | None = None) -> str:
    with pytest.raises(GenerationError) as error:
        generate(problem, name, problem.directory, also)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("path", "name", "arch"),
    [
        ("kernels/fp8_mm/triton_gfx942.py", "triton", "gfx942"),
        ("kernels/fp8_mm/hip_gfx942.hip", "hip", "gfx942"),
        ("kernels/fp8_mm/triton_gfx90a.py", "triton", "gfx90a"),
        ("kernels/fp8_mm/triton_gfx942_tuning.py", "triton", "gfx942"),
        ("kernels/fp8_mm/hip_gfx942_tuning.h", "hip", "gfx942"),
        ("kernels/gemm_rs/symm_mem.py", "symm_mem", None),
        ("lab/hopper/gemm_rs/triton.py", "triton", "sm_90"),
        ("lab/hopper/common/peer_signals.h", "peer_signals", "sm_90"),
        ("kernels/common/gfx942.h", "gfx942", None),
    ],
)
def test_the_grammar_of_names(path: str, name: str, arch: str | None) -> None:
    assert name_and_arch(path) == (name, arch)


def test_the_problems_gpu_picks_the_file(tmp_path: Path) -> None:
    files = ("triton_gfx942.py", "triton_gfx942_tuning.py", "triton_gfx950.py", "baseline.py", "_notes.py", "hip.hip")
    problem = entry(tmp_path, *files, "lab/hopper/toy/triton.py")
    found = {name: variant.path for name, variant in variants_of(problem, tmp_path).items()}
    assert found == {
        "baseline": "kernels/toy/baseline.py",
        "triton": "kernels/toy/triton_gfx942.py",
        "hip": "kernels/toy/hip.hip",
    }


@pytest.mark.parametrize(
    ("first", "second"), [("triton_gfx942.hip", "triton_gfx942.py"), ("triton.py", "triton_gfx942.py")]
)
def test_two_files_that_claim_one_gpu(tmp_path: Path, first: str, second: str) -> None:
    message = refused(entry(tmp_path, first, second))
    assert f"kernels/toy/{first}" in message and f"kernels/toy/{second}" in message
    assert "are both the variant 'triton' for gfx942: rename one" in message


def test_a_variant_for_a_gpu_that_the_problem_does_not_run_on(tmp_path: Path) -> None:
    problem = entry(tmp_path, "triton_gfx950.py", "baseline.py")
    said = "toy-problem runs on gfx942, and its variant 'triton' is for gfx950 (kernels/toy/triton_gfx950.py): "
    assert refused(problem, "triton") == refused(problem) == said + "write kernels/toy/triton_gfx942.py"
    assert refused(problem, "hip") == "toy-problem has no variant 'hip'; it has: baseline"
    assert "holds no variant for gfx942" in refused(entry(tmp_path / "empty", "fast_gfx950.py"), "slow")


def test_also(tmp_path: Path) -> None:
    problem = entry(tmp_path, "triton_gfx942.py", "baseline.py", "lab/hopper/toy/other.py")
    said = "--also sm_80: there is nothing for it beside the problem's own GPU: leave it out, or take sm_90"
    assert refused(problem, "triton", "sm_80") == said
    assert refused(problem, "triton", "sm_90") == (
        "--also sm_90: toy-problem has no lab/hopper/toy/triton.py: its variant 'triton' is for AMD alone"
    )
    assert generate(problem, "baseline", tmp_path, "sm_90").text == generate(problem, "baseline", tmp_path).text
