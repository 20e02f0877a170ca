"""The temporary folder of a run, laid out as the leaderboard's runner does, and what happens to it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import site
import stat
import subprocess
import tempfile
from pathlib import Path

from forge.device.extensions import all_in, drop_damaged, kept_folder
from forge.judge.confinement import NEW_ROOT, OURS, SHARED_MEMORY, Bounds
from forge.judge.namespaces import user_of_run
from forge.task.problem import ROOT, Problem

PREFIX, GUARD = "forge-", "guard"  # of a run's folder; the file that its evaluator keeps locked
OWN_FOLDERS = HOME, TEMPORARY = "home", "tmp"  # of a submission, beside the folder that it runs in


def clear_left_over(place: Path) -> None:
    """Removes the folders of runs whose evaluator is gone: killed together with all that would have cleared."""
    for guard in place.glob(f"{PREFIX}*/{GUARD}"):
        with contextlib.suppress(OSError):  # another user's, or one that goes just now
            descriptor = os.open(guard, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_run(guard.parent)
            finally:
                os.close(descriptor)


def remove_run(root: Path) -> None:
    """The folder of a run that has ended, and what its user has left in shared memory."""
    user = user_of_run(str(root.resolve()))
    remove_tree(root)
    for name in os.listdir(SHARED_MEMORY) if os.getuid() == 0 and os.path.isdir(SHARED_MEMORY) else ():
        with contextlib.suppress(FileNotFoundError):  # another's, who removes it
            if os.lstat(path := os.path.join(SHARED_MEMORY, name)).st_uid == user:
                remove_tree(Path(path))


def remove_tree(folder: Path) -> None:
    """Whatever a submission has made of it: a link, a line that opening would wait at, folders a thousand deep, or that
    nobody may enter."""
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.is_dir():
        for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def holds(path: Path, content: bytes) -> bool:
    """Whether a plain file has this content: a pipe or a link in its place is not read, nor a file of another size."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        return stat.S_ISREG(found.st_mode) and found.st_size == len(content) and file.read(len(content)) == content


