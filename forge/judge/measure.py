"""The runs themselves, as a harness row says: call the kernel, check it, time it. Runs in the worker.

Each function here is the counterpart of one in the official evaluators. Verdicts are the official check's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from forge.judge.compare import describe_output, foreign_objects
from forge.judge.ranks import Ranks
from forge.judge.results import Stats, us_of
from forge.judge.timing import should_stop, summarize
from forge.task.harness import MIB, Harness, Repeats

FLUSH_SHARE = 2  # a flush that this card cannot hold takes half of the free memory
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

    def kernel(self, data: Any, wait: bool = True) -> Any:
        """wait: before and after the call, as officially around a test's."""
        self.phase("custom_kernel")
        if wait:
            self.synchronize()
        output = self.custom_kernel(data)
        if wait:
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


def run_test(task: Task, ranks: Ranks, args: dict[str, Any]) -> Outcome:
    args = ranks.args_of(args)
    data = task.data(args)
    output = task.kernel(ranks.copy(data, task.harness.copy))
    good, message = task.judge(data, output)
    return Outcome(good, message, output, args)


def run_benchmark(task: Task, ranks: Ranks, args: dict[str, Any], repeats: Repeats, recheck: bool) -> Outcome:
    """One checked call, then timed ones: on the same data, or (recheck) on fresh data, each checked."""
    harness = task.harness
    args = ranks.args_of(args)
    data = task.data(args)
    checked = ranks.copy(data, harness.copy)
    output = task.kernel(ranks.call_input(data), wait=not task.timed)  # officially nothing waits before this check
    good, message = task.judge(checked, output)
    if not task.timed or ranks.any(not good)[0]:
        return Outcome(good, message, output, args)
    flush = flush_function(harness)
    durations_ns: list[float] = []
    started_ns = task.clock_ns()
    while True:
        if recheck:
            if "seed" in args:
                args["seed"] += harness.seed_step
            data = task.generate_input(**args)
            checked = ranks.copy(data, harness.copy)
            task.phase(f"timed run {len(durations_ns)}")
        output, duration_ns = timed_call(task, ranks, data, flush)
        durations_ns.append(duration_ns)
        if recheck:
            good, message = task.judge(checked, output)
        enough = should_stop(durations_ns, (task.clock_ns() - started_ns) / 1e9, harness, repeats)
        failed, stop = ranks.any(not good, enough and ranks.decides)
        if failed or stop:
            return Outcome(good, message, output, args, None if failed else summarize(durations_ns))


def timed_call(task: Task, ranks: Ranks, data: Any, flush: Callable[[], None]) -> tuple[Any, float]:
    """(output, nanoseconds) of one call on the harness's clock.

    Events: of one rank alone; the flush is still under way when the first is recorded, so the launch hides behind it.
    Else the host's clock, from barrier to barrier where there are several ranks, the copy of the input included.
    """
    if task.harness.clock == "events" and task.event is not None and ranks.rank is None:
        task.synchronize()
        flush()
        start, end = task.event(enable_timing=True), task.event(enable_timing=True)
        start.record()
        output = task.custom_kernel(data)
        end.record()
        task.synchronize()
        return output, start.elapsed_time(end) * 1e6
    flush()
    task.synchronize()
    ranks.barrier()
    start_ns = task.clock_ns()
    output = task.custom_kernel(ranks.call_input(data))
    task.synchronize()
    ranks.barrier()
    return output, task.clock_ns() - start_ns


