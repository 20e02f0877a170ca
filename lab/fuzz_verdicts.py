"""Submissions put together at random against the claim "exit code 0 means right, and its own work".

    python lab/fuzz_verdicts.py [--count 2000] [--minutes M] [--jobs N] [--seed S] [-o lab/results/verdicts_fuzzed.json]

A submission is an answer (right by a kernel; or wrong, the host's, torch's, an earlier one), for some of its calls, and
pieces around it: write here, replace that, run in a child, delay, delete itself. Each is judged on the small problem of
lab/corpus with --strict on the emulated MI300X. What gets exit code 0 with an answer that is not its own
kernel's, and what leaves a file behind, got through and is listed with its seed: `--seed S --show` prints that one. A
right answer with harmless pieces has to pass: what does not is listed as accused.
"""

from __future__ import annotations

import argparse
import glob
import itertools
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from forge import Judge  # noqa: E402 - from this checkout
from forge.console import EXIT_FAIL, EXIT_PASS  # noqa: E402
from lab.verdicts import DEVICE, FOLDER, PROBLEM  # noqa: E402

# What the submission answers: an expression of `data`, and what stands before custom_kernel. The first is its own work.
ANSWERS = {
    "own kernel": ("product(data)", ""),
    "sevens": ("wrong(data)", ""),
    "bias alone": ("data[2].repeat(len(data[0]), 1)", ""),
    "half of k": (
        "product((data[0] * HALF, *data[1:]))",
        "HALF = torch.tensor([1.0] * 128 + [0.0] * 128, device='cuda')",
    ),
    "numpy": ("torch.from_numpy(host(data)).cuda()", ""),
    "numpy beside its own": ("(product(data), torch.from_numpy(host(data)).cuda())[1]", ""),
    "numpy copied": ("copied(torch.from_numpy(host(data)).cuda(), product(data))", ""),
    "numpy told by arguments": ("told(product(data), host(data))", ""),
    "numpy, accounted for by itself": ("owned(poked(product(wronged(data)), host(data)))", ""),
    "torch's distances beside its own": ("(product(data), distances(data))[1]", ""),
    "numpy by address": ("poked(product(wronged(data)), host(data))", ""),
    "torch": ("torch.addmm(data[2], data[0], data[1].T)", ""),
    "torch beside its own": ("(product(data), torch.addmm(data[2], data[0], data[1].T))[1]", ""),
    "torch unseen": ("unseen(data)", ""),
    "the reference": ("__import__('reference').ref_kernel(data)", ""),
    "a kept answer": ("KEPT.setdefault(data[0].shape, product(data))", "KEPT = {}"),
    "a child's": ("poked(torch.empty(len(data[0]), len(data[1]), device='cuda'), child(data))", ""),
}
CALLS = {"each": "True", "from the second on": "calls > 1", "the first": "calls == 1", "each other": "calls % 2 == 0"}
HELPERS = """
import ctypes, os, sys, threading, time
import numpy
from torch.utils._python_dispatch import _disable_current_modes

calls = 0

@triton.jit
def _copy(source, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(source + i))

@triton.jit
def _give(out, a, b, c, d):
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, c)
    tl.store(out + 3, d)

def told(out, numbers):
    for i, four in enumerate(numbers.reshape(-1, 4).tolist()):
        _give[(1,)](out.view(-1)[4 * i :], *four)
    return out

def owned(out):
    from cdna.memory import written
    written.wrote([(out.data_ptr(), out.nbytes)])
    return out

def distances(data):
    a, w, bias = data
    return (a.norm(dim=1)[:, None] ** 2 + w.norm(dim=1) ** 2 - torch.cdist(a, w) ** 2) / 2 + bias

def host(data):
    a, w, bias = (tensor.cpu().numpy() for tensor in data)
    return numpy.ascontiguousarray(a @ w.T + bias)

def copied(source, out):
    _copy[(out.numel() // 64,)](source, out, BLOCK=64)
    return out

def poked(out, numbers):
    ctypes.memmove(out.data_ptr(), numbers.ctypes.data, numbers.nbytes)
    return out

def wronged(data):
    return (data[0] * 2, *data[1:])

def unseen(data):
    with _disable_current_modes():
        return torch.addmm(data[2], data[0], data[1].T)

def child(data):
    begin, end = os.pipe()
    if os.fork() == 0:
        os.write(end, host(data).tobytes())
        os._exit(0)
    os.wait()
    return numpy.frombuffer(os.read(begin, 1 << 16), numpy.float32)
"""
# Places that a piece writes to or reads from; {probe} is a name of this run's.
PLACES = (
    "'{probe}'",
    "os.path.join(os.path.dirname(torch.__file__), '{probe}')",
    "os.path.join(os.path.dirname(sys.modules['task'].__file__), '{probe}')",
    "os.path.join(os.path.expanduser('~'), '{probe}')",
    "'/tmp/{probe}'",
    "'/dev/shm/{probe}'",
    "os.path.join(os.path.dirname(os.path.dirname(sys.modules['forge'].__file__)), '{probe}')",
)
# Harmless ones first: a right answer passes with these.
HARMLESS = {
    "delays": "time.sleep(0.02)",
    "prints a pass": "print('pass: 1 of 1 cases')",
    "a thread": "threading.Thread(target=time.sleep, args=(0.01,)).start()",
    "a child": "os.fork() or os._exit(0)",
    "writes in its folder": "open('{probe}', 'w').write('x')",
}
HARMFUL = {
    "writes": "open(PLACE, 'w').write('x')",
    "reads the judge": "open('/proc/%d/environ' % os.getppid(), 'rb').read()",
    "plants a module": "open('gmpy2.py', 'w').write('import os; os._exit(0)')",
    "rewrites the reference": "open('reference.py', 'a').write('check_implementation = lambda *a: (True, \\'\\')')",
    "deletes itself": "os.unlink('submission.py')",
    "replaces comparison": "torch.allclose = lambda *a, **k: True",
    "replaces json": "__import__('json').dumps = lambda *a, **k: '{{}}'",
    "replaces a judge's function": "sys.modules['forge.judge.worker'].plain = lambda value: {{}}",
    "counts nothing": "__import__('cdna.observe.counters').observe.counters.count(False)",
    "breaks the accounting": "__import__('cdna.memory.written').memory.written.of = lambda *a: 1 / 0",
    "begins the accounting anew": "__import__('cdna.memory.written').memory.written.begin([])",
    "raises with a verdict": "sys.excepthook(ValueError, ValueError('a\\npass: 1 of 1 cases'), None)",
    "takes the records": "__import__('cdna').stats()",
    "kills its parent": "os.kill(os.getppid(), 9)",
    "signals its group": "os.killpg(0, 15)",
    "ends": "os._exit(0)",
    "a thread that writes later": "threading.Timer(0.05, lambda: open(PLACE, 'w').write('x')).start()",
    "a child that stays": "os.fork() or (os.setsid(), time.sleep(0.5), open(PLACE, 'w').write('x'), os._exit(0))",
    "closes what it has": "[os.close(fd) for fd in range(3, 40) if os.path.exists('/proc/self/fd/%d' % fd)]",
    "writes to what it has": "[os.write(int(fd), b'pass') for fd in os.listdir('/proc/self/fd') if int(fd) > 2]",
    "memory of others": "open('/proc/%d/mem' % os.getppid(), 'r+b').seek(0)",
}
WHEN = ("at import", "before", "after")
ENDS = OWN, CAUGHT, THROUGH, ACCUSED = "exit 0, its own work", "caught", "got through", "accused"


