"""The protocol of a case, whole: who makes what, who calls, who judges, in which order.

A rank has two processes. The referee (forge/judge/referee.py) makes its inputs and judges its outputs; the worker
(forge/judge/worker.py) runs the submission. Bytes pass between them, through memory that both map (exchange.py).

    emulated    input 0, call, judge; in benchmark mode the same once more, of which a time is modelled; other data
                at the same addresses, call, judge; other data elsewhere, call, judge; then the first output is looked
                at again. Of a large case in benchmark and profile mode two calls instead, of which some workgroups
                run, for a modelled time; a small case is judged for it
    a real GPU  input 0, call, judge; timed calls on the harness's clock (in leaderboard mode each on new data, judged;
                in benchmark mode on the same, the output of one of them, chosen at random, judged);
                in benchmark mode, timed calls on other data, judged, in turns with the same, and calls back to back;
                then the other calls, as above

The first input is the case's own. The seeds of all others are drawn here, when they are needed: nothing that a
submission could read, in its process or in the shared memory, says what comes next. A problem whose tolerance hides too
much states a probe (`precision` in its task.yml): its last call gets larger numbers and no bias, and is judged by its
relative error.
"""

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from forge.device.report import CaseReport
from forge.judge import messages
from forge.judge.forecast import sample_text
from forge.judge.memory import lacking
from forge.judge.output import Output
from forge.judge.plan import LARGE_INSTRUCTIONS, LARGE_TORCH_FLOPS, MOST_JUDGED_INSTRUCTIONS, MOST_SAMPLED, EvalPlan
from forge.judge.results import CaseResult, Status
from forge.judge.timing import back_to_back_of, should_stop, summarize
from forge.judge.what_ran import AGAIN, look, report_of, shorter, with_found, worst_accuracy
from forge.judge.worker_pool import RankAnswer, WorkerPool, device_report, first_cause
from forge.task.cases import CaseSpec
from forge.task.problem import Case

WHERE = ("elsewhere", "same", "elsewhere")  # the input of each call: of the second, where the first one's was
SAID = ("", "other data at the same addresses", "other data elsewhere")
FRESH_ROUNDS = 3  # of timed calls on other data, and on the same
LATE_NS, LATE_RATIO = 30e3, 0.25  # of a timed call: what waiting for an idle GPU may take; of the time that it tells
FRESH_DRAW = 10  # draws from here on are those of timed calls
FRESH_RATIO = 5.0  # from which on other data is so much slower that the same data must have been known
BACK_TO_BACK_LIMIT_S = 60.0  # for calls in a row, beside the check: they are counted to take some seconds
DEVICE_SAYS, REFUSED, MOST_REFUSALS = "cdna: ", ": refused: ", 3
SMALL_INSTRUCTIONS, CHECKED = 200_000, 1 / 32  # of a call, a share of a second; of the others' later calls
SMALL_BYTES = 64 << 20  # of a smaller input what judging takes says nothing
GOODBYE_S = 20.0  # for a rank to leave its process group

_draws = random.SystemRandom()


class Ended(Exception):
    """The case has its verdict before its end: what one rank answered, or did."""

    def __init__(self, problem: RankAnswer[Any], what: str = "", beside: bool = False) -> None:
        self.problem, self.what, self.beside = problem, what, beside  # beside: in a call that is no official one


