// What the host can ask of the runtime: globals, streams, events, callbacks, graphs, pitched and peer copies,
// properties.
#include "check.h"
#include <cstring>

__device__ int counter = 5;
__device__ float table[8];
__managed__ int shared_value = 40;

__global__ void use_globals(float* out) {
  if (threadIdx.x < 8) out[threadIdx.x] = table[threadIdx.x] * counter;
  if (threadIdx.x == 0) shared_value += 2;
}
__global__ void add(int* x, int value, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += value;
}
__global__ void twice(int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2;
}

static void globals() {
  float values[8], *address;
  for (int i = 0; i < 8; i++) values[i] = i + 0.5f;
  OK(hipMemcpyToSymbol(HIP_SYMBOL(table), values, sizeof values));
  size_t bytes;
  OK(hipGetSymbolSize(&bytes, HIP_SYMBOL(table)));
  OK(hipGetSymbolAddress((void**)&address, HIP_SYMBOL(table)));
  EXPECT(bytes == 32);
  DeviceArray<float> out(8);
  use_globals<<<1, 64>>>(out.data);
  OK(hipDeviceSynchronize());
  std::vector<float> got = out.host();
  for (int i = 0; i < 8; i++) EXPECT(got[i] == (i + 0.5f) * 5);
  int seven = 7, back = 0;
  OK(hipMemcpyToSymbol(HIP_SYMBOL(counter), &seven, sizeof seven));
  OK(hipMemcpyFromSymbol(&back, HIP_SYMBOL(counter), sizeof back));
  EXPECT(back == 7 && shared_value == 42);
  EXPECT(hipMemcpyToSymbol(HIP_SYMBOL(counter), values, sizeof values) == hipErrorInvalidValue &&
         hipGetLastError() == hipErrorInvalidValue);
}

static void streams() {
  const int n = 1000;
  hipStream_t a, b;
  hipEvent_t begun, done;
  OK(hipStreamCreate(&a));
  OK(hipStreamCreateWithFlags(&b, hipStreamNonBlocking));
  OK(hipEventCreate(&begun));
  OK(hipEventCreate(&done));
  EXPECT(hipEventElapsedTime(nullptr, begun, done) == hipErrorInvalidValue);
  int* x;
  OK(hipMallocAsync((void**)&x, n * sizeof(int), a));
  OK(hipMemsetAsync(x, 0, n * sizeof(int), a));
  OK(hipEventRecord(begun, a));
  add<<<4, 256, 0, a>>>(x, 21, n);
  OK(hipEventRecord(done, a));
  OK(hipStreamWaitEvent(b, done, 0));
  twice<<<4, 256, 0, b>>>(x, n);
  static int called = 0;
  OK(hipLaunchHostFunc(b, [](void* p) { ++*(int*)p; }, &called));
  OK(hipStreamAddCallback(
      b, [](hipStream_t, hipError_t error, void* p) { *(int*)p += error == hipSuccess ? 10 : 100; }, &called, 0));
  OK(hipStreamSynchronize(b));
  std::vector<int> got(n);
  OK(hipMemcpy(got.data(), x, n * sizeof(int), hipMemcpyDeviceToHost));
  for (int v : got) EXPECT(v == 42);
  EXPECT(called == 11 && hipStreamQuery(a) == hipSuccess && hipEventQuery(done) == hipSuccess);
  float ms = -1;
  OK(hipEventElapsedTime(&ms, begun, done));
  EXPECT(ms >= 0);
  OK(hipFreeAsync(x, a));
  OK(hipStreamDestroy(a));
  OK(hipStreamDestroy(b));
  EXPECT(hipStreamSynchronize(a) == hipErrorInvalidHandle);
  (void)hipGetLastError();
}

