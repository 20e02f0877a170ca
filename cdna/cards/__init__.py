"""The emulated cards as data: what every other part of cdna knows of one stands in the TOML files beside this one.

A card's file names its instruction set, whose file has what its cards share. Each key is [value, source].
"""

import functools
import os
import tomllib
import typing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..errors import CdnaError

FOLDER = Path(__file__).parent
VARIABLE = "CDNA_CARD"


@dataclass(frozen=True)
class Card:
    """One GPU. Bandwidths in GB/s of the whole card, latencies (`..._cycles`) in cycles of the compute units' clock."""

    name: str  # of its instruction set, as LLVM calls it: gfx942
    model: str  # MI300X
    product: str
    default_model: str  # the card that stands for the instruction set where none is named
    elf_machine: int  # of a code object
    fp8_format: str  # of the matrix instructions: fnuz or ocp
    compute_units: int
    xcds: int
    clock_mhz: int  # the highest
    links: int  # to other GPUs
    link_gb_s: float  # of one link in one direction
    link_alone_gb_s: float  # that one link reaches in one direction while the others are idle
    links_read_gb_s: float  # that loads from all peers at once reach together
    links_write_gb_s: float  # and stores to them
    memory_bytes: int
    memory_clock_mhz: int
    memory_bus_bits: int
    hbm_gb_s: float  # as the vendor states it
    hbm_read_gb_s: float
    hbm_nt_read_gb_s: float  # of loads marked `nt`, which leave nothing behind in the caches
    hbm_write_gb_s: float
    fabric_read_gb_s: float  # memory-side cache to the L2s
    fabric_write_gb_s: float
    l2_read_gb_s: float
    l2_write_gb_s: float
    memory_side_bytes: int
    l2_bytes: int  # of an XCD
    l1_bytes: int  # of a compute unit, as all that follow
    l1_sets: int
    lds_bytes: int  # and so the most that one workgroup may have
    lds_granule_bytes: int
    lds_read_banks: int
    lds_write_banks: int
    simds_per_cu: int
    max_waves_per_simd: int
    most_sgprs_at_all_waves: int  # with more of them a SIMD holds one wave fewer
    vgprs_per_lane: int  # architectural and accumulation
    vgpr_granule: int
    matrix_f16_flops_per_cycle: int
    matrix_fp8_flops_per_cycle: int
    matrix_fp4_flops_per_cycle: int
    mfma_extra_wait_states: int  # see hazards.py
    lds_cycles: int
    lds_queue_entries: int  # instructions before the LDS, of two SIMDs
    scalar_cycles: int  # a scalar load that the scalar cache has
    scalar_cold_cycles: int  # the first that a compute unit executes
    scalar_next_cycles: int  # and the first of another line
    l1_cycles: int
    l2_cycles: int
    memory_side_cycles: int
    memory_cycles: int
    link_cycles: int  # a load from a peer's memory
    store_cycles: int  # from a store to its acknowledgement
    barrier_cycles: int  # from the last wave's arrival
    refill_wave_cycles: int  # from the end of a workgroup of one wave to the start of the next in its place
    refill_group_cycles: int  # and of more waves, which leave together
    shader_engines_per_xcd: int  # each starts a wave in four cycles
    l1_in_flight_bytes: int  # that a compute unit waits for
    l1_queue_entries: int  # instructions before the L1
    atomic_line_ns: float  # between atomics on one line
    cache_maintenance_ns: float  # between write-backs or invalidations of an L2, from all over the card
    signals_us: float  # from a rank's signal to all peers to its having seen theirs
    sustained_mhz: float  # what power leaves where the matrix cores are always busy
    lds_power: float  # of a cycle of the LDS, beside one of all four matrix cores
    eight_bit_power: float  # of a matrix cycle with operands of 8 bits, beside one with 16 or 4
    launch_us: float  # before a kernel's first instruction and after its last
    queued_launch_us: float  # and what is left of it behind a longer kernel in the queue
    next_launch_us: float  # and behind one in a replayed graph
    wall_clock_khz: int  # of s_memrealtime

    @property
    def capability(self) -> tuple[int, int]:
        """(major, minor) as torch and HIP have it: (9, 4) of gfx942."""
        return int(self.name[3]), int(self.name[4])

    @property
    def target_id(self) -> str:
        """What code is compiled for: ECC on, XNACK off, as the leaderboard's machines run."""
        return f"{self.name}:sramecc+:xnack-"

    def matrix_tflops(self, kind: str) -> float | None:
        """Dense peak of "f16" (and bf16), "fp8" or "fp4"; None where no matrix instruction takes it."""
        flops = getattr(self, f"matrix_{kind}_flops_per_cycle", 0)
        return self.compute_units * flops * self.clock_mhz * 1e-6 if flops else None


