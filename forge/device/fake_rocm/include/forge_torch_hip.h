// What a ROCm build of torch has in c10/hip and ATen/hip and a CPU build lacks: streams, guards, checks, device queries,
// the allocator. Every spelling of three generations of hipify is here: c10::cuda, c10::hip, ...MasqueradingAsCUDA.
// The current stream is that of torch.cuda (streams.py), the current device that of the HIP runtime.
#pragma once
#include <Python.h>
#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <hip/hip_runtime.h>

#include <utility>

// --- checks ------------------------------------------------------------------------------------------------------

namespace c10 {
class CUDAError : public Error {
  using Error::Error;
};
}  // namespace c10

#define C10_CUDA_CHECK(call)                                                                                        \
  do {                                                                                                              \
    const hipError_t forge_error = (call);                                                                          \
    if (C10_UNLIKELY(forge_error != hipSuccess)) {                                                                  \
      (void)hipGetLastError();                                                                                      \
      TORCH_CHECK(false, "HIP error: ", hipGetErrorString(forge_error), " (", #call, ", ", __FILE__, ":", __LINE__, \
                  ")");                                                                                             \
    }                                                                                                               \
  } while (0)
#define C10_CUDA_CHECK_WARN(call)                                  \
  do {                                                             \
    const hipError_t forge_error = (call);                         \
    if (C10_UNLIKELY(forge_error != hipSuccess)) {                 \
      (void)hipGetLastError();                                     \
      TORCH_WARN("HIP warning: ", hipGetErrorString(forge_error)); \
    }                                                              \
  } while (0)
#define C10_CUDA_ERROR_HANDLED(call) call
#define C10_CUDA_IGNORE_ERROR(call) ((void)(call), (void)hipGetLastError())
#define C10_CUDA_CLEAR_ERROR() ((void)hipGetLastError())
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(hipGetLastError())
#define AT_CUDA_CHECK(call) C10_CUDA_CHECK(call)
#define C10_HIP_CHECK C10_CUDA_CHECK
#define C10_HIP_CHECK_WARN C10_CUDA_CHECK_WARN
#define C10_HIP_ERROR_HANDLED C10_CUDA_ERROR_HANDLED
#define C10_HIP_IGNORE_ERROR C10_CUDA_IGNORE_ERROR
#define C10_HIP_CLEAR_ERROR C10_CUDA_CLEAR_ERROR
#define C10_HIP_KERNEL_LAUNCH_CHECK C10_CUDA_KERNEL_LAUNCH_CHECK
#define AT_HIP_CHECK C10_CUDA_CHECK

namespace c10::cuda {

// --- devices -----------------------------------------------------------------------------------------------------

inline DeviceIndex device_count() noexcept {
  int count = 0;
  return hipGetDeviceCount(&count) == hipSuccess ? (DeviceIndex)count : 0;
}
inline DeviceIndex device_count_ensure_non_zero() { return device_count(); }
inline DeviceIndex current_device() {
  int device = 0;
  C10_CUDA_CHECK(hipGetDevice(&device));
  return (DeviceIndex)device;
}
inline void set_device(DeviceIndex device, bool = false) { C10_CUDA_CHECK(hipSetDevice(device)); }
inline void device_synchronize() { C10_CUDA_CHECK(hipDeviceSynchronize()); }
inline hipError_t GetDevice(DeviceIndex* device) {
  int found = 0;
  hipError_t error = hipGetDevice(&found);
  *device = (DeviceIndex)found;
  return error;
}
inline hipError_t SetDevice(DeviceIndex device, bool = false) { return hipSetDevice(device); }
inline DeviceIndex ExchangeDevice(DeviceIndex device) {
  DeviceIndex before = current_device();
  if (device != before) set_device(device);
  return before;
}
inline DeviceIndex MaybeExchangeDevice(DeviceIndex device) { return ExchangeDevice(device); }

// A device argument's index; the current one for -1, for no index, and for memory of the host.
inline DeviceIndex index_of(Device device) {
  return device.is_cuda() && device.has_index() ? device.index() : current_device();
}

// --- streams -----------------------------------------------------------------------------------------------------

class CUDAStream {
 public:
  enum Unchecked { UNCHECKED };
  explicit CUDAStream(Stream stream) : stream_(stream) {}
  explicit CUDAStream(Unchecked, Stream stream) : stream_(stream) {}
  CUDAStream(hipStream_t handle, DeviceIndex device)
      : stream_(Stream::UNSAFE, Device(DeviceType::CUDA, device), (StreamId)(intptr_t)handle) {}
  bool operator==(const CUDAStream& other) const noexcept { return stream_ == other.stream_; }
  bool operator!=(const CUDAStream& other) const noexcept { return stream_ != other.stream_; }
  operator hipStream_t() const { return stream(); }
  operator Stream() const { return stream_; }
  DeviceType device_type() const { return DeviceType::CUDA; }
  DeviceIndex device_index() const { return stream_.device_index(); }
  Device device() const { return stream_.device(); }
  StreamId id() const { return stream_.id(); }
  hipStream_t stream() const { return (hipStream_t)(intptr_t)stream_.id(); }
  CUDAStream hip_stream() const { return *this; }
  Stream unwrap() const { return stream_; }
  bool query() const { return hipStreamQuery(stream()) == hipSuccess; }
  void synchronize() const { C10_CUDA_CHECK(hipStreamSynchronize(stream())); }
  int priority() const {
    int priority = 0;
    C10_CUDA_CHECK(hipStreamGetPriority(stream(), &priority));
    return priority;
  }
  struct StreamData3 pack3() const { return stream_.pack3(); }
  static CUDAStream unpack3(StreamId id, DeviceIndex device, DeviceType type) {
    return CUDAStream(Stream::unpack3(id, device, type));
  }

