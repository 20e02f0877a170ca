// Memory that a launch may touch, findings, and the interface for hosts.
#include "check_order.h"
#include "check_readers.h"
#include "memory/registry.h"
#include "memory/watched_memory.h"
#include "run/hostcall.h"
#include "under_way.h"
#include <stdarg.h>
#include <stdlib.h>

// --- memory ----------------------------------------------------------------------------------------------

// Allocations that a runtime has told of, for all launches of the process; the newest freed ones stay a while.
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static Range* registry;
static u32 n_registered, max_registered, n_freed;
constexpr u32 KEPT_FREED = 256;

static void append(Range*& list, u32& n, u32& capacity, const Range& r) {
  if (n == capacity) list = (Range*)realloc((void*)list, sizeof(Range) * (capacity = capacity ? capacity * 2 : 16));
  memcpy((void*)&list[n++], (const void*)&r, sizeof r);
}

static Range make_range(u64 base, u64 bytes, const char* name) {
  Range r;
  memset((void*)&r, 0, sizeof r);
  r.base = base;
  r.end = base + bytes;
  snprintf(r.name, sizeof r.name, "%s", name);
  return r;
}

static void drop(u32 i) {
  memmove((void*)&registry[i], (const void*)&registry[i + 1], sizeof(Range) * (--n_registered - i));
}

static void add_internal(Checks* c, u64 base, u64 bytes, const char* name) {
  Range r = make_range(base, bytes, name);
  r.internal = true;
  append(c->ranges, c->n_ranges, c->max_ranges, r);
}

// Variables of a section of the program, where its labels say how large each is; false: they do not.
template <class Visit> static bool each_variable(const Program& p, u32 section, Visit visit) {
  const u64 base = (u64)p.sections[section], end = base + p.section_bytes[section];
  bool sized = false;
  for (u32 i = 0; i < p.n_symbols; i++) {
    const u64 at = (u64)p.symbols[i].address;
    if (at < base || at > end || (at == end && end != base)) continue;
    if (!p.symbols[i].size) return false;
    sized = true;
  }
  for (u32 i = 0; i < p.n_symbols && sized; i++) {
    const Symbol& s = p.symbols[i];
    const u64 at = (u64)s.address;
    if (at < base || at >= end) continue;
    char name[64];
    snprintf(name, sizeof name, "the variable %s", s.name);
    Range r = make_range(at, s.size % 16 == 12 ? s.size + 4 : s.size, name);  // three dwords are loaded as four
    r.internal = !strncmp(s.name, "__hip_cuid_", 11);                         // the compiler's own
    r.variable = true;
    r.constant = s.constant;
    visit(r);
  }
  return sized;
}

