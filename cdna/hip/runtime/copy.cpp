// Copies and fills.
#include "runtime.h"

// The end of a call that does not return before its copy is done.
static hipError_t waited(hipStream_t stream, hipError_t error = hipSuccess) {
  ihipStream_t* q = resolve(stream);
  return error != hipSuccess || !q || q->capture ? error : wait_for_queue(*q);
}

static hipError_t checked(hipStream_t stream, const Operation& o, hipMemcpyKind kind) {
  if (kind > hipMemcpyDefault && kind != hipMemcpyDeviceToDeviceNoCU) return hipErrorInvalidMemcpyDirection;
  const CopyCall& c = o.copy;
  if (!c.width || !c.height || !c.depth) return hipSuccess;
  if (!c.to || !c.from) return hipErrorInvalidValue;
  if (c.width > c.to_pitch || c.width > c.from_pitch) return hipErrorInvalidPitchValue;
  size_t to_span = c.to_slice * (c.depth - 1) + c.to_pitch * (c.height - 1) + c.width;
  size_t from_span = c.from_slice * (c.depth - 1) + c.from_pitch * (c.height - 1) + c.width;
  if (!may_access(c.to, to_span, "copies to") || !may_access(c.from, from_span, "copies from"))
    return hipErrorInvalidValue;
  if (!has_right_kind(c.to, c.from, kind) || !lies_apart(c)) return device_lost;
  hipError_t error = submit(stream, o);
  if (error != hipSuccess || !may_detach()) return error;
  {  // memory that HIP does not know is copied at once
    Guard guard;
    if (find_allocation(c.to) && find_allocation(c.from)) return error;
  }
  return waited(stream);
}
static hipError_t copy(hipStream_t stream, void* to, const void* from, size_t bytes,
                       hipMemcpyKind kind = hipMemcpyDefault) {
  return checked(stream, copy_operation(to, from, bytes), kind);
}
static hipError_t copy2d(hipStream_t stream, void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, hipMemcpyKind kind) {
  Operation o = operation(DO_COPY);
  o.copy = {to, from, width, height, 1, to_pitch, from_pitch, to_pitch * height, from_pitch * height};
  return checked(stream, o, kind);
}
hipError_t copy3d_operation(const hipMemcpy3DParms* p, Operation* o) {
  if (!p) return hipErrorInvalidValue;
  if (p->srcArray || p->dstArray) return hipErrorNotSupported;  // arrays are for images, which these archs do without
  auto at = [](const hipPitchedPtr& q, const hipPos& pos) {
    return (u8*)q.ptr + pos.z * q.pitch * q.ysize + pos.y * q.pitch + pos.x;
  };
  *o = operation(DO_COPY);
  o->copy = {at(p->dstPtr, p->dstPos),
             at(p->srcPtr, p->srcPos),
             p->extent.width,
             p->extent.height,
             p->extent.depth,
             p->dstPtr.pitch,
             p->srcPtr.pitch,
             p->dstPtr.pitch * p->dstPtr.ysize,
             p->srcPtr.pitch * p->srcPtr.ysize};
  return hipSuccess;
}
hipError_t copy3d_operation(const HIP_MEMCPY3D* p, Operation* o) {
  if (!p) return hipErrorInvalidValue;
  if (p->srcMemoryType == hipMemoryTypeArray || p->dstMemoryType == hipMemoryTypeArray) return hipErrorNotSupported;
  auto packed = [](size_t given, size_t least) { return given ? given : least; };  // 0: rows, or planes, without gaps
  size_t to_pitch = packed(p->dstPitch, p->WidthInBytes + p->dstXInBytes);
  size_t from_pitch = packed(p->srcPitch, p->WidthInBytes + p->srcXInBytes);
  size_t to_slice = to_pitch * packed(p->dstHeight, p->Height + p->dstY);
  size_t from_slice = from_pitch * packed(p->srcHeight, p->Height + p->srcY);
  const u8* from = (const u8*)(p->srcMemoryType == hipMemoryTypeHost ? p->srcHost : p->srcDevice);
  u8* to = (u8*)(p->dstMemoryType == hipMemoryTypeHost ? p->dstHost : p->dstDevice);
  *o = operation(DO_COPY);
  o->copy = {to + p->dstZ * to_slice + p->dstY * to_pitch + p->dstXInBytes,
             from + p->srcZ * from_slice + p->srcY * from_pitch + p->srcXInBytes,
             p->WidthInBytes,
             p->Height,
             p->Depth,
             to_pitch,
             from_pitch,
             to_slice,
             from_slice};
  return hipSuccess;
}
template <class Parameters>
static hipError_t copy3d(hipStream_t stream, const Parameters* p, hipMemcpyKind kind = hipMemcpyDefault) {
  Operation o;
  hipError_t error = copy3d_operation(p, &o);
  return error == hipSuccess ? checked(stream, o, kind) : error;
}
static hipError_t copy3d_peer(hipStream_t stream, const hipMemcpy3DPeerParms* p) {
  if (!p) return hipErrorInvalidValue;
  if (!valid_device(p->srcDevice) || !valid_device(p->dstDevice)) return hipErrorInvalidDevice;
  hipMemcpy3DParms same = {p->srcArray, p->srcPos, p->srcPtr, p->dstArray,
                           p->dstPos,   p->dstPtr, p->extent, hipMemcpyDefault};
  return copy3d(stream, &same);
}
static hipError_t param2d(hipStream_t stream, const hip_Memcpy2D* p) {
  if (!p) return hipErrorInvalidValue;
  if (p->srcMemoryType == hipMemoryTypeArray || p->dstMemoryType == hipMemoryTypeArray) return hipErrorNotSupported;
  const u8* from = (const u8*)(p->srcMemoryType == hipMemoryTypeHost ? p->srcHost : p->srcDevice) +
                   p->srcY * p->srcPitch + p->srcXInBytes;
  u8* to =
      (u8*)(p->dstMemoryType == hipMemoryTypeHost ? p->dstHost : p->dstDevice) + p->dstY * p->dstPitch + p->dstXInBytes;
  return copy2d(stream, to, p->dstPitch, from, p->srcPitch, p->WidthInBytes, p->Height, hipMemcpyDefault);
}
static hipError_t symbol_copy(hipStream_t stream, const void* symbol, bool to_symbol, void* other, size_t bytes,
                              size_t offset, hipMemcpyKind kind) {
  void* address;
  size_t size;
  hipError_t error = symbol_address(symbol, current_device(), &address, &size);
  if (error != hipSuccess) return error;
  if (offset + bytes > size || offset + bytes < offset) {
    tell_refused("copies %zu bytes at offset %zu of a variable of %zu bytes", bytes, offset, size);
    return hipErrorInvalidValue;
  }
  return to_symbol ? copy(stream, (u8*)address + offset, other, bytes, kind)
                   : copy(stream, other, (u8*)address + offset, bytes, kind);
}