static void graphs() {
  const int n = 256;
  DeviceArray<int> x(n);
  std::vector<int> zero(n), got(n);
  hipStream_t s, other;
  hipEvent_t fork, join;
  OK(hipStreamCreate(&s));
  OK(hipStreamCreate(&other));
  OK(hipEventCreate(&fork));
  OK(hipEventCreate(&join));
  DeviceArray<int> y(n);
  OK(hipMemset(x.data, 0, n * sizeof(int)));
  OK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
  add<<<1, n, 0, s>>>(x.data, 3, n);
  OK(hipEventRecord(fork, s));
  OK(hipStreamWaitEvent(other, fork, 0));
  OK(hipMemsetAsync(y.data, 0, n * sizeof(int), other));
  add<<<1, n, 0, other>>>(y.data, 9, n);
  OK(hipEventRecord(join, other));
  twice<<<1, n, 0, s>>>(x.data, n);
  OK(hipStreamWaitEvent(s, join, 0));
  OK(hipMemcpyAsync(got.data(), x.data, n * sizeof(int), hipMemcpyDeviceToHost, s));
  hipGraph_t graph;
  OK(hipStreamEndCapture(s, &graph));
  size_t nodes = 0;
  OK(hipGraphGetNodes(graph, nullptr, &nodes));
  EXPECT(nodes == 5 && x.host() == zero);  // captured, not run
  hipGraphExec_t executable;
  OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  OK(hipGraphDestroy(graph));
  int want = 0;
  for (int i = 0; i < 3; i++) {
    OK(hipGraphLaunch(executable, s));
    OK(hipStreamSynchronize(s));
    want = (want + 3) * 2;
    for (int v : got) EXPECT(v == want);
  }
  for (int v : y.host()) EXPECT(v == 9);
  OK(hipGraphExecDestroy(executable));

  OK(hipGraphCreate(&graph, 0));
  int value = 5, count = n;
  int* p = x.data;
  void* arguments[] = {&p, &value, &count};
  hipKernelNodeParams kernel = {};
  kernel.func = (void*)add;
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(n);
  kernel.kernelParams = arguments;
  hipMemsetParams fill = {};
  fill.dst = x.data;
  fill.elementSize = 4;
  fill.width = n;
  fill.height = 1;
  fill.value = 100;
  hipGraphNode_t clear, increase;
  OK(hipGraphAddMemsetNode(&clear, graph, nullptr, 0, &fill));
  OK(hipGraphAddKernelNode(&increase, graph, &clear, 1, &kernel));
  OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  OK(hipGraphLaunch(executable, s));
  for (int v : x.host()) EXPECT(v == 105);
  value = 6;
  OK(hipGraphExecKernelNodeSetParams(executable, increase, &kernel));
  OK(hipGraphLaunch(executable, s));
  for (int v : x.host()) EXPECT(v == 106);
}

static void destroyed(void* times) { ++*(int*)times; }

