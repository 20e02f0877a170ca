// The host's memory, which ends a program on a card that goes there: looked for in every launch without the check of
// bounds. Mostly an instruction's lanes lie in the memory where they have lain before, and that is one comparison.
//
// Torch's tensors lie among what else the host's heap holds: an address there that is nobody's may be the host's, or beyond
// a tensor's end. It is the host's where an argument of the kernel says so; and of an instruction that has never been in the
// card's memory in the whole launch, where the card's memory holds a pointer to it, or no argument's memory is close.
#include "host_reach.h"
#include "memory/device_heap.h"
#include "memory/host_memory.h"
#include "memory/watched_memory.h"
#include "time/lane_accesses.h"
#include "isa/host.h"
#include "isa/lock.h"
#include <stdio.h>
#include <stdlib.h>

namespace {
constexpr u32 PAGE_SHIFT = 12, PAGES = 256, MOST_SUSPECTS = 32;

struct Suspect {
  u32 pc, wave, group[3];
  u64 from, address;  // memory of one owner's
  char text[256];
};
struct ThreadReach : Reach {
  LaunchReach* launch;
  Span pages[PAGES];  // memory of the card's that has a byte in such a page, by its number
  Span* gaps;         // per instruction: between memory of the card's, where it was last
};
}  // namespace

struct LaunchReach {
  const Program* program;
  const Launch* launch;
  u32 n_threads;
  ThreadReach* threads;
  List<MemoryRange> own;
  pthread_mutex_t lock;
  Suspect suspects[MOST_SUSPECTS];
  u32 n_suspects;
};

namespace {
// What the card has there. False: nothing.
bool card_memory(const LaunchReach& l, const Wave& w, u64 address, Span& out) {
  struct Search {
    u64 address;
    Span found;
  } search = {address, {(u64)w.wg->lds, w.wg->lds_bytes}};
  if (address - search.found.base >= search.found.bytes) search.found.bytes = 0;
  const auto look = [](const MemoryRange& r, void* with) {
    Search& s = *(Search*)with;
    if (!r.freed && s.address - r.base < r.end - r.base) s.found = {r.base, r.end - r.base};
  };
  for (const MemoryRange& r : l.own) look(r, &search);
  if (!search.found.bytes) each_allocation(false, look, &search);
  Block block;
  HeapBlock of_malloc;
  if (!search.found.bytes && block_at(address, block) && block.whose != OF_HOST)
    search.found = {block.base, block.bytes};
  if (!search.found.bytes && heap_block(address, of_malloc)) search.found = {of_malloc.base, of_malloc.usable};
  out = search.found;
  return out.bytes;
}

// The card's memory around an address that is none of it, as far as its mapping goes.
struct Around {
  u64 address, from, to;
  bool any;
  void see(u64 base, u64 end) {
    any |= base < to && end > from;
    if (end <= address && end > from) from = end;
    if (base > address && base < to) to = base;
  }
};
Around around(const Mapping& m, u64 address) {
  Around a = {address, m.from, m.to, false};
  each_allocation(
      false,
      [](const MemoryRange& r, void* with) {
        if (!r.freed) ((Around*)with)->see(r.base, r.end);
      },
      &a);
  const auto see = [](const Block& b, void* with) {
    if (b.whose != OF_HOST) ((Around*)with)->see(b.base, b.base + b.bytes);
  };
  if (!cdna_known_blocks(see, &a)) a = {address, address, address + 1, true};
  return a;
}

// Whether one of these words points to what lies there, with none of the card's memory between.
bool holds_pointer(const u8* words, u64 bytes, u64 from, u64 address) {
  for (u64 at = 0; at + 8 <= bytes; at += 8) {
    u64 pointer;
    memcpy(&pointer, words + at, 8);
    if (pointer - from <= address - from) return true;
  }
  return false;
}

// Whether the begin of one of torch's tensors on the card does: tables of pointers are small.
bool is_in_a_table(const Suspect& s) {
  constexpr u64 MOST_OF_A_TABLE = 64 << 10;  // bytes
  struct Search {
    const Suspect& s;
    bool found;
  } search = {s, false};
  const auto look = [](const Block& b, void* with) {
    Search& search = *(Search*)with;
    const u64 bytes = b.bytes < MOST_OF_A_TABLE ? b.bytes : MOST_OF_A_TABLE;
    search.found |= b.whose != OF_HOST && holds_pointer((const u8*)b.base, bytes, search.s.from, search.s.address);
  };
  (void)cdna_known_blocks(look, &search);
  return search.found;
}

// Whether a tensor that an argument points into ends close before the address, or begins close behind it.
bool is_beside_argument(const Launch& l, u64 address) {
  constexpr u64 CLOSE = 2 << 20;  // bytes: what torch's allocator takes of a card at once
  for (u32 at = 0; at + 8 <= l.kernarg_bytes; at += 8) {
    u64 pointer;
    memcpy(&pointer, l.kernarg + at, 8);
    Block b;
    if (block_at(pointer, b) && b.whose != OF_HOST && address + CLOSE - b.base < b.bytes + 2 * CLOSE) return true;
  }
  return false;
}

void tell(const LaunchReach& l, u32 pc, u64 address, int lane, const char* what, char* text, u32 size) {
  const Facts& f = op_facts(l.program->code[pc].op);
  char bytes[24] = "";
  if (f.bytes != BY_FORMAT) snprintf(bytes, sizeof bytes, " %u bytes", f.bytes);
  snprintf(text, size, "bounds: %s%s at 0x%llx (lane %d), in %s of the host's, which the card does not reach",
           access_flags(f) & WRITES ? "writes" : "reads", bytes, (unsigned long long)address, lane, what);
}

// Of an address that is not the card's. gap: where nothing else is to be said, if it is a suspect. False: the wave is
// faulted.
bool may_go_on(LaunchReach& l, Wave& w, u64 address, int lane, Span& gap) {
  char what[80];
  const u32 pc = w.pc - 1;
  Mapping m;
  gap = {};
  if (!mapping_at(address, m) || !is_host_memory(address, what, sizeof what)) return true;  // the access itself faults
  const Around a = around(m, address);
  Block block;
  const u64 from = block_at(address, block) ? block.base : a.from;
  Suspect suspect = {pc, w.id, {w.wg->id[0], w.wg->id[1], w.wg->id[2]}, from, address, ""};
  tell(l, pc, address, lane, what, suspect.text, sizeof suspect.text);
  if (!a.any || holds_pointer(l.launch->kernarg, l.launch->kernarg_bytes, from, address)) {
    fault(w, "%s", suspect.text);
    return false;
  }
  gap = {a.from, a.to - a.from};
  const Lock locked(l.lock);
  for (u32 i = 0; i < l.n_suspects; i++)
    if (l.suspects[i].pc == pc) return true;
  if (l.n_suspects < MOST_SUSPECTS) l.suspects[l.n_suspects++] = suspect;
  return true;
}

// What is stored beyond the card's memory goes nowhere: it would damage the host's heap.
void drop_stores(const LaunchReach& l, Wave& w, u64 lanes) {
  static thread_local u8 nowhere[WAVE][16];
  if (!(access_flags(op_facts(l.program->code[w.pc - 1].op)) & WRITES)) return;
  for (; lanes; lanes &= lanes - 1) w.address[__builtin_ctzll(lanes)] = (u64)nowhere[__builtin_ctzll(lanes)];
}

bool look(Reach& reach, Wave& w, const u64* address, u64 lanes) {
  ThreadReach& r = (ThreadReach&)reach;
  const bool one = address != w.address;
  while (lanes) {
    const int lane = __builtin_ctzll(lanes);
    const u64 at = address[lane];
    Span &page = r.pages[at >> PAGE_SHIFT & (PAGES - 1)], &gap = r.gaps[w.pc - 1];
    Span span = page;
    bool known = at - span.base < span.bytes;
    if (!known && (known = card_memory(*r.launch, w, at, span))) page = span;
    if (known) r.known[w.pc - 1] = span;
    else if (at - gap.base >= gap.bytes && !may_go_on(*r.launch, w, at, lane, gap)) return false;
    const u64 there = one ? lanes : lanes & (lanes_within(address, known ? span : gap) | 1ull << lane);
    if (gap.bytes && !known && !one) drop_stores(*r.launch, w, there);
    lanes &= ~there;
  }
  return true;
}
}  // namespace

