"""Holds the variants of the MI355X's problems against AITER's own machine code, in one run, under one model.

    python lab/mi355x_against_aiter.py --aiter CHECKOUT [PROBLEM ...] [--variants hip triton] [--cases 0 3]

AITER's time is that of its fastest code object, tile or split by the model, of those that compute the same:

- amd-mxfp4-mm: f4gemm, with the fill of the output that a split of k needs. What quantises a is a launch of its own
  there and left out.
- amd-mixed-mla: MLA decode on the fp8 or the bf16 cache ("a8w8", "a16w16"). What quantises q and what adds the splits
  are launches of their own and left out.
- amd-moe-mxfp4: the fused MoE, with the fill of its output. What sorts the tokens by experts is left out.

Of ours all launches are in. What is left out of theirs is in their favour; a second column counts each of those
launches as one that does nothing. Caches are cold, a launch's own time is in both. Nothing is measured. Data:
attention's are drawn for up to four requests and repeated; experts' weights decide nothing and are not drawn. Whole
grids of ours run, of theirs samples on zeros. Of the MoE's products samples of both: grids are upper bounds, and a
sample leaves out the workgroups that find no work. --whole-grids runs those of ours as well. Triton: the leaderboard's
(`--triton`).

Behind each table stand the geometric means by the leaderboard's clock: see on_leaderboards_clock.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from forge.device import resolve  # noqa: E402
from forge.judge import compilers  # noqa: E402
from forge.task.problem import Case, Problem, find_problem  # noqa: E402

NAMES = ("amd-mxfp4-mm", "amd-mixed-mla", "amd-moe-mxfp4")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("problems", nargs="*", default=list(NAMES), metavar="PROBLEM", help=", ".join(NAMES))
    parser.add_argument("--aiter", type=Path, required=True, help="a checkout or bare clone of ROCm/aiter")
    parser.add_argument("--variants", nargs="+", default=["hip", "triton"])
    parser.add_argument("--cases", type=int, nargs="*", help="positions among the problem's benchmarks (default: all)")
    parser.add_argument("--whole-grids", action="store_true", help="no samples of our products of experts")
    compilers.add_option(parser)
    return parser.parse_args()


if __name__ == "__main__":
    options = arguments()
    device = resolve("gfx950", "gfx950")
    device.prepare()  # before torch
    compilers.take(options.triton, find_problem(options.problems[0]), device, b"triton")

import torch  # noqa: E402

import cdna  # noqa: E402
from cdna.cards import cards  # noqa: E402
from cdna.observe.counters import clear_caches  # noqa: E402
from cdna.observe.model import modelled_case_us  # noqa: E402
from forge.task.score import geometric_mean  # noqa: E402
from lab.time_model.launches import tile  # noqa: E402
from lab.time_model.objects import objects  # noqa: E402
from lab.time_model.rows import Row  # noqa: E402
from lab.time_model.runner import blob, model_row  # noqa: E402
from lab.tuning_tables.modelled import RUN_WHOLE  # noqa: E402
from lab.whole_submissions import generated, imported  # noqa: E402

CARD = cards()["MI355X"]
# What a short launch adds, before another one, or behind a long one.
BEFORE_US, BEHIND_US = CARD.launch_us, CARD.queued_launch_us
K_OF_A_SPLIT = 1024  # of f4gemm, at least
TOKENS_OF_A_SPLIT = 128  # of MLA decode, at least
DRAWN_REQUESTS = 4
# The leaderboard's clock (gpu-mode/reference-kernels problems/amd_202602/eval.py): device events around one call,
# behind a fill of 62.5 GiB in which the host gets ahead. By it, in siddhantkuwar/amd-gpumode-hackathon, notes/:
EMPTY_CALL_US = 4.36  # a call that hands back a stored tensor, no launch (iteration 10, mean of mxfp4-mm's six shapes)
GEMM_US = (6.39, 16.9, 6.71, 6.77, 9.74, 8.36)  # AITER's GEMM alone, one launch, at these shapes (iteration 9)
# Median of GEMM_US less what the model gives the fastest of AITER's tiles (the differences: 2.52, 3.58, 2.64, 2.66,
# 2.40, 1.94). AITER publishes a kernel's own time for the last two, 6.81 and 6.18 us: GEMM_US is 2.93 and 2.18 more.
CLOCK_US = 2.6
SORTS = RUN_WHOLE["amd-moe-mxfp4"]  # who has which experts decides what the others do
FLAT_TOKENS = 16  # the most that AITER's tables give to kernels that read unsorted tokens


@dataclass(frozen=True)
class Tried:
    """One way of AITER's."""

    row: Row
    what: str
    left_out_us: float  # the least that its other launches take


def row_of(family: str, path: str, digest: str, shape: dict[str, int]) -> Row:
    return Row("aiter", "MI355X", family, path, digest, {name: str(value) for name, value in shape.items()}, 0.0, "")


