// What a program says about where its managed memory should be: kept, so that it can be asked for. There is one memory,
// so nothing moves.
#include "runtime.h"

constexpr u64 PAGE = 4096;

struct Advice {  // of one page
  u64 page;
  bool read_mostly, coarse;
  int preferred, prefetched;
  u32 accessed_by;  // bits: devices, and the host as the last one
};
static List<Advice> advices;  // by page

static u64 position(u64 page) {  // of the first that is of this page or a later one
  return upto(advices.items, advices.count, page, [](const Advice& a) { return a.page + 1; });
}
static const Advice NO_ADVICE = {0, false, false, hipInvalidDeviceId, hipInvalidDeviceId, 0};
static const Advice& of(u64 page) {
  const u64 at = position(page);
  return at < advices.count && advices[at].page == page ? advices[at] : NO_ADVICE;
}
static Advice& to_change(u64 page) {
  const u64 at = position(page);
  if (at == advices.count || advices[at].page != page) {
    Advice a = NO_ADVICE;
    a.page = page;
    advices.insert(at, a);
  }
  return advices[at];
}
static u32 bit(int device) { return device == hipCpuDeviceId ? 1u << MAX_DEVICES : 1u << device; }
static bool is_place(int device) { return device == hipCpuDeviceId || valid_device(device); }

// The program's own memory may be advised upon too: these cards share the host's page tables.
static bool advisable(const void* p, size_t bytes) { return p && bytes && within_allocation(p, bytes); }

void forget_advice(const void* base, size_t bytes) {
  u32 first = position((u64)base / PAGE), end = position(((u64)base + bytes + PAGE - 1) / PAGE);
  while (end > first) advices.remove(--end);
}

template <class Change>
static hipError_t change(const void* p, size_t bytes, int device, Change&& what) {
  if (!is_place(device)) return hipErrorInvalidDevice;
  Guard guard;
  if (!advisable(p, bytes)) return hipErrorInvalidValue;
  for (u64 page = (u64)p / PAGE; page <= ((u64)p + bytes - 1) / PAGE; page++) what(to_change(page));
  return hipSuccess;
}

static int place_of(hipMemLocation l) { return l.type == hipMemLocationTypeDevice ? l.id : hipCpuDeviceId; }

static hipError_t attribute(void* out, size_t bytes, hipMemRangeAttribute which, const void* p, size_t count) {
  Guard guard;
  if (!out || !bytes || bytes % 4 || !advisable(p, count)) return hipErrorInvalidValue;
  u64 first = (u64)p / PAGE, last = ((u64)p + count - 1) / PAGE;
  bool read_mostly = true, all_coarse = true, all_fine = true;
  int preferred = of(first).preferred, prefetched = of(first).prefetched;
  u32 accessed_by = ~0u;
  for (u64 page = first; page <= last; page++) {  // what does not hold for all of the range does not hold
    const Advice& a = of(page);
    read_mostly &= a.read_mostly;
    all_coarse &= a.coarse;
    all_fine &= !a.coarse;
    accessed_by &= a.accessed_by;
    if (a.preferred != preferred) preferred = hipInvalidDeviceId;
    if (a.prefetched != prefetched) prefetched = hipInvalidDeviceId;
  }
  i32* value = (i32*)out;
  if (which == hipMemRangeAttributeAccessedBy) {
    u32 n = 0;
    for (int device = hipCpuDeviceId; device < device_count() && n < bytes / 4; device++)
      if (accessed_by & bit(device)) value[n++] = device;
    while (n < bytes / 4) value[n++] = hipInvalidDeviceId;
    return hipSuccess;
  }
  if (bytes != 4) return hipErrorInvalidValue;
  switch (which) {
    case hipMemRangeAttributeReadMostly: *value = read_mostly; return hipSuccess;
    case hipMemRangeAttributePreferredLocation: *value = preferred; return hipSuccess;
    case hipMemRangeAttributeLastPrefetchLocation: *value = prefetched; return hipSuccess;
    case hipMemRangeAttributeCoherencyMode:
      *value = all_fine     ? hipMemRangeCoherencyModeFineGrain
               : all_coarse ? hipMemRangeCoherencyModeCoarseGrain
                            : hipMemRangeCoherencyModeIndeterminate;
      return hipSuccess;
    default: return hipErrorInvalidValue;
  }
}

extern "C" {
hipError_t hipMemAdvise(const void* p, size_t bytes, hipMemoryAdvise advice, int device) {
  ENTER;
  bool about_a_place = advice >= hipMemAdviseSetPreferredLocation && advice <= hipMemAdviseUnsetAccessedBy;
  return done(change(p, bytes, about_a_place ? device : hipCpuDeviceId, [&](Advice& a) {
    switch (advice) {
      case hipMemAdviseSetReadMostly:
      case hipMemAdviseUnsetReadMostly: a.read_mostly = advice == hipMemAdviseSetReadMostly; break;
      case hipMemAdviseSetPreferredLocation: a.preferred = device; break;
      case hipMemAdviseUnsetPreferredLocation: a.preferred = hipInvalidDeviceId; break;
      case hipMemAdviseSetAccessedBy: a.accessed_by |= bit(device); break;
      case hipMemAdviseUnsetAccessedBy: a.accessed_by &= ~bit(device); break;
      case hipMemAdviseSetCoarseGrain:
      case hipMemAdviseUnsetCoarseGrain: a.coarse = advice == hipMemAdviseSetCoarseGrain; break;
    }
  }));
}
hipError_t hipMemAdvise_v2(const void* p, size_t bytes, hipMemoryAdvise advice, hipMemLocation location) {
  return hipMemAdvise(p, bytes, advice, place_of(location));
}
hipError_t hipMemPrefetchAsync(const void* p, size_t bytes, int device, hipStream_t stream) {
  ENTER;
  if (!resolve(stream)) return done(hipErrorInvalidHandle);
  return done(change(p, bytes, device, [&](Advice& a) { a.prefetched = device; }));
}
hipError_t hipMemPrefetchAsync_v2(const void* p, size_t bytes, hipMemLocation location, unsigned, hipStream_t stream) {
  return hipMemPrefetchAsync(p, bytes, place_of(location), stream);
}
hipError_t hipMemRangeGetAttribute(void* out, size_t bytes, hipMemRangeAttribute which, const void* p, size_t count) {
  CALL(attribute(out, bytes, which, p, count));
}
hipError_t hipMemRangeGetAttributes(void** out, size_t* bytes, hipMemRangeAttribute* which, size_t n, const void* p,
                                    size_t count) {
  ENTER;
  if (!out || !bytes || !which || !n) return done(hipErrorInvalidValue);
  for (size_t i = 0; i < n; i++) {
    hipError_t error = attribute(out[i], bytes[i], which[i], p, count);
    if (error) return done(error);
  }
  return done(hipSuccess);
}
}
