"""Submissions put together at random: each is a program, the same one for its seed, and known for what it is."""

from __future__ import annotations

from lab.fuzz_verdicts import ANSWERS, made


def test_a_seed_makes_one_program() -> None:
    all_made = [made(seed) for seed in range(400)]
    for one in all_made:
        compile(one.source, "submission.py", "exec")
        assert one == made(one.seed)
    answers = {one.words.partition(" (")[0] for one in all_made}
    assert answers == set(ANSWERS)
    assert {(one.honest, one.harmless) for one in all_made} == {(a, b) for a in (True, False) for b in (True, False)}
