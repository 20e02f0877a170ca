"""What a submission tries against its confinement, what an honest one needs, and machines that give less."""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cdna.engine.build import cache_dir
from forge.console import EXIT_BUT
from forge.judge import landlock, libc
from forge.judge.namespaces import become_nobody, user_of_run
from forge.judge.workspace import remove_run, remove_tree
from tests.support.evaltools import (
    RANKS_REFERENCE,
    RANKS_TASK,
    REFERENCE,
    RIGHT,
    ROOT,
    judge,
    start,
    statuses,
    write_problem,
)
from tests.support.limits import ENDS_S

pytestmark = pytest.mark.long

# Tries each of ATTEMPTS, and prints the names of those that ended without an exception.
TRIES = """
import ctypes, glob, json, mmap, os, resource, signal, site, socket, subprocess, sys, tempfile, threading
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
libc = ctypes.CDLL(None, use_errno=True)

def call(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")

def write(path):  # and leave it as it was, where that is allowed
    there = os.path.lexists(path)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    if not there:
        os.unlink(path)

def read(path):
    return os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)

def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

def expect(what):
    if not what:
        raise ValueError

def above():
    pid = os.getppid()
    while pid:
        yield pid
        pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])

def of_judges(name):
    found = [read(f"/proc/{pid}/{name}") for pid in above() for _ in [0] if readable(f"/proc/{pid}/{name}")]
    expect(found)

def exchanges():
    return [one for one in glob.glob("/proc/self/fd/*") if "exchange" in (os.path.islink(one) and os.readlink(one))]

def readable(path):
    try:
        read(path)
        return True
    except OSError:
        return False

done = []
for name, attempt in ATTEMPTS:
    try:
        exec(attempt, globals())
        done.append(name)
    except BaseException as error:
        print(name, type(error).__name__, str(error)[:100])
def custom_kernel(x):
    os.write(1, b"".join(b"done:%s\\n" % ":".join(done[i::5]).encode() for i in range(5)))
    return x * 2
"""


def tried(folder: Path, attempts: dict[str, str]) -> list[str]:
    source = TRIES.replace("ATTEMPTS", repr(list(attempts.items())))
    done, result = judge(folder, source, "test", "--cases", "0")
    if result["unconfined"]:
        pytest.skip(f"this machine does not confine: {result['unconfined']}")
    assert statuses(result) == ["pass"], result
    words: list[str] = result["cases"][0]["last_words"]
    return [name for line in words if line.startswith("done:") for name in line.split(":")[1:]]


