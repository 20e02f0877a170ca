"""Kernels with a wait weakened by one or a wait state less: does `python -m cdna check` see each that matters?

    python lab/path_mutations.py FILE ... [--most 40] [--walks 300] [--seed 1] [-o FILE.json]

FILE: a code object, or assembly as compilers write it.

A mutant that is not named is judged by walks: random paths through the kernel on which the counters are queues, as the
hardware has them, and each instruction's registers are looked up in them. It shares the tables of instructions with the
check and no more: not its way round the program, nor its ages. Where no walk meets a register before its wait, and LDS
is touched by no wave at all behind a barrier that a store has crossed, the wait that was weakened is one of several, or
waits for nothing that is used: harmless. Walks of a mutant that lost a wait state count the states between the two.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

from cdna.binary.all_paths import KernelPaths, look_at
from cdna.binary.asm import AsmFile, Statement, parse
from cdna.binary.decode import base_mnemonic, wait_counts
from cdna.binary.elf import CodeObjectError, read
from cdna.binary.flow import Flow, Stack
from cdna.binary.lane_values import LaneValues
from cdna.binary.statements import statements_of
from cdna.binary.uses import M0, Register, use_of
from cdna.isa import facts_of

NAMES, MOST, NONE = ("vmcnt", "lgkmcnt", "expcnt"), (63, 15, 7), 255
STEPS_OF_A_WALK = 20_000


@dataclass(frozen=True)
class Mutant:
    """The statement that was changed, and how: `vmcnt`, `lgkmcnt`, `nop` or `barrier`."""

    index: int
    kind: str
    asm: AsmFile


def mutants(asm: AsmFile) -> Iterator[Mutant]:
    """Of all that is executed: behind the end of a kernel is padding."""
    flow = Flow(asm)
    reached: set[int] = set().union(*(flow.reached(asm.labels[kernel])[0] for kernel in asm.descriptors))
    for index in sorted(reached):
        statement = asm.statements[index]
        if statement.mnemonic == "s_waitcnt":
            counts = list(wait_counts(statement.operands))
            for which in (0, 1):
                if counts[which] < MOST[which]:
                    weaker = [n + (i == which) for i, n in enumerate(counts)]
                    text = " ".join(f"{name}({n})" for name, n, most in zip(NAMES, weaker, MOST) if n < most)
                    yield Mutant(index, NAMES[which], with_statement(asm, index, "s_waitcnt", text or "vmcnt(63)"))
        elif statement.mnemonic == "s_nop":
            states = int(statement.operands or "0", 0)
            less = with_statement(asm, index, "s_nop", str(states - 1)) if states else without(asm, index)
            yield Mutant(index, "nop", less)


def with_statement(asm: AsmFile, index: int, mnemonic: str, operands: str) -> AsmFile:
    statements = list(asm.statements)
    statements[index] = replace(statements[index], mnemonic=mnemonic, operands=operands)
    return replace(asm, statements=statements)


def without(asm: AsmFile, index: int) -> AsmFile:
    statements = asm.statements[:index] + asm.statements[index + 1 :]
    labels = {name: at - (at > index) for name, at in asm.labels.items()}
    return replace(asm, statements=statements, labels=labels, gaps={at - (at >= index) for at in asm.gaps})


@dataclass
class _Pending:
    registers: frozenset[Register]
    ordered: bool
    lds: str  # what it does there: load, store, or "direct", a load from memory that goes straight there
    flag: bool  # another wave may have written it
    group: int  # how many barriers came before it


class Walk:
    """One random path from the entry, with queues for counters."""

    def __init__(self, asm: AsmFile, flow: Flow, entry: int, draw: random.Random) -> None:
        self.asm, self.flow, self.draw, self.at = asm, flow, draw, entry
        self.stack: Stack = ()
        self.queues: list[list[_Pending]] = [[], []]
        self.barriers, self.crossed = 0, set[str]()  # what of LDS has crossed a barrier: load, store
        self.came: set[int] = set()  # groups of which a direct load has come
        self.fault = ""

    def run(self, steps: int = STEPS_OF_A_WALK) -> str:
        """What goes wrong first, "" where nothing does."""
        for _ in range(steps):
            if self.at in self.flow.unknown:
                return ""
            statement = self.asm.statements[self.at]
            self._execute(self.flow.mnemonics[self.at], statement)
            if self.fault:
                return f"{self.fault} at {statement.mnemonic} {statement.operands}"
            if self.flow.leaves[self.at]:
                places = self.flow.after(self.at, self.stack)
                if not places:
                    return ""
                self.at, self.stack = self.draw.choice(places)
            else:
                self.at += 1
        return ""

    def _execute(self, name: str, statement: Statement) -> None:
        facts, use, text = facts_of(name), use_of(name, statement.operands), statement.operands
        if facts.unit == "wait":
            for queue, count, most in zip(self.queues, wait_counts(text), MOST):
                self._wait(queue, NONE if count >= most else count)
            return
        self._look(use.reads | use.c | use.lane | use.stored | ({M0} if use.m0 else set()), False, "")
        kind = {"lds": "lds", "scalar_memory": "scalar", "memory": "memory"}.get(facts.unit, "")
        pending = [one for queue in self.queues for one in queue]
        if facts.unit == "barrier":
            self.barriers += 1
            self.crossed = {one.lds for one in pending}  # who crossed an earlier one and has come is behind this
            if any(one.lds == "direct" and one.group in self.came for one in pending):
                self.fault = "loads to LDS that were issued together are parted by a barrier"
        here = facts.does if facts.unit == "lds" and facts.does in ("load", "store") else ""
        direct = " lds" in f" {text}" or "to_lds" in facts.flags
        if here and {"load": "store", "store": "load"}[here] in self.crossed:
            self.fault = "LDS is touched behind a barrier that another access has crossed"
        if facts.does == "acquire" and any(one.flag for one in pending):
            self.fault = "caches are emptied before the flag has come"
        writes = use.writes
        if facts.does == "atomic" and facts.space == "buffer" and {"sc0", "glc"} & set(text.split()):
            writes |= use_of("buffer_load_dword", text).writes
        self._look(writes, True, kind)
        counts = {"lds": (1,), "scalar": (1,), "memory": (0, 1) if facts.space == "flat" else (0,), "": ()}[kind]
        for which in counts if facts.does not in ("acquire", "release") else ():
            ordered = kind != "scalar" and facts.space != "flat"
            flag = kind == "memory" and (facts.does == "atomic" or (facts.does == "load" and "sc1" in text.split()))
            queue = self.queues[which]
            if which == 0 and len(queue) >= MOST[0]:
                queue.pop(0)
            queue.append(_Pending(frozenset(writes), ordered, "direct" if direct else here, flag, self.barriers))

    def _wait(self, queue: list[_Pending], keep: int) -> None:
        """Of those that come in any order, the latest ones may have come first."""
        before = list(queue)
        if keep == 0:
            queue.clear()
        while sum(one.ordered for one in queue) > keep:
            queue.remove(next(one for one in queue if one.ordered))
        self.came |= {one.group for one in before if one.lds == "direct" and not any(one is other for other in queue)}

    def _look(self, registers: frozenset[Register] | set[Register], writes: bool, kind: str) -> None:
        for which, queue in enumerate(self.queues):
            for one in queue:
                in_turn = writes and one.ordered and kind == ("memory", "lds")[which]
                if one.registers & registers and not in_turn:
                    self.fault = f"{sorted(one.registers & registers)[0]} before its wait"


def why_no_state_is_needed(asm: AsmFile, index: int) -> str:
    """Of an s_nop: which of the four kinds it is, "" where it is none."""
    names = [base_mnemonic(statement.mnemonic) for statement in asm.statements]
    behind = next(i for i in range(index + 1, len(names)) if facts_of(names[i]).unit not in ("idle", "wait"))
    before = [i for i in range(max(0, index - 21), index) if facts_of(names[i]).unit not in ("idle", "wait")]
    later = use_of(names[behind], asm.statements[behind].operands)
    if not before:
        return ""
    last = facts_of(names[before[-1]])
    stored = use_of(names[before[-1]], asm.statements[before[-1]].operands).stored
    soon = [use_of(names[i], asm.statements[i].operands) for i in range(behind, behind + 3) if i < len(names)]
    if stored and not any(use.writes & stored for use in soon):
        return "own"
    if last.unit == later.unit in ("memory", "scalar_memory") and last.does == facts_of(later.name).does == "load":
        return "clause"
    if sum(facts_of(names[i]).unit == "matrix" for i in before) > 1:
        return "matrix unit"
    near = [use_of(names[i], asm.statements[i].operands) for i in before[-2:]]
    written = frozenset[Register]().union(*(use.writes for use in near))
    if any(use.name.startswith("v_pk_") and use.writes & later.reads for use in near):
        return "packed"
    if later.dpp and later.writes & written and not later.dpp & written:
        return "old value"
    return ""


def walks_find(asm: AsmFile, walks: int, seed: int) -> str:
    flow, draw = Flow(asm), random.Random(seed)
    for kernel in asm.descriptors:
        for _ in range(walks):
            if found := Walk(asm, flow, asm.labels[kernel], draw).run():
                return found
    return ""


def doubted_without_addresses(asm: AsmFile) -> bool:
    """Whether the check does see an access cross a barrier, and knows by its address that it touches other words."""
    with patch.object(LaneValues, "look", lambda *_: None):
        return any(one.certainty == "undecided" for kernel in look_at(asm) for one in kernel.findings)


def said_of(kernels: list[KernelPaths]) -> set[tuple[str, str, str]]:
    return {(one.kind, one.instruction, one.certainty) for kernel in kernels for one in kernel.findings}


def judge(file: Path, most: int, walks: int, seed: int) -> Counter[str]:
    """Of a file's mutants, by kind: named, doubted, harmless, missed."""
    counts: Counter[str] = Counter()
    asm = parse(file.read_text()) if file.suffix == ".s" else statements_of(read(file.read_bytes()))
    before = said_of(look_at(asm))
    if walks and (found := walks_find(asm, 20, seed)) and not before:
        counts["false walk"] += 1
        print(f"{file}: the kernel itself: {found}")
    every = list(mutants(asm))
    for mutant in random.Random(seed).sample(every, min(most, len(every))):
        new = said_of(look_at(mutant.asm)) - before
        certain = any(certainty != "undecided" for _, _, certainty in new)
        verdict = "named" if certain else "doubted" if new else ""
        if not verdict:
            if mutant.kind == "nop":
                reason = why_no_state_is_needed(asm, mutant.index)
                verdict, found = f"harmless: {reason}" if reason else "missed", "no reason known"
            else:
                found = walks_find(mutant.asm, walks, seed)
                apart = found.startswith("LDS is touched") and doubted_without_addresses(mutant.asm)
                verdict = "harmless: other words" if apart else "missed" if found else "harmless"
            if verdict == "missed":
                near = asm.statements[max(0, mutant.index - 5) : mutant.index + 2]
                code = " | ".join(f"{one.mnemonic} {one.operands}" for one in near)
                print(f"{file}: {mutant.kind} missed: {found}: {code}", flush=True)
        counts[f"{mutant.kind} {verdict}"] += 1
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--most", type=int, default=40, help="mutants of a file")
    parser.add_argument("--walks", type=int, default=300, help="random paths of a mutant that is not named")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", dest="output", type=Path)
    arguments = parser.parse_args()
    total: Counter[str] = Counter()
    for file in arguments.files:
        try:
            total += judge(file, arguments.most, arguments.walks, arguments.seed)
        except CodeObjectError as error:
            print(f"{file}: {error}")
    print(dict(sorted(total.items())))
    if arguments.output is not None:
        document = {
            "title": "Waits weakened by one and wait states left out, under cdna check",
            "kind": "measured",
            "machine": "any",
            "versions": {"seed": str(arguments.seed), "walks of a mutant that is not named": str(arguments.walks)},
            "command": f"python lab/path_mutations.py FILE ... --most {arguments.most}",
            "notes": [f"{sum(total.values())} mutants of {len(arguments.files)} files, drawn at random."],
            "columns": ["changed", "said", "mutants"],
            "rows": [[*name.split(" ", 1), str(count)] for name, count in sorted(total.items())],
        }
        arguments.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
