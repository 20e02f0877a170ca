// Queues: work runs in the call that asks for it, unless it comes to wait for something.
//
// A launch that ends is waited for in the call itself, so a program's results do not depend on timing. One whose waves
// only poll any more, or that takes longer than a second, is left to its queue's thread and the call returns: what it
// waits for may be the host, or a launch on another queue. From then on the queue is as asynchronous as a card's: what
// is put behind it waits, in order; the null queue and those that block wait for each other; events, queries and
// synchronising calls tell and wait. Where CDNA_DETACH is not set (in Python, where tensors are used as soon as a call
// returns) every call waits.
#include "runtime.h"
#include <dirent.h>
#include <sched.h>
#include <time.h>
#include "run/launch.h"
#include "time/device_clock.h"
#include "isa/lock.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static List<ihipStream_t*> queues;  // that have ever had work
static u32 detached;                // operations that their calls have left behind
static u32 n_threads;               // of queues
static u32 waiting;                 // threads of the program's that wait for work to end
static u32 busy;                    // queues that run something other than kernels
static u64 acted_ns;                // when `waiting` or `busy` changed last

struct Need {
  ihipStream_t* queue;
  u64 ticket;
};
struct Pending {
  Operation operation;
  List<Need> needs;
  hipStream_t handle;
  u64 ticket;
  bool started, finished, left_behind;
  hipError_t result;
  WorkOrder order;
};

constexpr u64 PATIENCE_NS = 20000000, LONG_NS = 1000000000, TELL_NS = 30000000000ull;

bool may_detach() {
  static int known = -1;
  if (known < 0) known = getenv("CDNA_DETACH") != nullptr;
  return known;
}

static u64 now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static void wait_a_moment() {  // under the lock
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 2000000;
  if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
  pthread_cond_timedwait(&changed, &lock, &until);
}

// A small launch takes less time than its caller and its queue's thread need to wake each other: before they sleep, each
// looks for the other this long. Not under the lock.
constexpr u64 LOOK_NS = 20000;
template <class T>
static void look_for(const T& flag) {
  for (u64 began = now_ns(); !__atomic_load_n(&flag, __ATOMIC_ACQUIRE) && now_ns() - began < LOOK_NS;) {}
}

static void change(u32& count, int by) {  // under the lock
  count += by;
  acted_ns = now_ns();
}

static bool blocks(OperationKind kind) {
  return kind == DO_KERNEL || kind == DO_GRAPH || kind == DO_HOST || kind == DO_WAIT_VALUE;
}
static bool met(const Pending& p, const ihipStream_t& q) {
  if (q.completed + 1 < p.ticket) return false;
  for (u32 i = 0; i < p.needs.count; i++)
    if (p.needs.items[i].queue->completed < p.needs.items[i].ticket) return false;
  return true;
}

hipError_t run_counted(hipStream_t handle, const Operation& o) {
  if (o.kind == DO_KERNEL || o.kind == DO_GRAPH)
    return run_operation(handle, o);  // a graph's nodes come here one by one
  pthread_mutex_lock(&lock);
  change(busy, 1);
  pthread_mutex_unlock(&lock);
  hipError_t result = run_operation(handle, o);
  pthread_mutex_lock(&lock);
  change(busy, -1);
  pthread_mutex_unlock(&lock);
  return result;
}

static void want(ihipStream_t& q, u64 ticket) {
  if (q.wanted >= ticket) return;
  q.wanted = ticket;
  pthread_cond_broadcast(&changed);
}

// Whether a queue's next work may run. What it needs is waited for, once it is itself.
static bool may_run(ihipStream_t& q) {  // under the lock
  if (!q.pending.count || (is_late(q) && q.wanted < q.pending[0]->ticket)) return false;
  for (const Need& need : q.pending[0]->needs) want(*need.queue, need.ticket);
  return met(*q.pending[0], q);
}

static thread_local const ihipStream_t* serving;  // whose work this thread runs

