"""What referees keep of official cases: found again, never where it was changed, bounded, out of submissions' reach."""

import copy
import json
import os
import stat
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from forge.judge import compare, kept_cases
from forge.judge.confinement import Bounds
from forge.judge.exchange import INPUTS, Malformed, Region, read_outcome, write_outcome
from forge.judge.kept_cases import HEAD, KeptCases, place_for
from forge.judge.memory import make_memory
from forge.judge.referee import Referee
from forge.task.problem import ROOT
from tests.support.evaltools import EVAL, run_command, statuses

WORDS, NUMBERS = b"layout" * 100, bytes(range(256)) * 9000  # of some pieces


def read(cases: KeptCases, path: Path | None) -> tuple[bytes | None, bytes]:
    region = Region(make_memory(), INPUTS)
    words = cases.load(path, region.view)
    return words, bytes(region.view(len(NUMBERS))[: len(NUMBERS)])


@pytest.fixture
def kept(tmp_path: Path) -> tuple[KeptCases, Path]:
    cases = KeptCases(str(tmp_path / "cases"), "sources")
    path = cases.path_of("input", {"n": 5, "seed": 1}, None)
    assert path is not None
    cases.save(path, WORDS, memoryview(NUMBERS))
    return cases, path


def test_what_was_kept_is_found(kept: tuple[KeptCases, Path]) -> None:
    cases, path = kept
    assert read(cases, path) == (WORDS, NUMBERS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    names = {cases.path_of(*one) for one in (("input", {"n": 5, "seed": 2}), ("outcome", {"n": 5, "seed": 1}, None))}
    names.add(KeptCases(cases.place, "other sources").path_of("input", {"n": 5, "seed": 1}, None))
    assert len(names | {path}) == 4 and not any(one.exists() for one in names if one)


@pytest.mark.parametrize("place", [0, 20, HEAD.size + 3, HEAD.size + len(WORDS) + 1_500_000, -1])
def test_what_was_changed_is_made_anew(
    place: int, kept: tuple[KeptCases, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    cases, path = kept
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    assert read(cases, path)[0] is None and not path.exists()
    assert "is damaged: it is made anew" in capfd.readouterr().err


@pytest.mark.parametrize("size", [0, 10, HEAD.size + 100, len(NUMBERS)])
def test_what_was_cut_short_is_made_anew(size: int, kept: tuple[KeptCases, Path]) -> None:
    cases, path = kept
    os.truncate(path, size)
    assert read(cases, path)[0] is None and not path.exists()


def test_what_others_can_write_is_not_read(kept: tuple[KeptCases, Path], tmp_path: Path) -> None:
    cases, path = kept
    path.chmod(0o666)
    assert read(cases, path)[0] is None
    other = cases.path_of("input", "another")
    assert other is not None
    cases.save(other, WORDS, memoryview(NUMBERS))
    other.rename(tmp_path / "elsewhere")
    other.symlink_to(tmp_path / "elsewhere")
    assert read(cases, other)[0] is None
    (tmp_path / "elsewhere").rename(path)  # one case's numbers under another's name
    assert read(cases, path)[0] is None


def test_of_too_many_those_go_that_were_read_longest_ago(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_KEPT_GIB", str(5_000 / kept_cases.GIB))
    cases = KeptCases(str(tmp_path), "")
    paths = [path for n in range(8) if (path := cases.path_of(n))]
    for n, path in enumerate(paths):
        cases.save(path, bytes(900))
        os.utime(path, (n, n))
        cases.load(paths[0])  # the first is in use
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 5_000
    assert [path.exists() for path in paths] == [True, *[False] * 3, *[True] * 4]
    cases.save(large := cases.path_of("large"), bytes(3_000))  # would push out most of the others
    assert large is not None and not large.exists()
    monkeypatch.setenv("FORGE_KEPT_GIB", "0")
    assert place_for(Bounds()) == ""


def test_nothing_is_kept_where_a_submission_could_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_cases.landlock, "there", lambda: True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert place_for(Bounds()) == str(tmp_path.resolve() / "cache/cdna-forge/cases")
    for bounds in (Bounds(readable=[str(tmp_path)]), Bounds(writable=[str(tmp_path / "cache")])):
        assert place_for(bounds) == ""
    monkeypatch.setenv("XDG_CACHE_HOME", "/opt/cache")
    assert place_for(Bounds()) == ""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kept_cases.landlock, "there", lambda: False)
    assert place_for(Bounds()) == ""


def double(data: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    data[1][70_000:70_003] += 1
    return data[0] * 2, data[1].view(-1, 4)[:, 1], torch.empty(0)


def test_an_outcome_is_what_the_reference_did() -> None:
    """The input that it changed, and an output of which a part lies there."""
    data = [torch.randn(5, 3).to(torch.float8_e4m3fn), torch.arange(1 << 18, dtype=torch.int32)]
    data[0] = data[0].float().T
    changed, again = copy.deepcopy(data), copy.deepcopy(data)
    wanted = double(changed)
    words = write_outcome(data, changed, wanted)
    assert len(words) < 300_000  # of a million bytes, the piece that was changed
    got = read_outcome(words, again)
    assert all(torch.equal(one, other) for one, other in zip(again, changed))
    assert all(torch.equal(one, other) and one.stride() == other.stride() for one, other in zip(got, wanted))
    assert got[1].untyped_storage().data_ptr() == again[1].untyped_storage().data_ptr()
    with pytest.raises(Malformed):
        read_outcome(words, again[:1])


REFERENCES = {
    "by its name": "def ref(x, more=1):\n    return x + more\n",
    "within no_grad": "import torch\n@torch.no_grad()\ndef ref(x, *, more=1):\n    return x + more\n",
    "with a closure": "def make(more):\n    def ref(x):\n        return x + more\n    return ref\nref = make(1)\n",
}


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_is_noted_by_whatever_name_it_is_called(name: str) -> None:
    module: Any = ModuleType("reference")
    exec(REFERENCES[name], vars(module))
    module.ref_kernel = module.ref
    exec("def check(data):\n    return ref_kernel(data)\n", vars(module))
    referee: Any = Referee.__new__(Referee)
    referee.task, referee.compare = SimpleNamespace(ref_kernel=module.ref), compare
    theirs = module.ref  # as make_match_reference holds it
    referee.note_reference(module)
    data = torch.zeros(2)
    for call in (module.check, *([theirs] if name != "with a closure" else [])):
        referee.noted.wait_for(data)
        assert call(data).tolist() == [1, 1] and referee.noted.take().tolist() == [1, 1]
    referee.noted.wait_for(data, lambda x: (x + 5, 2.0))
    assert module.check(data).tolist() == [5, 5] and referee.noted.seconds == 2.0
    assert module.check(data).tolist() == [5, 5]  # the same input
    referee.noted.take()
    assert module.check(data).tolist() == [1, 1]


KEEPS = """
import sys
sys.path.insert(0, {root!r})
from forge.judge import kept_cases
kept_cases.KEEP_FROM_S = 0.0
from forge.commands.eval import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_second_run_judges_by_what_the_first_has_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    (tmp_path / "keeps.py").write_text(KEEPS.format(root=str(EVAL.parent)))

    def run(result: str) -> tuple[list[str], set[Path], dict[str, Any]]:
        place = str(cache / "cdna-forge" / "cases")
        (tmp_path / "submission.py").write_text(
            f"import os\nimport torch\ndef custom_kernel(data):\n    try:\n        os.listdir({place!r})\n"
            f"    except OSError:\n        pass\n    else:\n        raise SystemExit('it sees what is kept')\n"
            f"    gate, up = data[0].float().chunk(2, dim=-1)\n"
            f"    out = torch.nn.functional.silu(gate) * up * (1 / data[1])\n"
            f"    return {result}\n"
        )
        words = ["test", "swiglu-fp8", *"--device gfx942 --cases smoke --json out.json --no-history".split()]
        done = run_command(*words, cwd=tmp_path, script=tmp_path / "keeps.py")
        told = json.loads((tmp_path / "out.json").read_text())
        assert "it sees" not in done.stdout
        return statuses(told), set((cache / "cdna-forge").glob("cases/*")), told

    right = "out.clamp(-240, 240).to(torch.float8_e4m3fnuz)"
    first, files, told = run(right)
    if told["unconfined"] and not files:
        pytest.skip("a submission could read them here")
    assert set(first) == {"pass"} and len(files) == 2 * len(first)
    (tmp_path / "links").mkdir()
    for path in files:
        os.link(path, tmp_path / "links" / path.name)
    again, same, second = run(right)
    assert again == first and same == files
    assert all(path.samefile(tmp_path / "links" / path.name) for path in files)  # none was made anew
    assert [case["accuracy"] for case in second["cases"]] == [case["accuracy"] for case in told["cases"]]
    damaged = max(files, key=lambda path: path.stat().st_size)
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    wrong, _, _ = run(right.replace("240, 240", "240, 100"))
    assert set(wrong) == {"fail"} and damaged.read_bytes() == content


def test_references_and_inputs_depend_on_their_case_alone() -> None:
    """What is kept is named by the case: no reference of ours asks for the time, a file or the environment."""
    for file in [*(ROOT / "reference").glob("*/reference.py")]:
        assert not any(word in file.read_text() for word in ("import os", "import time", "open(", "import random")), (
            file
        )
