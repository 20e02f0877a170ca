// Sets of readers. A tile is read by whole waves, so that its dwords go from set to set together: the step from a set by a
// cell to the next is made once, and found again for each of them.
#include "readers.h"
#include "memory/table.h"
#include <pthread.h>
#include <stdlib.h>

namespace {
struct Set {  // of 16 aligned bytes: the low four bits of its address are 0, those of a cell never
  u64 n, cells[];
};
struct Step {
  u64 from, cell, to;  // from 0: none
  bool used() const { return from; }
  bool same(const Step& other) const { return from == other.from && cell == other.cell; }
  u64 hash() const { return mixed(from ^ mixed(cell)); }
};
struct Memo {
  u64 launch, from, cell, to;
};
}  // namespace
constexpr u32 MOST_READERS = 24;
constexpr u64 WAVES = 15 << 6, EPOCH = 0xfff << 10, GROUP = 0x3fffffull << 22;
constexpr u64 BLOCK = 1 << 20, MOST_BLOCKS = 256;  // beyond: the last reader alone is known

struct Readers {
  pthread_mutex_t lock;
  u64 launch, used;  // bytes of the last block
  u8* blocks[MOST_BLOCKS];
  u32 n_blocks;
  Table<Step> steps;
};

Readers* readers_create() {
  static u64 launches;
  Readers* r = (Readers*)calloc(1, sizeof(Readers));
  pthread_mutex_init(&r->lock, nullptr);
  r->launch = __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED);
  return r;
}

void readers_destroy(Readers* r) {
  if (!r) return;
  for (u32 i = 0; i < r->n_blocks; i++) free(r->blocks[i]);
  r->steps.release();
  pthread_mutex_destroy(&r->lock);
  free(r);
}

u32 readers_in(const u64& readers, const u64*& cells) {
  const bool several = readers && !(readers & 15);
  cells = several ? ((const Set*)readers)->cells : &readers;
  return several ? (u32)((const Set*)readers)->n : readers != 0;
}

static Set* room_for(Readers& r, u32 n) {
  const u64 bytes = (sizeof(Set) + 8ull * n + 15) & ~15ull;
  if (!r.n_blocks || r.used + bytes > BLOCK) {
    if (r.n_blocks == MOST_BLOCKS) return nullptr;
    r.blocks[r.n_blocks++] = allocate(BLOCK);
    r.used = 0;
  }
  Set* set = (Set*)(r.blocks[r.n_blocks - 1] + r.used);
  r.used += bytes;
  return set;
}

static bool same_group(u64 a, u64 b) { return !((a ^ b) & GROUP); }
static bool same_turn(u64 a, u64 b) {
  return !((a ^ b) & (GROUP | EPOCH));
}  // of one workgroup, with no barrier between
static bool same_wave(u64 a, u64 b) { return !((a ^ b) & WAVES); }

// Adds to a set a reader from before.
static void keep(Set& set, u64 before, u32& groups) {
  const u64 newest = set.cells[0];
  if (same_group(before, newest)) {
    if (!same_turn(before, newest)) return;
    if (same_wave(before, newest)) set.cells[0] |= before & CELL_SEVERAL;
    else set.cells[set.n++] = before;
    return;
  }
  if (same_group(before, set.cells[set.n - 1])) set.cells[set.n - 1] |= CELL_SEVERAL;  // of others the last alone
  else if (++groups < MOST_READERS) set.cells[set.n++] = before;
}

static u64 made(Readers& r, u64 from, u64 cell) {
  if (const Step* known = r.steps.find({from, cell, 0})) return known->to;
  const u64* cells;
  u32 n = readers_in(from, cells);
  Set* set = room_for(r, n + 1);
  if (!set) return same_turn(cells[0], cell) ? cell | CELL_SEVERAL : cell;
  set->cells[0] = cell;
  set->n = 1;
  u32 groups = 0;
  for (u32 i = 0; i < n && groups < MOST_READERS; i++) keep(*set, cells[i], groups);
  return r.steps.add({from, cell, (u64)set}).to;
}

