"""Hold whole submissions against each other under one model: ours and published ones, unmodified, official benchmarks.

    python lab/whole_submissions.py amd-mixture-of-experts hip triton RadeonFlow=FILE nicolaswilde=FILE
    python lab/whole_submissions.py amd-mla-decode hip triton RadeonFlow=FILE nicolaswilde=FILE [-o OUT.jsonl]

A word without `=` is a variant of ours, which is generated; NAME=FILE is anybody's submission.py. Nothing is measured
and no result is checked: every time is modelled, for an MI300X with cold caches, and counts

- kernels: as docs/time-model.md says, each launch's own time included. Those of which only the time matters run as
  samples;
- products of torch and hipBLASLt: FLOPs at the best rate that the model gives our own GEMM (found in the same run, of
  a shape that fills whole rounds), or their operands' bytes at HBM's rate, whichever takes longer. They are not
  computed where they are large;
- what else torch does on the GPU: each operation's bytes at HBM's rate, and a launch, as `eval.py benchmark` counts
  them (forge/judge/operations.py). What torch.compile fuses is run as it is, and counted as reading its inputs and
  writing its outputs once, or nothing where products are among it.

So libraries and torch are counted at what they cannot be below. hipBLASLt's launches and the host's time are left out.
Triton is the leaderboard's (`--triton`).
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from forge.device import resolve  # noqa: E402

if __name__ == "__main__":
    resolve("gfx942", "gfx942").prepare()  # before torch: from here on "cuda" is the emulated card

import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import cdna  # noqa: E402
from cdna.cards import cards  # noqa: E402
from cdna.hip.host_libraries import blas_library  # noqa: E402
from cdna.launch.program import Program  # noqa: E402
from cdna.observe.counters import clear_caches  # noqa: E402
from cdna.observe.model import modelled_time_us  # noqa: E402
from forge.device.emulated import PRODUCT_RECORDER  # noqa: E402
from forge.device.roofline import Roofline  # noqa: E402
from forge.judge import compilers  # noqa: E402
from forge.judge.operations import PRODUCTS, bytes_of, estimated_us, product_flops  # noqa: E402
from forge.task.problem import Case, Problem, find_problem  # noqa: E402
from forge.task.score import geometric_mean  # noqa: E402
from lab.tuning_tables.modelled import large_tensors_not_drawn  # noqa: E402
from tests.support import bf16_gemm_hip  # noqa: E402

CARD = cards()["MI300X"]
# Kernels whose results decide nothing in those after them: by words in their names; all of a problem that is not here.
SAMPLED = {"amd-mixture-of-experts": ("gate_up_kernel", "down_kernel")}
RATED = (8192, 4864, 7168)  # m, n, k: two whole rounds of tiles of 256 x 256 on 304 compute units
LARGE_FLOPS = 1 << 34  # of a product that is not computed


def our_gemm_tflops() -> float:
    """What the model gives our largest tile of 16-bit products."""
    m, n, k = RATED
    tile = next(tile for tile in bf16_gemm_hip.TILES if (tile.rows, tile.columns) == (256, 256))
    program = Program(bf16_gemm_hip.assembly())
    a, w = (torch.zeros(rows, k, dtype=torch.bfloat16) for rows in (m, n))
    with cdna.counting(sample=True):
        clear_caches()
        _, record = bf16_gemm_hip.run(program, bf16_gemm_hip.Inputs(a, w, None), tile)
    return 2 * m * n * k / modelled_time_us(record).us * 1e-6


class LibraryTime(TorchDispatchMode):
    """What torch's operations and hipBLASLt's products cannot take less than, in us by name."""

    def __init__(self, tflops: float) -> None:
        super().__init__()
        self.card = Roofline(CARD, tflops)
        self.us: dict[str, float] = defaultdict(float)
        self.fused: list[int] = []  # for each torch.compile that is under way: products in it

    def hipblaslt(self, m: int, n: int, k: int, batches: int, element_bytes: int) -> bool:
        """One product of a batch or a group; says whether it need not be computed."""
        self.us["hipBLASLt"] += self.card.library_product_us(m, n, k, batches, element_bytes)
        return 2 * m * n * k * batches >= LARGE_FLOPS // 32  # a group's products are small, their sum is not

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        flops = product_flops(name, args)
        if flops >= LARGE_FLOPS and func._overloadname in ("", "default"):
            left, right = (args[place] for place in PRODUCTS[name])
            result = left.new_empty((*left.shape[:-1], right.shape[-1]))
        else:
            result = func(*args, **(kwargs or {}))
        if flops:
            self.fused = [products + 1 for products in self.fused]
        us = estimated_us(func, args, kwargs, result, self.card)
        if us and (flops or not self.fused):
            self.us[name] += us
        return result

    def compiled(self, function: Any = None, **options: Any) -> Any:
        """In torch.compile's place."""
        if function is None:
            return self.compiled

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.fused.append(0)
            result = function(*args, **kwargs)
            if not self.fused.pop() and not self.fused:
                self.us["torch.compile"] += self.card.operation_us((bytes_of((args, kwargs)), bytes_of(result)))
            return result

        return call


