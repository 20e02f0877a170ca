// Memory that a launch may touch, findings, and the interface for hosts.
#include "check_order.h"
#include "check_readers.h"
#include "memory/watched_memory.h"
#include "under_way.h"
#include <stdarg.h>
#include <stdlib.h>

// --- memory ----------------------------------------------------------------------------------------------

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

u64 distance(const Range& r, u64 address) {
  return address < r.base ? r.base - address : address >= r.end ? address - r.end : 0;
}

// The size of elements of which 2^32 lie between the address and a place in the range: who counted them in 32 bits has gone
// below zero. 0: of none.
static u32 overflowed(const Range& r, u64 address, u32 bytes) {
  for (u32 size = bytes < 8 ? bytes : 8; size; size /= 2)
    if (const u64 meant = address + ((u64)size << 32); meant >= r.base && meant + bytes <= r.end) return size;
  return 0;
}

const Range* describe(const Checks& c, u64 address, u32 bytes, char* text, u32 size, const Range* meant) {
  const Range* r = meant;
  for (u32 i = 0; i < c.n_ranges && !meant; i++) {
    const Range& other = c.ranges[i];
    if (!other.internal && !other.freed && (!r || distance(other, address) < distance(*r, address))) r = &other;
  }
  if (!r) snprintf(text, size, "in no tensor of the launch");
  else if (!meant && distance(*r, address) > FAR) snprintf(text, size, "far from every tensor of the launch");
  else if (address >= r->base && address + bytes <= r->end)
    snprintf(text, size, "at offset %llu of %s", (unsigned long long)(address - r->base), r->name);
  else {
    snprintf(text, size, "%llu bytes %s of %s", (unsigned long long)distance(*r, address),
             address < r->base ? "before the start" : "past the end", r->name);
    const u32 length = (u32)strlen(text), element = address < r->base ? overflowed(*r, address, bytes) : 0;
    if (element)
      snprintf(text + length, size - length,
               ", and 2^32 elements of %u bytes below a place in it: a 32-bit offset overflowed", element);
  }
  return r;
}

// --- findings --------------------------------------------------------------------------------------------

// Where the line of an instruction's text begins, "`...` (file:line)".
static const char* line_of(const Checks& c, u32 pc) {
  const char* where = c.program->where[pc];
  const char* line = strrchr(where, '(');
  return line ? line : where;
}

// The same fault of the same source line on the same tensor is one entry, whichever of its instructions it was.
static bool same_fault(const Checks& c, const Finding& a, const Finding& b) {
  return a.kind == b.kind && !strcmp(a.tensor, b.tensor) && !strcmp(line_of(c, a.pc), line_of(c, b.pc));
}

// Causes before what comes of them: a missing wait or barrier makes races, a race makes values that nothing has written.
static u32 rank_of(u32 kind) {
  static const u8 ORDER[] = {CHECK_WAIT, CHECK_BARRIER, CHECK_RACE};
  for (u32 i = 0; i < sizeof ORDER; i++)
    if (kind == ORDER[i]) return i;
  return kind == CHECK_DEADLOCK ? 5 : kind == CHECK_UNINITIALISED ? 4 : 3;
}

static Finding finding(Wave& w, CheckKind kind, int lane, u64 address, u32 other_pc, const char* format, va_list args) {
  Finding f;
  memset((void*)&f, 0, sizeof f);
  f.kind = kind;
  f.pc = check_of(w).pc;
  memcpy(f.group, w.wg->id, sizeof f.group);
  f.wave = w.id;
  f.lane = lane;
  f.other_pc = other_pc;
  f.address = address;
  f.count = 1;
  vsnprintf(f.message, sizeof f.message, format, args);
  return f;
}

static void note(Checks& c, const Finding& f) {
  pthread_mutex_lock(&c.lock);
  u32 i = 0;
  while (i < c.n_findings && !same_fault(c, c.findings[i], f)) i++;
  if (i < c.n_findings) c.findings[i].count++;
  else if (i < MAX_FINDINGS) c.findings[c.n_findings++] = f;
  pthread_mutex_unlock(&c.lock);
}

