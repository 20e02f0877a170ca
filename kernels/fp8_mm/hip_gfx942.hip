// amd-fp8-mm in HIP: what torch and the kernel need to know of each other. Kernel and launch are torch-free
// (fp8_mm_kernel_gfx942.h, fp8_mm_launch_gfx942.h), and the device compiler does not see this file's torch part.
#include <hip/hip_runtime.h>

#include "fp8_mm_launch_gfx942.h"

#ifndef __HIP_DEVICE_COMPILE__
#include <torch/types.h>

// Partial sums, kept and grown across calls. Never freed: at exit the runtime may be gone first. Calls share them, so
// they must not overlap on the device.
static float* workspace(const torch::Tensor& like, size_t bytes) {
    static torch::Tensor& partial = *new torch::Tensor;
    if (!partial.defined() || partial.device() != like.device() || partial.numel() * sizeof(float) < bytes)
        partial = torch::empty({static_cast<int64_t>(bytes / sizeof(float))}, like.options().dtype(torch::kFloat32));
    return partial.data_ptr<float>();
}

// a [M, K], b [N, K] fp8 e4m3fnuz column-major; a_scale [M, K/128], b_scale [ceil(N/128), K/128] fp32 column-major;
// c [M, N] bf16 row-major, written and returned.
torch::Tensor custom_kernel(torch::Tensor a, torch::Tensor b, torch::Tensor a_scale, torch::Tensor b_scale,
                            torch::Tensor c) {
    const int64_t m = a.size(0), k = a.size(1), n = b.size(0);
    TORCH_CHECK(k % SCALE_BLOCK == 0, "K must be a multiple of ", SCALE_BLOCK, ", got k=", k);
    TORCH_CHECK(m % 4 == 0 && n % 8 == 0, "M must be a multiple of 4 and N of 8, got m=", m, " n=", n);
    TORCH_CHECK(
        m * (k + 6 * STAGE_K) < UINT32_MAX && n * (k + 6 * STAGE_K) < UINT32_MAX && 2 * (m + 256) * n < UINT32_MAX,
        "the kernel's offsets have 32 bits; too large: m=", m, " n=", n, " k=", k);
    TORCH_CHECK(a.t().is_contiguous() && b.t().is_contiguous() && a_scale.t().is_contiguous() &&
                    b_scale.t().is_contiguous() && c.is_contiguous(),
                "a, b, a_scale and b_scale must be column-major and c row-major");
    const Fp8MmPlan plan = fp8_mm_plan(m, n, k);
    const Fp8MmArgs args = {static_cast<const unsigned char*>(a.data_ptr()),
                            static_cast<const unsigned char*>(b.data_ptr()),
                            a_scale.data_ptr<float>(),
                            b_scale.data_ptr<float>(),
                            static_cast<unsigned short*>(c.data_ptr()),
                            plan.partial_bytes ? workspace(c, plan.partial_bytes) : nullptr,
                            static_cast<int>(m),
                            static_cast<int>(n),
                            static_cast<int>(k)};
    const int error = fp8_mm_launch(plan, args);
    TORCH_CHECK(error == 0, "launch of fp8_mm_kernel: ", hipGetErrorString(static_cast<hipError_t>(error)));
    return c;
}
#endif
