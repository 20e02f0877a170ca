// Programs and launches: dispatches workgroups to threads, runs their waves, reports what stopped them.
//
// A thread keeps a set of live workgroups. It runs one until every wave of it has ended; where all of a
// workgroup's waves wait (s_sleep, or a long stretch without an end in sight) it sets the workgroup aside and
// starts or resumes another, so that waves which wait for other workgroups make progress. Where all of them wait, it
// leaves its core to others: what they wait for may come from another process (clock.cpp).
#include "checks/check.h"
#include "checks/under_way.h"
#include "time/clock.h"
#include "hostcall.h"
#include "launch.h"
#include "time/observe.h"
#include "order.h"
#include "watch.h"
#include "written.h"
#include "checks/waits.h"
#include "isa/facts.h"
#include "program/program.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <xmmintrin.h>

struct Thread;
static thread_local Thread* current_thread;

struct Thread {
  pthread_t handle;
  const KernelInfo* kernel;
  u32 lds_bytes, scratch_bytes, max_live;
  const u8* packet;
  Program* program;
  const Inst *code, *skipping;  // see Wave
  Launch* launch;
  const u32* chosen;  // workgroups, null: all
  u32 total;          // of them
  volatile u32* next_group;
  pthread_mutex_t* fault_lock;
  u64* executed;
  char message[256];
  sigjmp_buf on_fault;
  Wave* running;
  u64 fault_address;
  LaunchClock* clock;
  Idle idle;
  Order order;
  Observer* observer;  // null: none
  Hostcall* hostcall;  // null: the kernel makes none
  LiveThread* live;
  volatile u32* n_live;  // workgroups of all threads
  u32 room;              // for so many
};

// Turns a host access fault into the wave's fault message, with the lane whose access it was. The host reports no
// address where the 64 bits are none that it could map; the lane's own address is named then.
static void memory_fault(Wave& w, u64 address) {
  EACH_LANE(w, i) {
    u64 a = w.address[i];
    bool unmappable = a + (1ull << 47) >= 1ull << 48;
    if (address - a >= 16 && !(address == 0 && unmappable)) continue;
    fault(w, "memory access fault at address 0x%llx, lane %d", (unsigned long long)(unmappable ? a : address), i);
    return;
  }
  fault(w, "memory access fault at address 0x%llx", (unsigned long long)address);
}

// Registers and LDS hold arbitrary values at the start on hardware; a quiet NaN with a payload shows up in results.
static void poison(void* p, size_t bytes, u32 value) {
  u32* x = (u32*)p;
  for (size_t i = 0; i < bytes / 4; i++) x[i] = value;
}

static void start_wave(Thread& t, Workgroup& g, Wave& w, u32 id, u64 now) {
  const Launch& l = *t.launch;
  const KernelInfo& k = *t.kernel;
  u32* v = w.v;
  u8* scratch = w.scratch;
  memset((void*)&w, 0, sizeof w);
  w.v = v;
  w.n_vgpr = t.program->n_vgpr;
  w.scratch = scratch;
  w.scratch_bytes = t.scratch_bytes;
  w.code = w.issuing = t.code;
  w.skipping = t.skipping;
  w.pc = k.entry;
  w.mode = k.mode;
  w.wg = &g;
  w.id = id;
  w.executed = t.executed;
  w.fault = t.message;
  w.clock = now;
  for (int i = 0; i < 108; i++) w.s[i] = UNWRITTEN;
  if (k.kernarg_sgpr != NO_SGPR) w.set_s64(k.kernarg_sgpr, (u64)l.kernarg);
  if (k.dispatch_sgpr != NO_SGPR) w.set_s64(k.dispatch_sgpr, (u64)t.packet);
  memcpy(&w.s[k.preload_sgpr], l.kernarg + k.preload_offset * 4, k.preload_dwords * 4);
  u32 r = k.user_sgprs;
  for (int d = 0; d < 3; d++)
    if (k.workgroup_id_mask >> d & 1) w.s[r++] = g.id[d];
  w.s[M0] = 0xffffffff;

  poison(w.v, (size_t)t.program->n_vgpr * WAVE * 4, UNWRITTEN);
  const u32 threads = l.block[0] * l.block[1] * l.block[2], first = id * WAVE, n = threads - first;
  if (threads == l.block[0]) {  // as most are; dividing takes longer than many a wave's whole work
    for (u32 i = 0; i < WAVE; i++) w.v[i] = first + i;
  } else {
    u32 x = first % l.block[0], y = first / l.block[0] % l.block[1], z = first / l.block[0] / l.block[1];
    for (u32 i = 0; i < WAVE; i++) {
      w.v[i] = x | y << 10 | z << 20;  // packed work-item ids, as gfx90a and later pass them
      if (++x == l.block[0]) x = 0, y++;
      if (y == l.block[1]) y = 0, z++;
    }
  }
  w.set_exec(n < WAVE ? (1ull << n) - 1 : ~0ull);
}

