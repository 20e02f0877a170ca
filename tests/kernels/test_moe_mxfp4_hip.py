"""The HIP variant of amd-moe-mxfp4, executed instruction by instruction, against float64 experts."""

import random
from pathlib import Path
from typing import Any

import torch

from kernels.moe_mxfp4 import hip_gfx950_tuning
from tests.support.checks import random_seeds, random_size
from tests.support.gfx950_tests import check, check_order
from tests.support.hip_calls import answers, assert_refused, sent
from tests.support.moe_mxfp4_cases import REFUSED, MoeCase, routed
from tests.support.moe_mxfp4_tests import *  # noqa: F403
from tests.support.moe_mxfp4_tests import small  # noqa: F401
from tests.support.reference_folders import relative_error
from tests.support.table_rows import different_rows
from tests.support.variant_tests import test_checks_find_nothing, test_no_kernel_spills  # noqa: F401

PROBLEM, VARIANT, ARCH = "amd-moe-mxfp4", "hip", "gfx950"
SPILLS_NOT = "", 20  # any of its kernels
ROWS = different_rows(hip_gfx950_tuning)
SMALL = None


def row(block_m: int, down_tiles: int = 1) -> dict[str, Any]:
    return {"BLOCK_M": block_m, "TURN_ROWS": 0, "DOWN_TILES": down_tiles}


def by_columns(block_m: int, turn_rows: int) -> dict[str, Any]:
    return {"BLOCK_M": block_m, "TURN_ROWS": turn_rows, "DOWN_TILES": 0}


def test_most_experts_have_no_token(run: Any) -> None:
    check(run, (MoeCase(routed(4, 130, 9), 130), None))


def test_rows_of_the_table(run: Any) -> None:
    """With a row more than a block or a turn has for the shared expert."""
    check(run, *((MoeCase(routed(max(row["BLOCK_M"], row["TURN_ROWS"]) + 1, 4, 2), 4), row) for row in ROWS))


def test_widths(run: Any) -> None:
    """512 columns and more take other stages; the padding of the weights takes no part."""
    check(
        run,
        (MoeCase(routed(5, 4, 2), 4, 512, 256, pad=(512, 256)), None),
        (MoeCase(routed(20, 4, 2), 4, 480, 992, pad=(512, 1024)), None),
        (MoeCase(routed(20, 4, 2), 4, 512, 768, pad=(512, 768)), row(64)),
        (MoeCase(routed(20, 4, 2), 4, 512, 768, pad=(512, 768)), row(32)),
        (MoeCase(routed(140, 3, 2), 3, 512, 768, pad=(512, 768)), row(128, 2)),
    )


def test_heights_of_high_blocks(run: Any) -> None:
    """Tiles of gate and up, 4 a block of 512 columns of `inner`: cut into halves, whole, and both."""
    high = [128, 129, 144, 145, 257]  # pairs of an expert: one block, two, and those that two of 128 cannot hold
    many = [[0, 1 if token < 80 else 2 + token % 38] for token in range(140)]  # 160 tiles: whole
    more = [[69, 68 if token < 70 else token % 68] for token in range(140)]  # 280: the last 24 in halves
    cases = (
        *((MoeCase([[0]] * pairs, 1), row(144)) for pairs in high),
        *((MoeCase(ids, experts, 256, 512, pad=(256, 512)), row(block_m))
          for ids, experts in ((many, 40), (more, 70)) for block_m in (128, 144)),
    )  # fmt: skip
    check(run, *cases)


def test_tiles_of_down(run: Any) -> None:
    """The last workgroup of a block has fewer; a stage of activations, two that stay in registers, and more."""
    inners = {16: 256, 32: 512, 64: 768, 128: 512}
    check(
        run,
        *((MoeCase(routed(block_m + 3, 4, 3), 4, 736, inner - 32, pad=(768, inner)), row(block_m, 2))
          for block_m, inner in inners.items()),
        (MoeCase(routed(70, 3, 2), 3, 512, 256, pad=(512, 256)), row(64, 2)),
    )  # fmt: skip


def test_columns_of_down(run: Any) -> None:
    """Turns of each height, more than a wave reads at once; waves that share sums; a token with an expert twice."""
    many = MoeCase([[token % 60, 60 + token % 40, 100] for token in range(35)], 101)
    check(
        run,
        *((MoeCase(routed(150, 4, 3), 4, 224, inner - 32, pad=(256, inner)), by_columns(block_m, turn_rows))
          for inner in (256, 512) for block_m, turn_rows in ((16, 16), (128, 32), (32, 48), (64, 144))),
        *((MoeCase(routed(tokens, 3, 2), 3, 64, 64), by_columns(32, turn_rows))
          for tokens, turn_rows in ((129, 16), (300, 48), (520, 144), (1024, 32))),
        (MoeCase([[1, 1, token % 3] for token in range(300)], 3, 32), by_columns(16, 48)),
        (many, by_columns(16, 16)),
        (MoeCase([[expert] for expert in range(530)], 530, 32, 32), by_columns(16, 16)),
    )  # fmt: skip


