"""Which process of a pool runs which rank of a case."""

import random


class RankOrder:
    """Another process for each rank in each case, as on the leaderboard.

    There a multiprocessing pool gives a case's ranks to whichever of its processes ask first. So what a submission
    keeps in a process from case to case comes to belong to another rank, and to another GPU. Here each process gets
    another rank than in the case before, drawn from the run's seed: the same command gives the same order again.
    """

    def __init__(self, processes: int, seed: int | None, fixed: bool = False) -> None:
        """fixed: rank i in process i, always: easier than the leaderboard, for finding out what goes wrong there."""
        self.processes, self.fixed = processes, fixed
        self._random = random.Random(seed or 0)
        self._before: list[int] = []

    def next(self, ranks: int) -> list[int]:
        """The processes of ranks 0, 1, ... in the next case."""
        order = list(range(self.processes))
        if not self.fixed and self.processes > 1:
            self._random.shuffle(order)
            while any(now == before for now, before in zip(order[:ranks], self._before)):
                self._random.shuffle(order)
        self._before = order[:ranks]
        return self._before
