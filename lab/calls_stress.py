"""Calls a distributed submission thousands of times from ranks that are late at random, and compares every result.

    python lab/calls_stress.py amd-ag-gemm submission.py --ranks 2 --calls 10000
    python lab/calls_stress.py amd-all2all submission.py --ranks 2 --kill

Calls come in bursts of one to six, of any of the cases, with no barrier anywhere. Cases: the problem's benchmarks, each
rank with as much as in its own case, and shapes that no tuning table knows (amd-all2all: also every token to one
expert, ranks with one token and with all). Ranks are late on the host and on the GPU. Every result is compared on the
GPU with an fp32 product, and with the bits of the first call of the same input. An output's memory is NaN before it is
used again; so is, now and then, the half of this rank's memory in the symmetric heap that peers write next.

More ranks than GPUs share them, by turns of some ms: a call then takes the longer, and waits meet in other orders.

--kill: the last rank is killed halfway; the others must name it and end. A rank that neither goes on nor ends within
--limit-s is a hang: what every rank was doing is printed, and exit code 1. Emulated ranks, on a machine without GPUs:
python -m forge.device gfx942 -- python lab/calls_stress.py ...
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import importlib.util
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from forge.device import hook  # noqa: E402
from forge.task.cases import given_case, on_ranks  # noqa: E402
from forge.task.problem import find_problem  # noqa: E402

NAN_BYTE = 0xFF
LARGEST_BURST = 6
LATE_PART = 0.2  # of bursts
POISONED_PART = 0.15  # of bursts
BURSTS_IN_FLIGHT = 16
SPIN_CYCLES_PER_US = 1800
# Relative L2 error, and the largest error as a part of the largest element: eight steps of the type.
BOUNDS = {"amd-gemm-rs": (4e-3, 2**-5), "amd-ag-gemm": (2.5e-3, 2**-5), "amd-all2all": (1e-3, 2**-8)}
# What a killed rank's peers may take to end: this, and the seconds that they wait for it. While it waits, an emulated
# device's clock runs more slowly.
ENDING_S = 10.0
WAITING_SLOWDOWN = 4 if hook.emulating() else 1
PR_SET_PDEATHSIG = 1


@dataclass
class Call:
    """One input of this rank, and what should come of it."""

    data: Any
    want: torch.Tensor  # fp32
    first: torch.Tensor | None = None  # the first result
    norm, largest = torch.ones(()), torch.ones(())  # of `want`


@dataclass
class Case:
    """A shape, and what its calls have come to; sums and maxima stay on the GPU."""

    fields: dict[str, Any]
    calls: list[Call]
    worst: torch.Tensor  # fp32 [2]: relative L2 error, largest error as a part of the largest element
    other_bits: torch.Tensor  # fp32: results with other bits than the first one of their input
    n_calls: int = 0


# ---------------------------------------------------------------- cases and inputs


def unknown_shapes(problem: str, ranks: int) -> list[dict[str, Any]]:
    """Cases of no tuning table: odd sizes, few rows, and large ones that the default makes large tiles for."""
    if problem == "amd-gemm-rs":
        shapes = [(37, 1000, 200), (3, 66, 520), (130, 45, 37), (576, 4104, 520), (1024, 2888, 1032)]
        sizes = [(rows * ranks, n, k * ranks) for rows, n, k in shapes]
    elif problem == "amd-ag-gemm":
        shapes = [(37, 1000, 200), (3, 66, 520), (130, 45, 37), (640, 4104, 520), (1024, 2888, 1032)]
        sizes = [(rows * ranks, n * ranks, k) for rows, n, k in shapes]
    else:
        names = ("num_experts", "experts_per_token", "hidden_dim", "max_num_tokens")
        numbers = [(3 * ranks, 2, 1000, 7), (6 * ranks, 6, 2048, 33), (16 * ranks, 1, 64, 300)]
        return [dict(zip(names, case, strict=True)) for case in numbers]
    return [{"m": m, "n": n, "k": k, "has_bias": index % 2 == 0} for index, (m, n, k) in enumerate(sizes)]


def chosen_cases(options: argparse.Namespace) -> list[dict[str, Any]]:
    problem = find_problem(options.problem)
    if options.case:
        return [given_case(text, {**problem.benchmarks[0], "world_size": 0, "seed": 0}) for text in options.case]
    cases = []
    if options.cases in ("all", "benchmarks"):
        cases += [on_ranks(case, options.ranks, problem.spread) for case in problem.benchmarks]
    if options.cases in ("all", "unknown"):
        cases += unknown_shapes(options.problem, options.ranks)
    return cases


def case_text(case: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in case.items() if key not in ("world_size", "seed"))


def uniform(device: torch.device, seed: int, *shape: int) -> torch.Tensor:
    """bf16 in -0.01 .. 0.01, as in the problems; the same on every rank."""
    generator = torch.Generator(device=device)
    generator.manual_seed(seed)
    return ((torch.rand(shape, generator=generator, device=device) * 2 - 1) * 0.01).to(torch.bfloat16)


def gemm_rs_call(case: dict[str, Any], rank: int, ranks: int, seed: int, device: torch.device) -> Call:
    m, n, k = case["m"], case["n"], case["k"] // ranks
    rows = slice(rank * m // ranks, (rank + 1) * m // ranks)
    bias = uniform(device, seed + 99, n) if case["has_bias"] else None
    want = torch.zeros(m // ranks, n, device=device)
    mine: list[torch.Tensor] = []
    for source in range(ranks):
        a, w = uniform(device, seed + 2 * source, m, k), uniform(device, seed + 2 * source + 1, n, k)
        want += a[rows].float() @ w.float().T
        mine = [a, w] if source == rank else mine
    return Call((*mine, bias), want if bias is None else want + ranks * bias.float())


def ag_gemm_call(case: dict[str, Any], rank: int, ranks: int, seed: int, device: torch.device) -> Call:
    m, n, k = case["m"], case["n"] // ranks, case["k"]
    whole = uniform(device, seed, m, k)
    w = uniform(device, seed + 1 + 2 * rank, n, k)
    bias = uniform(device, seed + 2 + 2 * rank, n) if case["has_bias"] else None
    want = whole.float() @ w.float().T
    own = whole[rank * m // ranks : (rank + 1) * m // ranks].clone()
    return Call((own, w, bias), want if bias is None else want + bias.float())


def all2all_call(case: dict[str, Any], rank: int, ranks: int, seed: int, device: torch.device) -> Call:
    """Inputs by turns: tokens and experts at random; every token to the same experts; one token; all tokens."""
    experts, k, dim, most = (
        case[name] for name in ("num_experts", "experts_per_token", "hidden_dim", "max_num_tokens")
    )
    kind = seed // 100 % 4
    chance = random.Random(seed * 64 + rank)
    generator = torch.Generator(device=device)
    generator.manual_seed(seed * 64 + rank)
    tokens = {2: 1 if rank % 2 == 0 else most - 1, 3: most}.get(kind, chance.randint(1, most - 1))
    if kind == 1:
        first = seed // 400 % ranks * (experts // ranks)
        indices = (torch.arange(k, device=device) + first).remainder(experts).repeat(tokens, 1)
    else:
        indices = torch.rand((tokens, experts), generator=generator, device=device).argsort(1)[:, :k]
    weights = torch.rand((tokens, k), generator=generator, device=device)
    x = torch.randn((tokens, dim), generator=generator, device=device).to(torch.float16)
    owners = indices // (experts // ranks)
    want = torch.zeros((tokens, dim), device=device)
    for place in range(k):
        want += (x * (1 + owners[:, place, None])).to(torch.float16).float() * weights[:, place, None]
    cfg = types.SimpleNamespace(
        num_experts=experts, experts_per_token=k, hidden_dim=dim, max_num_tokens=most,
        in_dtype=torch.float16, out_dtype=torch.float16,
    )  # fmt: skip
    mine = types.SimpleNamespace(num_tokens=tokens, indices=indices.to(torch.int32).contiguous(), weights=weights, x=x)
    return Call((cfg, mine, rank, ranks), want)


MAKERS = {"amd-gemm-rs": gemm_rs_call, "amd-ag-gemm": ag_gemm_call, "amd-all2all": all2all_call}


# ---------------------------------------------------------------- a rank


class Rank:
    """One process: its place in the group, the submission, and what the parent sees of its progress."""

    def __init__(self, rank: int, options: argparse.Namespace, progress: Any, folder: str) -> None:
        self.rank, self.options, self.progress = rank, options, progress
        gpus = torch.cuda.device_count()
        self.device = torch.device("cuda", rank % gpus)
        torch.cuda.set_device(self.device)
        torch.set_num_threads(2)
        backend = "nccl" if options.ranks <= gpus else "gloo"  # NCCL takes no GPU twice
        dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank, world_size=options.ranks)
        spec = importlib.util.spec_from_file_location("submission", options.submission)
        assert spec is not None and spec.loader is not None
        self.module = sys.modules["submission"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.late = random.Random(1000 + rank)
        self.meetings = 0
        self.start = time.monotonic()

    def say(self, text: str) -> None:
        if self.rank == 0:
            print(f"{time.monotonic() - self.start:6.1f} s  {text}", flush=True)

    def meet(self) -> None:
        """Wait for all ranks, on the host: no kernel, no communicator."""
        self.meetings += 1
        store, key = dist.distributed_c10d._get_default_store(), f"meeting/{self.meetings}"
        store.add(key, 1)
        while store.add(key, 0) < self.options.ranks:
            time.sleep(0.001)

    def at(self, number: int, case: int, done: int, launched: int) -> None:
        self.progress[4 * self.rank : 4 * self.rank + 4] = [number, case, done, launched]

    def set_row(self, case: dict[str, Any], call: Call, changes: dict[str, Any]) -> None:
        """Change these columns of the row that the shape would take."""
        if not changes:
            return
        a, w, _ = call.data
        module, key = self.module, (case["m"], w.shape[0], a.shape[1])
        row = module.TUNING.get(key) or getattr(module, "tuning_row", lambda data: module.DEFAULT)(call.data)
        module.TUNING[key] = {**row, **changes}

    def compare(self, case: Case, call: Call, out: torch.Tensor) -> None:
        """On the GPU, nothing waits for it. Leaves NaN in `out`."""
        if out.shape != call.want.shape:
            raise AssertionError(f"{case.fields}: got {tuple(out.shape)}, expected {tuple(call.want.shape)}")
        wrong = out.float().sub_(call.want)
        if call.first is None:
            call.first = out.clone()
            call.norm, call.largest = call.want.norm(), call.want.abs().max()
        bits = (out.view(torch.int16) != call.first.view(torch.int16)).any().float()
        found = torch.stack([wrong.norm() / call.norm, wrong.abs_().max() / call.largest])
        case.worst = torch.maximum(case.worst, found)
        case.other_bits = case.other_bits + bits
        out.fill_(float("nan"))

    def poison_heap(self) -> None:
        """NaN into the half of every region that the last call on it has used: peers write there in their next call
        but one, which they begin when they have seen our next. Submissions that have no symmetric heap have none."""
        heap = getattr(getattr(self.module, "heap_state", None), "heap", None)
        if heap is None:
            return
        for (_, half), region in heap.regions.items():  # RankPlan.meet
            begin = region.addresses[self.rank] + region.size_bytes - half * (1 if region.epoch & 1 else 2)
            if region.epoch:
                stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
                heap.runtime.call("MemsetAsync", ctypes.c_void_p(begin), NAN_BYTE, ctypes.c_size_t(half), stream)

    def be_late(self) -> None:
        if self.late.random() < LATE_PART:
            time.sleep(self.late.random() * self.options.jitter_us * 1e-6)
        if self.late.random() < LATE_PART and hasattr(torch._C, "_cuda_sleep"):
            torch.cuda._sleep(int(self.late.random() * self.options.jitter_us * SPIN_CYCLES_PER_US))

    def one_pass(self, number: int, changes: dict[str, Any], fields: list[dict[str, Any]]) -> list[Case]:
        """`--calls` calls of all cases with these columns of the tuning table changed."""
        options, make = self.options, MAKERS[self.options.problem]
        cases = []
        for index, shape in enumerate(fields):
            seeds = [100000 * index + 100 * i for i in range(options.inputs)]
            calls = [make(shape, self.rank, options.ranks, seed, self.device) for seed in seeds]
            self.set_row(shape, calls[0], changes)
            cases.append(Case(shape, calls, torch.zeros(2, device=self.device), torch.zeros((), device=self.device)))
        torch.cuda.synchronize()
        self.say(f"pass {number} {json.dumps(changes)}: inputs of {len(cases)} cases are there")
        for index, case in enumerate(cases):  # compiles, and makes the regions
            self.at(number, index, 0, 1)
            self.compare(case, case.calls[0], self.module.custom_kernel(case.calls[0].data))
            torch.cuda.synchronize()
            case.n_calls = 1
            self.say(f"  compiled {case_text(case.fields)}: L2 {float(case.worst[0]):.2e}")
        self.meet()
        self.burst_on_burst(number, cases)
        return cases

    def burst_on_burst(self, number: int, cases: list[Case]) -> None:
        options = self.options
        together = random.Random(number)  # the same on every rank
        launched, bursts, told = len(cases), 0, time.monotonic()
        while launched < options.calls:
            index = together.randrange(len(cases))
            case = cases[index]
            picks = [together.randrange(options.inputs) for _ in range(together.randint(1, LARGEST_BURST))]
            self.be_late()
            self.at(number, index, self.progress[4 * self.rank + 2], launched + len(picks))
            outs = [self.module.custom_kernel(case.calls[pick].data) for pick in picks]
            launched += len(picks)
            if options.kill and self.rank == options.ranks - 1 and launched > options.calls // 2:
                os.kill(os.getpid(), signal.SIGKILL)
            if self.late.random() < POISONED_PART:
                self.poison_heap()
            for pick, out in zip(picks, outs, strict=True):
                self.compare(case, case.calls[pick], out)
            del out, outs  # their memory is NaN now, and the next calls get it
            case.n_calls += len(picks)
            bursts += 1
            if bursts % BURSTS_IN_FLIGHT == 0:
                torch.cuda.synchronize()
                self.at(number, index, launched, launched)
                if time.monotonic() - told > options.tell_s:
                    told = time.monotonic()
                    self.say(f"  {launched:,} of {options.calls:,} calls")
        torch.cuda.synchronize()
        self.at(number, -1, launched, launched)


def rank_main(rank: int, options: argparse.Namespace, progress: Any, results: Any, folder: str) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    log = os.open(f"{folder}/rank{rank}.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 2)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    fields = chosen_cases(options)
    mine = Rank(rank, options, progress, folder)
    at = rank * len(options.row) * len(fields) * 4
    try:
        for number, changes in enumerate(options.row):
            for case in mine.one_pass(number, changes, fields):
                results[at : at + 4] = [case.n_calls, *case.worst.tolist(), case.other_bits.item()]
                at += 4
    except RuntimeError as error:
        if hasattr(mine.module, "heap_state"):
            mine.module.heap_state.alarm.tell()  # os._exit would keep it from telling
        sys.stderr.write(f"ended by {type(error).__name__}: {str(error).strip().splitlines()[0]}\n")
        sys.stderr.flush()
        os._exit(3)
    mine.meet()
    dist.destroy_process_group()


# ---------------------------------------------------------------- the parent


class Watch:
    """The ranks' processes, and when they come to an end."""

    def __init__(self, options: argparse.Namespace, n_cases: int, folder: str) -> None:
        self.options, self.folder = options, folder
        # A process that has called a driver must not fork; nothing of an emulated GPU has been used yet.
        context: Any = multiprocessing.get_context("fork" if hook.emulating() else "spawn")
        self.progress = context.Array("q", 4 * options.ranks, lock=False)
        self.results = context.Array("d", 4 * options.ranks * len(options.row) * n_cases, lock=False)
        shared = (options, self.progress, self.results, folder)
        self.ranks = [context.Process(target=rank_main, args=(rank, *shared)) for rank in range(options.ranks)]
        self.ended: dict[int, float] = {}

    def run(self) -> bool:
        """Until all have ended; False where they had to be ended."""
        for process in self.ranks:
            process.start()
        went_on, progress = time.monotonic(), self.progress[:]
        while len(self.ended) < len(self.ranks):
            time.sleep(0.05)
            now = time.monotonic()
            if self.progress[:] != progress:
                went_on, progress = now, self.progress[:]
            for rank, process in enumerate(self.ranks):
                if not process.is_alive() and rank not in self.ended:
                    self.ended[rank] = now
            lost = [rank for rank in self.ended if self.ranks[rank].exitcode]
            patience_s = self.options.limit_s - (now - went_on)
            if lost:
                waiting_s = float(os.environ["SYMMETRIC_HEAP_TIMEOUT_S"]) * WAITING_SLOWDOWN
                patience_s = min(patience_s, min(self.ended[rank] for rank in lost) + waiting_s + ENDING_S - now)
            if patience_s < 0:
                self.give_up()
                return False
        return True

    def give_up(self) -> None:
        names = ("pass", "case", "calls that are done", "calls launched")
        for rank, process in enumerate(self.ranks):
            if process.is_alive() and process.pid is not None:
                at = zip(names, self.progress[4 * rank : 4 * rank + 4], strict=True)
                print(f"rank {rank} hangs: {', '.join(f'{name} {value}' for name, value in at)}")
                os.kill(process.pid, signal.SIGUSR1)
        time.sleep(1)
        for process in self.ranks:
            process.kill()
            process.join()

    def log(self, rank: int) -> str:
        return Path(self.folder, f"rank{rank}.log").read_text(errors="replace")

    def print_logs(self) -> None:
        for rank, process in enumerate(self.ranks):
            lines = self.log(rank).strip().splitlines()[-30:]
            print(f"rank {rank}, exit code {process.exitcode}:", *lines, sep="\n    ", flush=True)


