"""A profile as one HTML page: no script, no file beside it, nothing from the network. `section` is a kernel's part of
it, which other pages may take in."""

import linecache
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ..binary.decode import base_mnemonic
from ..binary.resources import waves_per_simd
from ..errors import CdnaError
from ..isa import facts_of
from ..results import Gain
from .advice import advice_for
from .kernel import KernelProfile
from .lines import Line
from .text import LINES, cause_text, wait_text
from .timeline import SIMDS
from .words import reason_text

STYLE = """
.kernel table { border-collapse: collapse; } .kernel svg { max-width: 100%; height: auto; }
.kernel th, .kernel td { padding: .2rem .7rem .2rem 0; text-align: left; vertical-align: top; }
.kernel th, .kernel td { border-bottom: 1px solid #ddd; }
.kernel td.n, .kernel th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.kernel code { font: 13px/1.4 ui-monospace, monospace; }
"""
BODY = "font: 15px/1.45 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; color: #222; background: #fff"
COLOURS = {
    "issue": "#4c9f50",
    "operands": "#b5a642",
    "vector": "#8a6fc8",
    "matrix": "#5b4bb0",
    "L1": "#e08a3c",
    "memory": "#c8443c",
    "LDS": "#d98cb3",
    "scalar": "#7f7f7f",
    "barrier": "#3b3b3b",
    "code": "#a9c7e8",
}
WIDTH, BINS, ROW = 1000, 500, 10  # of the timeline: units, pieces of time, height of a wave's


def page(kernels: Sequence[KernelProfile], title: str) -> str:
    """The whole page of some kernels."""
    body = "\n".join(section(kernel) for kernel in kernels) or "<p>No kernel was launched.</p>"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'</head><body style="{BODY}"><h1>{escape(title)}</h1>\n'
        "<p><strong>Times are modelled from what the kernels executed on an emulated card, not measured.</strong></p>\n"
        f"{body}\n</body></html>\n"
    )


