// What a call's result follows from, in order, and the memory of who makes it anew.
#include "journal.h"
#include "checks/check.h"
#include "isa/host.h"
#include "isa/lock.h"
#include "memory/host_memory.h"
#include "memory/list.h"
#include <stdlib.h>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace {
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
u8* bytes;
u64 count, capacity, most;  // most: 0 while none is kept
bool too_long;
u32 calls, programs;

u8* entry(JournalEntry kind, u64 size) {  // null: there is no room; the lock is held
  const u64 needed = count + 8 + size;
  if (too_long || needed > most) {
    too_long = true;
    return nullptr;
  }
  if (needed > capacity) {
    capacity = needed * 2;
    bytes = (u8*)realloc(bytes, capacity);
  }
  u8* at = bytes + count;
  const u32 head[2] = {kind, (u32)size};
  memcpy(at, head, 8);
  count = needed;
  return at + 8;
}

void words(JournalEntry kind, const u64* values, u32 n) {
  if (!most) return;
  const Lock locked(lock);
  if (u8* at = entry(kind, 8 * n)) memcpy(at, values, 8 * n);
}

// --- memory of a replay

constexpr u32 PAGE_SHIFT = 12, REGION_SHIFT = 30;
constexpr u64 PAGE = 1 << PAGE_SHIFT, PAGES = 1ull << (REGION_SHIFT - PAGE_SHIFT),
              REGIONS = 1ull << (ADDRESS_BITS - REGION_SHIFT);
constexpr u64 MOST_OPEN = 32ull << 30;  // bytes
enum State : u8 { UNKNOWN, OPENED, OTHERS };
u8* states[REGIONS];  // by page
bool replays;
List<u64> opened;

State state_of(u64 page) {
  if (page >> (ADDRESS_BITS - PAGE_SHIFT)) return OTHERS;
  u8*& region = states[page / PAGES];
  const Lock locked(lock);
  if (!region) region = (u8*)calloc(PAGES, 1);
  u8& state = region[page % PAGES];
  if (state == UNKNOWN && opened.count * PAGE < MOST_OPEN) {
    void* wanted = (void*)(page << PAGE_SHIFT);
    void* there = mmap(wanted, PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (there != wanted && there != MAP_FAILED) munmap(there, PAGE);  // a kernel that knows no such flag
    state = there == wanted ? OPENED : OTHERS;
    if (state == OPENED) opened.push(page);
  }
  return (State)state;
}
}  // namespace

bool journal_is_kept() { return most; }

void journal_cell(u64 at, u64 but) {
  if (!most) return;
  const Lock locked(lock);
  if (u8* to = entry(CELL_READ, 16 + JOURNAL_CELL_BYTES)) {
    memcpy(to, &at, 8);
    memcpy(to + 8, &but, 8);
    memcpy(to + 16, (const void*)at, JOURNAL_CELL_BYTES);
  }
}

void journal_launch(Program& p, u32 kernel, const Launch& l) {
  if (!most) return;
  const Lock locked(lock);
  if (p.journaled_in != calls) {
    p.number = p.number ? p.number : ++programs;
    u8* to = entry(PROGRAM_KNOWN, 8 + p.blob_bytes);
    if (!to) return;
    const u64 number = p.number;
    memcpy(to, &number, 8);
    memcpy(to + 8, p.blob, p.blob_bytes);
    p.journaled_in = calls;
  }
  const u32 told[11] = {p.number,   kernel,     l.groups[0],         l.groups[1],   l.groups[2],    l.block[0],
                        l.block[1], l.block[2], l.dynamic_lds_bytes, l.cooperative, l.kernarg_bytes};
  if (u8* to = entry(KERNEL_LAUNCHED, sizeof told + l.kernarg_bytes)) {
    memcpy(to, told, sizeof told);
    if (l.kernarg_bytes) memcpy(to + sizeof told, l.kernarg, l.kernarg_bytes);
  }
}

void journal_memory(const Checks& c) {
  if (!most) return;
  static u64 told_others;  // a sum over those that no argument points into, which are mostly what they were
  u64 others = calls;
  for (u32 i = 0; i < c.n_ranges; i++)
    if (const Range& r = c.ranges[i]; !r.pointer) others += mixed(mixed(r.base) + r.end) + r.freed;
  const bool anew = !count || others != told_others;
  told_others = others;
  const auto tell = [](u64 base, u64 bytes, u64 pointer, u64 how) {
    const u64 told[] = {base, bytes, pointer, how};
    words(MEMORY_KNOWN, told, 4);
  };
  tell(0, 0, anew, c.open);
  for (u32 i = 0; i < c.n_ranges; i++)
    if (const Range& r = c.ranges[i]; r.pointer || anew) tell(r.base, r.end - r.base, r.pointer, r.freed);
}

void journal_copy(u64 to, u64 from, u64 size) {
  const u64 told[] = {to, from, size};
  words(MEMORY_COPIED, told, 3);
}

void journal_fill(u64 to, u64 size, u64 value, u64 value_bytes) {
  const u64 told[] = {to, size, value, value_bytes};
  words(MEMORY_FILLED, told, 4);
}

bool replay_lets(u64 address, u64 size, bool writes) {
  if (!replays) return true;
  for (u64 page = address >> PAGE_SHIFT; page <= (address + size - 1) >> PAGE_SHIFT; page++)
    if (state_of(page) != OPENED && writes && !program_at(address)) return false;
  return true;
}

extern "C" {
void cdna_journal_begin(bool first, u64 most_bytes) {
  const Lock locked(lock);
  calls += first;
  count = 0;
  too_long = false;
  most = most_bytes;
}

void cdna_journal_note(u32 number) {
  const u64 told = number;
  words(OPERATION_NOTED, &told, 1);
}

const u8* cdna_journal_taken(u64* size) {
  most = 0;
  *size = count;
  return too_long ? nullptr : bytes;
}

void cdna_replay_begin() {
  replays = true;
  (void)cdna_host_apart(false);  // of what there was, it has the addresses alone
  for (u64 page : opened) madvise((void*)(page << PAGE_SHIFT), PAGE, MADV_DONTNEED);
}

bool cdna_replay_opens(u64 address, u64 size) {
  for (u64 page = address >> PAGE_SHIFT; size && page <= (address + size - 1) >> PAGE_SHIFT; page++)
    if (state_of(page) != OPENED) return false;
  return true;
}

u32 cdna_kernels_of(const Program* p) { return p->n_kernels; }
}
