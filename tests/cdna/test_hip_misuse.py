"""Faults of HIP programs, in kernels and in calls of the runtime: told, and what is like them and right is not."""

import re

import pytest

from tests.support.hip_programs import PROGRAMS, run_built

PROGRAM = PROGRAMS / "misuse.hip"

FOUND = {  # what the argument names: what is said
    "inactive_lane": r"uninitialised: stores what `ds_bpermute_b32 .* takes from a lane that is not active",
    "bytes_race": r"race: writes another value to 1 bytes? of .* which workgroup \d \(wave 0\) writes",
    "counter_reset": r"race: (updates atomically|writes over) \d bytes? .* which workgroup \d \(wave 0\)",
    "heap_overrun": r"bounds: writes 4 bytes at offset 64 of the 64 bytes of malloc\n",
    "heap_after_free": r"bounds: writes 4 bytes at offset 0 of the 64 bytes of malloc, which have been freed",
    "heap_freed_twice": r"the kernel frees what malloc has not given there, or what has been freed",
    "component_unwritten": r"uninitialised: reads LDS byte 1020, which nothing has written, for `global_store_dword",
    "past_its_end": r"bounds: writes 4 bytes at .* 0 bytes past the end of the 1024 bytes of hipMalloc",
    "far_past_the_end": r"bounds: writes 4 bytes at .*, 262144 bytes past the end of the 1048576 bytes of hipMalloc",
    "host_pointer_inside": r"bounds: writes 4 bytes at .*, in memory of the host's, which the card does not reach",
    "peer": r"in the 1024 bytes of hipMalloc \(number 1\), which is another device's, without hipDeviceEnablePeerAcc",
    "barrier_before_flag": r"deadlock: nothing can make progress any more; workgroup 0 wave 0 wait at a barrier for 1",
    "lock_passed_over": r"race: (reads|writes) 4 bytes .* which workgroup \d \(wave 0\) (writes|has read)",
    "pinned_refilled": r"race: the host has written to 256 bytes of pinned memory at 0x\w+ that a copy may still read",
    "copied_too_late": r"race: the host accesses memory at 0x\w+ that work of the device's may still write",
    "written_too_late": r"race: the host accesses memory at 0x\w+ that work of the device's may still write",
    "variable_race": r"race: a copy reads what set_variable\(int\) has written on another stream",
    "host_function_waits": r"deadlock: a host function waits for work that comes behind it",
    "copy_over_itself": r"bounds: a call copies 256 bytes between places that overlap",
    "launch_too_large": r"refused: 1 x 1 x 1 workgroups of 2048 x 1 x 1 work-items",
    "copy_past_the_end": r"bounds: a call copies to 1028 bytes at offset 0 of the 1024 bytes of hipMalloc",
    "copy_past_the_hosts_block": r"bounds: a call copies to 512 bytes, of which only the first 264 are in their block",
    "copy_past_a_large_block": r"copies to 8388608 bytes, of which only the first 4\d{6} are in their block",
    "copy_of_freed": r"bounds: a call copies from 256 bytes at offset 0 of the 256 bytes .* which has been freed",
    "copy_past_a_symbol": r"bounds: a call copies 256 bytes at offset 4 of a variable of 256 bytes",
    "copy_of_wrong_kind": r"bounds: by its kind a copy's source is a device's memory, and it is the host's",
    "fill_past_the_end": r"bounds: a call fills 1028 bytes at offset 0 of the 1024 bytes of hipMalloc",
    "fill_of_freed": r"bounds: a call fills 4 bytes at offset 0 of the 256 bytes .* which has been freed",
    "fill_of_the_hosts": r"bounds: a call fills 4 bytes at 0x\w+, which are the host's",
    "freed_twice": r"bounds: a call frees the 256 bytes of hipMalloc \(number 3\), which has been freed",
    "freed_inside": r"bounds: a call frees memory at offset 4 of the 1024 bytes of hipMalloc \(number 1\)",
    "freed_the_hosts": r"bounds: a call frees memory at 0x\w+, which no call has given",
}
RIGHT = (
    "right_sum_of_active_lanes right_bytes right_padding right_coalesced right_peer right_refills "
    "right_results right_variable right_barrier_with_one_fence right_calls"
).split()


@pytest.mark.parametrize("name", FOUND)
def test_a_fault_is_told(name: str) -> None:
    """Though the program looks at no error, and ends as if all were well."""
    done = run_built(PROGRAM, name, CDNA_CHECKS="all")
    assert re.search(FOUND[name], done.stderr) and done.returncode == 1, done.stdout + done.stderr


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_no_finding(name: str) -> None:
    done = run_built(PROGRAM, name, CDNA_CHECKS="all")
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr


def test_a_refused_launch_that_the_program_asks_for_is_no_fault() -> None:
    done = run_built(PROGRAM, "right_refusal", CDNA_CHECKS="all")
    assert done.returncode == 0 and done.stderr.count("refused") == 1, done.stdout + done.stderr


def test_a_cooperative_launch_that_does_not_fit_is_named() -> None:
    done = run_built(PROGRAM, "cooperative_too_large", CDNA_CHECKS="all")
    assert re.search(
        r"wait_for_all\(int\*\): refused: a cooperative launch of 1048576 workgroups, of which .* room for \d+ at once",
        done.stderr,
    ), done.stdout + done.stderr


def test_without_checks_freed_memory_is_an_error_and_no_crash() -> None:
    for name in ("copy_of_freed", "fill_of_freed"):
        done = run_built(PROGRAM, name, CDNA_CHECKS="none")
        assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr


def test_what_the_host_accesses_in_vain_is_named_before_it_dies() -> None:
    done = run_built(PROGRAM, "host_after_free", CDNA_CHECKS="none")
    assert done.returncode not in (0, 1) and re.search(
        r"the host accesses memory that is not there: the address is byte 0 of 256 that hipHostMalloc gave .* freed",
        done.stderr,
    ), done.stdout + done.stderr
