"""What Triton's AMD backend is known to make wrong code of, found in a kernel as it is compiled (docs/compilers.md).

A note about a kernel travels with its binary, so that one out of Triton's cache is warned of as well.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..binary.decode import base_mnemonic
from ..cards import ARCHS, get_card
from ..isa import Facts, instructions

# Begins a line behind a kernel's assembly.
NOTE = "; compiler fault: "


def _executed(assembly: str) -> Iterator[tuple[str, Facts]]:
    """The lines with an instruction, and its facts."""
    for line in map(str.strip, assembly.splitlines()):
        known = instructions().get(base_mnemonic(line.partition(" ")[0]))
        if known is not None and known.facts is not None:
            yield line, known.facts


def _reduces_signed_as_unsigned(ttgir: str, assembly: str) -> bool:
    """tl.atomic_max and atomic_min of signed integers, with a reduction of lanes that share an address."""
    of_floats = set(re.findall(r"(%\w+) = tt\.bitcast ", ttgir))  # whose sign is split off before
    values = re.findall(r"atomic_rmw (?:max|min), \w+, \w+, %[\w#]+(?:\[[^]]*\])?, (%[\w#]+)", ttgir)
    pulls = any(facts.flow == "pulls" for _, facts in _executed(assembly))
    return pulls and any(value not in of_floats for value in values)


def _in_loops(ttgir: str) -> Iterator[tuple[str, int]]:
    """Each line, and in how many loops it stands."""
    loops: list[bool] = []  # of the open blocks, whether each is a loop
    for line in ttgir.splitlines():
        yield line, sum(loops)
        # a block's braces stand at the ends of lines; attributes' are closed where they are opened
        if line.lstrip().startswith("}"):
            del loops[-1:]
        if line.split(" loc(")[0].rstrip().endswith("{"):
            loops.append("scf.for" in line or "scf.while" in line)


def _polls_by_a_plain_load(ttgir: str, assembly: str) -> bool:
    """tl.load(volatile=True) of a scalar in a loop, which LLVM never hears is volatile. With .cv it does."""
    return any(
        loops and "tt.load" in line and "isVolatile = true" in line and "cacheModifier = cv" not in line
        for line, loops in _in_loops(ttgir)
    )


def _overtakes_in_nested_loops(ttgir: str, assembly: str) -> bool:
    """Asynchronous copies to LDS in a pipelined loop inside another: the next round of the outer loop begins to fill
    LDS that slower waves still read from. It shows where the inner loop's steps are one more than a multiple of the
    buffers, which is known at run time only."""
    copies: set[int] = set()  # in how many loops they stand
    barriers: set[int] = set()
    for line, loops in _in_loops(ttgir):
        if re.search(r"\b(async_copy_global_to_local|buffer_load_to_local)\b", line):
            copies.add(loops)
        if re.search(r"\b(gpu\.barrier|ttg\.barrier|ttg\.local_barrier)\b", line):  # tl.debug_barrier
            barriers.add(loops)
    inner = max(copies, default=0)
    return inner > 1 and inner - 1 not in barriers


# Two halves of the waves, one barrier apart, multiply in turns (knobs.amd.use_block_pingpong, on by default; gfx942).
_APART = "cond_barrier"


def _exchanges_between_halves(ttgir: str, assembly: str) -> bool:
    """In such a loop, a change of layout that goes to other waves, through LDS."""
    waves = dict(re.findall(r"^(#\w+) = #ttg\.amd_mfma<\{.*?warpsPerCTA = (\[[^]]*\])", ttgir, re.MULTILINE))
    loop = "".join(ttgir.split(_APART)[1:-1])
    changes = re.findall(r"ttg\.convert_layout (.*?)(?: loc\(|$)", loop, re.MULTILINE)
    return any(len({waves[name] for name in re.findall(r"#\w+", change) if name in waves}) > 1 for change in changes)


def _passes_a_barrier_reading(ttgir: str, assembly: str) -> bool:
    """In such a loop of one product, reads of LDS that nothing waits for before the barrier behind which the other half
    writes there."""
    if _APART not in ttgir or ttgir.count("rocdl.s.barrier") != 1:
        return False
    reading = False
    for line, facts in _executed(assembly):
        if facts.space == "lds" and facts.does == "load":
            reading = True
        elif facts.unit == "wait" and "lgkmcnt(0)" in line:
            reading = False
        elif facts.unit == "barrier" and reading:
            return True
    return False


def _sums_integers_in_fp32(ttgir: str, assembly: str) -> bool:
    """tl.dot of int8 in steps of k that no integer instruction takes: its sum becomes fp32 and int32 in each."""
    made = set(re.findall(r"(%\w+) = arith\.sitofp .* tensor<[\dx]+i32, ", ttgir))
    products = re.findall(r"(%\w+) = tt\.dot %\w+, %\w+, (%\w+)", ttgir)
    return any(acc in made and f"arith.fptosi {product} " in ttgir for product, acc in products)


def _has_fp8(ttgir: str, format: str) -> bool:
    """Whether instructions of the card that it is compiled for take this kind of fp8."""
    return any(f'"hip:{arch}"' in ttgir and get_card(arch).fp8_format == format for arch in ARCHS)


def _converts(format: str, sources: str, results: str) -> Callable[[str, str], bool]:
    """Of types that match, where the card has fp8 of that kind."""
    pattern = re.compile(rf"tt\.fp_to_fp .*: tensor<[\dx]+(?:{sources}), .*-> tensor<[\dx]+(?:{results}), ")
    return lambda ttgir, assembly: pattern.search(ttgir) is not None and _has_fp8(ttgir, format)


def _multiplies_two_fp8(ttgir: str, assembly: str) -> bool:
    """tl.dot of e4m3fnuz by e5m2fnuz, or the other way round, by an instruction of the card."""
    products = re.findall(r"tt\.dot .* : tensor<[\dx]+(f8\w+), .* \* tensor<[\dx]+(f8\w+), ", ttgir)
    return any(one != other for one, other in products) and _has_fp8(ttgir, "fnuz")


def _takes_roots_to_nearest(ttgir: str, assembly: str) -> bool:
    return "tt.precise_sqrt" in ttgir


@dataclass(frozen=True)
class Fault:
    """versions: the first that has it and the first that does not any more, None while there is none. row: of
    docs/compilers.md's table."""

    row: str
    text: str
    versions: tuple[tuple[int, int], tuple[int, int] | None]
    is_in: Callable[[str, str], bool]

    def concerns(self, minor: tuple[int, int]) -> bool:
        first, fixed = self.versions
        return first <= minor and (fixed is None or minor < fixed)