def test_pairs_beyond_those_in_registers(run: Any) -> None:
    """A thread that counts has five in registers, a lane that places three: here are more, an odd number."""
    check(run, (MoeCase(routed(579, 40, 9), 40, 64, 64), row(144)))


def test_experts_of_the_wave_that_places(run: Any) -> None:
    """From the 961st on: the last wave says where their rows are, and places pairs."""
    check(run, (MoeCase([[expert, expert + 485] for expert in range(485)], 970, 32, 32), by_columns(16, 16)))


def test_which_way_down_goes(run: Any) -> None:
    """By tiles where there are too many tokens or columns of `inner` for sums in LDS."""
    check(run, *((MoeCase([[token % 2] for token in range(tokens)], 2, 64), None) for tokens in (512, 513)))


def test_many_rows_outside_the_table(run: Any) -> None:
    """High blocks, unless there is no room in LDS for all scales of activations."""
    check(run, *((MoeCase([[0]] * 70, 1, hidden, 256, pad=(hidden, 256)), None) for hidden in (256, 8448)))


def random_case(seed: int) -> tuple[MoeCase, dict[str, Any]]:
    """Up to 150 tokens and 40 experts; experts without tokens, all tokens to one, any padded width."""
    draw = random.Random(seed)
    tokens, experts = random_size(draw, 150), random_size(draw, 40)
    each = random_size(draw, min(experts, 9))
    ids = routed(tokens, experts, each)
    if seed % 4 == 0:
        ids = [[draw.randrange(experts)] * each] * tokens
    elif seed % 4 == 1:  # skewed: the first few experts, some of them twice
        ids = [[int(experts * draw.random() ** 3) for _ in range(each)] for _ in range(tokens)]
    pad = draw.choice([(256, 256), (512, 256), (256, 512), (512, 512)])
    hidden, inner = (width - 32 * draw.randrange(width // 32) for width in pad)
    case, block_m = MoeCase(ids, experts, hidden, inner, pad), draw.choice([16, 32, 64, 128, 144])
    if block_m < 144 and draw.choice([False, True]):
        return case, by_columns(block_m, draw.choice([16, 32, 48, 144]))
    return case, row(block_m, draw.choice([1, 2]))


def test_random_shapes(run: Any) -> None:
    seeds = list(random_seeds(6))
    for some in (seeds[at : at + 20] for at in range(0, len(seeds), 20)):  # a file of all would be gigabytes
        check(run, *(random_case(seed) for seed in some))


def test_nan_in_a_weights_scale_reaches_its_tokens_alone(run: Any) -> None:
    case = MoeCase([[0, 2], [1, 2], [0, 1]], 3)
    case.down[1][1, 7, 3] = 255
    (out,) = run((case, None))
    wanted = torch.zeros(out.shape, dtype=torch.bool)
    wanted[1:, 7] = True
    assert torch.equal(out.isnan(), wanted)


def test_nan_and_infinity_in_hidden_states(run: Any) -> None:
    """As in the reference: a NaN's code is zero, an infinity's the largest, of a block of 2^126."""
    case = MoeCase([[0, 1]] * 2, 2)
    for _, scales in (case.gate_up, case.down):
        scales -= 60  # products stay within fp32, but that of gate and up, whose infinity is quantised likewise
    case.hidden[0, 40:42] = torch.tensor([float("nan"), -3e38]).bfloat16()
    case.hidden[1, 70] = float("-inf")
    (out,) = run((case, None))
    for got, wanted in zip(out, case.wanted(), strict=True):
        assert wanted.isfinite().all() and relative_error(got, wanted) < case.ROUNDING


def test_the_order_of_workgroups_changes_nothing(run: Any) -> None:
    check_order(
        run,
        *((MoeCase(routed(20, 5, 3), 5), row) for row in ROWS),
        (MoeCase(routed(300, 5, 3), 5, 64), by_columns(128, 48)),  # waves that share sums
        (MoeCase([[0, 1 + token % 2] for token in range(140)], 3), row(144)),  # halves of a high block
        times=10,
    )


def test_input_that_does_not_fit_is_refused(submission: Path) -> None:
    data = sent(MoeCase([[0, 3], [1, 2]], 4).data())
    assert_refused(submission, data, REFUSED)
    (said,) = answers(submission, [(data, row(48))])
    assert said == "moe_mxfp4: blocks of 16, 32 or 64 rows, or up to 8192 columns 128 or 144, got 48"
    for refused, got in ((by_columns(16, 64), 64), (by_columns(144, 144), 144)):
        (said,) = answers(submission, [(data, refused)])
        assert said.startswith("moe_mxfp4: down by columns takes turns of 16, 32, 48 or 144 rows")
        assert said.endswith(f"got turns of {got}")


def test_more_experts_than_are_sorted_are_refused(submission: Path) -> None:
    """What the sorting workgroup has no room for."""
    data = list(sent(MoeCase([[0]], 1).data()))
    for part in range(5, 9):
        data[part] = data[part].repeat(1025, *[1] * (data[part].dim() - 1))
    (said,) = answers(submission, [(tuple(data), None)])
    assert said == "gate_up_weight_shuffled: at most 1024 experts, got 1025"