class Workspace:
    """Context manager. Each pool gets a fresh run folder with the task's files; all go at the end."""

    def __init__(self, problem: Problem, submission: bytes, keeps_builds: bool = True) -> None:
        """keeps_builds: whether what the submission itself builds is there in its next run."""
        self.keeps_builds = keeps_builds
        self.files: dict[str, bytes] = {}
        for file in problem.files:
            if file.source is None:
                self.submission, self.files[file.name] = file.name, submission
            elif file.source.is_file():
                self.files[file.name] = file.source.read_bytes()
        self.submission_sha256 = hashlib.sha256(submission).hexdigest()
        self._count = 0

    def __enter__(self) -> Workspace:
        clear_left_over(Path(tempfile.gettempdir()))
        self.root = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
        self.root.chmod(0o711)  # a superuser's submission runs as nobody
        unlocked = self.root / f"{GUARD}.new"  # has its name once it is locked: another run may be clearing just now
        self._mine = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._mine, fcntl.LOCK_EX)
        unlocked.rename(self.root / GUARD)
        for name in (*OWN_FOLDERS, OURS, NEW_ROOT):
            (self.root / name).mkdir()
        self._open_extensions()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._guard is not None:
            with contextlib.suppress(OSError):
                if os.listdir(self.extensions) == ["guard"]:  # nothing was built: leave no trace in the cache
                    shutil.rmtree(self.extensions)
            os.close(self._guard)
        remove_run(self.root)
        os.close(self._mine)

    def make_folder(self) -> Path:
        """A new run folder. No worker is alive when this is called, so build locks found are stale."""
        remove_tree(self.root / f"run{self._count}")
        self._count += 1
        self.folder = self._filled(f"run{self._count}", self.files)
        for name in OWN_FOLDERS:
            (self.root / name).mkdir(exist_ok=True)
        try:
            for path in all_in(self.extensions):
                if path.name == "lock":
                    path.unlink(missing_ok=True)
        except OSError:  # folders of that name, or a thousand deep: no build of torch's
            self._drop_extensions()
        return self.folder

    def _drop_extensions(self) -> None:
        for built in self.extensions.iterdir():
            if built.name != GUARD:
                remove_tree(built)

    def make_judges_folder(self) -> Path:
        """Where referees work: the task's files without the submission, written anew."""
        return self._filled("judge", {name: data for name, data in self.files.items() if name != self.submission})

    def make_replays_folder(self) -> Path:
        return self._filled("replay", {})

    def _filled(self, name: str, files: dict[str, bytes]) -> Path:
        """A folder of these files, and of nothing that a submission has put there before."""
        folder = self.root / name
        remove_tree(folder)
        for file, content in files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        folder.mkdir(exist_ok=True)
        return folder

    def changed(self) -> list[str]:
        """The task's files that are no longer what they were: "reference.py is gone", ..."""
        changes = []
        for name, content in self.files.items():
            try:
                if not holds(self.folder / name, content):
                    changes.append(f"{name} was changed")
            except FileNotFoundError:
                changes.append(f"{name} is gone")
            except OSError:
                changes.append(f"{name} was changed")
        return changes

    def environment(self) -> dict[str, str]:
        """For every process of the run: without our own variables, with temporary files in the workspace."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("POPCORN_")}
        path = environment.get("PYTHONPATH", "").split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(p for p in path if p and Path(p).resolve() != ROOT)
        environment.update(
            TMPDIR=str(self.root / TEMPORARY),
            TORCH_EXTENSIONS_DIR=str(self.extensions),
            PYTHONFAULTHANDLER="1",
            PYTHONDONTWRITEBYTECODE="1",
        )
        return environment

    def bounds(self, gpu: bool) -> Bounds:
        """What a submission may touch beside its run folder. To be asked when the workspace is there."""
        home = self.root / HOME
        own = [str(home), str(self.root / TEMPORARY), str(self.extensions)]
        environment = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA", "STATE")}
        environment |= {"HOME": str(home), "TMPDIR": str(self.root / TEMPORARY), "PYTHONUSERBASE": site.getuserbase()}
        environment |= {name: os.environ.get(name, "submission") for name in ("USER", "LOGNAME")}
        if self.keeps_builds:
            triton = os.environ.get("TRITON_CACHE_DIR")
            triton = triton or str(Path(os.environ.get("TRITON_HOME") or Path.home(), ".triton", "cache"))
            own.append(triton)
        else:
            triton = str(home / ".triton" / "cache")
            environment |= {"CDNA_CACHE_DIR": kept_folder(), "CDNA_OWN_CACHE_DIR": str(home / ".cache" / "cdna")}
        return Bounds(
            writable=own,
            kept="" if self.keeps_builds else kept_folder(),
            hidden=[str(Path.home()), str(self.root), str(ROOT / "reference"), str(ROOT / "kernels")],
            environment={**environment, "TRITON_CACHE_DIR": triton},
            gpu=gpu,
        )

    def _open_extensions(self) -> None:
        """torch's build folder: kept between runs of one submission, unless another run is using it.

        A build that was killed leaves a lock that the next one waits for without end, so nobody may share the
        folder, and whoever has it alone may remove the locks.
        """
        self._guard: int | None = None
        self.extensions = self.root / "extensions"
        if not self.keeps_builds:
            self.extensions.mkdir()
            return
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cdna-forge" / "extensions"
        kept = cache / self.submission_sha256[:16]
        try:
            kept.mkdir(parents=True, exist_ok=True)
            guard = os.open(kept / "guard", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:  # no cache here: build in the workspace
            self.extensions.mkdir()
            return
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(guard)
            self.extensions.mkdir()
            return
        self._guard, self.extensions = guard, kept
        try:
            drop_damaged(kept)
        except OSError:
            self._drop_extensions()
