// Counters of a launch: what each instruction cost, what memory traffic it made, and how long its workgroups
// would take alone on a CU. An observer (observe.h) for each host thread, added up when the launch ends.
//
// Time. Of some workgroups, spread over the grid, every step is kept until the launch ends and it is known where the cache
// model found each line; launch_time.h replays them.
//
// Polls. How often a wave asks whether something has come says how fast the emulation is, so it is left out: what a
// wave executes from an s_sleep to the same s_sleep again, if it reads memory and changes nothing, nor the LDS, is not counted.
// It is held back until that is clear.
//
// Samples (grid.h). Of a grid of many rounds (a round, here a batch: the workgroups that fit on the card at the same time) three
// run: the first, which finds its caches cold, and two in the middle, of which the former warms the caches and the
// latter stands for all but the first. In those only the workgroups whose time is taken have every instruction looked
// at, of the others the lines that they ask of the L2. No matrix instruction computes, so what the kernel leaves in
// memory is of no use, and whatever decides by it goes astray. What is counted is scaled to the grid.
// A grid may be an upper bound, whose last workgroups find nothing to do. Those that ask for no line count as none (kept.h), so
// some of all that do not run otherwise do: what is counted is scaled to those that work, and where they show that
// others have more or less to do than those that stand for them, by that too.
// Not of kernels whose workgroups learn from an atomic what to do (the last of a tile adds up what all have left): of those
// every workgroup runs, and where one has done more or less than those before it, its steps are kept too.
// SAMPLE_PRODUCTS: only of kernels with matrix instructions and only of a grid of 13 rounds or more, as a router's is not.
// Rounds may be unlike there: three or four pairs of them are spread over the grid, each for its part.
#include "accesses.h"
#include "costs.h"
#include "clock.h"
#include "contended.h"
#include "counters.h"
#include "grid.h"
#include "l1.h"
#include "lane_patterns.h"
#include "launch_time.h"
#include "program/program.h"
#include <pthread.h>
#include <stdlib.h>

namespace {
constexpr u64 MOST_ENTRIES = 64ull << 20;                      // of traces at a time: 512 MiB
constexpr u32 MOST_OF_POLL = 2048, MOST_LINES_OF_POLL = 4096;  // instructions, line accesses

// What a wave has executed since it slept, which may be a poll.
struct Held {
  bool on, reads;
  u32 sleep_pc;
  u64 l1_reads, l1_hits;
  struct Executed {
    Step taken;
    u32 lines;
    InstructionCounters adds;
  };
  List<Executed> executed;
  List<LineAccess> lines;
};

constexpr bool same_l1() {
  for (const Card& card : CARDS)
    if (card.l1_sets != CARDS[0].l1_sets || card.l1_bytes != CARDS[0].l1_bytes) return false;
  return true;
}
static_assert(same_l1(), "the L1 is compiled in: all cards must have the same");

struct Source;
struct GroupCount {
  GroupCount* next;  // of all that this thread made
  u32 n_waves;
  Recorded timed;  // whether its steps are kept, and as which
  bool works;      // has asked for a line, recorded or not
  Steps* steps;    // of each wave
  u64 n_steps;     // of them all, also where they are not kept
  Held** held;     // of each wave, none before its first s_sleep
  Trace trace;
  L1 l1;
};

constexpr u64 SCRATCH_MEMORY = 1ull << 48;  // beyond a host's addresses

// Distinct lines of an access, each with the halves touched.
struct Lines {
  static constexpr u32 MOST = 2 * WAVE;  // that are kept
  u32 n, segments, l1_cycles;
  i32 behind[MOST];  // the first lane's
  u8 halves[MOST];
};

struct Counting : Observer {
  Source* source;
  const Cost* costs;
  const Facts** facts;
  InstructionCounters* counters;
  CounterTotals totals;
  GroupCount* all;
  Held* holding;  // of the wave whose instruction is counted, while that may be a poll
  const Card* card;
  ContendedLines atomics;
  LanePatterns<LdsCycles, 8> in_lds;
  LanePatterns<Lines, 7> in_memory;
  InstructionCounters unseen;  // where what is not looked at goes
  LaneAccess accesses[MAX_ACCESSES];
  u64 lines[4 * WAVE];  // of one access: line << 2 | halves
};

struct Source : ObserverSource {
  const Card* card;
  Caches* caches;
  SharedL1* l1s;  // of CUs
  Program* program;
  Cost* costs;
  const Facts** facts;  // [n_inst]
  InstructionCounters* counters;
  CounterTotals totals;
  pthread_mutex_t lock;
  u32 attached, next_batch;
  Grid grid;
  Trace* traces;    // of workgroups that ended, by number
  u32* ended;       // per batch
  Timing* timings;  // [n_inst]
  KeptGroups kept;
  u32 n_inst, n_waves, l1_ways;  // of a workgroup's part of the L1
  bool leaves_whole;
  double* stalls;  // [n_inst][N_REASONS], see replay_cu
  List<Span> spans;
  ContendedLines atomics;
  volatile u64 entries;  // alive in traces
  u32 sample;            // asked for
  bool light;            // only some workgroups have every instruction looked at
  PeerRanges peers;
};
}  // namespace

