"""A verdict in steps: what each says, what it is known from, and that deceit is not paid."""

from pathlib import Path

import pytest
import torch

import forge
import forge.bulk.verdict
from forge.bulk.reward import Reward, Step
from forge.commands.outcome import Outcome
from forge.judge.compare import accuracy_of
from lab.verdicts import PROBLEM, corpus

pytestmark = pytest.mark.long
HEAD = (PROBLEM.parent / "kernel.py").read_text()
PLAIN = HEAD + "custom_kernel = product\n"
TWICE = HEAD + "def custom_kernel(data):\n    product(data)\n    return product(data)\n"
PART = HEAD + "def custom_kernel(data):\n    out = product(data)\n    out[4:] += 1000\n    return out\n"
TOO_LARGE = """\
import torch, triton, triton.language as tl
@triton.jit
def big(a, out, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(a + at)
    tl.store(out + at, tl.dot(x, x))
def custom_kernel(data):
    a = torch.zeros(256, 256, device="cuda")
    big[(1,)](a, torch.empty_like(a), 256)
    return a
"""


def values(verdict: forge.Verdict) -> dict[str, float | None]:
    assert verdict.reward is not None
    return {
        name: step.value for name in Reward.__struct_fields__ if isinstance(step := getattr(verdict.reward, name), Step)
    }


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, forge.Verdict]:
    sources = {"plain": PLAIN, "twice": TWICE, "part": PART, "too large": TOO_LARGE, "no Python": "def"}
    asked = [{"id": name, "source": source, "mode": "benchmark"} for name, source in sources.items()]
    bias = next(entry.source for entry in corpus() if entry.name == "bias_only")
    asked += [{"id": "bias", "source": bias}, {"id": "tested", "source": PLAIN}]
    baseline = tmp_path_factory.mktemp("reward") / "plain.py"
    baseline.write_text(PLAIN)
    options = ["--trust", "--checks", "all"]
    with forge.Judge(2, problem=PROBLEM, device="gfx942", options=options, baseline=baseline) as judge:
        told = {verdict.id: verdict for verdict in judge.judge_all(asked)}
    return {name: forge.read_verdict(forge.bulk.verdict.to_line(verdict)) for name, verdict in told.items()}


def test_a_pass_has_all_steps_and_its_time_beside_the_baseline(verdicts: dict[str, forge.Verdict]) -> None:
    plain, twice = values(verdicts["plain"]), values(verdicts["twice"])
    assert {plain[name] for name in ("compiled", "launched", "fits", "right_share")} == {1}
    assert plain["findings"] == plain["doubts"] == 0
    assert plain["speedup"] == pytest.approx(1, rel=0.05) and 0 < (plain["of_light"] or 0) < 1
    assert twice["speedup"] is not None and 0.4 < twice["speedup"] < 0.9  # it does the work twice
    reward = verdicts["plain"].reward
    assert reward is not None and reward.baseline.endswith("plain.py")
    assert (reward.speedup.kind, reward.right_share.kind, reward.fits.kind) == ("modelled", "judged", "static")


def test_what_was_not_looked_at_is_none(verdicts: dict[str, forge.Verdict]) -> None:
    tested = values(verdicts["tested"])
    assert tested["speedup"] is None and tested["of_light"] is None and tested["right_share"] == 1
    assert verdicts["no Python"].reward is None and verdicts["no Python"].total_reward == 0


def test_what_is_partly_right_gets_a_part(verdicts: dict[str, forge.Verdict]) -> None:
    part = values(verdicts["part"])
    assert part["right_share"] == pytest.approx(0.25) and part["speedup"] is None
    assert values(verdicts["too large"])["fits"] == 0
    order = [verdicts[name].total_reward for name in ("too large", "part", "tested")]
    assert 0 < order[0] < order[1] < order[2] == 1


def test_a_doubtful_pass_gets_no_more_than_what_it_ran(verdicts: dict[str, forge.Verdict]) -> None:
    bias = verdicts["bias"]
    assert bias.status == "doubtful" and values(bias)["right_share"] == 1 and (values(bias)["doubts"] or 0) > 0
    assert bias.total_reward < verdicts["part"].total_reward


@pytest.mark.parametrize("status", ["tampered", "invalid", "machine_error", "crashed", "doubtful", "timeout"])
def test_no_speed_is_paid_without_a_pass(status: Outcome) -> None:
    best = Step(1.0, "judged")
    full = Reward(
        compiled=best, launched=best, fits=best, right_share=best, findings=Step(0.0, "judged"),
        doubts=Step(0.0, "judged"), of_light=best, speedup=Step(100.0, "modelled"),
    )  # fmt: skip
    assert full.total(status) <= 0.1 and full.total("passed") == 5


@pytest.mark.parametrize(("change", "share"), [(lambda x: x, 1), (lambda x: x * 1.01, 1), (torch.zeros_like, 0)])
def test_the_share_of_right_elements(change: object, share: int) -> None:
    wanted = torch.arange(1, 4097, dtype=torch.float32).reshape(64, 64) + 4096
    assert callable(change) and accuracy_of(change(wanted), wanted, "reference").right_share == share
    half = wanted.clone()
    half[:, ::2] = float("nan")
    assert accuracy_of((half, wanted), (wanted, wanted), "reference").right_share == 0.75


def test_a_baseline_that_is_not_there_is_the_requests_fault(tmp_path: Path) -> None:
    with forge.Judge(problem=PROBLEM, device="gfx942", mode="benchmark", baseline="nobody") as judge:
        with pytest.raises(forge.BadRequest, match="nobody"):
            judge.judge(PLAIN)