class CaseRun:
    """One case, on as many ranks as it has. A pool that has lost a process has stopped."""

    def __init__(
        self,
        plan: EvalPlan,
        pool: WorkerPool,
        referees: WorkerPool,
        case: CaseSpec,
        try_sample: bool = False,
        whole: Callable[[CaseReport, float], None] = lambda report, torch_flops: None,
    ) -> None:
        """whole: called where a sample was tried, and all of the case is emulated after all, with what was counted."""
        self.plan, self.pool, self.referees, self.case = plan, pool, referees, case
        self.ranks, self.try_sample, self.whole = plan.ranks_of(case), try_sample, whole
        self.timed = not plan.device.emulated
        self.result = CaseResult(case.index, case.spec, Status.PASS)
        self.calls = 1 if plan.mode == "profile" else plan.calls
        self.outputs: dict[int, list[Output]] = {}  # each rank's, as its worker told it, by draw
        self.called: dict[int, list[RankAnswer[messages.Called]]] = {}
        self.check_s = 0.0
        self.keeps_first = (
            self.timed and plan.mode == "leaderboard" or plan.mode == "benchmark" and (self.timed or self.calls > 1)
        )  # the first input is needed after its call has been judged
        self.late: list[bool] = []  # of each timed call, whether the GPU worked on after its last event
        self.large = False  # whether the last input that was made leaves no room for another
        self.input_bytes = 0  # of it, on all ranks
        self.anew = pool.anew  # None: nothing is made anew, or no more
        self.made_anew: set[int] = set()  # draws whose output was
        self.checked: dict[int, str] = {}  # which of the device's checks run in each call
        self.call_times_s: list[float] = []  # on the workers' clock
        self.touched = False  # whether the first call wrote to its input: a later one has other data then

    def run(self, warm_up: bool = False) -> CaseResult:
        """warm_up: on a real GPU, the calls that the harness makes before it begins."""
        started, mode = time.monotonic(), self.plan.mode
        try:
            self.begin()
            if self.is_sample():
                pass
            elif not self.plan.judged:
                self.bare_calls()
            elif not self.keeps_first:
                self.judged_calls(range(self.calls))
            else:
                self.judged_calls([0])
                if self.timed:
                    self.timed_calls(warm_up)
                else:
                    self.counted_call()
                if not warm_up:
                    self.try_other_data()
                    self.judged_calls(range(1, self.calls))
            if not self.plan.judged:
                self.result.status = Status.UNJUDGED
            elif not warm_up and self.calls == len(WHERE) and self.result.status is not Status.SAMPLED:
                self.look_again()
            if self.timed and mode == "benchmark" and not warm_up and self.plan.back_to_back:
                self.call_back_to_back()
            if self.pool.workers:
                self.end()
        except Ended as ended:
            self.end_with(ended)
        self.tell_what_ran()
        self.result.elapsed_s = time.monotonic() - started
        first, *later = self.call_times_s or [0.0]
        self.result.steady_s = self.result.elapsed_s - max(first - max(later, default=first), 0.0)
        return self.result

    # ------------------------------------------------------------ steps

    def begin(self) -> None:
        self.pool.assign(self.ranks)
        self.referees.assign(self.ranks)
        command = messages.BeginCase(self.ranks)  # a worker has its own exchange, a referee all
        theirs = [replace(command, exchange=number) for number in self.pool.assigned]
        for pool, commands in ((self.referees, theirs), (self.pool, command)):
            _, problem = pool.begin(messages.CaseBegun, commands)
            if problem is not None:
                raise self.ended(problem, 0)
        if self.anew is not None:
            self.anew.assign(None)
            if self.anew.begin(messages.CaseBegun, messages.BeginCase())[1] is not None:
                self.anew = None
        if self.pool.grouped:
            self.result.processes = tuple(self.pool.assigned)

    def judged_calls(self, draws: Sequence[int]) -> None:
        """Calls, each judged while the next one runs: its input comes only once the one before has ended.

        Large inputs are there one at a time: then each call is judged before the next one's input is made.
        """
        if draws:
            self.make(draws[0])
            draws = self.that_fit(draws)
        layouts = self.hand_over(draws[0]) if draws else []
        large = self.large
        for draw in draws:
            after = draw + 1 if draw + 1 in draws else None
            self.pool.tell([self.call_of(draw, layout) for layout in layouts])
            ended = None
            try:
                if draw - 1 in draws and not large:
                    self.judge(draw - 1)
                if after is not None and not large:
                    self.make(after)
            except Ended as error:
                ended = error
            if ended is not None and not self.pool.workers:
                raise ended
            heard = self.hear_calls(draw, first=ended)
            self.result.call_s = min(self.result.call_s or math.inf, max(one.answer.call_s for one in heard))
            self.called[draw], self.outputs[draw] = heard, [one.answer.output for one in heard]
            self.make_anew(draw)
            if large or after is None:
                self.judge(draw)
            if after is not None:
                layouts = self.hand_over(self.make(after) if large else after)

    def that_fit(self, draws: Sequence[int]) -> Sequence[int]:
        """The first one alone where the host's memory does not hold what the others need."""
        if self.timed or draws[0] != 0 or self.calls == 1:
            return draws
        if why := lacking(self.input_bytes, self.large, self.referees.took):
            unseen = "what is wrong from the second on does not show"
            self.result.buts.append(f"one call of {self.calls}, for want of memory: {why}; {unseen}")
            self.calls = 1
        return draws[: self.calls]

    def is_sample(self) -> bool:
        """Whether the case is so large that a sample of it has to do, and then its time: of the second call, for what a
        first call prepares is over."""
        if not self.try_sample:
            return False
        layouts = self.hand_over(self.make(0))
        report = CaseReport()
        seconds, torch_flops, small = 0.0, 0, False
        for where in ("elsewhere", "same"):
            started = time.monotonic()
            try:
                self.call_sample(layouts, where)
            except Ended as ended:  # as where workgroups wait for others that do not run: all of it is emulated then
                small = True
                if ended.problem.lost:
                    self.begin_again(ended)
                break
            report, seconds = device_report(self.called[0]), time.monotonic() - started
            all_of, run = report.total("wave_instructions"), report.total("wave_instructions_run")
            torch_flops = self.torch_total("left_out_flops")
            saves = run <= MOST_SAMPLED * all_of or all_of >= MOST_JUDGED_INSTRUCTIONS
            small = torch_flops < LARGE_TORCH_FLOPS and not (all_of >= LARGE_INSTRUCTIONS and saves)
            if small:
                break
        if small:
            torch_flops = self.torch_total("flops") if self.called else 0
            self.called.clear()
            self.result.seeds.clear()
            self.whole(report, torch_flops)
            return False
        self.result.status = Status.SAMPLED
        torch = self.torch_total("left_out"), self.torch_total("left_out_flops")
        self.result.buts.append(sample_text(report, seconds, self.calls, torch))
        if self.pool.anew is not None:
            self.result.buts.append("nothing of a sample is made anew: its time is what the submission's process tells")
        return True

    def call_sample(self, layouts: Sequence[bytes], where: str) -> None:
        how = messages.Call(
            None, where, how="checked", watched=True, checks="none", count=True, sample=self.plan.sample
        )
        self.pool.tell([replace(how, layout=layout) for layout in layouts])
        self.called[0] = self.hear_calls(0)

    def count(self) -> tuple[CaseReport, float]:
        """What a call executes, as a sample of it says, and torch's FLOPs; nothing is judged, nor told if it fails."""
        try:
            self.begin()
            self.call_sample(self.hand_over(self.make(0)), "elsewhere")
            counted = device_report(self.called[0]), self.torch_total("flops")
            self.end()
        except Ended:
            return CaseReport(), 0.0
        return counted

    def torch_total(self, what: str) -> int:
        """Of torch's own operations in a sample, on all ranks; what: one of TorchWork's numbers."""
        return sum(getattr(one.answer.torch_work, what) for one in self.called[0])

    def begin_again(self, ended: Ended) -> None:
        self.pool.stop()
        self.referees.stop()
        if self.referees.ensure_started() is not None or self.pool.ensure_started() is not None:
            raise ended
        self.begin()

    def call_of(self, draw: int, layout: bytes) -> messages.Call:
        mode, first = self.plan.mode, draw == 0
        how = "profile" if mode == "profile" else "checked" if first and mode != "test" else "test"
        where = "same" if draw == AGAIN else WHERE[draw]
        told: dict[str, Any] = {
            "checks": self.checked.setdefault(draw, self.checks(draw)),
            "count": self.counts(draw),
            "journal": self.pool.anew is not None,
        }
        return messages.Call(layout, where, draw % 2, how, watched=True, **told)

    def counts(self, draw: int) -> bool:
        return self.plan.mode in ("benchmark", "profile") and (draw in (AGAIN, 1) or self.calls == 1)

    def checks(self, draw: int) -> str:
        """Which of the device's checks run in a call. They take several times as long as what they look at: so all in
        each of a small case's, and of a large one's in the first and in those that are drawn as they come. Where the
        first stores outside its tensors, the others' stores there are dropped, too: they would damage the worker."""
        first = device_report(self.called[0]) if 0 in self.called else CaseReport()
        small = first.total("wave_instructions") <= SMALL_INSTRUCTIONS
        if draw == 0 or small or _draws.random() < CHECKED:
            return "all"
        return "bounds" if any(one.kind == "bounds" for one in first.all_findings()) else "none"

    def counted_call(self) -> None:
        """The call of which a time is modelled: of the case's own data, which its first call has prepared for, as a
        benchmark's timed ones."""
        self.pool.tell([self.call_of(AGAIN, layout) for layout in self.hand_over(0)])
        self.called[AGAIN] = self.hear_calls(AGAIN)
        self.outputs[AGAIN] = [one.answer.output for one in self.called[AGAIN]]
        self.make_anew(AGAIN)
        self.judge(AGAIN)

    def make_anew(self, draw: int) -> None:
        """A call's output, by a process that no submission has been in: what that counts takes the place of what the
        worker, who may lie, has counted."""
        if self.pool.anew is None:
            return
        called = self.called[draw][0]
        told = called.answer
        found = messages.Replayed(why=told.journal.missing or "the process that makes it anew has ended")
        if self.anew is not None and not told.journal.missing:
            handed = self.ask(self.referees, messages.HandedOver, messages.HandOver(max(draw, 0), anew=True), draw)
            layout = handed[0].answer.layout
            # A worker knows of its call's checks. Whether all look once more is drawn now that it is over.
            checked = self.checked[draw] if self.checked[draw] == "all" else self.checks(draw)
            how = draw % 2, self.counts(draw), checked
            command = messages.Replay(draw == 0, told.journal, layout, told.output, *how)
            answers, problem = self.anew.ask(messages.Replayed, command)
            found = messages.Replayed(why=problem.message[:200]) if problem is not None else answers[0].answer
            self.anew = None if problem is not None else self.anew
        if found.why:
            called.answer = replace(told, unaccounted=f"it cannot be made anew: {found.why}")
            return
        if text := shorter(told.device_report, found.us):
            raise Ended(RankAnswer(called.rank, 0.0, messages.Called(Status.TAMPERED, text)))
        self.made_anew.add(draw)
        report, work = with_found(told.device_report, found), replace(told.torch_work, flops=found.torch_flops)
        called.answer = replace(told, written=found.written, device_report=report, torch_work=work)

    def bare_calls(self) -> None:
        """For a modelled time alone: the second call's, as a benchmark's, and no output is looked at."""
        layouts = self.hand_over(self.make(0))
        for draw, where in ((0, "elsewhere"), (AGAIN, "same")):
            how = messages.Call(None, where, None, how="checked", watched=True, checks="none", count=True)
            self.pool.tell([replace(how, layout=layout) for layout in layouts])
            self.called[draw] = heard = self.hear_calls(draw)
            self.result.call_s = max(one.answer.call_s for one in heard)

    def hear_calls(self, draw: int, first: Ended | None = None) -> list[RankAnswer[messages.Called]]:
        answers, problem = self.pool.hear(messages.Called)
        if first is not None:
            raise first
        if draw == 0 or problem is not None:
            self.called[draw] = answers
        if problem is not None:
            raise self.ended(problem, draw)
        self.call_times_s.append(max(one.answer.call_s for one in answers))
        return answers

    def make(self, draw: int, args: Case | None = None) -> int:
        """Has the referees draw an input: the case's own, or one of a seed that is drawn now."""
        args, seed = dict(self.case.args), self.plan.seed
        official = draw == 0 or (self.plan.as_officially and draw >= FRESH_DRAW and "seed" in args)
        if official and draw:
            args["seed"] += self.plan.harness.seed_step * (draw - FRESH_DRAW + 1)
        elif not official:
            seed = _draws.randrange(1, 1 << 31)
            if "seed" in args:
                args["seed"] = seed
        if draw < FRESH_DRAW:
            self.result.seeds.append(args.get("seed", seed or 0))
        command = messages.MakeInput(draw, args, seed, probe=self.is_probe(draw), settle=not official)
        made = [one.answer for one in self.ask(self.referees, messages.InputMade, command, draw)]
        self.large, self.input_bytes = any(one.large for one in made), sum(one.bytes for one in made)
        self.pool.input_bytes = self.input_bytes
        return draw

    def is_probe(self, draw: int) -> bool:
        return draw == len(WHERE) - 1 and self.plan.problem.precision.probes

    def hand_over(self, draw: int) -> list[bytes]:
        handed = self.ask(self.referees, messages.HandedOver, messages.HandOver(draw), draw)
        return [one.answer.layout for one in handed]

    def judge(self, draw: int, slot: int | None = None) -> None:
        probe, keeps = self.is_probe(draw), draw == 0 and self.keeps_first
        accurate = self.plan.accuracy and draw < FRESH_DRAW
        commands = [
            messages.JudgeOutput(
                max(draw, 0), output, draw % 2 if slot is None else slot, not probe, accurate, not keeps,
                best=draw == 0 or probe,
                made_anew=draw in self.made_anew,
                share=accurate and self.plan.problem.precision.probes and not probe,
            )
            for output in self.outputs[draw]
        ]  # fmt: skip
        answers, problem = self.referees.ask(messages.Judged, commands)
        told = [one.answer for one in answers]
        if any(one.unlike for one in told):
            called = self.called[draw][0]
            called.answer = replace(called.answer, unaccounted="made anew by its launches and operations it is another")
        self.result.later_part = self.result.later_part or next((one.part for one in told), "")
        shares = [one.share for one in told if one.share is not None]
        self.result.share = min([self.result.share, *shares], key=lambda share: -abs(share - 1))
        accuracy = worst_accuracy(answers) if accurate and answers else None
        if probe:
            self.result.probe_rel_l2 = accuracy.rel_l2 if accuracy else None
        elif draw == 0:
            self.result.accuracy = accuracy
            self.check_s = max([one.check_s for one in told], default=0.0)
            if self.input_bytes >= SMALL_BYTES:
                self.referees.took.append(sum(one.check_bytes for one in told) / self.input_bytes)
            self.touched = any(one.touched for one in told)
            self.note_inputs(told, problem is None)
        elif accuracy and accuracy.rel_l2 is not None:
            self.result.later_rel_l2 = max(self.result.later_rel_l2, accuracy.rel_l2)
        if problem is not None and draw:  # the worst element is one of the call that fails
            self.result.accuracy = accuracy if accuracy and accuracy.rel_l2 is not None else None
        if problem is not None and not (draw == 0 and self.plan.as_officially and self.result.official):
            raise self.ended(self.blamed(self.referees, problem), draw)
        if self.plan.as_officially and self.result.official is False and draw == 0:
            raise Ended(RankAnswer(None, 0.0, messages.Judged(Status.FAIL, self.result.remarks[-1])))
        if draw < FRESH_DRAW:
            self.result.calls += 1
            if told[0].message and draw == 0:
                self.result.message = told[0].message

    def note_inputs(self, told: list[messages.Judged], good: bool) -> None:
        """Inputs that the kernel changed, and what official evaluators make of that."""
        if changed := list(dict.fromkeys(name for one in told for name in one.changed)):
            text = f"custom_kernel changed its input: {', '.join(changed)}"
            self.result.remarks.append(text)
        theirs = [one.officially for one in told if one.officially is not None]
        if theirs and all(theirs) is not good:
            self.result.official = all(theirs)
            said = "passes" if all(theirs) else "fails"
            self.result.remarks.append(
                f"officially this {said}: that check looks at the inputs as the kernel left them"
            )

    def look_again(self) -> None:
        """At the first output, after the later calls."""
        fetched = self.ask(self.pool, messages.Fetched, messages.FetchOutput(first=True), 0)
        again = [messages.LookAgain(one.answer.output, 0) for one in fetched]
        looked = self.ask(self.referees, messages.Looked, again, 0)
        given = any(output.inputs for output in self.outputs[0])  # the next input overwrites it
        if any(one.answer.changed for one in looked) and not given:
            self.result.remarks.append("a later call overwrites the output of an earlier one: they share their memory")

    def end(self) -> None:
        for pool, what in ((self.pool, "after its result"), (self.referees, "the judge")):
            ended, problem = pool.ask(messages.CaseEnded, messages.EndCase(), GOODBYE_S)
            if (gone := first_cause(one for one in ended if one.lost)) is not None:
                raise Ended(gone, what)
            if problem is not None:
                pool.stop()

    # ------------------------------------------------------------ times, on a real GPU

    def timed_calls(self, warm_up: bool) -> None:
        """As the harness makes them, until its rule says that these are enough."""
        harness, mode = self.plan.harness, self.plan.mode
        repeats = harness.warm_up(mode) if warm_up else harness.repeats(mode)
        durations_ns: list[float] = []
        to_judge = _draws.randrange(repeats.runs) if mode == "benchmark" and not self.touched and not warm_up else None
        started = time.monotonic()
        while True:
            if mode == "leaderboard" and not warm_up:
                durations_ns.append(self.timed_call(FRESH_DRAW + len(durations_ns), "fresh"))
            else:
                durations_ns.append(self.timed_call(None))
            if len(durations_ns) - 1 == to_judge:
                self.judge_timed()
                to_judge = None
            if should_stop(durations_ns, time.monotonic() - started, harness, repeats):
                break
        if to_judge is not None:  # that call was not needed: then the last one
            self.judge_timed()
        if not warm_up:
            self.result.stats = summarize(durations_ns)
            if sum(self.late) > len(self.late) / 2:
                self.result.buts.append(
                    "its work goes on after the event that ends a call: on a stream without a clock"
                )

    def timed_call(self, draw: int | None, where: str = "same") -> float:
        """Nanoseconds of one call as rank 0 tells them: on the input before (None), on the first (0), or on a new one,
        which is judged."""
        if draw:
            self.make(draw)
        layouts: list[Any] = [None] * len(self.pool.assigned) if draw is None else self.hand_over(draw)
        commands = [messages.Call(layout, where, how="timed", checks="none") for layout in layouts]
        told = self.ask(self.pool, messages.Called, commands, 0)[0].answer
        ns = told.ns
        self.late.append(told.late_ns > max(LATE_NS, LATE_RATIO * ns))
        if not (math.isfinite(ns) and ns > 0):
            text = f"the submission meddled with the clock: a call took {ns:g} ns"
            raise Ended(RankAnswer(None, 0.0, messages.Called(Status.TAMPERED, text)))
        if draw:
            self.judge_last(draw)
        return ns

    def judge_timed(self) -> None:
        """The output of one of the official timed calls, which cannot know that it is the one."""
        if (wrong := self.wrong_now()) is not None:
            blamed = self.blamed(self.referees, wrong)
            raise Ended(blamed, "one of the timed calls, on the same data", beside=True)

    def wrong_now(self) -> RankAnswer[messages.Judged] | None:
        """What is wrong of the last output, which is one of the case's own data."""
        fetched = self.ask(self.pool, messages.Fetched, messages.FetchOutput(), 0)
        judged = [messages.JudgeOutput(0, one.answer.output, 0, True, False, False) for one in fetched]
        return self.referees.ask(messages.Judged, judged)[1]

    def judge_last(self, draw: int) -> None:
        """The output of the last timed call."""
        fetched = self.ask(self.pool, messages.Fetched, messages.FetchOutput(), draw)
        self.outputs[draw] = [one.answer.output for one in fetched]
        self.judge(draw, slot=0)
        del self.outputs[draw]

    def try_other_data(self) -> None:
        """After the official calls of benchmark mode: calls on other data, timed and judged, in turns with the same."""
        if self.plan.mode != "benchmark" or not self.timed:
            return
        fresh_ns, same_ns = [], []
        for number in range(FRESH_ROUNDS):  # a submission cannot tell these from the others
            fresh_ns.append(self.timed_call(FRESH_DRAW + number))
            self.timed_call(0)  # warms the caches again
            same_ns.append(self.timed_call(None))
        self.result.fresh_ratio = statistics.median(fresh_ns) / statistics.median(same_ns)
        if self.result.fresh_ratio >= FRESH_RATIO:
            text = f"on other data a call takes {self.result.fresh_ratio:.1f} times as long as on data it has seen"
            self.result.buts.append(text)

    def call_back_to_back(self) -> None:
        """No verdict: the leaderboard makes no such calls."""
        limit_s = min(self.pool.limit_s, BACK_TO_BACK_LIMIT_S + 3 * self.check_s)
        commands = [messages.CallBackToBack(layout) for layout in self.hand_over(0)]
        started = time.monotonic()
        called, problem = self.pool.ask(messages.CalledBackToBack, commands, limit_s)
        self.result.back_to_back = back_to_back_of(called, problem, time.monotonic() - started)
        if problem is not None:
            self.pool.stop()
            return self.referees.stop()
        # Others' calls change their input: the last one's is not the first one's.
        if self.plan.harness.copy == "tensors" and (wrong := self.wrong_now()) is not None:
            text = f"the output of the last call is wrong: {wrong.text()}"
            self.result.back_to_back = replace(self.result.back_to_back, problem=text)

    # ------------------------------------------------------------ asking, and what came of it

    def ask(self, pool: WorkerPool, kind: Any, command: Any, draw: int) -> list[RankAnswer[Any]]:
        answers, problem = pool.ask(kind, command)
        if problem is not None:
            raise self.ended(self.blamed(pool, problem), draw)
        return answers

    def blamed(self, pool: WorkerPool, problem: RankAnswer[Any]) -> RankAnswer[Any]:
        """A lost process of the judge's own says nothing of the submission: its case was not judged."""
        if pool is not self.referees or not problem.lost or problem.answer.status is not Status.CRASH:
            return problem
        text = f"not judged: the judge's own process was lost: {problem.answer.message}"
        problem.answer = replace(problem.answer, status=Status.NOT_RUN, message=text)
        return problem

    def ended(self, problem: RankAnswer[Any], draw: int) -> Ended:
        """With what to say before the message: of which call it is."""
        if draw == 0:
            return Ended(problem)
        if draw >= FRESH_DRAW:
            return Ended(problem, "a timed call, other data", beside=self.plan.mode != "leaderboard")
        if draw == AGAIN:
            return Ended(problem, "call 2 (the same data again)", beside=True)
        seed = f", seed {self.result.seeds[draw]}" if draw < len(self.result.seeds) else ""
        return Ended(problem, f"call {draw + 1 + (AGAIN in self.called)} ({SAID[draw]}{seed})", beside=True)

    def end_with(self, ended: Ended) -> None:
        result, problem = self.result, ended.problem
        if ended.beside and self.plan.as_officially:
            result.remarks.append(f"officially this passes; {ended.what}: {problem.message}")
            self.pool.stop()
            return self.referees.stop()
        result.status = problem.status
        result.message = f"{ended.what}: {problem.message}" if ended.what else problem.message
        result.rank, result.phase, result.trace = problem.rank, problem.answer.phase, problem.answer.trace
        result.last_words, result.stats, result.buts, result.fault = problem.last_words, None, [], problem.answer.fault
        if not isinstance(problem.answer, messages.Judged) or problem.lost or not self.pool.workers:
            self.pool.stop()
            self.referees.stop()
            return
        result.last_words = self.words()
        try:
            self.end()
        except Ended:
            pass  # the verdict is there already

    def words(self) -> list[str]:
        """The last that the ranks have printed."""
        return next((words for worker in self.pool.active if (words := worker.tail.last_words())), [])

    def note_refusals(self) -> None:
        """Launches that the emulated device has refused, as it says where the submission prints."""
        printed = [*self.result.last_words, *(line for worker in self.pool.workers for line in worker.tail.lines())]
        refused = [
            line.removeprefix(DEVICE_SAYS) for line in printed if line.startswith(DEVICE_SAYS) and REFUSED in line
        ]
        self.result.remarks += [f"a launch was not made: {line}" for line in dict.fromkeys(refused)][:MOST_REFUSALS]

    def tell_what_ran(self) -> None:
        result = self.result
        if self.called:
            result.device_report = report_of(self.called)
            result.profile = self.called[0][0].answer.profile if self.called[0] else ""
        if self.pool.workers:
            result.output_bytes = sum(worker.tail.total_bytes for worker in self.pool.workers)
            if result.passed:
                result.last_words = self.words()
        self.note_refusals()
        look(self.plan, self.case, result, self.called)