// Nodes by the generic call, of every kind that it takes, read and changed again.
static void any_nodes() {
  const int n = 64;
  DeviceArray<int> x(n);
  hipStream_t s;
  hipGraph_t graph, child;
  hipEvent_t before, after;
  OK(hipStreamCreate(&s));
  OK(hipEventCreate(&before));
  OK(hipEventCreate(&after));
  OK(hipGraphCreate(&graph, 0));
  OK(hipGraphCreate(&child, 0));
  int value = 5, count = n, called = 0;
  hipGraphNode_t last = nullptr, node, kernel, copy;
  hipGraphNodeParams p = {};
  auto add_to = [&](hipGraph_t g, hipGraphNodeType type) {
    p.type = type;
    OK(hipGraphAddNode(&node, g, &last, last != nullptr, &p));
    hipGraphNodeType told;
    OK(hipGraphNodeGetType(node, &told));
    EXPECT(told == type);
    last = node;
  };
  p = {};
  p.eventRecord.event = before;
  add_to(graph, hipGraphNodeTypeEventRecord);
  hipEvent_t event;
  OK(hipGraphEventRecordNodeGetEvent(node, &event));
  EXPECT(event == before && hipGraphEventWaitNodeGetEvent(node, &event) == hipErrorInvalidValue);
  p = {};
  p.alloc.poolProps.allocType = hipMemAllocationTypePinned;
  p.alloc.poolProps.location = {hipMemLocationTypeDevice, 0};
  p.alloc.bytesize = n * sizeof(int);
  add_to(graph, hipGraphNodeTypeMemAlloc);
  int* scratch = (int*)p.alloc.dptr;
  hipMemAllocNodeParams allocated;
  OK(hipGraphMemAllocNodeGetParams(node, &allocated));
  EXPECT(allocated.dptr == scratch && allocated.bytesize == n * sizeof(int));
  p = {};
  p.memset.dst = scratch;
  p.memset.elementSize = 4;
  p.memset.width = n;
  p.memset.height = 1;
  p.memset.value = 100;
  add_to(graph, hipGraphNodeTypeMemset);
  p.memset.value = 200;
  OK(hipGraphNodeSetParams(node, &p));
  void* arguments[] = {&scratch, &value, &count};
  p = {};
  p.kernel.func = (void*)add;
  p.kernel.gridDim = dim3(1);
  p.kernel.blockDim = dim3(n);
  p.kernel.kernelParams = arguments;
  add_to(graph, hipGraphNodeTypeKernel);
  kernel = node;
  hipKernelNodeAttrValue attribute = {};
  attribute.priority = 1;
  OK(hipGraphKernelNodeSetAttribute(kernel, hipKernelNodeAttributePriority, &attribute));
  attribute.priority = 0;
  OK(hipGraphKernelNodeGetAttribute(kernel, hipKernelNodeAttributePriority, &attribute));
  EXPECT(attribute.priority == 1);
  attribute.cooperative = 2;
  OK(hipGraphKernelNodeSetAttribute(kernel, hipKernelNodeAttributeCooperative, &attribute));
  attribute.cooperative = 0;
  OK(hipGraphKernelNodeGetAttribute(kernel, hipKernelNodeAttributeCooperative, &attribute));
  EXPECT(attribute.cooperative == 2);
  int window;
  OK(hipDeviceGetAttribute(&window, hipDeviceAttributeAccessPolicyMaxWindowSize, 0));
  EXPECT(window == 0);
  EXPECT(hipGraphKernelNodeSetAttribute(kernel, (hipKernelNodeAttrID)-1, &attribute) == hipErrorInvalidValue);
  hipMemcpy3DParms all = {};
  all.srcPtr = make_hipPitchedPtr(scratch, n * sizeof(int), n, 1);
  all.dstPtr = make_hipPitchedPtr(x.data, n * sizeof(int), n, 1);
  all.extent = make_hipExtent(n * sizeof(int), 1, 1);
  p = {};
  p.memcpy.copyParams = all;
  add_to(graph, hipGraphNodeTypeMemcpy);
  copy = node;
  p = {};
  p.free.dptr = scratch;
  add_to(graph, hipGraphNodeTypeMemFree);
  void* freed;
  OK(hipGraphMemFreeNodeGetParams(node, &freed));
  EXPECT(freed == scratch);
  p = {};
  p.host = {destroyed, &called};
  last = nullptr;
  add_to(child, hipGraphNodeTypeHost);
  last = copy;
  p = {};
  p.graph.graph = child;
  add_to(graph, hipGraphNodeTypeGraph);
  hipGraphNode_t nested = node;
  p = {};
  add_to(graph, hipGraphNodeTypeEmpty);
  p.eventRecord.event = before;
  add_to(graph, hipGraphNodeTypeEventRecord);
  OK(hipGraphEventRecordNodeSetEvent(node, after));
  p.eventWait.event = after;
  add_to(graph, hipGraphNodeTypeWaitEvent);
  p.type = (hipGraphNodeType)0x20;
  EXPECT(hipGraphAddNode(&node, graph, nullptr, 0, &p) == hipErrorInvalidValue);
  p.type = hipGraphNodeTypeExtSemaphoreWait;
  EXPECT(hipGraphAddNode(&node, graph, nullptr, 0, &p) == hipErrorNotSupported);

  hipMemcpy3DParms read;
  OK(hipGraphMemcpyNodeGetParams(copy, &read));
  EXPECT(read.srcPtr.ptr == scratch && read.dstPtr.ptr == x.data && read.extent.width == n * sizeof(int));
  OK(hipGraphDebugDotPrint(graph, "/dev/null", hipGraphDebugDotFlagsVerbose));

  hipGraphExec_t executable;
  hipGraphInstantiateParams how = {};
  OK(hipGraphInstantiateWithParams(&executable, graph, &how));
  EXPECT(how.result_out == hipGraphInstantiateSuccess);
  for (int i = 1; i <= 2; i++) {
    OK(hipGraphLaunch(executable, s));
    OK(hipStreamSynchronize(s));
    for (int v : x.host()) EXPECT(v == 205);
    EXPECT(called == i);
  }
  float ms;
  OK(hipEventElapsedTime(&ms, before, after));
  value = 7;
  p = {};
  p.type = hipGraphNodeTypeKernel;
  p.kernel.func = (void*)add;
  p.kernel.gridDim = dim3(1);
  p.kernel.blockDim = dim3(n);
  p.kernel.kernelParams = arguments;
  OK(hipGraphExecNodeSetParams(executable, kernel, &p));
  OK(hipGraphExecMemcpyNodeSetParamsFromSymbol(executable, copy, x.data, HIP_SYMBOL(table), 32, 0, hipMemcpyDefault));
  OK(hipGraphExecChildGraphNodeSetParams(executable, nested, child));
  OK(hipMemset(x.data, 0, n * sizeof(int)));
  OK(hipGraphLaunch(executable, s));
  std::vector<int> sums(n);
  OK(hipMemcpy(sums.data(), scratch, n * sizeof(int), hipMemcpyDeviceToHost));
  for (int v : sums) EXPECT(v == 207);
  float first;
  std::memcpy(&first, x.host().data(), sizeof first);
  EXPECT(first == 0.5f && x.host()[8] == 0 && called == 3);

  OK(hipGraphDestroy(graph));
  OK(hipGraphExecDestroy(executable));

  // capture that goes on with a graph of the program's
  OK(hipGraphCreate(&graph, 0));
  OK(hipGraphAddEmptyNode(&node, graph, nullptr, 0));
  OK(hipStreamBeginCaptureToGraph(s, graph, &node, nullptr, 1, hipStreamCaptureModeGlobal));
  add<<<1, n, 0, s>>>(x.data, 1, n);
  hipStream_t other;
  OK(hipStreamCreate(&other));
  OK(hipEventRecord(before, s));
  OK(hipStreamWaitEvent(other, before, 0));
  add<<<1, n, 0, other>>>(x.data, 2, n);
  OK(hipEventRecord(after, other));
  OK(hipStreamWaitEvent(s, after, 0));  // joined, and then let go
  OK(hipStreamUpdateCaptureDependencies(s, &node, 1, hipStreamSetCaptureDependencies));
  twice<<<1, n, 0, s>>>(x.data, n);
  hipGraph_t same;
  OK(hipStreamEndCapture(s, &same));
  size_t followers = 0;
  OK(hipGraphNodeGetDependentNodes(node, nullptr, &followers));
  EXPECT(same == graph && followers == 2);
}

