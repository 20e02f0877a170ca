"""`python -m cdna debug PROGRAM`: stops a Triton script's, a HIP program's or a code object's waves, shows what they
hold, goes on by instructions or lines. Reads commands from standard input, so that a file of them drives it too."""

from __future__ import annotations

import argparse
import os
import re
import runpy
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import NoReturn

from ..errors import CdnaError
from ..observe.records import waits
from ..observe.watching import Code, Stop, Trace, Watch, add, executed_text, mark, trace, why_not_found
from ..observe.wave_values import LANES, Condition, parse_condition, parse_value, shown_lanes
from .parser import build_parser, choose_checks, source_of

HELP = """\
run                          start the program; later: go on (also: continue, c)
break PLACE [if CONDITION]   stop waves at FILE:LINE, KERNEL or KERNEL+N; CONDITION: v3:f32 > 1e6
delete N                     take that break away; breaks: list them
only GROUP [WAVE]            stop this workgroup (linear id), or this wave, alone; only: all again
step [N]                     this wave's next N instructions, with what they write (also: s)
next                         until this wave comes to another line (also: n)
print VALUE ...              v3:f32, a[0:1]:f64, s[4:5], exec, vcc, lds[64]:f32, an argument's name (also: p)
lanes [N ...]                lanes that are shown; lanes: the first eight active ones
registers                    exec, vcc, scc, m0, mode and all scalar registers
list [N]                     the next N instructions (also: l)
where                        where this wave is; waits: where all waves are
quit                         end the program (also: q, or the end of the input)
An empty line repeats step or next."""
_SHORT = {"c": "continue", "b": "break", "d": "delete", "s": "step", "n": "next", "p": "print", "l": "list"}
_SHORT |= {"q": "quit", "h": "help", "r": "run"}
_REPEATED = ("step", "next")


class _Break(Watch):
    """Stops waves at a place."""

    def __init__(self, debugger: Debugger, number: int, where: str, condition: Condition | None) -> None:
        self.debugger, self.number, self.where, self.condition = debugger, number, where, condition
        self.hits = 0
        self.near: dict[str, list[int]] = {}  # kernel -> lines with code, of a file that has none at this one

    def marks(self, code: Code) -> list[int]:
        self.workgroup, self.wave = self.debugger.group, self.debugger.wave
        found = code.find(self.where)
        if not found:
            self.near[code.kernel] = code.lines_near(self.where)
        return found

    def comes(self, stop: Stop, first: bool) -> None:
        every = stop.active(range(LANES))
        if first and (self.condition is None or self.condition.holds(stop, every)):
            self.hits += 1
            self.debugger.stops(stop, f"break {self.number}, ")

    def __str__(self) -> str:
        condition = f" if {self.condition.text}" if self.condition else ""
        return f"{self.number}: {self.where}{condition}, stopped {self.hits} times"


class _Step(Watch):
    """Follows one wave until it has executed so many instructions, or comes to another line."""

    def __init__(self, debugger: Debugger, stop: Stop, instructions: int) -> None:
        self.debugger, self.left, self.line = debugger, instructions, stop.line if instructions == 0 else ""
        self.workgroup, self.wave = stop.linear_id, stop.wave

    def marks(self, code: Code) -> range:
        return range(code.launch.n_inst)

    def executed(self, stop: Stop, pc: int) -> None:
        print(f"  {pc:5} {executed_text(stop, pc, stop.active(self.debugger.lanes))}")
        self.left -= 1

    def comes(self, stop: Stop, first: bool) -> None:
        if self.left > 0 or self.line and self.line == stop.line:
            if stop.ends:
                print(f"  {stop.pc:5} {stop.instruction}\nthe wave ends")
                self.debugger.ends_step()
            return
        self.debugger.ends_step()
        self.debugger.stops(stop)


