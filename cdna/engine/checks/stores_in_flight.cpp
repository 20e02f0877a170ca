// See stores_in_flight.h. Who waits has not stored yet either, so no two wait for each other: one at a time waits for those that
// go on, and those behind it in the queue stand still, which lets it read what they store.
#include "stores_in_flight.h"
#include <unistd.h>

namespace {
struct alignas(64) Worker {
  volatile u32 taken;
  volatile u32 stores;  // begun and ended: odd while one is under way
  volatile u32 waits;   // its store stands still
  StoredLanes stored;   // while it does
};
}  // namespace

constexpr u32 MOST_WORKERS = 256;  // the stores of further ones are not waited for
static Worker workers[MOST_WORKERS];
static thread_local Worker* own_worker;
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;

constexpr u32 PLACE_BITS = 8;  // a wave's dwords side by side are one place or two
static struct alignas(64) {
  pthread_mutex_t lock;
} turns[64];
static thread_local u64 own_turns;

void stores_of_thread_begin() {
  for (Worker& one : workers)
    if (!one.taken && !__atomic_exchange_n(&one.taken, 1, __ATOMIC_SEQ_CST)) {
      own_worker = &one;
      return;
    }
}

void stores_of_thread_end() {
  access_ends();
  if (own_worker) __atomic_store_n(&own_worker->taken, 0, __ATOMIC_SEQ_CST);
  own_worker = nullptr;
}

void store_begins() {
  if (own_worker) __atomic_store_n(&own_worker->stores, own_worker->stores | 1, __ATOMIC_SEQ_CST);
}

// A wave's lanes take all their places at once, in ascending order: so nobody waits for who waits for it.
void turn_begins(const u64* address, u64 lanes) {
  for (; lanes; lanes &= lanes - 1) own_turns |= 1ull << (address[__builtin_ctzll(lanes)] >> PLACE_BITS) % 64;
  for (u64 m = own_turns; m; m &= m - 1) pthread_mutex_lock(&turns[__builtin_ctzll(m)].lock);
}

void access_ends() {
  if (own_worker && own_worker->stores & 1)
    __atomic_store_n(&own_worker->stores, own_worker->stores + 1, __ATOMIC_RELEASE);
  for (; own_turns; own_turns &= own_turns - 1) pthread_mutex_unlock(&turns[__builtin_ctzll(own_turns)].lock);
}

static u8 stored_byte(const StoredLanes& s, int lane, u32 byte) {
  if (s.x->upper) byte += 2;
  return (u8)(s.data[byte / 4 * WAVE + lane] >> 8 * (byte % 4));
}

bool changes_bytes(const StoredLanes& s, int lane, u32 first, u32 bytes) {
  const u8* there = (const u8*)s.at[lane];
  bool changed = s.x->typed;
  for (u32 i = first; i < first + bytes; i++) changed |= there[i] != stored_byte(s, lane, i);
  return changed;
}

static bool stores_the_same(const StoredLanes& other, const StoredLanes& mine, int lane, u32 first, u32 bytes) {
  const u64 from = mine.at[lane] + first;
  for (u64 m = other.lanes; m; m &= m - 1) {
    const int its = __builtin_ctzll(m);
    const u64 at = other.at[its];
    if (from < at || from + bytes > at + other.x->bytes) continue;
    u32 equal = 0;
    for (u32 i = 0; i < bytes; i++)
      equal += stored_byte(other, its, (u32)(from - at) + i) == stored_byte(mine, lane, first + i);
    if (equal == bytes) return !other.x->typed;
  }
  return false;
}

// A worker is not kept from its turn for longer than this, unless its process has been stopped.
constexpr u32 MOST_LOOKS = 20000, BETWEEN_LOOKS_US = 50;

bool changes_after_others(const StoredLanes& mine, int lane, u32 first, u32 bytes) {
  if (!own_worker || mine.x->typed) return true;
  if (!changes_bytes(mine, lane, first, bytes)) return false;
  own_worker->stored = mine;
  __atomic_store_n(&own_worker->waits, 1, __ATOMIC_SEQ_CST);
  pthread_mutex_lock(&queue);
  __atomic_store_n(&own_worker->waits, 0, __ATOMIC_SEQ_CST);
  bool equal = false;
  for (Worker& other : workers) {
    const u32 begun = __atomic_load_n(&other.stores, __ATOMIC_ACQUIRE);
    if (&other == own_worker || !(begun & 1)) continue;
    for (u32 i = 0; i < MOST_LOOKS && __atomic_load_n(&other.stores, __ATOMIC_ACQUIRE) == begun; i++) {
      if (__atomic_load_n(&other.waits, __ATOMIC_ACQUIRE)) {
        equal |= stores_the_same(other.stored, mine, lane, first, bytes);
        break;
      }
      usleep(BETWEEN_LOOKS_US);
    }
  }
  pthread_mutex_unlock(&queue);
  return !equal && changes_bytes(mine, lane, first, bytes);
}