_KINDS = {int: "a whole number", float: "a number", str: "a text"}


def _read(file: Path) -> dict[str, Any]:
    """Key -> value of a file whose entries are [value, source]."""
    try:
        table = tomllib.loads(file.read_text())
    except OSError as error:
        raise CdnaError(f"{file}: {error.strerror}: the installation is incomplete") from None
    except tomllib.TOMLDecodeError as error:
        raise CdnaError(f"{file}: {error}") from None
    for key, entry in table.items():
        if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], str) and entry[1]):
            raise CdnaError(f"{file}: {key}: expected [value, source], got {entry!r}")
    return {key: value for key, (value, _) in table.items()}


def read_card(file: Path) -> Card:
    """The card that a file and its instruction set's file beside it describe; CdnaError names file and key."""
    own = _read(file)
    if not isinstance(name := own.pop("arch", None), str):
        raise CdnaError(f"{file}: arch: expected the name of an instruction set's file, got {name!r}")
    base = file.with_name(f"{name}.toml")
    shared = _read(base)
    if twice := own.keys() & shared.keys():
        raise CdnaError(f"{file}: {min(twice)}: stands in {base.name} too")
    values = {"name": name, "model": file.stem, **shared, **own}
    types = typing.get_type_hints(Card)
    for key, value in values.items():
        where = base if key in shared else file
        if key not in types:
            raise CdnaError(f"{where}: {key}: no such fact of a card")
        if types[key] is float and type(value) is int:
            values[key] = float(value)
        elif type(value) is not types[key]:
            raise CdnaError(f"{where}: {key}: expected {_KINDS[types[key]]}, got {value!r}")
    for field in fields(Card):
        if field.name not in values:
            raise CdnaError(f"{file}: {field.name}: missing here and in {base.name}")
    return Card(**values)


@functools.cache
def cards() -> dict[str, Card]:
    """Model -> card, in the order of their names."""
    return {file.stem: read_card(file) for file in sorted(FOLDER.glob("*.toml")) if file.stem[:3] != "gfx"}


ARCHS: tuple[str, ...] = tuple(sorted(file.stem for file in FOLDER.glob("gfx*.toml")))


def check_arch(name: str) -> str:
    """The name of an arch; ValueError lists those known."""
    if name not in ARCHS:
        raise ValueError(f"unknown arch {name!r}: the emulated device knows {', '.join(ARCHS)}")
    return name


def get_card(arch: str, model: str | None = None) -> Card:
    """The card that `arch` is emulated as: the model of that name, else $CDNA_CARD if it is of this arch, else its
    default. ValueError lists the archs known; CdnaError the models."""
    check_arch(arch)
    known = cards()
    variable = os.environ.get(VARIABLE)
    for where, name in ((f"card={model!r}", model), (f"{VARIABLE}={variable}", variable)):
        if not name:
            continue
        if name not in known:
            raise CdnaError(f"{where}: no such card; say {', '.join(known)}")
        if known[name].name == arch:
            return known[name]
        if name == model:
            raise CdnaError(f"{where} is a {known[name].name}, not a {arch}")
    return next(card for card in known.values() if card.name == arch and card.model == card.default_model)


@functools.cache
def header() -> str:
    """The cards as C++: `struct Card` and the table CARDS."""
    types = typing.get_type_hints(Card)

    def kind(name: str) -> str:
        wide = "u64" if name == "memory_bytes" else "u32"
        return {str: "const char*", float: "double", int: wide}[types[name]]

    def value(value: Any) -> str:
        return f'"{value}"' if isinstance(value, str) else f"{value}ull" if type(value) is int else repr(value)

    members = [f"  {kind(field.name)} {field.name};" for field in fields(Card)]
    rows = [
        f"    {{{', '.join(value(getattr(card, field.name)) for field in fields(Card))}}}," for card in cards().values()
    ]
    lines = ["// Generated from cdna/cards.", "#pragma once", "struct Card {", *members, "};"]
    return "\n".join([*lines, "constexpr Card CARDS[] = {", *rows, "};", ""])
