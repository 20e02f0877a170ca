// Device, host and managed memory: allocation, what a pointer is, sharing between processes.
//
// All of it lies in one file in memory that grows as needed, each allocation mapped on its own with an
// inaccessible page after it: an access beyond the end faults. Freed ranges stay inaccessible for a while, so
// that a use after free faults too. Another process is lent the file and maps the same pages (IPC handles).
#include "runtime.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/registry.h"
#include "memory/peer_memory.h"

constexpr u64 PAGE = 4096;
constexpr u64 ALIGNMENT = 256;                // of what hipMalloc returns
constexpr u64 QUARANTINE_BYTES = 1ull << 40;  // of freed memory
// Behind an allocation nothing lies for so far, while there are few: who goes past the end does not land in another.
constexpr u64 GAP = 4ull << 30;
constexpr u32 MOST_WITH_GAP = 4096;
constexpr u32 QUARANTINE_COUNT = 4096;

static List<Allocation> allocations;  // by base
static List<Allocation> quarantine;
static u64 quarantine_bytes, next_id = 1, in_use[MAX_DEVICES];
static int memory_file = -1;
static pid_t file_owner;
static u64 file_end;

static u64 round_up(u64 x, u64 to) { return (x + to - 1) / to * to; }

static u64 position(const void* p) {  // of the first allocation that begins after p
  return upto(allocations.items, allocations.count, (const u8*)p,
              [](const Allocation& a) { return (const u8*)a.base; });
}

Allocation* find_allocation(const void* p) {
  u32 at = position(p);
  if (!at) return nullptr;
  Allocation& a = allocations[at - 1];
  return (const u8*)p < a.base + (a.bytes ? a.bytes : 1) ? &a : nullptr;
}

bool within_allocation(const void* p, size_t bytes) {
  Guard guard;
  Allocation* a = find_allocation(p);
  return !a || (size_t)((const u8*)p - a->base) + bytes <= a->bytes;
}

static const char* allocator_of(const Allocation& a) {
  return a.registered                     ? "hipHostRegister"
         : a.mapped                       ? "hipMemMap"
         : a.imported                     ? "hipIpcOpenMemHandle"
         : a.type == hipMemoryTypeHost    ? "hipHostMalloc"
         : a.type == hipMemoryTypeManaged ? "hipMallocManaged"
                                          : "hipMalloc";
}

bool is_beside_allocation(const void* p) {
  Guard guard;
  u32 at = position(p);
  auto around = [&](const Allocation& a) { return (size_t)((const u8*)p - a.mapping) < a.mapping_bytes; };
  if (at && around(allocations[at - 1])) return true;
  if (at < allocations.count && around(allocations[at])) return true;
  for (const Allocation& a : quarantine)
    if (around(a)) return true;
  return false;
}

void name_allocation(const Allocation& a, char* name, size_t bytes) {
  snprintf(name, bytes, "the %llu bytes of %s (number %llu)", (unsigned long long)a.bytes, allocator_of(a),
           (unsigned long long)a.id);
}

static const Allocation* freed_at(const void* p) {
  for (u32 i = quarantine.count; i-- > 0;)
    if ((size_t)((const u8*)p - quarantine[i].base) < quarantine[i].bytes) return &quarantine[i];
  return nullptr;
}

bool may_access(const void* p, size_t bytes, const char* does) {
  Guard guard;
  char name[64];
  if (const Allocation* a = find_allocation(p)) {
    size_t at = (size_t)((const u8*)p - a->base);
    if (at + bytes <= a->bytes) return true;
    name_allocation(*a, name, sizeof name);
    tell_refused("%s %zu bytes at offset %zu of %s", does, bytes, at, name);
    return false;
  }
  if (const Allocation* a = freed_at(p)) {
    name_allocation(*a, name, sizeof name);
    tell_refused("%s %zu bytes at offset %zu of %s, which has been freed", does, bytes,
                 (size_t)((const u8*)p - a->base), name);
    return false;
  }
  const size_t room = host_block_after(p);
  if (bytes <= room) return true;
  tell_refused("%s %zu bytes, of which only the first %zu are in their block of the host's heap", does, bytes, room);
  return false;
}

