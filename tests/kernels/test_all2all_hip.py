"""amd-all2all in HIP: its kernel executed for several ranks at once, and the generated submission's errors."""

import functools
import os
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from cdna.hip.compile.source import HipSource
from cdna.hip.run import build_program
from tests.support.evaltools import ROOT, generate, run_command
from tests.support.limits import ENDS_S
from tests.support.prepared import run_submission
from tests.support.refusals import assert_refused

FIELDS = (
    "ranks experts k dim tokens calls tagged groups batch senders to_one_expert jitter patience_s halves absent".split()
)
TOKENS_OF_PEER, SUMS_OF_PEER, EXPERT_IN_RANGE = 1, 2, 3


pytestmark = pytest.mark.usefixtures("hip_compiler")


@functools.cache
def program() -> Path:
    """all2all_ranks.hip, built once: loading its kernels takes longer than a case."""
    folders = tuple(ROOT / folder for folder in ("kernels/all2all", "kernels/common", "tests/support"))
    return build_program([HipSource(ROOT / "tests" / "support" / "all2all_ranks.hip", "gfx942", (), folders)])


def run(checks: str = "", order_seed: int | None = None, **case: int) -> subprocess.CompletedProcess[str]:
    """all2all_ranks.hip with this case; exit code 0 if every call's output was right."""
    usual = {"groups": 1, "batch": 1, "senders": 2, "to_one_expert": 0, "jitter": 40}
    numbers = {**usual, "patience_s": 60, "halves": 2, "absent": 0, **case}
    command = [str(program()), *(str(numbers[field]) for field in FIELDS)]
    # Where all only wait, two seconds of the device's pass in one of the host's: waits in vain end sooner.
    environment = {**os.environ, "CDNA_ARCH": "gfx942", "CDNA_CHECKS": checks, "CDNA_IDLE_CLOCK": "2"}
    if order_seed is not None:
        environment["CDNA_ORDER_SEED"] = str(order_seed)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=ENDS_S, env=environment)


