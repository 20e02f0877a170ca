"""The results file (eval.py --json): its schema with a version, and the check of a file that comes from elsewhere."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

SCHEMA_FILE = Path(__file__).with_name("results.schema.json")
NOT_RUN = "not run"  # the verdict of a command that ended before anything was judged


class ResultError(Exception):
    """Not a results file of a version that is known here. One line."""


@functools.cache
def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return found


def check_result(document: Any, name: str) -> dict[str, Any]:
    """The document; ResultError names the first place, of `name`, that is not as the schema says."""
    known = schema()["properties"]["schema"]["const"]
    if isinstance(document, dict) and isinstance(document.get("schema"), int) and document["schema"] != known:
        raise ResultError(
            f"{name}: results of schema {document['schema']}, and this forge reads {known}: make it again with this one"
        )
    import jsonschema  # only for files from elsewhere: importing it takes 0.1 s

    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema()).iter_errors(document))
    if error is not None:
        raise ResultError(f"{name}: not a results file of eval.py --json: {error.json_path}: {error.message:.160}")
    if document["verdict"] == NOT_RUN:
        raise ResultError(f"{name}: holds no run: eval.py had ended before: {document['error']}")
    checked: dict[str, Any] = document
    return checked


def read_result(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise ResultError(f"{path}: not JSON, or half written: {error}") from None
    return check_result(document, str(path))
