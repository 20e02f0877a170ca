// What comes before what across streams, for the check of data that one leaves and another reads (the engine's
// memory/stream_work.h): for each stream, up to which place the work of each has ended before its next begins.
//
// Work comes behind what is before it on its stream, what that stream has been told to wait for, and what the program's
// threads have waited for: these count as one. Of a graph with branches each is as a stream of its own. Where the order is
// more than is written here (values in memory that streams wait for, events of other processes) nothing is looked for.
#include "runtime.h"
#include "isa/lock.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static StreamOrder program;                     // what its threads have waited for
static u32 n_numbers, stream_of[MOST_STREAMS];  // of a branch's number: its stream's
static bool wanted, lost;

thread_local const WorkOrder* order_of_work;

static void join(StreamOrder& to, const u64* known) {
  for (u32 i = 0; i < MOST_STREAMS; i++)
    if (known[i] > to.known[i]) to.known[i] = known[i];
}

void want_stream_order() { wanted = true; }
void lose_stream_order() {
  lost = true;
  forget_results(nullptr, SIZE_MAX);  // nobody knows any more when they are there
  forget_pinned_reads(nullptr, SIZE_MAX);
}

constexpr u64 MOST_PLACES = 1u << WORK_PLACE_BITS, STEPS = 256;  // of a branch: what is behind counts as the last
static u64 place_of_step(u64 place, u64 step) { return place * STEPS + (step < STEPS ? step : STEPS - 1); }

void order_work(ihipStream_t& q, const List<ihipStream_t*>& before, u64 place, u32 branches, WorkOrder& out) {
  if (branches) wanted = true;
  if (!wanted || lost) return;
  const Lock locked(lock);
  StreamOrder& o = q.order;
  if (!o.number && n_numbers + 1 < MOST_STREAMS) o.number = ++n_numbers;
  join(o, program.known);
  for (u32 i = 0; i < before.count; i++) join(o, before.items[i]->order.known);
  if (o.number) o.known[o.number] = place;
  memcpy(out.known, o.known, sizeof out.known);
  for (u32 i = q.n_branches; i < branches && i < MOST_BRANCHES && n_numbers + 1 < MOST_STREAMS; i++) {
    stream_of[++n_numbers] = o.number;
    q.branches[q.n_branches++] = n_numbers;
  }
  for (u32 i = 0; branches && i < q.n_branches; i++) o.known[q.branches[i]] = place_of_step(place, STEPS);
  if (branches) {
    out.branches = q.branches;
    out.n_branches = q.n_branches;
    out.place = place;
  }
  if (o.number && place < MOST_PLACES) out.work = o.number << WORK_PLACE_BITS | (u32)place;
}

u32 order_step(const WorkOrder& graph, u32 branch, u32 step, u64* known) {
  if (branch >= graph.n_branches || place_of_step(graph.place, STEPS) >= MOST_PLACES) return 0;
  const u32 number = graph.branches[branch];
  known[number] = place_of_step(graph.place, step);
  return number << WORK_PLACE_BITS | (u32)known[number];
}

const char* beside(u32 work, u32 other) {
  const u32 mine = stream_of[work >> WORK_PLACE_BITS];
  return mine && mine == stream_of[other >> WORK_PLACE_BITS]
             ? "in another branch of a graph, and no edge is between the two"
             : "on another stream, and no event or wait is between the two";
}

void order_after(ihipStream_t& q, const StreamOrder& event) {
  const Lock locked(lock);
  join(q.order, event.known);
}
void order_program_after(const u64* known, bool has_called) {
  results_end(known);
  if (pinned_reads_end(known, has_called)) found_fault();
  const Lock locked(lock);
  join(program, known);
}

// The kernels that ran lately, by their work.
constexpr u32 KEPT_NAMES = 1024;
static struct {
  u32 work;
  const char* name;
} names[KEPT_NAMES];
static u32 n_names;

void name_work(u32 work, const char* kernel) {
  const Lock locked(lock);
  names[n_names++ % KEPT_NAMES] = {work, kernel};
}
const char* work_name(u32 work) {
  for (u32 i = 0; i < KEPT_NAMES; i++)
    if (names[i].work == work && names[i].name) return names[i].name;
  return "a copy, a fill or an earlier kernel";
}
