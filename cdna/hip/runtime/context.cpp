// Contexts of HIP's driver API: each device has one, which is the device.
#include "runtime.h"

static thread_local List<int> pushed;  // the devices that were current before each context that was pushed

static hipCtx_t context_of(int device) { return (hipCtx_t)(size_t)(device + 1); }
static int device_of(hipCtx_t context) { return (int)(size_t)context - 1; }

extern "C" {
hipError_t hipCtxPushCurrent(hipCtx_t context) {
  if (!valid_device(device_of(context))) return done(hipErrorInvalidContext);
  pushed.push(current_device());
  return hipSetDevice(device_of(context));
}
hipError_t hipCtxPopCurrent(hipCtx_t* context) {
  if (!pushed.count) return done(hipErrorInvalidContext);
  if (context) *context = context_of(current_device());
  int before = pushed[pushed.count - 1];
  pushed.remove(pushed.count - 1);
  return hipSetDevice(before);
}
hipError_t hipCtxCreate(hipCtx_t* context, unsigned flags, hipDevice_t device) {
  if (!context) return done(hipErrorInvalidValue);
  if (!valid_device(device)) return done(hipErrorInvalidDevice);
  (void)hipSetDeviceFlags(flags);
  return hipCtxPushCurrent(*context = context_of(device));
}
hipError_t hipCtxDestroy(hipCtx_t context) {
  if (!valid_device(device_of(context))) return done(hipErrorInvalidValue);
  hipError_t error = hipDeviceSynchronize();
  return error || !pushed.count || device_of(context) != current_device() ? error : hipCtxPopCurrent(nullptr);
}
hipError_t hipCtxGetCurrent(hipCtx_t* context) { GIVE(context, context_of(current_device())); }
hipError_t hipCtxSetCurrent(hipCtx_t context) { return context ? hipSetDevice(device_of(context)) : done(hipSuccess); }
hipError_t hipCtxGetDevice(hipDevice_t* device) { return hipGetDevice(device); }
hipError_t hipCtxSynchronize(void) { return hipDeviceSynchronize(); }
hipError_t hipCtxGetFlags(unsigned* flags) { return hipGetDeviceFlags(flags); }
hipError_t hipCtxGetApiVersion(hipCtx_t, unsigned* version) { GIVE(version, 4); }  // as ROCm says
hipError_t hipCtxGetCacheConfig(hipFuncCache_t* config) { return hipDeviceGetCacheConfig(config); }
hipError_t hipCtxSetCacheConfig(hipFuncCache_t config) { return hipDeviceSetCacheConfig(config); }
hipError_t hipCtxGetSharedMemConfig(hipSharedMemConfig* config) { return hipDeviceGetSharedMemConfig(config); }
hipError_t hipCtxSetSharedMemConfig(hipSharedMemConfig config) { return hipDeviceSetSharedMemConfig(config); }
hipError_t hipCtxEnablePeerAccess(hipCtx_t peer, unsigned flags) {
  return hipDeviceEnablePeerAccess(device_of(peer), flags);
}
hipError_t hipCtxDisablePeerAccess(hipCtx_t peer) { return hipDeviceDisablePeerAccess(device_of(peer)); }

hipError_t hipDevicePrimaryCtxGetState(hipDevice_t device, unsigned* flags, int* active) {
  if (!flags || !active) return done(hipErrorInvalidValue);
  if (!valid_device(device)) return done(hipErrorInvalidDevice);
  *active = 1;
  return hipGetDeviceFlags(flags);
}
hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t device, unsigned flags) {
  return valid_device(device) ? hipSetDeviceFlags(flags) : done(hipErrorInvalidDevice);
}
hipError_t hipDevicePrimaryCtxRetain(hipCtx_t* context, hipDevice_t device) {
  GIVE_OF(device, context, context_of(device));
}
hipError_t hipDevicePrimaryCtxRelease(hipDevice_t device) {
  return done(valid_device(device) ? hipSuccess : hipErrorInvalidDevice);
}
hipError_t hipDevicePrimaryCtxReset(hipDevice_t device) {
  return valid_device(device) ? hipDeviceReset() : done(hipErrorInvalidDevice);
}
}
