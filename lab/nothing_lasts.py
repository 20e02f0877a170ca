"""Whether anything of a run lasts: the file system, mounts and shared memory before and after an honest run and a
hostile one, as root and as an ordinary user, with namespaces, where a container forbids them, in a read-only home.

    sudo python lab/nothing_lasts.py [-o results/nothing_lasts.json] [WHO ...]

Each runs on an overlay of this machine's root, so that all that is written, and nothing that others write meanwhile, is
seen. Left out: the folder of the report, and the cache of builds. Exit code 1 where anything else differs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from forge.console import aligned  # noqa: E402 - from this checkout
from lab.verdicts import FOLDER, PROBLEM  # noqa: E402

USER, HOME = 1234, "/home/somebody"
MOVED = f"/tmp/cdna-{USER}"  # the cache of builds of who cannot write to his home
REMOVED = "20000 0 0 "  # as an overlay shows what is no longer below it
WHO = ("root", "user", "root in a container", "user in a container", "user with a read-only home")
# Refuses new namespaces and mounts, as the filter of a container's engine does.
FILTER = f"""
import errno, os, sys
sys.path.insert(0, {str(ROOT)!r})
from forge.judge import libc, seccomp
code = [seccomp._op(seccomp.LOAD, seccomp.NUMBER)]
for call in (272, 165):
    code += seccomp._where(call, [seccomp._fail(errno.EPERM)])
