// What one stream's work and another's touch, one of them by a write that changes it, with nothing between the two that
// orders them.
//
// The HIP runtime numbers each piece of work by its stream and its place there, and says for each stream up to which place
// its work has ended before this piece begins (hip/runtime/stream_order.cpp); a graph's branches count as streams. Each
// dword of an allocation keeps the number of the work that wrote it last, and of one that read it.
#include "under_way.h"
#include <stdlib.h>

constexpr u64 OWNED_LIMIT = 1ull << 30;  // bytes of an allocation whose writers are kept

void keep_owners(Range& r) {
  if (r.owners || r.freed || r.end - r.base > OWNED_LIMIT) return;
  u32** const lists[] = {&r.owners, &r.updaters, &r.readers};
  for (u32** list : lists) *list = (u32*)calloc((r.end - r.base) / 4 + 2, 4);
}

void drop_owners(Range& r) {
  free(r.owners);
  free(r.updaters);
  free(r.readers);
  r.owners = r.updaters = r.readers = nullptr;
}

static bool ended_before(u32 work, const u64* known) {
  return known[work >> WORK_PLACE_BITS] >= (work & ((1u << WORK_PLACE_BITS) - 1));
}

void own(const Range& r, u64 from, u64 to, u32 work, const u64* known) {
  const u64 base = r.base & ~3ull;
  for (u64 at = from & ~3ull; at < to; at += 4) {
    u32* owner = &r.owners[(at - base) >> 2];
    // Of a dword in which another stream has written bytes, nobody is known to have written all.
    const u32 before = at >= from && at + 4 <= to ? 0 : __atomic_load_n(owner, __ATOMIC_RELAXED);
    __atomic_store_n(owner, before && before != work && !ended_before(before, known) ? 0 : work, __ATOMIC_RELAXED);
  }
}

static void note(u32* works, const Range& r, u64 from, u64 to, u32 work) {
  const u64 base = r.base & ~3ull;
  for (u64 k = (from - base) >> 2; k <= (to - 1 - base) >> 2; k++) __atomic_store_n(&works[k], work, __ATOMIC_RELAXED);
}
void note_reader(const Range& r, u64 from, u64 to, u32 work) { note(r.readers, r, from, to, work); }

u32 unordered(const u32* works, const Range& r, u64 from, u64 to, u32 work, const u64* known) {
  const u64 base = r.base & ~3ull;
  for (u64 k = (from - base) >> 2; k <= (to - 1 - base) >> 2; k++) {
    const u32 other = __atomic_load_n(&works[k], __ATOMIC_RELAXED);
    if (other && other != work && !ended_before(other, known)) return other;
  }
  return 0;
}

// A store of whole dwords: bytes beside each other may be different streams'.
static bool check_store(Wave& w, const StoredLanes& stored, int lane, const Range& r) {
  const Checks& c = *w.wg->check->checks;
  const Access& x = *stored.x;
  const u64 from = stored.at[lane];
  bool changed = false;
  for (u32 k = 0; stored.data && x.bytes >= 4 && from % 4 == 0 && k < x.bytes / 4u; k++)
    changed |= changes(x, stored.data, lane, k, (const u8*)from + 4 * k);
  if (!changed) return true;
  if (x.ordered) note(r.updaters, r, from, from + x.bytes, c.work);
  if (c.looks) return true;
  const u32 writer = unordered(r.owners, r, from, from + x.bytes, c.work, c.known);
  const u32 updater = writer || x.ordered ? 0 : unordered(r.updaters, r, from, from + x.bytes, c.work, c.known);
  const u32 reader = writer || updater ? 0 : unordered(r.readers, r, from, from + x.bytes, c.work, c.known);
  const u32 other = writer | updater | reader;
  if (!other || !changes_after_others(stored, lane, 0, x.bytes)) return true;
  return report(w, CHECK_RACE, lane, from, &r, ~0u,
                "writes other values to %u bytes of %s at offset %llu, which %s has %s %s", x.bytes, r.name,
                (unsigned long long)(from - r.base), c.work_name(other), reader ? "read" : "written",
                c.beside(c.work, other));
}

// What an atomic has changed. It may meet others' atomics there, not their stores and loads.
bool check_stream_update(Wave& w, int lane, u64 from, u64 to, const Range& r) {
  const Checks& c = *w.wg->check->checks;
  note(r.updaters, r, from, to, c.work);
  const u32 writer = c.looks ? 0 : unordered(r.owners, r, from, to, c.work, c.known);
  const u32 reader = c.looks || writer ? 0 : unordered(r.readers, r, from, to, c.work, c.known);
  if (!writer && !reader) return true;
  return report(w, CHECK_RACE, lane, from, &r, ~0u, "updates %s atomically at offset %llu, which %s has %s %s", r.name,
                (unsigned long long)(from - r.base), c.work_name(writer | reader), writer ? "written" : "read",
                c.beside(c.work, writer | reader));
}

// A launch that looks at flags may have been told by them that the other has written. Flags themselves are no data.
bool check_streams(Wave& w, const Access& x, const u64* at, u64 lanes, const u32* data, const Range& r) {
  const Checks& c = *w.wg->check->checks;
  for (u64 m = lanes; m; m &= m - 1) {
    const int lane = __builtin_ctzll(m);
    const u64 from = at[lane], to = from + x.bytes;
    if (x.kind == VM_STORE) {
      if (!check_store(w, {&x, at, data, lanes}, lane, r)) return false;
      if (!x.ordered) own(r, from, to, c.work, c.known);
      continue;
    }
    note_reader(r, from, to, c.work);
    u32 other = c.looks ? 0 : unordered(r.owners, r, from, to, c.work, c.known);
    if (!other && !c.looks) other = unordered(r.updaters, r, from, to, c.work, c.known);
    if (other) {
      return report(w, CHECK_RACE, lane, from, &r, ~0u, "reads %u bytes of %s at offset %llu, which %s has written %s",
                    x.bytes, r.name, (unsigned long long)(from - r.base), c.work_name(other), c.beside(c.work, other));
    }
  }
  return true;
}
