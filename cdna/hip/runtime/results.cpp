// What copies and kernels leave in memory that the host reaches too, and that it must not look at before it has waited for
// them. Here they are done when their call returns, and a card may still be at them: so the pages that hold nothing else are
// closed to the host meanwhile, and who goes there is told, and let in. Work of the device's finds them open.
#include "runtime.h"
#include "isa/lock.h"
#include <sys/mman.h>

struct Result {
  u8* from;  // whole pages
  size_t bytes;
  u32 work;  // see stream_order.cpp
  bool closed;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static List<Result> results;
static u32 at_work;                // operations that run
static thread_local u32 own_work;  // of them on this thread
constexpr u32 MOST = 32;
constexpr u64 PAGE = 4096;

static void set_closed(bool closed) {  // under the lock
  for (Result& r : results)
    if (r.closed != closed && !mprotect(r.from, r.bytes, closed ? PROT_NONE : PROT_READ | PROT_WRITE))
      r.closed = closed;
}

void device_work_begins() {
  own_work++;
  const Lock locked(lock);
  at_work++;
  set_closed(false);
}
void device_work_ends() {
  own_work--;
  const Lock locked(lock);
  if (!--at_work) set_closed(true);
}

// Pages of the allocation of which these bytes are all that it has there.
void note_result(const void* to, size_t bytes, u32 work) {
  Guard guard;
  const Allocation* a = find_allocation(to);
  if (!a || a->type == hipMemoryTypeDevice || a->registered || a->mapped || a->imported || a->exported) return;
  const u64 first = (u64)to, last = first + bytes, end = (u64)a->base + a->bytes;
  const u64 from = first == (u64)a->base ? first / PAGE * PAGE : (first + PAGE - 1) / PAGE * PAGE;
  const u64 until = last == end ? (last + PAGE - 1) / PAGE * PAGE : last / PAGE * PAGE;
  if (from >= until) return;
  const Lock locked(lock);
  if (results.count < MOST) results.push({(u8*)from, until - from, work, false});
}

template <class Ends>
static bool drop(Ends ends) {
  bool any = false;
  const Lock locked(lock);
  set_closed(false);
  for (u32 i = results.count; i-- > 0;)
    if (ends(results[i])) results.remove(i), any = true;
  if (!at_work) set_closed(true);
  return any;
}

void results_end(const u64* known) {
  if (results.count) (void)drop([&](const Result& r) { return has_ended(r.work, known); });
}
void forget_results(const void* from, size_t bytes) {
  if (results.count)
    (void)drop([&](const Result& r) { return r.from < (const u8*)from + bytes && (const u8*)from < r.from + r.bytes; });
}

bool opens_result(u64 address) {
  const bool found = results.count && drop([&](const Result& r) { return address - (u64)r.from < r.bytes; });
  if (!found || own_work) return found;
  say("race: the host accesses memory at 0x%llx that work of the device's may still write: it has not waited for its "
      "stream or an event behind it",
      (unsigned long long)address);
  (void)found_fault();
  return true;
}
