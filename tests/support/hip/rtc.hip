// Kernels compiled at run time: headers, options, lowered names, a log where it does not compile.
#include "check.h"
#include <hip/hiprtc.h>
#include <cstring>
#include <string>

#define RTC(call) EXPECT((call) == HIPRTC_SUCCESS)

static const char* const SOURCE = R"(
#include "scale.h"
namespace inner {
template <class T> __global__ void scale(T* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * SCALE + OFFSET;
}
}
__device__ int counter = 7;
extern "C" __global__ void count(int* x) { *x = counter; }
)";

int main() {
  const char* headers[] = {"#define SCALE 3\n"};
  const char* names[] = {"scale.h"};
  hiprtcProgram program;
  RTC(hiprtcCreateProgram(&program, SOURCE, "made.cu", 1, headers, names));
  RTC(hiprtcAddNameExpression(program, "inner::scale<float>"));
  RTC(hiprtcAddNameExpression(program, "&inner::scale<int>"));
  RTC(hiprtcAddNameExpression(program, "counter"));
  const char* lowered;
  EXPECT(hiprtcGetLoweredName(program, "counter", &lowered) == HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION);
  hipDeviceProp_t card;
  OK(hipGetDeviceProperties(&card, 0));
  std::string arch = std::string("--gpu-architecture=") + card.gcnArchName;
  const char* options[] = {arch.c_str(), "-DOFFSET=1", "-O3"};
  RTC(hiprtcCompileProgram(program, 3, options));
  size_t bytes;
  RTC(hiprtcGetProgramLogSize(program, &bytes));
  EXPECT(bytes == 0);
  RTC(hiprtcGetCodeSize(program, &bytes));
  std::vector<char> code(bytes);
  RTC(hiprtcGetCode(program, code.data()));
  hipModule_t module;
  OK(hipModuleLoadData(&module, code.data()));

  DeviceArray<float> x(std::vector<float>{1, 2, 3});
  DeviceArray<int> y(std::vector<int>{4, 5, 6});
  hipFunction_t kernel;
  int n = 3;
  void* of_x[] = {&x.data, &n};
  void* of_y[] = {&y.data, &n};
  RTC(hiprtcGetLoweredName(program, "inner::scale<float>", &lowered));
  OK(hipModuleGetFunction(&kernel, module, lowered));
  OK(hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, nullptr, of_x, nullptr));
  RTC(hiprtcGetLoweredName(program, "&inner::scale<int>", &lowered));
  OK(hipModuleGetFunction(&kernel, module, lowered));
  OK(hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, nullptr, of_y, nullptr));
  EXPECT(x.host() == std::vector<float>({4, 7, 10}) && y.host() == std::vector<int>({13, 16, 19}));
  RTC(hiprtcGetLoweredName(program, "counter", &lowered));
  hipDeviceptr_t counter;
  OK(hipModuleGetGlobal(&counter, &bytes, module, lowered));
  EXPECT(bytes == 4);
  n = 12;
  OK(hipMemcpy(counter, &n, 4, hipMemcpyHostToDevice));
  OK(hipModuleGetFunction(&kernel, module, "count"));
  OK(hipModuleLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, of_y, nullptr));
  EXPECT(y.host()[0] == 12);
  EXPECT(hiprtcGetLoweredName(program, "other", &lowered) == HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID);
  RTC(hiprtcDestroyProgram(&program));

  RTC(hiprtcCreateProgram(&program, "__global__ void k(int* x) {\n  *x = nothing;\n}\n", "wrong.cu", 0, nullptr,
                          nullptr));
  EXPECT(hiprtcCompileProgram(program, 0, nullptr) == HIPRTC_ERROR_COMPILATION);
  RTC(hiprtcGetProgramLogSize(program, &bytes));
  std::string log(bytes, 0);
  RTC(hiprtcGetProgramLog(program, &log[0]));
  EXPECT(strstr(log.c_str(), "wrong.cu:2") && strstr(log.c_str(), "nothing"));
  const char* other[] = {"--offload-arch=gfx1100"};
  EXPECT(hiprtcCompileProgram(program, 1, other) == HIPRTC_ERROR_INVALID_OPTION);
  RTC(hiprtcDestroyProgram(&program));
  return 0;
}
