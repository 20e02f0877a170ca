"""What would shorten a kernel, in words: a rule finds a cause by the counters, and a replay of the launch with that
changed says what it gains.

What gains less than two modelled times of alike kernels may be wrong about each other is not said.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from ..binary.decode import base_mnemonic
from ..binary.resources import waves_per_simd
from ..isa import Facts, facts_of, instructions
from ..observe.counters import InstructionCount
from ..observe.replay import Change
from ..results import Advice
from .gains import ATOMICS, CONFLICTS, FENCES, SPILLS, WASTE, changed_us, gain_without
from .kernel import KernelProfile
from .lines import Line

WORTH = 0.1  # share of a kernel's time that a cause has at least
ALIKE = 0.75  # coalescing from here on is good enough
TOO_MANY_READS = 1.5  # times what products take: tiles of 128 x 128 of 16 bits are below it
LINES = 3  # that a rule names
PADDED_ROW = 32  # of LDS: rows of 512 bytes take a 32nd more with 16 bytes of padding
UNEVEN = 1.5  # times the mean: what a workgroup may do more than others
FEW_LAUNCHES = 4  # of a kernel, from which on fewer would be worth something
FEW_WAVES = 2  # a SIMD, beside which a workgroup could have more
TRITON_MEND = "Triton lays tiles out: other tile sizes, num_warps, num_stages or kpack do it otherwise"
LAUNCHES = "launches"  # the one rule of all launches of a kernel together
MOST_PARTS = 8  # of a workgroup's work, for CUs that have none
MATRIX_SAVES = 15 / 16  # of multiply-adds of fp32: those of 16 bits are 16 times as many a cycle
DOUBLES_GO = 0.5  # of what fp64 takes, conversions included
ATOMIC_MEND = "add up in the wave first, or give groups of lanes copies of their own"
WORTH = 0.075  # of a launch's time: a replay changes one thing, and shares all other errors with what it changes
READ_AGAIN = 2  # times, by one L2 after another
WIDE_BYTES = 16  # of a lane's widest access
MOVES = ("loads", "stores")


Rule = Callable[[KernelProfile], Iterator[Advice]]


def advice_for(kernel: KernelProfile) -> list[Advice]:
    """What the rules say of a kernel's longest launch, what gains most first."""
    found = [advice for rule in RULES for advice in rule(kernel)]
    shares = [one.gain_us / (kernel.time if one.rule == LAUNCHES else kernel.longest_time).us for one in found]
    worth = [replace(one, share=share) for one, share in zip(found, shares) if share > WORTH]
    return sorted(worth, key=lambda one: -one.gain_us)


def _gain(kernel: KernelProfile, change: Change, share: float = 1.0) -> float:
    """What the longest launch gains by a change; share: of what is left out, so much goes."""
    after_us = changed_us(kernel.counters, change, kernel.warm)
    return share * (kernel.longest_time.us - after_us) if after_us is not None else 0.0


def _without_it(kernel: KernelProfile, out: Iterable[InstructionCount], share: float = 1.0) -> float:
    return _gain(kernel, Change({one.index: "it" for one in out}), share)


def _without(kernel: KernelProfile, line: Line, reason: str) -> float:
    """What it gains without one of gains.py's reasons at a line."""
    known = next((gain.us for gain in kernel.gains if (gain.place, gain.reason) == (line.place, reason)), None)
    if known is not None:
        return known
    return gain_without(kernel.counters, kernel.lines, line, reason, kernel.warm) or 0.0


def _share(kernel: KernelProfile, part: str) -> float:
    """Of the modelled time without the launch: what one bound alone would take."""
    body = kernel.longest_time.us - kernel.longest_time.parts_us["launch"]
    return kernel.longest_time.parts_us.get(part, 0.0) / body if body > 0 else 0.0


def idle_cus(kernel: KernelProfile) -> Iterator[Advice]:
    groups, cus = kernel.counters.groups, kernel.card.compute_units
    if groups <= (1 - WORTH) * cus and _share(kernel, "replay") > WORTH:
        parts = min(cus / groups, MOST_PARTS)
        yield Advice(
            "idle CUs",
            f"{groups} workgroup{'s' * (groups > 1)} for {cus} CUs: {1 - groups / cus:.0%} idle; "
            f"{parts:.2g} times as many with a part of the work each: smaller tiles, or what a loop adds up divided "
            "(split-K)",
            gain_us=_gain(kernel, Change(groups=parts, steps=1 / parts)),
        )


