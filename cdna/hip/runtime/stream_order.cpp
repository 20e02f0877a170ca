// What comes before what across streams, for the check of data that one leaves and another reads (the engine's
// check_streams.cpp): for each stream, up to which place the work of each has ended before its next begins.
//
// Work comes behind what is before it on its stream, what that stream has been told to wait for, and what the program's
// threads have waited for: these count as one. Where the order is more than is written here (values in memory that streams
// wait for, events of other processes) nothing is looked for any more.
#include "runtime.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static StreamOrder program;  // what its threads have waited for
static u32 n_numbers;
static bool wanted, lost;

thread_local const WorkOrder* order_of_work;

static void join(StreamOrder& to, const u64* known) {
  for (u32 i = 0; i < MOST_ORDERED; i++)
    if (known[i] > to.known[i]) to.known[i] = known[i];
}

void want_stream_order() { wanted = true; }
void lose_stream_order() { lost = true; }

void order_work(ihipStream_t& q, const List<ihipStream_t*>& before, u64 place, WorkOrder& out) {
  constexpr u64 MOST_PLACES = 1u << (32 - ORDERED_BITS);
  if (!wanted || lost) return;
  pthread_mutex_lock(&lock);
  StreamOrder& o = q.order;
  if (!o.number && n_numbers + 1 < MOST_ORDERED) o.number = ++n_numbers;
  join(o, program.known);
  for (u32 i = 0; i < before.count; i++) join(o, before.items[i]->order.known);
  if (o.number) o.known[o.number] = place;
  memcpy(out.known, o.known, sizeof out.known);
  if (o.number && place < MOST_PLACES) out.work = o.number << (32 - ORDERED_BITS) | (u32)place;
  pthread_mutex_unlock(&lock);
}

void order_after(ihipStream_t& q, const StreamOrder& event) {
  pthread_mutex_lock(&lock);
  join(q.order, event.known);
  pthread_mutex_unlock(&lock);
}
void order_program_after(const u64* known) {
  pthread_mutex_lock(&lock);
  join(program, known);
  pthread_mutex_unlock(&lock);
}

// The kernels that ran lately, by their work.
constexpr u32 KEPT_NAMES = 1024;
static struct {
  u32 work;
  const char* name;
} names[KEPT_NAMES];
static u32 n_names;

void name_work(u32 work, const char* kernel) {
  pthread_mutex_lock(&lock);
  names[n_names++ % KEPT_NAMES] = {work, kernel};
  pthread_mutex_unlock(&lock);
}
const char* work_name(u32 work) {
  for (u32 i = 0; i < KEPT_NAMES; i++)
    if (names[i].work == work && names[i].name) return names[i].name;
  return "a copy, a fill or an earlier kernel";
}
