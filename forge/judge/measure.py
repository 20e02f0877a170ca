"""The runs themselves, as a harness row says: call the kernel, check it, time it. Runs in the worker.

Each function here is the counterpart of one in the official evaluators. Verdicts are the official check's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from forge.judge.compare import copy_data, copy_to_rank, describe_output, foreign_objects
from forge.judge.timing import Stats, should_stop, summarize
from forge.task.harness import GIB, MIB, Harness, Repeats

FLUSH_SHARE = 2  # a flush takes at most half of the free memory
# Back to back: calls in a round, rounds, and seconds for each and all of them; slow kernels are called less often.
BACK_TO_BACK_CALLS, BACK_TO_BACK_ROUNDS, BACK_TO_BACK_S = 20, 5, 2.0


def _no_gpu_to_wait_for() -> None:
    """synchronize() where torch sees no GPU at all."""


@dataclass
class Task:
    """A problem and a submission, with what judges them, captured before the latter was imported."""

    generate_input: Callable[..., Any]
    check_implementation: Callable[[Any, Any], Any]
    ref_kernel: Callable[[Any], Any] | None
    custom_kernel: Callable[[Any], Any]
    harness: Harness
    phase: Callable[[str], None]  # tells the evaluator what is being done
    timed: bool  # False on an emulated device: every case runs once
    synchronize: Callable[[], None]
    event: Callable[..., Any] | None
    reseed: Callable[[], None]
    clock_ns: Callable[[], int] = time.perf_counter_ns
    check_s: float = 0.0  # how long the last check took: about one run of the reference

    def data(self, args: dict[str, Any]) -> Any:
        self.phase("generate_input")
        self.reseed()  # for the problems that draw from torch's global generator
        return self.generate_input(**args)

    def kernel(self, data: Any) -> Any:
        self.phase("custom_kernel")
        self.synchronize()
        output = self.custom_kernel(data)
        self.synchronize()
        return output

    def judge(self, data: Any, output: Any) -> tuple[bool, str]:
        """The official check, of an output that can be trusted to be what it looks like."""
        foreign = foreign_objects(output)
        return (False, "; ".join(foreign)) if foreign else self.check(data, output)

    def check(self, data: Any, output: Any) -> tuple[bool, str]:
        """The problem's verdict. Old problems return a text that is empty when all is well."""
        self.phase("check_implementation")
        started_ns = self.clock_ns()
        try:
            verdict = self.check_implementation(data, output)
        except Exception as error:  # most references take the output's type and shape for granted
            text = f"check_implementation raised {type(error).__name__}: {error}"
            return False, f"{text}; custom_kernel returned {describe_output(output)}"
        self.check_s = (self.clock_ns() - started_ns) / 1e9
        good, message = verdict if isinstance(verdict, tuple) else (not bool(verdict), verdict)
        return bool(good), str(message or "")


@dataclass
class Outcome:
    """What a run found. `output` is the one that was judged, for the comparison that follows."""

    good: bool
    message: str
    output: Any
    args: dict[str, Any]  # of the run that made `output`: rechecks change the seed
    stats: Stats | None = None


def synchronize_function() -> Callable[[], None]:
    return torch.cuda.synchronize if torch.cuda.is_available() else _no_gpu_to_wait_for


def run_test(task: Task, args: dict[str, Any]) -> Outcome:
    data = task.data(args)
    output = task.kernel(copy_data(data, task.harness.copy))
    good, message = task.judge(data, output)
    return Outcome(good, message, output, args)


def run_rank_test(task: Task, args: dict[str, Any], rank: int) -> Outcome:
    args = {**args, "rank": rank}
    data = task.data(args)
    output = task.kernel(copy_to_rank(data, rank))
    good, message = task.judge(data, output)
    return Outcome(good, message, output, args)


