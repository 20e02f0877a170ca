// What one stream's work has written and another's reads, with nothing between the two that orders them.
//
// The HIP runtime numbers each piece of work by its stream and its place there, and says for each stream up to which place
// its work has ended before this piece begins (hip/runtime/stream_order.cpp). Each dword of an allocation keeps the number
// of the work that wrote it last.
#include "check.h"
#include <stdlib.h>

constexpr u64 OWNED_LIMIT = 1ull << 30;  // bytes of an allocation whose writers are kept

void keep_owners(Range& r) {
  if (!r.owners && !r.freed && r.end - r.base <= OWNED_LIMIT) r.owners = (u32*)calloc((r.end - r.base) / 4 + 2, 4);
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

u32 unordered_owner(const Range& r, u64 from, u64 to, u32 work, const u64* known) {
  const u64 base = r.base & ~3ull;
  for (u64 k = (from - base) >> 2; k <= (to - 1 - base) >> 2; k++) {
    const u32 owner = __atomic_load_n(&r.owners[k], __ATOMIC_RELAXED);
    if (owner && owner != work && !ended_before(owner, known)) return owner;
  }
  return 0;
}

// A launch that synchronises by atomics may have been told by them that the other has written.
bool check_streams(Wave& w, const Access& x, const u64* at, u64 lanes, const Range& r) {
  const Checks& c = *w.wg->check->checks;
  for (u64 m = lanes; m; m &= m - 1) {
    const int lane = __builtin_ctzll(m);
    const u64 from = at[lane], to = from + x.bytes;
    if (x.kind == VM_STORE) {
      own(r, from, to, c.work, c.known);
    } else if (u32 other = c.clock ? 0 : unordered_owner(r, from, to, c.work, c.known)) {
      return report(w, CHECK_RACE, lane, from, &r, ~0u,
                    "reads %u bytes of %s at offset %llu, which %s has written on another stream, and no event or wait "
                    "is between the two",
                    x.bytes, r.name, (unsigned long long)(from - r.base), c.work_name(other));
    }
  }
  return true;
}
