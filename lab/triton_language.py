#!/usr/bin/env python3
"""Triton's own language tests on the emulated cards, a version after the other: results/triton_language_tests.json.

    python lab/triton_language.py 3.9.0=../triton@f4fca2c0 3.6.0=../triton-3.6 --per-function 9

Give each version a checkout of Triton's repository with the tests of its time. A version that is not here is brought
from the package index; rows of versions that are not named stay. What failed, with its whole report, is in --folder.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cdna import ARCHS  # noqa: E402
from forge.device import triton_versions  # noqa: E402
from lab import public_suites  # noqa: E402

SUITE = public_suites.SUITES["triton"]
TABLE = ROOT / "lab" / "results" / "triton_language_tests.json"
# Part of a failed test's name and of what it says, and its cause, where somebody has looked at it: the notes say more.
CAUSES = {
    r"past the end of `\w+` \(fp32\[1\]\)": "store past a tensor's end",
    r"Cannot find ptxas": "want NVIDIA's ptxas",
    r"wait: writes LDS": "have the halves of the waves in turns",
    r"race: .* write different values": "have copies of a value that differ",
    r"llvm-objdump": "want an llvm-objdump that knows the arch",
    r"test_override_arch|test_cat\[True|expected string not found|DID NOT RAISE": "ask for another state of Triton",
    r"test_scan2d\[cumsum-bfloat16": "add bf16 in bf16",
    r"No module named 'scipy'": "want scipy",
}


def row(version: str, result: public_suites.Result) -> list[str]:
    """Of the table, with what failed by cause; a cause that nobody has looked at stands as it was said."""
    failed = [*result.failed.items(), *result.broken_files.items(), *[("", "not run")] * result.not_run]
    causes = Counter(
        next((CAUSES[part] for part in CAUSES if re.search(part, f"{test}: {text}")), text) for test, text in failed
    )
    counts = (result.passed, result.with_launches, sum(result.skipped.values()), result.over_time, len(failed))
    why = "; ".join(f"{count} {cause}" for cause, count in causes.most_common())
    return [version, result.commit[:12], result.arch, *map(str, counts), why]


def run(job: tuple[str, Path, str, str, argparse.Namespace]) -> list[str]:
    version, checkout, commit, arch, options = job
    triton_versions.folder_of(version)  # brings it, once for all processes
    suite = replace(SUITE, environment={triton_versions.VARIABLE: version})
    folder = Path(options.folder, version, arch).resolve()
    options = argparse.Namespace(**vars(options) | {"arch": arch, "folder": folder})
    result = public_suites.run(suite, checkout, commit, options)
    failed = result.failed | result.broken_files
    print(f"{version} {arch}", *(f"{test}: {why}" for test, why in failed.items()), sep="\n  ", flush=True)
    return row(version, result)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="+", metavar="VERSION=CHECKOUT[@COMMIT]")
    public_suites.add_options(parser)
    parser.add_argument("--jobs", type=int, default=1, help="versions and archs at a time, of --workers each")
    options = parser.parse_args(arguments)
    jobs = []
    for given in options.versions:
        version, _, place = given.partition("=")
        checkout, commit = public_suites.checkout_of(place, SUITE, parser)
        jobs += [(version, checkout, commit, arch, options) for arch in ARCHS]
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(run, jobs))
    table = json.loads(TABLE.read_text())
    named = {version for version, *_ in rows}
    table["rows"] = sorted([*(old for old in table["rows"] if old[0] not in named), *rows])
    TABLE.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
