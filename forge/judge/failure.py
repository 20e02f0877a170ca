"""An exception of a submission as a result: one line with its place in the run folder, and the trace below our code."""

import itertools
import os
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from forge.device.base import causes
from forge.judge.results import Fault
from forge.judge.triton_errors import first_cause, is_tritons, message_of, said_of

TRITON = f"{os.sep}triton{os.sep}"
NO_MEMORY = ("[enforce fail at alloc_cpu", "DefaultCPUAllocator: ")  # torch's words for it
BUILDING = ("Error building extension", "Error compiling objects")  # and for what a C++ compiler refuses
COMPILING = f"{os.sep}backends{os.sep}"
TRACE_FRAMES, TRACE_LINES, LINE_CHARS = 4, 6, 300  # of an exception: frames, lines of its text, width of each
FORGE = Path(__file__).resolve().parents[1]
ROOMS = {FORGE / room for room in ("judge", "tune")}  # whose code calls a submission
STAND_INS = (FORGE / "device", FORGE.parent / "cdna")  # what a submission calls on an emulated device


def describe(error: BaseException, folder: str) -> dict[str, Any]:
    """The fields of a forge.judge.messages.Answer that an exception fills, but its status. folder: the run folder."""
    kind = type(error).__name__
    try:
        lines = str(error).strip().splitlines() or [""]
    except Exception:
        lines = ["(its text cannot be made)"]
    if isinstance(error, SystemExit):
        kind, lines = f"sys.exit({error.code!r})", [""]
    frames = _above_stand_ins(traceback.extract_tb(_below_ours(error.__traceback__)))
    last_line = _last_line(lines)
    if is_tritons(error):
        cause, code, excerpt = first_cause(error)
        lines, last_line = [said_of(message_of(cause), code), *excerpt], ""
        frames = traceback.StackSummary(itertools.takewhile(lambda frame: TRITON not in frame.filename, frames))
    place = _place(error.__traceback__, folder)
    first = lines[0].strip()
    message = kind + (f": {first[:LINE_CHARS]}" if first else "") + (f" ({place})" if place else "")
    said = [f"{kind}: {lines[0]}", *lines[1:TRACE_LINES]] if lines[1:] or len(first) > LINE_CHARS else []
    trace = "".join(frames.format()[-TRACE_FRAMES:]).splitlines() + said
    if len(lines) > TRACE_LINES:
        trace.append(f"... and {len(lines) - TRACE_LINES} more lines")
    trace_text = "\n".join(line[:LINE_CHARS] for line in trace)
    return {"message": message, "trace": trace_text, "last_line": last_line, "fault": fault_of(error)}


def fault_of(error: BaseException) -> Fault:
    """Whose work failed, where that is not the submission's own code."""
    for cause in causes(error):
        said = cause.args[0] if isinstance(cause, RuntimeError) and cause.args[:1] else ""
        said = said if type(said) is str else ""
        if isinstance(cause, MemoryError) or "OutOfMemory" in type(cause).__name__ or said.startswith(NO_MEMORY):
            return "memory"
        frames = traceback.extract_tb(cause.__traceback__)
        raised_in = frames[-1].filename if frames else ""
        if is_tritons(cause) or said.startswith(BUILDING) or TRITON in raised_in and COMPILING in raised_in:
            return "compiler"
    return ""


def _last_line(lines: list[str]) -> str:
    """Of a text of several lines, the last: where a C++ compiler says what is wrong. Empty if there is one."""
    words = [line.strip() for line in lines if line.strip()]
    return words[-1][:LINE_CHARS] if len(words) > 1 else ""


def _below_ours(trace: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that starts with the first frame outside the evaluator."""
    while trace is not None and Path(trace.tb_frame.f_code.co_filename).parent in ROOMS:
        trace = trace.tb_next
    while trace is not None and "importlib" in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    return trace


def _above_stand_ins(frames: traceback.StackSummary) -> traceback.StackSummary:
    """Without the frames at the end that are ours: the error is in what called them."""
    while len(frames) > 1 and any(Path(frames[-1].filename).is_relative_to(folder) for folder in STAND_INS):
        frames.pop()
    return frames


def _place(trace: TracebackType | None, folder: str) -> str:
    """submission.py:12, in custom_kernel: the innermost frame in the run folder."""
    place = ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if os.path.dirname(name) == folder:
            place = f"{os.path.basename(name)}:{trace.tb_lineno}, in {trace.tb_frame.f_code.co_name}"
        trace = trace.tb_next
    return place