static hipError_t fill(hipStream_t stream, void* to, u32 value, u32 value_bytes, size_t width, size_t height = 1,
                       size_t pitch = 0, size_t depth = 1, size_t slice = 0) {
  Operation o = operation(DO_FILL);
  if (!width || !height || !depth) return hipSuccess;
  if (!to || (size_t)to % value_bytes) return hipErrorInvalidValue;
  if (height > 1 && pitch < width) return hipErrorInvalidPitchValue;
  if (!may_access(to, slice * (depth - 1) + pitch * (height - 1) + width, "fills")) return hipErrorInvalidValue;
  if (is_pageable(to)) {
    tell_refused("fills %zu bytes at %p, which are the host's", width, to);
    return hipErrorInvalidValue;
  }
  o.fill = {to, value, value_bytes, width, height, depth, pitch, slice, stream != nullptr};
  return submit(stream, o);
}

// A call that waits, on the null queue, and the one that does not, behind what a queue `s` has.
#define COPIES(NAME, PARAMETERS, ...) \
  hipError_t NAME(OF PARAMETERS) {    \
    hipStream_t s = nullptr;          \
    CALL(waited(s, __VA_ARGS__));     \
  }                                   \
  hipError_t NAME##Async(OF PARAMETERS, hipStream_t s) { CALL(__VA_ARGS__); }
// The null queue has done what it is told when a call returns: a fill of it waits for nothing.
#define FILLS(NAME, PARAMETERS, ...)                                   \
  hipError_t NAME(OF PARAMETERS) { CALL(fill(nullptr, __VA_ARGS__)); } \
  hipError_t NAME##Async(OF PARAMETERS, hipStream_t s) { CALL(fill(s, __VA_ARGS__)); }