static Workgroup* start_group(Thread& t, Workgroup* g, u32 linear) {
  const Launch& l = *t.launch;
  u32 n_waves = waves_per_group(l);
  if (!g) {
    g = (Workgroup*)calloc(1, sizeof(Workgroup));
    g->lds = allocate(l.card->lds_bytes + 16);
    g->waves = (Wave*)allocate(sizeof(Wave) * n_waves);
    u8* registers = allocate((size_t)n_waves * t.program->n_vgpr * WAVE * 4);
    u8* scratch = allocate((size_t)n_waves * t.scratch_bytes * WAVE);
    for (u32 i = 0; i < n_waves; i++) {
      g->waves[i].v = (u32*)(registers + (size_t)i * t.program->n_vgpr * WAVE * 4);
      g->waves[i].scratch = scratch + (size_t)i * t.scratch_bytes * WAVE;
    }
  }
  g->linear_id = linear;
  g->id[0] = linear % l.groups[0];
  g->id[1] = linear / l.groups[0] % l.groups[1];
  g->id[2] = linear / l.groups[0] / l.groups[1];
  g->n_waves = n_waves;
  g->n_ended = g->n_at_barrier = 0;
  g->lds_bytes = t.lds_bytes;
  g->launch = t.launch;
  g->card = l.card;
  poison(g->lds, t.lds_bytes + 16, 0x7fc5a5a5);
  u64 now = clock_group_starts(t.clock);
  for (u32 i = 0; i < n_waves; i++) start_wave(t, *g, g->waves[i], i, now);
  if (t.observer) t.observer->group_started(t.observer, *g);
  if (t.launch->checks) check_start_group(*g, t.launch->checks, *t.kernel);
  return g;
}

static void free_group(Workgroup* g) {
  check_free_group(*g);
  free(g->waves[0].v);
  free(g->waves[0].scratch);
  free(g->waves);
  free(g->lds);
  free(g);
}

static void record_fault(Thread& t, Wave& w) {
  Launch& l = *t.launch;
  pthread_mutex_lock(t.fault_lock);
  if (l.status == 0) {
    l.status = 1;
    l.fault_pc = w.pc - 1;
    l.fault_wave = w.id;
    memcpy(l.fault_group, w.wg->id, sizeof l.fault_group);
    l.fault_address = t.fault_address;
    if (t.hostcall && hostcall_assertion(t.hostcall)[0])
      snprintf(l.message, sizeof l.message, "%s", hostcall_assertion(t.hostcall));
    else snprintf(l.message, sizeof l.message, "%s", w.fault);
  }
  pthread_mutex_unlock(t.fault_lock);
}

// Long enough to amortise a switch, short enough that a spinning wave soon lets others run.
constexpr u32 QUANTUM = 20000;
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
// Workgroups that a thread holds at once, unless the card's share of a thread is more.
constexpr u32 MAX_LIVE_GROUPS = 256;
// Fewer instructions than this before a wave lets others run, and it polls.
constexpr u32 POLL_INSTRUCTIONS = 512;

// Each of the loops returns how many instructions the wave has executed.
static u32 run_plain(Wave& w, u32 quantum) {
  u64* executed = w.executed;
  u32 left = quantum;
  while (left) {
    left--;
    const Inst& in = w.code[w.pc];
    executed[w.pc]++;
    w.pc++;
    in.fn(w, in);
    if (__builtin_expect(w.stop, 0)) break;
  }
  w.clock += (u64)CYCLES_OF_MOST * (quantum - left);
  return quantum - left;
}

