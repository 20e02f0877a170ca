// What checks have found: how it is told, which findings are one, and which comes first.
#include "check.h"
#include "stores_in_flight.h"
#include "isa/lock.h"
#include <stdarg.h>

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
  const Lock locked(c.lock);
  u32 i = 0;
  while (i < c.n_findings && !same_fault(c, c.findings[i], f)) i++;
  if (i < c.n_findings) c.findings[i].count++;
  else if (i < MAX_FINDINGS) c.findings[c.n_findings++] = f;
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

extern "C" const Finding* cdna_checks_findings(Checks* c, u32* n) {
  *n = c->n_findings;
  for (u32 i = 1; i < c->n_findings; i++)  // stable: of one rank in the order in which they were found
    for (u32 k = i; k && !c->raise && rank_of(c->findings[k].kind) < rank_of(c->findings[k - 1].kind); k--) {
      Finding f = c->findings[k];
      c->findings[k] = c->findings[k - 1];
      c->findings[k - 1] = f;
    }
  return c->findings;
}