libc.prctl(libc.PR_SET_NO_NEW_PRIVS, 1)
seccomp.install(b"".join([*code, seccomp._op(seccomp.RETURN, seccomp.ALLOW)]))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
HOSTILE = """
import ctypes, glob, os, signal, subprocess, sys, time
here = os.path.dirname(os.path.abspath(__file__))
libc = ctypes.CDLL(None, use_errno=True)
places = [os.path.expanduser("~"), "/tmp", "/var/tmp", "/dev/shm", "/etc", "/run"]
places += ["/", "HOME", "HOME/own", "HOME/.cache", *glob.glob("HOME/.cache/*"), "ROOT", "ROOT/task.yml", sys.prefix]
places += ["ROOT/reference", "ROOT/forge", "ROOT/cdna", os.path.dirname(os.__file__), os.path.dirname(torch.__file__)]
def each():
    for place in places:
        for act in (
            lambda: open(place + "/planted.py", "w").write("1"),
            lambda: os.mkdir(place + "/planted"),
            lambda: os.mkfifo(place + "/line"),
            lambda: os.symlink("/etc/passwd", place + "/link"),
            lambda: os.link(here + "/submission.py", place + "/hard"),
            lambda: os.chmod(place, 0o4777),
            lambda: os.chmod(place, 0),
            lambda: os.chown(place, 65534, 65534),
            lambda: os.utime(place, (1, 1)),
            lambda: os.setxattr(place, "user.planted", b"1"),
            lambda: os.truncate(place, 0),
            lambda: os.rename(place, place + "x"),
            lambda: os.chmod(os.open(place, os.O_RDONLY), 0o700),
            lambda: os.utime(os.open(place, os.O_RDONLY), (1, 1)),
            lambda: subprocess.run(["chattr", "+i", place], stderr=-3),
            lambda: subprocess.run(["mount", "-t", "tmpfs", "none", place], stderr=-3),
        ):
            try:
                act()
            except (OSError, ValueError):
                pass
def lasting():
    libc.shmget(4711, 4096, 0o1666), libc.semget(4712, 1, 0o1666), libc.msgget(4713, 0o1666)
    libc.mq_open(b"/planted", 0o102, 0o666, None)
    for base in (here, "/tmp", "/dev/shm"):
        try:
            deep = base
            for _ in range(60):
                deep += "/" + "d" * 60
                os.mkdir(deep)
            os.chmod(base + "/" + "d" * 60, 0)
        except OSError:
            pass
    if os.fork() == 0:
        os.setsid()
        for number in (1, 2, 3, 15):
            signal.signal(number, signal.SIG_IGN)
        if os.fork():
            os._exit(0)
        end = time.time() + 20
        while time.time() < end:
            each()
            time.sleep(0.2)
        os._exit(0)
each(), lasting()
def custom_kernel(data):
    each()
    return product(data)
"""
# Below the overlay's root: prepares it, and runs steps with a look at everything after each.
INSIDE = r"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"; mkdir "$1"/upper "$1"/work "$1"/root
mount -t overlay overlay -o lowerdir=/,upperdir="$1"/upper,workdir="$1"/work "$1"/root
for place in proc sys dev; do mount --rbind /$place "$1"/root/$place; done
mount -t tmpfs tmpfs "$1"/root/dev/shm
chmod 1777 "$1"/root/dev/shm
cd "$1"/root; mkdir -p before; pivot_root . before; cd /
export -n OLDPWD
"$2" "$3" --inside "before$1/upper" "$4"
"""


def looked(upper: str) -> dict[str, str]:
    """All that has been written, by path; mounts, and memory that processes share by name."""
    found = {}
    for place in (upper, "/dev/shm"):
        for folder, folders, files in os.walk(place):
            for name in [*folders, *files]:
                path = os.path.join(folder, name)
                told = os.lstat(path)
                changed = told.st_mtime_ns if not os.path.isdir(path) else 0
                names = ",".join(os.listxattr(path, follow_symlinks=False))
                where = path.removeprefix(upper) if place == upper else path
                found[where] = (
                    f"{told.st_mode:o} {told.st_uid} {told.st_size * (not os.path.isdir(path))} {changed} {names}"
                )
    found["mounts"] = "\n".join(
        sorted(line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    )
    for status in Path("/proc").glob("[0-9]*/cmdline"):  # of processes, those that have outlived a run
        with contextlib.suppress(OSError):
            if b"forge.judge.fork_server" in status.read_bytes() and os.getsid(int(status.parent.name)):
                environment = status.with_name("environ").read_bytes()
                found |= {f"process {status.parent.name}": "runs"} if HOME.encode() in environment else {}
    for kind in ("shm", "sem", "msg"):
        found[kind] = Path(f"/proc/sysvipc/{kind}").read_text()
    return found


def differs(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    for path in sorted(before.keys() | after.keys()):
        ignored = path.startswith((f"{HOME}/report", f"{HOME}/.cache/cdna", MOVED)) or "__pycache__" in path
        ignored |= path.startswith("/tmp/forge-") and after.get(path, "").startswith(
            REMOVED
        )  # of a run that was killed
        if not ignored and before.get(path) != after.get(path):
            yield f"{path}: {before.get(path, 'was not there')} -> {after.get(path, 'is not there')}"


def run_inside(upper: str, who: str) -> None:
    """Prints what differs after each run, as JSON."""
    os.makedirs(f"{HOME}/report")
    os.makedirs(f"{HOME}/own")
    built = sorted(Path(os.path.expanduser("~/.cache/cdna")).glob("engine-*.so"), key=os.path.getmtime)[-12:]
    os.makedirs(f"{HOME}/.cache/cdna")
    for engine in built:  # or each builds it anew
        shutil.copy(engine, f"{HOME}/.cache/cdna")
    if "user" in who:
        own = f"{HOME}/report" if "read-only" in who else HOME
        subprocess.run(["chown", "-R", str(USER), own], check=True)
    for place in Path(sys.executable).resolve().parents:
        os.chmod(place, 0o755)
    head = (FOLDER / "kernel.py").read_text()
    hostile = HOSTILE.replace("HOME", HOME).replace("ROOT", str(ROOT))
    told: dict[str, object] = {}
    for name, body in (
        ("warm", "custom_kernel = product\n"),
        ("honest", "custom_kernel = product\n"),
        ("hostile", hostile),
        ("honest again", "custom_kernel = product\n"),
    ):
        Path(HOME, "report", "submission.py").write_text(head + body)
        command = [sys.executable, *["-c", FILTER] * ("container" in who), str(ROOT / "eval.py"), "test", str(PROBLEM)]
        command += ["--submission", f"{HOME}/report/submission.py", "--device", "gfx942", "--strict", "--no-history"]
        command += ["--json", f"{HOME}/report/out.json"]
        if "user" in who:
            command = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *command]
        before = looked(upper)
        environment = {"PATH": os.environ["PATH"], "HOME": HOME, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=f"{HOME}/report", env=environment, capture_output=True, text=True)
        told[name] = [done.returncode, list(differs(before, looked(upper))), done.stdout[-1500:] + done.stderr[-500:]]
    print("told:" + json.dumps(told))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("who", nargs="*", help=", ".join(WHO))
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    if args.inside:
        run_inside(*args.inside)
        return 0
    rows, bad = [("who", "run", "exit code", "what lasts")], 0
    for who in args.who or WHO:
        with tempfile.TemporaryDirectory() as place:
            words = ["unshare", "-m", "-i", "bash", "-c", INSIDE, "bash", place, sys.executable, __file__, who]
            done = subprocess.run(words, capture_output=True, text=True)
        line = next((line for line in done.stdout.splitlines() if line.startswith("told:")), None)
        if line is None:
            print(done.stdout, done.stderr)
            return 2
        for name, (code, lasts, words) in json.loads(line.removeprefix("told:")).items():
            if name == "warm":
                continue
            rows.append((who, name, str(code), f"{len(lasts)}: {'; '.join(lasts[:3])}"[:200] if lasts else "nothing"))
            bad += bool(lasts)
            if args.verbose:
                print(name, code, *lasts, words, sep="\n    ")
    print("\n".join(aligned(rows)))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
