"""All code objects of ROCm/aiter for gfx942 and gfx950: whether each loads, and of those with a reference its error."""

from __future__ import annotations

import csv
import functools
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cdna

from .rows import Row
from .runner import blob, git

CARDS = {"gfx942": "MI300X", "gfx950": "MI355X"}
CLOSE = 0.01  # relative L2 error
_MOE = re.compile(r"fmoe_bf16_(pertokenFp8|blockscaleFp8)_g1u1_(?!.*(multix|smf|a16|emsort|psx)).*_(\d+)x(\d+)")
_STAGE1 = re.compile(r"fmoe_stage1_bf16_pertokenFp8_(doweight_)?g1u1_(\d+)x(\d+)")
_GEMM = re.compile(r"(f4gemm|I8gemm|fp8gemm|bf16gemm)_.*_(\d+)x(\d+)")
_TOPK = re.compile(r"topksoftmax_(\d+)x(\d+)x(\d+)")
_FMHA = re.compile(r"fwd_hd(128|192)(x128|_hd128)?_bf16(_causal)?(_rtn\w|_rtz)?\.co")
_MLA = "mla_dec_stage1_bf16_a16w16_subQ16_mqa16.co"


def objects(checkout: Path) -> Iterator[tuple[str, str]]:
    """(path, git's hash) of each at the checkout's HEAD."""
    for line in git(checkout, "ls-tree", "-r", "HEAD", *(f"hsa/{arch}" for arch in CARDS)).decode().splitlines():
        about, path = line.split("\t")
        if path.endswith(".co"):
            yield path, about.split()[2]


def family_of(path: str) -> str:
    """arch/family, of the folders that the file lies in."""
    _, arch, *folders, _ = path.split("/")
    return f"{arch} {folders[0] if folders else '(none)'}"


@functools.cache
def _persistent(checkout: Path) -> frozenset[str]:
    """The files whose grid is one of compute units, by the tables beside them; not all have it in their name."""
    folders = [f"hsa/{arch}/fmoe" for arch in CARDS]
    names = git(checkout, "ls-tree", "-r", "--name-only", "HEAD", *folders).decode().splitlines()
    tables = [blob(checkout, f"HEAD:{name}").decode() for name in names if name.endswith(".csv")]
    rows = [row for text in tables for row in csv.DictReader(text.splitlines())]
    return frozenset(row["co_name"] for row in rows if row.get("ps") == "1")


def _shape(checkout: Path, path: str) -> tuple[str, dict[str, int | str]] | None:
    """(family, small shape) of the case that an object is run on; none where no reference fits it."""
    name = path.rsplit("/", 1)[-1]
    if found := _GEMM.match(name):
        family = {"I8gemm": "i8gemm", "fp8gemm": "fp8gemm_blockscale"}.get(found[1], found[1])
        m, n = int(found[2]) + 16, 2 * int(found[3])
        more = {"out": "bf16" if "_bf16_tn" in name else "f32"} if family == "bf16gemm" else {}
        return family, {"m": m, "n": n, "k": 1024, "split": 0 if family == "f4gemm" else 1, **more}
    moe = {"tokens": 24, "model_dim": 512, "experts": 4, "topk": 2}
    if found := _MOE.match(name):
        inter = max(256, int(found[4])) if int(found[4]) in (128, 256, 512) else int(found[4])
        persistent = {"groups_per_cu": int(name in _persistent(checkout))}
        return "fmoe", {**moe, "inter_dim": inter, "block_m": int(found[3]), **persistent}
    if found := _STAGE1.match(name):
        return "fmoe_stage1", {**moe, "inter_dim": 2 * int(found[3]), "block_m": int(found[2])}
    if found := _TOPK.match(name):
        return "topksoftmax", {"tokens": 50, "block_m": int(found[1]), "experts": int(found[2]), "topk": int(found[3])}
    if (found := _FMHA.match(name)) and "fmha_v3_fwd" in path:
        rows = 128 if found[1] == "192" else 256
        return "fmha_fwd", {"batch": 1, "seq": 512, "heads": 2, "dim": int(found[1]), "v_dim": 128, "rows": rows}
    return ("mla_decode", {"batch": 2, "heads": 16, "seq": 100}) if name == _MLA else None


def try_object(checkout: Path, path: str, digest: str) -> dict[str, Any]:
    """Loads it, and runs and compares it where there is a case for it."""
    result: dict[str, Any] = {"path": path, "blob": digest, "family": family_of(path), "loaded": False}
    started = time.perf_counter()
    try:
        content = blob(checkout, digest)
        cdna.load(content)
        result["loaded"] = True
        if case := _shape(checkout, path):
            from .compared import compare  # with torch, which nothing else here needs

            shape = {name: str(value) for name, value in case[1].items()}
            result["error"] = compare(
                Row("", CARDS[path.split("/")[1]], case[0], path, digest, shape, 0.0, ""), content
            )
    except cdna.CdnaError as error:
        result["why"] = " ".join(str(error).split())[:200]
    result["seconds"] = round(time.perf_counter() - started, 2)
    return result


def table(results: list[dict[str, Any]]) -> list[list[str]]:
    """Rows of family, objects, loaded, executed, compared and right, largest error."""
    rows = []
    for family in sorted({result["family"] for result in results}):
        mine = [result for result in results if result["family"] == family]
        errors = [result["error"] for result in mine if "error" in result]
        loaded, right = sum(result["loaded"] for result in mine), sum(error < CLOSE for error in errors)
        worst = f"{max(errors):.1e}" if errors else ""
        rows.append([family, str(len(mine)), str(loaded), str(len(errors)), str(right), worst])
    sums = [str(sum(int(row[column]) for row in rows)) for column in range(1, 5)]
    return [*rows, ["**all**", *sums, ""]]
