"""Pointers that are not the card's: the host's stack, heap and static memory, and tensors that have been freed."""

import itertools
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

import cdna
from tests.support.hip_programs import run_built

PROGRAM = """
#include <hip/hip_runtime.h>
#include <sys/mman.h>
#include <cstdlib>
#include <cstring>
#include <vector>
static int fixed[64];
__device__ int table[64];
__global__ void fill(int* x) { x[threadIdx.x] = 7; }
__global__ void follow(int** x) { x[0][threadIdx.x] = 7; }
int main(int, char** words) {
  const char* word = words[1];
  int local[64] = {}, *x = local;
  std::vector<int> many(1 << 20);
  if (!strcmp(word, "heap")) x = new int[64];
  if (!strcmp(word, "vector")) x = many.data();
  if (!strcmp(word, "static")) x = fixed;
  if (!strcmp(word, "mapping")) x = (int*)mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!strcmp(word, "unregistered")) x = (hipHostRegister(fixed, 256, 0), hipHostUnregister(fixed), fixed);
  if (!strcmp(word, "device") && hipMalloc(&x, 256)) return 3;
  if (!strcmp(word, "pinned") && hipHostMalloc(&x, 256)) return 3;
  if (!strcmp(word, "managed") && hipMallocManaged(&x, 256)) return 3;
  if (!strcmp(word, "registered") && (hipHostRegister(fixed, 256, 0) || hipHostGetDevicePointer((void**)&x, fixed, 0)))
    return 3;
  if (!strcmp(word, "symbol") && hipGetSymbolAddress((void**)&x, table)) return 3;
  int** cell;
  if (hipHostMalloc(&cell, 8)) return 3;
  *cell = x;
  if (words[2]) follow<<<1, 64>>>(cell);
  else fill<<<1, 64>>>(x);
  return hipDeviceSynchronize() != hipSuccess;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("host") / "host.hip"
    file.write_text(PROGRAM)
    return file


@pytest.mark.sampled
@pytest.mark.parametrize("through", ["argument", "pointer in memory"])
@pytest.mark.parametrize("where", ["local", "heap", "vector", "static", "mapping", "unregistered"])
@pytest.mark.parametrize("checks", ["all", "none"])
def test_host_memory_is_not_the_cards(program: Path, where: str, through: str, checks: str) -> None:
    done = run_built(program, where, *(["x"] if through != "argument" else []), CDNA_CHECKS=checks)
    assert done.returncode == 1 and "bounds: writes 4 bytes at 0x" in done.stderr, done.stderr
    assert "host.hip:" in done.stderr
    if through == "argument" or checks == "none":
        assert "of the host's, which the card does not reach" in done.stderr
        assert ("the stack" in done.stderr) == (where == "local")
        assert ("in host.hip of the host's" in done.stderr) == (where in ("static", "unregistered"))


@pytest.mark.parametrize("where", ["device", "pinned", "managed", "registered", "symbol"])
def test_what_the_runtime_gave_is(program: Path, where: str) -> None:
    for words, checks in itertools.product(((where,), (where, "x")), ("all", "none")):
        done = run_built(program, *words, CDNA_CHECKS=checks)
        assert done.returncode == 0 and not done.stderr, done.stderr


@triton.jit
def _add_one(x):
    i = tl.arange(0, 64)
    tl.store(x + i, tl.load(x + i) + 1)


@triton.jit
def _add_one_at(table):
    x = tl.load(table).to(tl.pointer_type(tl.int32))
    i = tl.arange(0, 64)
    tl.store(x + i, tl.load(x + i) + 1)


@triton.jit
def _first_at(table, out):
    tl.store(out, tl.load(tl.load(table).to(tl.pointer_type(tl.int32))))


def test_a_freed_tensor() -> None:
    """Its memory is not given to another for a while, so that the pointer is known to lead nowhere."""
    with cdna.device("gfx942", checks="bounds"):
        _add_one[(1,)](torch.zeros(64, dtype=torch.int32))
        alive, gone = torch.zeros(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
        table = torch.tensor([alive.data_ptr(), gone.data_ptr()])
        _add_one_at[(1,)](table)
        del gone
        again = [torch.zeros(64, dtype=torch.int32) for _ in range(4)]
        with pytest.raises(cdna.CheckError, match="in a tensor of 256 bytes, which has been freed"):
            _add_one_at[(1,)](table[1:])
        with pytest.raises(cdna.CheckError, match="reads 4 bytes at .* which has been freed"):
            _first_at[(1,)](table[1:], again[0])
    assert alive.tolist() == [1] * 64 and not any(x.any() for x in again)


def test_freed_memory_is_given_back_in_the_end() -> None:
    with cdna.device("gfx942", checks="bounds"):
        _add_one[(1,)](torch.zeros(64, dtype=torch.int32))
        for _ in range(300):  # more than wait
            x = torch.zeros(1 << 20, dtype=torch.int32)
            _add_one[(1,)](x)
        assert x[:64].tolist() == [1] * 64