// --- lines -----------------------------------------------------------------------------------------

// Distinct lines of an access, each with the halves touched; returns how many and adds up the halves. l1_cycles: the L1
// takes as many lanes at a time as have 64 bytes, and a cycle for each half of a line that these ask for: lanes that are
// farther apart are not joined (ROCm Compute Profiler, vL1D: an instruction whose neighbours lie in different lines makes
// four times the requests).
static u32 lines_apart(Counting& c, const LaneAccess& a, u64* segments, u32* l1_cycles) {
  const u32 at_a_time = a.bytes <= 4 ? 16 : a.bytes <= 8 ? 8 : 4;
  u64 together[2 * 16];
  u32 n_together = 0, turn = ~0u;
  u64 key[256];
  u16 place[256];
  u64 occupied[4] = {};
  u32 n = 0;
  u64 last = ~0ull, *previous = nullptr;
  for (u64 m = a.lanes; m; m &= m - 1) {
    const u32 lane = (u32)__builtin_ctzll(m);
    u64 address = a.address[lane];
    if (lane / at_a_time != turn) turn = lane / at_a_time, n_together = 0;
    for (u64 s = address >> 6; s <= (address + a.bytes - 1) >> 6; s++) {
      u64 line = s >> 1;
      u32 known = n_together;
      while (known && together[known - 1] != s) known--;
      if (!known) together[n_together++] = s, ++*l1_cycles;
      if (line != last) {
        u32 h = (u32)(line * 0x9e3779b1u >> 7) & 255;
        while ((occupied[h >> 6] >> (h & 63) & 1) && key[h] != line) h = (h + 1) & 255;
        if (!(occupied[h >> 6] >> (h & 63) & 1)) {
          occupied[h >> 6] |= 1ull << (h & 63);
          key[h] = line;
          place[h] = n;
          c.lines[n++] = line << 2;
        }
        previous = &c.lines[place[h]];
        last = line;
      }
      *previous |= 1 << (s & 1);
    }
  }
  for (u32 i = 0; i < n; i++) *segments += __builtin_popcount(c.lines[i] & 3);
  return n;
}

static u32 distinct_lines(Counting& c, const LaneAccess& a, u64* segments, u32* l1_cycles) {
  if (!a.lanes) return 0;
  const u64 first = a.address[__builtin_ctzll(a.lanes)], first_line = first / LINE_BYTES;
  bool known = false;
  Lines* kept = c.in_memory.of(a.address, a.lanes, (u32)(first % LINE_BYTES) << 8 | a.bytes, known);
  if (known && kept->n) {
    for (u32 i = 0; i < kept->n; i++) c.lines[i] = (first_line + kept->behind[i]) << 2 | kept->halves[i];
    *segments += kept->segments;
    *l1_cycles += kept->l1_cycles;
    return kept->n;
  }
  const u64 segments_before = *segments;
  const u32 cycles_before = *l1_cycles, n = lines_apart(c, a, segments, l1_cycles);
  if (!kept) return n;
  *kept = {n <= Lines::MOST ? n : 0, (u32)(*segments - segments_before), *l1_cycles - cycles_before, {}, {}};
  for (u32 i = 0; i < kept->n; i++) {
    kept->behind[i] = (i32)((c.lines[i] >> 2) - first_line);
    kept->halves[i] = c.lines[i] & 3;
  }
  return n;
}

// Lanes that ask for different dwords of a line are served together, those that ask for the same one after the other:
// with each lane served on its own, AITER's split-K kernels on an MI355X would take 7.3 us where 5.3 are published.
static void count_atomics(Counting& c, const LaneAccess& a) {
  constexpr u32 PLACES = 2 * WAVE;
  u64 dword[PLACES], line[PLACES];
  u16 lanes[PLACES] = {}, most[PLACES] = {};
  auto place = [](const u64* keys, const u16* taken, u64 key) {
    u32 at = (u32)(key * 0x9e3779b97f4a7c15ull >> 57);
    while (taken[at] && keys[at] != key) at = (at + 1) % PLACES;
    return at;
  };
  for (u64 m = a.lanes; m; m &= m - 1) {
    u64 address = a.address[__builtin_ctzll(m)];
    u32 d = place(dword, lanes, address / 4), l = place(line, most, address / LINE_BYTES);
    dword[d] = address / 4;
    line[l] = address / LINE_BYTES;
    lanes[d]++;
    if (lanes[d] > most[l]) most[l] = lanes[d];
  }
  for (u32 i = 0; i < PLACES; i++)
    if (most[i]) c.atomics.add(line[i], most[i]);
}

