// The clock: when workgroups start, what a wave reads, and what moves it while everybody polls.
#include "device_clock.h"
#include "costs.h"
#include "program/program.h"
#include "isa/lock.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static u64 now;      // cycles: the latest that a launch of this process has reached
static u64 passed;   // cycles by which host time has moved the clock; part of every wave's time
static u32 working;  // host threads whose waves do more than poll

static void raise_to(u64* at, u64 cycles) {
  u64 seen = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (seen < cycles && !__atomic_compare_exchange_n(at, &seen, cycles, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}

static u64 nanoseconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static u64 host_ns() { return nanoseconds(CLOCK_MONOTONIC); }
static u64 thread_ns() { return nanoseconds(CLOCK_THREAD_CPUTIME_ID); }

u64 clock_now() { return __atomic_load_n(&now, __ATOMIC_RELAXED); }
void clock_advance(u64 cycles) { raise_to(&now, cycles); }

// --- workgroups ------------------------------------------------------------------------------------

// Workgroups start as compute units have room: the first at once, each later one where the first of those running ends.
struct LaunchClock {
  u64 start, latest, megahertz;
  pthread_mutex_t lock;
  u64* ends;  // a heap with the least on top, of workgroups whose place is free again
  u32 n_ends, room, started;
};

u32 resident_groups(const KernelInfo& k, const Launch& l) {
  u32 lds = k.static_lds_bytes + l.dynamic_lds_bytes;
  u32 groups = groups_per_cu(*l.card, k.vgprs, k.sgprs, lds, waves_per_group(l));
  return groups ? groups : 1;  // 0 would be a kernel that could not run, and it is about to
}

LaunchClock* clock_begin(const KernelInfo& k, const Launch& l, u32 groups) {
  LaunchClock* c = (LaunchClock*)calloc(1, sizeof(LaunchClock));
  c->start = c->latest = clock_now();
  c->megahertz = l.card->clock_mhz;
  pthread_mutex_init(&c->lock, nullptr);
  u64 room = (u64)resident_groups(k, l) * l.card->compute_units;
  c->room = room < groups ? room : groups;
  if (room < groups) c->ends = (u64*)calloc(groups, sizeof(u64));
  return c;
}

void clock_end(LaunchClock* c) {
  clock_advance(c->latest);
  pthread_mutex_destroy(&c->lock);
  free(c->ends);
  free(c);
}

u64 clock_group_starts(LaunchClock* c) {
  if (!c->ends) return c->start;
  const Lock locked(c->lock);
  u64 at = c->start;
  if (c->started++ >= c->room) {
    if (c->n_ends) {
      at = c->ends[0];
      u64 moved = c->ends[--c->n_ends];
      u32 i = 0;
      for (u32 child; (child = 2 * i + 1) < c->n_ends; i = child) {
        if (child + 1 < c->n_ends && c->ends[child + 1] < c->ends[child]) child++;
        if (c->ends[child] >= moved) break;
        c->ends[i] = c->ends[child];
      }
      c->ends[i] = moved;
    } else {
      at = c->latest;  // more are live here than the card has room for
    }
  }
  return at;
}

void clock_group_ended(LaunchClock* c, u64 cycles) {
  raise_to(&c->latest, cycles);
  if (!c->ends) return;
  const Lock locked(c->lock);
  u32 i = c->n_ends++;
  for (; i && c->ends[(i - 1) / 2] > cycles; i = (i - 1) / 2) c->ends[i] = c->ends[(i - 1) / 2];
  c->ends[i] = cycles;
}

u64 clock_latest(const LaunchClock* c) { return __atomic_load_n(&c->latest, __ATOMIC_RELAXED); }
void clock_worked(LaunchClock* c, u64 cycles) { raise_to(&c->latest, cycles); }

// --- the others ------------------------------------------------------------------------------------

static Beat* beats;
static Beat* own_beat;
static u64 peers;
static pid_t beat_owner;

// A place that no live process has: what a stranger did there would count as a peer's, whose own it was before.
static Beat* take_beat(pid_t pid) {
  for (u32 i = 0; i < BEATS; i++) {
    Beat& beat = beats[((u32)pid + i) % BEATS];
    u32 owner = __atomic_load_n(&beat.owner, __ATOMIC_RELAXED);
    bool free = !owner || owner == (u32)pid || (kill((pid_t)owner, 0) && errno == ESRCH);
    if (free && __atomic_compare_exchange_n(&beat.owner, &owner, (u32)pid, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return &beat;
  }
  return nullptr;
}

static void find_peers() {
  pid_t pid = getpid();
  if (beat_owner == pid) return;
  const char* name = getenv("CDNA_PEERS");
  peers = 0xcbf29ce484222325ull;
  if (name && *name)
    for (; *name; name++) peers = (peers ^ (u8)*name) * 0x100000001b3ull;
  else peers ^= (u64)getsid(0);
  if (!beats) {
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/cdna-peers-%u", (unsigned)getuid());
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file >= 0) {
      void* at = MAP_FAILED;
      if (!ftruncate(file, sizeof(Beat) * BEATS))
        at = mmap(nullptr, sizeof(Beat) * BEATS, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (at != MAP_FAILED) beats = (Beat*)at;
      close(file);
    }
  }
  own_beat = beats ? take_beat(pid) : nullptr;
  if (own_beat) own_beat->group = peers;
  beat_owner = pid;
}

static u64 what_peers_did() {
  u64 sum = 0;
  for (u32 i = 0; beats && i < BEATS; i++)
    if (&beats[i] != own_beat && beats[i].group == peers) sum += __atomic_load_n(&beats[i].count, __ATOMIC_RELAXED);
  return sum;
}

// --- waiting ---------------------------------------------------------------------------------------

// Seconds of the device's for one of the host's while all waves poll, and no peer works either: a bound of 20 s ends
// after a minute.
static double idle_rate() {
  const char* given = getenv("CDNA_IDLE_CLOCK");
  double rate = given ? atof(given) : 0;
  return rate > 0 ? rate : 1.0 / 3;
}
constexpr double BESIDE_WORKING_PEERS = 1.0 / 20;  // of that rate: the emulator is slow, they may be on their way
constexpr u64 GRACE_NS = 500000000, PEERS_NS = 2000000000, LOOK_NS = 10000000;
// A thread whose waves poll gives its core up, for longer the longer they have, so that ranks that share few cores take
// none from those that compute: it adds an eighth to a wait. A loop that measures looks like one that polls: without
// s_sleep it is slowed down only after a second. To look at all that waits takes milliseconds where thousands of waves
// do: then naps are longer, and a thread that waits takes a tenth of a core.
constexpr u64 AWAKE_NS = 100000, AWAKE_UNSLEPT_NS = 1000000000, NAP_NS = 1000000, LONGEST_NAP_NS = 20000000;
constexpr u64 NAPS_OF_A_LOOK = 9;

static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;
static u64 waiting_since;  // host ns; 0: somebody works
static u64 last_advance, last_look, peers_worked_at, peers_did;

static void let_time_pass(const LaunchClock* c) {
  if (pthread_mutex_trylock(&waiting_lock)) return;
  u64 at = host_ns();  // and no earlier: another thread may have moved the clock further since
  if (!__atomic_load_n(&waiting_since, __ATOMIC_RELAXED)) {
    __atomic_store_n(&waiting_since, at, __ATOMIC_RELAXED);
    last_advance = last_look = peers_worked_at = at;
    peers_did = what_peers_did();
  }
  if (at - last_look >= LOOK_NS) {
    u64 did = what_peers_did();
    if (did != peers_did) peers_worked_at = at;
    peers_did = did;
    last_look = at;
  }
  if (at - waiting_since >= GRACE_NS) {
    static double rate;  // of this process, whose environment is read once
    if (!rate) rate = idle_rate();
    bool beside = peers_worked_at != waiting_since && at - peers_worked_at < PEERS_NS;
    double seconds = (at - last_advance) * 1e-9 * rate * (beside ? BESIDE_WORKING_PEERS : 1);
    __atomic_fetch_add(&passed, (u64)(seconds * c->megahertz * 1e6), __ATOMIC_RELAXED);
  }
  last_advance = at;
  pthread_mutex_unlock(&waiting_lock);
}

// For how long all waves of the process have only polled; 0 while one does more, or there is none.
extern "C" u64 cdna_idle_ns() {
  u64 since = __atomic_load_n(&waiting_since, __ATOMIC_RELAXED);
  return !since || __atomic_load_n(&working, __ATOMIC_RELAXED) ? 0 : host_ns() - since;
}

static void somebody_works() {
  __atomic_fetch_add(&working, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&waiting_since, 0, __ATOMIC_RELAXED);
}

void clock_thread_starts() {
  find_peers();
  somebody_works();
}

void clock_thread_works(Idle& t) {
  if (own_beat) __atomic_fetch_add(&own_beat->count, 1, __ATOMIC_RELAXED);
  if (!t.idle) return;
  t.idle = false;
  somebody_works();
}

void clock_thread_idles(Idle& t, const LaunchClock* c) {
  if (own_beat) __atomic_fetch_add(&own_beat->polls, 1, __ATOMIC_RELAXED);
  if (!t.idle) {
    t.idle = true;
    t.since = host_ns();
    t.used_ns = thread_ns();
    __atomic_fetch_sub(&working, 1, __ATOMIC_RELAXED);
  }
  u64 waited = host_ns() - t.since, look = NAPS_OF_A_LOOK * (thread_ns() - t.used_ns);
  if (!__atomic_load_n(&working, __ATOMIC_RELAXED)) let_time_pass(c);
  if (waited < (t.sleeps ? AWAKE_NS : AWAKE_UNSLEPT_NS)) {
    sched_yield();
  } else {
    const u64 most = look < NAP_NS ? NAP_NS : look < LONGEST_NAP_NS ? look : LONGEST_NAP_NS;
    timespec nap = {0, (long)(waited / 8 < most ? waited / 8 : most)};
    nanosleep(&nap, nullptr);
  }
  t.used_ns = thread_ns();
}

void clock_thread_ends(Idle& t) {
  __atomic_store_n(&waiting_since, 0, __ATOMIC_RELAXED);
  if (!t.idle) __atomic_fetch_sub(&working, 1, __ATOMIC_RELAXED);
}

// --- what waves read -------------------------------------------------------------------------------

void clock_answer(Wave& w) {
  const Inst& in = w.code[w.pc - 1];
  u64 cycles = w.clock + __atomic_load_n(&passed, __ATOMIC_RELAXED);
  w.set_s64(in.dst[0].reg, w.clock_read == READS_CYCLES
                               ? cycles
                               : cycles * w.wg->card->wall_clock_khz / (w.wg->card->clock_mhz * 1000ull));
  w.clock_reads++;
  w.stop = w.clock_reads < POLLING_READS ? RUNNING : YIELDED;
}

// A wait costs the latency of what was issued since the last such wait, as the program is written: where the L2 and the
// scalar cache's L2 path have it. Cards of one instruction set have the same latencies.
static u16* make_costs(const Program& p, const Card& card, bool* reads_clock) {
  u16* costs = (u16*)calloc(p.n_inst + 1, sizeof(u16));
  bool memory = false, lds = false, scalar = false;
  *reads_clock = false;
  for (u32 i = 0; i < p.n_inst; i++) {
    const Inst& in = p.code[i];
    const Facts& facts = op_facts(in.op);
    Cost cost = instruction_cost(in, p.arch_number);
    u32 cycles = cost.cycles > CYCLES_OF_MOST ? cost.cycles : CYCLES_OF_MOST;
    *reads_clock |= facts.does == DOES_TIME;
    switch (cost.unit) {
      case MEMORY_UNIT: memory = true; break;
      case LDS_UNIT: lds = true; break;
      case SCALAR_MEMORY_UNIT: scalar |= facts.does != DOES_TIME; break;
      case WAIT_UNIT: {
        u32 vm = in.offset & 255, lgkm = in.offset >> 8 & 255;
        if (vm == 0 && memory) cycles += card.l2_cycles;
        else if (lgkm == 0 && scalar) cycles += card.scalar_cycles;
        else if (lgkm == 0 && lds) cycles += card.lds_cycles;
        if (vm == 0) memory = false;
        if (lgkm == 0) lds = scalar = false;
        break;
      }
      default: break;
    }
    costs[i] = cycles;
  }
  return costs;
}

const u16* clock_costs(Program& p, const Card& card) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  const Lock locked(lock);
  if (!p.costs_known) {
    bool reads_clock;
    u16* costs = make_costs(p, card, &reads_clock);
    if (reads_clock) p.costs = costs;
    else free(costs);
    p.costs_known = true;
  }
  return p.costs;
}
