// What a runtime has told of its allocations, for all launches of the process. What was freed lately is known as freed until
// its addresses are used again, or until the runtime forgets it: anybody may get addresses that are the system's again,
// without telling us.
#include "registry.h"
#include "isa/lock.h"
#include "stream_work.h"
#include <stdio.h>

namespace {
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
List<MemoryRange> registry;
u32 n_freed;
constexpr u32 KEPT_FREED = 256;
volatile bool lent;
}  // namespace

MemoryRange memory_range(u64 base, u64 bytes, const char* name) {
  MemoryRange r;
  memset((void*)&r, 0, sizeof r);
  r.base = base;
  r.end = base + bytes;
  snprintf(r.name, sizeof r.name, "%s", name);
  return r;
}

bool variables_of(const Program& p, u32 section, List<MemoryRange>& out) {
  const u64 base = (u64)p.sections[section], end = base + p.section_bytes[section];
  bool sized = false;
  for (u32 i = 0; i < p.n_symbols; i++) {
    const u64 at = (u64)p.symbols[i].address;
    if (at < base || at > end || (at == end && end != base)) continue;
    if (!p.symbols[i].size) return false;
    sized = true;
  }
  for (u32 i = 0; i < p.n_symbols && sized; i++) {
    const Symbol& s = p.symbols[i];
    const u64 at = (u64)s.address;
    if (at < base || at >= end) continue;
    char name[64];
    snprintf(name, sizeof name, "the variable %s", s.name);
    MemoryRange r = memory_range(at, s.size % 16 == 12 ? s.size + 4 : s.size, name);  // three dwords are loaded as four
    r.internal = !strncmp(s.name, "__hip_cuid_", 11);                                 // the compiler's own
    r.variable = true;
    r.constant = s.constant;
    out.push(r);
  }
  return sized;
}

void each_allocation(bool keeps_work, void (*each)(const MemoryRange&, void*), void* with) {
  const Lock locked(lock);
  for (MemoryRange& r : registry) {
    if (keeps_work) keep_owners(r);
    each(r, with);
  }
}

static void forget(u64 base, u64 bytes) {
  for (u64 i = registry.count; i-- > 0;)
    if (registry[i].freed && registry[i].base < base + bytes && base < registry[i].end) {
      registry.remove(i);
      n_freed--;
    }
}

bool memory_is_lent() { return lent; }

extern "C" {
void cdna_memory_is_lent() { lent = true; }

void cdna_memory_forget(u64 base, u64 bytes) {
  const Lock locked(lock);
  forget(base, bytes);
}

u32 cdna_stream_moves(u64 from, u64 to, u64 bytes, u32 work, const u64* known, bool changes, u32* clash) {
  u32 found = 0;
  const auto look = [&](const u32* works, const MemoryRange& r, u64 at, u32 how) {
    if (found) return;
    found = unordered(works, r, at, at + bytes, work, known);
    *clash = how;
  };
  const Lock locked(lock);
  for (MemoryRange& r : registry) {
    if (work && ((from && from - r.base < r.end - r.base) || to - r.base < r.end - r.base)) keep_owners(r);
    if (!r.owners || r.freed) continue;
    if (from && from - r.base < r.end - r.base && from + bytes <= r.end) {
      look(r.owners, r, from, 0);
      look(r.updaters, r, from, 0);
      note_work(r.readers, r, from, from + bytes, work);
    }
    if (to - r.base < r.end - r.base && to + bytes <= r.end) {
      if (changes) look(r.owners, r, to, 1);
      if (changes) look(r.updaters, r, to, 1);
      if (changes) look(r.readers, r, to, 2);
      note_writer(r, to, to + bytes, work, known);
    }
  }
  return found;
}

void cdna_variables_register(Program* p) {
  const Lock locked(lock);
  for (u32 i = 0; i < p->n_sections; i++) (void)variables_of(*p, i, registry);
  p->listed = true;
}

void cdna_variables_forget(Program* p) {
  const Lock locked(lock);
  for (u32 i = 0; i < p->n_sections; i++)
    for (u64 k = registry.count; k-- > 0;) {
      MemoryRange& r = registry[k];
      if (!r.variable || r.base - (u64)p->sections[i] > p->section_bytes[i]) continue;
      drop_owners(r);
      registry.remove(k);
    }
  p->listed = false;
}

void cdna_memory_register(u64 base, u64 bytes, const char* name, bool shown) {
  const Lock locked(lock);
  forget(base, bytes);
  MemoryRange& r = registry.add();
  r = memory_range(base, bytes, name);
  r.shown = shown;
}

void cdna_memory_unregister(u64 base) {
  const Lock locked(lock);
  for (u64 i = 0; i < registry.count; i++) {
    if (registry[i].base != base || registry[i].freed) continue;
    MemoryRange r = registry[i];
    drop_owners(r);
    registry.remove(i);
    r.freed = true;
    registry.push(r);
    n_freed++;
    break;
  }
  for (u64 i = 0; i < registry.count && n_freed > KEPT_FREED; i++)
    if (registry[i].freed) {
      registry.remove(i--);
      n_freed--;
    }
}

bool cdna_holds_addresses(const u64* values, u64 n, const u64* bounds, u32 n_bounds) {
  for (u64 i = 0; i < n; i++) {
    if (values[i] - bounds[0] >= bounds[n_bounds - 1] - bounds[0]) continue;
    if (upto(bounds, n_bounds, values[i], [](u64 bound) { return bound; }) & 1) return true;
  }
  return false;
}
}
