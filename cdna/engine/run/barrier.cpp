// s_barrier: who waits for whom.
#include "thread.h"
#include "checks/check.h"

// Waves that have ended no longer count for a barrier, as on hardware.
bool release_barrier(Thread& t, Workgroup& g) {
  if (!g.n_at_barrier || g.n_at_barrier + g.n_ended != g.n_waves) return false;
  u64 last = 0;
  for (u32 k = 0; k < g.n_waves; k++)
    if (g.waves[k].stop == AT_BARRIER && g.waves[k].clock > last) last = g.waves[k].clock;
  for (u32 k = 0; k < g.n_waves; k++) {
    Wave& w = g.waves[k];
    if (w.stop != AT_BARRIER) continue;
    w.stop = RUNNING;
    w.released = 1;
    w.clock = last;
  }
  g.n_at_barrier = 0;
  if (t.observer) t.observer->barrier_released(t.observer, g);
  if (g.check) check_barrier(g);
  return true;
}