u64 readers_with(Readers& r, u64 readers, u64 cell) {
  if (!readers) return cell;
  if (readers & 15 && same_group(readers, cell)) {
    if (!same_turn(readers, cell)) return cell;
    if (same_wave(readers, cell)) return cell | (readers & CELL_SEVERAL);
  }
  static thread_local Memo last;
  if (last.launch != r.launch || last.from != readers || last.cell != cell) {
    pthread_mutex_lock(&r.lock);
    last = {r.launch, readers, cell, made(r, readers, cell)};
    pthread_mutex_unlock(&r.lock);
  }
  return last.to;
}

// --- before the first write ------------------------------------------------------------------------------

namespace {
struct Early {  // a wave's access: lane i's element lies at base + i * stride, or where its own distance says
  u64 cell, lanes, base;
  i64 stride;
  u32 bytes, n_distances;
  i32 distances[];
};
struct EarlyBlock {
  EarlyBlock* next;
  u64 used, size;
};
}  // namespace
struct EarlyReads {
  EarlyBlock* blocks;  // the newest first
  u64 bytes;
};
constexpr u64 MOST_EARLY_BYTES = 1 << 18, FIRST_EARLY_BLOCK = 4096;  // of a tensor

static Early* room_for_early(EarlyReads& e, u32 distances) {
  const u64 bytes = (sizeof(Early) + 4ull * distances + 7) & ~7ull;
  EarlyBlock* b = e.blocks;
  if (!b || b->used + bytes > b->size) {
    const u64 size = b ? 2 * b->size : FIRST_EARLY_BLOCK;
    if (e.bytes + size > MOST_EARLY_BYTES) return nullptr;
    EarlyBlock* added = (EarlyBlock*)malloc(sizeof(EarlyBlock) + size);
    *added = {b, 0, size};
    e.blocks = b = added;
    e.bytes += size;
  }
  Early* room = (Early*)((u8*)(b + 1) + b->used);
  b->used += bytes;
  return room;
}

bool early_reads_add(EarlyReads*& e, const u64* at, u64 lanes, u32 bytes, u64 cell) {
  if (!e) e = (EarlyReads*)calloc(1, sizeof(EarlyReads));
  const int first = __builtin_ctzll(lanes), last = 63 - __builtin_clzll(lanes);
  const i64 stride = last > first ? (i64)(at[last] - at[first]) / (last - first) : 0;
  const u64 base = at[first] - (u64)(first * stride);
  u64 apart = 0, far = 0;
  if (last > first) LANES {
      const u64 set = -(lanes >> i & 1);
      apart |= (at[i] ^ (base + (u64)i * (u64)stride)) & set;
      far |= (at[i] - at[first] + (1u << 31)) >> 32 & set;
    }
  Early* x = apart && far ? nullptr : room_for_early(*e, apart ? (u32)WAVE : 0);
  if (!x) return false;
  *x = {cell, lanes, apart ? at[first] : base, stride, bytes, apart ? (u32)WAVE : 0};
  if (apart) LANES x->distances[i] = (i32)(at[i] - at[first]);
  return true;
}

static void each_of(const EarlyBlock* b, void (*each)(u64, u32, u64, void*), void* with) {
  if (!b) return;
  each_of(b->next, each, with);
  for (u64 used = 0; used < b->used;) {
    const Early& x = *(const Early*)((const u8*)(b + 1) + used);
    for (u64 m = x.lanes; m; m &= m - 1) {
      const int i = __builtin_ctzll(m);
      each(x.base + (u64)(x.n_distances ? x.distances[i] : i * x.stride), x.bytes, x.cell, with);
    }
    used += (sizeof(Early) + 4ull * x.n_distances + 7) & ~7ull;
  }
}
void early_reads_each(const EarlyReads* e, void (*each)(u64, u32, u64, void*), void* with) {
  if (e) each_of(e->blocks, each, with);
}
void early_reads_free(EarlyReads* e) {
  for (EarlyBlock *b = e ? e->blocks : nullptr, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  free(e);
}
