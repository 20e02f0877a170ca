// Launches with the engine's checks of what hardware hides (engine/checks/check.h), as $CDNA_CHECKS says: all, none,
// or names with commas between; `report:` before them goes on after a finding.
#include "checks/check.h"
#include "memory/registry.h"
#include "memory/watched_memory.h"
#include "run/launch_log.h"
#include "runtime.h"
#include <sys/mman.h>
#include <unistd.h>

// Hazards are no kind: they were looked for in the program when it was compiled.
#define KIND(identifier, name) name,
static const char* const KINDS[] = {
#include "checks/kinds.h"
};
#undef KIND
#define KIND(identifier, name) name ","
static const char NAMES[] =
#include "checks/kinds.h"
    "hazard";
#undef KIND

struct Settings {
  u32 kinds, raise;
  bool hazards;
};

static Settings read_settings() {
  Settings s = {0, 1, false};
  const char* text = getenv("CDNA_CHECKS");
  if (!text) return s;
  if (!strncmp(text, "report:", 7)) {
    s.raise = 0;
    text += 7;
  }
  if (!strcmp(text, "none")) return s;
  while (*text) {
    size_t n = strcspn(text, ",");
    u32 i = 0;
    while (i < CHECK_KINDS && (strlen(KINDS[i]) != n || strncmp(KINDS[i], text, n))) i++;
    if (i < CHECK_KINDS) {
      s.kinds |= 1u << i;
    } else if (n == 6 && !strncmp(text, "hazard", 6)) {
      s.hazards = true;
    } else if (n == 3 && !strncmp(text, "all", 3)) {
      s.kinds = (1u << CHECK_KINDS) - 1;
      s.hazards = true;
    } else {
      say("CDNA_CHECKS: no check is called %.*s: all, none, or some of %s", (int)n, text, NAMES);
      exit(2);
    }
    text += n + (text[n] == ',');
  }
  return s;
}

// The number, from 1, of the first argument that points into a block; 0: none does. Sets what it is.
static u32 argument_of(u64 base, u64 bytes, const KernelCall& c, const KernelInfo& k, u64& pointer) {
  for (u32 i = 0; i < k.n_arguments && k.arguments[i].kind == EXPLICIT; i++) {
    const KernelArgument& a = k.arguments[i];
    for (u32 at = a.offset; at + 8 <= a.offset + a.size && at + 8 <= c.kernarg_bytes; at += 8) {  // of a struct too
      memcpy(&pointer, c.kernarg + at, 8);
      if (pointer - base < bytes) return i + 1;
    }
  }
  pointer = 0;
  return 0;
}

// Of the host's own those that an argument points into. False: there are too many to be told.
static bool tell_blocks(Checks* checks, const KernelCall& c, const KernelInfo& k) {
  struct Telling {
    Checks* checks;
    const KernelCall& call;
    const KernelInfo& kernel;
  } telling = {checks, c, k};
  auto tell = [](const Block& b, void* with) {
    Telling& t = *(Telling*)with;
    char name[64];
    u64 pointer;
    const bool host = b.whose == OF_HOST;
    int n = snprintf(name, sizeof name, "a %stensor of %llu bytes", host ? "CPU " : "", (unsigned long long)b.bytes);
    const u32 argument = argument_of(b.base, b.bytes, t.call, t.kernel, pointer);
    if (argument) snprintf(name + n, sizeof name - n, " (argument %u)", argument);
    else if (host) return;
    cdna_checks_range(t.checks, b.base, b.bytes, pointer, name);
    Range& told = t.checks->ranges[t.checks->n_ranges - 1];
    told.freed = host;
    told.barred = host ? "is in the host's memory and not pinned: the card does not reach it" : nullptr;
  };
  return cdna_known_blocks(tell, &telling);
}

// Whether all memory that the card may reach is known: in a program of its own, or where torch's allocator is watched.
static bool knows_all_memory() { return alone() || cdna_watching(); }