 private:
  Stream stream_;
};

[[noreturn]] inline void fail_as_python_did() {
  PyErr_Print();
  TORCH_CHECK(false, "torch.cuda: no current stream");
}

struct PythonLock {
  PyGILState_STATE state = PyGILState_Ensure();
  ~PythonLock() { PyGILState_Release(state); }
};

inline CUDAStream getDefaultCUDAStream(DeviceIndex device = -1) {
  return CUDAStream((hipStream_t) nullptr, device < 0 ? current_device() : device);
}
inline CUDAStream getCurrentCUDAStream(DeviceIndex device = -1) {
  if (device < 0) device = current_device();
  PythonLock lock;
  PyObject* handle = PyObject_CallMethod(PyImport_AddModule("torch._C"), "_cuda_getCurrentRawStream", "i", (int)device);
  void* stream = handle ? PyLong_AsVoidPtr(handle) : nullptr;
  Py_XDECREF(handle);
  if (PyErr_Occurred()) fail_as_python_did();
  return CUDAStream((hipStream_t)stream, device);
}
inline void setCurrentCUDAStream(CUDAStream stream) {
  PythonLock lock;
  PyObject* cuda = PyImport_ImportModule("torch.cuda");
  PyObject* made = cuda ? PyObject_CallMethod(cuda, "ExternalStream", "Ki", (unsigned long long)stream.id(),
                                              (int)stream.device_index())
                        : nullptr;
  PyObject* done = made ? PyObject_CallMethod(cuda, "set_stream", "O", made) : nullptr;
  Py_XDECREF(done);
  Py_XDECREF(made);
  Py_XDECREF(cuda);
  if (PyErr_Occurred()) fail_as_python_did();
}
inline CUDAStream getStreamFromExternal(hipStream_t stream, DeviceIndex device) { return CUDAStream(stream, device); }
inline CUDAStream getStreamFromPool(bool high_priority = false, DeviceIndex device = -1) {
  hipStream_t stream;
  C10_CUDA_CHECK(hipStreamCreateWithPriority(&stream, hipStreamNonBlocking, high_priority ? -1 : 0));
  return CUDAStream(stream, device < 0 ? current_device() : device);
}
inline CUDAStream getStreamFromPool(int priority, DeviceIndex device = -1) {
  return getStreamFromPool(priority < 0, device);
}
inline std::ostream& operator<<(std::ostream& out, const CUDAStream& stream) { return out << stream.unwrap(); }

// --- guards ------------------------------------------------------------------------------------------------------

struct CUDAGuard {
  explicit CUDAGuard(DeviceIndex device) : CUDAGuard(Device(DeviceType::CUDA, device)) {}
  explicit CUDAGuard(Device device) : before(current_device()) { set_device_(device); }
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
  ~CUDAGuard() { (void)hipSetDevice(before); }
  void set_device(Device device) { set_device_(device); }
  void reset_device(Device device) { set_device_(device); }
  void set_index(DeviceIndex device) { set_device_(Device(DeviceType::CUDA, device)); }
  Device original_device() const { return {DeviceType::CUDA, before}; }
  Device current_device_() const { return {DeviceType::CUDA, now}; }

