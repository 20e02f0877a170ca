"""The language sample with every version of Triton: `python -m lab.triton_matrix [VERSION ...]`.

Prints versions x archs x passed. Versions that are not installed are brought from the package index into the cache
(700 MB each, unpacked); each takes about three minutes.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from collections import Counter
from pathlib import Path

from cdna import ARCHS
from forge.console import aligned
from forge.device import triton_versions
from forge.device.base import DeviceError

VERSIONS = ("3.4.0", "3.5.1", "3.6.0", "3.7.1", "3.8.0", "3.9.0")  # the last of each minor version
ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ("test_triton_language", "test_triton", "test_hostcall")


def outcomes(version: str) -> tuple[Counter[tuple[str, str]], list[str]]:
    """(arch, passed | skipped | failed) of the sample's tests, and the names of those that failed."""
    counts: Counter[tuple[str, str]] = Counter()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        subprocess.run(
            [sys.executable, "-m", "pytest", "--slow", "-q", f"--junitxml={report}"]
            + [f"tests/cdna/{name}.py" for name in SAMPLE],
            cwd=ROOT,
            env={**os.environ, triton_versions.VARIABLE: version},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for case in xml.parse(report).iter("testcase"):
            name = case.get("name", "")
            arch = re.search(r"gfx\w+?(?=[-\]])", name)
            outcome = {"skipped": "skipped", "failure": "failed", "error": "failed"}
            said = next((outcome[child.tag] for child in case if child.tag in outcome), "passed")
            counts[arch[0] if arch else "both", said] += 1
            if said == "failed":
                failed.append(name)
    return counts, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("versions", metavar="VERSION", nargs="*", help=f"default: {' '.join(VERSIONS)}")
    rows: list[tuple[str, ...]] = [("Triton", "arch", "passed", "skipped", "failed")]
    every_failure = []
    for version in parser.parse_args().versions or VERSIONS:
        try:
            triton_versions.folder_of(version)
        except DeviceError as error:
            print(f"triton_matrix: {error}", file=sys.stderr)
            return 2
        counts, failed = outcomes(version)
        every_failure += [f"{version} {name}" for name in failed]
        for arch in (*ARCHS, "both"):
            rows.append((version, arch, *(str(counts[arch, said]) for said in ("passed", "skipped", "failed"))))
    print("\n".join(aligned(rows, right=frozenset({2, 3, 4}))))
    for name in every_failure:
        print(f"failed: {name}")
    return 1 if every_failure else 0


if __name__ == "__main__":
    sys.exit(main())