static void* serve(void* argument) {
  ihipStream_t& q = *(ihipStream_t*)argument;
  serving = &q;
  (void)hipSetDevice(q.device);
  pthread_mutex_lock(&lock);
  while (true) {
    if (!q.pending.count) {
      pthread_mutex_unlock(&lock);
      look_for(q.pending.count);
      pthread_mutex_lock(&lock);
    }
    while (!may_run(q)) pthread_cond_wait(&changed, &lock);
    Pending* p = q.pending[0];
    q.pending.remove(0);
    p->started = true;
    pthread_mutex_unlock(&lock);
    order_of_work = &p->order;
    if (p->operation.kind == DO_HOST)
      (void)pinned_reads_end(p->order.known, false);  // the host's function knows of them
    if (p->operation.kind != DO_RECORD) device_work_begins();
    hipError_t result = check_moves(p->operation, p->order);
    if (result == hipSuccess) result = run_counted(p->handle, p->operation);
    if (p->operation.kind != DO_RECORD) device_work_ends();
    order_of_work = nullptr;
    if (p->operation.kind == DO_HOST) order_program_after(p->order.known, false);
    release_operation(p->operation);
    p->needs.release();
    pthread_mutex_lock(&lock);
    q.completed = p->ticket;
    p->result = result;
    p->finished = true;
    if (p->left_behind) {
      if (result != hipSuccess && q.error == hipSuccess) q.error = result;
      detached--;
      free((void*)p);
    }
    pthread_cond_broadcast(&changed);
  }
  return nullptr;
}

// What an operation on the queue has to wait for, as HIP has it for the null queue and those that block; and its order.
static void add_needs(ihipStream_t& q, List<Need>& needs, u64 place, u32 branches, WorkOrder& order) {
  bool null_queue = is_null_queue(q);
  List<ihipStream_t*> before;
  for (ihipStream_t* other : queues) {
    if (other == &q || other->device != q.device) continue;
    bool concerns = null_queue ? !(other->flags & hipStreamNonBlocking) : is_null_queue(*other);
    if (!concerns || q.flags & hipStreamNonBlocking) continue;
    before.push(other);
    if (other->completed != other->issued) needs.push({other, other->issued});
  }
  order_work(q, before, place, branches, order);
  before.release();
}

// Whether the call should leave the operation to its queue.
static bool comes_to_wait(const Pending& p, const ihipStream_t& q, u64 waited_ns) {
  if ((detached && !p.started) || is_late(q)) return true;
  if (waited_ns > LONG_NS) return true;
  return waited_ns > PATIENCE_NS && (cdna_idle_ns() > PATIENCE_NS || p.operation.kind == DO_WAIT_VALUE);
}