NAMES = "ranks experts k dim tokens calls groups batch senders to_one_expert tagged".split()
# Both instances of each kernel: for a dim of 2880 and for any.
CASES = [
    (8, 64, 6, 2880, 5, 3, 8, 2, 2, 0, 0),
    (8, 64, 6, 2880, 5, 3, 8, 2, 2, 0, 1),
    (4, 16, 4, 1096, 7, 4, 6, 4, 1, 0, 0),  # a masked tail
    (2, 6, 3, 8, 2, 6, 2, 1, 8, 0, 1),  # hardly a row
    (3, 9, 9, 264, 9, 4, 3, 3, 2, 0, 0),  # a token for every expert
    (4, 16, 2, 72, 6, 4, 2, 1, 2, 13, 1),
    (1, 4, 2, 72, 6, 2, 2, 1, 2, 0, 0),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_without_a_finding(case: tuple[int, ...]) -> None:
    done = run(checks="all", **dict(zip(NAMES, case, strict=True)))
    assert done.returncode == 0 and "of the tolerance" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("tagged", [0, 1], ids=["flags", "tagged"])
def test_calls_follow_each_other_without_a_barrier(tagged: int) -> None:
    done = run(ranks=4, experts=16, k=4, dim=72, tokens=4, calls=1500, tagged=tagged, order_seed=7)
    assert done.returncode == 0 and "1500 calls" in done.stdout, done.stdout + done.stderr


def test_calls_that_share_their_buffers_are_caught() -> None:
    """What the test above is worth: without the two halves it fails."""
    done = run(ranks=4, experts=16, k=4, dim=72, tokens=4, calls=1500, tagged=0, halves=1, patience_s=2)
    assert done.returncode in (1, 3), done.stdout + done.stderr


@pytest.mark.parametrize("tagged", [0, 1], ids=["flags", "tagged"])
def test_a_rank_that_never_comes_is_named(tagged: int) -> None:
    # a wave for each of 12 waits
    case: dict[str, Any] = {"ranks": 3, "experts": 6, "k": 2, "dim": 72, "tokens": 4, "groups": 2}
    done = run(absent=1, patience_s=2, calls=1, tagged=tagged, jitter=0, **case)
    assert done.returncode == 3, done.stdout + done.stderr
    assert re.search(rf"gave up on rank 2, waiting for [{TOKENS_OF_PEER}{SUMS_OF_PEER}] in call 1", done.stdout)


@pytest.mark.parametrize("expert", [16, -1])
def test_an_expert_that_does_not_exist_is_told(expert: int) -> None:
    done = run(ranks=2, experts=16, k=2, dim=72, tokens=4, calls=4, tagged=0, to_one_expert=expert)
    assert done.returncode == 3, done.stdout + done.stderr
    assert re.search(rf"gave up on rank -1, waiting for {EXPERT_IN_RANGE} in call", done.stdout)


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("all2all")
    return generate("amd-all2all", "hip", folder, "--also", "sm_90")  # as lab/distributed.py: compiled once


def test_a_shape_that_the_submission_takes(submission: Path) -> None:
    case = "num_experts: 8, experts_per_token: 2, hidden_dim: 72, max_num_tokens: 4, seed: 1, world_size: 2"
    options = ["--device", "gfx942", "--submission", str(submission), "--case", case]
    done = run_command("test", "amd-all2all", *options, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_submission_refuses(submission: Path) -> None:
    def call(mine: str = "", **changes: int) -> str:
        sizes = {"num_experts": 8, "experts_per_token": 2, "hidden_dim": 72, "max_num_tokens": 4, **changes}
        words = ", ".join(f"{name}={size}" for name, size in sizes.items())
        cfg = f"SimpleNamespace({words}, in_dtype=torch.float16, out_dtype=torch.float16)"
        tensors = "x=zeros(4, 72, dtype=torch.float16), indices=zeros(4, 2, dtype=torch.int32)"
        tensors = f"dict({tensors}, weights=zeros(4, 2, dtype=torch.float32))"
        return f"({cfg}, SimpleNamespace(**{tensors} | dict({mine})), 0, 2)"

    assert_refused(submission, 2, {
        call(num_experts=9): "all2all: 9 experts do not spread evenly over 2 ranks",
        call(num_experts=0): "all2all: 0 experts do not spread evenly over 2 ranks",
        call(hidden_dim=100): "all2all: hidden_dim must be a multiple of 8, got 100",
        call(num_experts=34, experts_per_token=33): "all2all: 1 to 32 experts a token, got 33",
        call(max_num_tokens=0): "all2all: max_num_tokens must be 1 or more, got 0",
        call(max_num_tokens=3): "all2all: 4 tokens, but max_num_tokens is 3",
        call("x=zeros(4, 72)"): "all2all: x must be torch.float16 [4, 72], got torch.bfloat16 [4, 72]",
        call("x=zeros(4, 72, dtype=torch.float16).cpu()"): "all2all: x must be on the group's GPU, cuda:0, got cpu",
        call("indices=zeros(4, 2, dtype=torch.int32).cpu()"): "indices must be on the group's GPU, cuda:0, got cpu",
        call("weights=zeros(4, 2, dtype=torch.float32).cpu()"): "weights must be on the group's GPU, cuda:0, got cpu",
    })  # fmt: skip


def test_the_expert_that_does_not_exist_is_what_the_user_reads(submission: Path, tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            from types import SimpleNamespace
            import torch
            import torch.distributed as dist

            from tests.support.gemm_ranks import load

            dist.init_process_group("nccl", init_method="file://{tmp_path}/store", rank=0, world_size=1)
            sizes = dict(num_experts=8, experts_per_token=2, hidden_dim=72, max_num_tokens=4)
            cfg = SimpleNamespace(**sizes, in_dtype=torch.float16, out_dtype=torch.float16)
            x = torch.zeros(4, 72, dtype=torch.float16, device="cuda")
            indices = torch.tensor([[0, 1], [2, 8], [3, 4], [5, 6]], dtype=torch.int32, device="cuda")
            weights = torch.zeros(4, 2, device="cuda")
            load(sys.argv[1]).custom_kernel((cfg, SimpleNamespace(x=x, indices=indices, weights=weights), 0, 1))
            torch.cuda.synchronize()
            """
        )
    )
    environment = {"POPCORN_GPUS": "1", "SYMMETRIC_HEAP_TIMEOUT_S": "1"}
    done = run_submission(str(script), submission, str(submission), **environment)
    told = "HeapError: rank 0 gave up: an expert's number in all2all's indices is not 0 ... num_experts - 1 (epoch 1)"
    assert done.returncode != 0 and told in done.stderr, done.stdout + done.stderr
    assert done.stdout == "all2all, assertion failed: an expert's number is not 0 ... num_experts - 1\n"  # the kernel


def test_inputs_may_lie_anyhow(submission: Path, tmp_path: Path) -> None:
    """The kernel reads rows side by side, 16 bytes at a time from a multiple of 16 on."""
    script = tmp_path / "ranks.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            from types import SimpleNamespace
            import torch
            import torch.distributed as dist

            from tests.support.gemm_ranks import load

            def tensors(make):
                torch.manual_seed(1)
                x, weights = torch.randn(3, 72).half(), torch.rand(3, 2)
                indices = torch.tensor([[0, 2], [3, 1], [1, 0]], dtype=torch.int32)
                return {{"x": make(x.cuda()), "indices": make(indices.cuda()), "weights": make(weights.cuda())}}

            def shifted(tensor):
                place = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)[1:]
                return place.view(tensor.shape).copy_(tensor)

            module = load(sys.argv[1])
            launch, places = module.extension().all2all_run, []
            dist.init_process_group("nccl", init_method="file://{tmp_path}/store", rank=0, world_size=1)
            half = torch.float16
            cfg = SimpleNamespace(num_experts=4, experts_per_token=2, hidden_dim=72, max_num_tokens=4, in_dtype=half)
            cfg.out_dtype = half
            def call(make):
                return module.custom_kernel((cfg, SimpleNamespace(**tensors(make)), 0, 1))

            want = call(lambda tensor: tensor)
            given = list(tensors(lambda tensor: tensor).values())
            assert torch.allclose(want.float(), given[0].float() * given[2].sum(1, keepdim=True), rtol=1e-3, atol=1e-3)
            plan = next(iter(module._plans.values()))
            plan.launch = lambda handle, *rest: places.append(rest[0]) or launch(handle, *rest)
            for make in (shifted, lambda tensor: tensor.t().contiguous().t()):
                assert torch.equal(call(make), want)
            print([place % 16 for place in places])
            """
        )
    )
    done = run_submission(str(script), submission, str(submission))
    assert done.stdout == "[0, 0]\n", done.stdout + done.stderr