// The same loop for programs that read the clock, which tells cycles by instruction.
static u32 run_clocked(Wave& w, const Program& p, u32 quantum) {
  u32 left = quantum;
  while (left) {
    left--;
    const Inst& in = w.code[w.pc];
    w.executed[w.pc]++;
    w.clock += p.costs[w.pc];
    w.pc++;
    in.fn(w, in);
    if (w.stop == AT_CLOCK) clock_answer(w);
    if (w.stop) break;
  }
  return quantum - left;
}

// The same loop with an observer.
static u32 run_observed(Wave& w, const Program& p, u32 quantum, Observer* observer) {
  u32 left = quantum;
  while (left) {
    left--;
    const Inst& in = w.code[w.pc];
    w.executed[w.pc]++;
    w.clock += p.costs ? p.costs[w.pc] : CYCLES_OF_MOST;
    w.pc++;
    if (in.fn != skipped) observer->instruction(observer, w, in);
    in.fn(w, in);
    if (w.stop == AT_CLOCK) clock_answer(w);
    if (__builtin_expect(w.stop, 0)) break;
  }
  return quantum - left;
}

static u32 run_wave(Wave& w, const Program& p, u32 quantum, Observer* observer) {
  if (w.stop == YIELDED || w.since_yield >= POLL_INSTRUCTIONS) w.clock_reads = w.since_yield = 0;
  w.stop = RUNNING;
  if (w.mode != applied_mode) apply_mode(w.mode);
  if (w.wg->check) return run_checked(w, quantum, observer);
  if (observer) return run_observed(w, p, quantum, observer);
  return p.costs ? run_clocked(w, p, quantum) : run_plain(w, quantum);
}

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
  bool answered = hostcall_serve(t.hostcall, &error);
  if (error) fault(w, "%s", error);
  return answered;
}

enum GroupState { GROUP_DONE, GROUP_WAITS, GROUP_FAULTED };