class Debugger:
    """Breaks, and the prompt where a wave has stopped."""

    def __init__(self) -> None:
        self.breaks: dict[int, _Break] = {}
        self.group: int | None = None
        self.wave: int | None = None
        self.lanes: list[int] | None = None
        self._step: _Step | None = None
        self._stop: Stop | None = None
        self._last = ""
        self._numbers = 0

    def prompt(self, stop: Stop | None = None) -> None:
        """Carry out commands until one says to go on."""
        self._stop = stop
        while True:
            print("(cdna) ", end="", flush=True)
            line = sys.stdin.readline()
            if not sys.stdin.isatty():
                print(line.strip() or ("quit" if not line else self._last), flush=True)
            word, _, rest = (line.strip() or (self._last if line else "quit")).partition(" ")
            word = _SHORT.get(word, word)
            self._last = f"{word} {rest}" if word in _REPEATED else ""
            command: Callable[[str], bool | None] | None = getattr(self, f"_do_{word}", None)
            try:
                if word and command is None:
                    raise CdnaError(f"{word!r} is no command: help lists them")
                if command is not None and command(rest.strip()):
                    return
            except CdnaError as error:
                print(f"cdna: {error}")

    def stops(self, stop: Stop, why: str = "") -> None:
        """A wave has come to a break, or to the end of a step."""
        if self._step is not None:
            self.ends_step()
        print(f"{why}{stop}\n  {stop.pc:5} {stop.instruction}")
        self.prompt(stop)

    def ends_step(self) -> None:
        if self._step is not None:
            self._step.remove()
        self._step = None

    def report(self) -> None:
        """Breaks that no launched kernel has code for."""
        for one in self.breaks.values():
            if one.near and not one.hits:
                print(f"cdna: break {one.where}: {why_not_found(one.where, one.near)}", file=sys.stderr)

    def _here(self) -> Stop:
        if self._stop is None:
            raise CdnaError("no wave has stopped yet: break PLACE, then run")
        return self._stop

    def _do_help(self, rest: str) -> None:
        print(HELP)

    def _do_run(self, rest: str) -> bool:
        return True

    _do_continue = _do_run

    def _do_quit(self, rest: str) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # launches of a HIP program are under way below

    def _do_break(self, rest: str) -> None:
        place, has_condition, condition = rest.partition(" if ")
        place = place.strip()
        if not re.fullmatch(r"[^\s:]+:\d+|[^\s:]+", place):
            raise CdnaError("break PLACE [if CONDITION]; a PLACE is FILE:LINE, KERNEL or KERNEL+N")
        parsed = parse_condition(condition) if has_condition else None
        self._numbers += 1
        made = self.breaks[self._numbers] = _Break(self, self._numbers, place, parsed)
        add(made)
        print(f"break {self._numbers} at {place}")

    def _do_breaks(self, rest: str) -> None:
        print("\n".join(map(str, self.breaks.values())) or "no breaks")

    def _do_delete(self, rest: str) -> None:
        number = _number("delete", rest)
        if number not in self.breaks:
            raise CdnaError(f"delete {rest}: no break of that number; breaks lists them")
        self.breaks.pop(number).remove()

    def _do_only(self, rest: str) -> None:
        words = [_number("only", word) for word in rest.split()]
        if len(words) > 2:
            raise CdnaError("only GROUP [WAVE]")
        self.group, self.wave = (*words, None, None)[:2]
        for one in self.breaks.values():
            mark(one)

    def _do_step(self, rest: str) -> bool:
        return self._steps(_number("step", rest or "1") or 1)

    def _do_next(self, rest: str) -> bool:
        return self._steps(0)

    def _steps(self, instructions: int) -> bool:
        self._step = _Step(self, self._here(), instructions)
        add(self._step)
        return True

    def _do_print(self, rest: str) -> None:
        stop = self._here()
        if not rest:
            raise CdnaError("print VALUE ...")
        for word in rest.split():
            print(f"  {shown_lanes(stop, parse_value(word), stop.active(self.lanes))}")

    def _do_lanes(self, rest: str) -> None:
        lanes = [_number("lanes", word) for word in rest.split()]
        if any(lane >= LANES for lane in lanes):
            raise CdnaError(f"lanes {rest}: a wave has lanes 0 to {LANES - 1}")
        self.lanes = lanes or None

    def _do_registers(self, rest: str) -> None:
        stop = self._here()
        names = ["exec", "vcc", "scc", "m0", "mode"]
        print("  " + "  ".join(shown_lanes(stop, parse_value(name), []) for name in names))
        for first in range(0, 104, 8):
            words = " ".join(f"{stop.scalar(i):08x}" for i in range(first, first + 8))
            print(f"  s[{first}:{first + 7}] = {words}")

    def _do_list(self, rest: str) -> None:
        stop = self._here()
        line = ""
        for pc in range(stop.pc, min(stop.pc + (_number("list", rest or "10")), stop.code.launch.n_inst)):
            if stop.code.line(pc) != line:
                line = stop.code.line(pc)
                print(f"{line}:")
            print(f"  {pc:5} {stop.code.text(pc)}")

    def _do_where(self, rest: str) -> None:
        stop = self._here()
        print(f"{stop}\n  {stop.pc:5} {stop.instruction}")

    def _do_waits(self, rest: str) -> None:
        print(waits() or "no kernel runs")


def _number(command: str, text: str) -> int:
    if not text.isdecimal():
        raise CdnaError(f"{command}: {text!r} is no whole number")
    return int(text)


def run_script(script: Path, arguments: Sequence[str], arch: str) -> int:
    """Run a Python script with `arch` as Triton's device; its exit code."""
    from ..triton import device

    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        with device(arch):
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else 1 if end.code else 0
    return 0


def trace_of(text: str, file: Path) -> AbstractContextManager[Trace]:
    """The trace that `--trace-wave GROUP:WAVE` asks for."""
    found = re.fullmatch(r"(\d+):(\d+)", text)
    if found is None:
        raise CdnaError(f"--trace-wave {text}: GROUP:WAVE, as in 0:1")
    return trace(file, int(found[1]), int(found[2]))


def is_code_object(program: Path) -> bool:
    """Whether a file is one, and not a source. CdnaError where it cannot be read."""
    try:
        with program.open("rb") as file:
            start = file.read(24)
    except OSError as error:
        raise CdnaError(f"{program}: {error.strerror}") from None
    return start.startswith((b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"))


def debug(arguments: argparse.Namespace) -> int:
    """`python -m cdna debug`; the program's exit code."""
    choose_checks(arguments.checks)
    program, words = arguments.program, arguments.words
    code_object = is_code_object(program)
    with ExitStack() as traced:
        at_end: Callable[[], None] = traced.close
        if arguments.trace_wave is not None:
            traced.enter_context(trace_of(arguments.trace_wave, arguments.trace_file))
        else:
            debugger = Debugger()
            traced.callback(debugger.report)
            debugger.prompt()
        if code_object:
            from . import code_objects

            return code_objects.launch(build_parser().parse_args(["launch", str(program), *words]), sys.stdout)
        if program.suffix == ".py":
            return run_script(program, words, arguments.arch)
        from ..hip.run import run_program

        return run_program([source_of(arguments, program)], words, at_end=at_end)