 private:
  void set_device_(Device device) {
    now = index_of(device);
    c10::cuda::set_device(now);
  }
  DeviceIndex before, now = 0;
};

struct OptionalCUDAGuard {
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) {
    if (device) guard.emplace(*device);
  }
  explicit OptionalCUDAGuard(std::optional<DeviceIndex> device) {
    if (device) guard.emplace(*device);
  }
  void set_device(Device device) { guard.emplace(device); }
  void set_index(DeviceIndex device) { guard.emplace(device); }
  void reset() { guard.reset(); }

 private:
  std::optional<CUDAGuard> guard;
};

struct CUDAStreamGuard {
  explicit CUDAStreamGuard(Stream stream)
      : device(stream.device()), before(getCurrentCUDAStream(stream.device_index())), now(stream) {
    setCurrentCUDAStream(now);
  }
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;
  ~CUDAStreamGuard() { setCurrentCUDAStream(before); }
  void reset_stream(Stream stream) { setCurrentCUDAStream(now = CUDAStream(stream)); }
  CUDAStream original_stream() const { return before; }
  CUDAStream current_stream() const { return now; }

 private:
  CUDAGuard device;
  CUDAStream before, now;
};

struct OptionalCUDAStreamGuard {
  OptionalCUDAStreamGuard() = default;
  explicit OptionalCUDAStreamGuard(std::optional<Stream> stream) {
    if (stream) guard.emplace(*stream);
  }
  void reset_stream(Stream stream) { guard.emplace(stream); }
  void reset() { guard.reset(); }

 private:
  std::optional<CUDAStreamGuard> guard;
};

// What c10::DeviceGuard and c10::StreamGuard do for DeviceType::CUDA.
struct GuardImpl final : impl::DeviceGuardImplInterface {
  DeviceType type() const override { return DeviceType::CUDA; }
  Device exchangeDevice(Device device) const override { return {DeviceType::CUDA, ExchangeDevice(index_of(device))}; }
  Device getDevice() const override { return {DeviceType::CUDA, current_device()}; }
  void setDevice(Device device) const override { c10::cuda::set_device(index_of(device)); }
  void uncheckedSetDevice(Device device) const noexcept override { (void)hipSetDevice(index_of(device)); }
  Stream getStream(Device device) const override { return getCurrentCUDAStream(index_of(device)).unwrap(); }
  Stream getDefaultStream(Device device) const override { return getDefaultCUDAStream(index_of(device)).unwrap(); }
  Stream exchangeStream(Stream stream) const override {
    Stream before = getCurrentCUDAStream(stream.device_index()).unwrap();
    setCurrentCUDAStream(CUDAStream(stream));
    return before;
  }
  DeviceIndex deviceCount() const noexcept override { return device_count(); }
};
// One in each extension that includes this; torch keeps the last.
#ifndef __HIP_DEVICE_COMPILE__
static impl::DeviceGuardImplRegistrar guard_impl_registrar(DeviceType::CUDA, new GuardImpl);
#endif

// --- memory ------------------------------------------------------------------------------------------------------

namespace CUDACachingAllocator {
inline void* raw_alloc(size_t bytes) {
  void* memory = nullptr;
  C10_CUDA_CHECK(hipMalloc(&memory, bytes));
  return memory;
}
inline void* raw_alloc_with_stream(size_t bytes, hipStream_t) { return raw_alloc(bytes); }
inline void raw_delete(void* memory) { C10_CUDA_CHECK(hipFree(memory)); }
inline void emptyCache() {}
inline void recordStream(const DataPtr&, CUDAStream) {}
}  // namespace CUDACachingAllocator

