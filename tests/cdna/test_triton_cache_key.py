"""Triton's digest of itself, kept in the cache."""

import os
from pathlib import Path

import pytest
import triton

import cdna
from cdna.triton.cache_key import kept_key


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDNA_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "triton"
    (folder / "_C").mkdir(parents=True)
    (folder / "_C" / "libtriton.so").write_bytes(b"code")
    (folder / "compiler.py").write_text("pass\n")
    return folder


@pytest.mark.parametrize("changed", ["compiler.py", "_C/libtriton.so"])
def test_it_is_made_once_and_anew_when_a_file_changes(package: Path, changed: str) -> None:
    assert kept_key(package, lambda: "first") == kept_key(package, lambda: "second") == "first"
    file = package / changed
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    assert kept_key(package, lambda: "second") == "second"
    file.write_bytes(file.read_bytes() + b"\n")
    assert kept_key(package, lambda: "third") == "third"
    (package / "new.py").touch()
    assert kept_key(package, lambda: "fourth") == "fourth"


def test_another_installation_has_its_own(package: Path, tmp_path: Path) -> None:
    assert kept_key(package, lambda: "first") == "first"
    assert kept_key(package.rename(tmp_path / "other"), lambda: "second") == "second"


def test_a_damaged_one_is_made_anew(package: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kept_key(package, lambda: "first")
    (file,) = (tmp_path / "cache" / "triton-keys").glob("[0-9a-f]" * 24)
    file.write_text("fir")
    assert kept_key(package, lambda: "first") == "first" == file.read_text()
    assert "damaged" in capfd.readouterr().err


def test_a_cache_that_cannot_be_written_only_takes_longer(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_CACHE_DIR", "/proc/no such place")
    assert kept_key(package, lambda: "first") == "first"


def test_triton_asks_for_it_and_it_is_tritons_own() -> None:
    with cdna.device("gfx942"):
        asking = triton.runtime.cache.triton_key
    own = triton.runtime.cache.__spec__.loader.get_code("triton.runtime.cache")
    fresh: dict[str, object] = {"__name__": "triton.runtime.cache", "__package__": "triton.runtime"}
    fresh["__file__"] = triton.runtime.cache.__file__
    exec(own, fresh)
    assert hasattr(asking, "kept") and asking() == fresh["triton_key"]()  # type: ignore[operator]