hipError_t enqueue(ihipStream_t& q, hipStream_t handle, const Operation& o, ihipStream_t* after, u64 after_ticket,
                   u64* ticket) {
  if (!may_detach()) return run_operation(handle, o);
  Pending* p = make<Pending>();
  p->handle = handle;
  p->operation = copy_of(o);
  const u32 branches = o.kind == DO_GRAPH && looks_for_races() ? branches_of(o.graph) : 0;
  pthread_mutex_lock(&lock);
  if (!queues.contains(&q)) queues.push(&q);
  p->ticket = ++q.issued;
  if (ticket) *ticket = p->ticket;
  add_needs(q, p->needs, p->ticket, branches, p->order);
  if (o.kind == DO_WAIT_VALUE) lose_stream_order();
  if (after && after->completed < after_ticket) p->needs.push({after, after_ticket});
  hipError_t result;
  if (met(*p, q) && !blocks(o.kind) && !is_late(q)) {
    pthread_mutex_unlock(&lock);
    if (o.kind != DO_RECORD) device_work_begins();
    result = check_moves(o, p->order);
    if (result == hipSuccess) result = run_operation(handle, o);
    if (o.kind != DO_RECORD) device_work_ends();
    pthread_mutex_lock(&lock);
    q.completed = p->ticket;
    p->needs.release();
    free((void*)p);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return result;
  }
  q.pending.push(p);
  if (!q.has_thread) {
    q.has_thread = true;
    n_threads++;
    pthread_t thread;
    pthread_create(&thread, nullptr, serve, &q);
    pthread_detach(thread);
  }
  pthread_cond_broadcast(&changed);
  u64 began = now_ns();
  pthread_mutex_unlock(&lock);
  look_for(p->finished);
  pthread_mutex_lock(&lock);
  while (!p->finished && !comes_to_wait(*p, q, now_ns() - began)) wait_a_moment();
  result = p->finished ? p->result : hipSuccess;
  if (p->finished) {
    free((void*)p);
  } else {
    p->left_behind = true;
    detached++;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

static hipError_t first_error(ihipStream_t& q) {
  hipError_t error = q.error;
  q.error = hipSuccess;
  return device_lost != hipSuccess ? device_lost : error;
}

bool is_done(ihipStream_t* q, u64 ticket) {
  if (q) want(*q, ticket);
  return !q || q->completed >= ticket;
}

// Whether a queue's work waits for the host function that this thread runs.
static bool needs_own_end(const ihipStream_t& q) {
  if (!serving || &q == serving) return serving;
  for (u32 i = 0; q.pending.count && i < q.pending.items[0]->needs.count; i++)
    if (q.pending.items[0]->needs.items[i].queue == serving) return true;
  return false;
}

static void wait_until(ihipStream_t& q, u64 ticket) {  // under the lock
  static bool told = false;
  if (q.completed < ticket && needs_own_end(q)) {
    say("deadlock: a host function waits for work that comes behind it: on its stream, or on one that waits for that");
    if (found_fault()) return;
  }
  change(waiting, 1);
  want(q, ticket);
  for (u64 began = now_ns(); q.completed < ticket; wait_a_moment()) {
    if (told || now_ns() - began < TELL_NS || cdna_idle_ns() < TELL_NS) continue;
    told = true;
    say("note: the program has waited for half a minute for kernels all of whose waves poll: for what they wait nobody "
        "may come");
  }
  change(waiting, -1);
}

hipError_t wait_for(ihipStream_t* q, u64 ticket) {
  if (!may_detach() || !q) return device_lost;
  const Lock locked(lock);
  wait_until(*q, ticket);
  hipError_t error = first_error(*q);
  return error;
}

hipError_t wait_for_queue(ihipStream_t& q) {
  if (!may_detach()) return device_lost;
  const Lock locked(lock);
  List<Need> needs;
  WorkOrder order = {};
  add_needs(q, needs, q.issued, 0, order);
  wait_until(q, q.issued);
  order_program_after(order.known);
  for (u32 i = 0; i < needs.count; i++) wait_until(*needs[i].queue, needs[i].ticket);
  needs.release();
  hipError_t error = first_error(q);
  return error;
}

hipError_t wait_for_device(int device) {
  if (!may_detach()) return device_lost;
  hipError_t error = hipSuccess;
  const Lock locked(lock);
  for (u32 i = 0; i < queues.count; i++) {
    if (queues[i]->device != device) continue;
    wait_until(*queues[i], queues[i]->issued);
    order_program_after(queues[i]->order.known);
    hipError_t of_queue = first_error(*queues[i]);
    if (error == hipSuccess) error = of_queue;
  }
  return error;
}
void wait_for_all() {
  for (int i = 0; i < device_count(); i++) (void)wait_for_device(i);
}

// All threads of this process, whoever started them.
static u32 count_threads() {
  DIR* folder = opendir("/proc/self/task");
  if (!folder) return ~0u;
  u32 n = 0;
  while (dirent* entry = readdir(folder)) n += entry->d_name[0] != '.';
  closedir(folder);
  return n;
}

// In Python, where calls wait, nobody can tell: libraries have threads of their own.
bool program_may_act() {
  if (!may_detach()) return true;
  const Lock locked(lock);
  u32 threads_of_program = count_threads() - n_threads - lender_threads() - cdna_worker_threads();
  bool may = busy || threads_of_program > waiting || now_ns() - acted_ns < LONG_NS;
  return may;
}

bool queue_is_done(ihipStream_t& q) {
  const Lock locked(lock);
  want(q, q.issued);
  bool is = q.completed == q.issued;
  if (is) order_program_after(q.order.known);
  return is;
}

void order_event(ihipStream_t& q, ihipEvent_t& e) {
  const Lock locked(lock);
  memcpy((void*)&e.order, (const void*)&q.order, sizeof e.order);
}

// A queue that the program destroys: false while work is left, and then it must stay where it is.
bool forget_queue(ihipStream_t& q) {
  const Lock locked(lock);
  bool idle = q.completed == q.issued && !q.has_thread;
  order_program_after(q.order.known);
  if (idle) queues.drop(&q);
  return idle;
}