def run_benchmark(task: Task, args: dict[str, Any], repeats: Repeats, recheck: bool) -> Outcome:
    """One checked call, then timed ones: on the same data, or (recheck) on fresh data, each checked."""
    harness = task.harness
    args = dict(args)
    data = task.data(args)
    checked = copy_data(data, harness.copy)
    output = task.kernel(data)
    good, message = task.judge(checked, output)
    if not good or not task.timed:
        return Outcome(good, message, output, args)
    flush = flush_function(harness)
    durations: list[float] = []
    started = task.clock_ns()
    while True:
        if recheck:
            if "seed" in args:
                args["seed"] += harness.seed_step
            data = task.generate_input(**args)
            checked = copy_data(data, harness.copy)
            task.phase(f"timed run {len(durations)}")
        flush()
        output, duration_ns = timed_call(task, data)
        if recheck:
            good, message = task.judge(checked, output)
            if not good:
                return Outcome(False, message, output, args)
        durations.append(duration_ns)
        if should_stop(durations, (task.clock_ns() - started) / 1e9, harness, repeats):
            return Outcome(True, message, output, args, summarize(durations))


def timed_call(task: Task, data: Any) -> tuple[Any, float]:
    """(output, nanoseconds) of one call."""
    task.synchronize()
    if task.harness.clock == "events" and task.event is not None:
        start, end = task.event(enable_timing=True), task.event(enable_timing=True)
        start.record()
        output = task.custom_kernel(data)
        end.record()
        task.synchronize()
        return output, start.elapsed_time(end) * 1e6
    start_ns = task.clock_ns()
    output = task.custom_kernel(data)
    task.synchronize()
    return output, task.clock_ns() - start_ns


def run_rank_benchmark(task: Task, args: dict[str, Any], rank: int, repeats: Repeats, recheck: bool) -> Outcome:
    """The multi-rank benchmark: rank 0's host clock from barrier to barrier, the input's copy included."""
    harness = task.harness
    args = {**args, "rank": rank}
    data = task.data(args)
    checked = copy_to_rank(data, rank)
    output = task.kernel(copy_to_rank(data, rank))
    good, message = task.judge(checked, output)
    if not task.timed or any_rank(rank, not good)[0]:
        return Outcome(good, message, output, args)
    flush = flush_function(harness)
    durations: list[float] = []
    started = task.clock_ns()
    while True:
        if recheck:
            if "seed" in args:
                args["seed"] += harness.seed_step
            data = task.generate_input(**args)
            checked = copy_to_rank(data, rank)
            task.phase(f"timed run {len(durations)}")
        flush()
        output, duration_ns = timed_rank_call(task, data, rank)
        durations.append(duration_ns)
        if recheck:
            good, message = task.judge(checked, output)
        enough = should_stop(durations, (task.clock_ns() - started) / 1e9, harness, repeats)
        failed, stop = any_rank(rank, not good, enough and rank == 0)
        if failed or stop:
            return Outcome(good, message, output, args, None if failed else summarize(durations))


def timed_rank_call(task: Task, data: Any, rank: int) -> tuple[Any, float]:
    """(output, nanoseconds) of one call of all ranks, the copy of the input included."""
    import torch.distributed as dist

    task.synchronize()
    dist.barrier()
    start_ns = task.clock_ns()
    output = task.custom_kernel(copy_to_rank(data, rank))
    task.synchronize()
    dist.barrier()
    return output, task.clock_ns() - start_ns


def run_back_to_back(task: Task, args: dict[str, Any], rank: int | None) -> dict[str, Any]:
    """Events around calls that follow each other without a pause, on the same data; the last output is checked.

    Nothing stands between two calls: no barrier, no copy, no flush. So the launches hide behind the kernels, and
    ranks that are ahead call again while others still work. Short of events, the host's clock.
    """
    args = args if rank is None else {**args, "rank": rank}
    data = task.data(args)
    checked = copy_data(data, task.harness.copy) if rank is None else copy_to_rank(data, rank)
    data = data if rank is None else copy_to_rank(data, rank)
    task.phase("back to back")
    rounds = Rounds()
    calls, output = back_to_back_rounds(task, data, rank, rounds)
    problem = ""
    if task.harness.copy == "tensors":  # others' calls change their input: the last one's is not the first one's
        good, message = task.judge(checked, output)
        problem = "" if good else f"the output of the last call is wrong: {message}"
    return {"rounds_us": rounds.us, "host_rounds_us": rounds.host_us, "calls": calls, "problem": problem}


