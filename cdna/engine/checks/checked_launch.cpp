// A launch with checks: which memory it may touch, and the state of its workgroups, from its begin to its end.
#include "global_race.h"
#include "happens_before.h"
#include "preempt.h"
#include "readers.h"
#include "memory/watched_memory.h"
#include <stdlib.h>

static Range& add_range(Checks& c, const MemoryRange& known) {
  if (c.n_ranges == c.max_ranges)
    c.ranges = (Range*)realloc((void*)c.ranges, sizeof(Range) * (c.max_ranges = c.max_ranges ? c.max_ranges * 2 : 16));
  Range& r = c.ranges[c.n_ranges++];
  memset((void*)&r, 0, sizeof r);
  (MemoryRange&)r = known;
  return r;
}

static void add_internal(Checks& c, u64 base, u64 bytes, const char* name) {
  add_range(c, memory_range(base, bytes, name)).internal = true;
}

static void add_section(Checks& c, const Program& p, u32 section) {
  List<MemoryRange> variables;
  const bool sized = variables_of(p, section, variables);
  for (const MemoryRange& r : variables)
    if (!p.listed) add_range(c, r);
  variables.release();
  if (!sized) add_internal(c, (u64)p.sections[section], p.section_bytes[section] + 256, "the program's data");
}

void checks_begin(Checks* c, Program* p, const KernelInfo& k, const Launch& l, u32 n_threads,
                  const List<MemoryRange>& internal) {
  static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&table_lock);
  if (!p->accesses) p->accesses = check_table(*p);
  pthread_mutex_unlock(&table_lock);
  c->program = p;
  c->table = p->accesses;
  c->hint = (u16*)malloc(2 * (p->n_inst + 1));
  memset(c->hint, 0xff, 2 * (p->n_inst + 1));
  c->kernel = k.readable;
  c->unwritten = (u64*)calloc(p->n_inst + 1, 8);
  for (u32 i = 0; i < p->n_inst; i++) {
    c->part_atomics |= c->table[i].swaps_dword;
    c->has_spin_loads |= c->table[i].spin_load;
  }
  c->n_groups = l.groups[0] * l.groups[1] * l.groups[2];
  c->orders = orders_create(c->n_groups);
  c->readers = readers_create();
  c->preempts = preempts_create(k, l.card->xcds);
  c->n_threads = n_threads;
  const auto add = [](const MemoryRange& known, void* with) {
    Checks& c = *(Checks*)with;
    Range& r = add_range(c, known);
    for (u32 i = 0; i < c.n_barred; i++)
      if (r.base == c.barred[i]) {
        r.freed = true;
        r.barred = "is another device's, without hipDeviceEnablePeerAccess";
      }
  };
  each_allocation(c->work, add, c);
  // Before the arguments, for which 64 bytes more are allowed than they have: whose those are may be a variable.
  for (u32 i = 0; i < p->n_sections; i++) add_section(*c, *p, i);
  u32 kernarg_bytes = (k.kernarg_bytes > l.kernarg_bytes ? k.kernarg_bytes : l.kernarg_bytes) + 64;
  add_internal(*c, (u64)l.kernarg, kernarg_bytes, "the kernel's arguments");
  for (const MemoryRange& r : internal) add_internal(*c, r.base, r.end - r.base, r.name);
  if (p->got) add_internal(*c, (u64)p->got, 8 * p->n_got, "addresses of symbols");
  check_launch_begins(c);
}

static bool written_whole(const Checks& c, u64 base) {
  for (u32 i = 0; i < c.n_ranges; i++) {
    const Range& r = c.ranges[i];
    if (r.base != base || r.freed) continue;
    bool whole = r.writes;
    for (u64 k = 0; whole && k < (r.end - (r.base & ~3ull) + 3) / 4; k++) whole = r.writes[k];
    return whole;
  }
  return false;
}

void checks_end(Checks* c) {
  check_launch_ends(c);
  for (u32 i = 0; i < c->n_asked; i++)
    if (!written_whole(*c, c->asked[i])) c->asked[i] = 0;
  for (u32 i = 0; i < c->n_ranges; i++) {
    free_cells(c->ranges[i]);
    early_reads_free(c->ranges[i].early);
    free(c->ranges[i].bytes);
    free(c->ranges[i].updates);
    free(c->ranges[i].update_pc);
  }
  free(c->hint);
  free(c->unwritten);
  orders_destroy(c->orders);
  readers_destroy(c->readers);
  preempts_destroy(c->preempts);
  c->n_ranges = 0;
}

void check_start_group(Workgroup& g, Checks* c, const KernelInfo& k) {
  if (!c) return;
  if (!g.check) {
    g.check = (GroupCheck*)calloc(1, sizeof(GroupCheck));
    g.check->waves = (WaveCheck*)calloc(g.n_waves, sizeof(WaveCheck));
    g.check->order = group_order_create();
    for (u32 i = 0; i < g.n_waves; i++) {
      g.check->waves[i].n_loads = c->program->n_inst / 64 + 1;
      g.check->waves[i].loads = (u64*)calloc(g.check->waves[i].n_loads, 16);
      g.check->waves[i].sound = g.check->waves[i].loads + g.check->waves[i].n_loads;
    }
  }
  g.check->checks = c;
  g.progress = &c->progress;
  g.check->apart = g.check->missed = false;
  g.check->stopped = nullptr;
  g.check->holds = false;
  g.check->unwritten = 0;
  group_order_start(*g.check->order);
  check_lds_start(g, c);
  check_start_waves(g, k);
  g.check->moved_at = ~0ull;
  progress(*c);
}

void check_free_group(Workgroup& g) {
  if (!g.check) return;
  if (!g.check->checks->n_findings) report_held(g);
  check_lds_free(*g.check);
  group_order_destroy(g.check->order);
  for (u32 i = 0; i < g.n_waves; i++) free(g.check->waves[i].values.scratch), free(g.check->waves[i].loads);
  free(g.check->waves);
  free(g.check);
}

extern "C" {
Checks* cdna_checks_new(u32 kinds, u32 raise, u32 open) {
  Checks* c = (Checks*)calloc(1, sizeof(Checks));
  c->kinds = kinds;
  c->raise = raise;
  c->open = open;
  c->findings = (Finding*)calloc(MAX_FINDINGS, sizeof(Finding));
  pthread_mutex_init(&c->lock, nullptr);
  return c;
}

void cdna_checks_range(Checks* c, u64 base, u64 bytes, u64 pointer, const char* name) {
  add_range(*c, memory_range(base, bytes, name)).pointer = pointer;
}

void cdna_checks_claimed(Checks* c) {
  const auto add = [](const Block& b, void* with) {
    char name[64];
    snprintf(name, sizeof name, "a tensor of %llu bytes", (unsigned long long)b.bytes);
    if (b.whose != OF_HOST) cdna_checks_range((Checks*)with, b.base, b.bytes, 0, name);
  };
  if (cdna_known_blocks(add, c)) c->open = OPEN_BUT_FOR_HOST;
}

void cdna_checks_free(Checks* c) {
  pthread_mutex_destroy(&c->lock);
  free((void*)c->ranges);
  free(c->findings);
  free(c->barred);
  free(c->asked);
  free(c);
}
}
