"""Models the HIP kernel of amd-fp8-mm on an MI300X: issue of its compiled loop on one CU, and the card around it.

    PYTHONPATH=.:tests python docs/kernels/fp8_mm_model.py            the table of docs/kernels/fp8_mm.md
    PYTHONPATH=.:tests python docs/kernels/fp8_mm_model.py --choose   the best tile and split-K for every shape

No number here was measured: see docs/kernels/fp8_mm.md for what the model takes from where.
"""

from __future__ import annotations

import functools
import math
import re
import sys
from typing import NamedTuple

import yaml

from tests.support import fp8_mm_hip as hip

CLOCK_MHZ = 2100.0
N_CUS = 304
HBM_BYTES_PER_US = 5.3e6
CACHE_BYTES_PER_US = 10e6  # Infinity Cache to the L2s: 17.2 TB/s at peak, 60 % of it assumed
L2_BYTES_PER_CLOCK = 64 * 0.6  # of one CU
LAUNCH_US = 3.0  # launch, first workgroups, last wave's drain; a host clock around it adds about as much again
LOAD_CLOCKS = 1200  # from issue to data: between an L2 hit (about 500) and HBM (about 1,700)
LDS_CLOCKS = 128
MFMA_CLOCKS = 32  # 32x32x16 fp8: 8 passes of 4
TRANSPOSE_LAUNCH_US = 1.5  # of a second kernel right behind the first
TRANSPOSE_BYTES_PER_US = 4e6  # what published transpose passes reach, read and written
SYNC_US = 2.0  # partial sums: wait for the stores, count the arrivals, first loads back


class Step(NamedTuple):
    """One instruction of the loop."""

    unit: str  # matrix | vector | lds | memory | scalar | barrier | wait
    busy: int = 4  # clocks of its unit
    lgkm: int | None = None  # wait until so many are outstanding
    vm: int | None = None


def loop_of(text: str, kernel: str) -> list[str]:
    """The instructions from the label of the loop around the matrix instructions to its branch back."""
    body = text[text.index(f"\n{kernel}:") :]
    body = body[: body.index("s_endpgm")]
    lines: list[str] = []
    labels: dict[str, int] = {}
    for line in body.splitlines():
        line = line.split(";")[0].strip()
        if line.endswith(":"):
            labels[line[:-1]] = len(lines)
        elif re.match(r"[a-z]+_", line):
            lines.append(line)
    found = []
    for at, line in enumerate(lines):
        target = labels.get(line.split()[-1]) if line.startswith(("s_cbranch", "s_branch")) else None
        if target is not None and target <= at and any("v_mfma" in part for part in lines[target:at]):
            found.append(lines[target : at + 1])
    return max(found, key=len)


def step_of(line: str) -> Step:
    mnemonic = line.split()[0]
    if "mfma" in mnemonic:
        return Step("matrix", MFMA_CLOCKS)
    if mnemonic.startswith("v_"):
        return Step("vector")
    if mnemonic.startswith("ds_"):
        words = 2 if "b64" in mnemonic else 4 if "b128" in mnemonic else 1
        return Step("lds", 2 * words * (2 if re.match(r"ds_(read|write)2", mnemonic) else 1))
    if mnemonic.startswith("buffer_"):
        return Step("memory")
    if mnemonic == "s_barrier":
        return Step("barrier")
    if mnemonic == "s_waitcnt":
        counts = {name: int(value) for name, value in re.findall(r"(vmcnt|lgkmcnt)\((\d+)\)", line)}
        return Step("wait", 4, counts.get("lgkmcnt"), counts.get("vmcnt"))
    if mnemonic == "s_nop":
        return Step("scalar", 4 * (1 + int(line.split()[1])))
    return Step("scalar")


class Wave:
    def __init__(self, group: int, simd: int, start: float) -> None:
        self.group, self.simd, self.ready = group, simd, start
        self.at = self.turns = 0
        self.lds: list[float] = []  # when outstanding accesses return, in order
        self.memory: list[float] = []


