// Deadlock: every live wave of every host thread waits at a barrier, or comes back to the same place with the same
// registers while nothing in memory changes, in this launch and in the others under way. Waiting for another process is no
// deadlock, nor is waiting for a thread of the program's that may still do something. A wave that comes to no access for
// very long goes round without an end, too.
#include "program/flow.h"
#include "live_launches.h"
#include "isa/lock.h"
#include <stdlib.h>
#include <time.h>

extern "C" bool cdna_shared_with_processes(u64 address) {
  FILE* maps = fopen("/proc/self/maps", "r");
  if (!maps) return true;
  char line[512];
  bool shared = false;
  while (fgets(line, sizeof line, maps)) {
    unsigned long long from, to;
    char flags[8];
    if (sscanf(line, "%llx-%llx %7s", &from, &to, flags) == 3 && address >= from && address < to) {
      shared = flags[3] == 's';
      break;
    }
  }
  fclose(maps);
  return shared;
}

static AddressTest may_be_written = cdna_shared_with_processes;
extern "C" void cdna_set_may_be_written(AddressTest f) { may_be_written = f; }

// The launches under way, of all threads.
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static Checks* live_launches;
static volatile u64 launches_begun_and_ended;

void check_launch_begins(Checks* c) {
  c->rests_at = c->suspected_at = 0;
  const Lock locked(live_lock);
  c->next_live = live_launches;
  live_launches = c;
  launches_begun_and_ended++;
}

void check_launch_ends(Checks* c) {
  const Lock locked(live_lock);
  for (Checks** at = &live_launches; *at; at = &(*at)->next_live)
    if (*at == c) {
      *at = c->next_live;
      break;
    }
  launches_begun_and_ended++;
}

static bool all_launches_rest() {
  bool all = true;
  const Lock locked(live_lock);
  for (Checks* c = live_launches; c; c = c->next_live) all = all && c->rests_at == c->progress + 1;
  return all;
}

// Every wave has to go round in its circle once more, from now on: what a thread or another launch wrote as its last act
// may not have been read yet.
static void suspect_all_launches() {
  const Lock locked(live_lock);
  for (Checks* c = live_launches; c; c = c->next_live)
    c->suspected_at = __atomic_add_fetch(&c->progress, 1, __ATOMIC_SEQ_CST) + 1;
}

// Whether control flow can lead from an instruction to the end of the kernel.
static bool can_end(const Program& p, u32 from) {
  return flow_reaches(p, from, [&](u32 pc) {
    const Facts& f = op_facts(p.code[pc].op);
    return f.unit == END_UNIT || (f.does == DOES_JUMP && !branches_to_label(p.code[pc]));
  });
}

// Instructions without an access: where there is no way out, and where there is one.
constexpr u64 LONG_WITHOUT_EXIT = 1 << 20, LONG_WITH_EXIT = 1ull << 28;

bool check_endless(Wave& w) {
  WaveCheck& x = check_of(w);
  const Program& p = *w.wg->check->checks->program;
  if (x.quiet < LONG_WITHOUT_EXIT || (x.quiet < LONG_WITH_EXIT && x.quiet > 2 * LONG_WITHOUT_EXIT)) return true;
  bool way_out = can_end(p, w.pc);
  if (way_out && x.quiet < LONG_WITH_EXIT) return true;
  x.pc = w.pc;
  char text[900];
  describe_waits(*live_launch(w.wg->launch), text, sizeof text, "; ");
  report(w, CHECK_DEADLOCK, -1, 0, nullptr, ~0u,
         "an endless loop: %llu instructions without an access to memory or a barrier%s%s", (unsigned long long)x.quiet,
         way_out ? "" : ", and no way out", text);
  fault(w, "endless loop");
  return false;
}

static double now_seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

// How long nothing may have changed: host threads could still write what waves poll.
constexpr double PATIENCE_SECONDS = 1.0;

void check_thread_done(Checks* c) { __atomic_sub_fetch(&c->n_threads, 1, __ATOMIC_RELAXED); }

// Of a workgroup with a wave at a barrier, where nothing has changed since waves have passed another: whether they have come
// to rest. Once none has been passed for a while, those that run have to go round in their circles once more.
static bool rests_at_barrier(GroupCheck& g, u32 n_waves) {
  if (g.still_epoch != g.epoch) {
    g.still_epoch = g.epoch;
    g.still_since = now_seconds();
  }
  if (now_seconds() - g.still_since < PATIENCE_SECONDS) return false;
  for (u32 k = 0; k < n_waves; k++) g.waves[k].stalled_at = ~0ull;
  g.moved_at = ~0ull;
  return false;
}

bool check_stalled(Checks* c, Workgroup** live, u32 n_live, Wave** culprit) {
  struct Moment {
    Checks* launch;
    u64 progress, launches;
  };
  static thread_local Moment seen;
  static thread_local double since;
  u64 at = c->progress;
  *culprit = nullptr;
  for (u32 i = 0; i < n_live; i++)
    for (u32 k = 0; k < live[i]->n_waves; k++) {
      Wave& w = live[i]->waves[k];
      const WaveCheck& x = live[i]->check->waves[k];
      if (w.stop == ENDED) continue;
      // A wave at a barrier that nobody has passed lately stays there.
      if (w.stop == AT_BARRIER && live[i]->check->moved_at != at) continue;
      if (w.stop == AT_BARRIER && !x.spins) return rests_at_barrier(*live[i]->check, live[i]->n_waves);
      if (!x.spins || x.stalled_at != at) return false;
      if (!*culprit || (x.polled && !(*culprit)->wg->check->waves[(*culprit)->id].polled)) *culprit = &w;
    }
  if (!*culprit) return false;
  Moment now = {c, at, launches_begun_and_ended};
  if (memcmp(&seen, &now, sizeof now)) {
    seen = now;
    since = now_seconds();
  }
  if (now_seconds() - since < PATIENCE_SECONDS) return false;
  // The other threads must have come to the same end.
  pthread_mutex_lock(&c->lock);
  if (c->stuck_at != at + 1) {
    c->stuck_at = at + 1;
    c->n_stuck = 0;
  }
  bool first_time = true;
  for (u32 i = 0; i < c->n_stuck && i < 64; i++)
    if (c->stuck[i] == pthread_self()) first_time = false;
  if (first_time && c->n_stuck < 64) c->stuck[c->n_stuck++] = pthread_self();
  bool all = c->n_stuck >= c->n_threads;
  pthread_mutex_unlock(&c->lock);
  if (!all) return false;
  c->rests_at = at + 1;
  if (!all_launches_rest()) return false;
  for (u32 i = 0; i < n_live; i++)
    for (u32 k = 0; k < live[i]->n_waves; k++)
      if (live[i]->waves[k].stop != ENDED && live[i]->waves[k].stop != AT_BARRIER &&
          may_be_written(live[i]->check->waves[k].polled))
        return false;
  if (c->suspected_at != at + 1) {
    suspect_all_launches();
    return false;
  }
  char text[sizeof Finding::message];
  Wave& w = **culprit;
  describe_waits(*live_launch(w.wg->launch), text, sizeof text, "; ");
  WaveCheck& x = w.wg->check->waves[w.id];
  bool polls = w.stop != AT_BARRIER && x.polled;
  x.pc = polls ? x.polled_pc : w.stop == AT_BARRIER ? w.pc - 1 : x.pc;
  report(w, CHECK_DEADLOCK, -1, polls ? x.polled : 0, nullptr, ~0u, "nothing can make progress any more%s", text);
  fault(w, "deadlock: nothing can make progress any more%s", text);
  return true;
}
