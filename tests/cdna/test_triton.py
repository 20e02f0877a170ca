"""Whole Triton kernels on the emulated device, both archs, against torch in higher precision."""

import numpy
import pytest
import torch
import triton
import triton.language as tl
from triton import knobs

import cdna
from cdna.errors import LaunchError
from tests.support import triton_kernels as kernels
from tests.support.reference_folders import relative_error
from tests.support.spills import no_spills
from tests.support.triton_at_hand import needs

pytestmark = [pytest.mark.long, pytest.mark.sampled]

FP8 = {"gfx942": (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz), "gfx950": (torch.float8_e4m3fn, torch.float8_e5m2)}
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


UNARY = {
    "exp": torch.exp,
    "log": lambda v: torch.log(v.abs() + 1),
    "sqrt": lambda v: v.abs().sqrt(),
    "rsqrt": lambda v: (v.abs() + 0.125).rsqrt(),
    "sin": lambda v: (v * 32).sin(),
    "where": lambda v: torch.where(v > 0, v * 2, v * 3),
    "fma": lambda v: v * v + v,
}


@pytest.mark.parametrize("op", UNARY)
def test_float_operations_to_a_few_ulp(arch, op):
    x = torch.randn(3001)
    out = torch.full_like(x, float("nan"))
    kernels.unary[(3,)](x, out, 3001, op, 1024)
    # scaled by the largest term, so that cancellation near a zero of the function does not count as error
    want = UNARY[op](x.double())
    assert ((out.double() - want).abs() / want.abs().clamp(min=1e-1)).max() < 1e-6


def test_division_is_correctly_rounded(arch):
    x = torch.cat([torch.randn(2000) * 10.0**e for e in (-38, -20, 0, 20, 37)])
    out = torch.empty_like(x)
    kernels.unary[(10,)](x, out, len(x), "divide", 1024)
    assert torch.equal(out, (x + 1.375) / x)


def test_casts_between_floats_round_as_torch_does(arch):
    if arch == "gfx950":
        needs(3, 5, "fp8 on gfx950")
    dtypes = [torch.float32, torch.float16, torch.bfloat16, *FP8[arch]]
    for source in dtypes:
        for target in dtypes:
            if source == target or (source in FP8[arch] and target in FP8[arch]):
                continue
            x = (torch.randn(2000) * 20).to(source)
            out = torch.zeros(2000, dtype=target)
            kernels.cast[(1,)](x, out, 2000, 2048)
            assert torch.equal(out.double(), x.to(target).double()), f"{source} to {target}"


@pytest.mark.parametrize("shape", [(32, 64), (1, 512), (128, 16)])
@pytest.mark.parametrize("warps", [1, 2, 8])
def test_reductions(arch, shape, warps):
    for axis in (0, 1):
        length = shape[1 - axis]
        x = torch.randn(shape)
        out = torch.zeros(length)
        kernels.reduce[(1,)](x, out, *shape, "sum", axis, num_warps=warps)
        torch.testing.assert_close(out.double(), x.double().sum(axis), rtol=1e-5, atol=1e-5)
        kernels.reduce[(1,)](x, out, *shape, "max", axis, num_warps=warps)
        assert torch.equal(out, x.amax(axis))
        index = torch.zeros(length, dtype=torch.int32)
        kernels.reduce[(1,)](x, index, *shape, "argmin", axis, num_warps=warps)
        assert torch.equal(index.long(), x.argmin(axis))
        k = torch.randint(-1000, 1000, shape)
        parity = torch.zeros(length, dtype=torch.int64)
        kernels.reduce[(1,)](k, parity, *shape, "xor", axis, num_warps=warps)
        assert parity.tolist() == numpy.bitwise_xor.reduce(k.numpy(), axis=axis).tolist()


@pytest.mark.parametrize("shape", [(16, 64), (64, 8), (1, 1024)])
def test_scans(arch, shape):
    for axis in (0, 1):
        for reverse in (False, True):
            x = torch.randn(shape)
            y = x.flip(axis) if reverse else x
            for op, want in (("sum", y.double().cumsum(axis)), ("max", y.double().cummax(axis)[0])):
                out = torch.zeros_like(x)
                kernels.scan[(1,)](x, out, *shape, op, axis, reverse)
                torch.testing.assert_close(out.double(), want.flip(axis) if reverse else want, rtol=1e-4, atol=1e-4)


DOT_DTYPES = ["float16", "bfloat16", "float32", "int8", "fp8", "bf8", "fp8 bf8"]


