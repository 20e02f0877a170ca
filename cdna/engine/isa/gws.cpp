// Global wave sync: 64 counters of the process on which waves of any workgroup wait, as barriers or semaphores
// (CDNA3 ISA, "DS_GWS_INIT" and its kin). A wave that waits executes its instruction again when it has its turn.
#include "core.h"
#include <pthread.h>

struct Resource {
  i32 counter;
  u32 passed, queued;
};  // passed: barriers so far; queued: waves at a semaphore
static Resource resources[64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static Resource& resource_of(const Wave& w, const Inst& in) {
  return resources[((w.s[M0] >> 16) + (u32)in.offset) & 63];
}
static i32 first_lane(Wave& w, const Inst& in) {
  return (i32)w.vreg(in.src[0].reg)[w.exec() ? __builtin_ctzll(w.exec()) : 0];
}
static void changed(Wave& w) {
  if (w.wg->progress) __atomic_fetch_add(w.wg->progress, 1, __ATOMIC_RELAXED);
}
static void wait(Wave& w, u32 ticket) {
  w.gws_ticket = ticket;
  w.pc--;
  w.executed[w.pc]--;  // counted once
  w.stop = YIELDED;
}

struct Locked {
  Locked() { pthread_mutex_lock(&lock); }
  ~Locked() { pthread_mutex_unlock(&lock); }
};

static void init(Wave& w, const Inst& in) {
  Locked held;
  resource_of(w, in) = {first_lane(w, in), 0, 0};
  changed(w);
}
// The data are the number of waves, less one, of the next barrier; the counter holds this one's.
static void gws_barrier(Wave& w, const Inst& in) {
  Locked held;
  Resource& r = resource_of(w, in);
  if (w.gws_ticket) {
    if (r.passed + 1 == w.gws_ticket) wait(w, w.gws_ticket);
    else w.gws_ticket = 0;
    return;
  }
  changed(w);
  if (r.counter > 0) {
    r.counter--;
    wait(w, r.passed + 1);
  } else {
    r.counter = first_lane(w, in);
    r.passed++;
  }
}
static void semaphore_p(Wave& w, const Inst& in) {
  Locked held;
  Resource& r = resource_of(w, in);
  if (r.counter <= 0) {
    if (!w.gws_ticket) r.queued++;
    wait(w, 1);
    return;
  }
  if (w.gws_ticket) r.queued--;
  w.gws_ticket = 0;
  r.counter--;
  changed(w);
}
enum Release { ONE, GIVEN, ALL };
template <Release N> static void semaphore_v(Wave& w, const Inst& in) {
  Locked held;
  Resource& r = resource_of(w, in);
  r.counter = N == ONE ? r.counter + 1 : N == GIVEN ? r.counter + first_lane(w, in) : (i32)r.queued;
  changed(w);
}

// clang-format off
static const OpInfo OPS[] = {
  {"ds_gws_init", init}, {"ds_gws_barrier", gws_barrier}, {"ds_gws_sema_v", semaphore_v<ONE>},
  {"ds_gws_sema_br", semaphore_v<GIVEN>}, {"ds_gws_sema_p", semaphore_p}, {"ds_gws_sema_release_all", semaphore_v<ALL>},
};
// clang-format on
extern const OpTable GWS_OPS = {OPS, sizeof OPS / sizeof *OPS};