def write_page(path: Path, text: str) -> None:
    """CdnaError where the file cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CdnaError(f"cannot write {path}: {error.strerror}") from None


def section(kernel: KernelProfile) -> str:
    """One kernel: its bound, resources, lines, roofline and timeline, of its longest launch."""
    c, time = kernel.counters, kernel.longest_time
    grid = "x".join(map(str, kernel.longest.grid))
    advice = "".join(f"<li>{escape(str(one))}</li>" for one in advice_for(kernel))
    parts = [
        f"<style>{STYLE}</style><h2><code>{escape(kernel.full_name)}</code></h2>",
        f"<p>{len(kernel.records)} launch{'es' * (len(kernel.records) > 1)}, the longest of {grid} workgroups: "
        f"{time.us:.2f} us ({time.interval}) modelled on {escape(c.card)}, bound by "
        f"<strong>{escape(time.bound)}</strong>, {time.cycles:,.0f} cycles at {time.mhz:.0f} MHz ({time.clock}).</p>",
        f"<h3>Resources</h3><p>{c.vgprs} VGPRs, {c.sgprs} SGPRs, {c.lds_bytes_per_group:,} bytes of LDS; "
        f"{c.groups_per_cu} workgroups a CU, {c.waves_per_simd:g} of {kernel.card.max_waves_per_simd} waves a SIMD: "
        f"{escape(occupancy_limit(kernel))}.</p>",
        f"<h3>What each unit would take alone</h3>{_bars(sorted(time.parts_us.items(), key=lambda part: -part[1]))}",
        _roofline(kernel),
        f"<h3>Lines</h3>{_lines(kernel)}",
        f"<h3>What to change</h3><ul>{advice}</ul>" if advice else "",
        _timeline(kernel),
    ]
    return f'<section class="kernel">{"".join(parts)}</section>'


def occupancy_limit(kernel: KernelProfile) -> str:
    """What keeps more waves off a SIMD."""
    c, card = kernel.counters, kernel.card
    if c.groups < card.compute_units * c.groups_per_cu:
        held = c.groups / card.compute_units * c.waves_per_group / card.simds_per_cu
        return f"the grid has {c.groups:,} workgroups, {held:.2g} waves for each SIMD"

    def waves(vgprs: int, sgprs: int, lds_bytes: int) -> float:
        return waves_per_simd(card.name, vgprs, sgprs, lds_bytes, c.waves_per_group)

    alone = {
        f"{c.vgprs} VGPRs": waves(c.vgprs, 1, 0),
        f"{c.sgprs} SGPRs": waves(1, c.sgprs, 0),
        f"{c.lds_bytes_per_group:,} bytes of LDS": waves(1, 1, c.lds_bytes_per_group),
    }
    name, least = min(alone.items(), key=lambda item: item[1])
    return f"limited by its {name}" if least < waves(1, 1, 0) else "no resource limits it"


def _bars(parts: Sequence[tuple[str, float]]) -> str:
    most = max((us for _, us in parts), default=0.0) or 1.0
    rows = "".join(
        f'<text x="0" y="{16 * i + 12}">{escape(name)}</text>'
        f'<rect x="90" y="{16 * i + 3}" width="{600 * us / most:.1f}" height="10" fill="#4477aa"/>'
        f'<text x="{96 + 600 * us / most:.1f}" y="{16 * i + 12}">{us:.3g} us</text>'
        for i, (name, us) in enumerate(parts)
    )
    return f'<svg viewBox="0 0 800 {16 * len(parts) + 4}" width="800" font-size="11">{rows}</svg>'


def _flops(kernel: KernelProfile) -> tuple[float, float]:
    """Of the longest launch, and those of a cycle of the units that do them: matrix instructions if there are any, else
    multiply-adds on the vector lanes."""
    counted = [(one, facts_of(base_mnemonic(one.mnemonic))) for one in kernel.counters.instructions]
    matrix = [(one, facts) for one, facts in counted if facts.shape]
    flops = sum(2.0 * math.prod(facts.shape) * one.executed for one, facts in matrix)
    cycles = sum(one.cycles for one, _ in matrix)
    if not flops:
        products = [(one, facts) for one, facts in counted if one.unit == "vector" and facts.flops > 1]
        flops = sum(1.0 * one.lanes * facts.flops for one, facts in products)
        cycles = sum(one.cycles for one, _ in products)
    return flops, flops / cycles if cycles else 0.0


def _roofline(kernel: KernelProfile) -> str:
    """What the kernel's own multiply-adds reach, and the roofs over them."""
    c, card = kernel.counters, kernel.card
    flops, each_cycle = _flops(kernel)
    moved = c.hbm_read_bytes + c.hbm_write_bytes
    if not flops or not moved:
        return ""
    top = each_cycle * card.simds_per_cu * card.compute_units * card.clock_mhz * 1e-6  # TFLOP/s
    slope = card.hbm_gb_s * 1e-3
    x, y = flops / moved, flops / kernel.longest_time.us * 1e-6
    low, high = min(x, top / slope) / 8, max(x, top / slope) * 8
    floor = min(y, low * slope) / 2

    def at(intensity: float, tflops: float) -> str:
        across = math.log(intensity / low) / math.log(high / low)
        up = math.log(tflops / floor) / math.log(2 * top / floor)
        return f"{40 + 700 * across:.1f},{250 - 230 * up:.1f}"

    roof = " ".join(at(*point) for point in ((low, low * slope), (top / slope, top), (high, top)))
    px, py = at(x, y).split(",")
    return (
        "<h3>Roofline</h3>"
        '<svg class="roofline" viewBox="0 0 800 270" width="800" font-size="11">'
        f'<polyline points="{roof}" fill="none" stroke="#888"/>'
        f'<circle cx="{px}" cy="{py}" r="4" fill="#c8443c"/>'
        f'<text x="{float(px) + 8}" y="{py}">{y:.3g} TFLOP/s modelled, {x:.3g} FLOP a byte of HBM</text>'
        f'<text x="40" y="14" fill="#666">roofs: {top:.4g} TFLOP/s of the instructions that it uses, HBM '
        f"{card.hbm_gb_s:g} GB/s</text></svg>"
    )


