// Barriers that not all waves of a workgroup reach, or that they reach at different places.
#include "happens_before.h"
#include "program/flow.h"

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
    const auto is_last = [&](u32 pc) { return pc == x.last_access && pc != barrier; };
    if (!flow_reaches(*c.checks->program, barrier, is_last)) continue;
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
