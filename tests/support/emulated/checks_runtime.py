"""Run by test_device_emulated.py in a process prepared for an emulated GPU: torch.cuda and its kin."""

import warnings
from typing import Any

import pytest
import torch
from torch.utils import cpp_extension

from tests.support.checks import main


def test_identity() -> None:
    properties = torch.cuda.get_device_properties(0)
    assert torch.cuda.is_available() and torch.cuda.device_count() == 2  # POPCORN_GPUS
    assert properties.gcnArchName == "gfx942:sramecc+:xnack-" and properties.multi_processor_count == 304
    assert properties.warp_size == 64 and properties.total_memory // 2**30 == 191
    assert torch.cuda.get_device_name() == "AMD Instinct MI300X"
    assert torch.cuda.get_device_capability("cuda:1") == (9, 4)
    assert torch.version.hip.startswith("7.1") and torch.version.cuda is None
    assert torch.cuda.is_bf16_supported() and torch.cuda.get_arch_list() == ["gfx942"]
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.cuda.get_device_properties(2)


def test_current_device() -> None:
    assert torch.cuda.current_device() == 0
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1
        x = torch.zeros(3, device="cuda")
        assert x.device == torch.device("cuda", 1) and (x + 1).get_device() == 1
    assert torch.cuda.current_device() == 0 and x.cuda().device.index == 0 and x.device.index == 1
    torch.cuda.set_device(1)
    torch.cuda.set_device("cuda:0")
    assert torch.cuda.current_device() == 0
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.set_device(2)
    with pytest.raises(RuntimeError, match="cuda:0 and cuda:1"):
        torch.zeros(3, device="cuda:0") + x


def test_events() -> None:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(ValueError, match="recorded"):
        start.elapsed_time(end)
    start.record()
    torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")
    end.record()
    end.synchronize()
    torch.cuda.synchronize()
    assert end.query() and 0 < start.elapsed_time(end) < 10_000
    with pytest.raises(ValueError, match="enable_timing"):
        torch.cuda.Event().elapsed_time(end)


def test_streams() -> None:
    side = torch.cuda.Stream()
    assert isinstance(side.cuda_stream, int) and side != torch.cuda.default_stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == side
        done = side.record_event()
    torch.cuda.current_stream().wait_event(done)
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert torch.cuda.current_stream().cuda_stream == 0
    with side:
        assert torch.cuda.current_stream() == side
    assert torch.cuda.current_stream() != side


def test_memory() -> None:
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total == torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.memory_allocated() == torch.cuda.max_memory_reserved() == 0
    assert "PyTorch CUDA memory summary" in torch.cuda.memory_summary()
    device = torch.accelerator
    device.empty_cache()
    getattr(device, "empty_host_cache", device.empty_cache)()  # not in older releases of torch
    device.reset_peak_memory_stats()
    device.reset_accumulated_memory_stats()
    assert device.memory_allocated() == device.max_memory_reserved() == 0 < device.get_memory_info()[0] <= total
    assert torch.float8_e4m3fn in device.get_device_capability()["supported_dtypes"]


def test_flags_are_taken_and_change_no_result() -> None:
    a, b = torch.randn(8, 8, device="cuda"), torch.randn(8, 8, device="cuda")
    product = a @ b
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = True
    torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = True
    torch.backends.cuda.enable_flash_sdp(True)
    assert torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.benchmark
    assert torch.backends.cuda.flash_sdp_enabled() and torch.equal(a @ b, product)
    torch.set_float32_matmul_precision("highest")
    assert torch.get_float32_matmul_precision() == "highest" and not torch.backends.cuda.matmul.allow_tf32
    torch.cuda.nvtx.range_push("a")
    torch.cuda.nvtx.range_pop()
    torch.cuda.profiler.start()
    torch.cuda.ipc_collect()
    assert torch.equal(a @ b, product)


