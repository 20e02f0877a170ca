// Events between processes: how often an event was recorded, and how many of these have happened, in memory that both map.
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime.h"

struct SharedEvent {
  u64 issued, happened;
};
constexpr u32 EVENTS = 4096;  // of a process at a time
constexpr size_t FILE_BYTES = sizeof(SharedEvent) * EVENTS;

struct EventFile {
  u64 inode;
  SharedEvent* events;  // never unmapped: a queue may still wait for one
};
static int own_file = -1;
static pid_t own_process;
static EventFile own;
static u32 n_used;
static List<u32> unused;
static List<EventFile> foreign;

static bool map_file(int file, EventFile& out) {
  struct stat state;
  if (fstat(file, &state) || (size_t)state.st_size != FILE_BYTES) return false;
  void* p = mmap(nullptr, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  out = {(u64)state.st_ino, (SharedEvent*)p};
  return p != MAP_FAILED;
}

// A forked child has its parent's events, and makes its own in a file of its own.
static bool open_own_file() {
  if (own_file >= 0 && own_process == getpid()) return true;
  own_file = memfd_create("cdna-events", MFD_CLOEXEC);
  own_process = getpid();
  n_used = 0;
  unused.clear();
  return own_file >= 0 && !ftruncate(own_file, FILE_BYTES) && map_file(own_file, own);
}

static bool made_here(const ihipEvent_t& e) {
  return e.shared && own_process == getpid() && e.shared >= own.events && e.shared < own.events + EVENTS;
}

bool share_event(ihipEvent_t& e) {
  Guard guard;
  if (!open_own_file() || (!unused.count && n_used == EVENTS)) return false;
  u32 number = unused.count ? unused[unused.count - 1] : n_used++;
  if (unused.count) unused.remove(unused.count - 1);
  e.shared = own.events + number;
  memset((void*)e.shared, 0, sizeof *e.shared);
  return true;
}

void unshare_event(ihipEvent_t& e) {
  if (made_here(e)) unused.push((u32)(e.shared - own.events));
}

u64 issue_shared(ihipEvent_t& e) { return e.shared ? __atomic_add_fetch(&e.shared->issued, 1, __ATOMIC_SEQ_CST) : 0; }
void shared_happened(ihipEvent_t& e, u64 number) {
  if (!e.shared) return;
  u64 before = __atomic_load_n(&e.shared->happened, __ATOMIC_SEQ_CST);
  while (before < number && !__atomic_compare_exchange_n(&e.shared->happened, &before, number, false, __ATOMIC_SEQ_CST,
                                                         __ATOMIC_SEQ_CST)) {}
}
// As an operation that waits until what was issued last has happened.
Operation shared_wait(ihipEvent_t& e) {
  Operation o = operation(DO_WAIT_VALUE);
  u64 issued = __atomic_load_n(&e.shared->issued, __ATOMIC_SEQ_CST);
  o.value = {&e.shared->happened, issued, ~0ull, 8, hipStreamWaitValueGte};
  return o;
}

struct EventHandle {
  u64 magic, inode;
  i32 process, file;
  u32 number, where;
};
static_assert(sizeof(EventHandle) <= HIP_IPC_HANDLE_SIZE, "");
constexpr u64 EVENT_MAGIC = 0x31455049414e4443ull;  // "CDNAIPE1"

extern "C" {
hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t* handle, hipEvent_t e) {
  ENTER;
  if (!handle || !known_event(e)) return done(hipErrorInvalidValue);
  Guard guard;
  if (!made_here(*e)) return done(hipErrorInvalidConfiguration);
  EventHandle h = {EVENT_MAGIC, own.inode, own_process, own_file, (u32)(e->shared - own.events), 0};
  if (!lend(own_file, &h.where)) return done(hipErrorOutOfMemory);
  memset(handle, 0, sizeof *handle);
  memcpy(handle, &h, sizeof h);
  return done(hipSuccess);
}

hipError_t hipIpcOpenEventHandle(hipEvent_t* out, hipIpcEventHandle_t handle) {
  ENTER;
  EventHandle h;
  memcpy(&h, &handle, sizeof h);
  if (!out || h.magic != EVENT_MAGIC || h.number >= EVENTS) return done(hipErrorInvalidValue);
  if (h.process == getpid()) return done(hipErrorInvalidContext);
  Guard guard;
  EventFile file = {0, nullptr};
  for (const EventFile& f : foreign)
    if (f.inode == h.inode) file = f;
  if (!file.events) {
    int descriptor = borrow(h.file, h.where);
    bool mapped = descriptor >= 0 && map_file(descriptor, file) && file.inode == h.inode;
    if (!mapped) say("hipIpcOpenEventHandle: no events from process %d: %s", h.process, strerror(errno));
    if (descriptor >= 0) close(descriptor);
    if (!mapped) return done(hipErrorMapFailed);
    foreign.push(file);
  }
  hipError_t error = hipEventCreateWithFlags(out, hipEventDisableTiming);
  if (error == hipSuccess) (*out)->shared = file.events + h.number;
  return error;
}
}
