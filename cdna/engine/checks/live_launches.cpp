// Where the waves of the launches under way are, and what they wait for.
//
// Another thread, or a signal's handler, looks at waves that run meanwhile: it may find one a few instructions further.
#include "live_launches.h"
#include "isa/lock.h"
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LiveLaunch* launches;

void live_begins(LiveLaunch* l) {
  const Lock locked(lock);
  l->next = launches;
  launches = l;
}

void live_ends(LiveLaunch* l) {
  const Lock locked(lock);
  for (LiveLaunch** at = &launches; *at; at = &(*at)->next)
    if (*at == l) {
      *at = l->next;
      break;
    }
}

void live_thread_ends(LiveThread& t) {
  const Lock locked(lock);
  t.n = 0;
}

const LiveLaunch* live_launch(const Launch* launch) {
  for (const LiveLaunch* l = launches; l; l = l->next)
    if (l->launch == launch) return l;
  return nullptr;
}

namespace {
struct Text {
  char* at;
  u32 size, used;
};
struct Place {  // of waves that do the same at one line
  const char* line;
  u32 line_length, waves, pc, group, wave, missing;
  u64 polled;
  bool at_barrier, runs;
};
}  // namespace
constexpr u32 MOST_PLACES = 12;
constexpr u32 LOOKS = 2;  // at what it has looked at before, and at nothing else: from then on a wave polls

__attribute__((format(printf, 2, 3))) static void add(Text& t, const char* format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(t.used < t.size ? t.at + t.used : nullptr, t.used < t.size ? t.size - t.used : 0, format, args);
  va_end(args);
  if (n > 0) t.used += (u32)n;
}

// "file:line" of an instruction's text, "`...` (file:line)".
static const char* line_of(const char* where, u32& length) {
  const char* open = nullptr;
  for (const char* c = where; *c; c++)
    if (c[0] == '(' && c > where && c[-1] == ' ') open = c + 1;
  length = open ? (u32)strlen(open) - 1 : 0;
  return open ? open : where;
}

static void find_place(const LiveLaunch& l, const Workgroup& g, const Wave& w, Place& p) {
  const WaveCheck* checked = g.check ? &g.check->waves[w.id] : nullptr;
  p = {};
  p.waves = 1;
  p.group = g.linear_id;
  p.wave = w.id;
  p.at_barrier = w.stop == AT_BARRIER;
  p.pc = w.pc && (p.at_barrier || w.stop == YIELDED) ? w.pc - 1 : w.pc;
  if (!p.at_barrier && checked && checked->polled) {
    p.pc = checked->polled_pc;
    const bool goes_round = checked->spins || checked->repeats >= LOOKS;
    if (goes_round && g.check->checks->table[p.pc].kind != VM_STORE) p.polled = checked->polled;
  }
  p.runs = !p.at_barrier && !p.polled && w.stop == RUNNING && !(checked && checked->spins);
  if (p.pc >= l.program->n_inst) p.pc = l.program->n_inst - 1;
  p.missing = g.n_waves - g.n_ended - g.n_at_barrier;
  p.line = line_of(l.program->where[p.pc], p.line_length);
}

static u64 times_there(const LiveLaunch& l, u32 pc) {
  u64 n = 0;
  for (u32 i = 0; i < l.n_threads; i++) n += l.threads[i].executed[pc];
  return n;
}

static void add_polled(Text& t, const LiveLaunch& l, u64 address) {
  add(t, " polls 0x%llx", (unsigned long long)address);
  const Checks* c = l.launch->checks;
  for (u32 i = 0; c && i < c->n_ranges; i++)
    if (address >= c->ranges[i].base && address < c->ranges[i].end && !c->ranges[i].freed) {
      add(t, ", byte %llu of %s", (unsigned long long)(address - c->ranges[i].base), c->ranges[i].name);
      return;
    }
}