// Waves that have ended no longer count for a barrier, as on hardware.
static bool release_barrier(Thread& t, Workgroup& g) {
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

static void* thread_main(void* arg) {
  Thread& t = *(Thread*)arg;
  Launch& l = *t.launch;
  const u32 total = t.total;
  // Workgroups run since one ended, and since one did more than poll.
  u32 n_live = 0, n_spare = 0, turn = 0, since_ended = 0, since_worked = 0;
  constexpr u32 NO_TURN = ~0u;
  u32 resume = NO_TURN;  // whose turn it is behind that of one who waited for a flag
  Workgroup** live = (Workgroup**)calloc(t.max_live, sizeof(Workgroup*));
  t.live->groups = live;
  Workgroup** spare = (Workgroup**)calloc(t.max_live, sizeof(Workgroup*));
  u32 saved_csr = _mm_getcsr();
  apply_mode(t.kernel->mode);
  current_thread = &t;
  clock_thread_starts();
  if (l.checks) stores_of_thread_begin();

  if (sigsetjmp(t.on_fault, 1)) {  // a host access fault inside a handler
    memory_fault(*t.running, t.fault_address);
    check_fault(*t.running, t.fault_address);
    record_fault(t, *t.running);
  }
  while (l.status == 0) {
    if (l.cancel && *l.cancel) {
      l.status = LAUNCH_CANCELLED;
      break;
    }
    t.live->n = n_live;
    bool has_room = n_live < t.max_live && *t.n_live < t.room;
    bool may_start = has_room && *t.next_group < total, all_wait = since_worked >= n_live;
    if (may_start && (n_live == 0 || order_starts(t.order, n_live, turn >= n_live, all_wait))) {
      u32 at = __atomic_fetch_add(t.next_group, 1, __ATOMIC_RELAXED);
      if (at >= total) {
        *t.next_group = total;
        turn = 0;
        continue;
      }
      u32 turn_of = order_group(t.order, at, total);
      live[n_live] = start_group(t, n_spare ? spare[--n_spare] : nullptr, t.chosen ? t.chosen[turn_of] : turn_of);
      turn = n_live++;
      t.live->n = n_live;
      __atomic_add_fetch(t.n_live, 1, __ATOMIC_RELAXED);
      since_worked = 0;
    }
    if (n_live == 0) break;
    turn = order_turn(t.order, turn, n_live);
    Workgroup* g = live[turn];
    bool worked;
    u64 says_at;
    GroupState state = run_group(t, *g, &worked, &says_at);
    if (worked) {
      since_worked = 0;
      clock_thread_works(t.idle);
    } else if (++since_worked >= n_live && (!has_room || *t.next_group >= total)) {
      since_worked = 0;
      clock_thread_idles(t.idle, t.clock);
    }
    if (state == GROUP_DONE) {
      if (t.observer) t.observer->group_ended(t.observer, *g);
      if (Wave* stopped = g->check ? check_group_ended(*g) : nullptr) record_fault(t, *stopped);
      clock_group_ended(t.clock, group_clock(*g));
      spare[n_spare++] = g;
      live[turn] = live[--n_live];
      t.live->n = n_live;
      __atomic_sub_fetch(t.n_live, 1, __ATOMIC_RELAXED);
      turn = n_live;  // prefer a fresh workgroup over those that wait
      since_ended = 0;
      resume = NO_TURN;
    } else {
      const u32 next = resume == NO_TURN ? turn + 1 : resume;
      const u32 told = says_at && resume == NO_TURN && !t.order.seed ? who_waits(live, n_live, turn, says_at) : n_live;
      resume = told < n_live ? next : NO_TURN;
      turn = told < n_live ? told : next;
      if (resume != NO_TURN) continue;
      if (++since_ended < n_live) continue;
      since_ended = 0;
      Wave* culprit;
      if (l.checks && (*t.next_group >= total || !has_room) && check_stalled(l.checks, live, n_live, &culprit))
        record_fault(t, *culprit);
    }
  }
  clock_thread_ends(t.idle);
  live_thread_ends(*t.live);
  if (l.checks) {
    stores_of_thread_end();
    check_thread_done(l.checks);
  }
  current_thread = nullptr;
  _mm_setcsr(saved_csr);
  applied_mode = ~0u;
  for (u32 i = 0; i < n_live; i++) free_group(live[i]);
  for (u32 i = 0; i < n_spare; i++) free_group(spare[i]);
  free(live);
  free(spare);
  return nullptr;
}

static struct sigaction previous_segv, previous_bus;

// A runtime's: whether it has opened what was closed there, for the access to happen again.
static bool (*opens)(u64 address);
extern "C" void cdna_set_opens(AddressTest f) { opens = f; }

static void on_signal(int number, siginfo_t* info, void* context) {
  if (opens && opens((u64)info->si_addr)) return;
  Thread* t = current_thread;
  if (t && t->running) {
    t->fault_address = (u64)info->si_addr;
    siglongjmp(t->on_fault, 1);
  }
  struct sigaction* previous = number == SIGSEGV ? &previous_segv : &previous_bus;
  sigaction(number, previous, nullptr);  // not ours: the instruction repeats under the earlier handler
}

// Launches nest over host threads and processes, so the handlers go in once and stay.
static void install_handlers() {
  static int done = 0;
  if (__atomic_exchange_n(&done, 1, __ATOMIC_SEQ_CST)) return;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &previous_segv);
  sigaction(SIGBUS, &action, &previous_bus);
  waits_at_signals();
}

// A copy of a program's code with another handler for the instructions of some units (a mask).
static Inst* with_handler(const Program& p, u32 units, Handler handler) {
  Inst* code = (Inst*)malloc(sizeof(Inst) * (p.n_inst + 1));
  memcpy((void*)code, (const void*)p.code, sizeof(Inst) * (p.n_inst + 1));
  for (u32 i = 0; i < p.n_inst; i++)
    if (units >> op_facts(code[i].op).unit & 1) code[i].fn = handler;
  return code;
}
constexpr u32 VECTOR_UNITS = 1 << VECTOR_UNIT | 1 << MATRIX_UNIT | 1 << MEMORY_UNIT | 1 << LDS_UNIT;

