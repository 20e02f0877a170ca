"""What a folder's own eval.py logs: the official evaluators' keys, read as they come."""

import base64
import contextlib
import json
import time
from collections.abc import Callable, Sequence

from forge.judge.results import CaseResult, Stats, Status
from forge.task.cases import CaseSpec


class OfficialLog:
    """Of one run of it. `begun`, `told`: called with a case that it comes to, and with its verdict."""

    def __init__(
        self,
        cases: Sequence[CaseSpec],
        timed: bool,
        begun: Callable[[CaseSpec], None],
        told: Callable[[CaseResult], None],
    ) -> None:
        self.timed, self.begun, self.told = timed, begun, told
        self.buffer = b""
        self.values: dict[str, str] = {}  # of the case that it is at: {"spec": ..., "status": ...}
        self.current: str | None = None  # test.0
        self.check = self.error = ""
        self.unconfined: list[str] | None = None  # what this machine does not keep it from
        self.cases, self.open = cases, list(cases)
        self.verdicts: list[CaseResult] = []
        self.since = time.monotonic()  # a case has begun or ended

    def feed(self, data: bytes) -> None:
        self.buffer += data
        *lines, self.buffer = self.buffer.split(b"\n")
        for line in lines:
            key, colon, value = line.decode("utf-8", "replace").partition(": ")
            parts = key.split(".")
            if key == "unconfined" and self.unconfined is None:  # told before the eval.py is there
                self.unconfined = [str(text) for text in json.loads(value)]
            elif key == "check":
                self.check = value.strip()
            elif key == "error":  # of the whole run: some log one before any case
                self.error = value.strip()
            elif colon and len(parts) == 3 and parts[0] in ("test", "benchmark") and parts[1].isdigit():
                self._case_value(f"{parts[0]}.{parts[1]}", parts[2], value)

    def _case_value(self, name: str, key: str, value: str) -> None:
        if name != self.current:
            self.finish()
            self.current, self.since = name, time.monotonic()
        self.values[key] = value
        if key == "spec" and (case := self.case) is not None:
            self.begun(case)

    @property
    def case(self) -> CaseSpec | None:
        """The one that it is at, by its spec line, or by its place where no line is as it was given."""
        if self.current is None:
            return None
        given = [case for case in self.cases if case.spec == self.values.get("spec")]
        place = int(self.current.partition(".")[2])
        found = given or self.cases[place : place + 1]
        return next((case for case in found if case in self.open), None)

    @property
    def undecided(self) -> CaseSpec | None:
        """The one that runs now: it has begun, and no verdict is told."""
        return None if self._has_verdict() else self.case

    def _has_verdict(self) -> bool:
        return "status" in self.values or "report" in self.values or _stats(self.values) is not None

    def finish_decided(self) -> None:
        if self._has_verdict():
            self.finish()

    def finish(self) -> None:
        """Has the case's verdict told: a pass if it says so or has times."""
        case, values, decided = self.case, self.values, self._has_verdict()
        self.current, self.values = None, {}
        if case is None or not decided:
            return
        failed = values.get("status", "pass") != "pass"
        result = CaseResult(
            case.index,
            case.spec,
            Status.FAIL if failed else Status.PASS,
            values.get("error", values.get("message", "")),
            stats=_stats(values) if self.timed else None,
        )
        if "report" in values:
            with contextlib.suppress(ValueError):
                result.profile = base64.b64decode(values["report"], b"+*").decode("utf-8", "replace")
        self.tell(case, result)

    def tell(self, case: CaseSpec, result: CaseResult) -> None:
        self.open.remove(case)
        self.since = time.monotonic()
        self.verdicts.append(result)
        self.told(result)


def _stats(values: dict[str, str]) -> Stats | None:
    try:
        runs, mean, std, err = (float(values[key]) for key in ("runs", "mean", "std", "err"))
        return Stats(int(runs), mean, std, err, float(values.get("best", mean)), float(values.get("worst", mean)))
    except (KeyError, ValueError):
        return None
