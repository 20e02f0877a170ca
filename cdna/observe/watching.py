"""Watches: what a wave holds at a source line, printed or handed to a function, and a wave's whole trace.

    with cdna.watch("kernel.py:14", workgroup=0, wave=1, values=["v3:f32"]):
        kernel[grid](...)

The engine (engine/run/watch.cpp) calls in here before each instruction that a watch has marked, and behind it.
"""

from __future__ import annotations

import ctypes
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TextIO

from ..binary.decode import base_mnemonic
from ..binary.kernel_names import demangled, template_arguments
from ..engine import abi
from ..engine.library import engine
from ..errors import CdnaError
from ..isa import facts_of, instructions
from .wave_values import LANES, Condition, Value, parse_condition, parse_value, shown_lanes

MAX_WATCHES, _ANY, _NO_PC = map(abi.constant, ("MAX_WATCHES", "ANY_ONE", "NO_PC"))
SHOWN_LANES = 8  # where nobody says which
_EXPLICIT, _SCALAR = abi.constant("EXPLICIT"), abi.constant("SCALAR")  # of ArgumentKind, of TouchFlag
_NUMBER = re.compile(r"b?f\d\d|[iu]\d\d")
_SHOWN_AS = {"p16": "f16x2", "p32": "f32"}  # of types of packed operands


class Code:
    """The code of a launch under way: what each instruction is, and where."""

    def __init__(self, launch: Any, launching: Launching | None) -> None:
        self.launch, self.launching = launch, launching
        self.failed = False  # a watch's function has raised something
        self.symbol = launch.kernel.decode()
        self.kernel = template_arguments(demangled(self.symbol))[0]
        self.places = [_split((launch.where[i] or b"").decode(errors="replace")) for i in range(launch.n_inst)]
        self.names = launching.argument_names if launching is not None else []

    def line(self, pc: int) -> str:
        """`file:line` of an instruction."""
        return self.places[pc][1]

    def text(self, pc: int) -> str:
        return self.places[pc][0]

    def written(self, pc: int) -> list[Value]:
        """The registers that an instruction writes, with the type of what it computes."""
        touches = (abi.structure("Touch") * 8)()
        n = engine().lib.cdna_written(self.launch.program, pc, touches)
        mnemonic = base_mnemonic(self.text(pc).partition(" ")[0])
        results = instructions()[mnemonic].signature.types("D", "?D")
        found = _NUMBER.match(_SHOWN_AS.get(results[0], results[0])) if results else None
        values = []
        for touch in touches[:n]:
            letter, first = "s" if touch.flags & _SCALAR else "v", touch.reg
            if letter == "v" and first >= self.launch.first_accumulation:
                letter, first = "a", first - self.launch.first_accumulation
            type_name = found[0] if found and letter != "s" else ""
            wide = type_name.endswith("64") or letter == "s" and touch.count == 2
            step = 2 if wide and touch.count > 1 else 1
            for i in range(first, first + touch.count - step + 1, step):
                values.append(Value(_name(letter, i, step), type_name))
        return values

    def group(self, workgroup: int | Sequence[int] | None) -> int:
        """The linear id of a workgroup, given as that or as (x, y, z)."""
        if workgroup is None:
            return _ANY
        if isinstance(workgroup, int):
            return workgroup
        x, y, z = (*workgroup, 0, 0)[:3]
        return x + self.launch.groups[0] * (y + self.launch.groups[1] * z)

    def find(self, place: str) -> list[int]:
        """The instructions of a place: FILE:LINE, KERNEL (its first instruction), or KERNEL+N (the N-th behind it)."""
        name, _, number = place.rpartition("+")
        if (name or place) in (self.kernel, self.symbol) and (not name or number.isdecimal()):
            pc = self.launch.entry + (int(number) if name else 0)
            return [pc] if pc < self.launch.n_inst else []
        return [pc for pc, (_, line) in enumerate(self.places) if line == place or line.endswith(f"/{place}")]

    def lines_near(self, place: str) -> list[int]:
        """Lines of the place's file that have code."""
        file = place.rpartition(":")[0]
        ends = (file, f"/{file}")
        named = (line.rpartition(":") for _, line in self.places)
        return sorted({int(number) for name, _, number in named if name == file or name.endswith(ends[1])})


def _split(where: str) -> tuple[str, str]:
    """(instruction, file:line) of "`instruction` (file:line)"."""
    text, _, line = where.removeprefix("`").removesuffix(")").rpartition("` (")
    return text.strip(), line