def refused(folder: Path) -> dict[str, str]:
    """By name: what a submission has no business with. The first are those of a module that a judge might import."""
    stranger = folder / "stranger"
    stranger.mkdir()
    files = {
        "site-packages": "os.path.join(site.getsitepackages()[0], 'gmpy2.py')",
        "torch": "os.path.join(os.path.dirname(torch.__file__), 'version.py')",
        "standard library": "os.path.join(os.path.dirname(os.__file__), 'gmpy2.py')",
        "folder of the judge": "os.path.join(HERE, '..', 'judge', 'gmpy2.py')",
        "task.yml": repr(str(ROOT / "reference/fp8_mm/task.yml")),
        "another reference": repr(str(ROOT / "reference/moe/reference.py")),
        "our own source": repr(str(ROOT / "forge/judge/referee.py")),
        "engine": f"glob.glob({str(cache_dir() / 'engine-*.so')!r})[0]",
        "cache": repr(str(cache_dir() / "kernels" / "planted")),
        "results": repr(str(cache_dir() / "hip" / "planted.so")),
        "home": repr(str(Path.home() / "planted")),
        "another's folder": repr(str(stranger / "planted")),
        "system": "'/etc/planted'",
        "kernel settings": "'/proc/sys/kernel/core_pattern'",
        "terminal": "'/dev/pts/0'",
        "controlling terminal": "'/dev/tty'",
    }
    secrets = {
        "references": str(ROOT / "reference"),
        "kernels": str(ROOT / "kernels"),
        # of a home in /tmp, which each submission has for itself, the folders above the cache can be listed
        **({} if Path.home().is_relative_to("/tmp") else {"home": str(Path.home())}),
        "another's folder": str(stranger),
        "the problem": str(folder / "problem" / "reference.py"),
        "disk": "/dev/vda",
    }
    return {
        **{f"write {name}": f"write({path})" for name, path in files.items()},
        **{f"read {name}": f"read({path!r})" for name, path in secrets.items()},
        "read judges' folder": "read(os.path.join(HERE, '..', 'judge', 'reference.py'))",
        "read judges' environment": "of_judges('environ')",
        "read judges' maps": "of_judges('maps')",
        "read judges' memory": "of_judges('mem')",
        "kill what is outside": f"os.kill({os.getpid()}, 0)",
        "immutable": "open(HERE + '/mine', 'w'); run('chattr', '+i', HERE + '/mine')",
        "mount": "call(165, b'none', HERE.encode(), b'tmpfs', 0, 0)",
        "namespaces": "call(272, 0x10000000)",
        "namespaces by clone": "pid = call(56, 0x10000000 | 17, 0, 0, 0, 0)",
        "clone3": "call(435, 0, 0)",
        "ptrace": "call(101, 16, os.getppid(), 0, 0)",
        "memory of another": "call(310, os.getppid(), 0, 0, 0, 0, 0)",
        "descriptor of another": "call(438, os.open('/dev/null', 0), 0, 0)",
        "bpf": "call(321, 0, 0, 0)",
        "keys": "call(250, 0, -3, 1)",
        "perf": "call(298, 0, 0, -1, -1, 0)",
        "io_uring": "call(425, 8, ctypes.create_string_buffer(120))",
        "userfaultfd": "call(323, 0)",
        "modules": "call(175, 0, 0, b'')",
        "rights": "expect('CapEff:\\t0000000000000000' not in open('/proc/self/status').read())",
        "rights to be had": "expect('CapBnd:\\t0000000000000000' not in open('/proc/self/status').read())",
        "gaining rights": "expect('NoNewPrivs:\\t1' not in open('/proc/self/status').read())",
        "be the superuser": "expect(os.getuid() == 0)",
        "stay when memory runs out": "expect(open('/proc/self/oom_score_adj').read().strip() != '1000')",
        "core files": "expect(resource.getrlimit(resource.RLIMIT_CORE)[1])",
        "two exchanges": "expect(len(exchanges()) != 1)",
        "network": "socket.create_connection(('192.0.2.1', 9), 0.2)",
    }


def test_confining_opens_the_c_library_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the many calls that a room makes, opening it took most of the time."""
    assert libc.prctl(libc.PR_GET_DUMPABLE) >= 0
    monkeypatch.setattr(libc.ctypes, "CDLL", None)
    assert libc.prctl(libc.PR_GET_DUMPABLE) >= 0


def test_nothing_outside_its_folders_is_a_submissions(tmp_path: Path) -> None:
    attempts = refused(tmp_path)
    # What may be written lasts no longer than the run.
    lasting = {f"lasts in {place}": f"open({place!r} + '/planted by a test', 'w')" for place in ("/dev/shm", "/tmp")}
    tried_things = tried(tmp_path, attempts | lasting)
    assert [name for name in tried_things if name in attempts] == []
    assert not [place for place in ("/dev/shm", "/tmp") if Path(place, "planted by a test").exists()]


# Finds the judge that imports it, and has what it tells say that all is well.
PLANTED = """
import dataclasses, sys
frame = sys._getframe()
while frame is not None:
    for judge in list(frame.f_locals.values()):
        if type(judge).__name__ == "Referee" and not hasattr(judge, "told"):
            judge.told = judge.send
            def send(message, judge=judge):
                if type(message).__name__ == "Judged":
                    status = type(message.status)("pass")
                    message = structs.replace(message, status=status, message="", accuracy=None, share=None)
                judge.told(message)
            judge.send = send
    frame = frame.f_back
raise ImportError
"""
PLANTS = """
import os
here = os.path.dirname(os.path.abspath(__file__))
for folder in [here, os.path.join(here, "..", "judge"), os.path.join(here, "..")]:
    for name in ("gmpy2", "sympy", "mpmath"):
        try:
            open(os.path.join(folder, name + ".py"), "w").write(PLANTED)
        except OSError:
            pass
def custom_kernel(x):
    return x * 0
"""
DESCRIBES = """
    where = torch.unravel_index((out - x * 2).abs().argmax(), x.shape)
    return bool(torch.allclose(out, x * 2)), f"values differ at {where}"
