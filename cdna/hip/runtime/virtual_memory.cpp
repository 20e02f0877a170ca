// Virtual memory management: reserved addresses, memory without an address, and mappings of one into the other.
#include "runtime.h"
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// A page, and what one entry of the GPU's page table can reach at best.
constexpr u64 GRANULARITY = 4096, RECOMMENDED_GRANULARITY = 2 << 20;

struct ihipMemGenericAllocationHandle {
  int file;  // of this memory alone: its descriptor is what another process is given
  size_t bytes;
  hipMemAllocationProp properties;
  u32 references;  // one of the program's, one for each mapping
};
struct Range {
  u8* base;
  size_t bytes;
};
struct Mapping {
  Range range;
  hipMemGenericAllocationHandle_t memory;
  hipMemAccessFlags access;
};
static List<hipMemGenericAllocationHandle_t> memories;
static List<Range> reserved;
static List<Mapping> mappings;

static bool known(hipMemGenericAllocationHandle_t m) { return m && memories.contains(m); }
static bool aligned(size_t n) { return n && n % GRANULARITY == 0; }
static bool within(const Range& outer, const void* p, size_t bytes) {
  return (u8*)p >= outer.base && (u8*)p + bytes <= outer.base + outer.bytes;
}
static Mapping* mapping_at(const void* p) {
  for (Mapping& m : mappings)
    if (within(m.range, p, 1)) return &m;
  return nullptr;
}

// Whether mappings fill the range: several may be changed together, each as a whole.
static bool whole_mappings(void* p, size_t bytes) {
  size_t left = bytes;
  for (const Mapping& m : mappings)
    if (within({(u8*)p, bytes}, m.range.base, m.range.bytes)) left -= m.range.bytes;
  return bytes && !left;
}

static hipMemGenericAllocationHandle_t add_memory(int file, size_t bytes, const hipMemAllocationProp& properties) {
  hipMemGenericAllocationHandle_t m = make<ihipMemGenericAllocationHandle>();
  m->file = file;
  m->bytes = bytes;
  m->properties = properties;
  m->references = 1;
  memories.push(m);
  return m;
}
static void drop(hipMemGenericAllocationHandle_t m) {
  if (--m->references) return;
  close(m->file);
  memories.drop(m);
  free(m);
}

extern "C" {
hipError_t hipMemGetAllocationGranularity(size_t* out, const hipMemAllocationProp* p,
                                          hipMemAllocationGranularity_flags which) {
  ENTER;
  if (!out || !p || p->location.type != hipMemLocationTypeDevice || !valid_device(p->location.id))
    return done(hipErrorInvalidValue);
  *out = which == hipMemAllocationGranularityRecommended ? RECOMMENDED_GRANULARITY : GRANULARITY;
  return done(hipSuccess);
}

hipError_t hipMemAddressReserve(void** out, size_t bytes, size_t alignment, void* wanted, unsigned long long flags) {
  ENTER;
  if (!out || flags || !aligned(bytes) || alignment & (alignment - 1)) return done(hipErrorInvalidValue);
  size_t extra = alignment > GRANULARITY ? alignment : 0;
  u8* p = reserve_addresses(wanted, bytes + extra);
  if (!p) return done(hipErrorOutOfMemory);
  if (extra) {
    u8* base = (u8*)(((u64)p + alignment - 1) / alignment * alignment);
    if (base > p) munmap(p, base - p);
    if (p + extra > base) munmap(base + bytes, p + extra - base);
    p = base;
  }
  Guard guard;
  reserved.push({p, bytes});
  *out = p;
  return done(hipSuccess);
}
hipError_t hipMemAddressFree(void* p, size_t bytes) {
  ENTER;
  Guard guard;
  for (u32 i = 0; i < reserved.count; i++) {
    if (reserved[i].base != p || reserved[i].bytes != bytes) continue;
    for (const Mapping& m : mappings)
      if (within(reserved[i], m.range.base, 1)) return done(hipErrorInvalidValue);  // it is still mapped
    return_addresses(p, bytes);
    reserved.remove(i);
    return done(hipSuccess);
  }
  return done(hipErrorInvalidValue);
}

hipError_t hipMemCreate(hipMemGenericAllocationHandle_t* out, size_t bytes, const hipMemAllocationProp* p,
                        unsigned long long flags) {
  ENTER;
  if (!out || !p || flags || !aligned(bytes) || p->type != hipMemAllocationTypePinned ||
      p->location.type != hipMemLocationTypeDevice || !valid_device(p->location.id))
    return done(hipErrorInvalidValue);
  Guard guard;
  int file = memfd_create("cdna-physical-memory", MFD_CLOEXEC);
  if (file < 0 || used_bytes(p->location.id) + bytes > device_card().memory_bytes || ftruncate(file, bytes)) {
    if (file >= 0) close(file);
    return done(hipErrorOutOfMemory);
  }
  *out = add_memory(file, bytes, *p);
  return done(hipSuccess);
}
hipError_t hipMemRelease(hipMemGenericAllocationHandle_t memory) {
  ENTER;
  Guard guard;
  if (!known(memory)) return done(hipErrorInvalidValue);
  drop(memory);
  return done(hipSuccess);
}
hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t* out, void* p) {
  ENTER;
  Guard guard;
  Mapping* m = mapping_at(p);
  if (!out || !m) return done(hipErrorInvalidValue);
  m->memory->references++;
  *out = m->memory;
  return done(hipSuccess);
}
hipError_t hipMemGetAllocationPropertiesFromHandle(hipMemAllocationProp* out, hipMemGenericAllocationHandle_t memory) {
  ENTER;
  Guard guard;
  if (!known(memory)) return done(hipErrorInvalidValue);
  GIVE(out, memory->properties);
}