static void add_section(Checks* c, const Program& p, u32 section) {
  const bool sized = each_variable(p, section, [&](const Range& r) {
    if (!p.listed) append(c->ranges, c->n_ranges, c->max_ranges, r);
  });
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

void checks_begin(Checks* c, Program* p, const KernelInfo& k, const Launch& l, u32 n_threads, const void* packet) {
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
  pthread_mutex_lock(&registry_lock);
  for (u32 i = 0; i < n_registered; i++) {
    if (c->work) keep_owners(registry[i]);
    append(c->ranges, c->n_ranges, c->max_ranges, registry[i]);
    Range& r = c->ranges[c->n_ranges - 1];
    for (u32 k = 0; k < c->n_barred; k++)
      if (r.base == c->barred[k]) {
        r.freed = true;
        r.barred = "is another device's, without hipDeviceEnablePeerAccess";
      }
  }
  pthread_mutex_unlock(&registry_lock);
  // Before the arguments, for which 64 bytes more are allowed than they have: whose those are may be a variable.
  for (u32 i = 0; i < p->n_sections; i++) add_section(c, *p, i);
  u32 kernarg_bytes = (k.kernarg_bytes > l.kernarg_bytes ? k.kernarg_bytes : l.kernarg_bytes) + 64;
  add_internal(c, (u64)l.kernarg, kernarg_bytes, "the kernel's arguments");
  for (u32 i = 0; i < k.n_arguments; i++) {
    u64 hidden;
    memcpy(&hidden, l.kernarg + k.arguments[i].offset, sizeof hidden);
    const auto add = [](u64 base, u64 bytes, void* to) { add_internal((Checks*)to, base, bytes, "calls to the host"); };
    if (k.arguments[i].kind == HOSTCALL_BUFFER && hidden) hostcall_memory(hidden, add, c);
    if (k.arguments[i].kind == MULTIGRID_SYNC && hidden) add_internal(c, hidden, GRID_SYNC_BYTES, "the grid's barrier");
  }
  add_internal(c, (u64)packet, 64, "the dispatch packet");
  if (p->got) add_internal(c, (u64)p->got, 8 * p->n_got, "addresses of symbols");
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
  Range r = make_range(base, bytes, name);
  r.pointer = pointer;
  append(c->ranges, c->n_ranges, c->max_ranges, r);
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

// Allocations of a runtime. What was unregistered lately is known as freed until its addresses are used again, or until
// the runtime forgets it: anybody may get addresses that are the system's again, without telling us.
static void forget(u64 base, u64 bytes) {
  for (u32 i = n_registered; i-- > 0;) {
    if (registry[i].freed && registry[i].base < base + bytes && base < registry[i].end) {
      drop(i);
      n_freed--;
    }
  }
}

void cdna_memory_forget(u64 base, u64 bytes) {
  pthread_mutex_lock(&registry_lock);
  forget(base, bytes);
  pthread_mutex_unlock(&registry_lock);
}

u32 cdna_stream_moves(u64 from, u64 to, u64 bytes, u32 work, const u64* known, bool changes, u32* clash) {
  u32 found = 0;
  const auto look = [&](const u32* works, const Range& r, u64 at, u32 how) {
    if (found) return;
    found = unordered(works, r, at, at + bytes, work, known);
    *clash = how;
  };
  pthread_mutex_lock(&registry_lock);
  for (u32 i = 0; i < n_registered; i++) {
    Range& r = registry[i];
    if (work && ((from && from - r.base < r.end - r.base) || to - r.base < r.end - r.base)) keep_owners(r);
    if (!r.owners || r.freed) continue;
    if (from && from - r.base < r.end - r.base && from + bytes <= r.end) {
      look(r.owners, r, from, 0);
      look(r.updaters, r, from, 0);
      note_reader(r, from, from + bytes, work);
    }
    if (to - r.base < r.end - r.base && to + bytes <= r.end) {
      if (changes) look(r.owners, r, to, 1);
      if (changes) look(r.updaters, r, to, 1);
      if (changes) look(r.readers, r, to, 2);
      own(r, to, to + bytes, work, known);
    }
  }
  pthread_mutex_unlock(&registry_lock);
  return found;
}

void cdna_variables_register(Program* p) {
  pthread_mutex_lock(&registry_lock);
  for (u32 i = 0; i < p->n_sections; i++)
    (void)each_variable(*p, i, [](const Range& r) { append(registry, n_registered, max_registered, r); });
  p->listed = true;
  pthread_mutex_unlock(&registry_lock);
}

void cdna_variables_forget(Program* p) {
  pthread_mutex_lock(&registry_lock);
  for (u32 i = 0; i < p->n_sections; i++)
    for (u32 k = n_registered; k-- > 0;) {
      Range& r = registry[k];
      if (!r.variable || r.base - (u64)p->sections[i] > p->section_bytes[i]) continue;
      drop_owners(r);
      drop(k);
    }
  p->listed = false;
  pthread_mutex_unlock(&registry_lock);
}

void cdna_memory_register(u64 base, u64 bytes, const char* name, bool shown) {
  pthread_mutex_lock(&registry_lock);
  forget(base, bytes);
  append(registry, n_registered, max_registered, make_range(base, bytes, name));
  registry[n_registered - 1].shown = shown;
  pthread_mutex_unlock(&registry_lock);
}

void cdna_memory_unregister(u64 base) {
  pthread_mutex_lock(&registry_lock);
  for (u32 i = 0; i < n_registered; i++) {
    if (registry[i].base != base || registry[i].freed) continue;
    Range r;
    memcpy((void*)&r, (const void*)&registry[i], sizeof r);
    drop_owners(r);
    drop(i);
    r.freed = true;
    append(registry, n_registered, max_registered, r);
    n_freed++;
    break;
  }
  for (u32 i = 0; i < n_registered && n_freed > KEPT_FREED; i++)
    if (registry[i].freed) {
      drop(i--);
      n_freed--;
    }
  pthread_mutex_unlock(&registry_lock);
}

bool cdna_holds_addresses(const u64* values, u64 n, const u64* bounds, u32 n_bounds) {
  for (u64 i = 0; i < n; i++) {
    if (values[i] - bounds[0] >= bounds[n_bounds - 1] - bounds[0]) continue;
    u32 low = 0, high = n_bounds;  // how many bounds are no greater
    while (low < high) {
      const u32 middle = (low + high) / 2;
      if (bounds[middle] <= values[i]) low = middle + 1;
      else high = middle;
    }
    if (low & 1) return true;
  }
  return false;
}
}
