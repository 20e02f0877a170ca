"""Which GPU a kernel's file is for: its name says so, `triton_gfx942.py`, or its folder, `lab/hopper/`."""

import re
from pathlib import PurePosixPath

from forge.generate.pysource import GenerationError, error_at

# Archs beside the leaderboard's. Each has a folder as kernels/ is, with common/ and <stem>/, which no file outside it
# may use: --also takes it in.
FOLDERS = {"sm_90": "lab/hopper"}
_NAME = re.compile(r"(?P<name>.+?)(?:_(?P<arch>gfx[0-9a-f]{3,4}))?(?P<table>_tuning)?")


def name_and_arch(path: str) -> tuple[str, str | None]:
    """`kernels/fp8_mm/triton_gfx942.py` -> ("triton", "gfx942"); no arch: for every GPU. A table has its variant's."""
    pure = PurePosixPath(path)
    match = _NAME.fullmatch(pure.name.partition(".")[0])
    name, arch = (match["name"], match["arch"]) if match else (pure.stem, None)
    return name, next((of_folder for of_folder, folder in FOLDERS.items() if path.startswith(f"{folder}/")), arch)


def refuse_other_arch(path: str, line: int, asked: str, wanted: str) -> None:
    """GenerationError where the file at `path` takes in one (`wanted`, in the words `asked`) of a GPU not its own."""
    own, other = name_and_arch(path)[1], name_and_arch(wanted)[1]
    if other not in (None, own):
        of_own = f"for {own}" if own else "for every GPU: put it into a file for that one"
        raise error_at(path, line, f"{asked}: {wanted} is for {other}, while this file is {of_own}")


def check_also(also: str) -> None:
    if also not in FOLDERS:
        raise GenerationError(f"--also {also}: there is nothing for it beside the problem's own GPU: {_known()}")


def _known() -> str:
    return f"leave it out, or take {' or '.join(FOLDERS)}"
