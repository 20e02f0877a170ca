"""The distributed problems' baselines, as submissions, on two and four emulated ranks."""

import json
from pathlib import Path

import pytest

from tests.support.evaltools import generate, run_command


@pytest.mark.parametrize("problem", ["amd-all2all", "amd-gemm-rs", "amd-ag-gemm"])
def test_a_baseline_passes_and_is_as_accurate_as_its_dtype(tmp_path: Path, problem: str) -> None:
    generate(problem, "baseline", tmp_path)
    options = ["--device", "gfx942", "--cases", "smoke", "--seed", "77", "--json", "out.json"]
    done = run_command("test", problem, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for case in json.loads((tmp_path / "out.json").read_text())["cases"]:
        assert case["accuracy"]["rel_l2"] < 4e-3, case  # these checks pass errors that are as large as the values


def test_a_baseline_names_what_it_cannot_divide(tmp_path: Path) -> None:
    generate("amd-all2all", "baseline", tmp_path)
    case = "num_experts: 9, experts_per_token: 2, hidden_dim: 64, max_num_tokens: 4, seed: 1, world_size: 2"
    done = run_command("test", "amd-all2all", "--device", "gfx942", "--case", case, cwd=tmp_path)
    assert done.returncode == 1 and "experts must spread evenly over ranks, got 9 over 2" in done.stdout


@pytest.mark.parametrize("problem", ["amd-gemm-rs", "amd-ag-gemm"])
def test_the_symmetric_memory_variant_says_what_it_needs(tmp_path: Path, problem: str) -> None:
    generate(problem, "symm_mem", tmp_path)
    case = "world_size: 2, m: 8, n: 8, k: 8, has_bias: true, seed: 1"
    done = run_command("test", problem, "--device", "gfx942", "--case", case, cwd=tmp_path)
    assert done.returncode == 1
    assert "need a CUDA build of torch: take the variant 'baseline' instead" in done.stdout