LaunchReach* reach_begins(const Program& p, const Launch& l, u32 n_threads, const List<MemoryRange>& own) {
  LaunchReach* r = (LaunchReach*)calloc(1, sizeof(LaunchReach));
  r->program = &p;
  r->launch = &l;
  r->n_threads = n_threads;
  for (const MemoryRange& range : own) r->own.push(range);
  for (u32 i = 0; i < p.n_sections; i++) r->own.push(memory_range((u64)p.sections[i], p.section_bytes[i] + 256, ""));
  if (p.got) r->own.push(memory_range((u64)p.got, 8 * p.n_got, ""));
  pthread_mutex_init(&r->lock, nullptr);
  r->threads = (ThreadReach*)calloc(n_threads, sizeof(ThreadReach));
  for (u32 i = 0; i < n_threads; i++) {
    ThreadReach& t = r->threads[i];
    t.known = (Span*)calloc(2 * (p.n_inst + 1), sizeof(Span));
    t.gaps = t.known + p.n_inst + 1;
    t.look = look;
    t.launch = r;
  }
  return r;
}

Reach* reach_of(LaunchReach* r, u32 thread) { return r ? &r->threads[thread] : nullptr; }

void reach_ends(LaunchReach* r, Launch& l) {
  if (!r) return;
  for (u32 i = 0; i < r->n_suspects && l.status == LAUNCHED; i++) {
    const Suspect& s = r->suspects[i];
    bool has_been = false;
    for (u32 k = 0; k < r->n_threads; k++) has_been |= r->threads[k].known[s.pc].bytes != 0;
    if (has_been || (is_beside_argument(l, s.address) && !is_in_a_table(s))) continue;
    l.status = LAUNCH_FAULTED;
    l.fault_pc = s.pc;
    l.fault_wave = s.wave;
    memcpy(l.fault_group, s.group, sizeof s.group);
    snprintf(l.message, sizeof l.message, "%s", s.text);
  }
  for (u32 i = 0; i < r->n_threads; i++) free(r->threads[i].known);
  free(r->threads);
  r->own.release();
  free(r);
}
