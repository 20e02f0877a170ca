"""What `python -m cdna check` says of other people's code objects: a table of verdicts, kinds and seconds.

    python lab/public_objects.py CHECKOUT/hsa/gfx942 CHECKOUT/hsa/gfx950 [--every 10] -o lab/results/public_objects.json

Of a folder's .co and .hsaco files every Nth, by name. `hazard m0` are loads to LDS right behind what writes m0.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from cdna.binary.all_paths import look_at
from cdna.binary.elf import read
from cdna.binary.statements import statements_of
from cdna.errors import CdnaError

COLUMNS = (
    "arch, objects, looked at, proven, named, undecided, with a wait too late, with a race in LDS, with a load to LDS "
    "right behind m0, with another hazard, with a doubt of waits, s an object, s at most"
).split(", ")
NOTES = [
    "By the rules that LLVM's compiler keeps. AMD's hand-written kernels are in use, and leave out the wait state "
    "behind m0 nearly everywhere: what the card does there is not known here. "
    "Not every finding was looked at one by one."
]


def row_of(file: Path) -> dict[str, Any]:
    began = time.process_time()
    try:
        kernels = look_at(statements_of(read(file.read_bytes())))
    except CdnaError as error:
        return {"file": file.name, "error": str(error)}
    kinds = Counter(
        f"{one.kind} m0" if "m0 written" in one.message else one.kind + " doubt" * (one.certainty == "undecided")
        for kernel in kernels
        for one in kernel.findings
    )
    return {
        "file": file.name,
        "verdicts": [kernel.verdict for kernel in kernels],
        "instructions": sum(kernel.instructions for kernel in kernels),
        "kinds": dict(sorted(kinds.items())),
        "undecided": {why: len(places) for kernel in kernels for why, places in kernel.undecided.items()},
        "seconds": round(time.process_time() - began, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--commit", default="unknown", help="of the checkout")
    parser.add_argument("-o", dest="output", type=Path, required=True)
    arguments = parser.parse_args()
    rows = []
    for folder in arguments.folders:
        files = sorted(file for kind in ("co", "hsaco") for file in folder.rglob(f"*.{kind}"))
        looked = [row_of(file) for file in files[:: arguments.every]]
        rows.append([folder.name, f"{len(files):,}", str(len(looked)), *summary_of(looked)])
        print(*rows[-1], sep=", ", flush=True)
    document = {
        "title": "AITER's code objects, on every path",
        "kind": "measured",
        "machine": "2 busy cores; seconds of one",
        "versions": {"AITER": arguments.commit},
        "command": f"python lab/public_objects.py CHECKOUT/hsa/gfx942 CHECKOUT/hsa/gfx950 --every {arguments.every}",
        "notes": NOTES,
        "columns": COLUMNS,
        "rows": rows,
    }
    arguments.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def summary_of(rows: list[dict[str, Any]]) -> list[str]:
    verdicts = Counter(verdict for row in rows for verdict in row.get("verdicts", ["error"]))
    kinds = Counter(kind for row in rows for kind in row.get("kinds", {}))
    seconds = [row.get("seconds", 0.0) for row in rows]
    counts = [verdicts[word] for word in ("proven", "named", "undecided")]
    counts += [kinds[kind] for kind in ("wait", "race", "hazard m0", "hazard", "wait doubt")]
    return [*map(str, counts), f"{sum(seconds) / len(seconds):.2f}", f"{max(seconds):.2f}"]


if __name__ == "__main__":
    main()