bool report(Wave& w, CheckKind kind, int lane, u64 address, const Range* range, u32 other_pc, const char* format, ...) {
  GroupCheck& g = *w.wg->check;
  Checks& c = *g.checks;
  if (!c.has(kind)) return true;
  va_list args;
  va_start(args, format);
  Finding f = finding(w, kind, lane, address, other_pc, format, args);
  va_end(args);
  if (range) snprintf(f.tensor, sizeof f.tensor, "%s", range->name);
  // A missing barrier between accesses to LDS is why nothing was there; what else is found may come of that.
  const bool cause = !range && address < g.lds_bytes && rank_of(kind) <= rank_of(CHECK_RACE);
  if (g.holds && !cause) note(c, g.held);
  note(c, f);
  if (g.holds && cause) note(c, g.held);
  g.holds = false;
  if (!c.raise) {
    if (kind == CHECK_BOUNDS) check_of(w).dropped |= lane < 0 ? ~0ull : 1ull << lane;
    return true;
  }
  fault(w, "%s", f.message);
  return false;
}

bool report_later(Wave& w, CheckKind kind, int lane, u32 at, u32 other_pc, const char* format, ...) {
  GroupCheck& g = *w.wg->check;
  if (g.holds) return true;
  va_list args;
  va_start(args, format);
  g.held = finding(w, kind, lane, at, other_pc, format, args);
  va_end(args);
  g.held_wave = &w;
  g.holds = true;
  if (!g.checks->raise || !g.checks->has(CHECK_RACE) || w.wg->n_waves - w.wg->n_ended < 2) report_held(*w.wg);
  return !g.checks->raise || g.holds;
}

void report_held(Workgroup& g) {
  GroupCheck& c = *g.check;
  if (!c.holds) return;
  c.holds = false;
  note(*c.checks, c.held);
  if (!c.checks->raise) return;
  Wave& w = *c.held_wave;
  const bool ended = w.stop == ENDED;
  fault(w, "%s", c.held.message);
  if (ended) w.stop = ENDED;  // which the fault has made it forget
  c.stopped = &w;
}

void check_fault(Wave& w, u64 address) {
  access_ends();
  if (!w.wg->check || !w.wg->check->checks->has(CHECK_BOUNDS)) return;
  char where[200];
  const Range* r = describe(*w.wg->check->checks, address, 1, where, sizeof where);
  u32 pc = w.pc - 1;
  check_of(w).pc = pc;
  report(w, CHECK_BOUNDS, -1, address, r, ~0u, "memory access fault at 0x%llx, %s", (unsigned long long)address, where);
}

// --- launches --------------------------------------------------------------------------------------------

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
    c->has_polls |= c->table[i].polls;
  }
  c->n_groups = l.groups[0] * l.groups[1] * l.groups[2];
  c->orders = orders_create(c->n_groups);
  c->readers = readers_create();
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
    free(c->ranges[i].writes);
    free(c->ranges[i].reads);
    early_reads_free(c->ranges[i].early);
    free(c->ranges[i].write_pc);
    free(c->ranges[i].bytes);
    free(c->ranges[i].updates);
    free(c->ranges[i].update_pc);
  }
  free(c->hint);
  free(c->unwritten);
  orders_destroy(c->orders);
  readers_destroy(c->readers);
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

// Whether control flow leads from one instruction to another.
static bool leads_to(const Program& p, u32 from, u32 to) {
  u8* seen = (u8*)calloc(p.n_inst + 1, 1);
  u32* pending = (u32*)malloc(4 * (2 * (size_t)p.n_inst + 2));
  u32 n = 0;
  bool found = false;
  for (pending[n++] = from; n && !found;) {
    u32 i = pending[--n];
    while (i < p.n_inst && !seen[i] && !found) {
      seen[i] = 1;
      found = i == to && i != from;
      const Facts& f = op_facts(p.code[i].op);
      bool label = f.unit == BRANCH_UNIT && strchr(op_info(p.code[i].op).signature, 'L');
      if (label) pending[n++] = (u32)p.code[i].offset;
      if (f.unit == END_UNIT || f.does == DOES_JUMP) break;
      i++;
    }
  }
  free(pending);
  free(seen);
  return found;
}

