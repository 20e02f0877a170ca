"""What checks find in the processes that a submission starts, for the report of the process that it runs in.

Each has an emulated device of its own, with the checks that it was started with. It tells of Triton's launches as they
end, and of HIP's when it ends itself: a process that is killed takes these with it.
"""

import atexit
import os
import tempfile
from collections.abc import Sequence
from typing import NoReturn

import msgspec

from cdna import checks
from cdna.engine.library import is_loaded
from cdna.observe import records
from cdna.results import Finding

VARIABLE = "FORGE_CHILDREN"  # names the file that they write to, a finding a line

_file, _read = "", 0  # that ours write to, and how much of it is known


def hear() -> None:
    """From now on the processes that this one starts tell what is found in them."""
    global _file, _read
    descriptor, _file = tempfile.mkstemp(prefix="findings")
    os.close(descriptor)
    os.environ[VARIABLE], _read = _file, 0
    checks.listeners.clear()
    os.register_at_fork(after_in_child=_begin_forked)


def heard() -> list[Finding]:
    """What they have told since the last call."""
    global _read
    if not _file:
        return []
    try:
        with open(_file, "rb") as file:
            file.seek(_read)
            lines = file.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        _read += len(whole)
        return [msgspec.json.decode(line, type=Finding) for line in whole.splitlines()]
    except (OSError, msgspec.MsgspecError):  # as anything of its processes, a submission may change it
        return []


def tell() -> None:
    """Of this process, where somebody hears it."""
    if os.environ.get(VARIABLE, _file) != _file:
        checks.listeners.append(_write)
        atexit.register(_tell_of_hip)


def _write(found: Sequence[Finding]) -> None:
    try:
        with open(os.environ[VARIABLE], "ab") as file:
            file.write(b"".join(msgspec.json.encode(one) + b"\n" for one in found))
    except (KeyError, OSError):  # nobody hears it any more
        pass


def _tell_of_hip() -> None:
    if is_loaded():
        records.findings()


def _begin_forked() -> None:
    """Its end is os._exit, which calls nothing that is registered."""
    global _file
    if not _file:
        return  # forked by a child
    checks.take_noted()
    _file, end = "", os._exit
    tell()

    def told_end(status: int) -> NoReturn:
        _tell_of_hip()
        end(status)

    os._exit = told_end