static void memory() {
  int devices;
  OK(hipGetDeviceCount(&devices));
  EXPECT(devices == 2);
  const int n = 300;
  std::vector<int> x(n), back(n);
  for (int i = 0; i < n; i++) x[i] = i;
  int *first, *second, can = 0;
  OK(hipDeviceCanAccessPeer(&can, 0, 1));
  EXPECT(can == 1);
  OK(hipSetDevice(0));
  OK(hipDeviceEnablePeerAccess(1, 0));
  OK(hipMalloc(&first, n * sizeof(int)));
  OK(hipMemcpy(first, x.data(), n * sizeof(int), hipMemcpyHostToDevice));
  OK(hipSetDevice(1));
  OK(hipMalloc(&second, n * sizeof(int)));
  OK(hipMemcpyPeer(second, 1, first, 0, n * sizeof(int)));
  twice<<<2, 256>>>(second, n);
  OK(hipMemcpy(back.data(), second, n * sizeof(int), hipMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) EXPECT(back[i] == 2 * i);
  // each device has globals of its own
  int value = 77, other = 0;
  OK(hipMemcpyToSymbol(HIP_SYMBOL(counter), &value, sizeof value));
  OK(hipSetDevice(0));
  OK(hipMemcpyFromSymbol(&other, HIP_SYMBOL(counter), sizeof other));
  EXPECT(other == 7);
  hipPointerAttribute_t about;
  OK(hipPointerGetAttributes(&about, second + 5));
  EXPECT(about.type == hipMemoryTypeDevice && about.device == 1);
  EXPECT(hipMemcpy(first, x.data(), (n + 1) * sizeof(int), hipMemcpyHostToDevice) == hipErrorInvalidValue);
  EXPECT(hipFree(x.data()) == hipErrorInvalidValue && hipGetLastError() == hipErrorInvalidValue);
  OK(hipFree(first));

  char* image;
  size_t pitch;
  OK(hipMallocPitch((void**)&image, &pitch, 100, 9));
  EXPECT(pitch >= 100 && pitch % 64 == 0);
  std::vector<char> rows(900), again(900);
  for (int i = 0; i < 900; i++) rows[i] = char(i * 7);
  OK(hipMemcpy2D(image, pitch, rows.data(), 100, 100, 9, hipMemcpyHostToDevice));
  OK(hipMemcpy2D(again.data(), 100, image, pitch, 100, 9, hipMemcpyDeviceToHost));
  EXPECT(rows == again);
  HIP_MEMCPY3D part = {};
  part.srcMemoryType = hipMemoryTypeDevice;
  part.srcDevice = image;
  part.srcPitch = pitch;
  part.srcXInBytes = 10;
  part.srcY = 2;
  part.dstMemoryType = hipMemoryTypeHost;
  part.dstHost = again.data();
  part.dstPitch = 100;
  part.WidthInBytes = 50;
  part.Height = 3;
  part.Depth = 1;
  OK(hipDrvMemcpy3D(&part));
  for (int i = 0; i < 150; i++) EXPECT(again[i / 50 * 100 + i % 50] == rows[(2 + i / 50) * 100 + 10 + i % 50]);
  OK(hipMemsetD32((hipDeviceptr_t)second, 0x01020304, n));
  OK(hipMemcpy(back.data(), second, n * sizeof(int), hipMemcpyDeviceToHost));
  EXPECT(back[n - 1] == 0x01020304);
}

static void asking() {
  hipDeviceProp_t p;
  OK(hipGetDeviceProperties(&p, 0));
  bool mi300 = !std::strncmp(p.gcnArchName, "gfx942", 6);
  EXPECT(p.warpSize == 64 && p.multiProcessorCount == (mi300 ? 304 : 256) &&
         p.sharedMemPerBlock == (mi300 ? 65536u : 163840u));
  int value, blocks, grid;
  OK(hipDeviceGetAttribute(&value, hipDeviceAttributeMultiprocessorCount, 0));
  EXPECT(value == p.multiProcessorCount);
  OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 0));
  EXPECT(blocks == 8);  // 32 waves of a compute unit
  OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, p.sharedMemPerBlock / 2));
  EXPECT(blocks == 2);
  OK(hipOccupancyMaxPotentialBlockSize(&grid, &value, add, 0, 0));
  EXPECT(value == 1024 && grid == 2 * p.multiProcessorCount);
  hipFuncAttributes attributes;
  OK(hipFuncGetAttributes(&attributes, (const void*)add));
  EXPECT(attributes.maxThreadsPerBlock == 1024 && attributes.numRegs > 0 && attributes.sharedSizeBytes == 0);
  add<<<1, 2048>>>(nullptr, 0, 0);
  EXPECT(hipPeekAtLastError() == hipErrorInvalidConfiguration && hipGetLastError() == hipErrorInvalidConfiguration);
  EXPECT(hipGetLastError() == hipSuccess &&
         !std::strcmp(hipGetErrorName(hipErrorInvalidValue), "hipErrorInvalidValue"));
  EXPECT(hipSetDevice(99) == hipErrorInvalidDevice);
  hipArray_t array;  // nor has the card textures
  hipChannelFormatDesc d = hipCreateChannelDesc(32, 0, 0, 0, hipChannelFormatKindFloat);
  EXPECT(d.x == 32 && d.f == hipChannelFormatKindFloat);
  EXPECT(hipMallocArray(&array, &d, 4, 4) == hipErrorNotSupported && hipGetLastError() == hipErrorNotSupported);
}

int main() {
  globals();
  streams();
  graphs();
  any_nodes();
  memory();
  asking();
}