def uneven(kernel: KernelProfile) -> Iterator[Advice]:
    """One workgroup that the launch waits for, long after all others have ended."""
    c, time = kernel.counters, kernel.longest_time
    alone_us = (time.cycles - time.others_cycles) / time.mhz if time.mhz else 0.0
    if c.longest_times and alone_us > WORTH * time.us:
        yield Advice(
            "uneven workgroups",
            f"workgroup {c.longest_group} executes {c.longest_times:.1f} times as much as others do, and the launch "
            f"waits {alone_us:.4g} of {time.us:.4g} us for it alone: divide its work",
            gain_us=alone_us,
        )
    elif (
        c.most_times > UNEVEN
        and c.groups <= kernel.card.compute_units * c.groups_per_cu
        and _share(kernel, "replay") > 0.5
    ):
        yield Advice(
            "uneven workgroups",
            f"in one round the launch waits for its longest workgroup, which executes {c.most_times:.1f} times as much "
            "as the mean: give long ones and short ones to a workgroup together, or parts that are alike",
            gain_us=_gain(kernel, Change(alike=True)),
        )


def launches(kernel: KernelProfile) -> Iterator[Advice]:
    """Launches that do less than they cost."""
    n, launch_us = len(kernel.records), kernel.time.parts_us["launch"]
    if n >= FEW_LAUNCHES and launch_us > kernel.time.us / 2:
        yield Advice(
            LAUNCHES,
            f"{n} launches take {launch_us:.4g} of {kernel.time.us:.4g} us to begin: do in one what several do, or in "
            "the kernel before it",
            gain_us=kernel.time.us - (changed_us(kernel.counters, Change(groups=n), kernel.warm) or kernel.time.us),
        )


def tail(kernel: KernelProfile) -> Iterator[Advice]:
    c, cus = kernel.counters, kernel.card.compute_units
    places = cus * c.groups_per_cu
    whole, left = divmod(c.groups, places)
    if 1 <= whole <= 4 and left and (1 - left / places) / (whole + 1) > WORTH:
        yield Advice(
            "tail",
            f"{c.groups} workgroups are {whole} round{'s' if whole > 1 else ''} of {places} and {left} more: the last "
            f"round leaves {1 - left / places:.0%} of the card idle; tiles for {whole * places} or fewer, "
            "or persistent workgroups",
            gain_us=_gain(kernel, Change(whole_rounds=True)),
        )