u64 used_bytes(int device) { return in_use[device]; }

List<u64> barred_allocations(int device) {
  Guard guard;
  List<u64> barred = {};
  bool others = false;
  for (int d = 0; d < device_count(); d++) others |= d != device && in_use[d] && !may_access_peer(device, d);
  for (u32 i = 0; others && i < allocations.count; i++) {
    const Allocation& a = allocations[i];
    const bool own = a.type != hipMemoryTypeDevice || a.device == device || a.imported || a.mapped;
    if (!own && !may_access_peer(device, a.device)) barred.push((u64)a.base);
  }
  return barred;
}

// A forked child shares its parent's file, and would hand out the same ranges: it gets one of its own.
static bool open_file() {
  if (memory_file >= 0 && file_owner == getpid()) return true;
  memory_file = memfd_create("cdna-device-memory", MFD_CLOEXEC);
  file_owner = getpid();
  file_end = 0;
  return memory_file >= 0;
}

static void enter(Allocation& a) {  // into the tables
  a.id = next_id++;
  allocations.insert(position(a.base), a);
  char name[64];
  name_allocation(a, name, sizeof name);
  cdna_memory_register((u64)a.base, a.bytes, name, a.type != hipMemoryTypeDevice);
  if (a.type != hipMemoryTypeDevice) return;
  u64 owner = a.device + 1;
  cdna_owner_add((u64)a.base, a.bytes, a.imported ? ((u64)a.owner << 32) + OWN_DEVICES + owner : owner);
}
static Allocation leave(Allocation* a) {
  Allocation copy = *a;
  cdna_memory_unregister((u64)copy.base);
  cdna_owner_remove((u64)copy.base);
  allocations.remove((u32)(a - allocations.items));
  return copy;
}

static Allocation allocation(void* base, size_t bytes, hipMemoryType type, int device, unsigned flags = 0) {
  Allocation a;
  memset((void*)&a, 0, sizeof a);
  a.base = (u8*)base;
  a.bytes = bytes;
  a.type = type;
  a.device = device;
  a.flags = flags;
  return a;
}

u8* reserve_addresses(void* at, size_t bytes, int more_flags) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | more_flags;
  void* p = mmap(at, bytes, PROT_NONE, flags, -1, 0);
  return p == MAP_FAILED ? nullptr : (u8*)p;
}

void return_addresses(void* p, size_t bytes) {
  munmap(p, bytes);
  cdna_memory_forget((u64)p, bytes);
}

void enter_mapping(void* p, size_t bytes, int device) {
  Allocation a = allocation(p, bytes, hipMemoryTypeDevice, device);
  a.mapped = true;
  enter(a);
}
void leave_mapping(void* p) { (void)leave(find_allocation(p)); }

static void forget_oldest() {
  Allocation& a = quarantine[0];
  return_addresses(a.mapping, a.mapping_bytes);
  quarantine_bytes -= a.file_bytes;
  quarantine.remove(0);
}