def judge_killed(watch: Watch, ended: bool) -> bool:
    """Whether all others named the killed rank and ended in time."""
    killed = watch.options.ranks - 1
    good = ended and watch.ranks[killed].exitcode == -signal.SIGKILL
    for rank in range(killed):
        took_s = watch.ended.get(rank, float("inf")) - watch.ended.get(killed, 0.0)
        said = [line for line in watch.log(rank).splitlines() if f"for rank {killed} " in line]
        good &= bool(said)
        print(f"rank {rank} ended {took_s:.1f} s after rank {killed} was killed: {said[0] if said else 'unnamed'}")
    if not good:
        watch.print_logs()
    return good


def judge_results(watch: Watch, fields: list[dict[str, Any]], ended: bool) -> bool:
    options = watch.options
    good = ended and all(process.exitcode == 0 for process in watch.ranks)
    if not good:
        watch.print_logs()
        return False
    table = torch.tensor(watch.results[:]).view(options.ranks, len(options.row), len(fields), 4)
    table = table.nan_to_num(nan=float("inf"))
    l2_bound, largest_bound = BOUNDS[options.problem]
    print("pass    calls  worst L2  largest error  other bits  case")
    for number in range(len(options.row)):
        for index, case in enumerate(fields):
            n_calls, l2, largest, bits = table[:, number, index].amax(0).tolist()
            right = l2 < l2_bound and largest < largest_bound and (bits == 0 or options.bits_may_differ)
            good &= right
            mark = "" if right else "WRONG "
            print(f"{number:4}  {n_calls:7,.0f}  {l2:.2e}  {largest:13.2e}  {bits:10.0f}  {mark}{case_text(case)}")
    calls = table[0, :, :, 0].sum().item()
    print(f"{'pass' if good else 'fail'}: {calls:,.0f} calls on each of {options.ranks} ranks", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", choices=sorted(BOUNDS))
    parser.add_argument("submission")
    parser.add_argument("--ranks", type=int, default=torch.cuda.device_count())
    parser.add_argument("--calls", type=int, default=10000, help="in a pass, of all cases together")
    parser.add_argument("--cases", choices=("all", "benchmarks", "unknown"), default="all")
    parser.add_argument("--case", action="append", metavar="CASE", help="a case of your own instead, as in eval.py")
    parser.add_argument("--row", action="append", type=json.loads, metavar="JSON", help="a pass with these columns")
    parser.add_argument("--inputs", type=int, default=12, help="distinct ones of a case")
    parser.add_argument("--jitter-us", type=float, default=300, help="how late a rank may be")
    parser.add_argument("--kill", action="store_true", help="kill the last rank halfway")
    parser.add_argument("--bits-may-differ", action="store_true", help="from call to call of the same input")
    parser.add_argument("--limit-s", type=float, default=240)
    parser.add_argument("--tell-s", type=float, default=5, help="between lines of progress")
    options = parser.parse_args()
    options.row = options.row or [{}]
    if options.problem == "amd-all2all" and any(options.row):
        parser.error("amd-all2all has no tuning table: no --row")
    os.environ.setdefault("SYMMETRIC_HEAP_TIMEOUT_S", "2" if options.kill else "20")
    fields = chosen_cases(options)
    with tempfile.TemporaryDirectory() as folder:
        watch = Watch(options, len(fields), folder)
        ended = watch.run()
        return 0 if (judge_killed(watch, ended) if options.kill else judge_results(watch, fields, ended)) else 1


if __name__ == "__main__":
    sys.exit(main())