"""


def test_a_planted_module_is_no_judge(tmp_path: Path) -> None:
    """Naming a wrong element has torch import sympy, which tries gmpy2."""
    reference = REFERENCE[: REFERENCE.index("    good =")] + DESCRIBES
    problem = write_problem(tmp_path / "problem", reference=reference)
    source = f"PLANTED = {PLANTED!r}\n{PLANTS}"
    done, result = judge(tmp_path, source, "test", problem=problem, prepared=False)
    assert statuses(result) == ["fail"] * 3 and done.returncode == 1


# What honest submissions do, each in its own words.
HONEST = {
    "its folder": "write('mine'); write(HERE + '/mine')",
    "temporary files": "write(tempfile.mkstemp()[1])",
    "home": "os.makedirs(os.path.expanduser('~/.triton/cache/x')); write(os.path.expanduser('~/.rc'))",
    "folders of its own": "os.makedirs('a/b'); os.rename('a/b', 'c'); os.rmdir('c')",
    "threads": "t = threading.Thread(target=lambda: None); t.start(); t.join()",
    "processes": "run(sys.executable, '-c', 'import torch')",
    "shell": "run('sh', '-c', 'ls / | head -1')",
    "a lock of processes": "import multiprocessing; multiprocessing.get_context('fork').Lock()",
    "a pool of processes": "import multiprocessing.pool; p = multiprocessing.get_context('fork').Pool(1);"
    " expect(p.map(len, ['a']) == [1]); p.terminate()",
    "a server that forks": "import multiprocessing.pool; p = multiprocessing.get_context('forkserver').Pool(1);"
    " expect(p.map(len, ['a']) == [1]); p.terminate()",  # as Python 3.14 does where no method is named
    "shared memory": "from multiprocessing import shared_memory as s; m = s.SharedMemory(create=True, size=64);"
    " m.close(); m.unlink()",
    "shared tensors": "torch.ones(3).share_memory_()",
    "the task's files": "import reference; read('reference.py')",
    "its user's name": "import getpass; getpass.getuser()",
    "inductor's folder": "from torch._inductor.runtime.cache_dir_utils import cache_dir; write(cache_dir() + '/x')",
    "unix sockets": "socket.socketpair()",
    "a listening socket": "s = socket.socket(socket.AF_UNIX); s.bind('line'); s.listen()",
    "anonymous files": "os.write(os.memfd_create('x'), b'x')",
    "core count": "read('/proc/cpuinfo'); read('/sys/devices/system/cpu/online')",
    "renamed thread": "libc.prctl(15, b'mine', 0, 0, 0)",
    "signals to itself": "os.kill(os.getpid(), 0)",
}


def test_what_honest_submissions_need_is_there(tmp_path: Path) -> None:
    assert set(HONEST) - set(tried(tmp_path, HONEST)) == set()


# Of two ranks each: by which ways it looks into itself, and into the other.
LOOKS_IN = """
import os
import torch.distributed as dist
WAYS = {
    "exchange": lambda at: [open(f"{at}/fd/{n}", "r+b") for n in os.listdir(at + "/fd")
                            if "exchange" in os.readlink(f"{at}/fd/{n}")][0],
    "memory": lambda at: os.open(at + "/mem", os.O_RDONLY),
    "maps": lambda at: open(at + "/maps").read(),
    "folder": lambda at: os.listdir(at + "/cwd"),
}
def custom_kernel(x):
    pids = [None, None]
    dist.all_gather_object(pids, os.getpid())
    pids.sort(key=os.getpid().__ne__)
    seen = []
    for pid, whose in zip(pids, ("own", "another")):
        for way, look in WAYS.items():
            try:
                look(f"/proc/{pid}")
                seen.append(whose + " " + way)
            except OSError:
                pass
    os.write(1, ("saw " + ", ".join(seen) + "\\n").encode())
    os.mkdir(f"from{pids[0]}"), os.mkdir(f"to{pids[0]}"), os.mkdir(f"from{pids[0]}/a")
    os.rename(f"from{pids[0]}/a", f"to{pids[0]}/b")
    dist.barrier()
    y = x.clone()
    dist.all_reduce(y)
    return y