def run_back_to_back(task: Task, ranks: Ranks, args: dict[str, Any]) -> dict[str, Any]:
    """Events around calls that follow each other without a pause, on the same data; the last output is checked.

    Nothing stands between two calls: no barrier, no copy, no flush. So the launches hide behind the kernels, and
    ranks that are ahead call again while others still work. Short of events, the host's clock. Returns the fields of
    forge.judge.messages.CalledBackToBack.
    """
    data = task.data(ranks.args_of(args))
    checked = ranks.copy(data, task.harness.copy)
    data = ranks.call_input(data)
    task.phase("back to back")
    rounds = Rounds()
    calls, output = back_to_back_rounds(task, ranks, data, rounds)
    problem = ""
    if task.harness.copy == "tensors":  # others' calls change their input: the last one's is not the first one's
        good, message = task.judge(checked, output)
        problem = "" if good else f"the output of the last call is wrong: {message}"
    rounds_us, host_rounds_us = tuple(rounds.us), tuple(rounds.host_us)
    return {"rounds_us": rounds_us, "host_rounds_us": host_rounds_us, "calls": calls, "problem": problem}


@dataclass
class Rounds:
    """Rounds of calls without a pause on one rank: their times per call."""

    us: list[float] = field(default_factory=list)  # until the last one's work was done
    host_us: list[float] = field(default_factory=list)  # until it had returned: what a call takes of its thread


def back_to_back_rounds(
    task: Task, ranks: Ranks, data: Any, rounds: Rounds, enough: Callable[[], bool] = lambda: False
) -> tuple[int, Any]:
    """Appends each round's times. Returns (calls in a round, the last output).

    `enough`, asked after each round, ends it early; it must say the same on all ranks.
    """
    ranks.together()
    started_ns = task.clock_ns()
    output = task.custom_kernel(data)
    ranks.synchronize()
    call_s = ranks.largest((task.clock_ns() - started_ns) / 1e9)
    calls = max(1, min(BACK_TO_BACK_CALLS, int(BACK_TO_BACK_S / call_s)))
    for _ in range(max(1, min(BACK_TO_BACK_ROUNDS, int(BACK_TO_BACK_S / (call_s * calls))))):
        ranks.together()
        start = _mark(task, ranks)
        started_ns = task.clock_ns()
        for _ in range(calls):
            output = task.custom_kernel(data)
        returned_ns = task.clock_ns()
        end = _mark(task, ranks)
        ranks.synchronize()
        us = us_of(task.clock_ns() - started_ns) if start is None else start.elapsed_time(end) * 1e3
        rounds.us.append(us / calls)
        rounds.host_us.append(us_of(returned_ns - started_ns) / calls)
        if enough():
            break
    return calls, output


def _mark(task: Task, ranks: Ranks) -> Any:
    """An event on the rank's own GPU, which the harness does not make the current one; None without GPU events."""
    if task.event is None:
        return None
    event = task.event(enable_timing=True)
    event.record(torch.cuda.current_stream(ranks.rank))
    return event


def flush_function(harness: Harness) -> Callable[[], None]:
    """Writes as many bytes as the harness does, on the current device, or as many as this card can spare."""
    wanted = harness.l2_flush_bytes
    if not wanted or not torch.cuda.is_available():
        return lambda: None
    size = flush_bytes(wanted, *torch.cuda.mem_get_info())

    def flush() -> None:
        torch.empty(size // 8, dtype=torch.int64, device="cuda").fill_(42)

    return flush


def flush_bytes(wanted: int, free: int, total: int) -> int:
    """62.5 GiB do not fit on most cards: there half of what is free, and never less than 256 MiB. On a card that has
    as much, all of it, whatever is free: a submission that leaves no room fails there as on the leaderboard."""
    return wanted if wanted < total else max(free // FLUSH_SHARE, 256 * MIB)


def run_profile(task: Task, ranks: Ranks, args: dict[str, Any]) -> tuple[Outcome, str]:
    """One checked call under torch's profiler, and its table; on an emulated device just the call."""
    if not task.timed:
        return run_test(task, ranks, args), ""
    args = ranks.args_of(args)
    data = task.data(args)
    copied = ranks.copy(data, task.harness.copy)
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        output = task.kernel(copied)
    good, message = task.judge(data, output)
    table = profiler.key_averages().table(sort_by="self_cuda_time_total", row_limit=20)
    return Outcome(good, message, output, args), table
