// Schedules. What a run in one order does not show comes about where waves meet: at accesses to one dword of which one is a
// write, with no barrier between. A run that is asked to ($CDNA_ORDER_REPORT) writes down such pairs, and a schedule
// ($CDNA_SCHEDULE) holds waves back at chosen ones, until nobody else gets on. Its words:
//
//   hold:LAUNCH:GROUP.WAVE:PC:VISIT   a wave, before an instruction, at that visit of it
//   xcd:LAUNCH:XCD                    all waves of an XCD's workgroups, at their beginning
//   ahead:LAUNCH:GROUP.WAVE           all waves but one, at their beginning
//   l2                                what L2s hold is followed (isa/xcd_l2.cpp)
//
// LAUNCH counts the process's launches from 1 on.
#include "preempt.h"
#include "memory/table.h"
#include "isa/lock.h"
#include <stdlib.h>

constexpr u32 MOST_HOLDS = sizeof WaveCheck::visits / sizeof *WaveCheck::visits;
constexpr u32 PASSES = 3, MOST_PASSES = 2000;  // over workgroups, without a change in memory, and in all
constexpr u32 MOST_LAUNCHES = 64,
              EACH_OF = 4;  // that are written down; of a pair of instructions, then fewer and fewer
constexpr u64 MOST_TOUCHED = 1 << 20;

namespace {
enum Whom : u8 { ONE, OF_XCD, OTHERS };
struct Hold {
  Whom whom;
  bool holds, let_go;
  u32 launch, group, wave, pc, visit;
};
struct Place {
  u32 group, wave, pc, visit;
};
u64 spread(u64 key) { return mixed(key) >> 20; }
struct Came {
  Place by;
  u32 epoch;
  bool writes;
};
struct Touched {
  u64 address;  // 0: none
  u32 n;
  Came last[8];  // each wave and instruction once
  bool used() const { return address; }
  bool same(const Touched& other) const { return address == other.address; }
  u64 hash() const { return spread(address); }
};
struct Count {
  u64 key, more;  // of a wave's visits to an instruction, or of a pair of instructions
  u32 n;
  bool used() const { return n; }
  bool same(const Count& other) const { return key == other.key && more == other.more; }
  u64 hash() const { return spread(key ^ mixed(more)); }
};
}  // namespace
struct Preempts {
  u32 xcds, launch, n_holds;
  Hold holds[MOST_HOLDS];
  u64 progress;
  u32 passes, all_passes;
  FILE* report;  // null: nobody asks
  const char* kernel;
  pthread_mutex_t lock;
  Table<Touched> touched;
  Table<Count> visits, pairs;
};

template <class Visit> static void each_word(Visit visit) {
  const char* text = getenv("CDNA_SCHEDULE");
  for (char word[80]; text && sscanf(text, " %79s", word) == 1;) {
    visit(word);
    text = strstr(text, word) + strlen(word);
  }
}

bool schedule_says(const char* wanted) {
  bool says = false;
  each_word([&](const char* word) { says |= !strcmp(word, wanted); });
  return says;
}

static bool read_hold(const char* word, u32 entry, Hold& h) {
  h = {};
  h.pc = entry;
  h.visit = 1;
  if (sscanf(word, "hold:%u:%u.%u:%u:%u", &h.launch, &h.group, &h.wave, &h.pc, &h.visit) == 5) return true;
  h.whom = OTHERS;
  if (sscanf(word, "ahead:%u:%u.%u", &h.launch, &h.group, &h.wave) == 3) return true;
  h.whom = OF_XCD;
  return sscanf(word, "xcd:%u:%u", &h.launch, &h.group) == 2;
}

Preempts* preempts_create(const KernelInfo& k, u32 xcds) {
  static volatile u32 launches;
  const char *schedule = getenv("CDNA_SCHEDULE"), *report = getenv("CDNA_ORDER_REPORT");
  if (!schedule && !report) return nullptr;
  Preempts p = {};
  p.xcds = xcds;
  p.launch = __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED);
  p.kernel = k.readable;
  each_word([&](const char* word) {
    if (Hold h; p.n_holds < MOST_HOLDS && read_hold(word, k.entry, h) && h.launch == p.launch) p.holds[p.n_holds++] = h;
  });
  if (report && !(schedule && *schedule) && p.launch <= MOST_LAUNCHES) p.report = fopen(report, "a");
  if (!p.n_holds && !p.report) return nullptr;
  if (p.report) fprintf(p.report, "launch\t%u\t%s\n", p.launch, p.kernel);
  pthread_mutex_init(&p.lock, nullptr);
  Preempts* made = (Preempts*)malloc(sizeof p);
  memcpy((void*)made, (const void*)&p, sizeof p);
  return made;
}

