// Loads a compiled kernel by name and launches it with an array of pointers, then with a packed buffer, then as a
// library's.
#include "check.h"
#include <cstddef>

struct Shape {
  short rows;
  double scale;
};

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  hipModule_t module;
  hipFunction_t scale, none;
  OK(hipModuleLoad(&module, argv[1]));
  OK(hipModuleGetFunction(&scale, module, "scale"));
  EXPECT(hipModuleGetFunction(&none, module, "no_such") == hipErrorNotFound && hipGetLastError() == hipErrorNotFound);
  std::vector<double> x(64);
  for (int i = 0; i < 64; i++) x[i] = i;
  DeviceArray<double> dx(x);
  char low = 2;
  short high = 60;
  Shape shape = {50, 0.5};
  void* arguments[] = {&low, &shape, &dx.data, &high};
  OK(hipModuleLaunchKernel(scale, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));

  hipDeviceptr_t address;
  size_t bytes;
  OK(hipModuleGetGlobal(&address, &bytes, module, "factor"));
  EXPECT(bytes == sizeof(int));
  int factor = 10;
  OK(hipMemcpyHtoD(address, &factor, sizeof factor));
  struct {
    char low;
    Shape shape;
    double* x;
    short high;
  } packed = {0, {64, 1.0}, dx.data, 4};
  size_t size = offsetof(decltype(packed), high) + sizeof(short);
  void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_END};
  OK(hipModuleLaunchKernel(scale, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra));

  std::vector<double> got = dx.host();
  for (int i = 0; i < 64; i++) EXPECT(got[i] == i * (i >= 2 && i < 50 ? 1.5 : 1.0) * (i < 4 ? 10 : 1));

  hipLibrary_t library;
  hipKernel_t kernel;
  unsigned kernels;
  OK(hipLibraryLoadFromFile(&library, argv[1], nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(hipLibraryGetKernelCount(&kernels, library));
  OK(hipLibraryGetKernel(&kernel, library, "scale"));
  OK(hipLaunchKernel((const void*)kernel, dim3(1), dim3(64), arguments, 0, nullptr));
  OK(hipLibraryUnload(library));
  got = dx.host();
  EXPECT(kernels >= 1 && got[20] == 45 && got[55] == 55);

  OK(hipModuleUnload(module));
  EXPECT(hipModuleGetFunction(&none, module, "scale") == hipErrorInvalidHandle);
}