extern "C" {
COPIES(hipMemcpy, (void* to, const void* from, size_t bytes, hipMemcpyKind kind), copy(s, to, from, bytes, kind))
hipError_t hipMemcpyWithStream(void* to, const void* from, size_t bytes, hipMemcpyKind kind, hipStream_t s) {
  CALL(waited(s, copy(s, to, from, bytes, kind)));
}
COPIES(hipMemcpyHtoD, (hipDeviceptr_t to, const void* from, size_t bytes), copy(s, to, from, bytes))
COPIES(hipMemcpyDtoH, (void* to, hipDeviceptr_t from, size_t bytes), copy(s, to, from, bytes))
COPIES(hipMemcpyDtoD, (hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes), copy(s, to, from, bytes))
COPIES(hipMemcpyPeer, (void* to, int to_device, const void* from, int from_device, size_t bytes),
       valid_device(to_device) && valid_device(from_device) ? copy(s, to, from, bytes) : hipErrorInvalidDevice)
COPIES(hipMemcpy2D,
       (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
        hipMemcpyKind kind),
       copy2d(s, to, to_pitch, from, from_pitch, width, height, kind))
COPIES(hipMemcpyParam2D, (const hip_Memcpy2D* p), param2d(s, p))
COPIES(hipMemcpy3D, (const hipMemcpy3DParms* p), p ? copy3d(s, p, p->kind) : hipErrorInvalidValue)
COPIES(hipDrvMemcpy3D, (const HIP_MEMCPY3D* p), copy3d(s, p))
COPIES(hipMemcpy3DPeer, (hipMemcpy3DPeerParms * p), copy3d_peer(s, p))
hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D* p) { return hipMemcpyParam2D(p); }
hipError_t hipMemcpyBatchAsync(void** to, void** from, size_t* bytes, size_t n, hipMemcpyAttributes*, size_t*, size_t,
                               size_t* failed, hipStream_t s) {
  ENTER;
  if (!to || !from || !bytes || !n) return done(hipErrorInvalidValue);
  for (size_t i = 0; i < n; i++) {
    hipError_t error = copy(s, to[i], from[i], bytes[i]);
    if (error == hipSuccess) continue;
    if (failed) *failed = i;
    return done(error);
  }
  return done(hipSuccess);
}

hipError_t hipGetSymbolAddress(void** address, const void* symbol) {
  CALL(address ? symbol_address(symbol, current_device(), address, nullptr) : hipErrorInvalidValue);
}
hipError_t hipGetSymbolSize(size_t* bytes, const void* symbol) {
  ENTER;
  void* address;
  return done(bytes ? symbol_address(symbol, current_device(), &address, bytes) : hipErrorInvalidValue);
}
COPIES(hipMemcpyToSymbol, (const void* symbol, const void* from, size_t bytes, size_t offset, hipMemcpyKind kind),
       symbol_copy(s, symbol, true, (void*)from, bytes, offset, kind))
COPIES(hipMemcpyFromSymbol, (void* to, const void* symbol, size_t bytes, size_t offset, hipMemcpyKind kind),
       symbol_copy(s, symbol, false, to, bytes, offset, kind))

FILLS(hipMemset, (void* to, int value, size_t bytes), to, (u8)value, 1, bytes)
FILLS(hipMemsetD8, (hipDeviceptr_t to, unsigned char value, size_t n), to, value, 1, n)
FILLS(hipMemsetD16, (hipDeviceptr_t to, unsigned short value, size_t n), to, value, 2, 2 * n)
FILLS(hipMemsetD32, (hipDeviceptr_t to, int value, size_t n), to, value, 4, 4 * n)
FILLS(hipMemsetD2D8, (hipDeviceptr_t to, size_t pitch, unsigned char value, size_t width, size_t height), to, value, 1,
      width, height, pitch)
FILLS(hipMemsetD2D16, (hipDeviceptr_t to, size_t pitch, unsigned short value, size_t width, size_t height), to, value,
      2, 2 * width, height, pitch)
FILLS(hipMemsetD2D32, (hipDeviceptr_t to, size_t pitch, unsigned value, size_t width, size_t height), to, value, 4,
      4 * width, height, pitch)
FILLS(hipMemset2D, (void* to, size_t pitch, int value, size_t width, size_t height), to, (u8)value, 1, width, height,
      pitch)
FILLS(hipMemset3D, (hipPitchedPtr p, int value, hipExtent e), p.ptr, (u8)value, 1, e.width, e.height, p.pitch, e.depth,
      p.pitch* p.ysize)
}