def _name(letter: str, first: int, count: int) -> str:
    if letter == "s" and first in (106, 126):
        return {106: "vcc", 126: "exec"}[first]
    if letter == "s" and first == 124:
        return "m0"
    return f"{letter}{first}" if count == 1 else f"{letter}[{first}:{first + count - 1}]"


class Stop:
    """A wave at an instruction that it is about to execute. Good only while the function that got it runs."""

    def __init__(self, code: Code, wave: Any) -> None:
        self.code, self._wave = code, wave
        self.kernel = code.kernel
        self.workgroup: tuple[int, ...] = tuple(wave.group)
        self.linear_id, self.wave, self.pc, self.exec = wave.linear_id, wave.wave, wave.pc, wave.exec
        self.n_vgpr, self.first_accumulation = wave.n_vgpr, code.launch.first_accumulation

    @property
    def instruction(self) -> str:
        return self.code.text(self.pc)

    @property
    def ends(self) -> bool:
        """Whether the wave ends with it."""
        return facts_of(base_mnemonic(self.instruction.partition(" ")[0])).unit == "end"

    @property
    def line(self) -> str:
        """`file:line`."""
        return self.code.line(self.pc)

    def __getitem__(self, name: str) -> Any:
        """A value by its text: a number; of a vector register, a list of all 64 lanes' numbers."""
        value = parse_value(name)
        return [value.of(self, lane) for lane in range(LANES)] if value.by_lane else value.of(self)

    def active(self, lanes: Iterable[int] | None) -> list[int]:
        """Those of the lanes that are active; without any named, the first active ones."""
        on = [lane for lane in (range(LANES) if lanes is None else lanes) if self.exec >> lane & 1]
        return on[:SHOWN_LANES] if lanes is None else on

    def scalar(self, register: int) -> int:
        if register < 0:
            return self._wave.scc if register == -1 else self._wave.mode
        return self._wave.s[register]

    def vector(self, register: int) -> Sequence[int]:
        return self._wave.v[register * LANES : (register + 1) * LANES]

    def lds(self, offset: int, size: int) -> bytes:
        if offset + size > self._wave.lds_bytes:
            raise CdnaError(f"lds[{offset}]: the workgroup has {self._wave.lds_bytes} bytes of LDS")
        return ctypes.string_at(self._wave.lds + offset, size)

    def argument_names(self) -> list[str]:
        """The arguments' names, in order; arg0, arg1, ... where the code object has none."""
        n = len(self._arguments())
        return [(self.code.names[i : i + 1] or [""])[0] or f"arg{i}" for i in range(n)]

    def _arguments(self) -> list[Any]:
        every = self.code.launch.arguments[: self.code.launch.n_arguments]
        return [argument for argument in every if argument.kind == _EXPLICIT]

    def argument(self, name: str) -> bytes | None:
        """The bytes of an argument of the kernel; None if it has none of that name."""
        for own, (number, argument) in zip(self.argument_names(), enumerate(self._arguments())):
            if name in (own, f"arg{number}"):
                return ctypes.string_at(self.code.launch.kernarg + argument.offset, argument.size)
        return None

    def __str__(self) -> str:
        return f"{self.line or 'no line'}: {self.kernel}, workgroup {self.workgroup}, wave {self.wave}"