// Whether this process has memory there: two ints side by side look like an address, too.
static bool is_mapped(u64 address) {
  const u64 page = (u64)sysconf(_SC_PAGESIZE);
  unsigned char resident;
  return !mincore((void*)(address & ~(page - 1)), page, &resident);
}

// Whether an argument may point to memory of which nobody told: then nothing can be said about addresses unknown.
static bool points_elsewhere(const KernelCall& c) {
  for (u32 at = 0; at + 8 <= c.kernarg_bytes; at += 8) {
    u64 x;
    memcpy(&x, c.kernarg + at, 8);
    Block block;
    if (x >> 47 == 0 && x >> 32 != 0 && !find_allocation((void*)x) && !block_at(x, block) && is_mapped(x) &&
        !is_beside_allocation((void*)x))
      return true;
  }
  return false;
}

// Bases of the memory where a kernel may write, and the host look: so it may tell the host what has ended, or write what the
// host has given.
static List<u64> host_memory_of(const KernelCall& c) {
  List<u64> bases = {};
  for (u32 at = 0; at + 8 <= c.kernarg_bytes; at += 8) {
    u64 x;
    memcpy(&x, c.kernarg + at, 8);
    const Allocation* a = find_allocation((void*)x);
    if (a && a->type != hipMemoryTypeDevice && !bases.contains((u64)a->base)) bases.push((u64)a->base);
  }
  return bases;
}

// For the check of deadlocks: whether somebody other than the kernels that run may write there.
static bool may_be_written(u64 address) {
  {
    Guard guard;
    Allocation* a = find_allocation((void*)address);
    bool own = a && !a->registered && !a->mapped;
    if (own ? a->exported || a->imported : cdna_shared_with_processes(address)) return true;
  }
  return program_may_act();
}

static const Settings& wanted() {
  static Settings settings;
  static bool known = false;
  if (!known) {
    settings = read_settings();
    cdna_set_may_be_written(may_be_written);
  }
  known = true;
  return settings;
}

// A program of its own that ends as if all were well has not looked at its launches' errors.
static volatile bool found_any;
static bool raised(bool found) {
  if (!found || !wanted().raise) return false;
  return found_any = true;
}
__attribute__((constructor)) static void fail_behind_findings() {  // before main: behind all that it has for its end
  if (!alone()) return;
  auto ends = [](int status, void*) {
    tell_unasked();
    if (status || !(found_any || (refused_unasked() && wanted().raise))) return;
    fflush(nullptr);
    _exit(1);
  };
  on_exit(ends, nullptr);
}

void mark_fresh(u8* at, size_t bytes) {
  if (wanted().kinds >> CHECK_UNWRITTEN & 1) cdna_mark_unwritten(at, bytes);
}

// What a copy brings the host of a device's memory though nobody has written it there: told once of each allocation.
bool reads_unwritten(const CopyCall& c) {
  Guard guard;
  if (!(wanted().kinds >> CHECK_UNWRITTEN & 1)) return false;
  const Allocation *to = find_allocation(c.to), *from = find_allocation(c.from);
  Block block;
  const bool of_torch = block_at((u64)c.to, block) && block.whose == OF_DEVICE;
  const bool to_host = to ? to->type != hipMemoryTypeDevice : !program_at((u64)c.to) && !of_torch;
  static List<u64> told = {};
  if (!to_host || (from && told.contains(from->id))) return false;
  u64 bytes = 0, first = 0;
  for (size_t z = 0; z < c.depth; z++)
    for (size_t y = 0; y < c.height; y++) {
      u64 at;
      bytes += cdna_unwritten_bytes((u64)c.from + z * c.from_slice + y * c.from_pitch, c.width, &at);
      first = first ? first : at;
    }
  if (!bytes) return false;
  if (from) told.push(from->id);
  char name[80] = "a tensor", store[400], who[460] = "which nothing has written";
  if (from) name_allocation(*from, name, sizeof name);
  if (cdna_unwritten_store(first, store, sizeof store))
    snprintf(who, sizeof who, "where %s has stored what it made of memory that nothing had written", store);
  say("unwritten: a copy of %zu bytes to the host reads %llu bytes of %s, the first at offset %llu, %s: write them "
      "before, or copy what has been written",
      c.width * c.height * c.depth, (unsigned long long)bytes, name,
      (unsigned long long)(first - (from ? (u64)from->base : (u64)c.from)), who);
  return true;
}