// A wave that has ended without this barrier, though not before it: it has done what stands behind it. Waves that leave
// early do nothing more.
static void missed_barrier(Workgroup& g, u32 waiting) {
  GroupCheck& c = *g.check;
  if (c.missed || c.apart) return;
  u32 barrier = g.waves[waiting].pc - 1;
  for (u32 i = 0; i < g.n_waves; i++) {
    Wave& w = g.waves[i];
    WaveCheck& x = c.waves[i];
    if (w.stop != ENDED || !x.last_access || x.barriers >= c.waves[waiting].barriers) continue;
    if (!leads_to(*c.checks->program, barrier, x.last_access)) continue;
    c.missed = true;
    const char* const* where = c.checks->program->where;
    x.pc = barrier;
    if (!report(w, CHECK_BARRIER, -1, 0, nullptr, x.last_access,
                "wave %u waits at this barrier, which wave %u has not reached: that one has gone on to %s and ended",
                waiting, i, where[x.last_access]))
      c.stopped = &w;
    w.stop = ENDED;  // which a fault has made it forget
    return;
  }
}

void check_barrier(Workgroup& g) {
  GroupCheck& c = *g.check;
  u32 first = g.n_waves;
  for (u32 i = 0; i < g.n_waves; i++) {
    const Wave& w = g.waves[i];
    if (w.stop == ENDED) continue;
    c.waves[i].barriers++;
    if (first == g.n_waves) first = i;
    if (c.apart || w.pc == g.waves[first].pc) continue;
    c.apart = true;
    c.apart_wave[0] = first;
    c.apart_wave[1] = i;
    c.apart_pc[0] = g.waves[first].pc - 1;
    c.apart_pc[1] = w.pc - 1;
  }
  if (first < g.n_waves && g.n_ended && c.checks->has(CHECK_BARRIER)) missed_barrier(g, first);
  report_held(g);
  check_lds_barrier(g);
  c.moved_at = c.checks->progress;
  // The device library's barrier of the grid ends with one of the workgroup, and no instruction that acquires.
  order_barrier(g, g.launch->cooperative);
}

// Waves may meet at different barriers on purpose (schedules in which two halves of a workgroup take turns), and a wave
// that has ended may have passed fewer. Both together mean that a barrier was not reached by all.
Wave* check_group_ended(Workgroup& g) {
  GroupCheck& c = *g.check;
  report_held(g);
  if (c.stopped || !c.apart) return c.stopped;
  u32 a = c.apart_wave[0], b = c.apart_wave[1], n = c.waves[a].barriers, m = c.waves[b].barriers;
  if (n == m) return nullptr;
  Wave& w = g.waves[a];
  c.waves[a].pc = c.apart_pc[0];
  const char* const* where = c.checks->program->where;
  bool go_on =
      report(w, CHECK_BARRIER, -1, 0, nullptr, c.apart_pc[1],
             "divergent barriers: wave %u waits at %s while wave %u waits at %s; in all they pass %u and %u barriers",
             a, where[c.apart_pc[0]], b, where[c.apart_pc[1]], n, m);
  return go_on ? nullptr : &w;
}

// --- for hosts -------------------------------------------------------------------------------------------

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

const Finding* cdna_checks_findings(Checks* c, u32* n) {
  *n = c->n_findings;
  for (u32 i = 1; i < c->n_findings; i++)  // stable: of one rank in the order in which they were found
    for (u32 k = i; k && !c->raise && rank_of(c->findings[k].kind) < rank_of(c->findings[k - 1].kind); k--) {
      Finding f = c->findings[k];
      c->findings[k] = c->findings[k - 1];
      c->findings[k - 1] = f;
    }
  return c->findings;
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