def matrix_share(steps: list[Step], waves: int, groups: int, apart: float, turns: int = 24) -> float:
    """Part of the matrix units' time in use while `groups` workgroups of `waves` waves run the loop on one CU,
    each beginning `apart` clocks after the one before.

    A wave issues in order, one instruction in 4 clocks. A SIMD issues one matrix or vector instruction in 4 clocks;
    its matrix unit takes the next when it is done. LDS moves 128 bytes a clock and the load path 64, for all waves.
    """
    pool = [Wave(g, w % 4, g * apart + w) for g in range(groups) for w in range(waves)]
    issue, matrix = [0.0] * 4, [0.0] * 4
    shared = {"lds": 0.0, "memory": 0.0}
    arrived: dict[int, list[Wave]] = {g: [] for g in range(groups)}
    used, begin, end = 0.0, None, 0.0
    while True:
        best, best_time = None, float("inf")
        for wave in pool:
            if wave in arrived[wave.group]:
                continue
            step, time = steps[wave.at], wave.ready
            if step.unit in ("matrix", "vector"):
                time = max(time, issue[wave.simd], matrix[wave.simd] if step.unit == "matrix" else 0.0)
            elif step.unit in shared:
                time = max(time, shared[step.unit] - 64)  # a short queue before the unit
            elif step.unit == "wait":
                for kept, queue in ((step.lgkm, wave.lds), (step.vm, wave.memory)):
                    if kept is not None and len(queue) > kept:
                        time = max(time, queue[len(queue) - kept - 1])
            if time < best_time:
                best, best_time = wave, time
        assert best is not None
        step = steps[best.at]
        best.ready = best_time + (step.busy if step.unit == "scalar" else 4)
        if step.unit in ("matrix", "vector"):
            issue[best.simd] = best_time + 4
            if step.unit == "matrix":
                matrix[best.simd] = best_time + MFMA_CLOCKS
                used += MFMA_CLOCKS if begin is not None else 0
        elif step.unit in shared:
            shared[step.unit] = max(shared[step.unit], best_time) + step.busy
            if step.unit == "lds":
                best.lds = [*best.lds[-15:], shared["lds"] + LDS_CLOCKS]
            else:
                best.memory = [*best.memory[-62:], shared["memory"] + LOAD_CLOCKS]
        elif step.unit == "barrier":
            arrived[best.group].append(best)
            if len(arrived[best.group]) == waves:
                for wave in arrived[best.group]:
                    wave.ready = best_time + 16
                arrived[best.group] = []
        best.at += 1
        if best.at == len(steps):
            best.at, best.turns = 0, best.turns + 1
            least = min(wave.turns for wave in pool)
            if least >= 4 and begin is None:  # the start is over
                begin, used = best_time, 0.0
            if least >= turns:
                end = best_time
                break
    assert begin is not None
    return used / 4 / (end - begin)


@functools.cache
def text() -> str:
    return hip.assembly()


