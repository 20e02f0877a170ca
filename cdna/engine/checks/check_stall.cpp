// Deadlock: every live wave of every host thread waits at a barrier, or comes back to the same place with the same
// registers while nothing in memory changes, in this launch and in the others under way. Waiting for another process is no
// deadlock, nor is waiting for a thread of the program's that may still do something.
#include "check.h"
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

// Who but the launches under way may write what a wave polls. A HIP runtime knows more: what it has lent to other
// processes, and whether the program's threads all wait for it.
static bool (*may_be_written)(u64 address) = cdna_shared_with_processes;
extern "C" void cdna_set_may_be_written(bool (*f)(u64 address)) { may_be_written = f; }

// The launches under way, of all threads.
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static Checks* live_launches;
static volatile u64 launches_begun_and_ended;

void check_launch_begins(Checks* c) {
  c->rests_at = c->suspected_at = 0;
  pthread_mutex_lock(&live_lock);
  c->next_live = live_launches;
  live_launches = c;
  launches_begun_and_ended++;
  pthread_mutex_unlock(&live_lock);
}

void check_launch_ends(Checks* c) {
  pthread_mutex_lock(&live_lock);
  for (Checks** at = &live_launches; *at; at = &(*at)->next_live)
    if (*at == c) {
      *at = c->next_live;
      break;
    }
  launches_begun_and_ended++;
  pthread_mutex_unlock(&live_lock);
}

static bool all_launches_rest() {
  bool all = true;
  pthread_mutex_lock(&live_lock);
  for (Checks* c = live_launches; c; c = c->next_live) all = all && c->rests_at == c->progress + 1;
  pthread_mutex_unlock(&live_lock);
  return all;
}

// Every wave has to go round in its circle once more, from now on: what a thread or another launch wrote as its last act
// may not have been read yet.
static void suspect_all_launches() {
  pthread_mutex_lock(&live_lock);
  for (Checks* c = live_launches; c; c = c->next_live)
    c->suspected_at = __atomic_add_fetch(&c->progress, 1, __ATOMIC_SEQ_CST) + 1;
  pthread_mutex_unlock(&live_lock);
}

static double now_seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

// How long nothing may have changed: host threads could still write what waves poll.
constexpr double PATIENCE_SECONDS = 1.0;

static void who_waits(const Checks& c, Workgroup** live, u32 n_live, char* text, u32 size) {
  u32 used = 0, told = 0, waves = 0;
  text[0] = 0;
  for (u32 i = 0; i < n_live; i++) {
    const Workgroup& g = *live[i];
    for (u32 k = 0; k < g.n_waves; k++) {
      const Wave& w = g.waves[k];
      if (w.stop == ENDED) continue;
      waves++;
      if (told == 3 || used + 1 >= size) continue;
      told++;
      const WaveCheck& x = g.check->waves[k];
      int n;
      if (w.stop == AT_BARRIER) {
        n = snprintf(text + used, size - used, "; workgroup %u wave %u is at %s", g.linear_id, k,
                     c.program->where[w.pc - 1]);
      } else {
        char where[100] = "";
        const Range* r = nullptr;
        for (u32 q = 0; q < c.n_ranges; q++)
          if (x.polled >= c.ranges[q].base && x.polled < c.ranges[q].end) r = &c.ranges[q];
        if (r) snprintf(where, sizeof where, ", byte %llu of %s", (unsigned long long)(x.polled - r->base), r->name);
        n = snprintf(text + used, size - used, "; workgroup %u wave %u polls 0x%llx%s", g.linear_id, k,
                     (unsigned long long)x.polled, where);
      }
      used += n < 0 ? 0 : (u32)n;
    }
  }
  if (waves > told && used + 1 < size) snprintf(text + used, size - used, "; and %u more", waves - told);
}

void check_thread_done(Checks* c) { __atomic_sub_fetch(&c->n_threads, 1, __ATOMIC_RELAXED); }

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
      if (!x.spins || x.stalled_at != at) return false;
      *culprit = &w;
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
  char text[300];
  who_waits(*c, live, n_live, text, sizeof text);
  Wave& w = **culprit;
  WaveCheck& x = w.wg->check->waves[w.id];
  u32 pc = x.pc;
  x.pc = x.polled ? x.polled_pc : pc;
  report(w, CHECK_DEADLOCK, -1, x.polled, nullptr, ~0u, "nothing can make progress any more%s", text);
  fault(w, "deadlock: nothing can make progress any more%s", text);
  return true;
}