bool tell_hazards(Program& p, u32 index) {
  Guard guard;
  if (!wanted().hazards) return false;
  const char* kernel = p.kernels[index].readable;
  bool found = false;
  for (u32 i = 0; i < p.n_hazards; i++) {
    Hazard& h = p.hazards[i];
    if (h.told || (h.kernel != index && h.kernel != ANY_KERNEL)) continue;
    h.told = true;
    say("%s on %s: %s: %s\n  at %s", kernel, p.arch, h.doubt ? "doubt" : "hazard", h.message, p.where[h.pc]);
    if (h.doubt) continue;
    found = true;
    Finding f;
    memset((void*)&f, 0, sizeof f);
    f.kind = CHECK_KINDS;
    f.pc = h.pc;
    f.lane = -1;
    f.other_pc = ~0u;
    f.count = 1;
    snprintf(f.message, sizeof f.message, "%s", h.message);
    cdna_log_finding(&p, kernel, &f);
  }
  return raised(found);
}

Checks* begin_checks(const KernelCall& c, const KernelInfo& k, int device) {
  Guard guard;
  const Settings& settings = wanted();
  if (!settings.kinds) return nullptr;
  Checks* checks = cdna_checks_new(settings.kinds, settings.raise,
                                   !points_elsewhere(c) ? CLOSED
                                   : knows_all_memory() ? OPEN_BUT_FOR_HOST
                                                        : OPEN);
  if (const WorkOrder* order = order_of_work; order && order->work && checks->has(CHECK_RACE)) {
    checks->work = order->work;
    checks->known = order->known;
    checks->work_name = work_name;
    checks->beside = beside;
    name_work(order->work, k.readable);
  }
  if (!tell_blocks(checks, c, k)) checks->open = OPEN;
  if (alone()) {  // ranks of Python have their own ways
    const List<u64> asked = host_memory_of(c);
    checks->asked = asked.items;
    checks->n_asked = asked.count;
    if (order_of_work && asked.count) (void)pinned_reads_end(order_of_work->known, false);
    const List<u64> barred = barred_allocations(device);
    checks->barred = barred.items;
    checks->n_barred = barred.count;
  }
  return checks;
}

static bool fill_changes(const FillCall& f, u64 to) {
  for (size_t x = 0; x < f.width; x += f.value_bytes)
    if (memcmp((const void*)(to + x), &f.value, f.value_bytes)) return true;
  return false;
}

bool found_fault() {
  if (!wanted().kinds || !raised(true)) return false;
  device_lost = hipErrorLaunchFailure;
  return true;
}

void log_fault(const Program& p, const char* kernel, const Launch& l) {
  Finding f;
  memset((void*)&f, 0, sizeof f);
  f.kind = CHECK_BOUNDS;
  f.pc = l.fault_pc;
  memcpy(f.group, l.fault_group, sizeof f.group);
  f.wave = l.fault_wave;
  f.lane = -1;
  f.other_pc = ~0u;
  f.count = 1;
  snprintf(f.message, sizeof f.message, "%s", l.message + strlen("bounds: "));
  cdna_log_finding(&p, kernel, &f);
  found_any = true;
}

bool looks_for_races() {
  Guard guard;
  return wanted().kinds >> CHECK_RACE & 1;
}
bool checks_bounds() {
  Guard guard;
  return wanted().kinds >> CHECK_BOUNDS & 1;
}

