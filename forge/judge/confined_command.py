"""Runs a command that writes to one folder alone: `python -I -S confined_command.py {"readable": [...], ...} COMMAND`.

A script of its own, with the standard library alone: whoever calls compilers has threads, and may only start programs.
"""

import contextlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType

# Whoever is confined already reads the package, and not the folder that it lies in.
sys.modules["forge"] = ModuleType("forge")
sys.modules["forge"].__path__ = [str(Path(__file__).resolve().parents[1])]

from forge.judge import landlock, seccomp  # noqa: E402

if __name__ == "__main__":
    bounds, command = json.loads(sys.argv[1]), sys.argv[2:]
    with contextlib.suppress(OSError):  # said of the submission's own confinement
        landlock.restrict(bounds["readable"], bounds["writable"], ["/dev/null"])
        seccomp.install(seccomp.filter_of(seccomp.REFUSED.values(), seccomp.FAMILIES))
    os.environ["TMPDIR"] = bounds["writable"][0]
    os.execvp(command[0], command)
