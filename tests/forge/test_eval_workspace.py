"""What a submission may leave in its run folder and in files that judge: nothing the evaluator waits or dies of."""

import errno
import fcntl
import importlib.util
import marshal
import os
import py_compile
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from forge.device.extensions import kept_folder, move_kept_folder
from forge.judge import evaluate
from forge.judge.workspace import Workspace, clear_left_over
from forge.task.problem import Problem, find_problem
from tests.support.evaltools import RIGHT, write_problem

pytestmark = pytest.mark.long


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    return find_problem(write_problem(tmp_path / "problem"))


@pytest.fixture
def workspace(problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with Workspace(problem, RIGHT.encode()) as made:
        made.make_folder()
        made.make_judges_folder()
        yield made
    assert not made.root.exists()


def test_a_run_that_begins_is_not_cleared(problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another one that looks for what killed runs have left, in the moment before this one's guard is locked."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lock = fcntl.flock

    def cleared_first(descriptor: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX:
            clear_left_over(tmp_path)
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", cleared_first)
    with Workspace(problem, RIGHT.encode()) as made:
        assert made.make_folder().is_dir()


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def as_large_as_a_disk(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("make", [os.mkfifo, link_to_zeros, as_large_as_a_disk, os.mkdir])
def test_what_is_no_plain_file_is_not_read(workspace: Workspace, make: Callable[[Path], None]) -> None:
    assert workspace.changed() == []
    (workspace.folder / "reference.py").unlink()
    assert workspace.changed() == ["reference.py is gone"]
    make(workspace.folder / "reference.py")
    assert workspace.changed() == ["reference.py was changed"]


def dig(place: Path) -> None:
    """1500 folders in each other."""
    before = os.getcwd()
    place.mkdir()
    os.chdir(place)
    try:
        for _ in range(1500):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(before)


def test_folders_a_thousand_deep(workspace: Workspace) -> None:
    for place in (workspace.folder, workspace.root / "judge", workspace.extensions):
        dig(place / "deep")
    old = workspace.folder
    workspace.make_folder()
    assert not old.exists() and not (workspace.extensions / "deep").exists()


def test_a_lock_that_is_a_folder(workspace: Workspace) -> None:
    (workspace.extensions / "k" / "lock").mkdir(parents=True)
    workspace.make_folder()
    assert not (workspace.extensions / "k").exists()


def test_an_extension_that_nobody_can_read(problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for _ in range(2):
        with Workspace(problem, RIGHT.encode()) as made:
            (made.extensions / "k").mkdir(exist_ok=True)
            if not (made.extensions / "k" / "k.so").exists():
                os.mkfifo(made.extensions / "k" / "k.so")


def test_the_next_judge_finds_nothing_beside_its_files(workspace: Workspace) -> None:
    """Where a package named reference would be taken before reference.py, and a link lead elsewhere."""
    judge = workspace.root / "judge"
    (judge / "reference").mkdir()
    (judge / "reference" / "__init__.py").write_text("check_implementation = lambda *_: (True, '')\n")
    (workspace.root / "run2").symlink_to(judge)
    workspace.make_folder()
    assert workspace.make_judges_folder() == judge
    assert [path.name for path in judge.iterdir()] == ["reference.py"]
    assert not workspace.folder.is_symlink()


@pytest.fixture
def watched(problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A judge of a repository that is this test's folder, as it is when the run begins."""
    root, packages = tmp_path / "root", tmp_path / "packages"
    for place in (root / "forge" / "judge", root / "cdna", packages):
        place.mkdir(parents=True)
    (root / "forge" / "judge" / "check.py").write_text("LIMIT = 0.01\n")
    monkeypatch.setattr(evaluate, "ROOT", root)
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    judge = evaluate.Judge.__new__(evaluate.Judge)
    judge.plan = type("Plan", (), {"problem": problem})()
    judge._digests = evaluate.digests(problem)
    assert judge._changed() == []
    return judge


@pytest.mark.parametrize(
    "name",
    [
        *("root/forge/judge/check.py", "root/forge/judge/check/__init__.py", "root/forge/judge/check.so"),
        *("root/cdna/observe/model.py", "root/torch.py", "root/json/__init__.py", "problem/reference.py"),
        *("packages/x.pth", "packages/sitecustomize.py", "packages/usercustomize.so"),
    ],
)
def test_a_file_that_judges_a_later_run_is_named(watched: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("LIMIT = 1e9\n")
    assert watched._changed() == [str(tmp_path / name)]


def test_a_source_of_a_terabyte_is_not_read(watched: Any, tmp_path: Path) -> None:
    as_large_as_a_disk(tmp_path / "root/forge/judge/check.py")
    assert watched._changed() == [str(tmp_path / "root/forge/judge/check.py")]


def test_byte_code_that_its_source_does_not_compile_to(watched: Any, tmp_path: Path) -> None:
    source = tmp_path / "root/forge/judge/check.py"
    place = Path(importlib.util.cache_from_source(source))
    py_compile.compile(str(source))
    assert place.is_file() and watched._changed() == []  # as any run writes it
    head = place.read_bytes()[: evaluate.PYC_HEAD_BYTES]
    place.write_bytes(head + marshal.dumps(compile("LIMIT = 1e9\n", str(source), "exec")))
    assert watched._changed() == [str(place)]
    place.write_bytes(b"x")
    assert watched._changed() == [str(place)]


def test_new_judges_are_not_made_of_changed_files(watched: Any, tmp_path: Path) -> None:
    """As they would be after a crash: the case that crashed has failed, and later ones are not judged."""
    (tmp_path / "root/forge/judge/check.py").write_text("LIMIT = 1e9\n")
    case = type("Case", (), {"index": 1, "spec": ""})()
    watched.cases, watched.stopped, watched.referees = [case, case], "", type("Pool", (), {"workers": []})()
    watched.run = type("Run", (), {"cases": []})()
    watched.listener = type("Listener", (), {"case_finished": lambda self, result: None})()
    assert watched.step(1).message.startswith("files that judge were changed: ")


def test_a_cache_on_a_full_disk_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To where there is room; where there is none it stays: all may be built."""
    kept, own = tmp_path / "kept", tmp_path / f"cdna-{os.getuid()}"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    free = {str(kept): 1 << 10, str(tmp_path): 1 << 10}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free[str(path)]))
    for room, said in ((1 << 10, ""), (1 << 40, f"{kept} cannot be written (No space left on device): what is built")):
        monkeypatch.setenv("CDNA_CACHE_DIR", str(kept))
        free[str(tmp_path)] = room
        assert move_kept_folder().startswith(said) and kept_folder() == str(own if said else kept)


def test_a_cache_that_cannot_be_written_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, user = tmp_path / "kept", os.getuid()
    kept.mkdir()
    (kept / "engine-a.so").write_bytes(b"built")
    monkeypatch.setenv("CDNA_CACHE_DIR", str(kept))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert move_kept_folder() == "" and kept_folder() == str(kept)

    def refused(dir: Path) -> NoReturn:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    own = tmp_path / f"cdna-{user}"
    assert move_kept_folder() == f"{kept} cannot be written (Read-only file system): what is built is kept in {own}"
    assert kept_folder() == str(own) and (own / "engine-a.so").read_bytes() == b"built"
    own.rename(tmp_path / "another's")
    own.symlink_to(tmp_path / "another's")
    with pytest.raises(PermissionError, match="is another's"):
        move_kept_folder()
