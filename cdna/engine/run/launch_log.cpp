// The log of launches and findings: what launch_log.py makes records from.
#include "launch_log.h"
#include "time/caches.h"
#include "time/counters.h"
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static u32 mode = LOG_OFF;
// Recorded steps of launches that nobody has taken; those of later ones are forgotten.
constexpr u64 MOST_STEP_BYTES = 256ull << 20;
static u64 step_bytes = 0;
static u32 (*sampled)(const char* kernel) = nullptr;  // a kernel's SampleKind; null: no sample

template <class T, u32 MOST> struct Log {  // a program that nobody asks must not grow
  T *first, *last;
  u32 length;
  bool add(T* item) {
    pthread_mutex_lock(&lock);
    bool room = length < MOST;
    if (room) {
      (first ? last->next : first) = item;
      last = item;
      length++;
    }
    pthread_mutex_unlock(&lock);
    return room;
  }
  T* take() {
    pthread_mutex_lock(&lock);
    T* taken = first;
    first = last = nullptr;
    length = 0;
    pthread_mutex_unlock(&lock);
    return taken;
  }
};
static Log<LoggedLaunch, 100000> launches;
static Log<LoggedFinding, 10000> findings;

static void release(LoggedLaunch* l) {
  if (l->counters) cdna_counters_destroy(l->counters);
  for (u32 i = 0; i < l->n_inst; i++) free(l->where[i]);
  free(l->where);
  free(l->executed);
  free(l->kernel);
  free(l);
}

extern "C" {

LoggedLaunch* cdna_log_begin(Program* p, u32 kernel, Launch* launch) {
  if (mode == LOG_OFF) return nullptr;
  const KernelInfo& k = p->kernels[kernel];
  LoggedLaunch* l = (LoggedLaunch*)calloc(1, sizeof(LoggedLaunch));
  l->kernel = strdup(k.name);
  l->n_inst = p->n_inst;
  l->executed = (u64*)calloc(p->n_inst, sizeof(u64));
  l->where = (char**)calloc(p->n_inst, sizeof(char*));
  memcpy(l->groups, launch->groups, sizeof l->groups);
  memcpy(l->block, launch->block, sizeof l->block);
  l->lds_bytes = k.static_lds_bytes + launch->dynamic_lds_bytes;
  launch->executed = l->executed;
  if (mode == LOG_COUNTERS)
    launch->observers = l->counters = cdna_counters_create(sampled ? sampled(k.name) : NO_SAMPLE);
  return l;
}

void cdna_log_end(LoggedLaunch* l, Program* p, const Launch* launch) {
  if (!l) return;
  if (launch->status != LAUNCHED) {
    release(l);
    return;
  }
  l->card = launch->card->model;
  if (l->counters &&
      __atomic_add_fetch(&step_bytes, cdna_replay_bytes(l->counters), __ATOMIC_RELAXED) > MOST_STEP_BYTES)
    cdna_replay_forget(l->counters);
  cdna_executed(p, l->card, l->executed, &l->sums);
  for (u32 i = 0; i < l->n_inst; i++)
    if (l->executed[i]) l->where[i] = strdup(p->where[i]);
  if (!launches.add(l)) release(l);
}

void cdna_log_set(u32 new_mode) { mode = new_mode; }
void cdna_log_sample(SampleOf of) { sampled = of; }
// The launches since the last call, in order; each to be freed.
LoggedLaunch* cdna_log_take() {
  __atomic_store_n(&step_bytes, 0, __ATOMIC_RELAXED);
  return launches.take();
}
void cdna_log_free(LoggedLaunch* l) { release(l); }

void cdna_log_free_finding(LoggedFinding* f) {
  free(f->kernel);
  free(f->arch);
  free(f->where);
  free(f->other);
  free(f);
}
void cdna_log_finding(const Program* p, const char* kernel, const Finding* finding) {
  if (mode == LOG_OFF) return;
  LoggedFinding* f = (LoggedFinding*)calloc(1, sizeof(LoggedFinding));
  f->kernel = strdup(kernel);
  f->arch = strdup(p->arch);
  f->where = strdup(p->where[finding->pc]);
  f->other = finding->other_pc == ~0u ? nullptr : strdup(p->where[finding->other_pc]);
  f->finding = *finding;
  if (!findings.add(f)) cdna_log_free_finding(f);
}
void cdna_log_found(const Program* p, u32 kernel, Checks* checks) {
  u32 n;
  const Finding* found = cdna_checks_findings(checks, &n);
  for (u32 i = 0; i < n; i++) cdna_log_finding(p, p->kernels[kernel].readable, &found[i]);
  cdna_checks_free(checks);
}
// The findings since the last call, in order; each to be freed.
LoggedFinding* cdna_log_take_findings() { return findings.take(); }
}