static void record(Counting& c, GroupCount& g, LineAccess entry) {
  Held* held = c.holding;
  if (held && held->lines.count < MOST_LINES_OF_POLL) {
    held->lines.add() = entry;
    return;
  }
  Trace& t = g.trace;
  g.works = true;
  if (t.n == t.capacity) {
    u64 more = 1024 + t.capacity / 8;  // twice as much is room for half of a batch
    if (__atomic_add_fetch(&c.source->entries, more, __ATOMIC_RELAXED) > MOST_ENTRIES) {
      __atomic_sub_fetch(&c.source->entries, more, __ATOMIC_RELAXED);
      c.totals.unrecorded++;
      return;
    }
    t.capacity += more;
    t.entries = (LineAccess*)realloc(t.entries, t.capacity * sizeof *t.entries);
  }
  t.entries[t.n++] = entry;
}

// --- instructions ------------------------------------------------------------------------------------

static u32 lds_access(Counting& c, InstructionCounters& n, const LaneAccess& a) {
  if (!a.lanes) return 0;
  const bool writes = a.flags & WRITES, atomic = a.flags & ATOMIC;
  bool known = false;  // 16 bytes further, or a multiple of that, lanes meet in other banks alike
  const u32 kind = (u32)(a.address[__builtin_ctzll(a.lanes)] & 15) << 16 | a.bytes << 2 | writes << 1 | atomic;
  LdsCycles* kept = c.in_lds.of(a.address, a.lanes, kind, known);
  const LdsCycles l = known ? *kept : lds_cycles(a.address, a.lanes, a.bytes, writes, atomic, *c.card);
  if (kept) *kept = l;
  n.conflict_cycles += l.conflicts;
  n.bytes += (u64)__builtin_popcountll(a.lanes) * a.bytes;
  return l.cycles;
}

static u32 lds_instruction(Counting& c, Wave& w, const Inst& in, u32 pc, InstructionCounters& n) {
  u32 cycles = 0;
  u64 conflicts = n.conflict_cycles;
  if (c.facts[pc]->does != DOES_LANES) {
    u32 parts = observed_accesses(w, in, *c.facts[pc], c.accesses);
    for (u32 i = 0; i < parts; i++) cycles += lds_access(c, n, c.accesses[i]);
  } else {
    cycles = 2;  // permutes and swizzles: a dword a lane through the banks
  }
  n.cycles += cycles;
  return both(cycles, (u32)(n.conflict_cycles - conflicts));
}

constexpr u32 MANY_LINES = 16;
static bool in_one_set(const u64* lines, u32 n) {  // line << 2
  for (u32 i = 1; i < n; i++)
    if ((lines[i] >> 2) % L1::SETS != (lines[0] >> 2) % L1::SETS) return false;
  return true;
}

// The lines of an access: asked of the L1, and of the L2 where that has not got them.
static void touch_lines(Counting& c, GroupCount& g, const LaneAccess& a, const Inst& in, InstructionCounters& n,
                        u64* segments, u32* l1_cycles) {
  bool around_l1 = a.flags & (WRITES | ATOMIC) || in.flags & SC1;
  u32 lines = distinct_lines(c, a, segments, l1_cycles);
  for (u32 k = 0; k < lines; k++) {
    u64 line = c.lines[k] >> 2, halves = c.lines[k] & 3, where = around_l1 ? AROUND : 0;
    if (u64 peer = c.source->peers.n ? c.source->peers.peer_of(line * LINE_BYTES) : 0)
      where |= peer << PEER_BIT | halves;
    if (a.flags & READS) {
      (c.holding ? c.holding->l1_reads : c.totals.l1_reads)++;
      if (!around_l1 && g.l1.load(line, c.source->l1_ways)) {
        (c.holding ? c.holding->l1_hits : c.totals.l1_hits)++;
        continue;
      }
      record(c, g, line << 3 | where | (a.flags & ATOMIC ? ATOMIC_ACCESS : 0));
    }
    if (a.flags & WRITES) record(c, g, line << 3 | where | 4 | halves);
  }
  n.lines += lines;
  if (lines >= MANY_LINES && in_one_set(c.lines, lines)) n.same_set_lines += lines;
}