class Watch:
    """Looks at waves; what is below decides at what, and what happens."""

    workgroup: int | Sequence[int] | None = None
    wave: int | None = None

    def marks(self, code: Code) -> Iterable[int]:
        """The instructions of a launch's code to be called at."""
        raise NotImplementedError

    def comes(self, stop: Stop, first: bool) -> None:
        """A wave is about to execute one. first: it comes from elsewhere, or from further down."""

    def executed(self, stop: Stop, pc: int) -> None:
        """A wave has executed one; `stop` is at the next."""

    def remove(self) -> None:
        """Looks no longer."""
        if self in _watches:
            _watches[_watches.index(self)] = None
        if not any(_watches):
            engine().lib.cdna_watch(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Launching:
    """Around a launch that Python makes: it raises what a watch's function has raised. The HIP runtime's launches
    cannot, and know no names of arguments."""

    def __init__(self, argument_names: list[str]) -> None:
        self.argument_names = argument_names
        self.error: BaseException | None = None

    def __enter__(self) -> None:
        _stack().append(self)

    def __exit__(self, *_: object) -> None:
        _stack().pop()
        if self.error is not None:
            raise self.error


_watches: list[Watch | None] = []
_live: dict[int, Code] = {}  # the launches under way, by the engine's address of each
_of_thread = threading.local()


def _stack() -> list[Launching]:
    """What this thread is launching: an engine that watches launches in the thread that asks for it."""
    if not hasattr(_of_thread, "launches"):
        _of_thread.launches = []
    return _of_thread.launches


def add(watch: Watch) -> None:
    """Look with this watch from now on, in launches under way too."""
    if None in _watches:
        _watches[_watches.index(None)] = watch
    elif len(_watches) < MAX_WATCHES:
        _watches.append(watch)
    else:
        raise CdnaError(f"{MAX_WATCHES} watches already: remove one")
    engine().lib.cdna_watch(_BEGINS, _COMES, _ENDS)
    mark(watch)


def mark(watch: Watch) -> None:
    """Mark anew what a watch wants of the launches under way."""
    for code in _live.values():
        _mark(watch, code)


def _mark(watch: Watch, code: Code) -> None:
    launch, bit = code.launch, _watches.index(watch)
    wanted = set(watch.marks(code))
    for pc in range(launch.n_inst):
        launch.marks[pc] = launch.marks[pc] & ~(1 << bit) | (pc in wanted) << bit
    launch.group_of[bit] = code.group(watch.workgroup)
    launch.wave_of[bit] = _ANY if watch.wave is None else watch.wave


def _fails(code: Code, error: BaseException) -> None:
    """A watch's function has raised something: the launch ends, and says so where it was made."""
    if code.launching is not None:
        code.launching.error = error
    else:
        traceback.print_exception(error)
    code.failed = True


def _begins(launch: Any) -> None:
    address = ctypes.addressof(launch.contents)
    stack = _stack()
    code = _live[address] = Code(launch.contents, stack[-1] if stack else None)
    try:
        for watch in filter(None, _watches):
            _mark(watch, code)
    except BaseException as error:
        _fails(code, error)


def _comes(address: Any) -> int:
    wave = address.contents
    code = _live[ctypes.addressof(wave.launch.contents)]
    if code.failed:
        return 0
    try:
        stop = Stop(code, wave)
        for bit, watch in enumerate(list(_watches)):
            if watch is None:
                continue
            if wave.before >> bit & 1:
                watch.executed(stop, wave.previous)
            if wave.now >> bit & 1:
                watch.comes(stop, not wave.before >> bit & 1 or wave.pc <= wave.previous)
    except BaseException as error:
        _fails(code, error)
    return not code.failed


def _ends(launch: Any) -> None:
    del _live[ctypes.addressof(launch.contents)]


_BEGINS = abi.callback("WatchBegins")(_begins)
_COMES = abi.callback("WatchComes")(_comes)
_ENDS = abi.callback("WatchEnds")(_ends)


class LineWatch(Watch):
    """What waves hold where they come to a place."""

    def __init__(
        self,
        where: str,
        workgroup: int | Sequence[int] | None,
        wave: int | None,
        lanes: Sequence[int] | None,
        values: Sequence[Value],
        condition: Condition | Callable[[Stop], bool] | None,
        action: Callable[[Stop], None] | None,
        out: TextIO | None,
    ) -> None:
        self.where, self.workgroup, self.wave, self.lanes = where, workgroup, wave, lanes
        self.values, self.condition, self.action, self.out = values, condition, action, out
        self.hits = 0
        self._near: dict[str, list[int]] = {}  # kernel -> lines with code of a file that has none at this one
        self._found = False
        self._shows: set[tuple[int, int]] = set()  # waves on the line whose results are shown

    def marks(self, code: Code) -> list[int]:
        found = code.find(self.where)
        self._found |= bool(found)
        if not found:
            self._near[code.kernel] = code.lines_near(self.where)
        return found

    def holds(self, stop: Stop) -> bool:
        if isinstance(self.condition, Condition):
            return self.condition.holds(stop, [*stop.active(range(LANES) if self.lanes is None else self.lanes)])
        return self.condition is None or bool(self.condition(stop))

    def comes(self, stop: Stop, first: bool) -> None:
        if not first:
            return
        self._shows.discard((stop.linear_id, stop.wave))
        if not self.holds(stop):
            return
        self.hits += 1
        if self.action is not None:
            self.action(stop)
            return
        lanes = stop.active(self.lanes)
        self._print(f"{stop}, lanes {','.join(map(str, lanes)) or 'none active'}")
        for value in self.values:
            self._print(f"  {shown_lanes(stop, value, lanes)}")
        if not self.values:
            self._shows.add((stop.linear_id, stop.wave))

    def executed(self, stop: Stop, pc: int) -> None:
        if (stop.linear_id, stop.wave) in self._shows:
            self._print(f"  {executed_text(stop, pc, stop.active(self.lanes))}")

    def _print(self, text: str) -> None:
        print(text, file=self.out or sys.stdout)

    def remove(self) -> None:
        super().remove()
        if self._near and not self._found:
            print(f"cdna: watch {self.where}: {why_not_found(self.where, self._near)}", file=sys.stderr)


def why_not_found(where: str, near: dict[str, list[int]]) -> str:
    """That no launched kernel has code there; near: of each kernel, the lines of that file that have."""
    lines = sorted({line for of_kernel in near.values() for line in of_kernel})
    there = f"lines of that file with code: {', '.join(map(str, lines))}" if lines else "nor elsewhere in that file"
    return f"no code there in {', '.join(sorted(near))}; {there}"


def executed_text(stop: Stop, pc: int, lanes: Sequence[int]) -> str:
    """An instruction, and what it has written, in these lanes."""
    results = [shown_lanes(stop, value, lanes) for value in stop.code.written(pc)]
    return f"{stop.code.text(pc)}{'  ; ' if results else ''}{', '.join(results)}"


def watch(
    where: str,
    workgroup: int | Sequence[int] | None = None,
    wave: int | None = None,
    lanes: int | Sequence[int] | None = None,
    values: str | Sequence[str] = (),
    condition: str | Callable[[Stop], bool] | None = None,
    action: Callable[[Stop], None] | None = None,
    out: TextIO | None = None,
) -> LineWatch:
    """Look at waves that come to a place, until `.remove()` or the end of a `with` block.

    where: "FILE:LINE", "KERNEL" (its first instruction) or "KERNEL+N" (the N-th instruction behind that). workgroup:
    its linear id or (x, y, z); wave: its number in the workgroup; None: all. lanes: which are shown; None: the first
    eight active ones. values: what is printed, see docs/debugging.md; none: what the line's instructions write.
    condition: "VALUE OPERATOR NUMBER", true where one of the lanes fulfils it, or a function. action: called with a
    `Stop` instead of printing; what it raises ends the launch. out: where to print.
    """
    chosen = [lanes] if isinstance(lanes, int) else lanes
    for lane in chosen or ():
        if not 0 <= lane < LANES:
            raise CdnaError(f"lanes: {lane}: a wave has lanes 0 to {LANES - 1}")
    if ":" in where and not where.rpartition(":")[2].isdecimal():
        raise CdnaError(f"{where!r}: a place is FILE:LINE, KERNEL or KERNEL+N")
    names = [values] if isinstance(values, str) else values
    parsed = parse_condition(condition) if isinstance(condition, str) else condition
    made = LineWatch(where, workgroup, wave, chosen, [parse_value(name) for name in names], parsed, action, out)
    add(made)
    return made


class Trace(Watch):
    """Every instruction of one wave, with its line and what it has written, as lines of text."""

    def __init__(self, out: TextIO, workgroup: int | Sequence[int], wave: int, lanes: Sequence[int] | None) -> None:
        self.out, self.workgroup, self.wave, self.lanes = out, workgroup, wave, lanes
        self.instructions = 0
        self._line = ""

    def marks(self, code: Code) -> range:
        self._line = ""
        print(f"{code.kernel}, workgroup {self.workgroup}, wave {self.wave}", file=self.out)
        return range(code.launch.n_inst)

    def comes(self, stop: Stop, first: bool) -> None:
        if stop.line != self._line:
            self._line = stop.line
            print(f"{self._line}:", file=self.out)
        self.instructions += 1
        if stop.ends:
            print(f"  {stop.pc:5} {stop.instruction}", file=self.out)

    def executed(self, stop: Stop, pc: int) -> None:
        lanes = stop.active(self.lanes)
        print(f"  {pc:5} {executed_text(stop, pc, lanes if self.lanes is not None else lanes[:1])}", file=self.out)


@contextmanager
def trace(
    file: str | Path, workgroup: int | Sequence[int] = 0, wave: int = 0, lanes: int | Sequence[int] | None = None
) -> Iterator[Trace]:
    """Within the block, write every instruction that one wave of each launch executes to a file, with what it writes
    in these lanes (None: the first active one)."""
    try:
        out = Path(file).open("w", encoding="utf-8")
    except OSError as reason:
        raise CdnaError(f"cannot write {file}: {reason.strerror}") from None
    made = Trace(out, workgroup, wave, [lanes] if isinstance(lanes, int) else lanes)
    with out:
        add(made)
        try:
            yield made
        finally:
            made.remove()