hipError_t allocate_memory(void** out, size_t bytes, hipMemoryType type, int device, unsigned flags) {
  if (!out) return hipErrorInvalidValue;
  *out = nullptr;
  if (!bytes) return hipSuccess;
  Guard guard;
  bool on_device = type == hipMemoryTypeDevice;
  if (bytes > (1ull << 46) || (on_device && in_use[device] + bytes > device_card().memory_bytes))
    return hipErrorOutOfMemory;
  if (!open_file()) return hipErrorOutOfMemory;
  Allocation a = allocation(nullptr, bytes, type, device, flags);
  // The end of the allocation is the end of its pages, as near as the alignment lets it. A device's granule
  // of memory is a page, and programs rely on pages of their own: large ones begin at a page.
  size_t used = round_up(bytes, ALIGNMENT), data = round_up(used, PAGE);
  a.file_bytes = data;
  a.mapping_bytes = data + (allocations.count + quarantine.count < MOST_WITH_GAP ? GAP : PAGE);
  a.mapping = reserve_addresses(nullptr, a.mapping_bytes);
  if (!a.mapping) a.mapping = reserve_addresses(nullptr, a.mapping_bytes = data + PAGE);  // addresses are limited
  if (!a.mapping) return hipErrorOutOfMemory;
  if (ftruncate(memory_file, file_end + data) ||
      mmap(a.mapping, data, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory_file, file_end) == MAP_FAILED) {
    munmap(a.mapping, a.mapping_bytes);
    return hipErrorOutOfMemory;
  }
  a.base = a.mapping + (data - used);
  a.file = memory_file;
  a.owner = file_owner;
  a.file_offset = file_end;
  file_end += data;
  if (on_device) in_use[device] += bytes;
  enter(a);
  if (on_device) mark_fresh(a.base, bytes);
  *out = a.base;
  return hipSuccess;
}

static void tell_wrong_free(const Allocation* found, const void* p) {
  char name[64];
  const Allocation* freed = found ? nullptr : freed_at(p);
  if (!found && !freed) return tell_refused("frees memory at %p, which no call has given", p);
  name_allocation(found ? *found : *freed, name, sizeof name);
  if (freed) return tell_refused("frees %s, which has been freed", name);
  if (p == found->base) return tell_refused("frees %s, which is given back otherwise", name);
  tell_refused("frees memory at offset %zu of %s", (size_t)((const u8*)p - found->base), name);
}

hipError_t free_memory(void* p) {
  if (!p) return hipSuccess;
  Guard guard;
  Allocation* found = find_allocation(p);
  const bool freeable = found && found->base == p && !found->registered && !found->mapped;
  if (!freeable || (found->imported && !found->from_pool)) {
    tell_wrong_free(found, p);
    return hipErrorInvalidValue;
  }
  Allocation a = leave(found);
  if (a.imported) {
    return_addresses(a.mapping, a.mapping_bytes);
    return hipSuccess;
  }
  forget_advice(a.base, a.bytes);
  forget_results(a.base, a.bytes);
  forget_pinned_reads(a.base, a.bytes);
  if (a.type == hipMemoryTypeDevice) in_use[a.device] -= a.bytes;
  if (a.owner == getpid()) fallocate(a.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, a.file_offset, a.file_bytes);
  reserve_addresses(a.mapping, a.mapping_bytes, MAP_FIXED);
  quarantine.push(a);
  quarantine_bytes += a.file_bytes;
  while (quarantine_bytes > QUARANTINE_BYTES || quarantine.count > QUARANTINE_COUNT) forget_oldest();
  return hipSuccess;
}

// What lies at an address that faulted, for the message.
void describe_address(u64 address, char* text, size_t bytes) {
  Guard guard;
  text[0] = 0;
  u32 at = position((void*)address);
  if (const Allocation* a = freed_at((void*)address)) {
    snprintf(text, bytes, "the address is byte %llu of %llu that %s gave and that have been freed",
             (unsigned long long)(address - (u64)a->base), (unsigned long long)a->bytes, allocator_of(*a));
    return;
  }
  auto near = [&](u64 distance, const char* where, const Allocation& a) {
    if (distance >= (64 << 20)) return false;
    snprintf(text, bytes, "the address is %llu bytes %s the %llu bytes that %s gave on device %d",
             (unsigned long long)distance, where, (unsigned long long)a.bytes, allocator_of(a), a.device);
    return true;
  };
  const Allocation *before = at ? &allocations[at - 1] : nullptr, *behind = allocations.items + at;
  if (before && near(address - (u64)before->base - before->bytes, "past the end of", *before)) return;
  if (at < allocations.count) near((u64)behind->base - address, "before", *behind);
}