// Dword k of each lane of an access to scratch, where the memory behind it has it: interleaved by lanes, each wave's behind
// the one's before it, and a workgroup's where another one's was that has left the card.
static LaneAccess scratch_dword(const Source& s, const Wave& w, const LaneAccess& a, u32 k) {
  u64 wave = (u64)(w.wg->linear_id % s.grid.batch) * s.n_waves + w.id;
  u64 base = SCRATCH_MEMORY + wave * s.totals.scratch_bytes * WAVE;
  LaneAccess dword = a;
  dword.bytes = 4;
  for (u64 i = 0; i < WAVE; i++) dword.address[i] = base + (a.address[i] / 4 + k) * 4 * WAVE + 4 * i;
  return dword;
}

static u32 memory_instruction(Counting& c, GroupCount& g, Wave& w, const Inst& in, u32 pc, InstructionCounters& n) {
  const Facts& facts = *c.facts[pc];
  u32 l1_cycles = 0, ideal = 0;
  u32 parts = facts.space == NONE_SPACE ? 0 : observed_accesses(w, in, facts, c.accesses);
  for (u32 i = 0; i < parts; i++) {
    LaneAccess& a = c.accesses[i];
    if (a.space == LDS_SPACE) {
      if (&n == &c.unseen) continue;
      u64 before = n.bytes;
      lds_access(c, n, a);
      if (facts.is(FACT_TO_LDS)) n.bytes = before;  // the same bytes that memory sends
      continue;
    }
    u32 turns = 0;
    u64 segments = 0, bytes = (u64)__builtin_popcountll(a.lanes) * a.bytes, least = (bytes + 63) / 64;
    if (a.space == SCRATCH_SPACE) {
      for (u32 k = 0; k < (a.bytes + 3) / 4; k++)
        touch_lines(c, g, scratch_dword(*c.source, w, a, k), in, n, &segments, &turns);
    } else {
      if (a.flags & ATOMIC) count_atomics(c, a);
      touch_lines(c, g, a, in, n, &segments, &turns);
    }
    if (least > segments || a.space == SCRATCH_SPACE) least = segments;
    l1_cycles += turns > 4 ? turns : 4;
    ideal += least > 4 ? (u32)least : 4;
    n.segments += segments;
    n.bytes += bytes;
  }
  n.cycles += l1_cycles;
  return both(l1_cycles, ideal);
}

static u32 scalar_line(Counting& c, Wave& w, const Inst& in, u32 pc) {
  const Facts& facts = *c.facts[pc];
  if (facts.space == NONE_SPACE) return 0;
  observed_accesses(w, in, facts, c.accesses);
  return (u32)(c.accesses[0].address[0] >> 6);
}

// What the step of an instruction says beside which it is: see replay.h.
static u32 count_instruction(Counting& c, GroupCount& g, Wave& w, const Inst& in, u32 pc, InstructionCounters& n) {
  const Cost cost = c.costs[pc];
  n.lanes += __builtin_popcountll(w.exec());
  switch (cost.unit) {
    case MEMORY_UNIT: return memory_instruction(c, g, w, in, pc, n);
    case LDS_UNIT: return lds_instruction(c, w, in, pc, n);
    case SCALAR_MEMORY_UNIT: n.bytes += c.facts[pc]->bytes; return g.timed ? scalar_line(c, w, in, pc) : 0;
    case WAIT_UNIT: return (u32)in.offset & 0xffff;
    default: return 0;
  }
}

static u32 steps_of(const Counting& c, u32 pc) { return c.costs[pc].unit == MEMORY_UNIT ? 2 : 1; }

// lines: how many entries of the trace, from `first` on, are the instruction's.
static void add_step(const Counting& c, GroupCount& g, u32 wave, Step step, u64 first, u32 lines) {
  if (!g.timed) return;
  g.steps[wave].add() = step;
  if (c.costs[step.pc].unit == MEMORY_UNIT) g.steps[wave].add() = {(u32)first, lines};
}

static void add_up(InstructionCounters& to, const InstructionCounters& from) {
  to.lanes += from.lanes;
  to.cycles += from.cycles;
  to.conflict_cycles += from.conflict_cycles;
  to.bytes += from.bytes;
  to.segments += from.segments;
  to.lines += from.lines;
  to.same_set_lines += from.same_set_lines;
  to.polls += from.polls;
}

static void count_held(Counting& c, GroupCount& g, u32 wave, Held& held) {
  held.on = false;
  u64 first = g.trace.n;
  for (u64 i = 0; i < held.executed.count; i++) {
    const Held::Executed& one = held.executed[i];
    add_up(c.counters[one.taken.pc], one.adds);
    add_step(c, g, wave, one.taken, first, one.lines);
    g.n_steps += steps_of(c, one.taken.pc);
    first += one.lines;
  }
  for (u64 i = 0; i < held.lines.count; i++) record(c, g, held.lines[i]);
  c.totals.l1_reads += held.l1_reads;
  c.totals.l1_hits += held.l1_hits;
}

