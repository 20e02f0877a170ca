"""Calls as a harness row says: timed on its clock, back to back, under a profiler. Runs in the worker.

Each function here is the counterpart of one in the official evaluators.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from forge.judge.compare import describe_output, foreign_objects
from forge.judge.ranks import Ranks
from forge.judge.results import us_of
from forge.task.harness import MIB, Harness
from forge.task.problem import Case

FLUSH_SHARE = 2  # a flush that this card cannot hold takes half of the free memory
# Back to back: calls in a round, rounds, and seconds for each and all of them; slow kernels are called less often.
BACK_TO_BACK_CALLS, BACK_TO_BACK_ROUNDS, BACK_TO_BACK_S = 20, 5, 2.0


def _no_gpu_to_wait_for() -> None:
    """synchronize() where torch sees no GPU at all."""


@dataclass
class Task:
    """A problem, and in a worker its submission, with functions captured before that was imported."""

    generate_input: Callable[..., Any]
    check_implementation: Callable[[Any, Any], Any]
    ref_kernel: Callable[[Any], Any] | None
    settle: Callable[[Any], Any] | None  # makes data on which rounding decides nothing
    probe: Callable[[Any], Any] | None  # makes data on which nothing that is left out hides
    harness: Harness
    phase: Callable[[str], None]  # tells the evaluator what is being done
    timed: bool  # False on an emulated device: every case runs once
    synchronize: Callable[[], None]
    event: Callable[..., Any] | None
    reseed: Callable[[], None]
    custom_kernel: Callable[[Any], Any] = lambda data: None
    clock_ns: Callable[[], int] = time.perf_counter_ns
    check_s: float = 0.0  # how long the last check took: about one run of the reference
    redraw: Callable[[Any], Any] | None = None  # of a large input makes another, by drawing anew what decides
    part: Callable[[Any, Any, Callable[[int, str], Any]], Any] | None = None  # of both, rows that depend on no other

    def data(self, args: Case) -> Any:
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


def synchronize_function() -> Callable[[], None]:
    return torch.cuda.synchronize if torch.cuda.is_available() else _no_gpu_to_wait_for


def timed_call(task: Task, ranks: Ranks, data: Any, flush: Callable[[], None]) -> tuple[Any, float, float]:
    """(output, nanoseconds, late nanoseconds) of one call on the harness's clock.

    Late: how much longer than the last event the GPU worked, on a stream that the events do not see.

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
        end.synchronize()
        end_ns = task.clock_ns()
        task.synchronize()
        return output, start.elapsed_time(end) * 1e6, task.clock_ns() - end_ns
    flush()
    task.synchronize()
    ranks.barrier()
    start_ns = task.clock_ns()
    output = task.custom_kernel(ranks.call_input(data))
    task.synchronize()
    ranks.barrier()
    return output, task.clock_ns() - start_ns, 0.0


def run_back_to_back(task: Task, ranks: Ranks, data: Any) -> tuple[dict[str, Any], Any]:
    """Events around calls that follow each other without a pause, on the same data: (times, the last output).

    Nothing stands between two calls: no barrier, no copy, no flush. So the launches hide behind the kernels, and
    ranks that are ahead call again while others still work. Short of events, the host's clock. The times are fields of
    forge.judge.messages.CalledBackToBack.
    """
    task.phase("back to back")
    rounds = Rounds()
    calls, output = back_to_back_rounds(task, ranks, data, rounds)
    return {"rounds_us": tuple(rounds.us), "host_rounds_us": tuple(rounds.host_us), "calls": calls}, output


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


def profile(task: Task, data: Any) -> tuple[Any, str]:
    """(output, table) of one call under torch's profiler; on an emulated device just the call."""
    if not task.timed:
        return task.kernel(data), ""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        output = task.kernel(data)
    return output, profiler.key_averages().table(sort_by="self_cuda_time_total", row_limit=20)