extern "C" {
hipError_t hipMalloc(void** p, size_t bytes) {
  CALL(allocate_memory(p, bytes, hipMemoryTypeDevice, current_device(), 0));
}
hipError_t hipExtMallocWithFlags(void** p, size_t bytes, unsigned flags) {
  CALL(allocate_memory(p, bytes, hipMemoryTypeDevice, current_device(), flags));
}
hipError_t hipMallocManaged(void** p, size_t bytes, unsigned flags) {
  ENTER;
  if (flags != hipMemAttachGlobal && flags != hipMemAttachHost) return done(hipErrorInvalidValue);
  if (looks_for_races()) want_stream_order();  // what the host reads too soon depends on it
  return done(allocate_memory(p, bytes, hipMemoryTypeManaged, current_device(), flags));
}
hipError_t hipHostMalloc(void** p, size_t bytes, unsigned flags) {
  ENTER;
  if (looks_for_races()) want_stream_order();
  return done(allocate_memory(p, bytes, hipMemoryTypeHost, current_device(), flags));
}
hipError_t hipHostAlloc(void** p, size_t bytes, unsigned flags) { return hipHostMalloc(p, bytes, flags); }
hipError_t hipMallocHost(void** p, size_t bytes) { return hipHostMalloc(p, bytes, 0); }
hipError_t hipMemAllocHost(void** p, size_t bytes) { return hipHostMalloc(p, bytes, 0); }
hipError_t hipFree(void* p) {
  ENTER;
  wait_for_all();
  return done(free_memory(p));
}
hipError_t hipHostFree(void* p) { return hipFree(p); }
hipError_t hipFreeHost(void* p) { return hipHostFree(p); }

hipError_t hipMallocPitch(void** p, size_t* pitch, size_t width, size_t height) {
  ENTER;
  if (!p || !pitch || !width || !height) return done(hipErrorInvalidValue);
  *pitch = round_up(width, ALIGNMENT);
  return done(allocate_memory(p, *pitch * height, hipMemoryTypeDevice, current_device(), 0));
}
hipError_t hipMemAllocPitch(hipDeviceptr_t* p, size_t* pitch, size_t width, size_t height, unsigned) {
  return hipMallocPitch(p, pitch, width, height);
}
hipError_t hipMalloc3D(hipPitchedPtr* p, hipExtent extent) {
  ENTER;
  if (!p || !extent.width || !extent.height || !extent.depth) return done(hipErrorInvalidValue);
  p->pitch = round_up(extent.width, ALIGNMENT);
  p->xsize = extent.width;
  p->ysize = extent.height;
  return done(
      allocate_memory(&p->ptr, p->pitch * extent.height * extent.depth, hipMemoryTypeDevice, current_device(), 0));
}

hipError_t hipHostGetDevicePointer(void** device, void* host, unsigned) {
  ENTER;
  Guard guard;
  if (!find_allocation(host)) return done(hipErrorInvalidValue);
  GIVE(device, host);
}
hipError_t hipHostGetFlags(unsigned* flags, void* p) {
  ENTER;
  Guard guard;
  Allocation* a = find_allocation(p);
  if (!a || a->type != hipMemoryTypeHost) return done(hipErrorInvalidValue);
  GIVE(flags, a->flags);
}
hipError_t hipHostRegister(void* p, size_t bytes, unsigned flags) {
  ENTER;
  if (!p || !bytes) return done(hipErrorInvalidValue);
  Guard guard;
  if (find_allocation(p)) return done(hipErrorHostMemoryAlreadyRegistered);
  Allocation a = allocation(p, bytes, hipMemoryTypeHost, current_device(), flags);
  a.registered = true;
  enter(a);
  return done(hipSuccess);
}
hipError_t hipHostUnregister(void* p) {
  ENTER;
  Guard guard;
  Allocation* a = find_allocation(p);
  if (!a || a->base != p || !a->registered) return done(hipErrorHostMemoryNotRegistered);
  Allocation was = leave(a);
  forget_pinned_reads(was.base, was.bytes);
  cdna_memory_forget((u64)was.base, was.bytes);  // the host's as before
  return done(hipSuccess);
}

hipError_t hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  ENTER;
  if (!free_bytes || !total_bytes) return done(hipErrorInvalidValue);
  *total_bytes = device_card().memory_bytes;
  // No more than the host has: programs size their buffers by this.
  u64 left = device_card().memory_bytes - used_bytes(current_device()), host = (u64)sysconf(_SC_AVPHYS_PAGES) * PAGE;
  *free_bytes = left < host ? left : host;
  return done(hipSuccess);
}
hipError_t hipMemPtrGetInfo(void* p, size_t* bytes) {
  ENTER;
  Guard guard;
  Allocation* a = find_allocation(p);
  if (!a) return done(hipErrorInvalidValue);
  GIVE(bytes, a->bytes);
}
hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* bytes, hipDeviceptr_t p) {
  ENTER;
  Guard guard;
  Allocation* a = find_allocation(p);
  if (!a) return done(hipErrorNotFound);
  if (base) *base = a->base;
  if (bytes) *bytes = a->bytes;
  return done(hipSuccess);
}
hipError_t hipPointerGetAttributes(hipPointerAttribute_t* out, const void* p) {
  ENTER;
  if (!out || !p) return done(hipErrorInvalidValue);
  memset((void*)out, 0, sizeof *out);
  Guard guard;
  Allocation* a = find_allocation(p);
  if (!a) {  // since HIP 6: memory that HIP does not know is no error
    out->type = hipMemoryTypeUnregistered;
    out->device = hipInvalidDeviceId;
    return done(hipSuccess);
  }
  out->type = a->type;
  out->device = a->device;
  out->devicePointer = (void*)p;
  out->hostPointer = a->type == hipMemoryTypeDevice ? nullptr : (void*)p;
  out->isManaged = a->type == hipMemoryTypeManaged;
  out->allocationFlags = a->flags;
  return done(hipSuccess);
}
hipError_t hipPointerGetAttribute(void* out, hipPointer_attribute which, hipDeviceptr_t p) {
  ENTER;
  Guard guard;
  Allocation* a = find_allocation(p);
  if (!out || !a) return done(hipErrorInvalidValue);
  switch (which) {
    case HIP_POINTER_ATTRIBUTE_CONTEXT: *(size_t*)out = a->device + 1; break;
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned*)out = a->type; break;
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER: *(void**)out = p; break;
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
      if (a->type == hipMemoryTypeDevice) return done(hipErrorInvalidValue);
      *(void**)out = p;
      break;
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID: *(u64*)out = a->id; break;
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED: *(bool*)out = a->type == hipMemoryTypeManaged; break;
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int*)out = a->device; break;
    case HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE: *(bool*)out = !a->registered; break;
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(void**)out = a->base; break;
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t*)out = a->bytes; break;
    case HIP_POINTER_ATTRIBUTE_MAPPED: *(bool*)out = true; break;
    default: return done(hipErrorInvalidValue);
  }
  return done(hipSuccess);
}

