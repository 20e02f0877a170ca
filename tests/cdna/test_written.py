"""Who wrote an output's bytes, and what launches read: told from the memory that they access."""

import ctypes
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import cdna
from cdna.binary.image import ImageBuilder
from cdna.engine.library import engine
from cdna.launch.program import Program
from cdna.memory import written

N = 4096


@triton.jit
def copy(source, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(source + i, mask=i < n), mask=i < n)


@triton.jit
def add_one(out, BLOCK: tl.constexpr):
    tl.atomic_add(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), 1.0)


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    written.watch()
    with cdna.device("gfx942"):
        yield
    engine().lib.cdna_written_on(False)


def place(*tensors: torch.Tensor) -> list[tuple[int, int]]:
    return [(x.data_ptr(), x.nbytes) for x in tensors]


def launch(source: torch.Tensor, out: torch.Tensor, n: int = N) -> None:
    copy[(triton.cdiv(n, 256),)](source, out, n, BLOCK=256)


def host_writes(out: torch.Tensor, n_bytes: int) -> None:
    ctypes.memmove(out.data_ptr(), b"\x17" * n_bytes, n_bytes)


def test_what_launches_store_is_theirs_until_the_host_writes_past_them() -> None:
    x, out = torch.randn(N), torch.randn(N)
    written.begin(place(x))
    launch(x, out, N - 100)
    told = written.of(place(out))
    assert (told["now"], told["nobody"], told["read_nobody"]) == (4 * (N - 100), 400, 0)
    host_writes(out, 1000)
    assert written.of(place(out))["nobody"] == 400 + 1024  # whole cells of 64 bytes
    launch(x, out, 64)  # over a part of what the host has written
    assert written.of(place(out))["nobody"] == 400 + 1024 - 256
    written.begin(place(x))
    told = written.of(place(out))
    assert told["now"] == 0 and told["before"] == 4 * (N - 100) - 1024 + 256
    add_one[(N // 256,)](out, BLOCK=256)
    assert written.of(place(out))["now"] == 4 * N


def test_what_the_host_made_is_told_where_launches_and_operations_read_it() -> None:
    x, made, out = torch.randn(N), torch.randn(N), torch.empty(N)
    for call in range(3):
        written.begin(place(x))
        if call < 2:
            host_writes(made, 4 * N - 64 * call)  # other numbers in no call but the first
        launch(made, out)
        told = written.of(place(out))
        assert told["now"] == 4 * N
        assert (told["read_nobody"], told["read_before"]) == ((4 * N, 0) if call == 0 else (0, 4 * N))
    made.normal_()
    written.begin(place(x))
    written.read(place(made))
    written.wrote(place(out))
    told = written.of(place(out))
    assert told["read_nobody"] == told["now"] == 4 * N
    written.begin(place(x))
    launch(torch.zeros(N), out)  # zeros say nothing, and what an operation of this call has made is known
    written.wrote(place(made))
    launch(made, out)
    assert written.of(place(out))["read_nobody"] == 0


# Which says that it takes eight vector registers.
LIES = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
lies:
  v_mov_b32_e32 v{register}, 0
  s_endpgm
.amdhsa_kernel lies
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 8
  .amdhsa_accum_offset 8
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.kernels:
  - .args: []
    .kernarg_segment_size: 0
    .name: lies
    .symbol: lies.kd
    .vgpr_count: 8
    .sgpr_count: 8
...
.end_amdgpu_metadata
"""


@triton.jit
def give(out, value, MORE: tl.constexpr):
    tl.store(out, value + MORE)


def test_what_launches_are_told_past_memory_is_the_hosts() -> None:
    """By arguments, each word once, and by the constants of new code."""
    out = torch.empty(1)

    def told(*launches: tuple[float, float]) -> int:
        written.begin([])
        for value, more in launches:
            give[(1,)](out, value, more)
        return written.of(place(out))["told"]

    told((0.3, 0.7))
    once = told((0.3, 0.7))
    assert told((0.3, 0.7), (0.3, 0.7)) == once and told((0.3, 0.7), (0.4, 0.7), (0.5, 0.7)) == once + 8
    assert told((0.3, 0.7), (0.3, 0.9)) > once
    two = told((0.3, 0.7), (0.4, 0.7))
    assert told(*[(0.3, 0.7), (0.4, 0.7)] * 4) == two + 6  # which of the two it is says something each time


@triton.jit
def give_all(out, numbers):
    for i in tl.static_range(len(numbers)):
        tl.store(out + i, numbers[i])


def each(tell: Callable[..., None], told: Iterable[tuple[Any, ...]]) -> None:
    for one in told:
        tell(*one)


def test_which_of_few_words_comes_next_is_told() -> None:
    """In one launch, by which of two kernels is next, and of operations and copies beside launches."""
    out = torch.empty(64)

    def told(work: Callable[[], Any]) -> int:
        work()  # whose code is known then
        written.begin([])
        work()
        return written.of(place(out))["told"]

    few = [0.3 + i % 2 for i in range(64)]
    assert told(lambda: give_all[(1,)](out, tuple(few))) >= told(lambda: give_all[(1,)](out, tuple(few[:4]))) + 55
    by_chance = [0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 0, 1] * 2
    kernels = (lambda: give[(1,)](out, 0.3, 0.7)), (lambda: give[(1,)](out, 0.3, 0.9))
    by_turns = told(lambda: [kernels[i % 2]() for i in range(32)])
    assert told(lambda: [kernels[i]() for i in by_chance]) >= by_turns + 12
    assert told(lambda: each(written.told, [(7, [5, 6]) for _ in range(32)])) == 8
    assert told(lambda: each(written.told, [(7, [5 + i, 6]) for i in by_chance])) >= 12 + 12
    assert told(lambda: each(written.told, [(7 + i, [5, 6]) for i in by_chance])) >= 8 + 12
    even = told(lambda: each(written.told_copy, [(4096 + 64 * i, 8192 + 4 * i, 4) for i in range(32)]))
    assert (
        told(lambda: each(written.told_copy, [(4096 + 64 * i, 8192 + 4 * by_chance[i], 4) for i in range(32)]))
        >= even + 12
    )
    even = told(lambda: each(written.told_fill, [(4096 + i, 1, 5) for i in range(32)]))
    assert told(lambda: each(written.told_fill, [(4096 + i, 1, 5 + by_chance[i]) for i in range(32)])) >= even + 12


def test_many_kernels_by_turns_are_told_of_no_less() -> None:
    """However many there are between two launches of one."""

    def told(kinds: int) -> int:
        written.begin([])
        for i in range(400):
            written.told(0x5EED0000 + i % kinds * 0x100, [5 + i * i % 7 % 2])
        return written.of([])["told"]

    assert told(2) >= 100 and told(200) >= 100 and told(350) >= 100


def test_a_program_that_reaches_past_its_own_end_is_refused() -> None:
    """One that a stranger tells of: of a copy that is cut, or whose code touches registers that it does not have."""
    builder = ImageBuilder(LIES.format(register=3), engine().ops)
    image, message = builder.build(), ctypes.create_string_buffer(256)
    load = engine().lib.cdna_image_load
    sound = load(image, len(image), message)
    assert sound and engine().lib.cdna_is_sound(ctypes.c_void_p(sound))
    for end in (40, len(image) // 2, len(image) - 30):
        assert not load(image[:end], end, message) and b"ends before" in message.value
    builder = ImageBuilder(LIES.format(register=200), engine().ops)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(builder.decoder), "n_vgpr", 4)
        image = builder.build()
    assert not engine().lib.cdna_is_sound(ctypes.c_void_p(load(image, len(image), message)))


def test_a_kernel_takes_the_registers_that_its_code_touches() -> None:
    """Whatever its metadata say: how many of its waves fit side by side follows from that."""

    def vgprs(register: int) -> int:
        with cdna.counting():
            kernel = next(iter(Program(LIES.format(register=register)).kernels.values()))
            counted = kernel.launch((1, 1, 1), (64, 1, 1), b"").counters
        assert counted is not None
        return counted.vgprs

    assert (vgprs(3), vgprs(200)) == (8, 201)


def test_what_a_first_call_prepares_is_told_where_later_ones_read_it() -> None:
    table, answer, narrow, out = torch.randn(N), torch.randn(N), torch.empty(N), torch.empty(N)
    for call in range(3):
        written.begin([], first=call == 0)
        launch(table, out)
        if call == 0:
            launch(answer, narrow, 1024)
        launch(narrow, out, 1024)
        give[(1,)](out, 0.1, 0.8)
        told = written.of(place(out))
        again = told["read_again"], told["made_again"], told["told_again"] > 0
        assert again == ((0, 0, False) if call == 0 else (4 * N, 4096, True))
    written.begin([], first=True)  # of another case, to which what was there before is nobody's
    launch(answer, out, 512)
    told = written.of(place(out))
    assert (told["read_before"], told["read_again"]) == (2048, 0)


@pytest.mark.parametrize("how", ["allocated anew", "written by an operation"])
def test_memory_that_was_read_and_then_used_again_holds_what_was_made(how: str) -> None:
    scratch, out = torch.randn(N), torch.empty(N)
    written.begin([], first=True)
    launch(scratch, out)
    if how == "allocated anew":
        written.fresh(place(scratch))
        launch(out, scratch)
    else:
        written.wrote(place(scratch))
    written.begin([])
    launch(scratch, out)
    told = written.of(place(out))
    assert (told["read_again"], told["made_again"]) == (0, 4 * N)


def test_what_was_left_in_fresh_memory_says_nothing() -> None:
    left, out = torch.randn(N), torch.empty(N)
    written.begin([])
    written.fresh(place(left))
    launch(left, out)
    assert written.of(place(out))["read_nobody"] == 0
    host_writes(left, 640)
    launch(left, out)
    assert written.of(place(out))["read_nobody"] == 640


def test_an_autotuners_trials_write_nothing() -> None:
    """The configuration that is tried writes all, the one that is chosen the begin."""
    x, out = torch.randn(N), torch.randn(N)
    tuned = triton.autotune([triton.Config({"BLOCK": n}) for n in (128, 256)], key=["n"])(copy)
    written.begin(place(x))
    tuned[lambda meta: (N // 128 if meta["BLOCK"] == 128 else 1,)](x, out, N)
    told = written.of(place(out))
    assert (told["now"], told["nobody"]) == (4 * 256, 4 * (N - 256))


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((4, 8), (8, 1), [(0, 64)]),
        ((8, 4), (1, 8), [(0, 64)]),
        ((4, 6), (8, 1), [(0, 12), (16, 12), (32, 12), (48, 12)]),
        ((3, 1, 2), (0, 7, 1), [(0, 4)]),
        ((), (), [(0, 2)]),
        ((0, 3), (3, 1), []),
    ],
)
def test_the_memory_of_a_tensor_is_told_in_rows(
    shape: tuple[int, ...], strides: tuple[int, ...], expected: list[tuple[int, int]]
) -> None:
    assert list(written.rows(0, 2, shape, strides)) == expected
