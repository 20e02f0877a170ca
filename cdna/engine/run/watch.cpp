#include "watch.h"
#include "checks/check.h"
#include "isa/host.h"
#include <stdlib.h>

static WatchBegins begins;
static WatchComes comes;
static WatchEnds ends;

static u32 watches_of(const WatchedLaunch& l, const Wave& w, u32 marked) {
  u32 wanted = 0;
  for (; marked; marked &= marked - 1) {
    u32 i = __builtin_ctz(marked);
    bool group = l.group_of[i] == ANY_ONE || l.group_of[i] == w.wg->linear_id;
    if (group && (l.wave_of[i] == ANY_ONE || l.wave_of[i] == w.id)) wanted |= 1u << i;
  }
  return wanted;
}

static void on_instruction(Observer* observer, Wave& w, const Inst& in) {
  Watch& watch = *(Watch*)observer;
  const WatchedLaunch& l = watch.launch;
  const u32 pc = w.pc - 1, previous = w.watched ? w.watched - 1 : NO_PC;
  const u32 now = l.marks[pc] ? watches_of(l, w, l.marks[pc]) : 0;
  const u32 before = w.watched ? watches_of(l, w, l.marks[previous]) : 0;
  w.watched = now ? pc + 1 : 0;
  if ((now | before) && comes) {
    const Workgroup& g = *w.wg;
    WatchedWave state = {&l, w.s, w.v, g.lds, w.exec(), pc, now, previous, before};
    memcpy(state.group, g.id, sizeof state.group);
    state.linear_id = g.linear_id, state.lds_bytes = g.lds_bytes;
    state.wave = w.id, state.n_vgpr = w.n_vgpr, state.scc = w.scc, state.mode = w.mode;
    const u32 mode = float_mode();  // Python computes with its own rounding
    set_float_mode(USUAL_FLOAT_MODE);
    const bool goes_on = comes(&state);
    set_float_mode(mode);
    if (!goes_on) fault(w, "stopped by who watches it");
  }
  if (watch.inner) watch.inner->instruction(watch.inner, w, in);
}
static void on_group_started(Observer* o, Workgroup& g) {
  if (Observer* inner = ((Watch*)o)->inner) inner->group_started(inner, g);
}
static void on_barrier_released(Observer* o, Workgroup& g) {
  if (Observer* inner = ((Watch*)o)->inner) inner->barrier_released(inner, g);
}
static void on_group_ended(Observer* o, Workgroup& g) {
  if (Observer* inner = ((Watch*)o)->inner) inner->group_ended(inner, g);
}

Watch* watch_begins(Program* p, const KernelInfo& k, const Launch& l) {
  if (!begins) return nullptr;
  Watch* w = (Watch*)calloc(1, sizeof(Watch));
  w->instruction = on_instruction;
  w->group_started = on_group_started;
  w->barrier_released = on_barrier_released;
  w->group_ended = on_group_ended;
  WatchedLaunch& to = w->launch;
  to.program = p;
  to.kernel = k.name;
  to.arch = p->arch;
  to.where = p->where;
  to.kernarg = l.kernarg;
  to.arguments = k.arguments;
  to.n_arguments = k.n_arguments;
  to.kernarg_bytes = l.kernarg_bytes;
  to.n_inst = p->n_inst;
  to.entry = k.entry;
  to.first_accumulation = p->first_accumulation;
  memcpy(to.groups, l.groups, sizeof to.groups);
  to.marks = (u32*)calloc(p->n_inst + 1, sizeof(u32));
  for (u32 i = 0; i < MAX_WATCHES; i++) to.group_of[i] = to.wave_of[i] = ANY_ONE;
  w->ends = ends;
  begins(&to);
  return w;
}

Observer* watch_around(Watch* w, Observer* inner) {
  if (!w) return inner;
  w->inner = inner;
  return w;
}

void watch_ends(Watch* w) {
  if (!w) return;
  if (w->ends) w->ends(&w->launch);
  free(w->launch.marks);
  free(w);
}

extern "C" {
void cdna_watch(WatchBegins new_begins, WatchComes new_comes, WatchEnds new_ends) {
  begins = new_begins;
  comes = new_comes;
  ends = new_ends;
}

u32 cdna_written(Program* p, u32 pc, Touch* registers) {
  if (!p->accesses) p->accesses = check_table(*p);
  const Access& x = p->accesses[pc];
  u32 n = 0;
  for (const Touch& t : x)
    if (t.flags & WRITES) registers[n++] = t;
  return n;
}
}