@pytest.mark.parametrize("dtype", DOT_DTYPES)
@pytest.mark.parametrize("shape", [(64, 64, 128, 64), (16, 16, 64, 32), (128, 32, 128, 32)])
@pytest.mark.parametrize("transposed", [False, True])
def test_dot(arch, dtype, shape, transposed):
    """Triton knows the layouts of matrix instructions' registers on its own account: ours are held to its."""
    is_fp8 = "f" in dtype and dtype.endswith("8")
    if arch == "gfx950" and is_fp8:
        needs(3, 6, "tl.dot of small tiles of fp8 on gfx950")
    if arch == "gfx942" and dtype == "fp8 bf8":
        needs(3, 7, "the formats of such a product (docs/compilers.md)")
    m, n, k, block_k = shape
    types = [FP8[arch][name == "bf8"] if is_fp8 else getattr(torch, name) for name in (dtype.split() * 2)[:2]]
    if dtype == "int8":
        a, b = (torch.randint(-128, 128, (rows, k), dtype=torch.int8) for rows in (m, n))
    else:
        a, b = (torch.randn(rows, k).to(kind) for rows, kind in zip((m, n), types))
    want = a.double() @ b.double().T
    if transposed:
        a, b = a.T.contiguous(), b.T.contiguous()
    for warps, stages, rows in ((4, 1, 0), (4, 2, 16), (8, 3, 32)):
        if rows and min(m, n) < rows:
            continue
        out = torch.zeros(m, n, dtype=torch.int32 if dtype == "int8" else torch.float32)
        kernels.dot[(1,)](
            a, b, out, m, n, k, block_k, transposed, tl.int32 if dtype == "int8" else tl.float32,
            num_warps=warps, num_stages=stages, **({"matrix_instr_nonkdim": rows} if rows else {}),
        )  # fmt: skip
        assert relative_error(out, want) < (1e-30 if dtype == "int8" else 1e-6), f"{warps=} {stages=} {rows=}"


