"""The official evaluators' rules, as pure functions of their rows."""

import math

import pytest
from msgspec import to_builtins

from forge.judge.results import LEADERBOARD_KEYS
from forge.judge.timing import should_stop, summarize
from forge.task.cases import CaseError, choose, false_words, mix_seed, parse_case_file, parse_spec, spec_of
from forge.task.harness import EVAL_DIGESTS, HARNESSES, Repeats, default_harness, harness_of_eval
from forge.task.score import geometric_mean, rank_score


@pytest.mark.parametrize(
    ("harness", "spec", "args"),
    [
        ("amd", "m: 64; n: -8; name: abc", {"m": 64, "n": -8, "name": "abc"}),
        ("amd", " m: 64 ;n: +8", {"m": 64, "n": 8}),
        ("amd_distributed", "world_size: 8; has_bias: False", {"world_size": 8, "has_bias": "False"}),
        ("amd_202602", "k2: 1; _a: b_3", {"k2": 1, "_a": "b_3"}),
        ("amd_202602", "a: true; b: false; c: True", {"a": True, "b": False, "c": "True"}),
        ("amd", "a: true", {"a": "true"}),
    ],
)
def test_spec_lines_parse_as_each_harness_parses_them(harness, spec, args):
    assert parse_spec(spec, HARNESSES[harness]) == args


@pytest.mark.parametrize(
    ("harness", "spec"),
    [
        ("amd", "world_size: 8"),  # no underscore
        ("amd_distributed", "k2: 8"),  # no digit
        ("amd_distributed", "word: a_b"),
        ("amd_202602", "2k: 8"),
        ("amd", "m: 1.5"),
        ("amd", "m: [1, 2]"),
        ("amd", "m = 4"),
        ("amd", "m: 4;"),
        ("amd", ""),
    ],
)
def test_spec_lines_that_a_harness_refuses(harness, spec):
    with pytest.raises(CaseError, match="invalid case"):
        parse_spec(spec, HARNESSES[harness])


def test_false_becomes_a_true_word_unless_asked_otherwise():
    row = HARNESSES["amd_distributed"]
    line = spec_of({"has_bias": False, "m": 1})
    assert line == "has_bias: False; m: 1"
    cases = parse_case_file(line, row, None)
    assert bool(cases[0].args["has_bias"]) is True
    assert false_words(cases) == ["has_bias"]
    honest = parse_case_file(line, row, None, honest_bools=True)
    assert honest[0].args["has_bias"] is False
    assert false_words(honest) == []


def test_the_secret_seed_is_paired_with_each_cases_own():
    assert mix_seed(3, 5) == 3 + 8 * 9 // 2
    pairs = {mix_seed(a, b) for a in range(40) for b in range(40)}
    assert len(pairs) == 1600  # Cantor's pairing collides nowhere
    text = "m: 1; seed: 3\nm: 2"
    assert [c.args for c in parse_case_file(text, HARNESSES["amd"], 5)] == [{"m": 1, "seed": 39}, {"m": 2}]
    assert parse_case_file(text, HARNESSES["amd_mla_decode"], 5)[0].args["seed"] == 3
    assert parse_case_file(text, HARNESSES["amd"], None)[0].args["seed"] == 3


def test_statistics_are_the_sample_ones():
    stats = summarize([10.0, 20.0, 60.0])
    assert (stats.runs, stats.mean_ns, stats.best_ns, stats.worst_ns) == (3, 30.0, 10.0, 60.0)
    assert stats.std_ns == pytest.approx(math.sqrt(700.0))
    assert stats.err_ns == pytest.approx(math.sqrt(700.0 / 3))
    assert (stats.mean_us, stats.median_us) == (0.03, 0.02)
    values = to_builtins(stats)
    assert tuple(values) == (*LEADERBOARD_KEYS, "median") and values["mean"] == 30.0


@pytest.mark.parametrize(
    ("durations", "wall_s", "repeats", "stops"),
    [
        ([100.0, 100.0], 0, Repeats(100, 10), False),  # never before the third run
        ([100.0, 100.0, 100.0], 0, Repeats(100, 10), True),  # no error at all
        ([100.0, 101.0, 102.0], 0, Repeats(100, 10), False),  # 0.57 %
        ([1e9, 2e9, 3e9], 0, Repeats(100, 5), True),  # 6 s of at most 5 s
        ([1e9, 2e9, 3e9], 0, Repeats(100, 6), False),  # exactly 6 s is not more than 6 s
        ([1.0, 2.0, 3.0], 121, Repeats(100, 10), True),  # two minutes by the clock
        ([1.0, 2.0, 3.0], 119, Repeats(100, 10), False),
        ([1.0, 2.0, 3.0], 0, Repeats(3, 10), True),  # the upper bound
    ],
)
def test_stop_rule(durations, wall_s, repeats, stops):
    assert should_stop(durations, wall_s, HARNESSES["amd"], repeats) is stops


def test_one_harness_is_content_with_one_percent_and_has_no_wall_limit():
    durations = [100.0, 101.0, 102.0]
    assert should_stop(durations, 0, HARNESSES["amd_mla_decode"], Repeats(100, 10))
    assert not should_stop([1.0, 2.0, 3.0], 1000, HARNESSES["amd_mla_decode"], Repeats(100, 10))


def test_score_is_the_geometric_mean_of_means():
    assert geometric_mean([1.0, 100.0]) == pytest.approx(10.0)
    assert [rank_score([1.0, 100.0], how) for how in ("geom", "mean", "last")] == pytest.approx([10.0, 50.5, 100.0])
    with pytest.raises(ValueError):
        geometric_mean([1.0, 0.0])


def test_the_rows_state_the_known_differences():
    amd, distributed, february = (HARNESSES[n] for n in ("amd", "amd_distributed", "amd_202602"))
    assert [row.clock for row in (amd, distributed, february)] == ["host", "events", "events"]
    assert [row.l2_flush_bytes for row in (amd, distributed)] == [0, 256 * 2**20]
    assert february.l2_flush_bytes == 62.5 * 2**30
    assert (amd.benchmark, february.benchmark) == (Repeats(100, 10), Repeats(1000, 50))
    assert {row.seed_step for row in (amd, distributed, february)} == {13}
    assert default_harness(8) is distributed and default_harness(1) is february


def test_an_eval_file_is_recognised_whatever_its_white_space(tmp_path, monkeypatch):
    path = tmp_path / "eval.py"
    path.write_text("import  os\n\n\nprint( 1 )\n")
    assert harness_of_eval(path) is None
    import hashlib

    digest = hashlib.sha256(b"importosprint(1)").hexdigest()
    monkeypatch.setitem(EVAL_DIGESTS, digest, HARNESSES["amd"])
    assert harness_of_eval(path) is HARNESSES["amd"]
    path.write_text("import os\nprint(2)\n")
    assert harness_of_eval(path) is None


@pytest.mark.parametrize(
    ("choice", "indices"), [("all", [0, 1, 2, 3, 4, 5]), ("0,3-5", [0, 3, 4, 5]), ("2", [2]), ("4,4,1", [4, 1])]
)
def test_choice_of_cases(choice, indices):
    assert choose(choice, 6, "test") == indices


@pytest.mark.parametrize("choice", ["6", "0-6", "a", "", "3-1", "-1", "1,,2"])
def test_choice_of_cases_that_do_not_exist(choice):
    with pytest.raises(CaseError, match="--cases"):
        choose(choice, 6, "test")
