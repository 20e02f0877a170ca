// The HIP runtime numbers each piece of work by its stream and its place there, and says for each stream up to which place
// its work has ended before this piece begins (hip/runtime/stream_order.cpp); a graph's branches count as streams. Each
// dword of an allocation keeps the number of the work that wrote it last, and of one that read it.
#include "stream_work.h"

constexpr u64 OWNED_LIMIT = 1ull << 30;  // bytes of an allocation whose writers are kept

void keep_owners(MemoryRange& r) {
  if (r.owners || r.freed || r.end - r.base > OWNED_LIMIT) return;
  u32** const lists[] = {&r.owners, &r.updaters, &r.readers};
  for (u32** list : lists) *list = (u32*)calloc((r.end - r.base) / 4 + 2, 4);
}

void drop_owners(MemoryRange& r) {
  free(r.owners);
  free(r.updaters);
  free(r.readers);
  r.owners = r.updaters = r.readers = nullptr;
}

void note_writer(const MemoryRange& r, u64 from, u64 to, u32 work, const u64* known) {
  const u64 base = r.base & ~3ull;
  for (u64 at = from & ~3ull; at < to; at += 4) {
    u32* owner = &r.owners[(at - base) >> 2];
    // Of a dword in which another stream has written bytes, nobody is known to have written all.
    const u32 before = at >= from && at + 4 <= to ? 0 : __atomic_load_n(owner, __ATOMIC_RELAXED);
    __atomic_store_n(owner, before && before != work && !has_ended(before, known) ? 0 : work, __ATOMIC_RELAXED);
  }
}

void note_work(u32* works, const MemoryRange& r, u64 from, u64 to, u32 work) {
  const u64 base = r.base & ~3ull;
  for (u64 k = (from - base) >> 2; k <= (to - 1 - base) >> 2; k++) __atomic_store_n(&works[k], work, __ATOMIC_RELAXED);
}

u32 unordered(const u32* works, const MemoryRange& r, u64 from, u64 to, u32 work, const u64* known) {
  const u64 base = r.base & ~3ull;
  for (u64 k = (from - base) >> 2; k <= (to - 1 - base) >> 2; k++) {
    const u32 other = __atomic_load_n(&works[k], __ATOMIC_RELAXED);
    if (other && other != work && !has_ended(other, known)) return other;
  }
  return 0;
}
