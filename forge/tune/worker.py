"""The judging worker, with the commands of the tuner: one case, many rows."""

import ast
from typing import Any

from forge.judge.messages import COMMANDS as JUDGE_COMMANDS
from forge.judge.worker import Fields, SubmissionWorker
from forge.tune import messages


class TuningWorker(SubmissionWorker):
    commands = JUDGE_COMMANDS + messages.COMMANDS

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.handlers |= {
            messages.BeginTuning: self.begin,
            messages.RunRow: self.run_row,
            messages.CheckRow: lambda _: self.answer(messages.RowChecked, lambda: self.bench.check_row()),
            messages.TimeRow: self.time_row,
        }

    def import_ours(self) -> None:
        super().import_ours()
        from forge.tune import candidates

        self.candidates = candidates

    def after_failure(self) -> Fields:
        try:
            self.task.synchronize()
        except Exception:  # a GPU that faulted answers nothing any more in this process; or nothing was loaded
            return {"lost": True}
        return {}

    def begin(self, command: messages.BeginTuning) -> None:
        def begin() -> Fields:
            world_size = None if command.rank is None else int(command.args["world_size"])
            self.join(world_size, command.rank, command.port)
            if not self.setup.timed:
                self.device.count_work()
            with self.no_grad():
                self.bench = self.candidates.Bench(self.task, self.ranks, self.submission, command.args, command.rel_l2)
            return {}

        self.answer(messages.TuningBegun, begin)

    def run_row(self, command: messages.RunRow) -> None:
        def run() -> Fields:
            self.device.case_report()  # drop what was launched before
            key = None if command.key is None else ast.literal_eval(command.key)
            with self.no_grad():
                found = self.bench.run_row(key, command.row)
            return {**found, "device_report": self.device.case_report()}

        self.answer(messages.RowRun, run)

    def time_row(self, command: messages.TimeRow) -> None:
        def time_it() -> Fields:
            with self.no_grad():
                return self.bench.time_row(command.best_us)

        self.answer(messages.RowTimed, time_it)


WORKER = TuningWorker