def test_compile_runs_eagerly(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.ones(3, device="cuda")

    @torch.compile(mode="max-autotune", fullgraph=True)
    def double(t: torch.Tensor) -> torch.Tensor:
        return t * 2

    assert torch.equal(double(x), x + x) and torch.equal(torch.compile(torch.neg)(x), -x)
    assert capfd.readouterr().err.count("torch.compile") == 1
    with pytest.raises(NotImplementedError, match="torch.export: an emulated GPU's torch cannot trace"):
        torch.export.export(torch.nn.Linear(3, 3, device="cuda"), (x,))


def test_autocast() -> None:
    x = torch.randn(4, 4, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        with torch.cuda.amp.autocast():
            assert (x @ x).dtype == torch.float16


def test_profiler() -> None:
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")
        torch.cuda.synchronize()
    assert "aten::mm" in profile.key_averages().table(sort_by="self_cuda_time_total", row_limit=20)


def test_what_is_not_emulated_says_so(tmp_path: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"load\('name', is_standalone=True\)"):
        cpp_extension.load("name", [str(tmp_path / "kernel.hip")], is_standalone=True, is_python_module=False)
    with pytest.raises(RuntimeError, match=r"kernel.hip: no such file"):
        cpp_extension.load("name", [str(tmp_path / "kernel.hip")])


def test_operators_registered_for_cuda() -> None:
    x = torch.ones(2, device="cuda")

    @torch.library.custom_op("emulated::only_gpu", mutates_args=(), device_types="cuda")
    def only_gpu(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @torch.library.custom_op("emulated::both", mutates_args=())
    def both(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    both.register_kernel("cuda")(lambda x: x * 4)
    both.register_kernel("cpu")(lambda x: x * 5)
    library = torch.library.Library("emulated", "FRAGMENT")
    library.define("low(Tensor x) -> Tensor")
    library.impl("low", lambda x: x * 6, "CUDA")
    library.impl("low", lambda x: x * 7, "CPU")
    for function, factor in ((only_gpu, 2), (both, 4), (torch.ops.emulated.low, 6)):
        assert function(x).tolist() == [factor, factor] and function(x).is_cuda


def test_operators_of_torch_replaced_for_cuda() -> None:
    """As FlagGems puts its kernels in the place of torch's: they see a GPU's tensors, and only those."""
    seen: list[tuple[str, Any]] = []
    library = torch.library.Library("aten", "IMPL")

    def spy(name: str, make: Any) -> None:
        def kernel(*args: Any, **kwargs: Any) -> torch.Tensor:
            device = kwargs.get("device", args[0].device if isinstance(args[0], torch.Tensor) else None)
            seen.append((name, device))
            made: torch.Tensor = make(*args)
            return made

        library.impl(name, kernel, "CUDA")

    def inverted(x: torch.Tensor) -> torch.Tensor:
        host = torch.ones(x.shape)  # a kernel's own tensors are looked at as well
        assert (host * 2).neg().device.type == "cpu" and (x.double() + 2).is_cuda
        return x - (x + x)

    spy("neg", inverted)
    spy("mul.Tensor", lambda a, b: torch.full_like(a, 7))
    spy("zeros", lambda size: torch.full(size, 9, device="cuda"))
    x = torch.ones(2, device="cuda:1")
    try:
        assert torch.neg(x).tolist() == [-1, -1] and torch.neg(x).device == x.device
        assert torch.neg(torch.ones(2)).device.type == "cpu" and torch.mul(2.0, 3.0).device.type == "cpu"
        assert torch.zeros(2, device="cuda:1").tolist() == [9, 9] and torch.zeros(2).tolist() == [0, 0]
        assert seen == [("neg", x.device), ("neg", x.device), ("zeros", x.device)]
        seen.clear()
        host = torch.ones(2, requires_grad=True)
        host.neg().sum().backward()
        assert host.grad is not None and host.grad.tolist() == [-1, -1] and not seen
        (x * x).sum()
        assert seen == [("mul.Tensor", x.device)]
        seen.clear()
        spy("_to_copy", lambda a: a.clone())  # torch makes a number a tensor of the other's type, in host memory
        assert torch.add(0.5, x.half(), alpha=3).tolist() == [3.5, 3.5] and [name for name, _ in seen] == ["_to_copy"]
    finally:
        library._destroy()
    assert torch.neg(x).tolist() == [-1, -1] and torch.zeros(2, device="cuda").tolist() == [0, 0]


def test_generators_of_a_gpu_have_a_seed_and_an_offset() -> None:
    torch.cuda.manual_seed(7)
    generator = torch.cuda.default_generators[1]
    assert generator.device == torch.device("cuda:1") and generator.initial_seed() == 7
    state = generator.get_state()
    assert state.device.type == "cpu" and state.dtype == torch.uint8 and state.view(torch.int64).tolist() == [7, 0]
    first = torch.randn(5, device="cuda:1")
    later = torch.cuda.get_rng_state(1)
    seed, offset = later.view(torch.int64).tolist()
    assert seed == 7 and offset > 0 and offset % 4 == 0
    second = torch.empty(3, device="cuda:1").uniform_()
    torch.cuda.set_rng_state(state, 1)
    assert torch.equal(first, torch.randn(5, device="cuda:1", generator=generator))
    assert torch.equal(second, torch.empty(3, device="cuda:1").uniform_(generator=generator))
    torch.cuda.set_rng_state(later, 1)
    assert torch.equal(second, torch.empty(3, device="cuda:1").uniform_())

    later.view(torch.int64)[1] += 400  # as a kernel that has drawn numbers of its own does
    generator.set_state(later)
    assert torch.equal(generator.get_state(), later) and torch.cuda.initial_seed() == 7
    draws = torch.rand(64, device="cuda:1")
    generator.set_state(later)
    assert torch.equal(draws, torch.rand(64, device="cuda:1"))

    own = torch.Generator("cuda").manual_seed(7)
    assert own.get_state().view(torch.int64).tolist() == [7, 0]
    assert torch.equal(first.cpu(), torch.randn(5, device="cuda", generator=own).cpu())
    with torch.random.fork_rng(devices=[1]):
        inside = torch.rand(4, device="cuda:1")
    assert torch.equal(inside, torch.rand(4, device="cuda:1"))
    with pytest.raises(RuntimeError, match="wrong size"):
        own.set_state(torch.get_rng_state())


if __name__ == "__main__":
    main(__file__)
