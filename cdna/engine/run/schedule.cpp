// Which workgroup a thread runs, and for how long: a thread keeps a set of live ones. It runs one until every wave of it has
// ended; where all of a workgroup's waves wait (s_sleep, or a long stretch without an end in sight) it sets the workgroup
// aside and starts or resumes another, so that waves which wait for other workgroups make progress. Where all of them wait,
// it leaves its core to others: what they wait for may come from another process (device_clock.cpp).
#include "checks/preempt.h"
#include "checks/stores_in_flight.h"
#include "isa/host.h"
#include "thread.h"
#include <stdlib.h>

// The first turn of a wave behind a barrier. Waves leave one together: what all of them read at once behind it, AITER's int8
// products overwrite a few instructions later with no barrier in between, and on a card the reads are first.
constexpr u32 QUANTUM_BEHIND_BARRIER = 8;
// Turns where loads go straight to the LDS. Here they land at once, on a card hundreds of cycles later, and kernels issue
// one over what the other waves are about to read: short turns let them.
constexpr u32 QUANTUM_TO_LDS = 16;
// Turns of a wave that goes round in a circle: it polls, and of many workgroups that wait for each other in a row most would
// spin for all of theirs.
constexpr u32 QUANTUM_IN_A_CIRCLE = 512, TURNS_FOR_A_CIRCLE = 8;
constexpr u32 MOST_INSTRUCTIONS = 64 * QUANTUM;  // of a wave before its thread looks at another workgroup

namespace {
constexpr u32 NO_TURN = ~0u;
// Of a thread.
struct Groups {
  Workgroup **live, **spare;
  u32 n_live, n_spare, turn;
  u32 since_ended, since_worked;  // run since one ended, and since one did more than poll
  u32 resume;                     // whose turn it is behind that of one who waited for a flag
};
}  // namespace

// Whether it is where it was at the end of one of its last long turns, with what it had in its registers.
static bool comes_again(Wave& w) {
  constexpr u32 ENDS = sizeof w.ends / sizeof *w.ends;
  const u64 end = light_hash(w, w.n_vgpr) + 0x9e3779b97f4a7c15ull * (w.pc + 1);
  bool again = false;
  for (u64 other : w.ends) again |= other == end;
  w.ends[w.n_ends++ % ENDS] = end;
  w.circles = again ? TURNS_FOR_A_CIRCLE : w.circles - (w.circles > 0);
  return again;
}

// A sleeping wave may wait for the host.
static bool answer_calls(Thread& t, Wave& w) {
  const char* error = nullptr;
  const Checks* checks = t.launch->checks;
  bool answered = hostcall_serve(t.hostcall, checks && checks->has(CHECK_UNWRITTEN), &error);
  if (error) fault(w, "%s", error);
  return answered;
}

enum GroupState { GROUP_DONE, GROUP_WAITS, GROUP_FAULTED };

// worked: whether any wave did more than poll. says_at: the flag behind which the group hands its turn over, or 0.
static GroupState run_group(Thread& t, Workgroup& g, bool* worked, u64* says_at) {
  *worked = false;
  *says_at = 0;
  t.idle.sleeps = false;
  const bool checked = t.launch->checks;  // long turns: what a race may bring about is to be seen
  const u32 usual = t.program->loads_to_lds && !checked ? QUANTUM_TO_LDS : QUANTUM;
  for (u32 round = 0; round < MOST_INSTRUCTIONS / usual; round++) {
    bool any_ran_out = false;
    u8 waves[MAX_WAVES];
    order_waves(t.order, waves, g.n_waves);
    for (u32 i = 0; i < g.n_waves; i++) {
      Wave& w = g.waves[waves[i]];
      if (w.stop == ENDED || w.stop == AT_BARRIER) continue;
      // What a wave waits for has happened by the time that the others have reached.
      if (w.stop == YIELDED && w.clock < clock_latest(t.clock)) w.clock = clock_latest(t.clock);
      t.running = &w;
      const bool behind_barrier = w.released && !checked;
      const u32 quantum = behind_barrier ? QUANTUM_BEHIND_BARRIER : w.circles ? QUANTUM_IN_A_CIRCLE : usual;
      w.released = 0;
      const u32 executed = run_wave(w, *t.program, order_quantum(t.order, quantum), t.observer);
      w.since_yield += executed;
      const bool looks = executed >= QUANTUM_IN_A_CIRCLE && !checked && !t.observer;
      const bool circles = looks && w.stop == RUNNING && comes_again(w);
      bool polls = (w.stop == YIELDED || w.stop == RUNNING) && w.since_yield < POLL_INSTRUCTIONS;
      if (w.stop == YIELDED && w.clock_reads < POLLING_READS) t.idle.sleeps = true;
      if (w.stop == YIELDED && t.hostcall && answer_calls(t, w)) any_ran_out = true, polls = false;
      if (w.stop == FAULTED) {
        record_fault(t, w);
        return GROUP_FAULTED;
      }
      if (!polls) {
        *worked = true;
        clock_worked(t.clock, w.clock);
      }
      if (w.stop == ENDED) g.n_ended++;
      else if (w.stop == AT_BARRIER) g.n_at_barrier++;
      else if (w.stop == RUNNING && !circles) any_ran_out = true;
      if (release_barrier(t, g)) any_ran_out = true;
    }
    if (g.n_ended == g.n_waves) return GROUP_DONE;
    if (!any_ran_out) return GROUP_WAITS;  // every wave sleeps or waits at a barrier
    if (order_leaves(t.order)) return GROUP_WAITS;
    if (g.hands_over) {
      g.hands_over = false;
      *says_at = g.says_at;
      return GROUP_WAITS;
    }
  }
  return GROUP_WAITS;
}

