// Virtual memory management, advice about memory, contexts, entry points, fills of rectangles, timed launches.
#include "check.h"
#include <hip/hip_hcc.h>
#include <hip/hip_math_constants.h>
#include <hip/hip_profile.h>
#include <sys/wait.h>
#include <unistd.h>

__global__ void add_one(int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i]++;
}

static void virtual_memory() {
  int supported = 0;
  OK(hipDeviceGetAttribute(&supported, hipDeviceAttributeVirtualMemoryManagementSupported, 0));
  EXPECT(supported == 1);
  hipMemAllocationProp p = {};
  p.type = hipMemAllocationTypePinned;
  p.location = {hipMemLocationTypeDevice, 0};
  size_t page = 0;
  OK(hipMemGetAllocationGranularity(&page, &p, hipMemAllocationGranularityMinimum));
  hipMemGenericAllocationHandle_t memory, again;
  OK(hipMemCreate(&memory, 2 * page, &p, 0));
  EXPECT(hipMemCreate(&again, page + 1, &p, 0) == hipErrorInvalidValue);
  char* base;
  OK(hipMemAddressReserve((void**)&base, 8 * page, 1 << 21, nullptr, 0));
  EXPECT((size_t)base % (1 << 21) == 0);
  EXPECT(hipMemMap(base + 8 * page, page, 0, memory, 0) == hipErrorInvalidValue);  // not reserved
  OK(hipMemMap(base, 2 * page, 0, memory, 0));
  OK(hipMemMap(base + 4 * page, page, page, memory, 0));  // its second page once more
  EXPECT(hipMemMap(base + page, page, 0, memory, 0) == hipErrorInvalidValue);
  hipMemAccessDesc access = {p.location, hipMemAccessFlagsProtReadWrite};
  OK(hipMemSetAccess(base, 2 * page, &access, 1));
  OK(hipMemSetAccess(base + 4 * page, page, &access, 1));
  unsigned long long flags;
  OK(hipMemGetAccess(&flags, &p.location, base + page));
  EXPECT(flags == hipMemAccessFlagsProtReadWrite);
  int n = 2 * page / sizeof(int);
  OK(hipMemsetD32((hipDeviceptr_t)base, 5, n));
  add_one<<<n / 64, 64>>>((int*)base, n);
  int first = 0, alias = 0;
  OK(hipMemcpy(&first, base, sizeof first, hipMemcpyDeviceToHost));
  OK(hipMemcpy(&alias, base + 4 * page, sizeof alias, hipMemcpyDeviceToHost));
  EXPECT(first == 6 && alias == 6);
  OK(hipMemRetainAllocationHandle(&again, base));
  EXPECT(again == memory);
  OK(hipMemRelease(again));
  EXPECT(hipFree(base) == hipErrorInvalidValue);
  int file = -1;
  OK(hipMemExportToShareableHandle(&file, memory, hipMemHandleTypePosixFileDescriptor, 0));
  EXPECT(hipMemUnmap(base, 8 * page) == hipErrorInvalidValue);  // it has holes
  OK(hipMemUnmap(base, 2 * page));
  EXPECT(hipMemAddressFree(base, 8 * page) == hipErrorInvalidValue);  // a mapping is left
  OK(hipMemUnmap(base + 4 * page, page));
  OK(hipMemRelease(memory));
  OK(hipMemImportFromShareableHandle(&memory, (void*)(size_t)file, hipMemHandleTypePosixFileDescriptor));
  close(file);
  OK(hipMemMap(base, 2 * page, 0, memory, 0));
  OK(hipMemSetAccess(base, 2 * page, &access, 1));
  OK(hipMemcpy(&first, base, sizeof first, hipMemcpyDeviceToHost));
  EXPECT(first == 6);
  OK(hipMemUnmap(base, 2 * page));
  OK(hipMemAddressFree(base, 8 * page));
  OK(hipMemRelease(memory));
}

static void advice() {
  int* p;
  size_t bytes = 3 * 4096;
  OK(hipMallocManaged((void**)&p, bytes));
  int value = 7, devices[3];
  OK(hipMemAdvise(p, bytes, hipMemAdviseSetReadMostly, 0));
  OK(hipMemRangeGetAttribute(&value, sizeof value, hipMemRangeAttributeReadMostly, p, bytes));
  EXPECT(value == 1);
  OK(hipMemAdvise(p, 4, hipMemAdviseUnsetReadMostly, 0));
  OK(hipMemRangeGetAttribute(&value, sizeof value, hipMemRangeAttributeReadMostly, p, bytes));
  EXPECT(value == 0);  // not of its first page
  OK(hipMemAdvise(p, bytes, hipMemAdviseSetPreferredLocation, 1));
  OK(hipMemAdvise(p, bytes, hipMemAdviseSetAccessedBy, 0));
  OK(hipMemAdvise(p, bytes, hipMemAdviseSetAccessedBy, hipCpuDeviceId));
  OK(hipMemPrefetchAsync(p, bytes, hipCpuDeviceId, nullptr));
  void* out[] = {&value, devices};
  size_t sizes[] = {sizeof value, sizeof devices};
  hipMemRangeAttribute which[] = {hipMemRangeAttributePreferredLocation, hipMemRangeAttributeAccessedBy};
  OK(hipMemRangeGetAttributes(out, sizes, which, 2, p, bytes));
  EXPECT(value == 1 && devices[0] == hipCpuDeviceId && devices[1] == 0 && devices[2] == hipInvalidDeviceId);
  OK(hipMemRangeGetAttribute(&value, sizeof value, hipMemRangeAttributeLastPrefetchLocation, p, bytes));
  EXPECT(value == hipCpuDeviceId);
  EXPECT(hipMemAdvise(p, bytes, hipMemAdviseSetAccessedBy, 99) == hipErrorInvalidDevice);
  EXPECT(hipMemPrefetchAsync(p, bytes + 1, 0, nullptr) == hipErrorInvalidValue);
  OK(hipFree(p));
}