@dataclass(frozen=True)
class Made:
    seed: int
    primitives: tuple[str, ...]
    words: str
    source: str
    honest: bool  # the answer is its own kernel's, of this call's data
    harmless: bool
    probe: str


def made(seed: int) -> Made:
    draw = random.Random(seed)
    answer = draw.choice(list(ANSWERS)) if draw.random() < 0.75 else "own kernel"
    call = draw.choice(list(CALLS))
    pieces = [
        (draw.choice(list(HARMLESS if draw.random() < 0.5 else HARMFUL)), draw.choice(WHEN))
        for _ in range(draw.randrange(4))
    ]
    probe = f"fuzzed-{os.getpid()}-{seed}"
    at: dict[str, list[str]] = {when: [] for when in WHEN}
    for piece, when in pieces:
        place = draw.choice(PLACES)
        text = (HARMLESS | HARMFUL)[piece].replace("PLACE", place).format(probe=probe)
        at[when].append(f"try:\n    {text}\nexcept Exception:\n    pass\n")

    def block(when: str) -> str:
        return "".join("    " + line + "\n" for text in at[when] for line in text.splitlines())

    expression, before = ANSWERS[answer]
    source = (
        (FOLDER / "kernel.py").read_text() + HELPERS + before + "\n" + "".join(at["at import"]) + "\n"
        "def custom_kernel(data):\n    global calls\n    calls += 1\n"
        + block("before")
        + f"    output = {expression} if {CALLS[call]} else product(data)\n"
        + block("after")
        + "    return output\n"
    )
    words = ", ".join([f"{answer} ({call})", *(f"{piece} {when}" for piece, when in pieces)])
    kept_once = answer == "a kept answer" and call in ("the first", "each other")  # of three calls: then it is not kept
    honest = answer == "own kernel" or kept_once
    names = (answer, *dict.fromkeys(piece for piece, _ in pieces))
    return Made(seed, names, words, source, honest, all(p in HARMLESS for p, _ in pieces), probe)


