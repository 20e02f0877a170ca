"""Calls a submission's custom_kernel with tensors of a test, on an emulated card in a process of its own.

    python hip_calls.py SUBMISSION CALLS OUTPUTS

CALLS: written by torch.save, a list of (data, row of the tuning table or None), tensors on the CPU; OUTPUTS gets the
list of results, or of what was raised or found by the device's checks. What torch.empty gives is NaN or large integers.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

Call = tuple[tuple[Any, ...], dict[str, Any] | None]


def sent(data: tuple[Any, ...]) -> tuple[Any, ...]:
    """With bytes in place of fp4 and e8m0, which torch.save does not know."""
    return tuple(part.view(torch.uint8) if getattr(part, "itemsize", 0) == 1 else part for part in data)


def outputs(submission: Path, calls: list[Call], order_seed: int = 0, checks: str = "all") -> list[torch.Tensor]:
    """order_seed: draws another order of workgroups and waves."""
    results = answers(submission, calls, order_seed, checks)
    for result in results:
        assert isinstance(result, torch.Tensor), result
    return results


def answers(submission: Path, calls: list[Call], order_seed: int = 0, checks: str = "all") -> list[Any]:
    """The same, with the text of what was raised or found in place of a result."""
    from tests.support.prepared import HIP_EXTENSIONS, run_prepared

    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "calls"), Path(folder, "outputs")
        torch.save(calls, given)
        done = run_prepared(
            "tests/support/hip_calls.py",
            *map(str, (submission, given, made)),
            imports=[HIP_EXTENSIONS],
            environment={"CDNA_ORDER_SEED": str(order_seed)},
            arch="gfx950",
            checks=checks,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return torch.load(made)


def assert_refused(submission: Path, data: tuple[Any, ...], refused: dict[str, tuple[int, Any, str]]) -> None:
    """refused: which part of the data, what to make of it, and what must stand in the error's text."""
    calls: list[Call] = []
    for place, change, _ in refused.values():
        calls.append(((*data[:place], change(data[place]), *data[place + 1 :]), None))
    for answer, (what, (_, _, rule)) in zip(answers(submission, calls), refused.items(), strict=True):
        assert isinstance(answer, str) and rule in answer, (what, answer)


def on_gpu(part: Any) -> Any:
    if isinstance(part, torch.Tensor):
        return part if part.is_meta else part.cuda()
    if isinstance(part, dict):
        return {name: on_gpu(inner) for name, inner in part.items()}
    return tuple(map(on_gpu, part)) if isinstance(part, tuple) else part


def main() -> None:
    import cdna
    from tests.support.gemm_ranks import load
    from tests.support.poison import poisoned_memory

    submission, given, made = sys.argv[1:]
    module = load(submission)
    results: list[Any] = []
    with poisoned_memory():
        for data, row in torch.load(given):
            data = on_gpu(data)
            try:
                out = module.custom_kernel(data) if row is None else module.run_row(data, row)
                found = cdna.findings()
                results.append("\n".join(map(str, found)) if found else out.cpu())
            except (ValueError, RuntimeError) as error:
                results.append(str(error))
    torch.save(results, made)


if __name__ == "__main__":
    main()