def gemms(codes: dict[str, str], case: Case) -> Iterator[Tried]:
    for path, digest in codes.items():
        if "/gfx950/f4gemm/" not in path:
            continue
        for split in range(4):  # each as a power of two
            row = row_of("f4gemm", path, digest, {"m": case["m"], "n": case["n"], "k": case["k"], "split": split})
            rows, _ = tile(row)
            # a tile twice as high as a is no faster than the next smaller one
            if (rows > 32 and rows >= 2 * case["m"]) or (split and case["k"] >> split < K_OF_A_SPLIT):
                continue
            yield Tried(row, f"{path.rsplit('_', 1)[-1][:-3]}, {1 << split}", BEFORE_US)


def attention(codes: dict[str, str], case: Case) -> Iterator[Tried]:
    names = {"a8w8": "mla_a8w8_qh16_qseqlen1_gqaratio16", "a16w16": "mla_dec_stage1_bf16_a16w16_subQ16_mqa16"}
    for kind, name in names.items():
        path = f"hsa/gfx950/mla/{name}.co"
        for split in (1, 2, 4, 8, 16):  # AITER's own search ends at 16
            if case["batchsize"] * split > 2 * CARD.compute_units or case["kvseqlen"] < split * TOKENS_OF_A_SPLIT:
                continue
            shape = {"batch": case["batchsize"], "heads": 16, "seq": case["kvseqlen"], "split": split}
            left_out_us = (kind == "a8w8") * BEFORE_US + (split > 1) * BEHIND_US
            yield Tried(row_of("mla_decode", path, codes[path], shape), f"{kind}, {split}", left_out_us)


def experts(codes: dict[str, str], case: Case) -> Iterator[Tried]:
    for path, digest in codes.items():
        name = path.rsplit("/", 1)[-1][:-3]
        if "/gfx950/fmoe/silu/" not in path or not name.startswith("fmoe_bf16_pertokenMXfp4_g1u1_"):
            continue
        flat, columns = "_flat_" in name, int(name.rsplit("x", 1)[-1])
        # "vs" and nothing in its place: slower in each case than "novs" of the same tile
        if case["dexpert"] % columns or "_novs_" not in name or (flat and case["bs"] > FLAT_TOKENS):
            continue
        shape = {
            "tokens": case["bs"],
            "model_dim": case["dhidden"],
            "inter_dim": case["dexpert"],
            "experts": case["nroutedexperts"] + case["nsharedexperts"],
            "topk": case["nexpertspertoken"] + case["nsharedexperts"],
            "block_m": 16 if flat else 32,
            "groups_per_cu": (2 if "2tg" in name else 1) if "_ps_" in name else 0,
            "flat": int(flat),
        }
        yield Tried(
            row_of("fmoe", path, digest, shape),
            name.partition("novs_silu_")[2] + flat * " flat",
            (not flat) * BEFORE_US,
        )


def aiter_us(checkout: Path, tried: Iterator[Tried]) -> tuple[float, float, str]:
    """The fastest kernel, the fastest with its other launches, and what the latter is."""
    alone, best = math.inf, (math.inf, "none ran")
    for one in tried:
        result = model_row(one.row, blob(checkout, one.row.blob))
        if "modelled_us" in result:
            alone = min(alone, result["modelled_us"])
            best = min(best, (result["modelled_us"] + one.left_out_us, one.what))
    return alone, *best


class ClockTimes(NamedTuple):
    """What the leaderboard's clock would show."""

    launch_inside: float  # as if the empty call's time had the room for the launch: an empty kernel takes EMPTY_CALL_US
    by_published: float  # as far from the model as published calls of one launch are
    launch_beside: float  # as if all of the empty call's time came on top


def on_leaderboards_clock(modelled_us: list[float]) -> ClockTimes:
    """Geometric means of these cases. The clock adds to each of them, so it does not simply add to their mean."""

    def mean(added_us: float) -> float:
        return geometric_mean([us + added_us for us in modelled_us])

    return ClockTimes(mean(EMPTY_CALL_US - CARD.launch_us), mean(CLOCK_US), mean(EMPTY_CALL_US))


def repeated(x: torch.Tensor, times: int) -> torch.Tensor:
    return x.view(torch.uint8).repeat(times, *[1] * (x.dim() - 1)).view(x.dtype)


def attention_data(reference: Any, case: Case) -> Any:
    drawn = math.gcd(case["batchsize"], DRAWN_REQUESTS)
    times = case["batchsize"] // drawn
    q, kv, queries, tokens, config = reference.generate_input(**{**case, "batchsize": drawn})
    caches = {name: tuple(repeated(x, times) for x in kv[name]) for name in ("fp8", "mxfp4")}
    caches["fp8"] = (caches["fp8"][0], kv["fp8"][1])
    requests = torch.arange(case["batchsize"] + 1, dtype=torch.int32, device="cuda")
    config["batch_size"] = case["batchsize"]
    return repeated(q, times), caches, requests * case["qseqlen"], requests * case["kvseqlen"], config