"""


@pytest.mark.skipif(not landlock.there(), reason="the kernel has no Landlock")
def test_no_rank_looks_into_another(tmp_path: Path) -> None:
    """And each may do what it may alone: move a folder into another."""
    problem = write_problem(tmp_path / "problem", RANKS_TASK, RANKS_REFERENCE)
    _, result = judge(tmp_path, LOOKS_IN, "test", "--cases", "0", "--calls", "1", problem=problem)
    assert statuses(result) == ["pass"], result["cases"]
    seen = {line for line in result["cases"][0]["last_words"] if line.startswith("saw")}
    assert seen == {"saw own exchange, own memory, own maps, own folder"}


GETATTR = (
    "def __getattr__(name):\n    if name == 'custom_kernel': return lambda x: x * 2\n    raise AttributeError(name)\n"
)


def test_a_module_may_make_its_kernel_when_it_is_asked_for(tmp_path: Path) -> None:
    done, result = judge(tmp_path, GETATTR, "test", "--cases", "0")
    assert statuses(result) == ["pass"] and done.returncode == 0


# Runs a command under a filter that refuses what a machine may lack.
LACKS = f"""
import errno, os, sys
sys.path.insert(0, {str(ROOT)!r})
from forge.judge import libc, seccomp
lacking = sys.argv[1].split(",")
code = [seccomp._op(seccomp.LOAD, seccomp.NUMBER)]
numbers = {{"landlock": [(444, errno.ENOSYS)], "namespaces": [(272, errno.EPERM), (165, errno.EPERM)]}}
for call, number in [one for name in lacking for one in numbers.get(name, [])]:
    code += seccomp._where(call, [seccomp._fail(number)])
if "seccomp" in lacking:  # prctl(PR_SET_SECCOMP)
    code += seccomp._where(157, [
        seccomp._op(seccomp.LOAD, 16), *seccomp._where(libc.PR_SET_SECCOMP, [seccomp._fail(errno.EINVAL)]),
        seccomp._op(seccomp.RETURN, seccomp.ALLOW),
    ])
libc.prctl(libc.PR_SET_NO_NEW_PRIVS, 1)
seccomp.install(b"".join([*code, seccomp._op(seccomp.RETURN, seccomp.ALLOW)]))
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


def run_lacking(folder: Path, lacking: str, *options: str) -> tuple[int, str, dict[str, Any]]:
    if not (folder / "problem").exists():
        write_problem(folder / "problem")
        (folder / "submission.py").write_text(RIGHT)
    command = ["-c", LACKS, lacking, str(ROOT / "eval.py"), "test", "problem", "--device", "gfx942"]
    command += ["--cases", "0", "--json", "out.json", "--strict", *options]
    done = start(*command, cwd=folder, triton="installed", stdout=subprocess.PIPE)
    shown, _ = done.communicate(timeout=ENDS_S)
    return done.wait(), shown, json.loads((folder / "out.json").read_text())


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ("landlock", ["no Landlock"]),
        ("namespaces", ["no namespaces"]),
        ("seccomp", ["no seccomp"]),
        ("landlock,namespaces,seccomp", ["no Landlock", "no namespaces", "no seccomp"]),
    ],
)
def test_what_a_machine_lacks_is_said_once_and_is_a_doubt(tmp_path: Path, lacking: str, said: list[str]) -> None:
    code, shown, result = run_lacking(tmp_path, lacking)
    assert (code, result["verdict"], statuses(result)) == (3, "pass", ["pass"]), shown
    told = " ".join(result["unconfined"])
    assert all(text in told for text in said) and shown.count("not wholly confined") == 1
    if "," in lacking:
        assert run_lacking(tmp_path, lacking, "--trust")[0] == 0


# Of a file of its user's that it may read: all that its owner may change though nobody lets him write to it.
MARKS_IT = """
import ctypes, fcntl, os
FILE = {file!r}
for act in (
    lambda: os.chmod(FILE, 0o4777),
    lambda: os.chmod(os.open(FILE, os.O_RDONLY), 0o700),
    lambda: os.utime(FILE, (1, 1)),
    lambda: os.setxattr(FILE, "user.planted", b"1"),
    lambda: os.setxattr(os.open(FILE, os.O_RDONLY), "user.planted", b"1"),
    lambda: fcntl.ioctl(os.open(FILE, os.O_RDONLY), 0x40086602, ctypes.c_int(0x80)),
):
    try:
        act()
    except OSError:
        pass
"""