// The wave sleeps, which may end a poll and may begin one.
static void sleep_again(Counting& c, GroupCount& g, u32 wave, u32 pc) {
  Held*& held = g.held[wave];
  if (!held) held = (Held*)calloc(1, sizeof(Held));
  if (held->on && held->reads && held->sleep_pc == pc)
    for (u64 i = 0; i < held->executed.count; i++) c.counters[held->executed[i].taken.pc].polls++;
  else if (held->on) count_held(c, g, wave, *held);
  held->on = true;
  held->reads = false;
  held->sleep_pc = pc;
  held->executed.count = held->lines.count = 0;
  held->l1_reads = held->l1_hits = 0;
}

// Whether what follows it is no poll any more: it changes what others see, or is what the wave is there for.
static bool is_progress(const Counting& c, u32 pc) {
  const u32 unit = c.costs[pc].unit;
  return unit == MATRIX_UNIT || unit == BARRIER_UNIT || unit == END_UNIT ||
         ((unit == MEMORY_UNIT || unit == LDS_UNIT) && access_flags(*c.facts[pc]) & WRITES);
}

static void on_instruction(Observer* o, Wave& w, const Inst& in) {
  Counting& c = *(Counting*)o;
  GroupCount& g = *(GroupCount*)w.wg->observed;
  u32 pc = w.pc - 1;
  if (c.facts[pc]->does == DOES_SLEEP) sleep_again(c, g, w.id, pc);
  Held* held = g.held[w.id];
  if (held && held->on) {
    if (held->executed.count == MOST_OF_POLL || is_progress(c, pc)) count_held(c, g, w.id, *held);
  }
  if (held && held->on) {
    Held::Executed& one = held->executed.add();
    one = {{pc, 0}, 0, {}};
    u64 lines = held->lines.count;
    c.holding = held;
    one.taken.amount = count_instruction(c, g, w, in, pc, one.adds);
    c.holding = nullptr;
    one.lines = (u32)(held->lines.count - lines);
    held->reads |= c.costs[pc].unit == MEMORY_UNIT || c.costs[pc].unit == SCALAR_MEMORY_UNIT;
    return;
  }
  g.n_steps += steps_of(c, pc);
  if (!g.timed && g.n_steps > c.source->kept.long_from) g.timed = LATE;
  if (c.source->light && !g.timed) {
    if (c.costs[pc].unit == MEMORY_UNIT) memory_instruction(c, g, w, in, pc, c.unseen);
    return;
  }
  u64 first = g.trace.n;
  u32 amount = count_instruction(c, g, w, in, pc, c.source->light && g.timed != CHOSEN ? c.unseen : c.counters[pc]);
  add_step(c, g, w.id, {pc, amount}, first, (u32)(g.trace.n - first));
}

// --- workgroups --------------------------------------------------------------------------------------

static void on_group_started(Observer* o, Workgroup& group) {
  Counting& c = *(Counting*)o;
  GroupCount* g = (GroupCount*)group.observed;  // of a workgroup before it, in the same memory
  if (!g) {
    g = (GroupCount*)calloc(1, sizeof(GroupCount));
    g->next = c.all;
    c.all = g;
    g->steps = (Steps*)calloc(group.n_waves, sizeof(Steps));
    g->held = (Held**)calloc(group.n_waves, sizeof(Held*));
    g->n_waves = group.n_waves;
    group.observed = g;
  }
  for (u32 i = 0; i < g->n_waves; i++) {
    g->steps[i].count = 0;
    if (g->held[i]) g->held[i]->on = false;
  }
  g->n_steps = 0;
  g->timed = c.source->kept.records(c.source->grid.timed_number(group.linear_id));
  memset((void*)&g->l1, 0, sizeof g->l1);
  g->trace = {nullptr, 0, 0, group.linear_id};
  g->works = false;
}

static void on_barrier_released(Observer* o, Workgroup&) { ((Counting*)o)->totals.barriers++; }

// Now that the cache model has seen its trace: where the lines of each memory instruction were.
static void resolve(const Source& s, const KeptGroups::Kept& kept, const Trace& t, u32 n_waves) {
  for (u32 i = 0; i < n_waves; i++) {
    Steps& steps = kept.steps[i];
    for (u64 k = 0; k < steps.count; k++)
      if (s.costs[steps[k].pc].unit == MEMORY_UNIT) k++, resolve_lines(steps[k], t);
  }
}