static void contexts() {
  hipCtx_t context, current;
  hipDevice_t device;
  OK(hipCtxCreate(&context, 0, 1));
  OK(hipCtxGetDevice(&device));
  OK(hipCtxGetCurrent(&current));
  EXPECT(device == 1 && current == context);
  OK(hipCtxPopCurrent(&current));
  OK(hipCtxGetDevice(&device));
  EXPECT(device == 0 && current == context && hipCtxPopCurrent(&current) == hipErrorInvalidContext);
  OK(hipCtxPushCurrent(context));
  OK(hipCtxDestroy(context));
  OK(hipCtxGetDevice(&device));
  EXPECT(device == 0);
}

static void entry_points() {
  hipError_t (*count)(int*) = nullptr;
  hipDriverProcAddressQueryResult found;
  OK(hipGetProcAddress("hipGetDeviceCount", (void**)&count, HIP_VERSION, 0, &found));
  int n = 0;
  EXPECT(found == HIP_GET_PROC_ADDRESS_SUCCESS && count && count(&n) == hipSuccess && n == 2);
  EXPECT(hipGetProcAddress("hipNoSuchCall", (void**)&count, HIP_VERSION, 0, &found) == hipErrorInvalidValue);
  EXPECT(found == HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

static void rectangles() {
  DeviceArray<unsigned short> x(std::vector<unsigned short>(64, 1));
  OK(hipMemsetD2D16((hipDeviceptr_t)x.data, 32, 0x1234, 3, 2));
  std::vector<unsigned short> host = x.host();
  EXPECT(host[2] == 0x1234 && host[3] == 1 && host[16] == 0x1234 && host[18] == 0x1234 && host[32] == 1);
}

__global__ void constants(double* out) {
  out[0] = HIP_PI + HIP_PI_LO;
  out[1] = HIP_INF_F;
  out[2] = HIP_LN2_X_1024;
}

static void timed_launches() {
  HIP_SCOPED_MARKER("launches", "test");
  hipEvent_t start, stop;
  OK(hipEventCreate(&start));
  OK(hipEventCreate(&stop));
  DeviceArray<int> x(std::vector<int>(64, 1));
  hipExtLaunchKernelGGL(add_one, dim3(1), dim3(64), 0, nullptr, start, stop, 0, x.data, 63u);
  float ms = -1;
  OK(hipEventElapsedTime(&ms, start, stop));
  std::vector<int> host = x.host();
  EXPECT(ms > 0 && host[62] == 2 && host[63] == 1);
  DeviceArray<double> numbers(3);
  constants<<<1, 1>>>(numbers.data);
  std::vector<double> got = numbers.host();
  EXPECT(got[0] == __builtin_acos(-1.0) && got[1] == HIP_INF && got[2] == 1024 * __builtin_log(2.0));
}

// A pool's memory in another process; the parent has touched no device when it forks.
static void pools_of_two_processes() {
  int ends[2], back[2];
  EXPECT(!pipe(ends) && !pipe(back));
  pid_t child = fork();
  hipMemPoolProps p = {};
  p.allocType = hipMemAllocationTypePinned;
  p.handleTypes = hipMemHandleTypePosixFileDescriptor;
  p.location = {hipMemLocationTypeDevice, 0};
  hipMemPool_t pool;
  OK(hipMemPoolCreate(&pool, &p));
  hipMemPoolPtrExportData data;
  int* x;
  if (child) {
    OK(hipMallocFromPoolAsync((void**)&x, 256, pool, nullptr));
    OK(hipMemsetD32((hipDeviceptr_t)x, 11, 64));
    OK(hipMemPoolExportPointer(&data, x));
    EXPECT(write(ends[1], &data, sizeof data) == sizeof data);
    int status = 1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(x[3] == 12);
    OK(hipFreeAsync(x, nullptr));
    return;
  }
  int file = -1;
  hipMemPool_t other;
  OK(hipMemPoolExportToShareableHandle(&file, pool, hipMemHandleTypePosixFileDescriptor, 0));
  OK(hipMemPoolImportFromShareableHandle(&other, (void*)(size_t)file, hipMemHandleTypePosixFileDescriptor, 0));
  EXPECT(read(ends[0], &data, sizeof data) == sizeof data);
  OK(hipMemPoolImportPointer((void**)&x, other, &data));
  add_one<<<1, 64>>>(x, 64);
  OK(hipDeviceSynchronize());
  EXPECT(x[5] == 12);
  OK(hipFree(x));
  _exit(0);
}

int main() {
  pools_of_two_processes();
  virtual_memory();
  advice();
  contexts();
  entry_points();
  rectangles();
  timed_launches();
  return 0;
}
