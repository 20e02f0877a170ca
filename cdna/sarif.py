"""Findings as SARIF 2.1.0, which GitHub's code scanning and editors show beside the source lines."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .results import UNDECIDED, Finding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_PLACE = re.compile(r"\(([^()]+:\d+)\)$")  # behind an instruction's text


def sarif(findings: Iterable[tuple[str, Finding]], notes: Mapping[str, Iterable[str]] | None = None) -> dict[str, Any]:
    """The document. findings: each with the file that was looked at, which stands for a place without a source line.

    notes: what was not looked at, by file.
    """
    results = [_result(file, finding) for file, finding in findings]
    note = {"level": "note", "descriptor": {"id": UNDECIDED}}
    told = [
        {**note, "message": {"text": text}, "locations": [_location("", file)]}
        for file, texts in (notes or {}).items()
        for text in texts
    ]
    rules = [{"id": kind} for kind in sorted({result["ruleId"] for result in results})]
    driver = {"name": "cdna", "rules": rules, "notifications": [{"id": UNDECIDED}]}
    done = {"executionSuccessful": True, "toolExecutionNotifications": told}
    run = {"tool": {"driver": driver}, "invocations": [done], "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def write(
    path: Path, findings: Iterable[tuple[str, Finding]], notes: Mapping[str, Iterable[str]] | None = None
) -> None:
    path.write_text(json.dumps(sarif(findings, notes), indent=1) + "\n", encoding="utf-8")


def _result(file: str, finding: Finding) -> dict[str, Any]:
    consequence = f": {finding.consequence}" if finding.consequence else ""
    result: dict[str, Any] = {
        "ruleId": finding.kind,
        "level": "warning" if finding.certainty == UNDECIDED else "error",
        "message": {"text": f"{finding.kernel} on {finding.arch}: {finding.message}{consequence}"},
        "locations": [_location(finding.source, file)],
        "properties": {"certainty": finding.certainty, "instruction": finding.instruction, "count": finding.count},
    }
    other = _PLACE.search(finding.other_instruction)
    if other:
        result["relatedLocations"] = [_location(other[1], file, finding.other_instruction)]
    if other and finding.path:
        steps = [place for step in finding.path for place in step.split(" to ") if ":" in place]
        flow = [other[1], *steps, finding.source]
        result["codeFlows"] = [
            {"threadFlows": [{"locations": [{"location": _location(place, file)} for place in flow]}]}
        ]
    return result


def _location(place: str, file: str, text: str = "") -> dict[str, Any]:
    name, _, line = place.rpartition(":")
    known = bool(name) and line.isdecimal()
    physical: dict[str, Any] = {"artifactLocation": _artifact(name if known else file)}
    if known:
        physical["region"] = {"startLine": max(1, int(line))}
    return {"physicalLocation": physical} | ({"message": {"text": text}} if text else {})


def _artifact(file: str) -> dict[str, str]:
    """Relative to the folder that the command was started in, as GitHub wants it, where the file is below that."""
    path = Path(os.path.abspath(file))
    if path.is_relative_to(Path.cwd()):
        return {"uri": path.relative_to(Path.cwd()).as_posix(), "uriBaseId": "%SRCROOT%"}
    return {"uri": path.as_uri()}