static void free_trace(Source& s, Trace& t) {
  __atomic_sub_fetch(&s.entries, t.capacity, __ATOMIC_RELAXED);
  free(t.entries);
  t.entries = nullptr;
}

// Batches of workgroups that run at the same time go to the cache model in order, each when its last has
// ended.
static void hand_over(Source& s, GroupCount& g) {
  pthread_mutex_lock(&s.lock);
  const Trace& t = g.trace;
  if (g.timed && s.kept.keep(t.group, g.steps, s.grid.timed_number(t.group), g.works, g.n_steps, g.timed))
    g.steps = (Steps*)calloc(g.n_waves, sizeof(Steps));
  const u32 batch = s.grid.batch, number = s.grid.number_of(t.group), all = s.grid.n_in_batches;
  s.grid.ended(number, g.works, g.n_steps);
  s.traces[number] = t;
  s.ended[number / batch]++;
  while (s.next_batch < s.grid.n_batches) {
    u32 first = s.next_batch * batch, n = all - first < batch ? all - first : batch;
    if (s.ended[s.next_batch] < n) break;
    MemoryTraffic traffic = {};
    s.totals.l1_hits += replay(*s.caches, *s.card, s.traces + first, n, (u32)s.totals.groups_per_cu, s.l1s, traffic);
    s.grid.asked(s.next_batch, traffic, s.totals.traffic);
    for (u64 i = 0; i < s.kept.all.count; i++) {
      const KeptGroups::Kept& kept = s.kept.all[i];
      u32 place = s.grid.number_of(kept.group);
      if (place / batch == s.next_batch) resolve(s, kept, s.traces[place], s.n_waves);
    }
    for (u32 i = 0; i < n; i++) free_trace(s, s.traces[first + i]);
    s.next_batch++;
  }
  pthread_mutex_unlock(&s.lock);
}

static void on_group_ended(Observer* o, Workgroup& group) {
  Counting& c = *(Counting*)o;
  GroupCount& g = *(GroupCount*)group.observed;
  Source& s = *c.source;
  if (g.works) {
    c.totals.run++;
    if (g.timed == CHOSEN || !s.light) c.totals.observed++;
  }
  if (s.grid.is_probe(group.linear_id)) {
    s.grid.probe_ended(g.works, g.n_steps);
    free_trace(s, g.trace);
  } else {
    hand_over(s, g);
  }
  g.trace.entries = nullptr;
}

// --- launches ----------------------------------------------------------------------------------------

template <class Is> static bool has(const Program& p, const KernelInfo& k, Is is) {  // such an instruction
  u32 end = p.n_inst;
  for (u32 i = 0; i < p.n_kernels; i++)
    if (p.kernels[i].entry > k.entry && p.kernels[i].entry < end) end = p.kernels[i].entry;
  for (u32 i = k.entry; i < end; i++)
    if (is(i)) return true;
  return false;
}
static bool has_products(const Source& s, const Program& p, const KernelInfo& k) {
  return has(p, k, [&](u32 pc) { return s.costs[pc].unit == MATRIX_UNIT; });
}
// Whether atomics tell workgroups of others: they answer, and are not in the LDS.
static bool has_answers(const Source& s, const Program& p, const KernelInfo& k) {
  return has(p, k, [&](u32 pc) {
    return s.facts[pc]->does == DOES_ATOMIC && s.costs[pc].unit == MEMORY_UNIT && p.code[pc].dst[0].kind == VGPR;
  });
}

static void choose_sample(Source& s, const Program& p, const KernelInfo& k) {
  const bool spread = s.sample == SAMPLE_PRODUCTS;
  if (spread && (!s.grid.is_worth_spreading() || !has_products(s, p, k))) return;
  s.no_products = true;
  if (s.kept.all_come) return;
  s.light = true;
  for (u32 i = 0; i < p.n_inst; i++)
    if (s.facts[i]->does == DOES_SLEEP) s.light = false;  // polls are told apart by looking at every instruction
  s.grid.sample(spread);
  s.chosen = s.grid.groups;
  s.n_chosen = s.grid.n_groups;
}

// Of the grid as many workgroups as work; of a sample what they all ask of memory.
static void scale_to_grid(Source& s) {
  CounterTotals& t = s.totals;
  if (const u32 working = s.grid.working()) t.groups = working;
  else t.run = s.grid.groups ? s.n_chosen : s.grid.total, t.observed = s.light ? s.kept.all.count : t.run;
  u64 steps = 0;
  u32 observed = 0;
  for (u64 i = 0; i < s.kept.all.count; i++)
    if (s.kept.all[i].as == CHOSEN) steps += s.kept.all[i].n_steps, observed += s.kept.all[i].n_steps > 0;
  t.run_work = s.grid.work_of_run();
  t.observed_work = s.light ? s.grid.work_of(steps, observed) : t.run_work;
  s.grid.scale(t.traffic);
}