// Without access until hipMemSetAccess gives it.
hipError_t hipMemMap(void* p, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t memory,
                     unsigned long long flags) {
  ENTER;
  Guard guard;
  if (!known(memory) || flags || offset % GRANULARITY || !aligned(bytes) || offset + bytes > memory->bytes)
    return done(hipErrorInvalidValue);
  bool inside = false;
  for (const Range& r : reserved) inside |= within(r, p, bytes);
  for (const Mapping& m : mappings) inside &= (u8*)p >= m.range.base + m.range.bytes || (u8*)p + bytes <= m.range.base;
  if (!inside) return done(hipErrorInvalidValue);
  if (mmap(p, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, memory->file, offset) == MAP_FAILED)
    return done(hipErrorMapFailed);
  memory->references++;
  mappings.push({{(u8*)p, bytes}, memory, hipMemAccessFlagsProtNone});
  enter_mapping(p, bytes, memory->properties.location.id);
  return done(hipSuccess);
}
hipError_t hipMemUnmap(void* p, size_t bytes) {
  ENTER;
  wait_for_all();
  Guard guard;
  if (!whole_mappings(p, bytes)) return done(hipErrorInvalidValue);
  for (u32 i = mappings.count; i-- > 0;) {
    Mapping m = mappings[i];
    if (!within({(u8*)p, bytes}, m.range.base, m.range.bytes)) continue;
    reserve_addresses(m.range.base, m.range.bytes, MAP_FIXED);
    mappings.remove(i);
    leave_mapping(m.range.base);
    drop(m.memory);
  }
  return done(hipSuccess);
}
// Every device sees one memory, and so does the host: what any of them is given, all get.
hipError_t hipMemSetAccess(void* p, size_t bytes, const hipMemAccessDesc* list, size_t n) {
  ENTER;
  if (!list || !n) return done(hipErrorInvalidValue);
  unsigned flags = hipMemAccessFlagsProtNone;
  for (size_t i = 0; i < n; i++) {
    bool host = list[i].location.type == hipMemLocationTypeHost;
    if (!host && (list[i].location.type != hipMemLocationTypeDevice || !valid_device(list[i].location.id)))
      return done(hipErrorInvalidValue);
    flags |= list[i].flags;
  }
  Guard guard;
  if (!whole_mappings(p, bytes)) return done(hipErrorInvalidValue);
  for (Mapping& m : mappings) {
    if (!within({(u8*)p, bytes}, m.range.base, m.range.bytes)) continue;
    int protection = flags == hipMemAccessFlagsProtNone   ? PROT_NONE
                     : flags == hipMemAccessFlagsProtRead ? PROT_READ
                                                          : PROT_READ | PROT_WRITE;
    if (mprotect(m.range.base, m.range.bytes, protection)) return done(hipErrorInvalidValue);
    m.access = (hipMemAccessFlags)flags;
  }
  return done(hipSuccess);
}
hipError_t hipMemGetAccess(unsigned long long* flags, const hipMemLocation* location, void* p) {
  ENTER;
  Guard guard;
  Mapping* m = mapping_at(p);
  if (!location || !m) return done(hipErrorInvalidValue);
  GIVE(flags, m->access);
}

hipError_t hipMemExportToShareableHandle(void* out, hipMemGenericAllocationHandle_t memory,
                                         hipMemAllocationHandleType type, unsigned long long flags) {
  ENTER;
  Guard guard;
  if (!out || flags || !known(memory) || type != hipMemHandleTypePosixFileDescriptor) return done(hipErrorInvalidValue);
  *(int*)out = dup(memory->file);
  return done(*(int*)out < 0 ? hipErrorOutOfMemory : hipSuccess);
}
hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t* out, void* descriptor,
                                           hipMemAllocationHandleType type) {
  ENTER;
  struct stat state;
  int file = (int)(size_t)descriptor;
  if (!out || type != hipMemHandleTypePosixFileDescriptor || fstat(file, &state) || !aligned(state.st_size))
    return done(hipErrorInvalidValue);
  int own = dup(file);
  if (own < 0) return done(hipErrorOutOfMemory);
  hipMemAllocationProp properties = {};
  properties.type = hipMemAllocationTypePinned;
  properties.requestedHandleType = type;
  properties.location.type = hipMemLocationTypeDevice;
  properties.location.id = current_device();
  Guard guard;
  *out = add_memory(own, state.st_size, properties);
  return done(hipSuccess);
}
}
