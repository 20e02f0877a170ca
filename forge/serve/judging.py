"""The thread that judges what a queue holds, by processes that stay warm."""

import sqlite3
import sys
import threading
import time
from collections import Counter

from forge.bulk.judge import Judge
from forge.bulk.verdict import Verdict
from forge.serve.queue import Queue

LOOKS_EVERY_S = 0.2


class Judging(threading.Thread):
    def __init__(self, queue: Queue, judge: Judge) -> None:
        super().__init__(name="judging")
        self.queue, self.judge = queue, judge
        self.stopped = threading.Event()
        self.told: list[Verdict] = []  # that the disk has no room for yet
        self.trouble = ""  # what it says of that
        self.statuses: Counter[str] = Counter()
        self.seconds = 0.0

    def run(self) -> None:
        try:
            with self.judge:
                while not self.stopped.is_set():
                    self.step()
            self.queue.give_back()
        except BaseException as error:
            self.trouble = f"{type(error).__name__}: {error}"
            raise

    def step(self) -> None:
        try:
            while self.told:
                self.queue.end(self.told[0])
                self.told.pop(0)
            while self.judge.free and not self.told and (order := self.queue.take()) is not None:
                self.judge.add(order)
            self.trouble = ""
        except sqlite3.Error as error:
            if not self.trouble:
                print(f"forge serve: the queue: {error}", file=sys.stderr, flush=True)
            self.trouble = str(error)
            time.sleep(LOOKS_EVERY_S)
        if not self.judge.busy:
            self.stopped.wait(LOOKS_EVERY_S)
        for verdict in self.judge.hear(LOOKS_EVERY_S):
            self.statuses[verdict.status] += 1
            self.seconds += verdict.elapsed_s
            self.told.append(verdict)
