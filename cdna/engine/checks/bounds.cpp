// Where an access may go: which range holds it, and what lies at an address that none holds.
#include "bounds.h"
#include "memory/device_heap.h"
#include "memory/host_memory.h"

// Whether bytes from..to lie in a range. Compilers make 16-bit atomics of compare-and-swap on the dword around.
bool contains(const Checks& c, const Range& r, const Access& x, u64 from, u64 to) {
  if (c.part_atomics && x.kind != VM_STORE && x.bytes == 4)
    return from >= (r.base & ~3ull) && to <= ((r.end + 3) & ~3ull);
  return from >= r.base && to <= r.end;
}

bool readable(const Checks& c, u64 address) {
  for (u32 i = 0; i < c.n_ranges; i++)
    if (!c.ranges[i].freed && address >= c.ranges[i].base && address + 4 <= c.ranges[i].end) return true;
  return false;
}

// Whether an address made from `base` means this range: what the kernel was given, or a variable that it has named itself.
bool meant_by(const Range& r, u64 base, bool named) {
  return base && !r.internal && (r.pointer == base || (named && r.variable && r.base == base));
}

const Range* meant_by(const Checks& c, u64 base, bool named) {
  const Range* meant = nullptr;
  for (u32 i = 0; base && i < c.n_ranges; i++)
    if (meant_by(c.ranges[i], base, named)) meant = &c.ranges[i];
  return meant;
}

static const char* verb(const Access& x) {
  return x.kind == VM_STORE ? "writes" : x.kind == VM_ATOMIC ? "updates" : "reads";
}

static bool outside(Wave& w, const Access& x, int lane, u64 address, const Range* meant) {
  const Checks& c = *w.wg->check->checks;
  char where[200];
  const Range* r = describe(c, address, x.bytes, where, sizeof where, meant);
  return report(w, CHECK_BOUNDS, lane, address, r, ~0u, "%s %u bytes at 0x%llx, %s", verb(x), x.bytes,
                (unsigned long long)address, where);
}

// Who goes past the end of a range comes to what was freed behind it, with the same place: both are told.
static bool in_freed(Wave& w, const Access& x, int lane, u64 address, const Range& freed, const Range* meant) {
  constexpr u64 CLOSE = 256;  // bytes
  if (meant && meant->freed) meant = nullptr;
  char where[200];
  const Range* live = describe(*w.wg->check->checks, address, x.bytes, where, sizeof where, meant);
  const bool past = !freed.barred && live && (meant || address - live->end < CLOSE);
  return report(w, CHECK_BOUNDS, lane, address, past ? live : &freed, ~0u, "%s %u bytes at 0x%llx, %s%sin %s, which %s",
                verb(x), x.bytes, (unsigned long long)address, past ? where : "", past ? ", " : "", freed.name,
                freed.barred ? freed.barred : "has been freed");
}

// The range that bytes from..to lie in; null where there is none. known: they touch one.
Range* range_around(Checks& c, const Access& x, u64 from, u64 to, bool& known) {
  for (u32 i = 0; i < c.n_ranges; i++) {
    Range& r = c.ranges[i];
    known |= from < r.end + 3 && to + 3 > r.base;  // contains() may widen it to dwords
    if (!r.freed && contains(c, r, x, from, to)) return &r;
  }
  return nullptr;
}

// Memory that the kernel has got from malloc itself.
static bool check_heap(Wave& w, const Access& x, int lane, u64 address, const HeapBlock& block) {
  const u64 at = address - block.base;
  if (!block.freed && at + x.bytes <= block.bytes) return true;
  return report(w, CHECK_BOUNDS, lane, address, nullptr, ~0u,
                "%s %u bytes at offset %llu of the %llu bytes of malloc%s", verb(x), x.bytes, (unsigned long long)at,
                (unsigned long long)block.bytes, block.freed ? ", which have been freed" : "");
}

// Whether an address that is in no range has nothing to do with the one that it is nearest to.
static bool is_far(const Checks& c, u64 address) {
  char text[200];
  const Range* r = describe(c, address, 1, text, sizeof text);
  return !r || r->variable || distance(*r, address) > FAR;
}

// The range that holds a lane's element; null where there is none and the wave may go on, `stop` where not.
Range* range_of(Wave& w, const Access& x, int lane, u64 address, u64 base, bool named, bool& stop) {
  Checks& c = *w.wg->check->checks;
  Range* found = nullptr;
  for (u32 i = 0; i < c.n_ranges; i++) {
    Range& r = c.ranges[i];
    if (!r.freed && contains(c, r, x, address, address + x.bytes)) {
      found = &r;
      break;
    }
    if (r.freed && address < r.end && address + x.bytes > r.base) found = &r;
  }
  // An address made from a tensor's own pointer means that tensor, even where it lands in another.
  const Range* meant = meant_by(c, base, named);
  bool wrong = found && meant && found != meant && !contains(c, *meant, x, address, address + x.bytes);
  if (found && !found->freed && !wrong) return found;
  bool known = wrong || (found && found->freed) || (meant && !found);
  if (HeapBlock block; !known && heap_block(address, block)) {
    stop = !check_heap(w, x, lane, address, block);
    return nullptr;
  }
  char memory[80];
  if (!known && (c.open == OPEN_BUT_FOR_HOST || (c.open == CLOSED && !found && is_far(c, address))) &&
      is_host_memory(address, memory, sizeof memory)) {
    stop = !report(w, CHECK_BOUNDS, lane, address, nullptr, ~0u,
                   "%s %u bytes at 0x%llx, in %s of the host's, which the card does not reach", verb(x), x.bytes,
                   (unsigned long long)address, memory);
    return nullptr;
  }
  if (!known && c.open) return nullptr;
  if (found && found->freed) stop = !in_freed(w, x, lane, address, *found, meant);
  else stop = !outside(w, x, lane, address, meant);
  return nullptr;
}
