"""Launches that lose a wait or a barrier: each in turn, of whatever kernels a function launches.

What the checks say of such a launch is compared with two other judges. A wait is needed where, in a straight line of
code, a register that only it waits for is touched before another wait; a barrier is, where some order of the waves
changes what the kernel leaves in its tensors.
"""

from __future__ import annotations

import ctypes
import dataclasses
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cdna
from cdna import checks
from cdna.binary.asm import AsmFile, Statement
from cdna.binary.decode import base_mnemonic
from cdna.binary.uses import use_of
from cdna.engine.settings import ordered
from cdna.errors import KernelFault
from cdna.isa import facts_of
from cdna.launch.program import Kernel, Program

KINDS = "wait,race,uninitialised,bounds"
ORDER_SEEDS = range(1, 7)
_COUNT = re.compile(r"(vmcnt|lgkmcnt)\((\d+)\)")
_NO_LIMIT = 63


@dataclass(frozen=True)
class Mutant:
    """A kernel without one of its statements: what the checks found, and whether it is needed as others see it."""

    kernel: str
    statement: str
    line: int  # of the assembly
    found: frozenset[str]
    needed: bool


def counts(statement: Statement) -> dict[str, int]:
    """Operations that an s_waitcnt leaves outstanding, by counter."""
    if statement.mnemonic != "s_waitcnt":
        return {}
    return {name: int(count) for name, count in _COUNT.findall(statement.operands)}


def _leaves_line(asm: AsmFile, index: int) -> bool:
    facts = facts_of(base_mnemonic(asm.statements[index].mnemonic))
    return facts.unit in ("branch", "end", "barrier") or facts.does == "jump"


def wait_is_needed(asm: AsmFile, index: int) -> bool:
    """Whether a register that only this wait waits for is touched in the straight line of code behind it."""
    labels = set(asm.labels.values())
    dropped = counts(asm.statements[index])

    def use(i: int) -> Any:
        mnemonic = base_mnemonic(asm.statements[i].mnemonic)
        return use_of(mnemonic, asm.statements[i].operands)

    for counter, keep in dropped.items():
        issued: list[tuple[frozenset[Any], bool]] = []  # newest first: registers, whether they return in order
        limit = _NO_LIMIT
        for i in range(index - 1, -1, -1):
            if i + 1 in labels or _leaves_line(asm, i):
                break
            limit = min(limit, counts(asm.statements[i]).get(counter, _NO_LIMIT))
            if limit <= len(issued):
                break
            facts = facts_of(base_mnemonic(asm.statements[i].mnemonic))
            if facts.unit == "memory" and counter == "vmcnt" and facts.does in ("load", "store", "atomic"):
                issued.append((use(i).writes, True))
            elif facts.unit in ("lds", "scalar_memory") and counter == "lgkmcnt":
                issued.append((use(i).writes, facts.unit == "lds"))
        if not all(in_order for _, in_order in issued) and keep:
            continue
        covered = frozenset[Any]().union(*(registers for registers, _ in issued[keep:limit]))
        for i in range(index + 1, len(asm.statements)):
            if i in labels or _leaves_line(asm, i):
                break
            if counts(asm.statements[i]).get(counter, _NO_LIMIT) <= keep:
                break
            later = use(i)
            if covered & (later.reads | later.c):
                return True
    return False


class _Tensors:
    """Contents of a launch's memory, to be put back before the next."""

    def __init__(self, memory: checks.Memory) -> None:
        self.saved = [(t.base, t.size_bytes, ctypes.string_at(t.base, t.size_bytes)) for t in memory.tensors]

    def restore(self) -> None:
        for base, size, content in self.saved:
            ctypes.memmove(base, content, size)

    def now(self) -> list[bytes]:
        return [ctypes.string_at(base, size) for base, size, _ in self.saved]


def _without(asm: AsmFile, index: int, instead: str = "s_nop") -> AsmFile:
    statements = list(asm.statements)
    statements[index] = dataclasses.replace(statements[index], mnemonic=instead, operands="0" if instead else "")
    return dataclasses.replace(asm, statements=statements)


def _span(asm: AsmFile, kernel: str) -> tuple[int, int]:
    """A kernel's statements: from its label to the next function."""
    begin = asm.labels[kernel]
    functions = (asm.labels.get(name, begin) for name in (*asm.functions, *asm.descriptors))
    return begin, min((at for at in functions if at > begin), default=len(asm.statements))


def _alone(kernel: Kernel) -> AsmFile:
    """A kernel's file without the rest of its code, which each mutant's program would decode again; all of it where it
    may call some."""
    asm = kernel.program.asm
    begin, end = _span(asm, kernel.name)
    statements = asm.statements[begin:end]
    if any(statement.mnemonic in ("s_swappc_b64", "s_setpc_b64") for statement in statements):
        return asm
    return dataclasses.replace(
        asm,
        statements=statements,
        labels={name: at - begin for name, at in asm.labels.items() if begin <= at < end},
        functions=[kernel.name],
        descriptors={kernel.name: asm.descriptors[kernel.name]},
        metadata={kernel.name: asm.metadata[kernel.name]},
    )


def _mutants_of(kernel: Kernel, launch: Callable[[Kernel], None], tensors: _Tensors) -> Iterator[Mutant]:
    asm = _alone(kernel)
    begin, end = _span(asm, kernel.name)

    def run(changed: AsmFile, kinds: str, seed: int = 0) -> list[bytes]:
        tensors.restore()
        with checks.use(kinds, raises=False), ordered(seed):
            launch(Program(changed).kernels[kernel.name])
        return tensors.now()

    right = run(asm, "none")
    for index in range(begin, end):
        statement = asm.statements[index]
        if statement.mnemonic not in ("s_waitcnt", "s_barrier"):
            continue
        try:
            run(_without(asm, index, "s_trap"), "none")
            continue  # it is never reached
        except KernelFault:
            pass
        cdna.findings()
        changed = _without(asm, index)
        run(changed, KINDS)
        found = frozenset(finding.kind for finding in cdna.findings())
        if statement.mnemonic == "s_barrier":
            needed = any(run(changed, "none", seed) != right for seed in ORDER_SEEDS)
        else:
            needed = wait_is_needed(asm, index)
        text = str(statement)
        yield Mutant(kernel.name, text, statement.asm_line, found, needed)
    tensors.restore()


@contextmanager
def mutating(collected: list[Mutant]) -> Iterator[None]:
    """Within the block, the first launch of each kernel is repeated with each of its waits and barriers left out."""
    original, seen = Kernel.launch, set[str]()

    def launch(
        self: Kernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        kernarg: bytes,
        dynamic_lds_bytes: int = 0,
        memory: checks.Memory | Callable[[], checks.Memory] = checks.UNKNOWN_MEMORY,
        trial: bool = False,
    ) -> Any:
        if self.name not in seen:
            seen.add(self.name)
            known = memory() if callable(memory) else memory

            def again(kernel: Kernel) -> None:
                original(kernel, grid, block, kernarg, dynamic_lds_bytes, known)

            collected.extend(_mutants_of(self, again, _Tensors(known)))
        return original(self, grid, block, kernarg, dynamic_lds_bytes, memory, trial)

    Kernel.launch = launch  # type: ignore[method-assign]
    try:
        yield
    finally:
        Kernel.launch = original  # type: ignore[method-assign]