@pytest.mark.parametrize("lacking", ["namespaces", "nothing"])
def test_no_file_of_its_users_is_marked(tmp_path: Path, lacking: str) -> None:
    """Where no file system of its own is read-only, and where one is."""
    marked = ROOT / "forge" / "judge" / "__init__.py"

    def state() -> list[object]:
        told, flags = marked.stat(), bytearray(8)
        with marked.open() as file, contextlib.suppress(OSError):
            fcntl.ioctl(file, 0x80086601, flags)
        return [told.st_mode, told.st_uid, told.st_mtime_ns, told.st_ctime_ns, os.listxattr(marked), bytes(flags)]

    before = state()
    write_problem(tmp_path / "problem")
    (tmp_path / "submission.py").write_text(MARKS_IT.format(file=str(marked)) + RIGHT)
    try:
        code, shown, result = run_lacking(tmp_path, lacking, "--trust")
        assert (code, statuses(result)) == (0, ["pass"]), shown
        assert state() == before
    finally:
        if marked.stat().st_mode != before[0]:
            marked.chmod(0o644)


def test_what_lasts_in_shared_memory_is_said(tmp_path: Path) -> None:
    """Of a superuser's submissions, which have users of their own, nothing does, whoever may look into a folder."""
    name = f"planted-{os.getpid()}"
    write_problem(tmp_path / "problem")
    plants = f"import os\nos.mkdir('/dev/shm/{name}', 0)\nopen('/dev/shm/{name}.file', 'w').write('1')\n"
    (tmp_path / "submission.py").write_text(plants + RIGHT)
    try:
        _, shown, result = run_lacking(tmp_path, "namespaces")
        assert statuses(result) == ["pass"], shown
        said = "what it leaves in /dev/shm lasts" in result["unconfined"]
        assert [Path(f"/dev/shm/{name}{end}").exists() for end in ("", ".file")] == [said, said]
        assert said or os.getuid() == 0
    finally:
        for end in ("", ".file"):
            remove_tree(Path(f"/dev/shm/{name}{end}"))


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's submissions have no user of their own")
def test_what_a_neighbouring_run_has_in_shared_memory_stays(tmp_path: Path) -> None:
    files = {tmp_path / name: Path(f"/dev/shm/{name}-{os.getpid()}") for name in ("ended", "neighbour")}
    try:
        for root, file in files.items():
            root.mkdir()
            if not (child := os.fork()):
                become_nobody(user_of_run(str(root)), [], [], [])
                os.mkfifo(file)
                os._exit(0)
            os.waitpid(child, 0)
            assert file.exists()
        remove_run(tmp_path / "ended")
        assert [file.exists() for file in files.values()] == [False, True]
    finally:
        for file in files.values():
            file.unlink(missing_ok=True)


def test_a_machine_that_gives_all_leaves_no_doubt(tmp_path: Path) -> None:
    _, shown, result = run_lacking(tmp_path, "nothing")
    if result["unconfined"]:
        pytest.skip(f"this machine does not: {result['unconfined']}")
    assert "confined" not in shown


@pytest.mark.parametrize("name", ["wrote", "of"])
def test_an_accounting_that_fails_fails_no_call_and_is_a_doubt(tmp_path: Path, name: str) -> None:
    """Of what an operation does, or of the output."""
    source = f"from cdna.memory import written\nwritten.{name} = lambda *a: 1 / 0\n{RIGHT}"
    done, result = judge(tmp_path, source, "test", "--cases", "0", "--strict")
    assert "who wrote its output cannot be told: ZeroDivisionError: division by zero" in result["cases"][0]["buts"]
    assert done.returncode == EXIT_BUT


# Names another thread as CUDA does; prints whether it may, and what is missing.
NAMES = """
import sys, tempfile, threading
from forge.judge.confinement import Bounds, confine

missing = confine(sys.argv[1], tempfile.mkdtemp(), Bounds(gpu=len(sys.argv) > 2), False)
other = threading.Thread(target=threading.Event().wait, daemon=True)
other.start()
try:
    open(f"/proc/self/task/{other.native_id}/comm", "w").write("named")
    print("named", missing)
except PermissionError:
    print("refused", missing)
"""


@pytest.mark.skipif(not landlock.there(), reason="the kernel has no Landlock")
def test_a_gpus_driver_may_name_its_threads() -> None:
    told = [
        subprocess.run([sys.executable, "-c", NAMES, str(ROOT), *gpu], cwd=ROOT, capture_output=True, text=True)
        for gpu in (["gpu"], [])
    ]
    assert told[0].stdout.startswith("named") and "what /proc shows" in told[0].stdout, told[0].stderr
    assert told[1].stdout.startswith("refused") and "what /proc shows" not in told[1].stdout, told[1].stderr