hipError_t hipDrvPointerGetAttributes(unsigned n, hipPointer_attribute* which, void** out, hipDeviceptr_t p) {
  ENTER;
  if (!n || !which || !out || !p) return done(hipErrorInvalidValue);
  for (unsigned i = 0; i < n; i++)
    (void)hipPointerGetAttribute(out[i], which[i], p);  // others' values stay as they are
  return done(hipSuccess);
}
// Of all attributes this one can be set: copies that wait are synchronous here anyway.
hipError_t hipPointerSetAttribute(const void* value, hipPointer_attribute which, hipDeviceptr_t p) {
  ENTER;
  Guard guard;
  bool can = value && p && which == HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS;
  return done(!can ? hipErrorInvalidValue : find_allocation(p) ? hipSuccess : hipErrorInvalidDevicePointer);
}

hipError_t hipStreamAttachMemAsync(hipStream_t, void* p, size_t, unsigned) {
  CALL(p ? hipSuccess : hipErrorInvalidValue);
}

// --- between processes -------------------------------------------------------------------------------

struct IpcHandle {
  u64 magic;
  u64 file_offset, file_bytes, base_offset, bytes;
  i32 process, file, device;
  u32 where;  // to ask for the file
};
static_assert(sizeof(IpcHandle) <= HIP_IPC_HANDLE_SIZE, "");
constexpr u64 IPC_MAGIC = 0x31435049414e4443ull;  // "CDNAIPC1"

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t* handle, void* p) {
  ENTER;
  if (!handle || !p) return done(hipErrorInvalidValue);
  Guard guard;
  Allocation* a = find_allocation(p);
  if (!a || a->registered || a->imported || a->mapped) return done(hipErrorInvalidDevicePointer);
  IpcHandle h = {
      IPC_MAGIC, a->file_offset, a->file_bytes, (u64)(a->base - a->mapping), a->bytes, a->owner, a->file, a->device, 0};
  if (!lend(a->file, &h.where)) return done(hipErrorOutOfMemory);
  a->exported = true;
  cdna_memory_is_lent();
  memset(handle, 0, sizeof *handle);
  memcpy(handle, &h, sizeof h);
  return done(hipSuccess);
}