// hipify's spellings
using HIPStream = CUDAStream;
using HIPGuard = CUDAGuard;
using OptionalHIPGuard = OptionalCUDAGuard;
using HIPStreamGuard = CUDAStreamGuard;
using OptionalHIPStreamGuard = OptionalCUDAStreamGuard;
using HIPStreamMasqueradingAsCUDA = CUDAStream;
using HIPGuardMasqueradingAsCUDA = CUDAGuard;
using OptionalHIPGuardMasqueradingAsCUDA = OptionalCUDAGuard;
using HIPStreamGuardMasqueradingAsCUDA = CUDAStreamGuard;
using OptionalHIPStreamGuardMasqueradingAsCUDA = OptionalCUDAStreamGuard;
namespace HIPCachingAllocator = CUDACachingAllocator;
namespace HIPCachingAllocatorMasqueradingAsCUDA = CUDACachingAllocator;
inline CUDAStream getCurrentHIPStream(DeviceIndex device = -1) { return getCurrentCUDAStream(device); }
inline CUDAStream getDefaultHIPStream(DeviceIndex device = -1) { return getDefaultCUDAStream(device); }
inline void setCurrentHIPStream(CUDAStream stream) { setCurrentCUDAStream(stream); }
inline CUDAStream getCurrentHIPStreamMasqueradingAsCUDA(DeviceIndex device = -1) {
  return getCurrentCUDAStream(device);
}
inline CUDAStream getDefaultHIPStreamMasqueradingAsCUDA(DeviceIndex device = -1) {
  return getDefaultCUDAStream(device);
}
inline void setCurrentHIPStreamMasqueradingAsCUDA(CUDAStream stream) { setCurrentCUDAStream(stream); }
inline CUDAStream getStreamFromPoolMasqueradingAsCUDA(bool high_priority = false, DeviceIndex device = -1) {
  return getStreamFromPool(high_priority, device);
}
inline CUDAStream getStreamFromExternalMasqueradingAsCUDA(hipStream_t stream, DeviceIndex device) {
  return getStreamFromExternal(stream, device);
}

}  // namespace c10::cuda

// Not an alias: torch's own headers open the namespace.
namespace c10::hip {
using namespace c10::cuda;
}

namespace at {
namespace cuda {
using namespace c10::cuda;
inline bool is_available() { return device_count() > 0; }
inline int64_t getNumGPUs() { return device_count(); }
inline hipDeviceProp_t* getDeviceProperties(c10::DeviceIndex device) {
  static hipDeviceProp_t properties[16];  // as many as the runtime has
  static bool known[16];
  TORCH_CHECK(device >= 0 && device < device_count(), "device index ", (int)device, " is not one of ",
              (int)device_count());
  if (!known[device]) C10_CUDA_CHECK(hipGetDeviceProperties(&properties[device], device));
  known[device] = true;
  return &properties[device];
}
inline hipDeviceProp_t* getCurrentDeviceProperties() { return getDeviceProperties(current_device()); }
inline int warp_size() { return getCurrentDeviceProperties()->warpSize; }
inline bool canDeviceAccessPeer(c10::DeviceIndex device, c10::DeviceIndex peer) {
  int can = 0;
  C10_CUDA_CHECK(hipDeviceCanAccessPeer(&can, device, peer));
  return can != 0;
}

struct CUDAEvent {
  CUDAEvent(unsigned flags = hipEventDisableTiming) { C10_CUDA_CHECK(hipEventCreateWithFlags(&event_, flags)); }
  CUDAEvent(CUDAEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CUDAEvent(const CUDAEvent&) = delete;
  ~CUDAEvent() {
    if (event_) (void)hipEventDestroy(event_);
  }
  operator hipEvent_t() const { return event_; }
  hipEvent_t event() const { return event_; }
  bool isCreated() const { return event_ != nullptr; }
  bool query() const { return hipEventQuery(event_) == hipSuccess; }
  void record() { record(getCurrentCUDAStream()); }
  void record(const CUDAStream& stream) { C10_CUDA_CHECK(hipEventRecord(event_, stream)); }
  void recordOnce(const CUDAStream& stream) { record(stream); }
  void block(const CUDAStream& stream) { C10_CUDA_CHECK(hipStreamWaitEvent(stream, event_, 0)); }
  void synchronize() const { C10_CUDA_CHECK(hipEventSynchronize(event_)); }
  float elapsed_time(const CUDAEvent& later) const {
    float time_ms = 0;
    C10_CUDA_CHECK(hipEventElapsedTime(&time_ms, event_, later.event_));
    return time_ms;
  }

 private:
  hipEvent_t event_ = nullptr;
};
using HIPEvent = CUDAEvent;
}  // namespace cuda
namespace hip {
using namespace at::cuda;
}
}  // namespace at

namespace std {
template <>
struct hash<c10::cuda::CUDAStream> {
  size_t operator()(c10::cuda::CUDAStream stream) const noexcept { return hash<c10::Stream>{}(stream.unwrap()); }
};
}  // namespace std
