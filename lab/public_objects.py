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

from cdna.binary.all_paths import look_at
from cdna.binary.elf import read
from cdna.binary.statements import statements_of
from cdna.errors import CdnaError


def row_of(file: Path) -> dict[str, object]:
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
    parser.add_argument("-o", dest="output", type=Path, required=True)
    arguments = parser.parse_args()
    document: dict[str, object] = {"every": arguments.every}
    for folder in arguments.folders:
        files = sorted(file for kind in ("co", "hsaco") for file in folder.rglob(f"*.{kind}"))
        rows = [row_of(file) for file in files[:: arguments.every]]
        verdicts = Counter(verdict for row in rows for verdict in row.get("verdicts", ["error"]))  # type: ignore[attr-defined]
        kinds = Counter(kind for row in rows for kind in row.get("kinds", {}))  # type: ignore[attr-defined]
        summary = {
            "objects": len(files),
            "looked at": len(rows),
            "kernels": dict(verdicts),
            "objects with": dict(kinds),
        }
        print(folder.name, summary, flush=True)
        document[folder.name] = {**summary, "rows": rows}
    arguments.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