def on_a_line(x: torch.Tensor) -> torch.Tensor:
    """A copy that starts a 256-byte line, as the real allocator's tensors do and the host's do not."""
    room = torch.empty(x.numel() * x.element_size() + 256, dtype=torch.uint8, device="cuda")
    start = -room.data_ptr() % 256
    copy = room[start : start + x.numel() * x.element_size()].view(x.dtype).view(x.shape)
    return copy.copy_(x)


def imported(name: str, file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def model(problem: Problem, file: Path, case: Case, tflops: float) -> dict[str, Any]:
    """The modelled time of the second of two calls: the first may allocate, compile and fill tables."""
    started = time.perf_counter()
    for module in ("utils", "task", "reference"):
        source = problem.source_of(f"{module}.py")
        assert source is not None
        imported(module, source)
    with large_tensors_not_drawn():
        data = sys.modules["reference"].generate_input(**case)
    words = SAMPLED.get(problem.name)
    library = LibraryTime(tflops)
    recorder = PRODUCT_RECORDER(library.hipblaslt)
    with ExitStack() as stack:
        stack.enter_context(patch.object(torch, "compile", library.compiled))
        ctypes.CDLL(str(blas_library())).cdna_record_products(recorder)
        submission = imported("submission", file)
        stack.enter_context(cdna.counting(lambda name: words is None or any(word in name for word in words)))
        stack.enter_context(library)
        for _ in range(2):
            if "prefill" in case:
                data[2].seq_len = case["prefill"]  # which a call moves on
            cdna.stats()
            clear_caches()
            library.us.clear()
            submission.custom_kernel(data)
    kernels: dict[str, float] = defaultdict(float)
    launches = cdna.stats()
    for record in launches:
        kernels[record.kernel] += modelled_time_us(record).us
    return {
        "us": sum(kernels.values()) + sum(library.us.values()),
        "launches": len(launches),
        "kernels_us": longest_first(kernels),
        "libraries_us": longest_first(library.us),
        "tflops": tflops,
        "seconds": time.perf_counter() - started,
    }


def longest_first(us: dict[str, float]) -> dict[str, float]:
    return dict(sorted(us.items(), key=lambda item: -item[1]))


def in_a_process(*words: str) -> Any:
    """What this script prints as its last line: each submission gets a process of its own."""
    command = [sys.executable, __file__, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with exit code {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def generated(problem: str, variant: str, folder: str) -> str:
    path = Path(folder) / f"{variant}.py"
    command = [sys.executable, str(ROOT / "gen_submission.py"), problem, "--variant", variant, "-o", str(path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return str(path)


def print_table(results: list[dict[str, Any]]) -> None:
    cases = list(dict.fromkeys(result["case"] for result in results))
    print(f"\n| modelled us (of it torch and libraries) | {' | '.join(cases)} | geometric mean |")
    print("|" + "---|" * (2 + len(cases)))
    for name in dict.fromkeys(result["submission"] for result in results):
        mine = [result for result in results if result["submission"] == name]
        cells = [f"{result['us']:.0f} ({sum(result['libraries_us'].values()):.0f})" for result in mine]
        mean = geometric_mean([result["us"] for result in mine])
        print(f"| {name} | {' | '.join(cells)} | {mean:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("problem")
    parser.add_argument("submissions", nargs="*", help="a variant of ours, or NAME=FILE")
    parser.add_argument("--cases", type=int, nargs="*", help="positions among the problem's benchmarks (default: all)")
    parser.add_argument("-o", "--output", type=Path, help="append each result to this file, a line of JSON")
    parser.add_argument("--tflops", type=float, help="of our own GEMM, as an earlier run found it")
    parser.add_argument("--one", nargs=3, metavar=("FILE", "CASE", "TFLOPS"), help=argparse.SUPPRESS)
    parser.add_argument("--rate", action="store_true", help=argparse.SUPPRESS)
    compilers.add_option(parser)
    options = parser.parse_args()
    problem = find_problem(options.problem)
    if options.rate:
        return print(json.dumps(our_gemm_tflops()))
    if options.one:
        file, position, tflops = options.one
        return print(json.dumps(model(problem, Path(file), problem.benchmarks[int(position)], float(tflops))))
    compilers.take(options.triton, problem, resolve("gfx942", "gfx942"), b"triton")  # of the processes below
    tflops = options.tflops or in_a_process(problem.name, "--rate")
    print(f"products of libraries: {tflops:.0f} TFLOP/s, modelled", flush=True)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for word in options.submissions:
            name, _, path = word.partition("=")
            file = path or generated(problem.name, name, folder)
            for position in range(len(problem.benchmarks)) if options.cases is None else options.cases:
                case = " ".join(f"{key}={value}" for key, value in problem.benchmarks[position].items())
                result = in_a_process(problem.name, "--one", file, str(position), str(tflops))
                results.append({"problem": problem.name, "submission": name, "case": case, **result})
                print(f"{name}, {case}: {result['us']:.1f} us, {result['seconds']:.0f} s", flush=True)
                if options.output:
                    with options.output.open("a") as lines:
                        print(json.dumps(results[-1]), file=lines)
    print_table(results)


if __name__ == "__main__":
    main()