static void prepare(Source& s, Program* p, const KernelInfo& k, const Launch* l) {
  s.program = p;
  s.card = l->card;
  s.caches = caches_of(*l->card);
  s.costs = (Cost*)calloc(p->n_inst + 1, sizeof(Cost));
  s.facts = (const Facts**)calloc(p->n_inst + 1, sizeof(Facts*));
  s.stalls = (double*)calloc((u64)N_REASONS * (p->n_inst + 1), sizeof(double));
  s.timings = (Timing*)calloc(p->n_inst + 1, sizeof(Timing));
  s.counters = (InstructionCounters*)calloc(p->n_inst + 1, sizeof(InstructionCounters));
  for (u32 i = 0; i <= p->n_inst; i++) {
    s.costs[i] = instruction_cost(p->code[i], p->arch_number);
    s.facts[i] = &op_facts(p->code[i].op);
    s.timings[i] = timing_of(p->code[i], p->arch_number);
    s.counters[i].unit = s.costs[i].unit;
    s.counters[i].unit_cycles = s.costs[i].cycles;
    s.totals.sleeps += s.facts[i]->does == DOES_SLEEP;
  }
  s.peers = peers_of_launch(l->device_number);
  s.n_inst = p->n_inst;
  s.n_waves = s.kept.n_waves = waves_per_group(*l);
  s.leaves_whole = s.n_waves > 1;
  const u32 total = l->groups[0] * l->groups[1] * l->groups[2];
  s.totals.groups = total;
  u32 per_cu = resident_groups(k, *l), share = (total + l->card->compute_units - 1) / l->card->compute_units;
  s.totals.vgprs = k.vgprs;
  s.totals.sgprs = k.sgprs;
  s.totals.scratch_bytes = cdna_scratch_of(k);
  s.totals.groups_per_cu = per_cu;
  s.totals.groups_on_cu = !share ? 1 : share < per_cu ? share : per_cu;
  s.l1_ways = L1::part_of((u32)s.totals.groups_on_cu);
  s.grid.whole(total, per_cu * l->card->compute_units);
  s.grid.by_work = !s.totals.sleeps;
  s.kept.all_come = has_answers(s, *p, k);
  s.in_order = s.kept.all_come && total <= s.grid.batch;  // as long as its slowest workgroup: who is last, tells
  if (s.sample && !l->cooperative) choose_sample(s, *p, k);
  s.kept.spread_over(s.grid.n_timed(), !s.kept.all_come && s.grid.by_work);
  s.traces = (Trace*)calloc(s.grid.n_in_batches, sizeof(Trace));
  s.ended = (u32*)calloc(s.grid.n_batches, sizeof(u32));
}

static Observer* attach(ObserverSource* source, Program* p, const KernelInfo* k, Launch* l) {
  Source& s = *(Source*)source;
  if (!s.costs) prepare(s, p, *k, l);
  s.attached++;
  Counting* c = (Counting*)calloc(1, sizeof(Counting));
  c->instruction = on_instruction;
  c->group_started = on_group_started;
  c->barrier_released = on_barrier_released;
  c->group_ended = on_group_ended;
  c->source = &s;
  c->costs = s.costs;
  c->facts = s.facts;
  c->counters = (InstructionCounters*)calloc(p->n_inst + 1, sizeof(InstructionCounters));
  c->card = s.card;
  return c;
}

// What the grid has to do for what those replayed have: of several rounds that a CU runs, time goes with it. Of a sample
// they are replayed as often as others are like them.
static double work(const Source& s, const RecordedGroup* groups) {
  u64 replayed = 0;
  for (u32 i = 0; i < s.kept.n_replayed * s.n_waves; i++) replayed += groups[i / s.n_waves].waves[i % s.n_waves].count;
  if (s.grid.groups) return s.grid.work_of(replayed, s.kept.n_replayed);
  if (!s.grid.all_steps || s.totals.groups <= s.grid.batch || !replayed) return 1;
  return ((double)s.grid.all_steps / (double)s.totals.groups) / ((double)replayed / s.kept.n_replayed);
}

static RecordedLaunch recorded(const Source& s, RecordedGroup* groups) {
  const KeptGroups& kept = s.kept;
  for (u32 i = 0; i < kept.n_replayed; i++) groups[i] = {kept.all[kept.replayed[i]].steps};
  const u32 in_all = (u32)s.totals.groups, cu = (u32)s.totals.groups_per_cu, n = kept.n_replayed;
  return {groups, s.timings, n, s.n_waves, in_all, cu, s.leaves_whole, kept.longest_at, work(s, groups)};
}

