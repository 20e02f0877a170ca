// Pinned memory that copies read on their own: the host must not write there until it has waited for them. Here a copy is
// done when its call returns, and a card may still be at it: so what the copy has read is held against what is there when
// the program waits for it, or gives the same memory to another copy.
#include "runtime.h"
#include "isa/lock.h"

struct PinnedRead {
  const u8* from;
  size_t bytes;
  u32 work;  // see stream_order.cpp
  u64 sum;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static List<PinnedRead> reads;
constexpr u32 MOST = 256;

// Of large ones a sample: who fills a buffer anew changes most of it.
static u64 sum_of(const u8* from, size_t bytes) {
  constexpr size_t ALL = 1 << 16;
  const size_t step = bytes > ALL ? 256 : 8;
  u64 sum = bytes;
  for (size_t i = 0; i + 8 <= bytes; i += step) {
    u64 word;
    memcpy(&word, from + i, 8);
    sum = (sum ^ word) * 0x9e3779b97f4a7c15ull;
    sum ^= sum >> 29;
  }
  for (size_t i = bytes / 8 * 8; i < bytes; i++) sum = (sum ^ from[i]) * 0x100000001b3ull;
  return sum;
}

static bool overlaps(const PinnedRead& r, const u8* from, size_t bytes) {
  return r.from < from + bytes && from < r.from + r.bytes;
}

// Drops the reads that `ends` names; true if the host has written what one of them reads.
template <class Ends>
static bool drop(bool look, Ends ends) {
  PinnedRead changed = {};
  pthread_mutex_lock(&lock);
  for (u32 i = reads.count; i-- > 0;) {
    if (!ends(reads[i])) continue;
    if (look && sum_of(reads[i].from, reads[i].bytes) != reads[i].sum) changed = reads[i];
    reads.remove(i);
  }
  pthread_mutex_unlock(&lock);
  if (changed.from)
    say("race: the host has written to %zu bytes of pinned memory at %p that a copy may still read: it has not waited "
        "for the copy's stream or an event behind it",
        changed.bytes, changed.from);
  return changed.from;
}

bool pinned_reads_end(const u64* known, bool look) {
  if (!reads.count) return false;
  return drop(look, [&](const PinnedRead& r) { return has_ended(r.work, known); });
}

void forget_pinned_reads(const void* from, size_t bytes) {
  if (reads.count) (void)drop(false, [&](const PinnedRead& r) { return overlaps(r, (const u8*)from, bytes); });
}

bool note_pinned_read(const CopyCall& c, u32 work) {
  if (c.height != 1 || c.depth != 1) return false;
  const u8* from = (const u8*)c.from;
  {
    Guard guard;
    const Allocation* a = find_allocation(from);
    if (!a || a->type != hipMemoryTypeHost) return false;
  }
  const bool found = drop(true, [&](const PinnedRead& r) { return overlaps(r, from, c.width); });
  const Lock locked(lock);
  if (reads.count == MOST) reads.remove(0);
  reads.push({from, c.width, work, sum_of(from, c.width)});
  return found;
}