u32 describe_waits(const LiveLaunch& l, char* text, u32 size, const char* before) {
  Text t = {text, size, 0};
  Place places[MOST_PLACES];
  u32 n_places = 0, elsewhere = 0, live = 0;
  bool any_runs = false;
  if (size) text[0] = 0;
  for (u32 i = 0; i < l.n_threads; i++)
    for (u32 k = 0; k < l.threads[i].n; k++) {
      const Workgroup& g = *l.threads[i].groups[k];
      live++;
      for (u32 q = 0; q < g.n_waves; q++) {
        if (g.waves[q].stop == ENDED) continue;
        Place p;
        find_place(l, g, g.waves[q], p);
        any_runs |= p.runs;
        u32 at = 0;
        while (at < n_places && (places[at].at_barrier != p.at_barrier || places[at].line_length != p.line_length ||
                                 memcmp(places[at].line, p.line, p.line_length)))
          at++;
        if (at < n_places) {
          p.waves += places[at].waves;
          if (p.polled && !places[at].polled) places[at] = p;  // who polls stands for those that wait for its result
          else places[at].waves = p.waves;
        } else if (n_places < MOST_PLACES) places[n_places++] = p;
        else elsewhere++;
      }
    }
  u32 started = *l.next_group < l.total ? *l.next_group : l.total;
  if (started < l.total && l.room && live >= l.room && !any_runs)
    add(t,
        "%sthe card has room for %u workgroups of this kernel at once, and those that run wait for some of the %u that "
        "cannot start",
        before, l.room, l.total - started);
  for (u32 i = 0; i < n_places; i++) {
    const Place& p = places[i];
    add(t, "%sworkgroup %u wave %u", before, p.group, p.wave);
    if (p.waves > 1) add(t, " and %u more", p.waves - 1);
    if (p.at_barrier) add(t, " wait at a barrier for %u of the workgroup's waves,", p.missing);
    else if (p.polled) add_polled(t, l, p.polled), add(t, ",");
    else add(t, " run,");
    add(t, " at %s, executed %llu times", l.program->where[p.pc], (unsigned long long)times_there(l, p.pc));
  }
  if (elsewhere) add(t, "%sand %u waves elsewhere", before, elsewhere);
  return t.used;
}

static bool take_lock() {
  for (u32 tries = 0; pthread_mutex_trylock(&lock); tries++) {  // a signal may have come to who holds it
    if (tries == 1000) return false;
    usleep(100);
  }
  return true;
}

extern "C" u32 cdna_waits(char* text, u32 size) {
  Text t = {text, size, 0};
  if (!take_lock()) return 0;
  if (size) text[0] = 0;
  for (const LiveLaunch* l = launches; l; l = l->next) {
    char about[2048];
    describe_waits(*l, about, sizeof about, "\n  ");
    u32 started = *l->next_group < l->total ? *l->next_group : l->total, running = 0;
    for (u32 i = 0; i < l->n_threads; i++) running += l->threads[i].n;
    add(t, "%s%s on %s: %u of %u workgroups have ended%s", t.used ? "\n" : "", l->kernel->readable, l->program->arch,
        started - running, l->total, about);
  }
  pthread_mutex_unlock(&lock);
  return t.used;
}

extern "C" u32 cdna_cancel() {
  u32 n = 0;
  if (!take_lock()) return 0;
  for (LiveLaunch* l = launches; l; l = l->next) {
    u32 under_way = LAUNCHED;
    n += __atomic_compare_exchange_n(&l->launch->status, &under_way, LAUNCH_CANCELLED, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
  }
  pthread_mutex_unlock(&lock);
  return n;
}

static struct sigaction previous[65];
static volatile u32 ends_at_interrupt;

static void on_request(int number, siginfo_t* info, void* context) {
  static char text[8192];
  u32 used = cdna_waits(text, sizeof text - 1);
  if (used) {
    if (used > sizeof text - 2) used = sizeof text - 2;
    text[used] = '\n';
    for (u32 from = 0; from < used + 1;) {
      ssize_t n = write(2, text + from, used + 1 - from);
      if (n <= 0) break;
      from += (u32)n;
    }
  }
  if (number == SIGINT && ends_at_interrupt) cdna_cancel();
  const struct sigaction& before = previous[number];
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler == SIG_DFL) {
    signal(number, SIG_DFL);
    raise(number);
  } else if (before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  }
}

// A signal that the process ignores stays ignored; a handler that comes later takes ours away.
static void take_signal(int number) {
  struct sigaction ours;
  sigaction(number, nullptr, &previous[number]);
  if (!(previous[number].sa_flags & SA_SIGINFO) && previous[number].sa_handler == SIG_IGN) return;
  memset(&ours, 0, sizeof ours);
  ours.sa_sigaction = on_request;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(number, &ours, nullptr);
}

void waits_at_signals() {
  static const int NUMBERS[] = {SIGABRT, SIGTERM, SIGINT};
  for (int number : NUMBERS) take_signal(number);
}

// Python's handler of SIGINT only makes a note: what it interrupts would go on to its end. asyncio and others set the
// same handler anew, which is seen here, before each launch; another one may call ours, and is left alone.
extern "C" void cdna_end_at_interrupt(u32 ends) {
  struct sigaction now;
  ends_at_interrupt = ends;
  sigaction(SIGINT, nullptr, &now);
  if (ends && now.sa_handler == previous[SIGINT].sa_handler) take_signal(SIGINT);
}