static void take_time(Source& s) {
  RecordedGroup groups[MOST_REPLAYED];
  RecordedLaunch l = recorded(s, groups);
  for (u32 warm = 0; warm < 2; warm++)
    s.totals.time[warm] =
        launch_time(*s.card, l, s.totals.traffic, warm, {nullptr, warm ? nullptr : s.stalls, nullptr, nullptr});
  s.totals.longest = s.kept.longest_of(s.grid.all_steps / s.totals.groups);
}

static void detach(ObserverSource* source, Observer* o) {
  Source& s = *(Source*)source;
  Counting* c = (Counting*)o;
  for (u32 i = 0; i < s.n_inst; i++) add_up(s.counters[i], c->counters[i]);
  CounterTotals &to = s.totals, &from = c->totals;
  to.run += from.run;
  to.observed += from.observed;
  to.barriers += from.barriers;
  to.l1_reads += from.l1_reads;
  to.l1_hits += from.l1_hits;
  to.unrecorded += from.unrecorded;
  s.atomics.add(c->atomics);
  free(c->atomics.places);
  for (GroupCount* g = c->all; g;) {
    GroupCount* next = g->next;
    free(g->trace.entries);  // of a workgroup that did not end
    for (u32 i = 0; i < g->n_waves; i++) {
      g->steps[i].release();
      if (g->held[i]) g->held[i]->executed.release(), g->held[i]->lines.release();
      free(g->held[i]);
    }
    free(g->steps);
    free(g->held);
    free(g);
    g = next;
  }
  free(c->counters);
  free(c);
  if (--s.attached) return;
  scale_to_grid(s);
  write_back(*s.caches, s.totals.traffic);
  s.grid.scale_write_back(*s.card, s.totals.traffic);
  s.totals.atomics_on_line = s.atomics.most() * s.totals.groups / (s.totals.run ? s.totals.run : 1);
  s.grid.choose(s.kept, (u32)s.totals.groups);
  take_time(s);
}

extern "C" {

ObserverSource* cdna_counters_create(u32 sample) {
  Source* s = (Source*)calloc(1, sizeof(Source));
  s->sample = sample;
  s->attach = attach;
  s->detach = detach;
  pthread_mutex_init(&s->lock, nullptr);
  return s;
}
const CounterTotals* cdna_counters_totals(ObserverSource* source) { return &((Source*)source)->totals; }
const double* cdna_counters_stalls(ObserverSource* source) { return ((Source*)source)->stalls; }
const InstructionCounters* cdna_counters_instructions(ObserverSource* source) { return ((Source*)source)->counters; }
u64 cdna_replay_bytes(ObserverSource* source) {
  const Source& s = *(Source*)source;
  u64 bytes = 0;
  for (u64 i = 0; i < s.kept.all.count * s.n_waves; i++)
    bytes += s.kept.all[i / s.n_waves].steps[i % s.n_waves].capacity;
  return bytes * sizeof(Step) + (u64)s.n_inst * N_REASONS * sizeof(double) + (u64)s.grid.total * sizeof(Trace);
}
void cdna_replay_forget(ObserverSource* source) { ((Source*)source)->kept.forget(); }
bool cdna_replay_without(ObserverSource* source, bool warm, const u16* left_out, Left* left) {
  const Source& s = *(Source*)source;
  RecordedGroup groups[MOST_REPLAYED];
  if (!s.kept.n_replayed) return false;
  const RecordedLaunch l = recorded(s, groups);
  *left = launch_time_without(*s.card, l, s.totals.traffic, warm, left_out);
  return true;
}
const Span* cdna_replay_timeline(ObserverSource* source, bool warm, const u32* line_of, u64* n) {
  Source& s = *(Source*)source;
  RecordedGroup groups[MOST_REPLAYED];
  s.spans.count = 0;
  if (s.kept.n_replayed)
    launch_timeline(*s.card, recorded(s, groups), s.totals.traffic, warm, s.totals.time[warm].mhz,
                    {nullptr, nullptr, line_of, &s.spans});
  *n = s.spans.count;
  return s.spans.items;
}
void cdna_counters_destroy(ObserverSource* source) {
  Source* s = (Source*)source;
  for (u32 i = 0; s->traces && i < s->grid.n_in_batches; i++) free(s->traces[i].entries);
  free(s->traces), free(s->l1s);
  free(s->ended);
  s->kept.forget();
  free(s->stalls);
  s->spans.release();
  free(s->atomics.places);
  free(s->timings);
  s->grid.forget();
  free(s->peers.at);
  free(s->costs);
  free(s->facts);
  free(s->counters);
  pthread_mutex_destroy(&s->lock);
  free(s);
}
}
