"""Files of a cache that were cut short are named and built anew, and whole ones are left alone."""

import os
import re
import shutil
import stat
import sys
from pathlib import Path

import pytest

from cdna.engine.build import engine_library
from cdna.engine.cached_files import publish, whole, whole_elf
from cdna.hip.compile import results
from forge.device.extensions import drop_damaged
from tests.support.hip_programs import PROGRAMS, cdna


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999, 1.0])
def test_a_library_that_was_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str], share: float) -> None:
    content = engine_library().read_bytes()
    cut = tmp_path / "engine.so"
    cut.write_bytes(content[: int(len(content) * share)])
    assert whole_elf(cut) is cut.exists() is (share == 1.0)
    assert ("engine.so in the cache is damaged" in capsys.readouterr().err) is (share < 1)


def test_a_missing_file_is_not_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not whole(tmp_path / "x") and not whole_elf(tmp_path / "x") and not capsys.readouterr().err


@pytest.mark.parametrize("damage", [b"", b"conten", b"contenT", b"content and more"])
def test_any_file_by_its_note(tmp_path: Path, damage: bytes) -> None:
    partial, path = tmp_path / "partial", tmp_path / "result"
    partial.write_bytes(b"content")
    publish(partial, path)
    assert whole(path) and path.read_bytes() == b"content"
    path.write_bytes(damage)
    assert not whole(path) and not path.exists()


def test_a_damaged_result_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_CACHE_DIR", str(tmp_path))
    built: list[Path] = []

    def build(output: Path) -> list[Path]:
        built.append(output)
        output.write_bytes(b"image")
        return []

    first = results.Results("key", ".image").get(build)
    assert results.Results("key", ".image").get(build) == first and len(built) == 1
    first.write_bytes(b"ima")
    assert results.Results("key", ".image").get(build).read_bytes() == b"image" and len(built) == 2


def test_others_read_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_CACHE_DIR", str(tmp_path))
    umask = os.umask(0o022)
    try:
        stored = results.stored(b"content", ".ll")
    finally:
        os.umask(umask)
    assert stored.read_bytes() == b"content" and stat.S_IMODE(stored.stat().st_mode) == 0o644


def test_what_torch_built_and_was_cut_goes(tmp_path: Path) -> None:
    for name in ("whole.so", "cut.so", "cut.o"):
        (tmp_path / "k").mkdir(exist_ok=True)
        shutil.copy(sys.executable, tmp_path / "k" / name)
        if name.startswith("cut"):
            with (tmp_path / "k" / name).open("r+b") as file:
                file.truncate(1000)
    drop_damaged(tmp_path)
    assert [path.name for path in (tmp_path / "k").iterdir()] == ["whole.so"]


@pytest.mark.slow(reason="builds the HIP runtime for another cache")
def test_a_cache_that_was_copied_has_one_engine(tmp_path: Path) -> None:
    """Its runtime must not load the engine of the place that it came from: that one's launches would be counted."""
    engine = engine_library()
    shutil.copy(engine, tmp_path)
    for folder in engine.parent.glob("hip-runtime-*"):
        shutil.copytree(folder, tmp_path / folder.name)
    done = cdna("run", "--counters", PROGRAMS / "saxpy.hip", CDNA_CACHE_DIR=str(tmp_path), LD_DEBUG="libs")
    assert done.returncode == 0 and "wave instructions" in done.stderr, done.stderr[-2000:]
    loaded = set(re.findall(r"calling init: (\S*/engine-\S*)", done.stderr))
    assert loaded == {str(tmp_path / engine.name)}
