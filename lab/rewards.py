"""Which sums of a verdict's steps pay for deceit: over lab/corpus, in test mode, benchmark mode, the lesser of both.

    python lab/rewards.py [--workers N] [-o results/rewards.json]

prints, for each sum, what the plain honest kernel gets, and which deceiving submissions get as much or more.
Exit code 1 where the recommended sum, of both modes, pays one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import forge  # noqa: E402 - from this checkout
from forge.bulk.reward import Step  # noqa: E402
from lab.verdicts import DEVICE, PROBLEM, corpus  # noqa: E402

PLAIN, RECOMMENDED, MODES = "h_plain", "the recommended sum", ("test", "benchmark")
PASSES = ("passed", "doubtful")


def of(step: Step) -> float:
    return step.value or 0.0


SUMS: dict[str, Callable[[forge.Verdict, forge.Reward], float]] = {
    "a pass, doubted or not": lambda v, r: float(v.status in PASSES),
    "compiled + launched": lambda v, r: of(r.compiled) + of(r.launched),
    "share of right elements": lambda v, r: of(r.right_share),
    "share of right elements, of no findings": lambda v, r: 0.0 if of(r.findings) else of(r.right_share),
    "share of light": lambda v, r: of(r.of_light),
    "speedup": lambda v, r: of(r.speedup),
    "a pass without a doubt": lambda v, r: float(v.passed),
    "speedup of a pass without a doubt": lambda v, r: v.passed * of(r.speedup),
    RECOMMENDED: lambda v, r: v.total_reward,
}


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("-o", "--output", type=Path)
    args = p.parse_args()
    entries = {entry.name: entry for entry in corpus()}
    asked = [
        {"id": f"{mode} {name}", "source": one.source, "mode": mode} for mode in MODES for name, one in entries.items()
    ]
    verdicts: dict[str, forge.Verdict] = {}
    options = ["--trust", "--timeout", "60"]
    with forge.Judge(args.workers, problem=PROBLEM, device=DEVICE, options=options, baseline="reference") as judge:
        for verdict in judge.judge_all(asked):
            verdicts[verdict.id] = verdict
    deceit = [name for name, one in entries.items() if one.expected != "pass"]
    got = {
        mode: {
            what: {name: total(v, v.reward) if (v := verdicts[f"{mode} {name}"]).reward else 0.0 for name in entries}
            for what, total in SUMS.items()
        }
        for mode in MODES
    }
    test, benchmark = got["test"], got["benchmark"]
    got["both"] = {
        what: {name: min(sums[name], benchmark[what][name]) for name in entries} for what, sums in test.items()
    }
    told = {
        mode: {
            what: [name for name in deceit if sums[name] >= sums[PLAIN] and sums[name] > 0]
            for what, sums in by_sum.items()
        }
        for mode, by_sum in got.items()
    }
    for mode, by_sum in told.items():
        for what, paid in by_sum.items():
            honest = got[mode][what][PLAIN]
            print(f"{mode:9} {what}: honest {honest:.3g}; {len(paid)} of {len(deceit)} get as much: {', '.join(paid)}")
    if args.output:
        statuses = {name: verdict.status for name, verdict in sorted(verdicts.items())}
        args.output.write_text(json.dumps({"paid": told, "statuses": statuses}, indent=1) + "\n")
    return int(bool(told["both"][RECOMMENDED]))


if __name__ == "__main__":
    sys.exit(main())
