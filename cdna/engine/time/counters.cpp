// Counters of a launch: what each instruction cost, what memory traffic it made, and how long its workgroups
// would take alone on a CU. An observer (observer.h) for each host thread, added up when the launch ends.
//
// Time. Of some workgroups, spread over the grid, every step is kept until the launch ends and it is known where the cache
// model found each line; launch_time.h replays them.
// Polls are left out (poll.cpp); of a large grid a sample runs (sample.cpp).
#include "device_clock.h"
#include "counting.h"
#include "launch_time.h"
#include "isa/lock.h"
#include <stdlib.h>

u32 count_lds_access(Counting& c, InstructionCounters& n, const LaneAccess& a) {
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
    for (u32 i = 0; i < parts; i++) cycles += count_lds_access(c, n, c.accesses[i]);
  } else {
    cycles = 2;  // permutes and swizzles: a dword a lane through the banks
  }
  n.cycles += cycles;
  return both(cycles, (u32)(n.conflict_cycles - conflicts));
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
    case MEMORY_UNIT: return count_memory(c, g, w, in, pc, n);
    case LDS_UNIT: return lds_instruction(c, w, in, pc, n);
    case SCALAR_MEMORY_UNIT: n.bytes += c.facts[pc]->bytes; return g.timed ? scalar_line(c, w, in, pc) : 0;
    case WAIT_UNIT: return (u32)in.offset & 0xffff;
    default: return 0;
  }
}

void add_up(InstructionCounters& to, const InstructionCounters& from) {
  to.lanes += from.lanes;
  to.cycles += from.cycles;
  to.conflict_cycles += from.conflict_cycles;
  to.bytes += from.bytes;
  to.segments += from.segments;
  to.lines += from.lines;
  to.same_set_lines += from.same_set_lines;
  to.polls += from.polls;
}

static void on_instruction(Observer* o, Wave& w, const Inst& in) {
  Counting& c = *(Counting*)o;
  GroupCount& g = *(GroupCount*)w.wg->observed;
  u32 pc = w.pc - 1;
  if (c.facts[pc]->does == DOES_SLEEP) sleep_again(c, g, w.id, pc);
  if (Held* held = g.held[w.id]; held && held->on && may_poll(c, g, w.id, pc)) {
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
    if (c.costs[pc].unit == MEMORY_UNIT) count_memory(c, g, w, in, pc, c.unseen);
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
  const Lock locked(s.lock);
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
bool cdna_replay_with(ObserverSource* source, bool warm, const Change* change, Left* left) {
  const Source& s = *(Source*)source;
  RecordedGroup groups[MOST_REPLAYED];
  if (!s.kept.n_replayed) return false;
  const RecordedLaunch l = recorded(s, groups);
  *left = launch_time_with(*s.card, l, s.totals.traffic, warm, *change);
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
