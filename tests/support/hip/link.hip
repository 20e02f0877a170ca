// Bitcode made and linked at run time: two programs into one, a file, a bundle, bitcode loaded as it is, and none.
#include <hip/hiprtc.h>  // before any other: it stands by itself
#include "check.h"
#include <cstring>
#include <string>
#include <unistd.h>

#define RTC(call) EXPECT((call) == HIPRTC_SUCCESS)

static std::vector<char> bitcode_of(const char* source, const char* name, std::string* lowered = nullptr) {
  hiprtcProgram program;
  RTC(hiprtcCreateProgram(&program, source, name, 0, nullptr, nullptr));
  if (lowered) RTC(hiprtcAddNameExpression(program, lowered->c_str()));
  const char* options[] = {"-fgpu-rdc"};
  RTC(hiprtcCompileProgram(program, 1, options));
  size_t bytes = 0;
  RTC(hiprtcGetBitcodeSize(program, &bytes));
  std::vector<char> bitcode(bytes);
  RTC(hiprtcGetBitcode(program, bitcode.data()));
  EXPECT(hiprtcGetCodeSize(program, &bytes) == HIPRTC_ERROR_INVALID_PROGRAM);  // there is none before it is linked
  if (lowered) {
    const char* name;
    RTC(hiprtcGetLoweredName(program, lowered->c_str(), &name));
    *lowered = name;
  }
  RTC(hiprtcDestroyProgram(&program));
  return bitcode;
}

static std::vector<char> bundle_of(const std::vector<char>& bitcode) {  // as clang-offload-bundler lays it out
  hipDeviceProp_t card;
  OK(hipGetDeviceProperties(&card, 0));
  std::string arch(card.gcnArchName, strcspn(card.gcnArchName, ":"));
  std::string ids[] = {"host-x86_64-unknown-linux--", "hip-amdgcn-amd-amdhsa--" + arch};
  std::string head = "__CLANG_OFFLOAD_BUNDLE__";
  auto number = [&](unsigned long long n) { head.append((const char*)&n, 8); };
  number(2);
  unsigned long long at = 24 + 8 + 2 * 24 + ids[0].size() + ids[1].size(), bytes[] = {0, bitcode.size()};
  for (int i = 0; i < 2; i++) {
    number(at);
    number(bytes[i]);
    number(ids[i].size());
    head += ids[i];
  }
  std::vector<char> all(head.begin(), head.end());
  all.insert(all.end(), bitcode.begin(), bitcode.end());
  return all;
}

static int result_of(hipFunction_t kernel) {
  DeviceArray<int> out(std::vector<int>{0});
  void* arguments[] = {&out.data};
  OK(hipModuleLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  return out.host()[0];
}

int main() {
  std::string lowered = "answer<2>";
  std::vector<char> caller = bitcode_of(
      "__device__ int half(int);\n"
      "template <int N> __global__ void answer(int* x) { *x = N * half(42); }\n",
      "caller.hip", &lowered);
  std::vector<char> callee = bitcode_of(
      "__device__ __attribute__((noinline)) int half(int x) { return x / 2; }\n"
      "extern \"C\" __global__ void seven(int* x) { *x = 7; }\n",
      "callee.hip");
  char path[] = "/tmp/cdna-link-XXXXXX";
  int file = mkstemp(path);
  EXPECT(write(file, callee.data(), callee.size()) == (ssize_t)callee.size());
  const char* words[] = {"-mllvm", "-inline-threshold=1"};
  hiprtcJIT_option options[] = {HIPRTC_JIT_IR_TO_ISA_OPT_EXT, HIPRTC_JIT_IR_TO_ISA_OPT_COUNT_EXT};
  void* values[] = {words, (void*)2};
  std::vector<char> bundle = bundle_of(callee);
  for (int way = 0; way < 3; way++) {
    hiprtcLinkState state;
    RTC(hiprtcLinkCreate(2, options, values, &state));
    RTC(hiprtcLinkAddData(state, HIPRTC_JIT_INPUT_LLVM_BITCODE, caller.data(), caller.size(), "caller", 0, 0, 0));
    if (way == 0)
      RTC(hiprtcLinkAddData(state, HIPRTC_JIT_INPUT_LLVM_BITCODE, callee.data(), callee.size(), 0, 0, 0, 0));
    else if (way == 1) RTC(hiprtcLinkAddFile(state, HIPRTC_JIT_INPUT_LLVM_BITCODE, path, 0, nullptr, nullptr));
    else RTC(hiprtcLinkAddData(state, HIPRTC_JIT_INPUT_LLVM_BUNDLED_BITCODE, bundle.data(), bundle.size(), 0, 0, 0, 0));
    void* code;
    size_t bytes;
    RTC(hiprtcLinkComplete(state, &code, &bytes));
    hipModule_t module;
    hipFunction_t kernel;
    OK(hipModuleLoadData(&module, code));
    OK(hipModuleGetFunction(&kernel, module, lowered.c_str()));
    EXPECT(result_of(kernel) == 42);
    RTC(hiprtcLinkDestroy(state));
  }
  close(file);
  unlink(path);

  hipModule_t module;
  hipFunction_t kernel;
  OK(hipModuleLoadData(&module, callee.data()));  // bitcode that needs nothing else
  OK(hipModuleGetFunction(&kernel, module, "seven"));
  EXPECT(result_of(kernel) == 7);

  hipLinkState_t state;  // the same under HIP's own names; something is missing
  void* code;
  size_t bytes;
  OK(hipLinkCreate(0, nullptr, nullptr, &state));
  EXPECT(hipLinkAddData(state, hipJitInputPtx, caller.data(), caller.size(), "x", 0, 0, 0) == hipErrorInvalidValue);
  OK(hipLinkAddData(state, hipJitInputLLVMBitcode, caller.data(), caller.size(), "caller", 0, 0, 0));
  EXPECT(hipLinkComplete(state, &code, &bytes) == hipErrorInvalidImage);
  OK(hipLinkDestroy(state));
  EXPECT(hipLinkDestroy(state) == hipErrorInvalidValue && hiprtcLinkDestroy(nullptr) == HIPRTC_ERROR_INVALID_INPUT);
  return 0;
}
