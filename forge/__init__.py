"""The library behind gen_submission.py and eval.py, and what other programs use of it (docs/bulk.md)."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forge.bulk.judge import Judge as Judge
    from forge.bulk.judge import judge as judge
    from forge.bulk.judge import problems as problems
    from forge.bulk.reward import Reward as Reward
    from forge.bulk.verdict import BadRequest as BadRequest
    from forge.bulk.verdict import ForgeError as ForgeError
    from forge.bulk.verdict import MachineError as MachineError
    from forge.bulk.verdict import Request as Request
    from forge.bulk.verdict import Verdict as Verdict
    from forge.bulk.verdict import read_verdict as read_verdict

OFFERED = dict.fromkeys(("Judge", "problems"), "forge.bulk.judge")
OFFERED |= {"Reward": "forge.bulk.reward"}
OFFERED |= dict.fromkeys(("BadRequest", "ForgeError", "MachineError"), "forge.bulk.verdict")
OFFERED |= dict.fromkeys(("Request", "Verdict", "read_verdict"), "forge.bulk.verdict")


def __getattr__(name: str) -> Any:
    """Imported when it is first asked for: whoever imports a part of this package needs no more than that."""
    if name == "judge":  # a package, which can be called
        return importlib.import_module("forge.judge")
    if name not in OFFERED:
        raise AttributeError(f"module 'forge' has no attribute {name!r}")
    return getattr(importlib.import_module(OFFERED[name]), name)
