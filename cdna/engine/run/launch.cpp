// Launches: hands workgroups to threads and gathers what these have done.
#include "checks/host_reach.h"
#include "checks/preempt.h"
#include "isa/xcd_l2.h"
#include "journal.h"
#include "kernel_arguments.h"
#include "launch.h"
#include "memory/host_memory.h"
#include "program/access.h"
#include "thread.h"
#include "watch.h"
#include "written.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

// Threads that launches have started, beside those that they were called in.
static volatile u32 worker_threads;
extern "C" u32 cdna_worker_threads() { return worker_threads; }

static void* worker_main(void* thread) {
  run_groups(thread);
  __atomic_sub_fetch(&worker_threads, 1, __ATOMIC_SEQ_CST);
  return nullptr;
}

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
extern "C" u64 cdna_launches() { return __atomic_load_n(&launches_made, __ATOMIC_RELAXED); }

struct Tally {
  const Launch* launch;
  ~Tally() {
    if (launch->status == LAUNCHED) __atomic_add_fetch(&launches_made, 1, __ATOMIC_RELAXED);
  }
};

namespace {
// A launch under way, and what its threads share.
struct Running {
  Program* p;
  const KernelInfo& k;
  Launch* l;
  u32 total, n;  // workgroups of the grid, threads
  Watch* watch;
  u64 room;      // workgroups that the card holds at once
  u32 max_live;  // of a thread
  Hostcall* hostcall;
  XcdL2* l2;
  GridSync sync;
  DispatchPacket packet;
  const u8* given;  // arguments
  LaunchClock* clock;
  LaunchReach* reach;
  volatile u32 next_group, n_live;
  pthread_mutex_t fault_lock;
  LiveThread* live;
  Thread* threads;
  Inst *code, *skipping;  // of its own; null: the program's
};
}  // namespace

// In another order than the card's any workgroup may have to wait for any other. Else those that a card has room for may
// wait for each other, and for no more: with checks it is found.
static void make_room(Running& r) {
  const Launch& l = *r.l;
  r.room = (u64)resident_groups(r.k, l) * l.card->compute_units;
  const u32 share = (u32)((r.room + r.n - 1) / r.n), most = share > MAX_LIVE_GROUPS ? share : MAX_LIVE_GROUPS;
  r.max_live = l.cooperative || l.order_seed || r.total < most ? r.total : most;
}

static void make_arguments(Running& r) {
  Launch& l = *r.l;
  r.sync = {0, 0, 1, 0, (u64)r.total * l.block[0] * l.block[1] * l.block[2], 0, 0, r.total};
  bool calls = false;
  for (u32 i = 0; i < r.k.n_arguments; i++) calls = calls || r.k.arguments[i].kind == HOSTCALL_BUFFER;
  const u32 live = l.cooperative || r.max_live < MAX_LIVE_GROUPS ? r.max_live : MAX_LIVE_GROUPS;
  if (calls) r.hostcall = hostcall_open(r.n * live * waves_per_group(l));
  r.given = l.kernarg;
  l.kernarg = kernel_arguments(r.k, l, &r.sync, r.hostcall);
  r.packet = dispatch_packet(r.k, l, l.kernarg);
}

static void make_threads(Running& r, Observer* first) {
  Launch& l = *r.l;
  const u64 seed = order_of_launch(l.order_seed);
  const bool keeps_to_room = l.checks && l.checks->has(CHECK_DEADLOCK) && !l.cooperative && !l.order_seed;
  r.live = (LiveThread*)calloc(r.n, sizeof(LiveThread));
  r.threads = (Thread*)allocate(sizeof(Thread) * r.n);
  memset((void*)r.threads, 0, sizeof(Thread) * r.n);
  for (u32 i = 0; i < r.n; i++) {
    Thread& t = r.threads[i];
    t.program = r.p;
    t.kernel = &r.k;
    t.launch = &l;
    t.lds_bytes = r.packet.group_segment_size;
    t.scratch_bytes = r.packet.private_segment_size;
    t.max_live = r.max_live;
    t.packet = (const u8*)&r.packet;
    t.next_group = &r.next_group;
    t.fault_lock = &r.fault_lock;
    t.executed = (u64*)calloc(r.p->n_inst + 1, sizeof(u64));
    t.hostcall = r.hostcall;
    t.l2 = r.l2;
    t.live = &r.live[i];
    t.n_live = &r.n_live;
    t.room = keeps_to_room && r.room < r.total ? (u32)r.room : ~0u;
    r.live[i].executed = t.executed;
    t.clock = r.clock;
    t.order = order_begin(seed, i);
    if (l.observers) t.observer = i ? l.observers->attach(l.observers, r.p, &r.k, &l) : first;
    t.observer = watch_around(r.watch, t.observer);
  }
}

