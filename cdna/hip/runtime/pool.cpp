// Memory pools: their limits and attributes; allocations from them are plain ones.
#include "runtime.h"
#include <sys/mman.h>
#include <unistd.h>

struct ihipMemPoolHandle_t {
  int device;
  u64 release_threshold;
  i32 reuse[3];
  hipMemAllocationHandleType shared_as;
};
static ihipMemPoolHandle_t default_pools[MAX_DEVICES];
static hipMemPool_t chosen[MAX_DEVICES];

static hipMemPool_t default_pool(int device) {
  default_pools[device].device = device;
  return &default_pools[device];
}

extern "C" {
hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* out, int device) {
  ENTER;
  GIVE_OF(device, out, default_pool(device));
}
hipError_t hipDeviceGetMemPool(hipMemPool_t* out, int device) {
  ENTER;
  GIVE_OF(device, out, chosen[device] ? chosen[device] : default_pool(device));
}
hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool) {
  ENTER;
  if (!pool) return done(hipErrorInvalidValue);
  if (!valid_device(device)) return done(hipErrorInvalidDevice);
  chosen[device] = pool;
  return done(hipSuccess);
}
hipError_t hipMemPoolCreate(hipMemPool_t* out, const hipMemPoolProps* p) {
  ENTER;
  if (!out || !p || !valid_device(p->location.id)) return done(hipErrorInvalidValue);
  *out = make<ihipMemPoolHandle_t>();
  (*out)->device = p->location.id;
  (*out)->shared_as = p->handleTypes;
  return done(hipSuccess);
}
// What another process gets of a pool is what it needs to make one like it; memory comes by hipMemPoolExportPointer.
hipError_t hipMemPoolExportToShareableHandle(void* out, hipMemPool_t pool, hipMemAllocationHandleType type,
                                             unsigned flags) {
  ENTER;
  if (!out || !pool || flags || type != hipMemHandleTypePosixFileDescriptor || pool->shared_as != type)
    return done(hipErrorInvalidValue);
  int file = memfd_create("cdna-memory-pool", MFD_CLOEXEC);
  if (file < 0 || write(file, pool, sizeof *pool) != sizeof *pool) {
    if (file >= 0) close(file);
    return done(hipErrorOutOfMemory);
  }
  *(int*)out = file;
  return done(hipSuccess);
}
hipError_t hipMemPoolImportFromShareableHandle(hipMemPool_t* out, void* handle, hipMemAllocationHandleType type,
                                               unsigned flags) {
  ENTER;
  ihipMemPoolHandle_t pool;
  if (!out || flags || type != hipMemHandleTypePosixFileDescriptor ||
      pread((int)(size_t)handle, &pool, sizeof pool, 0) != sizeof pool || !valid_device(pool.device))
    return done(hipErrorInvalidValue);
  *out = make<ihipMemPoolHandle_t>();
  **out = pool;
  return done(hipSuccess);
}
hipError_t hipMemPoolDestroy(hipMemPool_t pool) {
  ENTER;
  if (!pool || (pool >= default_pools && pool < default_pools + MAX_DEVICES)) return done(hipErrorInvalidValue);
  if (chosen[pool->device] == pool) chosen[pool->device] = nullptr;
  free(pool);
  return done(hipSuccess);
}
hipError_t hipMallocFromPoolAsync(void** p, size_t bytes, hipMemPool_t pool, hipStream_t stream) {
  CALL(!pool || !resolve(stream) ? hipErrorInvalidValue
                                 : allocate_memory(p, bytes, hipMemoryTypeDevice, pool->device, 0));
}
hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t) { CALL(pool ? hipSuccess : hipErrorInvalidValue); }
hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const hipMemAccessDesc* list, size_t n) {
  ENTER;
  if (n) share_with_peers();
  return done(pool && (list || !n) ? hipSuccess : hipErrorInvalidValue);
}
hipError_t hipMemPoolGetAccess(hipMemAccessFlags* out, hipMemPool_t pool, hipMemLocation* location) {
  ENTER;
  if (!pool || !location) return done(hipErrorInvalidValue);
  GIVE(out, hipMemAccessFlagsProtReadWrite);
}
hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr which, void* value) {
  ENTER;
  if (!pool || !value) return done(hipErrorInvalidValue);
  if (which >= hipMemPoolReuseFollowEventDependencies && which <= hipMemPoolReuseAllowInternalDependencies)
    pool->reuse[which - 1] = *(i32*)value;
  else if (which == hipMemPoolAttrReleaseThreshold) pool->release_threshold = *(u64*)value;
  else if (which > hipMemPoolAttrUsedMemHigh || *(u64*)value)
    return done(hipErrorInvalidValue);  // high marks can only be reset
  return done(hipSuccess);
}
hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr which, void* value) {
  ENTER;
  if (!pool || !value) return done(hipErrorInvalidValue);
  if (which >= hipMemPoolReuseFollowEventDependencies && which <= hipMemPoolReuseAllowInternalDependencies)
    *(i32*)value = pool->reuse[which - 1];
  else if (which == hipMemPoolAttrReleaseThreshold) *(u64*)value = pool->release_threshold;
  else if (which <= hipMemPoolAttrUsedMemHigh) *(u64*)value = used_bytes(pool->device);
  else return done(hipErrorInvalidValue);
  return done(hipSuccess);
}
}