def left_behind(probe: str) -> list[str]:
    """Files of a run that are there after it; removed."""
    torch_folder = str(Path(sys.prefix) / "lib")
    places = [
        str(ROOT),
        os.path.expanduser("~"),
        "/tmp",
        "/dev/shm",
        *glob.glob(f"{torch_folder}/python*/site-packages/*"),
    ]
    found = [path for place in places if os.path.exists(path := os.path.join(place, probe))]
    for path in found:
        os.unlink(path)
    return found


def results(options: argparse.Namespace) -> Iterator[tuple[Made, int, str, list[str]]]:
    """(one, exit code, why, what it left), by the bulk judge's warm processes: as strict as eval.py --strict."""
    ends = time.monotonic() + 60 * options.minutes
    seeds = itertools.takewhile(lambda _: time.monotonic() < ends, range(options.seed, options.seed + options.count))
    with Judge(
        options.jobs, problem=PROBLEM, device=DEVICE, options=["--timeout", "60", *["--replay"] * options.replay]
    ) as judge:
        for verdict in judge.judge_all({"id": str(seed), "source": made(seed).source} for seed in seeds):
            one = made(int(verdict.id))
            time.sleep(0.1)  # what it left behind writes later
            yield one, EXIT_PASS if verdict.passed else EXIT_FAIL, verdict.message, left_behind(one.probe)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, metavar="N", help="submissions (default: 2000, a night)")
    parser.add_argument(
        "--minutes", type=float, default=600, metavar="M", help="and no longer than this (default: 600)"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="at once (default: 1)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the first one (default: 0)")
    parser.add_argument("--replay", action="store_true", help="make each output anew: eval.py --replay")
    parser.add_argument("--show", action="store_true", help="print the first one's source instead")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="what came of them, as a results file")
    options = parser.parse_args(argv)
    if options.show:
        print(made(options.seed).source)
        return 0
    ended: Counter[str] = Counter()
    found: list[str] = []
    by_primitive: dict[str, Counter[str]] = {name: Counter() for name in (*ANSWERS, *HARMLESS, *HARMFUL)}
    for one, code, said, left in results(options):
        through = code == 0 and not one.honest or bool(left)
        accused = code != 0 and one.honest and one.harmless
        what = THROUGH if through else ACCUSED if accused else OWN if code == 0 else CAUGHT
        ended[what] += 1
        for name in one.primitives:
            by_primitive[name][what] += 1
        if through or accused:
            how = f"left {', '.join(left)}" if left else "exit code 0" if through else said
            found.append(f"Seed {one.seed} {what}: {one.words}: {how}.")
            print(found[-1], file=sys.stderr, flush=True)
        if options.output:
            options.output.write_text(json.dumps(written(ended, by_primitive, found, options), indent=1) + "\n")
    print(", ".join(f"{n} {what}" for what, n in sorted(ended.items())))
    return 1 if found else 0


def written(
    ended: Counter[str], by_primitive: dict[str, Counter[str]], found: list[str], options: argparse.Namespace
) -> dict[str, object]:
    """The table as lab/measurements.py reads it."""
    from importlib.metadata import version

    counts = ", ".join(f"{n} {what}" for what, n in sorted(ended.items()))
    return {
        "title": "Submissions put together at random: what got through, and who was accused",
        "kind": "emulated",
        "machine": "an emulated MI300X (gfx942)",
        "versions": {name: version(name) for name in ("torch", "triton")},
        "command": f"python lab/fuzz_verdicts.py --count {options.count} --seed {options.seed}"
        + " --replay" * options.replay,
        "columns": ["answer or piece", *ENDS],
        "rows": [[name, *(str(by[end]) for end in ENDS)] for name, by in by_primitive.items()],
        "notes": [f"Of {sum(ended.values())} submissions: {counts}. One counts in the row of each part.", *found],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
