"""Programs in other orders than the card's own: `--orders`, `--schedule`, and what L2s keep."""

import re
import subprocess
from pathlib import Path

import pytest

from cdna.hip.run import environment_of_schedule
from tests.support.hip_programs import PROGRAMS, run, run_built

LOCK_FREE = PROGRAMS / "lock_free.hip"
# Without the check `race`, which knows most of these faults in any order: what comes of them is asked here.
OTHER_CHECKS = "bounds,deadlock"
WITHOUT_RACES = ("--checks", OTHER_CHECKS)
BY_L2 = ("ticket_lock", "double_checked", "stream_k", "publish", "flag_a_lane")
BY_TURNS = ("lock", "seqlock")


def scheduled(program: Path, schedule: str, *words: str) -> subprocess.CompletedProcess[str]:
    """As `run --schedule` has it, without these races."""
    return run_built(program, *words, CDNA_CHECKS=OTHER_CHECKS, **environment_of_schedule(schedule))


@pytest.mark.parametrize("name", [*BY_L2, *BY_TURNS, "ranks"])
def test_a_right_program_is_the_same_in_all_orders(name: str) -> None:
    done = run("--orders", "8", LOCK_FREE, "--", name, "0")
    assert done.returncode == 0 and "orders: 8 others, no difference" in done.stderr, done.stderr


@pytest.mark.parametrize("name", [*BY_L2, *BY_TURNS])
def test_a_fault_is_found_and_shown_again(name: str) -> None:
    done = run("--orders", "30", *WITHOUT_RACES, LOCK_FREE, "--", name, "1")
    found = re.search(r"orders: seed (\d+): exit code 1, .*\n(?:  .*\n)+?  again: .*--schedule '(.*)' ", done.stderr)
    assert done.returncode == 1 and found, done.stderr
    seed, schedule = found.groups()
    if name in BY_L2:
        assert schedule == "l2"
    if name == "lock":  # one before it takes the lock, one that has it before it stores what it counts
        assert len(re.findall(r"workgroup \d+, wave 0 of launch 1 .* waits before `flat_store_dword", done.stderr)) == 2
    again, right = (scheduled(LOCK_FREE, schedule, name, wrong) for wrong in ("1", "0"))
    assert (again.returncode, right.returncode) == (1, 0), again.stderr + right.stderr
    if name == "publish":
        by_seed = run("--orders", f"1@{seed}", *WITHOUT_RACES, LOCK_FREE, "--", name, "1")
        assert f"--schedule '{schedule}'" in by_seed.stderr, by_seed.stderr


def test_a_stale_read_is_told_where_no_race_is() -> None:
    words = ("--checks", "all", LOCK_FREE, "--", "flag_a_lane", "1")
    assert run(*words).returncode == 0  # of flags by whole waves any one counts as a release
    done = run("--schedule", "l2", *words)
    assert done.returncode == 1 and "race: reads an old value at offset 256" in done.stderr, done.stderr
    assert "no release (buffer_wbl2 sc1) has written it back" in done.stderr


TWO_THAT_UPDATE = """
#include <cstdio>
#include <cstring>
#include <hip/hip_runtime.h>
__global__ void add(int* x) { atomicAdd(x, 1); }
__global__ void twice(int* x) { atomicExch(x, 2 * atomicAdd(x, 0)); }
int main(int n, char** words) {
  int *p, sum = 0;
  hipStream_t streams[2];
  hipEvent_t added;
  hipMalloc(&p, 4);
  hipMemset(p, 0, 4);
  for (auto& stream : streams) hipStreamCreate(&stream);
  hipEventCreate(&added);
  if (!strcmp(words[1], "streams")) {
    add<<<1, 64, 0, streams[0]>>>(p);
    hipEventRecord(added, streams[0]);
    if (n > 2) hipStreamWaitEvent(streams[1], added, 0);
    twice<<<1, 1, 0, streams[1]>>>(p);
  } else {
    hipGraph_t graph;
    hipGraphNode_t nodes[2];
    hipGraphExec_t made;
    hipGraphCreate(&graph, 0);
    void* arguments[] = {&p};
    for (int i = 0; i < 2; i++) {
      hipKernelNodeParams call = {};
      call.func = (void*)(i ? twice : add);
      call.gridDim = 1;
      call.blockDim = i ? 1 : 64;
      call.kernelParams = arguments;
      hipGraphAddKernelNode(&nodes[i], graph, nodes, i && n > 2, &call);
    }
    hipGraphInstantiate(&made, graph, nullptr, nullptr, 0);
    hipGraphLaunch(made, streams[1]);
  }
  hipMemcpyAsync(&sum, p, 4, hipMemcpyDeviceToHost, streams[1]);
  hipStreamSynchronize(streams[1]);
  printf("%d\\n", sum);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Adds and doubles, on two streams or as two nodes of a graph; a further word orders the two."""
    path = tmp_path_factory.mktemp("orders") / "two.hip"
    path.write_text(TWO_THAT_UPDATE)
    return path


def test_a_stream_that_comes_late(program: Path) -> None:
    printed = {
        (schedule, words): scheduled(program, schedule, "streams", *words).stdout
        for schedule in ("", "stream:1", "stream:1 stream:2")
        for words in ((), ("wait",))
    }
    assert {out for (schedule, words), out in printed.items() if words or not schedule} == {"128\n"}
    assert printed["stream:1", ()] == "0\n"
    done = run("--orders", "30", *WITHOUT_RACES, program, "--", "streams")
    assert "it prints something else: `0` and not `128`\n  stream 1" in done.stderr, done.stderr


def test_branches_of_a_graph_that_both_update(program: Path) -> None:
    done = run("--orders", "8", program, "--", "graph")  # with all checks: atomics do not race with each other
    assert "it prints something else: `64` and not `128`\n  of a graph's nodes" in done.stderr, done.stderr
    assert run("--schedule", "branches", program, "--", "graph", "edge").stdout == "128\n"


def test_wrong_words_are_told() -> None:
    for words, said in (
        (("--orders", "none"), "--orders none: how many"),
        (("--orders", "2", "--counters"), "--orders: not with"),
        (("--schedule", "hold:1"), "--schedule: `hold:1`"),
    ):
        done = run(*words, LOCK_FREE, "--", "lock", "0")
        assert done.returncode == 2 and said in done.stderr, done.stderr