// What the threads execute, once observers have chosen.
static void choose_code(Running& r) {
  Program& p = *r.p;
  const ObserverSource* observers = r.l->observers;
  if (observers && observers->no_products) r.code = code_with_handler(p, 1 << MATRIX_UNIT, [](Wave&, const Inst&) {});
  r.skipping = p.skips ? code_with_handler(p, VECTOR_UNITS, skipped) : nullptr;
  const Inst* plain = p.joined && !observers && !r.watch ? p.joined : p.code;
  if (const Inst* noting = r.code ? nullptr : written_code(p, plain)) plain = noting;
  for (u32 i = 0; i < r.n; i++) {
    r.threads[i].code = r.code ? r.code : plain;
    r.threads[i].skipping = r.skipping;
    r.threads[i].chosen = observers ? observers->chosen : nullptr;
    r.threads[i].total = r.threads[i].chosen ? observers->n_chosen : r.total;
  }
}

// What it reaches of its own.
static List<MemoryRange> own_memory(const Running& r) {
  List<MemoryRange> internal;
  for (u32 i = 0; i < r.k.n_arguments; i++) {
    if (r.k.arguments[i].kind == HOSTCALL_BUFFER && r.hostcall) hostcall_memory(r.hostcall, internal);
    if (r.k.arguments[i].kind == MULTIGRID_SYNC && r.l->cooperative)
      internal.push(memory_range((u64)&r.sync, sizeof r.sync, "the grid's barrier"));
  }
  internal.push(memory_range((u64)&r.packet, sizeof r.packet, "the dispatch packet"));
  return internal;
}

static void begin_checks(Running& r) {
  List<MemoryRange> own = own_memory(r);
  Checks* checks = r.l->checks;
  if (checks) checks_begin(checks, r.p, r.k, *r.l, r.n, own);
  if (host_is_apart() && !(checks && checks->has(CHECK_BOUNDS))) {
    const u32 kernarg_bytes = r.k.kernarg_bytes > r.l->kernarg_bytes ? r.k.kernarg_bytes : r.l->kernarg_bytes;
    own.push(memory_range((u64)r.l->kernarg, kernarg_bytes + 64, "the kernel's arguments"));
    r.reach = reach_begins(*r.p, *r.l, r.n, own);
  }
  for (u32 i = 0; i < r.n; i++) r.threads[i].reach = reach_of(r.reach, i);
  own.release();
}

static void run_threads(Running& r) {
  LiveLaunch live = {r.p, &r.k, r.l, r.live, r.n, r.total, r.room < r.total ? (u32)r.room : 0, &r.next_group, nullptr};
  live_begins(&live);
  __atomic_add_fetch(&worker_threads, r.n - 1, __ATOMIC_SEQ_CST);
  for (u32 i = 1; i < r.n; i++) pthread_create(&r.threads[i].handle, nullptr, worker_main, &r.threads[i]);
  run_groups(&r.threads[0]);
  for (u32 i = 1; i < r.n; i++) pthread_join(r.threads[i].handle, nullptr);
  written_launch_ends();
  live_ends(&live);
  free(r.live);
}

static void gather(Running& r) {
  Launch& l = *r.l;
  for (u32 i = 0; i < r.n; i++) {
    const Thread& t = r.threads[i];
    for (u32 pc = 0; l.executed && pc < r.p->n_inst; pc++) l.executed[pc] += t.executed[pc];
    free(t.executed);
    Observer* observer = r.watch ? r.watch->inner : t.observer;
    if (observer) l.observers->detach(l.observers, observer);
  }
}

extern "C" void cdna_launch(Program* p, u32 kernel, Launch* l) {
  const Tally tally = {l};
  install_fault_handlers();
  const KernelInfo& k = p->kernels[kernel];
  l->status = LAUNCHED;
  if (!l->card) l->card = chosen_card(p->arch);
  if (refused(p, k, l)) return;
  const u32 total = l->groups[0] * l->groups[1] * l->groups[2];
  Running r = {p, k, l, total, l->n_threads < total ? l->n_threads : total};
  if (r.n == 0) return;
  r.watch = watch_begins(p, k, *l);
  if (l->observers) measure_registers(*p);
  Observer* first = l->observers ? l->observers->attach(l->observers, p, &k, l) : nullptr;
  if (schedule_says("l2") && !l->observers && l->card->xcds > 1) r.l2 = l2_create(l->card->xcds);
  if (r.watch || r.l2 || (first && l->observers->in_order)) r.n = 1;
  make_room(r);
  make_arguments(r);
  clock_costs(*p, *l->card);
  r.clock = clock_begin(k, *l, total);
  pthread_mutex_init(&r.fault_lock, nullptr);
  make_threads(r, first);
  choose_code(r);
  written_launch_begins(&k, *l, k.kernarg_bytes);
  if (l->checks && !written_in_trial()) journal_memory(*l->checks);
  begin_checks(r);
  run_threads(r);
  gather(r);
  watch_ends(r.watch);
  if (l->checks) checks_end(l->checks);
  reach_ends(r.reach, *l);
  clock_end(r.clock);
  free((void*)l->kernarg);
  l->kernarg = r.given;
  if (l->status == LAUNCHED && !written_in_trial()) journal_launch(*p, kernel, *l);
  l2_destroy(r.l2);
  hostcall_close(r.hostcall);
  if (r.hostcall) fflush(stdout);
  free(r.threads);
  free(r.code);
  free(r.skipping);
}