FAULTS = (
    Fault(
        "atomic_extremes_of_int32",
        "tl.atomic_max and atomic_min of signed integers compare lanes that share an address as unsigned numbers: with "
        "negative ones the result is wrong. Add an offset that makes them positive, or reduce with tl.max before",
        ((3, 4), None),
        _reduces_signed_as_unsigned,
    ),
    Fault(
        "persistent_loop_with_asynchronous_copies",
        "asynchronous copies of a pipelined loop inside another may overwrite LDS that other waves still read: it does "
        "where the inner loop has one step more than a multiple of its buffers. Take TRITON_HIP_USE_ASYNC_COPY=0, or a "
        "tl.debug_barrier() behind the inner loop",
        ((3, 4), (3, 9)),
        _overtakes_in_nested_loops,
    ),
    Fault(
        "attention_of_halves_in_turns",
        "two halves of the waves take turns in this loop, a barrier apart, and change a layout through LDS as if they "
        "were not: the result may be wrong. Take TRITON_HIP_USE_BLOCK_PINGPONG=0",
        ((3, 5), None),
        _exchanges_between_halves,
    ),
    Fault(
        "product_of_halves_in_turns",
        "two halves of the waves take turns in this loop, and one may overwrite LDS that the other still reads, for it "
        "passes a barrier before its reads have ended. Take TRITON_HIP_USE_BLOCK_PINGPONG=0",
        ((3, 4), (3, 9)),
        _passes_a_barrier_reading,
    ),
    Fault(
        "volatile_poll",
        "tl.load(volatile=True) is compiled as any load: a loop that polls by it may read once, and wait for ever. "
        "Take cache_modifier='.cv' beside it, or an atomic",
        ((3, 4), (3, 9)),
        _polls_by_a_plain_load,
    ),
    Fault(
        "int8_product_in_steps_of_one",
        "tl.dot of int8 with so small a block of k adds in fp32: beyond 2**24 the int32 result is rounded. Take blocks "
        "of k that 4 divides",
        ((3, 4), (3, 8)),
        _sums_integers_in_fp32,
    ),
    Fault(
        "f16_to_e4m3fn",
        "fp16 numbers from 464.25 to 479.75 become NaN in e4m3fn, where larger ones become 448. Clamp them before",
        ((3, 4), None),
        _converts("fnuz", "f16", "f8E4M3FN"),
    ),
    Fault(
        "e5m2_to_bf16",
        "NaN of e4m3fn and e5m2, and e5m2's infinities, become finite in bf16. Convert by way of fp32",
        ((3, 4), None),
        _converts("fnuz", "f8E4M3FN|f8E5M2", "bf16"),
    ),
    Fault(
        "e5m2fnuz_to_bf16",
        "e5m2fnuz becomes twice its value in bf16. Convert by way of fp32",
        ((3, 5), (3, 9)),
        _converts("ocp", "f8E5M2FNUZ", "bf16"),
    ),
    Fault(
        "e4m3fnuz_to_f16",
        "NaN of e4m3fnuz and e5m2fnuz becomes -0",
        ((3, 5), (3, 9)),
        _converts("ocp", "f8E[45]M[23]FNUZ", r"b?f\d+"),
    ),
    Fault(
        "product_of_e4m3_by_e5m2",
        "tl.dot of e4m3 by e5m2 reads each matrix in the other's format: the result is wrong. Convert one before",
        ((3, 5), (3, 7)),
        _multiplies_two_fp8,
    ),
    Fault(
        "root_to_nearest",
        "tl.sqrt_rn of fp32 numbers below 2**-126 is NaN. Scale them before",
        ((3, 4), (3, 7)),
        _takes_roots_to_nearest,
    ),
)
# A part of cache keys: what was compiled when fewer faults were known is looked at again.
KNOWN = f"{zlib.crc32(repr([(fault.text, fault.versions) for fault in FAULTS]).encode()):08x}"
REMEMBERED = (
    "this Triton, before 3.7, converts fp8 as for {}, the first arch that the process has compiled for: the result may "
    "be wrong. Use one arch in a process"
)
EXCHANGES = ((3, 6), (3, 9))  # versions that turn tl.atomic_xchg into a buffer instruction that LLVM does not know