// The place of a workgroup, not that at `turn`, a wave of which has last looked at an address; n_live: none has.
static u32 who_waits(Workgroup** live, u32 n_live, u32 turn, u64 address) {
  for (u32 i = 0; i < n_live; i++)
    if (i != turn && check_looks_at(*live[i], address)) return i;
  return n_live;
}

static u64 group_clock(const Workgroup& g) {
  u64 last = 0;
  for (u32 i = 0; i < g.n_waves; i++)
    if (g.waves[i].clock > last) last = g.waves[i].clock;
  return last;
}

// Starts the next workgroup; false: there is none left.
static bool start_next(Thread& t, Groups& groups) {
  const u32 at = __atomic_fetch_add(t.next_group, 1, __ATOMIC_RELAXED);
  if (at >= t.total) {
    *t.next_group = t.total;
    groups.turn = 0;
    return false;
  }
  const u32 turn_of = order_group(t.order, at, t.total);
  Workgroup* spare = groups.n_spare ? groups.spare[--groups.n_spare] : nullptr;
  groups.live[groups.n_live] = start_group(t, spare, t.chosen ? t.chosen[turn_of] : turn_of);
  groups.turn = groups.n_live++;
  t.live->n = groups.n_live;
  __atomic_add_fetch(t.n_live, 1, __ATOMIC_RELAXED);
  groups.since_worked = 0;
  return true;
}

static void group_done(Thread& t, Groups& groups, Workgroup* g) {
  if (t.observer) t.observer->group_ended(t.observer, *g);
  if (Wave* stopped = g->check ? check_group_ended(*g) : nullptr) record_fault(t, *stopped);
  clock_group_ended(t.clock, group_clock(*g));
  groups.spare[groups.n_spare++] = g;
  groups.live[groups.turn] = groups.live[--groups.n_live];
  t.live->n = groups.n_live;
  __atomic_sub_fetch(t.n_live, 1, __ATOMIC_RELAXED);
  groups.turn = groups.n_live;  // prefer a fresh workgroup over those that wait
  groups.since_ended = 0;
  groups.resume = NO_TURN;
}

static void group_waits(Thread& t, Groups& groups, u64 says_at, bool has_room) {
  const u32 next = groups.resume == NO_TURN ? groups.turn + 1 : groups.resume;
  const u32 told = says_at && groups.resume == NO_TURN && !t.order.seed
                       ? who_waits(groups.live, groups.n_live, groups.turn, says_at)
                       : groups.n_live;
  groups.resume = told < groups.n_live ? next : NO_TURN;
  groups.turn = told < groups.n_live ? told : next;
  if (groups.resume != NO_TURN || ++groups.since_ended < groups.n_live) return;
  groups.since_ended = 0;
  Checks* checks = t.launch->checks;
  Wave* culprit;
  if (!checks || (*t.next_group < t.total && has_room) || (checks->preempts && preempt_rests(*checks))) return;
  if (check_stalled(checks, groups.live, groups.n_live, &culprit)) record_fault(t, *culprit);
}

static void run_until_ended(Thread& t, Groups& groups) {
  Launch& l = *t.launch;
  while (l.status == 0) {
    if (l.cancel && *l.cancel) {
      l.status = LAUNCH_CANCELLED;
      break;
    }
    t.live->n = groups.n_live;
    const bool has_room = groups.n_live < t.max_live && *t.n_live < t.room;
    const bool may_start = has_room && *t.next_group < t.total, all_wait = groups.since_worked >= groups.n_live;
    const bool passed = groups.turn >= groups.n_live;
    if (may_start && (groups.n_live == 0 || order_starts(t.order, groups.n_live, passed, all_wait)) &&
        !start_next(t, groups))
      continue;
    if (groups.n_live == 0) break;
    groups.turn = order_turn(t.order, groups.turn, groups.n_live);
    Workgroup* g = groups.live[groups.turn];
    bool worked;
    u64 says_at;
    const GroupState state = run_group(t, *g, &worked, &says_at);
    if (worked) {
      groups.since_worked = 0;
      clock_thread_works(t.idle);
    } else if (++groups.since_worked >= groups.n_live && (!has_room || *t.next_group >= t.total)) {
      groups.since_worked = 0;
      clock_thread_idles(t.idle, t.clock);
    }
    if (state == GROUP_DONE) group_done(t, groups, g);
    else group_waits(t, groups, says_at, has_room);
  }
}

void* run_groups(void* thread) {
  Thread& t = *(Thread*)thread;
  Checks* checks = t.launch->checks;
  Groups groups = {};
  groups.resume = NO_TURN;
  groups.live = (Workgroup**)calloc(t.max_live, sizeof(Workgroup*));
  groups.spare = (Workgroup**)calloc(t.max_live, sizeof(Workgroup*));
  t.live->groups = groups.live;
  const u32 saved_float_mode = float_mode();
  apply_mode(t.kernel->mode);
  runs_waves_of(&t);
  clock_thread_starts();
  if (checks) stores_of_thread_begin();
  if (sigsetjmp(t.on_fault, 1)) {  // a host access fault inside a handler
    memory_fault(*t.running, t.fault_address);
    check_fault(*t.running, t.fault_address);
    record_fault(t, *t.running);
  } else {
    run_until_ended(t, groups);
  }
  clock_thread_ends(t.idle);
  live_thread_ends(*t.live);
  if (checks) {
    stores_of_thread_end();
    check_thread_done(checks);
  }
  runs_waves_of(nullptr);
  set_float_mode(saved_float_mode);
  applied_mode = ~0u;
  for (u32 i = 0; i < groups.n_live; i++) free_group(groups.live[i]);
  for (u32 i = 0; i < groups.n_spare; i++) free_group(groups.spare[i]);
  free(groups.live);
  free(groups.spare);
  return nullptr;
}