extern "C" {

// Runs one wave from instruction 0 on registers the caller holds (v: [n_vgpr][64], s: 128 dwords, exec at 126):
// how single instructions are tested. Returns the stop reason.
u32 cdna_run_wave(Program* p, u32* v, u32* s, u32* scc, u8* lds, u32 lds_bytes, u32 scratch_bytes, u32 mode,
                  char* message) {
  Workgroup g;
  memset((void*)&g, 0, sizeof g);
  g.lds = lds;
  g.lds_bytes = lds_bytes;
  g.n_waves = 1;
  g.card = chosen_card(p->arch);
  Wave* w = (Wave*)allocate(sizeof(Wave));
  memset((void*)w, 0, sizeof *w);
  memcpy(w->s, s, sizeof w->s);
  w->v = v;
  w->n_vgpr = p->n_vgpr;
  w->scc = *scc;
  w->mode = mode;
  w->wg = &g;
  Inst* skipping = p->skips ? with_handler(*p, VECTOR_UNITS, skipped) : nullptr;
  w->code = w->issuing = p->joined ? p->joined : p->code;
  w->skipping = skipping;
  scratch_bytes = (scratch_bytes + 3) & ~3u;  // scratch is interleaved by dwords
  w->scratch = allocate((size_t)scratch_bytes * WAVE);
  w->scratch_bytes = scratch_bytes;
  w->fault = message;
  w->executed = (u64*)calloc(p->n_inst + 1, sizeof(u64));
  u32 saved_csr = _mm_getcsr();
  applied_mode = ~0u;
  Thread t;
  memset((void*)&t, 0, sizeof t);
  t.running = w;
  clock_costs(*p, *g.card);
  w->clock = clock_now();
  install_handlers();
  current_thread = &t;
  if (sigsetjmp(t.on_fault, 1)) memory_fault(*w, t.fault_address);
  else do
      run_wave(*w, *p, QUANTUM, nullptr);
    while (w->stop != ENDED && w->stop != FAULTED);
  current_thread = nullptr;
  _mm_setcsr(saved_csr);
  applied_mode = ~0u;
  clock_advance(w->clock);
  u32 stop = w->stop;
  memcpy(s, w->s, sizeof w->s);
  *scc = w->scc;
  free(w->executed);
  free(w->scratch);
  free(w);
  free(skipping);
  return stop;
}

constexpr size_t KERNARG_ALIGNMENT = 128;

// What the hidden multigrid argument of a cooperative launch points at (ROCm-Device-Libs, ockl/src/cg.cl, mg_info):
// the barrier of the grid counts arrivals there.
struct GridSync {
  u64 grids;
  u32 grid_id, n_grids;
  u64 threads_before, threads;
  u32 arrived, reserved, n_groups;
};

// Fills the hidden arguments (LLVM AMDGPUUsage, "Kernel Argument Metadata") into a copy of the explicit ones. They begin
// at a multiple of 128 bytes, as HIP's do (ROCclr, rockernel.cpp): a scalar load of them asks for as many lines in each run.
static u8* kernel_arguments(const KernelInfo& k, const Launch& l, const GridSync* sync, const Hostcall* hostcall) {
  const size_t bytes = (k.kernarg_bytes > l.kernarg_bytes ? k.kernarg_bytes : l.kernarg_bytes) + 64;
  void* memory;
  if (posix_memalign(&memory, KERNARG_ALIGNMENT, bytes)) abort();
  u8* buffer = (u8*)memset(memory, 0, bytes);
  if (l.kernarg_bytes) memcpy(buffer, l.kernarg, l.kernarg_bytes);
  for (u32 i = 0; i < k.n_arguments; i++) {
    const KernelArgument& a = k.arguments[i];
    u64 value = 0;
    switch (a.kind) {
      case BLOCK_COUNT_X:
      case BLOCK_COUNT_Y:
      case BLOCK_COUNT_Z: value = l.groups[a.kind - BLOCK_COUNT_X]; break;
      case GROUP_SIZE_X:
      case GROUP_SIZE_Y:
      case GROUP_SIZE_Z: value = l.block[a.kind - GROUP_SIZE_X]; break;
      case GRID_DIMS: value = l.groups[2] * l.block[2] > 1 ? 3 : l.groups[1] * l.block[1] > 1 ? 2 : 1; break;
      case DYNAMIC_LDS_SIZE: value = l.dynamic_lds_bytes; break;
      case HOSTCALL_BUFFER: value = hostcall ? hostcall_buffer(hostcall) : 0; break;
      case MULTIGRID_SYNC: value = l.cooperative ? (u64)sync : 0; break;
      case SHARED_BASE_HI: value = SHARED_APERTURE >> 32; break;
      case PRIVATE_BASE_HI: value = PRIVATE_APERTURE >> 32; break;
      default:
        if (a.kind == EXPLICIT) continue;
    }
    memcpy(buffer + a.offset, &value, a.size < 8 ? a.size : 8);
  }
  return buffer;
}

// Threads that launches have started, beside those that they were called in.
static volatile u32 worker_threads;
u32 cdna_worker_threads() { return worker_threads; }

static void* worker_main(void* thread) {
  thread_main(thread);
  __atomic_sub_fetch(&worker_threads, 1, __ATOMIC_SEQ_CST);
  return nullptr;
}

// hsa_kernel_dispatch_packet_t (HSA system architecture specification, "Kernel dispatch packet").
struct DispatchPacket {
  u16 header, setup, workgroup_size[3], reserved0;
  u32 grid_size[3], private_segment_size, group_segment_size;
  u64 kernel_object, kernarg_address, reserved2, completion_signal;
};

static bool refused(Program* p, const KernelInfo& k, Launch* l) {
  u32 threads = l->block[0] * l->block[1] * l->block[2], lds = k.static_lds_bytes + l->dynamic_lds_bytes;
  if (lds > l->card->lds_bytes)
    snprintf(l->message, sizeof l->message, "needs %u bytes of LDS, %s has %u for a workgroup", lds, p->arch,
             l->card->lds_bytes);
  else if (threads < 1 || threads > k.max_work_items)
    snprintf(l->message, sizeof l->message, "a workgroup of %u work-items; this kernel is compiled for 1 to %u",
             threads, k.max_work_items);
  else if (k.entry >= p->n_inst)
    snprintf(l->message, sizeof l->message,
             "it has no code: the compiler removed its body, as it may an endless loop without effects");
  else return false;
  l->status = LAUNCH_REFUSED;
  return true;
}

static u64 launches_made;
u64 cdna_launches() { return __atomic_load_n(&launches_made, __ATOMIC_RELAXED); }

struct Tally {
  const Launch* launch;
  ~Tally() {
    if (launch->status == LAUNCHED) __atomic_add_fetch(&launches_made, 1, __ATOMIC_RELAXED);
  }
};

void cdna_launch(Program* p, u32 kernel, Launch* l) {
  const Tally tally = {l};
  install_handlers();
  const KernelInfo& k = p->kernels[kernel];
  l->status = LAUNCHED;
  if (!l->card) l->card = chosen_card(p->arch);
  if (refused(p, k, l)) return;
  u32 total = l->groups[0] * l->groups[1] * l->groups[2];
  u32 n = l->n_threads < total ? l->n_threads : total;
  if (n == 0) return;
  Watch* watch = watch_begins(p, k, *l);
  Observer* first = l->observers ? l->observers->attach(l->observers, p, &k, l) : nullptr;
  if (watch || (first && l->observers->in_order)) n = 1;
  GridSync sync = {0, 0, 1, 0, (u64)total * l->block[0] * l->block[1] * l->block[2], 0, 0, total};
  // In another order than the card's any workgroup may have to wait for any other.
  // Else those that a card has room for may wait for each other, and for no more: with checks it is found.
  u64 room = (u64)resident_groups(k, *l) * l->card->compute_units;
  u32 share = (u32)((room + n - 1) / n), most = share > MAX_LIVE_GROUPS ? share : MAX_LIVE_GROUPS;
  u32 max_live = l->cooperative || l->order_seed || total < most ? total : most;
  bool keeps_to_room = l->checks && l->checks->has(CHECK_DEADLOCK) && !l->cooperative && !l->order_seed;
  u32 n_waves = waves_per_group(*l);
  bool calls = false;
  for (u32 i = 0; i < k.n_arguments; i++) calls = calls || k.arguments[i].kind == HOSTCALL_BUFFER;
  Hostcall* hostcall =
      calls ? hostcall_open(n * (l->cooperative || max_live < MAX_LIVE_GROUPS ? max_live : MAX_LIVE_GROUPS) * n_waves)
            : nullptr;
  u8* kernarg = kernel_arguments(k, *l, &sync, hostcall);
  const u32 scratch_bytes = cdna_scratch_of(k);
  DispatchPacket packet;
  memset(&packet, 0, sizeof packet);
  packet.header = 0x1502;
  packet.setup = 3;
  for (int d = 0; d < 3; d++) {
    packet.workgroup_size[d] = l->block[d];
    packet.grid_size[d] = l->groups[d] * l->block[d];
  }
  packet.private_segment_size = scratch_bytes;
  packet.group_segment_size = k.static_lds_bytes + l->dynamic_lds_bytes;
  packet.kernarg_address = (u64)kernarg;
  const u8* given = l->kernarg;
  l->kernarg = kernarg;
  volatile u32 next_group = 0;
  clock_costs(*p, *l->card);
  LaunchClock* clock = clock_begin(k, *l, total);
  u64 seed = order_of_launch(l->order_seed);
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  volatile u32 n_live = 0;
  LiveThread* live = (LiveThread*)calloc(n, sizeof(LiveThread));
  LiveLaunch live_launch = {p, &k, l, live, n, total, room < total ? (u32)room : 0, &next_group, nullptr};
  Thread* threads = (Thread*)allocate(sizeof(Thread) * n);
  memset((void*)threads, 0, sizeof(Thread) * n);
  for (u32 i = 0; i < n; i++) {
    Thread& t = threads[i];
    t.program = p;
    t.kernel = &k;
    t.launch = l;
    t.lds_bytes = packet.group_segment_size;
    t.scratch_bytes = scratch_bytes;
    t.max_live = max_live;
    t.packet = (const u8*)&packet;
    t.next_group = &next_group;
    t.fault_lock = &lock;
    t.executed = (u64*)calloc(p->n_inst + 1, sizeof(u64));
    t.hostcall = hostcall;
    t.live = &live[i];
    t.n_live = &n_live;
    t.room = keeps_to_room && room < total ? (u32)room : ~0u;
    live[i].executed = t.executed;
    t.clock = clock;
    t.order = order_begin(seed, i);
    if (l->observers) t.observer = i ? l->observers->attach(l->observers, p, &k, l) : first;
    t.observer = watch_around(watch, t.observer);
  }
  const u32* chosen = l->observers ? l->observers->chosen : nullptr;
  Inst* code = nullptr;
  if (l->observers && l->observers->no_products) code = with_handler(*p, 1 << MATRIX_UNIT, [](Wave&, const Inst&) {});
  Inst* skipping = p->skips ? with_handler(*p, VECTOR_UNITS, skipped) : nullptr;
  const Inst* plain = p->joined && !l->observers && !watch ? p->joined : p->code;
  if (const Inst* noting = code ? nullptr : written_code(*p, plain)) plain = noting;
  written_launch_begins(kernarg, k.kernarg_bytes);
  for (u32 i = 0; i < n; i++) {
    threads[i].code = code ? code : plain;
    threads[i].skipping = skipping;
    threads[i].chosen = chosen;
    threads[i].total = chosen ? l->observers->n_chosen : total;
  }
  if (l->checks) {
    List<MemoryRange> internal;
    for (u32 i = 0; i < k.n_arguments; i++) {
      if (k.arguments[i].kind == HOSTCALL_BUFFER && hostcall) hostcall_memory(hostcall, internal);
      if (k.arguments[i].kind == MULTIGRID_SYNC && l->cooperative)
        internal.push(memory_range((u64)&sync, sizeof sync, "the grid's barrier"));
    }
    internal.push(memory_range((u64)&packet, sizeof packet, "the dispatch packet"));
    checks_begin(l->checks, p, k, *l, n, internal);
    internal.release();
  }
  live_begins(&live_launch);
  __atomic_add_fetch(&worker_threads, n - 1, __ATOMIC_SEQ_CST);
  for (u32 i = 1; i < n; i++) pthread_create(&threads[i].handle, nullptr, worker_main, &threads[i]);
  thread_main(&threads[0]);
  for (u32 i = 1; i < n; i++) pthread_join(threads[i].handle, nullptr);
  written_launch_ends();
  live_ends(&live_launch);
  free(live);
  for (u32 i = 0; i < n; i++) {
    if (l->executed)
      for (u32 i2 = 0; i2 < p->n_inst; i2++) l->executed[i2] += threads[i].executed[i2];
    free(threads[i].executed);
    Observer* observer = watch ? watch->inner : threads[i].observer;
    if (observer) l->observers->detach(l->observers, observer);
  }
  watch_ends(watch);
  if (l->checks) checks_end(l->checks);
  clock_end(clock);
  l->kernarg = given;
  hostcall_close(hostcall);
  if (hostcall) fflush(stdout);
  free(threads);
  free(kernarg);
  free(code);
  free(skipping);
}
}