def notes_on(ttgir: str, assembly: str, minor: tuple[int, int], other_arch: str = "") -> str:
    """Lines for what a kernel is known to be compiled wrong in; "" if nothing.

    other_arch: which the process compiled for before, where Triton remembers that.
    """
    found = [
        f"{fault.text} [{fault.row}]" for fault in FAULTS if fault.concerns(minor) and fault.is_in(ttgir, assembly)
    ]
    if other_arch and "f8E" in ttgir:
        found.append(REMEMBERED.format(other_arch))
    return "".join(f"{NOTE}{text}\n" for text in found)


def why_refused(ttgir: str, minor: tuple[int, int]) -> str:
    """Why a kernel that did not get through to LLVM did not, where that is known; "" if not."""
    if EXCHANGES[0] <= minor < EXCHANGES[1] and re.search(r"buffer_atomic_rmw exch", ttgir):
        return (
            "Triton {}.{} has no buffer instruction for tl.atomic_xchg, for a real card neither: "
            "AMDGCN_USE_BUFFER_ATOMICS=0 in the environment makes it compile (docs/compilers.md)"
        ).format(*minor)
    return ""


def texts_in(notes: str) -> list[str]:
    """The texts of such lines."""
    return [line.removeprefix(NOTE) for line in notes.splitlines() if line.startswith(NOTE)]