def experts_data(reference: Any, case: Case) -> Any:
    """As the reference's generate_input, but that no weight is drawn and the router's logits are."""
    tokens, hidden, inner = case["bs"], case["dhidden"], case["dexpert"]  # multiples of 256 in every benchmark
    routed, shared = case["nroutedexperts"], case["nsharedexperts"]
    gen = torch.Generator(device="cuda").manual_seed(case["seed"])
    x = torch.randn(tokens, hidden, dtype=torch.bfloat16, device="cuda", generator=gen)
    logits = torch.randn(tokens, routed, device="cuda", generator=gen)
    weights, ids = torch.topk(logits.softmax(-1), case["nexpertspertoken"], sorted=False)
    own = torch.arange(routed, routed + shared, dtype=torch.int32, device="cuda").expand(tokens, -1)
    ids = torch.cat([ids.int(), own], 1)
    weights = torch.cat([weights, torch.ones(tokens, shared, device="cuda")], 1)

    def codes(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.uint8, device="cuda").view(torch.float4_e2m1fn_x2)

    def scales(rows: int, columns: int) -> torch.Tensor:
        shape = (-(-rows // 256) * 256, -(-columns // 8) * 8)
        return torch.empty(shape, dtype=torch.uint8, device="cuda").view(torch.float8_e8m0fnu)

    count = routed + shared
    given = codes(count, 2 * inner, hidden // 2), codes(count, hidden, inner // 2)
    given_scales = scales(count * 2 * inner, hidden // 32), scales(count * hidden, inner // 32)
    config = {
        "d_hidden": hidden,
        "d_expert": inner,
        "d_hidden_pad": hidden,
        "d_expert_pad": inner,
        "n_routed_experts": routed,
        "n_shared_experts": shared,
        "n_experts_per_token": case["nexpertspertoken"],
        "total_top_k": ids.shape[1],
        "bs": tokens,
    }
    return x, *given, *given_scales, *given, *given_scales, weights, ids, config


Data = Callable[[Any, Case], Any]
PROBLEMS: dict[str, tuple[Callable[[dict[str, str], Case], Iterator[Tried]], Data]] = {
    "amd-mxfp4-mm": (gemms, lambda reference, case: reference.generate_input(**case)),
    "amd-mixed-mla": (attention, attention_data),
    "amd-moe-mxfp4": (experts, experts_data),
}


def our_us(submission: Any, data: Any, sample: bool) -> float:
    """Of the second call: the first one allocates."""
    for _ in range(2):
        cdna.stats()
        with cdna.counting((lambda kernel: not any(part in kernel for part in SORTS)) if sample else False):
            clear_caches()
            submission.custom_kernel(data)
    return modelled_case_us(cdna.stats()).us


def submissions(problem: Problem, variants: list[str]) -> dict[str, Any]:
    for module in ("utils", "task", "reference"):
        source = problem.source_of(f"{module}.py")
        assert source is not None
        imported(module, source)
    with tempfile.TemporaryDirectory() as folder:
        files = {variant: Path(generated(problem.name, variant, folder)) for variant in variants}
        return {variant: imported(f"submission_{variant}", file) for variant, file in files.items()}


def hold(problem: Problem, options: argparse.Namespace, codes: dict[str, str]) -> None:
    """Prints the problem's table."""
    ways, data_of = PROBLEMS[problem.name]
    ours = submissions(problem, options.variants)
    print(f"\n{problem.name}")
    heads = " | ".join(f"{variant} us | / kernel | / all" for variant in ours)
    print(f"| case | AITER | its kernel us | with empty launches us | {heads} |")
    print("|" + "---|" * (4 + 3 * len(ours)))
    times: dict[str, list[float]] = {name: [] for name in ("kernel", "all", *ours)}

    def ratios(us: float, kernel: float, whole: float) -> str:
        return f"{us:.2f} | {us / kernel:.2f} | {us / whole:.2f}"

    for position in range(len(problem.benchmarks)) if options.cases is None else options.cases:
        case = problem.benchmarks[position]
        kernel, whole, what = aiter_us(options.aiter, ways(codes, case))
        times["kernel"].append(kernel)
        times["all"].append(whole)
        data = data_of(sys.modules["reference"], case)
        cells = []
        for variant, submission in ours.items():
            sampled = data_of is experts_data and not options.whole_grids
            times[variant].append(our_us(submission, data, sampled))
            cells.append(ratios(times[variant][-1], kernel, whole))
        sizes = ", ".join(f"{value}" for name, value in case.items() if name != "seed")
        print(f"| {sizes} | {what} | {kernel:.2f} | {whole:.2f} | {' | '.join(cells)} |", flush=True)
    mean = {name: geometric_mean(us) for name, us in times.items()}
    cells = [ratios(mean[variant], mean["kernel"], mean["all"]) for variant in ours]
    print(f"| geometric mean | | {mean['kernel']:.2f} | {mean['all']:.2f} | {' | '.join(cells)} |", flush=True)
    for variant in ours:
        clock = ", ".join(f"{name} {us:.2f}" for name, us in on_leaderboards_clock(times[variant])._asdict().items())
        print(f"{variant} by the leaderboard's clock, geometric mean, us: {clock}", flush=True)


def main() -> None:
    codes = dict(objects(options.aiter))
    for name in options.problems:
        hold(find_problem(name), options, codes)


if __name__ == "__main__":
    main()
