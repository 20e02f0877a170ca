"""What the table of Triton's own tests says of a run."""

from lab import triton_language
from lab.public_suites import Result


def test_failures_are_counted_by_cause_and_none_is_dropped() -> None:
    past = "_kernel on gfx942: bounds: writes 4 bytes at {}, 8 bytes past the end of `X` (fp32[1])"
    failed = {"a": past.format("0x10"), "b": past.format("0x20"), "c": "AssertionError: seen by nobody"}
    failed["test_core::test_cat[True-int8-8]"] = "AssertionError: Tensor-likes are not equal!"
    result = Result("triton-lang/triton", "0123456789abcdef", "gfx942", "all", chosen=10, passed=3, failed=failed)
    result.with_launches, result.over_time, result.skipped = 2, 1, {"needs CUDA": 1}
    version, commit, arch, *counts, why = triton_language.row("3.9.0", result)
    assert (version, commit, arch) == ("3.9.0", "0123456789ab", "gfx942")
    assert counts == ["3", "2", "1", "1", "5"]
    unknown = "1 AssertionError: seen by nobody"
    assert why == f"2 store past a tensor's end; {unknown}; 1 ask for another state of Triton; 1 not run"
