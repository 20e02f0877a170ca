// Global memory that nothing has written: fresh memory is filled with words made of their own addresses, and a load that
// finds such a word reads what nobody wrote. So whoever writes, kernel, copy or host, need not be watched. Another value
// is never taken for one (one chance in 2^64; of what an allocation has behind its last eight bytes, a sum of four bytes
// above all, one in 2^32); what shares its eight bytes with something written is not found.
#include "check.h"

static inline u64 unwritten_word(u64 address) { return mixed(address ^ 0xc0dea11ab1edfeedull); }

extern "C" void cdna_mark_unwritten(u8* at, u64 bytes) {
  u64 first = ((u64)at + 7) & ~7ull, end = ((u64)at + bytes) & ~7ull;
  for (u64 a = first; a < end; a += 8) *(u64*)a = unwritten_word(a);
  if (end >= (u64)at && (u64)at + bytes - end >= 4) *(u32*)end = (u32)unwritten_word(end);
}

// range: that the bytes lie in, null where none is known.
static bool is_unwritten(u64 address, u32 bytes, const Range* range) {
  const u64 end = range ? range->end & ~7ull : ~0ull;
  for (u64 a = address & ~7ull; a < address + bytes; a += 8) {
    if (a < end && *(const volatile u64*)a == unwritten_word(a)) return true;
    if (a == end && range->end - end >= 4 && *(const volatile u32*)a == (u32)unwritten_word(a)) return true;
  }
  return false;
}

bool check_unwritten(Wave& w, int lane, u64 address, u32 bytes) {
  Checks& c = *w.wg->check->checks;
  const Range* r = nullptr;
  for (u32 i = 0; i < c.n_ranges && !r; i++)
    if (address >= c.ranges[i].base && address < c.ranges[i].end) r = &c.ranges[i];
  if (!is_unwritten(address, bytes, r)) return true;
  if (r)
    return report(w, CHECK_UNWRITTEN, lane, address, r, ~0u,
                  "reads %u bytes at offset %llu of %s, which nothing has written", bytes,
                  (unsigned long long)(address - r->base), r->name);
  return report(w, CHECK_UNWRITTEN, lane, address, nullptr, ~0u, "reads %u bytes at 0x%llx, which nothing has written",
                bytes, (unsigned long long)address);
}
