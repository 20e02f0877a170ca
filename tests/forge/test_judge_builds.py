"""What a submission builds is built by somebody else, into a cache that it reads: named by what it was built of."""

import os
import time
from pathlib import Path

import pytest

from cdna.engine.build import cache_dir
from forge.device.fake_rocm import kept
from forge.device.fake_rocm.build import Extension
from tests.support.evaltools import ROOT, run_command

pytestmark = pytest.mark.long

VERDICTS = ROOT / "lab" / "corpus"


def test_a_kernel_is_found_by_the_next_run(tmp_path: Path) -> None:
    """And by a run in another folder: where its source lies is no part of its name."""
    begun = time.time() - 1
    name = f"_product_{int.from_bytes(os.urandom(8)):x}"  # of a kernel that no run before has had
    source = (VERDICTS / "kernel.py").read_text().replace("_product", name)
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        (folder / "submission.py").write_text(f"{source}\ndef custom_kernel(data):\n    return product(data)\n")
        done = run_command("test", VERDICTS / "problem", "--device", "gfx942", cwd=folder)
        assert done.returncode == 0, done.stdout
    recent = [note for note in (cache_dir() / "kernels").glob("*.sum") if note.stat().st_mtime > begun]
    # A neighbour's note may stand there before its kernel does.
    notes = [note for note in recent if (kernel := note.with_suffix("")).exists() and name in kernel.read_text()]
    assert [len(note.read_text().splitlines()) for note in notes] == [1]  # a line each time that it is compiled


def extension(folder: Path, *flags: str) -> Extension:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "k.hip").write_text('#include "k.h"\n')
    return Extension("k", [folder / "k.hip"], "gfx942", [], list(flags), [], [], str(folder))


def test_what_is_built_is_named_by_all_that_lies_beside_its_sources(tmp_path: Path) -> None:
    places = []
    for run, header in (("run1", "int x;"), ("run2", "int x;"), ("run3", "int y;")):
        made = extension(tmp_path / run, f"-DTHERE={tmp_path / run / 'k.h'}")
        (tmp_path / run / "k.h").write_text(header)
        copy = kept.copy_of(made, str(tmp_path))
        places.append(copy.place)
        inside = copy.inside(made.device_flags[0])
        assert inside == f"-DTHERE={copy.place}/0/k.h" and copy.outside(inside) == made.device_flags[0]
    assert places[0] == places[1] != places[2]


def test_what_has_no_such_name_each_run_builds_for_itself(tmp_path: Path) -> None:
    many, much = extension(tmp_path / "run1"), extension(tmp_path / "run2")
    for number in range(kept.MOST_FILES + 1):
        (tmp_path / "run1" / f"f{number}").touch()
    with open(tmp_path / "run2" / "long", "w") as file:
        file.truncate(kept.MOST_BYTES + 1)
    elsewhere = extension(tmp_path / "run3", f"-include{tmp_path}/elsewhere.h")  # what no copy has
    for made in (many, much, elsewhere):
        with pytest.raises(kept.NotTaken):
            kept.copy_of(made, str(tmp_path))
