// What one stream's work and another's touch, one of them by a write that changes it, with nothing between the two that
// orders them (memory/stream_work.h).
#include "memory/stream_work.h"
#include "stores_in_flight.h"

// A store of whole dwords: bytes beside each other may be different streams'.
static bool check_store(Wave& w, const StoredLanes& stored, int lane, const Range& r) {
  const Checks& c = *w.wg->check->checks;
  const Access& x = *stored.x;
  const u64 from = stored.at[lane];
  bool changed = false;
  for (u32 k = 0; stored.data && x.bytes >= 4 && from % 4 == 0 && k < x.bytes / 4u; k++)
    changed |= changes(x, stored.data, lane, k, (const u8*)from + 4 * k);
  if (!changed) return true;
  if (x.ordered) note_work(r.updaters, r, from, from + x.bytes, c.work);
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
  note_work(r.updaters, r, from, to, c.work);
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
      if (!x.ordered) note_writer(r, from, to, c.work, c.known);
      continue;
    }
    note_work(r.readers, r, from, to, c.work);
    u32 other = c.looks ? 0 : unordered(r.owners, r, from, to, c.work, c.known);
    if (!other && !c.looks) other = unordered(r.updaters, r, from, to, c.work, c.known);
    if (other) {
      return report(w, CHECK_RACE, lane, from, &r, ~0u, "reads %u bytes of %s at offset %llu, which %s has written %s",
                    x.bytes, r.name, (unsigned long long)(from - r.base), c.work_name(other), c.beside(c.work, other));
    }
  }
  return true;
}
