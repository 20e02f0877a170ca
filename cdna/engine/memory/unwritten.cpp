// Fresh memory is filled with UNWRITTEN. Kept is who has stored there what was made of it.
#include "unwritten.h"
#include "isa/lock.h"
#include <stdio.h>

bool holds_unwritten(u64 address) {
  u32 x;
  memcpy(&x, (const void*)(address & ~3ull), 4);
  return x == UNWRITTEN;
}

// Stores of what was made of unwritten memory, for who reads it in the end; the newest, each once for a tensor.
struct SpoiltStore {
  u64 base, low, high;
  bool computed;  // not only moved
  const Program* program;
  u32 pc;
  char kernel[128], where[256];
};
constexpr u32 MOST_STORES = 64;
static SpoiltStore stores[MOST_STORES];
static u32 n_stores;
static pthread_mutex_t stores_lock = PTHREAD_MUTEX_INITIALIZER;

void note_unwritten_store(u64 base, u64 low, u64 high, bool computed, const Program& p, u32 pc, const char* kernel) {
  const Lock locked(stores_lock);
  SpoiltStore* s = nullptr;
  for (u32 i = 0; i < MOST_STORES && !s; i++)
    if (stores[i].high && stores[i].program == &p && stores[i].pc == pc && stores[i].base == base) s = &stores[i];
  if (!s) {
    s = &stores[n_stores++ % MOST_STORES];
    *s = {base, low, high, false, &p, pc, "", ""};
    snprintf(s->kernel, sizeof s->kernel, "%s", kernel);
    snprintf(s->where, sizeof s->where, "%s", p.where[pc]);
  }
  s->low = low < s->low ? low : s->low;
  s->high = high > s->high ? high : s->high;
  s->computed |= computed;
}

bool computed_of_unwritten(u64 address) {
  bool found = false;
  const Lock locked(stores_lock);
  for (const SpoiltStore& s : stores) found |= s.computed && address >= s.low && address < s.high;
  return found;
}

extern "C" {
void cdna_mark_unwritten(u8* at, u64 bytes) {
  constexpr u64 MOST = 256 << 20, END = 1 << 20;  // larger ones may be more than the host has
  const auto fill = [](u64 from, u64 to) {
    for (u64 a = from & ~3ull; a < to; a += 4) *(u32*)a = UNWRITTEN;
  };
  fill((u64)at, (u64)at + (bytes > MOST ? END : bytes));
  if (bytes > MOST) fill((u64)at + bytes - END, (u64)at + bytes);
  const Lock locked(stores_lock);
  for (SpoiltStore& s : stores)
    if (s.low - (u64)at < bytes) s.high = 0;  // of what was there before
}

int cdna_unwritten_store(u64 address, char* text, u32 size) {
  int found = 0;
  const Lock locked(stores_lock);
  for (u32 i = n_stores, left = MOST_STORES; i-- > 0 && left-- > 0 && !found;) {
    const SpoiltStore& s = stores[i % MOST_STORES];
    if (address >= s.low && address < s.high) found = 1 + s.computed;
    if (found) snprintf(text, size, "%s at %s", s.kernel, s.where);
  }
  return found;
}

// 0 as well where some have been written, and of the others nothing was computed: tails, rows with a pitch, and padding
// are copied so, and not used.
u64 cdna_unwritten_bytes(u64 from, u64 bytes, u64* first) {
  const u64 begin = bytes < 4 ? from & ~3ull : (from + 3) & ~3ull, end = bytes < 4 ? begin + 4 : (from + bytes) & ~3ull;
  u64 missing = 0;
  *first = 0;
  for (u64 at = begin; at < end; at += 4) {
    if (!holds_unwritten(at)) continue;
    if (!missing) *first = at;
    missing += 4;
  }
  if (missing == end - begin) return missing < bytes ? missing : bytes;
  bool computed = false;
  const Lock locked(stores_lock);
  for (u32 i = 0; missing && i < MOST_STORES && !computed; i++) {
    const SpoiltStore& s = stores[i];
    for (u64 at = s.low > begin ? s.low & ~3ull : begin; s.computed && at < end && at < s.high && !computed; at += 4)
      if ((computed = holds_unwritten(at))) *first = at;
  }
  return computed ? missing : 0;
}
}