def operand(rows, k, name):
    """(codes, values, values a byte) of a random matrix in an MX element format."""
    if name == "e2m1":
        codes = torch.randint(0, 256, (rows, k // 2), dtype=torch.uint8)
        return codes, torch.stack((E2M1[(codes & 15).long()], E2M1[(codes >> 4).long()]), -1).reshape(rows, k), 2
    values = torch.randn(rows, k).to(FP8["gfx950"][name == "e5m2"])
    return values.view(torch.uint8), values.float(), 1


@pytest.mark.parametrize("formats", ["e2m1 e2m1", "e4m3 e4m3", "e5m2 e5m2", "e4m3 e2m1", "e2m1 e5m2"])
@pytest.mark.parametrize("shape", [(32, 32, 128), (64, 128, 256)])
@pytest.mark.parametrize("tile", [16, 32])
def test_dot_scaled_with_a_scale_of_its_own_for_each_block(formats, shape, tile):
    """With uniform scales a wrong layout of k goes unseen."""
    torch.manual_seed(0)
    m, n, k = shape
    (a, values_a, pack_a), (b, values_b, pack_b) = (operand(rows, k, f) for rows, f in zip((m, n), formats.split()))
    sa, sb = (torch.randint(120, 134, (rows, k // 32), dtype=torch.uint8) for rows in (m, n))
    out = torch.zeros(m, n)
    with cdna.device("gfx950"):
        kernels.dot_scaled[(1,)](
            a, sa, b, sb, out, m, n, k, *formats.split(), pack_a, pack_b, matrix_instr_nonkdim=tile
        )

    def scaled(values, scales):
        return values.double() * torch.exp2(scales.double() - 127).repeat_interleave(32, 1)

    assert relative_error(out, scaled(values_a, sa) @ scaled(values_b, sb).T) < 1e-6


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32, torch.float64, torch.bfloat16])
def test_atomics_of_many_workgroups(arch, dtype):
    n = 1000
    x = torch.randint(-8, 8, (n,)).to(dtype)
    groups = [x[i::7].double() for i in range(7)]
    cases = {"add": [g.sum() for g in groups]}
    if dtype != torch.bfloat16:
        cases["max"] = [g.max().clamp(min=0) for g in groups]
    for op, want in cases.items():
        out = torch.zeros(7, dtype=dtype)
        kernels.atomic[(4,)](x, out, n, op, 256)
        assert out.double().tolist() == [float(w) for w in want], op
    if dtype in (torch.int32, torch.int64, torch.float32):
        out = torch.zeros(7, dtype=dtype)
        with knobs.amd.scope():  # some versions have no buffer instruction for it (docs/compilers.md)
            knobs.amd.use_buffer_atomics = False
            kernels.atomic[(4,)](x, out, n, "xchg", 256)
        assert all(out[i] in x[i::7] for i in range(7))


def test_workgroups_that_wait_for_each_other_make_progress(arch):
    lock, out = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    kernels.locked_increment[(50,)](lock, out, num_warps=1)
    assert out.item() == 50
    flags, done = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    kernels.wait_for_later[(200,)](flags, done, num_warps=1)
    assert done.item() == 1


def test_sort_histogram_and_transpose(arch):
    for dtype in (torch.float32, torch.int16):
        x = (torch.randn(1024) * 1000).to(dtype)
        out = torch.zeros_like(x)
        kernels.sort[(1,)](x, out, 1024)
        assert torch.equal(out, x.sort()[0])
    x = torch.randint(0, 32, (1024,), dtype=torch.int32)
    bins = torch.zeros(32, dtype=torch.int32)
    kernels.histogram[(1,)](x, bins, 1024, 32)
    assert torch.equal(bins.long(), torch.bincount(x, minlength=32))
    for dtype in (torch.int8, torch.float16, torch.int64):
        x = (torch.randn(64, 32) * 50).to(dtype)
        out = torch.zeros(32, 64, dtype=dtype)
        kernels.transpose[(1,)](x, out, 64, 32)
        assert torch.equal(out, x.T)


@triton.jit
def _assembled(x, out, ASM: tl.constexpr):
    i = tl.arange(0, 64)
    tl.store(out + i, tl.inline_asm_elementwise(ASM, "=v,v", [tl.load(x + i)], tl.int32, is_pure=True, pack=1))


def test_inline_assembly_that_takes_an_assembler(arch):
    x, out = torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    _assembled[(1,)](x, out, "v_mov_b32 $0, $1\n.set i, 1\n.rept 4\nv_add_u32 $0, i, $0\n.set i, i * 2\n.endr")
    assert torch.equal(out, x + 15)


@pytest.mark.parametrize("shape", [(32, 512), (64, 256)], ids=str)  # 256 elements a lane; the second: scalars as well
def test_registers_spilled_to_scratch(arch, shape):
    x = torch.randn(shape) * 0.1
    out = torch.zeros_like(x)
    with pytest.raises(AssertionError, match="vgpr_spill_count: +[1-9]"), no_spills("spilling"):  # what other tests ask
        compiled = kernels.spilling[(1,)](x, out, *shape, num_warps=1)
    assembly = compiled.asm["amdgcn"]
    assert "scratch_store" in assembly and "scratch_load" in assembly, "not a test of spills"
    assert (".sgpr_spill_count: 0" in assembly) == (shape == (32, 512))
    v = x.double()
    w = v * v.sum(1, keepdim=True)
    torch.testing.assert_close(out.double(), v + w * (w * v).sum(0), rtol=1e-3, atol=1e-3)


def test_autotuner_and_do_bench_run_without_a_clock(arch):
    x, out = torch.randn(1000), torch.zeros(1000)

    def launch():
        kernels.tripled[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, out, 1000)

    cdna.autotuned()
    launch()
    assert torch.equal(out, x * 3)
    assert triton.testing.do_bench(launch) > 0


def test_source_of_a_kernel_for_c():
    """As triton.tools.compile writes it: arguments with C++ types."""
    with cdna.device("gfx942"):
        types = [triton.runtime.driver.active.map_python_to_cpp_type(name) for name in ("*fp32", "i32", "u64")]
    assert types == ["hipDeviceptr_t", "int32_t", "uint64_t"]


@triton.jit
def _summed(x, out, total, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.store(out + i, v * 2, mask=i < n)
    tl.atomic_add(total, tl.sum(v))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
@pytest.mark.parametrize("named", ["", "reset_to_zero", "restore_value"])
def test_what_each_trial_of_an_autotuner_has_added_to_is_told(named: str, dtype: torch.dtype):
    x, out, total = torch.ones(1000, dtype=dtype), torch.empty(1000, dtype=dtype), torch.zeros(1, dtype=dtype)
    configs = [triton.Config({"B": block}) for block in (64, 256, 1024)]
    tuned = triton.autotune(configs, key=["n"], **({named: ["total"]} if named else {}))(_summed)
    cdna.autotuned()
    with cdna.device("gfx942", checks="bounds"):
        tuned[lambda meta: (triton.cdiv(1000, meta["B"]),)](x, out, total, 1000)
    (choice,) = cdna.autotuned()
    assert choice.added_to == (() if named else ("total",)) and (
        "each trial has added to `total`" in str(choice)
    ) != bool(named)
    assert (total.item() == 1000) == bool(named)


def test_an_autotuner_chooses_by_modelled_time_and_says_what(arch, capsys):
    """Of two grids for 65,536 elements: 1,024 workgroups of 64 and 16 of 4,096 on 304 compute units (gfx950: 256)."""
    n = 65536
    x, out = torch.randn(n), torch.zeros(n)
    configs = [triton.Config({"BLOCK": block}, num_warps=1) for block in (64, 256, 4096)]
    tuned = triton.autotune(configs, key=["n"])(kernels.tripled.fn)
    cdna.autotuned()
    for _ in range(2):  # the second call has chosen already
        tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    assert torch.equal(out, x * 3)
    (choice,) = cdna.autotuned()
    times = {}
    for config in configs:
        block = config.kwargs["BLOCK"]
        cdna.stats()
        with cdna.counting():
            kernels.tripled.fn[(triton.cdiv(n, block),)](x, out, n, block, num_warps=1)
        times[block] = cdna.model.modelled_time_us(cdna.stats()[-1]).us
    best = min(times, key=lambda block: times[block])
    assert choice.kernel == "tripled" and f"BLOCK: {best}, num_warps: 1" in choice.config
    assert choice.us == pytest.approx(times[best], rel=0.05) and list(choice.others_us) == sorted(choice.others_us)
    assert len(choice.others_us) == 2 and choice.others_us[0] >= choice.us
    assert f"cdna: {choice}" in capsys.readouterr().err


def test_both_archs_in_one_process_keep_apart():
    x, out = torch.randn(64), torch.zeros(64)
    for name in ("gfx942", "gfx950", "gfx942"):
        with cdna.device(name):
            compiled = kernels.tripled.fn[(1,)](x, out, 64, 64)
        assert compiled.metadata.target.arch == name


def test_stats_count_what_ran():
    cdna.stats()
    half = torch.ones(32, 16).half()
    with cdna.device("gfx942"):
        kernels.dot[(3,)](
            half, half, torch.zeros(32, 32), 32, 32, 16, 16, False, tl.float32,
            num_warps=1, matrix_instr_nonkdim=32,
        )  # fmt: skip
    (record,) = cdna.stats()
    assert record.grid == (3, 1, 1) and record.block == (64, 1, 1)
    assert record.by_unit["matrix"] == 3 * 2  # 32x32x8 twice for k = 16, in each of three workgroups
    assert record.wave_instructions == sum(record.by_unit.values())


def test_a_wild_access_is_a_clear_error(arch):
    message = r"(?s)wild_load.*0x2000.*triton_kernels\.py:\d+.*workgroup \(0, 0, 0\)"
    with pytest.raises(cdna.KernelFault, match=message):
        kernels.wild_load[(1,)](torch.zeros(4), 0x2000, num_warps=1)


def test_more_lds_than_the_arch_has_is_refused():
    with cdna.device("gfx942"), pytest.raises(triton.runtime.errors.OutOfResources, match="shared memory"):
        kernels.dot[(1,)](
            torch.randn(128, 256), torch.randn(128, 256), torch.zeros(128, 128), 128, 128, 256, 128, False, tl.float32
        )


def test_a_compiled_kernel_is_not_launched_without_its_arguments(arch):
    """Triton reads behind them. A program that leaves out constexprs shifts the arguments after these."""
    x, out = torch.randn(64), torch.zeros(64)
    compiled = kernels.unary[(1,)](x, out, 64, "exp", 64)
    out.zero_()
    with pytest.raises(LaunchError, match="2 arguments for a kernel of 5, so that n would be missing"):
        compiled[(1, 1, 1)](x, out)
    assert not out.any()
    compiled[(1, 1, 1)](x, out, 64)  # constexprs at the end are never looked at
    torch.testing.assert_close(out, x.exp())


@triton.jit
def store_annotated(out, n: int):
    tl.store(out, n)


def test_a_number_that_its_annotation_makes_too_small_is_refused(arch):
    out = torch.zeros(1, dtype=torch.int64)
    store_annotated[(1,)](out, 2**31 - 1)
    with pytest.raises(OverflowError, match="2147483648 is no i32") as caught:  # as Triton's launchers before 3.7 say
        store_annotated[(1,)](out, 2**31)
    assert isinstance(caught.value, LaunchError)
    assert out.item() == 2**31 - 1


def test_unknown_arch():
    with pytest.raises(ValueError, match="gfx942, gfx950"), cdna.device("gfx90a"):
        pass