def bank_conflicts(kernel: KernelProfile) -> Iterator[Advice]:
    c, share = kernel.counters, _share(kernel, "LDS")
    total = c.unit_cycles["lds"]
    if not total or c.lds_conflict_cycles / total * share <= WORTH:
        return
    padded = c.lds_bytes_per_group + max(kernel.card.lds_granule_bytes, c.lds_bytes_per_group // PADDED_ROW)
    fits = _waves(kernel, c.vgprs, padded) >= c.groups_on_cu * c.waves_per_group / kernel.card.simds_per_cu
    for line in _largest(kernel, lambda line: line.conflict_cycles):
        if line.conflict_ways > 1.5 and line.conflict_cycles / total * share > WORTH / LINES:
            mend = f"pad rows by {line.conflict_bytes} bytes, or swizzle them"
            if not fits:
                mend = "swizzle what lies in a row; rows that are padded would cost the CU a workgroup"
            mend = ATOMIC_MEND if line.atomics_conflict else TRITON_MEND if line.is_triton else mend
            what = "atomics of lanes on one word or bank" if line.atomics_conflict else "bank conflicts"
            yield Advice(
                "bank conflicts",
                f"{line.conflict_cycles:,} of {total:,} LDS cycles are {what} of {line.place}, "
                f"{line.conflict_ways:.0f}-way: {mend}",
                line.place,
                _without(kernel, line, CONFLICTS),
            )


def occupancy(kernel: KernelProfile) -> Iterator[Advice]:
    """Where waves wait: registers or LDS that keep another wave, or another workgroup, off the CU."""
    c, card = kernel.counters, kernel.card
    if kernel.longest_time.bound not in ("latency", "L2", "fabric", "HBM") or c.groups <= card.compute_units:
        return
    now = c.waves_per_simd
    more_groups = (c.groups_per_cu + 1) * c.waves_per_group / card.simds_per_cu
    if more_groups > card.max_waves_per_simd:
        return
    gain_us = _gain(kernel, Change(more_groups_per_cu=1))
    if _waves(kernel, c.vgprs, 0) <= now:  # LDS is not what limits
        fewer = next((n for n in range(1, c.vgprs) if _waves(kernel, c.vgprs - n, c.lds_bytes_per_group) > now), 0)
        if fewer:
            gained = _waves(kernel, c.vgprs - fewer, c.lds_bytes_per_group)
            how = "waves_per_eu={}" if any(line.is_triton for line in kernel.lines) else "__launch_bounds__(N, {})"
            text = f"{c.vgprs} VGPRs allow {now:g} waves a SIMD; {fewer} fewer allow {gained:g}"
            yield Advice("occupancy", f"{text}: {how.format(round(gained))}", gain_us=gain_us)
    elif _waves(kernel, 1, c.lds_bytes_per_group) <= now:
        fits = card.lds_bytes // (c.groups_per_cu + 1) // card.lds_granule_bytes * card.lds_granule_bytes
        more = f"; or more waves that share them than {c.waves_per_group} a workgroup" if now < FEW_WAVES else ""
        yield Advice(
            "occupancy",
            f"{c.lds_bytes_per_group:,} bytes of LDS allow {c.groups_per_cu} workgroups a CU; "
            f"{c.lds_bytes_per_group - fits:,} fewer allow {c.groups_per_cu + 1}{more}",
            gain_us=gain_us,
        )


def _waves(kernel: KernelProfile, vgprs: int, lds_bytes: int) -> float:
    """A SIMD's, if workgroups took as much."""
    c = kernel.counters
    return waves_per_simd(kernel.card.name, vgprs, c.sgprs, lds_bytes, c.waves_per_group)


def latency(kernel: KernelProfile) -> Iterator[Advice]:
    """Loads that are awaited while too few other waves have work."""
    c, time = kernel.counters, kernel.longest_time
    if time.bound != "latency":
        return
    waits = [gain for gain in kernel.gains if gain.reason == "memory" and gain.us > 2 * WORTH * time.us]
    for gain in waits[:1]:
        cause = kernel.waits_for.get((gain.place, "memory"))
        place = cause.place if cause is not None and cause.place else gain.place
        access = next((line.accesses.get("loads") for line in kernel.lines if line.place == place), None)
        text = (
            f"waits for what {place} loads cost {gain.us:.4g} of {time.us:.4g} us, and {c.waves_per_simd:g} waves a "
            "SIMD hide little of them: more waves, or several loads on their way before the first is used"
        )
        if access is not None and access.bytes_per_lane < ALIKE * WIDE_BYTES:
            text += f"; wider ones, {WIDE_BYTES} bytes a lane instead of {access.bytes_per_lane:.0f}, are fewer"
        if place.rpartition(":")[0].endswith(".py"):
            text += "; num_stages=3 or more loads turns ahead"
        yield Advice("latency", text, place, gain.us)


def coalescing(kernel: KernelProfile) -> Iterator[Advice]:
    """Lines that touch more 64-byte pieces than their bytes need."""
    touched = kernel.counters.segments
    wasteful = [(a.wasted, kind, line) for line in kernel.lines for kind, a in line.accesses.items() if kind in MOVES]
    for wasted, kind, line in sorted(wasteful, key=lambda one: -one[0])[:LINES]:
        access = line.accesses[kind]
        if access.coalesced < ALIKE and wasted > WORTH * touched and _memory_share(kernel) > WORTH:
            text = (
                f"{kind} {access.coalesced:.0%} coalesced at {line.place}: {access.segments:,} pieces of 64 bytes "
                f"where {access.ideal_segments:,} would do; neighbouring lanes should take neighbouring bytes"
            )
            if access.in_one_set:
                text += "; lanes lie a power of two apart, all their lines in one set of the L1: pad rows by 128 bytes"
            yield Advice("coalescing", text, line.place, _without(kernel, line, WASTE))


def reuse(kernel: KernelProfile) -> Iterator[Advice]:
    """Products that wait for operands which one workgroup after another reads again."""
    c, parts = kernel.counters, kernel.longest_time.parts_us
    of_bytes = min(1.0, c.segments / max(c.unit_cycles["memory"], 1))  # lanes that are far apart take the L1 longer
    products_us = parts.get("matrix", 0.0)
    reads_us = max(parts.get("L1", 0.0) * of_bytes, parts.get("L2", 0.0), parts.get("fabric", 0.0))
    times = c.l2_read_bytes / max(c.hbm_read_bytes, 1)
    waits = sum(c.spent.get(reason, 0.0) for reason in ("memory", "L1", "barrier"))
    often = products_us and reads_us > TOO_MANY_READS * products_us and times > 4
    if often and waits > 3 * WORTH and not _spills_much(kernel):
        yield Advice(
            "reuse",
            f"workgroups read each byte {times:.0f} times from the L2: at the card's rates the reads take "
            f"{reads_us / products_us:.1f} times as long as the products; larger tiles read it less often: half as "
            "many, twice as large, read three quarters of it",
            gain_us=_gain(kernel, Change(groups=0.5, steps=2, loads=0.75)),
        )


def xcd_order(kernel: KernelProfile) -> Iterator[Advice]:
    """What one XCD's L2 has, and others read as well: neighbours of a grid lie on different XCDs."""
    c, xcds = kernel.counters, kernel.card.xcds
    again = c.fabric_read_bytes / max(c.hbm_read_bytes, 1)
    shared = again > READ_AGAIN and c.hbm_read_bytes > kernel.card.l2_bytes
    if xcds > 1 and shared and _share(kernel, "fabric") > 2 * WORTH and not _spills_much(kernel):
        yield Advice(
            "XCD order",
            f"the {xcds} XCDs' L2s read {c.fabric_read_bytes / 1e6:,.0f} MB, {again:.1f} times the "
            f"{c.hbm_read_bytes / 1e6:,.0f} MB that come from HBM: workgroup i runs on XCD i % {xcds}, so number those "
            f"that read the same {xcds} apart",
            gain_us=_gain(kernel, Change(near=True)),
        )


def narrow_accesses(kernel: KernelProfile) -> Iterator[Advice]:
    """Lines where waves spend much of their time on accesses of a few bytes a lane."""
    c = kernel.counters
    waves = c.groups * c.waves_per_group
    for line in kernel.lines[:LINES]:
        for kind in MOVES[: 1 + ("loads" not in line.accesses)]:  # what is stored as it was loaded is one fault
            access = line.accesses.get(kind)
            few = access is not None and access.bytes_per_lane < 4 and access.executed >= 4 * waves
            if access and few and _spent_share(kernel, line) > 3 * WORTH:
                wide = {one.index: "narrow" for one in line.instructions if one.unit == "memory" and one.bytes}
                times = round(WIDE_BYTES / access.bytes_per_lane)
                yield Advice(
                    "narrow accesses",
                    f"{kind} of {access.bytes_per_lane:.0f} byte{'s' * (access.bytes_per_lane > 1)} a lane at "
                    f"{line.place}: an instruction moves {access.bytes / access.executed:.0f} bytes, it could 1,024",
                    line.place,
                    _gain(kernel, Change(wide, wider=times)),
                )


def _spills_much(kernel: KernelProfile) -> bool:
    """What the caches read is scratch then, too."""
    each = [(kind, access.executed) for line in kernel.lines for kind, access in line.accesses.items()]
    return sum(n for kind, n in each if kind == "scratch") > WORTH * sum(n for _, n in each)


def spills(kernel: KernelProfile) -> Iterator[Advice]:
    lines = [line for line in kernel.lines if "scratch" in line.accesses]
    executed = sum(line.accesses["scratch"].executed for line in lines)
    if _spills_much(kernel):
        worst = max(lines, key=lambda line: line.accesses["scratch"].executed)
        yield Advice(
            "spills",
            f"{executed:,} loads and stores of scratch, most at {worst.place}: registers were spilled or an array is "
            "indexed at run time; smaller tiles, fewer live values, or more registers a wave",
            worst.place,
            _without(kernel, worst, SPILLS),
        )


def divergence(kernel: KernelProfile) -> Iterator[Advice]:
    for line in _largest(kernel, lambda line: line.cycles.get("vector", 0) * (1 - line.active_lanes)):
        if line.active_lanes < 0.6 and _spent_share(kernel, line, "issue") > 2 * WORTH:
            yield Advice(
                "divergence",
                f"{line.active_lanes:.0%} of the lanes work at {line.place}: lanes of a wave take different ways, or "
                "the workgroup is wider than its work",
                line.place,
                # Lanes side by side are fewer waves: of no use where there are too few as it is.
                _gain(
                    kernel, Change(groups=line.active_lanes, loads=1 / line.active_lanes), _spent_share(kernel, line)
                ),
            )


def masked(kernel: KernelProfile) -> Iterator[Advice]:
    """Loads that most lanes are masked off of, though all of them compute: a block that is wider than its data."""
    loads = [(line.accesses["loads"], line) for line in kernel.lines if "loads" in line.accesses]
    executed, lanes = sum(access.executed for access, _ in loads), sum(access.lanes for access, _ in loads)
    at_work = lanes / (64 * executed) if executed else 1.0
    if at_work < 0.5 and kernel.counters.active_lanes > 0.6 and _share(kernel, "replay") > 0.5:
        access, line = max(loads, key=lambda one: 64 * one[0].executed - one[0].lanes)
        yield Advice(
            "masked lanes",
            f"{access.lanes / (64 * access.executed):.0%} of the lanes load something at {line.place}, and all of them "
            "compute: a block nearer to the size of its data, or several rows in one",
            line.place,
            _gain(kernel, Change(groups=at_work, loads=1 / at_work)),
        )


def divided_indices(kernel: KernelProfile) -> Iterator[Advice]:
    """Loads and stores whose addresses take more instructions than they are."""
    waves = kernel.counters.groups * kernel.counters.waves_per_group
    for line in kernel.lines[:LINES]:
        accesses = line.loads + sum(one.executed for kind, one in line.accesses.items() if kind == "stores")
        many = line.divisions >= max(4 * waves, accesses / 2) and line.vector_executed > 8 * accesses > 0
        if many and _spent_share(kernel, line, "issue") > 1.5 * WORTH:
            yield Advice(
                "divided indices",
                f"{line.vector_executed:,} vector instructions for {accesses:,} loads and stores at {line.place}, most "
                "for indices that are divided or of which a remainder is taken: let the divisor be a power of two that "
                "the compiler knows, or count rows and columns up instead",
                line.place,
                _without_it(kernel, _vector(line)),
            )


def rearranged(kernel: KernelProfile) -> Iterator[Advice]:
    """What is loaded and then taken apart, converted or exchanged between lanes before anything computes with it."""
    for line in kernel.lines[:LINES]:
        vector = [one for one in _vector(line) if _facts(one).flops <= 1]
        executed = sum(one.executed for one in vector)
        other = line.divisions or line.doubles or line.products > executed / 4 or line.active_lanes < 0.6
        if not other and 0 < 12 * line.loads < executed and _spent_share(kernel, line, "issue") > WORTH / 2:
            yield Advice(
                "rearranged",
                f"{executed:,} vector instructions at {line.place} rearrange or convert what {line.loads:,} loads "
                "bring: read along the dimension in which a product's bytes lie side by side, or store them so before",
                line.place,
                _without_it(kernel, vector),
            )


def no_matrix(kernel: KernelProfile) -> Iterator[Advice]:
    """Sums of products on the vector lanes, of what the same line loads, while the matrix cores are idle."""
    if kernel.counters.unit_cycles["matrix"] or _share(kernel, "vector") <= WORTH / 2:
        return
    total = sum(line.vector_executed for line in kernel.lines)
    for line in _largest(kernel, lambda line: line.products)[:1]:
        if line.products > 0.3 * total and line.loads * 16 >= line.products:
            yield Advice(
                "no matrix",
                f"{line.products:,} multiply-adds of waves at {line.place} run on vector lanes; matrix instructions "
                "do a product of 16-bit or 8-bit numbers 8 times as fast or more",
                line.place,
                _gain(kernel, _by_matrix(line), MATRIX_SAVES),
            )


def _by_matrix(line: Line) -> Change:
    """Lanes load operands together then: eight elements each of a product of 16 x 16 x 16, for 64 multiply-adds."""
    memory = [one for one in line.instructions if one.unit == "memory" and _facts(one).does == "load"]
    loads = sum(one.executed for one in memory)
    out = {one.index: "it" for one in _vector(line)} | {one.index: "narrow" for one in memory}
    return Change(out, wider=max(1, round(8 * loads / line.products)))


def fp32_matrix(kernel: KernelProfile) -> Iterator[Advice]:
    """Matrix instructions of fp32, which are the slowest but for fp64."""
    for line in _largest(kernel, lambda line: line.fp32_matrix_cycles)[:1]:
        if _share(kernel, "matrix") * line.fp32_matrix_cycles > 3 * WORTH * kernel.counters.unit_cycles["matrix"]:
            yield Advice(
                "fp32 products",
                f"matrix instructions of fp32 at {line.place}: those of 16 bits do 8 times as much in a cycle or more",
                line.place,
                _without_it(kernel, (one for one in line.instructions if "sgemm" in _facts(one).flags), 7 / 8),
            )


def doubles(kernel: KernelProfile) -> Iterator[Advice]:
    """fp64 that nobody asked for: a literal without an f makes a double of what it meets."""
    for line in _largest(kernel, lambda line: line.doubles)[:1]:
        converted = line.to_and_from_doubles >= line.doubles / 4
        if converted and _spent_share(kernel, line, "issue") + _spent_share(kernel, line, "vector") > 1.5 * WORTH:
            yield Advice(
                "doubles",
                f"{line.doubles:,} instructions of waves compute in fp64 at {line.place}, with "
                f"{line.to_and_from_doubles:,} conversions from and to fp32: a literal without an f, or a function of "
                "double?",
                line.place,
                _without_it(kernel, filter(_is_of_doubles, _vector(line)), DOUBLES_GO),
            )


def fences(kernel: KernelProfile) -> Iterator[Advice]:
    for line in _largest(kernel, lambda line: line.fences)[:1]:
        if _share(kernel, "fences") > 2 * WORTH:
            mend = (
                "atomics order what is around them unless sem is 'relaxed'"
                if line.is_triton
                else "fence once for many stores, by one wave of a workgroup behind a barrier, or at workgroup scope "
                "where nobody else reads"
            )
            yield Advice(
                "fences",
                f"{kernel.counters.cache_maintenance:,} instructions write back or invalidate the L2, one after the "
                f"other on the whole card, most at {line.place}: {mend}",
                line.place,
                _without(kernel, line, FENCES),
            )


def atomics(kernel: KernelProfile) -> Iterator[Advice]:
    for line in _largest(kernel, lambda line: line.accesses["atomics"].lanes if "atomics" in line.accesses else 0)[:1]:
        if _share(kernel, "atomics") > 2 * WORTH and kernel.counters.atomics_on_line > kernel.card.compute_units:
            yield Advice(
                "atomics",
                f"{kernel.counters.atomics_on_line:,} atomics of lanes on one 128-byte line, one after the other, most "
                f"at {line.place}: add up in the wave and the workgroup first",
                line.place,
                _without(kernel, line, ATOMICS),
            )


def barriers(kernel: KernelProfile) -> Iterator[Advice]:
    for line in _largest(kernel, lambda line: line.spent.get("barrier", 0.0)):
        share = _spent_share(kernel, line, "barrier")
        if share > 2.5 * WORTH:
            yield Advice(
                "barriers",
                f"waves spend {share:.0%} of their time at the barrier of {line.place}: fewer barriers, work alike "
                "for all waves, or loads that are on their way before it",
                line.place,
                _without(kernel, line, "barrier"),
            )


def _spent_share(kernel: KernelProfile, line: Line, reason: str = "") -> float:
    """Of the waves' time: what they spend at a line, for one reason or in all."""
    total = sum(one.spent_cycles for one in kernel.lines)
    return (line.spent.get(reason, 0.0) if reason else line.spent_cycles) / total if total else 0.0


def _facts(one: InstructionCount) -> Facts:
    return facts_of(base_mnemonic(one.mnemonic))


def _vector(line: Line) -> list[InstructionCount]:
    return [one for one in line.instructions if one.unit == "vector"]


def _is_of_doubles(one: InstructionCount) -> bool:
    return "f64" in instructions()[base_mnemonic(one.mnemonic)].signature.types("D", "S")


def _memory_share(kernel: KernelProfile) -> float:
    return max(_share(kernel, part) for part in ("L1", "L2", "fabric", "HBM"))


def _largest(kernel: KernelProfile, what: Callable[[Line], float]) -> list[Line]:
    """The lines that have most of something, those without it left out."""
    return sorted((line for line in kernel.lines if what(line)), key=what, reverse=True)[:LINES]


RULES: tuple[Rule, ...] = (
    launches,
    idle_cus,
    uneven,
    latency,
    tail,
    bank_conflicts,
    occupancy,
    reuse,
    xcd_order,
    coalescing,
    narrow_accesses,
    spills,
    divergence,
    masked,
    divided_indices,
    rearranged,
    no_matrix,
    fp32_matrix,
    doubles,
    atomics,
    fences,
    barriers,
)