static hipError_t open_handle(void** out, const void* handle, bool from_pool, const char* call) {
  IpcHandle h;
  memcpy(&h, handle, sizeof h);
  if (!out || h.magic != IPC_MAGIC) return hipErrorInvalidValue;
  if (h.process == getpid()) return hipErrorInvalidContext;  // HIP refuses a handle of the same process
  int file = borrow(h.file, h.where);
  if (file < 0) {
    say("%s: no memory from process %d: %s", call, h.process, strerror(errno));
    return hipErrorMapFailed;
  }
  Allocation a = allocation(nullptr, h.bytes, hipMemoryTypeDevice, h.device);
  a.mapping_bytes = h.file_bytes + PAGE;
  a.mapping = reserve_addresses(nullptr, a.mapping_bytes);
  bool mapped = a.mapping && mmap(a.mapping, h.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                                  h.file_offset) != MAP_FAILED;
  close(file);
  if (!mapped) return hipErrorMapFailed;
  a.base = a.mapping + h.base_offset;
  a.imported = true;
  a.owner = h.process;
  cdna_memory_is_lent();
  a.from_pool = from_pool;
  Guard guard;
  enter(a);
  *out = a.base;
  return hipSuccess;
}

hipError_t hipIpcOpenMemHandle(void** out, hipIpcMemHandle_t handle, unsigned) {
  CALL(open_handle(out, &handle, false, "hipIpcOpenMemHandle"));
}
static_assert(sizeof(hipMemPoolPtrExportData) == sizeof(hipIpcMemHandle_t), "");
hipError_t hipMemPoolExportPointer(hipMemPoolPtrExportData* out, void* p) {
  return hipIpcGetMemHandle((hipIpcMemHandle_t*)out, p);
}
hipError_t hipMemPoolImportPointer(void** out, hipMemPool_t pool, hipMemPoolPtrExportData* data) {
  CALL(!pool || !data ? hipErrorInvalidValue : open_handle(out, data, true, "hipMemPoolImportPointer"));
}

hipError_t hipIpcCloseMemHandle(void* p) {
  ENTER;
  Guard guard;
  Allocation* a = find_allocation(p);
  if (!a || a->base != p || !a->imported || a->from_pool) return done(hipErrorInvalidValue);
  Allocation closed = leave(a);
  return_addresses(closed.mapping, closed.mapping_bytes);
  return done(hipSuccess);
}
}
