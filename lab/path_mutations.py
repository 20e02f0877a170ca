"""Kernels with a wait weakened by one or a wait state less: does `python -m cdna check` see each that matters?

    python lab/path_mutations.py FILE.hsaco ... [--most 40] [--walks 300] [--seed 1] [-o FILE.json]

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

from cdna.binary.all_paths import KernelPaths, look_at
from cdna.binary.asm import AsmFile, Statement
from cdna.binary.decode import wait_counts
from cdna.binary.elf import CodeObjectError, read
from cdna.binary.flow import Flow, Stack
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
    of_lds: bool
    load: bool


class Walk:
    """One random path from the entry, with queues for counters."""

    def __init__(self, asm: AsmFile, flow: Flow, entry: int, draw: random.Random) -> None:
        self.asm, self.flow, self.draw, self.at = asm, flow, draw, entry
        self.stack: Stack = ()
        self.queues: list[list[_Pending]] = [[], []]
        self.crossed = False  # a store to LDS has crossed a barrier
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
        if facts.unit == "barrier":
            self.crossed |= any(one.of_lds for queue in self.queues for one in queue)
        if facts.unit == "lds" and facts.does == "load" and self.crossed:
            self.fault = "LDS is read behind a barrier that a store has crossed"
        writes = use.writes
        if facts.does == "atomic" and facts.space == "buffer" and {"sc0", "glc"} & set(text.split()):
            writes |= use_of("buffer_load_dword", text).writes
        self._look(writes, True, kind)
        counts = {"lds": (1,), "scalar": (1,), "memory": (0, 1) if facts.space == "flat" else (0,), "": ()}[kind]
        if facts.does == "acquire":
            counts = ()
        for which in counts:
            ordered = kind != "scalar" and facts.space != "flat"
            to_lds = (kind == "lds" and facts.does == "store") or " lds" in f" {text}" or "to_lds" in facts.flags
            queue = self.queues[which]
            if which == 0 and len(queue) >= MOST[0]:
                queue.pop(0)
            queue.append(_Pending(frozenset(writes), ordered, to_lds, facts.does == "load"))

    def _wait(self, queue: list[_Pending], keep: int) -> None:
        """Of those that come in any order, the latest ones may have come first."""
        if keep == 0:
            queue.clear()
        while sum(one.ordered for one in queue) > keep:
            queue.remove(next(one for one in queue if one.ordered))

    def _look(self, registers: frozenset[Register] | set[Register], writes: bool, kind: str) -> None:
        for which, queue in enumerate(self.queues):
            for one in queue:
                in_turn = writes and one.ordered and kind == ("memory", "lds")[which]
                if one.registers & registers and not in_turn:
                    self.fault = f"{sorted(one.registers & registers)[0]} before its wait"


def walks_find(asm: AsmFile, walks: int, seed: int) -> str:
    flow, draw = Flow(asm), random.Random(seed)
    for kernel in asm.descriptors:
        for _ in range(walks):
            if found := Walk(asm, flow, asm.labels[kernel], draw).run():
                return found
    return ""


def said_of(kernels: list[KernelPaths]) -> set[tuple[str, str, str]]:
    return {(one.kind, one.instruction, one.certainty) for kernel in kernels for one in kernel.findings}


def judge(file: Path, most: int, walks: int, seed: int) -> Counter[str]:
    """Of a file's mutants, by kind: named, doubted, harmless, missed."""
    counts: Counter[str] = Counter()
    asm = statements_of(read(file.read_bytes()))
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
            found = walks_find(mutant.asm, walks, seed) if mutant.kind != "nop" else ""
            verdict = "missed" if found else "harmless"
            if mutant.kind == "nop":
                near = asm.statements[max(0, mutant.index - 3) : mutant.index + 2]
                print("nop not named:", " | ".join(f"{one.mnemonic} {one.operands}" for one in near), flush=True)
            if found:
                print(f"{file}: {asm.statements[mutant.index]} ({mutant.kind}) missed: {found}", flush=True)
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
        document = {"files": len(arguments.files), "seed": arguments.seed, "walks": arguments.walks, "mutants": total}
        arguments.output.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