@dataclass
class Rounds:
    """Rounds of calls without a pause on one rank: a call's part of each."""

    us: list[float] = field(default_factory=list)  # until the last one's work was done
    host_us: list[float] = field(default_factory=list)  # until it had returned: what a call takes of its thread


def back_to_back_rounds(
    task: Task, data: Any, rank: int | None, rounds: Rounds, enough: Callable[[], bool] = lambda: False
) -> tuple[int, Any]:
    """Appends each round's times. Returns (calls in a round, the last output).

    `enough`, asked after each round, ends it early; it must say the same on all ranks.
    """
    _together(rank)
    started_ns = task.clock_ns()
    output = task.custom_kernel(data)
    _synchronize(rank)
    call_s = largest(rank, (task.clock_ns() - started_ns) / 1e9)
    calls = max(1, min(BACK_TO_BACK_CALLS, int(BACK_TO_BACK_S / call_s)))
    for _ in range(max(1, min(BACK_TO_BACK_ROUNDS, int(BACK_TO_BACK_S / (call_s * calls))))):
        _together(rank)
        start = _mark(task, rank)
        started_ns = task.clock_ns()
        for _ in range(calls):
            output = task.custom_kernel(data)
        returned_ns = task.clock_ns()
        end = _mark(task, rank)
        _synchronize(rank)
        us = (task.clock_ns() - started_ns) / 1e3 if start is None else start.elapsed_time(end) * 1e3
        rounds.us.append(us / calls)
        rounds.host_us.append((returned_ns - started_ns) / 1e3 / calls)
        if enough():
            break
    return calls, output


def _mark(task: Task, rank: int | None) -> Any:
    """An event on the rank's own GPU, which the harness does not make the current one; None without GPU events."""
    if task.event is None:
        return None
    event = task.event(enable_timing=True)
    event.record(torch.cuda.current_stream(rank))
    return event


def _synchronize(rank: int | None) -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize(rank)


def _together(rank: int | None) -> None:
    """Waits until all ranks are here, their GPUs idle."""
    _synchronize(rank)
    if rank is not None:
        import torch.distributed as dist

        dist.barrier()
        _synchronize(rank)


def largest(rank: int | None, value: float) -> float:
    """The largest of all ranks' values, the same on each."""
    if rank is None:
        return value
    import torch.distributed as dist

    tensor = torch.tensor([value], dtype=torch.float64, device=f"cuda:{rank}")
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return float(tensor.item())


def any_rank(rank: int, *flags: bool) -> list[bool]:
    """Each flag, true if it is on any rank: so all ranks leave a loop together, and none waits in a barrier."""
    import torch.distributed as dist

    tensor = torch.tensor([int(flag) for flag in flags], device=f"cuda:{rank}")
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return [bool(flag) for flag in tensor.tolist()]


def flush_function(harness: Harness) -> Callable[[], None]:
    """Writes as many bytes as the harness does, on the current device, or as many as this GPU can spare."""
    wanted = harness.l2_flush_bytes
    if not wanted or not torch.cuda.is_available():
        return lambda: None
    size = flush_bytes(wanted, torch.cuda.mem_get_info()[0])

    def flush() -> None:
        torch.empty(size // 8, dtype=torch.int64, device="cuda").fill_(42)

    return flush


def flush_bytes(wanted: int, free: int) -> int:
    """62.5 GiB do not fit on most cards: then half of what is free, and never less than 256 MiB."""
    return min(wanted, max(free // FLUSH_SHARE, 256 * MIB)) if wanted > GIB else wanted


def run_profile(task: Task, args: dict[str, Any], rank: int | None) -> tuple[Outcome, str]:
    """One checked call under torch's profiler, and its table; on an emulated device just the call."""
    args = args if rank is None else {**args, "rank": rank}
    data = task.data(args)
    copied = copy_data(data, task.harness.copy) if rank is None else copy_to_rank(data, rank)
    if not task.timed:
        output = task.kernel(copied)
        good, message = task.judge(data, output)
        return Outcome(good, message, output, args), ""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        output = task.kernel(copied)
    good, message = task.judge(data, output)
    return Outcome(good, message, output, args), profiler.key_averages().table(
        sort_by="self_cuda_time_total", row_limit=20
    )
