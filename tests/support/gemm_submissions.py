"""What the tests of amd-gemm-rs' and amd-ag-gemm's kernels share."""

import textwrap
from pathlib import Path
from typing import Any

from tests.support.gemm_ranks import errors_of
from tests.support.prepared import run_submission

# Changes that leave a HIP submission only the tile of 64 x 64: a fifth of what there is to compile.
SMALL_TILE_ONLY = {
    f"if (block_m == {m} && block_n == {n}) return f(Tile<{m}, {n}, {rest}>{{}}), true;": ""
    for m, n, rest in ((256, 256, "2, 4, 1"), (128, 256, "2, 4, 1"), (128, 128, "2, 2, 2"), (64, 128, "2, 2, 2"))
}


def assert_right(problem: str, submission: Path, world_size: int, cases: list[dict[str, Any]], limit: float) -> None:
    """cases: as gemm_ranks.py takes them; limit: of the relative L2 error."""
    for case, error in zip(cases, errors_of(problem, submission, world_size, cases), strict=True):
        assert error < limit, (case, error)


def altered(submission: Path, folder: Path, changes: dict[str, str]) -> Path:
    """A copy with other text in place of each text, which must be there."""
    source = submission.read_text()
    for before, after in changes.items():
        assert before in source, before
        source = source.replace(before, after)
    path = folder / "submission.py"
    path.write_text(source)
    return path


def said_of_different_shapes(submission: Path, folder: Path, rows: list[tuple[int, int]]) -> list[str]:
    """What the two ranks say where each calls with other rows of a and of w (one pair a rank; k is 8)."""
    script = folder / "ranks.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            import torch
            import torch.distributed as dist
            import torch.multiprocessing as mp

            from tests.support.gemm_ranks import load

            def worker(rank):
                torch.cuda.set_device(rank)
                dist.init_process_group("nccl", init_method="file://{folder}/store", rank=rank, world_size=2)
                a, w = (torch.ones(rows, 8, dtype=torch.bfloat16, device="cuda") for rows in {rows}[rank])
                try:
                    load(sys.argv[1]).custom_kernel((a, w, None))
                except RuntimeError as error:
                    print(f"{{error}}\\n", end="", flush=True)  # one write: the other rank's goes before or after
                dist.barrier()

            mp.start_processes(worker, nprocs=2, start_method="fork")
            """
        )
    )
    done = run_submission(str(script), submission, str(submission), POPCORN_GPUS="2")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