void preempts_destroy(Preempts* p) {
  if (!p) return;
  if (p->report) fclose(p->report);
  p->touched.release();
  p->visits.release();
  p->pairs.release();
  pthread_mutex_destroy(&p->lock);
  free(p);
}

static bool means(const Preempts& p, const Hold& h, const Wave& w) {
  const u32 group = w.wg->linear_id;
  if (h.whom == OF_XCD) return group % p.xcds == h.group;
  return (group == h.group && w.id == h.wave) != (h.whom == OTHERS);
}

bool preempted(Wave& w, WaveCheck& c, u32 pc) {
  Preempts& p = *w.wg->check->checks->preempts;
  for (u32 i = 0; i < p.n_holds; i++) {
    Hold& h = p.holds[i];
    if (h.let_go || h.pc != pc || !means(p, h, w)) continue;
    if (c.held != i + 1 && ++c.visits[i] != h.visit) continue;
    c.held = i + 1;
    return h.holds = true;
  }
  c.held = 0;
  return false;
}

bool preempt_rests(Checks& c) {
  Preempts& p = *c.preempts;
  Hold* held = nullptr;
  for (u32 i = p.n_holds; i-- > 0;)
    if (p.holds[i].holds && !p.holds[i].let_go) held = &p.holds[i];
  if (!held) return false;
  p.passes = p.progress == c.progress ? p.passes + 1 : 0;
  p.progress = c.progress;
  if (p.passes < PASSES && ++p.all_passes % MOST_PASSES) return true;
  p.passes = 0;
  return held->let_go = true;
}

// --- where waves meet ----------------------------------------------------------------------------------

static void tell_pair(Preempts& p, const Program& program, const Place& a, const Place& b) {
  Count& pair = p.pairs.add({(u64)a.pc << 32 | b.pc, 0, 1});
  const u32 n = pair.n++;
  if (n > EACH_OF && (n & (n - 1))) return;
  fprintf(p.report, "pair\t%u\t%u.%u:%u:%u\t%u.%u:%u:%u\t%s\t%s\n", p.launch, a.group, a.wave, a.pc, a.visit, b.group,
          b.wave, b.pc, b.visit, program.where[a.pc], program.where[b.pc]);
}

void preempt_touch(Wave& w, const Access& x, const u64* at, u64 lanes) {
  Checks& c = *w.wg->check->checks;
  Preempts& p = *c.preempts;
  if (!p.report) return;
  const Lock locked(p.lock);
  const u32 pc = check_of(w).pc, group = w.wg->linear_id, epoch = w.wg->check->epoch;
  const u32 visit = p.visits.add({(u64)group << 32 | w.id, pc + 1u, 1}).n++;
  const bool writes = x.kind == VM_STORE || x.kind == VM_ATOMIC;
  for (; lanes; lanes &= lanes - 1) {
    const u64 first = at[__builtin_ctzll(lanes)] & ~3ull;
    for (u64 address = first; address < first + (x.bytes < 4 ? 4 : x.bytes); address += 4) {
      if (p.touched.count >= MOST_TOUCHED) return;
      Touched& there = p.touched.add({address, 0, {}});
      const Came now = {{group, w.id, pc, visit}, epoch, writes};
      constexpr u32 MOST = sizeof there.last / sizeof *there.last;
      Came* to = nullptr;
      for (u32 i = 0; i < there.n && i < MOST; i++) {
        Came& other = there.last[i];
        const bool mine = other.by.group == group && other.by.wave == w.id;
        if (mine && other.by.pc == pc) to = &other;
        if (mine || (other.by.group == group && other.epoch != epoch)) continue;
        if (other.writes || writes) tell_pair(p, *c.program, other.by, now.by);
      }
      *(to ? to : &there.last[there.n++ % MOST]) = now;
    }
  }
}