hipError_t check_moves(const Operation& o, const WorkOrder& order) {
  if (!order.work || (o.kind != DO_COPY && o.kind != DO_FILL) || !looks_for_races()) return hipSuccess;
  const bool copies = o.kind == DO_COPY;
  const CopyCall& c = o.copy;
  const FillCall& f = o.fill;
  const size_t width = copies ? c.width : f.width;
  u32 found = 0, clash = 0;
  for (size_t z = 0; width && z < (copies ? c.depth : f.depth); z++)
    for (size_t y = 0; y < (copies ? c.height : f.height); y++) {
      u64 from = copies ? (u64)c.from + z * c.from_slice + y * c.from_pitch : 0;
      u64 to = copies ? (u64)c.to + z * c.to_slice + y * c.to_pitch : (u64)f.to + z * f.slice + y * f.pitch;
      // Who wrote what hipMemset has filled is not asked: programs take it for done when it returns.
      const bool told = copies || f.on_stream, changes = copies ? memcmp((const void*)from, (const void*)to, width) != 0
                                                                : told && fill_changes(f, to);
      u32 how = 0, other = cdna_stream_moves(from, to, width, told ? order.work : 0, order.known, changes, &how);
      if (other && !found) clash = how;
      found = found ? found : other;
    }
  if (!found && alone()) {
    if (copies && note_pinned_read(c, order.work)) found_fault();
    forget_pinned_reads(copies ? c.to : f.to, width);
    if (copies && c.height == 1 && c.depth == 1) note_result(c.to, width, order.work);
    return device_lost;
  }
  if (!found) return hipSuccess;
  static const char* const CLASHES[][2] = {{"reads", "written"}, {"writes over", "written"}, {"writes over", "read"}};
  say("race: a %s %s what %s has %s %s", copies ? "copy" : "fill", CLASHES[clash][0], work_name(found),
      CLASHES[clash][1], beside(order.work, found));
  return raised(true) ? device_lost = hipErrorLaunchFailure : hipSuccess;
}

// "\n  | text" of the source line that an instruction's "`...` (file:line)" names; "" where there is none.
static void source_text(const char* where, char* text, size_t size) {
  const char *open = strrchr(where, '('), *colon = strrchr(where, ':');
  char name[1024], line[1024];
  text[0] = 0;
  if (!open || !colon || colon < open || (size_t)(colon - open) > sizeof name) return;
  snprintf(name, sizeof name, "%.*s", (int)(colon - open - 1), open + 1);
  FILE* file = fopen(name, "r");
  if (!file) return;
  for (int left = atoi(colon + 1); left > 0 && fgets(line, sizeof line, file); left--)
    if (left == 1) {
      size_t indent = strspn(line, " \t"), length = strcspn(line, "\r\n");
      if (length > indent) snprintf(text, size, "\n  | %.*s", (int)(length - indent), line + indent);
    }
  fclose(file);
}

bool end_checks(Checks* checks, const Program& p, const char* kernel) {
  if (!checks) return false;
  u32 n;
  const Finding* findings = cdna_checks_findings(checks, &n);
  for (u32 i = 0; i < n; i++) {
    const Finding& f = findings[i];
    char lane[32] = "";
    if (f.lane >= 0) snprintf(lane, sizeof lane, ", lane %d", f.lane);
    char line[200], often[40] = "";
    source_text(p.where[f.pc], line, sizeof line);
    if (f.count > 1) snprintf(often, sizeof often, ", the first of %llu", (unsigned long long)f.count);
    say("%s on %s: %s: %s\n  at %s, workgroup (%u, %u, %u), wave %u%s%s%s", kernel, p.arch, KINDS[f.kind], f.message,
        p.where[f.pc], f.group[0], f.group[1], f.group[2], f.wave, lane, often, line);
    cdna_log_finding(&p, kernel, &f);
  }
  // Without atomics, and stores that may be flags, a kernel cannot tell the host that it has written all. A word of its own
  // may be a flag though it is stored plainly.
  constexpr size_t FLAG_BYTES = 8;
  for (u32 i = 0; checks->work && !checks->clock && i < checks->n_asked; i++) {
    Guard guard;
    if (const Allocation* a = checks->asked[i] ? find_allocation((void*)checks->asked[i]) : nullptr)
      if (a->bytes > FLAG_BYTES) note_result(a->base, a->bytes, checks->work);
  }
  if (checks->work && checks->tells) order_program_after(checks->known, false);
  cdna_checks_free(checks);
  raised(n != 0);
  return n != 0;
}