def without_turning(lines: list[str]) -> list[Step]:
    """The loop as it would be on K-contiguous operands: no v_perm_b32, and four dword loads in one of four dwords."""
    steps, loads = [], 0
    for line in lines:
        step = step_of(line)
        if step.unit == "memory":
            loads += 1
            if loads % 4:
                continue
            step = Step("memory", 16)
        if step.vm is not None:
            step = step._replace(vm=step.vm // 4)
        if not line.startswith("v_perm"):
            steps.append(step)
    return steps


@functools.cache
def share(tile: hip.Tile, resident: int, transposed: bool = False) -> float:
    lines = loop_of(text(), tile.kernel)
    steps = without_turning(lines) if transposed else [step_of(line) for line in lines]
    starts = (0.0, 300.0, 700.0, 1300.0) if resident > 1 else (0.0,)
    return sum(matrix_share(steps, tile.threads // 64, resident, apart) for apart in starts) / len(starts)


class Modelled(NamedTuple):
    us: float
    bound: str
    matrix_share: float


def model(m: int, n: int, k: int, row: hip.Row, transposed: bool = False) -> Modelled:
    """Time of one launch: rounds of workgroups at the loop's matrix share, or what memory takes, and fixed parts.

    transposed: of the alternative, a separate pass that makes both operands K-contiguous and a loop that need not.
    """
    tile, split_k, _ = row
    n_tiles = tile.tiles_of(m, n)
    groups = n_tiles * split_k
    blocks = -(-(k // 128) // split_k)
    peak_clocks = 2 * tile.rows * tile.columns * 128 / 4096  # of one CU for one workgroup's block of k
    # Workgroups spread over the CUs first. Then the fullest CU decides, round by round.
    per_cu = -(-groups // N_CUS)
    clocks, left, lowest = 0.0, per_cu, 1.0
    while left > 0:
        resident = min(left, tile.per_cu)
        of_peak = share(tile, resident, transposed)
        lowest = min(lowest, of_peak)
        loop = blocks * peak_clocks * resident / of_peak
        loop = max(loop, blocks * resident * (tile.rows + tile.columns) * 128 / L2_BYTES_PER_CLOCK)
        first_loads = LOAD_CLOCKS + 600  # operands of the first stage, and c or a partial tile out
        clocks += loop + first_loads
        left -= resident
    compute_us = clocks / CLOCK_MHZ
    partial_bytes = 8 * split_k * n_tiles * tile.rows * tile.columns if split_k > 1 else 0
    # An XCD's workgroups share operands in its L2: each operand crosses to every XCD that needs it.
    resident_xcd = max(1.0, min(groups, N_CUS * tile.per_cu) / 8 / split_k)  # tiles at work at once
    rows = min(resident_xcd**0.5, m / tile.rows)
    columns = resident_xcd / rows
    operand_bytes = n_tiles * (tile.rows / columns + tile.columns / rows) * k
    compulsory = m * k + n * k + 2 * m * n + 4 * (k // 128) * (m + -(-n // 128))
    memory_us = max(compulsory / HBM_BYTES_PER_US, (operand_bytes + 2 * m * n) / CACHE_BYTES_PER_US)
    sums_us = 0.0
    if split_k > 1:
        # The last slice of a tile reads all of them, 64 bytes a clock at best; the whole card moves partial_bytes.
        alone = split_k * tile.rows * tile.columns * 4 / L2_BYTES_PER_CLOCK / CLOCK_MHZ
        sums_us = SYNC_US + max(alone, partial_bytes / CACHE_BYTES_PER_US)
    bound = "issue" if compute_us >= memory_us else "memory"
    pass_us = TRANSPOSE_LAUNCH_US + 2 * (m + n) * k / TRANSPOSE_BYTES_PER_US if transposed else 0.0
    return Modelled(LAUNCH_US + max(compute_us, memory_us) + sums_us + pass_us, bound, lowest)


def speed_of_light_us(m: int, n: int, k: int) -> float:
    hbm = m * k + n * k + 2 * m * n + 4 * (k // 128) * (m + -(-n // 128))
    return max(2 * m * n * k / 2614.9e6, hbm / HBM_BYTES_PER_US)


def choose(m: int, n: int, k: int) -> tuple[float, str, int]:
    times = [
        (model(m, n, k, hip.Row(tile, split_k, 8)).us, name, split_k)
        for name, tile in hip.tiles().items()
        for split_k in range(1, min(k // 128, 16) + 1)
    ]
    return min(times)


def executed_share(m: int, n: int, k: int, row: hip.Row) -> float:
    """Matrix instructions per executed instruction in the loop: executed counts of two depths of k, subtracted."""
    small = row.tile.rows, row.tile.columns
    counts = []
    for depth in (512, 1024):
        _, record = hip.run(program(), hip.make_inputs(*small, depth), hip.Row(row.tile, 1, 1))
        counts.append((record.by_unit["matrix"], record.wave_instructions))
    return (counts[1][0] - counts[0][0]) / (counts[1][1] - counts[0][1])


@functools.cache
def program() -> hip.Program:
    return hip.Program(text())


def main() -> None:
    problem = yaml.safe_load((hip.ROOT / "reference" / "fp8_mm" / "task.yml").read_text())
    cases = [(case["m"], case["n"], case["k"]) for case in problem["benchmarks"]]
    if "--choose" in sys.argv:
        for shape in [*cases, *[(case["m"], case["n"], case["k"]) for case in problem["tests"]]]:
            us, name, split_k = choose(*shape)
            print(shape, name, split_k, f"{us:.1f}")
        return
    table, times = hip.table(), []
    names = {tile: name[1:] for name, tile in hip.tiles().items()}
    print(
        "| m, n, k | tile, split-K | VGPR | spills | LDS B | waves/SIMD | MFMA/instr. | matrix use | bound |"
        " modelled us | with a transpose pass us | speed of light us | best published us | AITER, GEMM only us |"
    )
    print("|" + "---|" * 14)
    for index, shape in enumerate(cases):
        row = table[shape]
        modelled = model(*shape, row)
        two_passes = min(
            model(*shape, hip.Row(tile, split_k, 8), transposed=True).us
            for tile in names
            for split_k in range(1, min(shape[2] // 128, 16) + 1)
        )
        used = hip.resources(text(), row.tile)
        spills = used["vgpr_spill_count"] + used["sgpr_spill_count"]
        contest = [p["us"][index] for p in problem["published"] if p["by"] != "AITER" and p["us"][index]]
        aiter = next(p["us"][index] for p in problem["published"] if p["by"] == "AITER")
        print(
            f"| {', '.join(map(str, shape))} | {names[row.tile]}, {row.split_k} | {used['vgpr_count']} | {spills} |"
            f" {used['group_segment_fixed_size']} |"
            f" {row.tile.waves_per_simd} | {executed_share(*shape, row):.3f} | {modelled.matrix_share:.2f} |"
            f" {modelled.bound} | {modelled.us:.1f} | {two_passes:.1f} | {speed_of_light_us(*shape):.1f} |"
            f" {min(contest)} | {aiter or '-'} |"
        )
        times.append((modelled.us, two_passes, min(contest)))
    means = [math.exp(sum(map(math.log, column)) / len(times)) for column in zip(*times)]
    print("\nGeometric means: modelled {:.1f}, with a transpose pass {:.1f}, best published {:.1f} us".format(*means))


if __name__ == "__main__":
    main()