def _lines(kernel: KernelProfile) -> str:
    total = sum(line.spent_cycles for line in kernel.lines) or 1.0
    rows = []
    for line in kernel.lines[: 2 * LINES]:
        if not line.spent_cycles:
            continue
        most = sorted(line.spent.items(), key=lambda item: -item[1])[:3]
        why = ", ".join(f"{wait_text(kernel, line, reason)} {cycles / total:.1%}" for reason, cycles in most)
        gains = [gain for gain in kernel.gains if gain.place == line.place and gain.us > 0]
        told = "<br>".join(f"{gain.us:.2f} us without {escape(_what(kernel, gain))}" for gain in gains)
        rows.append(
            f'<tr><td class="n">{line.spent_cycles / total:.1%}</td><td><code>{escape(line.place)}</code>'
            f"<br><code>{escape(_source(line))}</code></td><td>{escape(why)}</td><td>{told}</td></tr>"
        )
    return (
        '<table class="lines"><tr><th class="n">waves\' time</th><th>line</th><th>goes to</th>'
        f"<th>the kernel would gain</th></tr>{''.join(rows)}</table>"
    )


def _source(line: Line) -> str:
    """Its text, or where there is no such file or no line is known, what was made of it."""
    file, _, number = line.place.rpartition(":")
    text = linecache.getline(file, int(number)).strip() if number.isdigit() else ""
    more = f" and {len(line.instructions) - 1} more" if len(line.instructions) > 1 else ""
    return text or f"{line.instructions[0].text}{more}"


def _what(kernel: KernelProfile, gain: Gain) -> str:
    return reason_text(gain.reason) if gain.reason in COLOURS else cause_text(kernel, gain)


def _timeline(kernel: KernelProfile) -> str:
    """Each wave of one CU a row, each piece of time the colour of what takes most of it."""
    spans = kernel.timeline
    if not spans:
        return ""
    end = max(span.end for span in spans)
    waves = sorted({span.wave for span in spans}, key=lambda wave: (wave % SIMDS, wave))
    row_of = {wave: row for row, wave in enumerate(waves)}
    pieces: dict[tuple[int, int], dict[str, float]] = {}
    for span in spans:
        for piece in range(int(span.start / end * BINS), min(BINS - 1, int(span.end / end * BINS)) + 1):
            inside = min(span.end, (piece + 1) * end / BINS) - max(span.start, piece * end / BINS)
            of_piece = pieces.setdefault((span.wave, piece), {})
            of_piece[span.reason] = of_piece.get(span.reason, 0.0) + inside
    paths: dict[str, list[str]] = {}
    step = WIDTH / BINS
    for (wave, piece), reasons in pieces.items():
        most = max(reasons, key=lambda reason: reasons[reason])
        paths.setdefault(most, []).append(f"M{60 + piece * step:g} {row_of[wave] * ROW}h{step:g}v{ROW - 2}h-{step:g}z")
    drawn = "".join(f'<path fill="{COLOURS[reason]}" d="{"".join(path)}"/>' for reason, path in paths.items())
    labels = "".join(
        f'<text x="0" y="{row * ROW + 8}">SIMD {wave % SIMDS}</text>' for wave, row in row_of.items() if wave < SIMDS
    )
    legend = " ".join(
        f'<span style="color:{COLOURS[reason]}">&#9632;</span> {escape(reason_text(reason))}' for reason in paths
    )
    return (
        f"<h3>One CU's waves over {end / kernel.longest_time.mhz:.2f} us</h3><p>{legend}</p>"
        f'<svg class="timeline" viewBox="0 0 {WIDTH + 60} {len(waves) * ROW}" width="{WIDTH + 60}" font-size="9">'
        f"{labels}{drawn}</svg>"
    )
