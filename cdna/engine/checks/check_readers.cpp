// Sets of readers. A tile is read by whole waves, so that its dwords go from set to set together: the step from a set by a
// cell to the next is made once, and found again for each of them.
#include "check_readers.h"
#include <pthread.h>
#include <stdlib.h>

namespace {
struct Set {  // of 16 aligned bytes: the low four bits of its address are 0, those of a cell never
  u64 n, cells[];
};
struct Step {
  u64 from, cell, to;  // from 0: none
};
struct Memo {
  u64 launch, from, cell, to;
};
}  // namespace
constexpr u32 MOST_READERS = 24;
constexpr u64 GROUP = 0x3fffffull << 22, BLOCK = 1 << 20, MOST_BLOCKS = 256;  // beyond: the last reader alone is known

struct Readers {
  pthread_mutex_t lock;
  u64 launch, used;  // bytes of the last block
  u8* blocks[MOST_BLOCKS];
  u32 n_blocks, n_steps, capacity;
  Step* steps;  // open addressing
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
  free(r->steps);
  pthread_mutex_destroy(&r->lock);
  free(r);
}

u32 readers_in(const u64& readers, const u64*& cells) {
  const bool several = readers && !(readers & 15);
  cells = several ? ((const Set*)readers)->cells : &readers;
  return several ? (u32)((const Set*)readers)->n : readers != 0;
}

static Step& step_at(const Readers& r, u64 from, u64 cell) {
  u32 i = (u32)(mixed(from ^ mixed(cell)) & (r.capacity - 1));
  while (r.steps[i].from && (r.steps[i].from != from || r.steps[i].cell != cell)) i = (i + 1) & (r.capacity - 1);
  return r.steps[i];
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

static u64 made(Readers& r, u64 from, u64 cell) {
  if (2 * (r.n_steps + 1) > r.capacity) {
    Readers old = r;
    r.capacity = old.capacity ? 2 * old.capacity : 256;
    r.steps = (Step*)calloc(r.capacity, sizeof(Step));
    for (u32 i = 0; i < old.capacity; i++)
      if (old.steps[i].from) step_at(r, old.steps[i].from, old.steps[i].cell) = old.steps[i];
    free(old.steps);
  }
  Step& step = step_at(r, from, cell);
  if (step.from) return step.to;
  const u64* cells;
  u32 n = readers_in(from, cells);
  Set* set = room_for(r, n + 1);
  if (!set) return cell;
  set->cells[0] = cell;
  set->n = 1;
  for (u32 i = 0; i < n && set->n < MOST_READERS; i++)
    if ((cells[i] ^ cell) & GROUP) set->cells[set->n++] = cells[i];
  r.n_steps++;
  step = {from, cell, (u64)set};
  return step.to;
}

u64 readers_with(Readers& r, u64 readers, u64 cell) {
  if (!readers || ((readers & 15) && !((readers ^ cell) & GROUP))) return cell;
  static thread_local Memo last;
  if (last.launch != r.launch || last.from != readers || last.cell != cell) {
    pthread_mutex_lock(&r.lock);
    last = {r.launch, readers, cell, made(r, readers, cell)};
    pthread_mutex_unlock(&r.lock);
  }
  return last.to;
}
