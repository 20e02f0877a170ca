"""Which Python runs this checkout's commands: one that has what they need. It is read by whatever Python there is."""

import importlib.util
import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEAST = (3, 11)
NEEDED = ["elftools", "jinja2", "msgspec", "numpy", "rich", "torch", "yaml"]


def hold_signals() -> None:
    """What ends a command waits while all that it needs is imported: till then it could not tell of its end."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})


def have_needed(command: str) -> None:
    """Goes on in the checkout's .venv where this Python lacks something; without one, ends with one line."""
    lacks = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if sys.version_info >= LEAST and not lacks:
        return
    made = ROOT / ".venv" / "bin" / "python"
    if made.exists() and Path(sys.executable) != made:
        os.execv(made, [str(made), *getattr(sys, "orig_argv", ["", *sys.argv])[1:]])
    what = f"lacks {', '.join(lacks)}" if lacks else f"is older than {'.'.join(map(str, LEAST))}"
    print(f"{command}: {sys.executable} {what}: `make demo` in {ROOT} makes a .venv, which is found", file=sys.stderr)
    sys.exit(2)
