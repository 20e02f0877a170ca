// Calls that break the runtime's rules. The error that they return is all that a card's runtime says, and programs that
// do not look at it go on with what was there before: where bounds are checked, it is told.
#include "memory/host_memory.h"
#include "run/launch.h"
#include "runtime.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

static volatile bool unasked;  // a call was refused, and the program has asked for no error since

bool alone() {
  static const bool without_python = !dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  return without_python;
}

void tell_refused(const char* format, ...) {
  if (!checks_bounds()) return;
  char text[400];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  say("bounds: a call %s", text);
  unasked = true;
}
static char tried[400];
void tell_unless_asked(const char* format, ...) {
  if (!checks_bounds()) return;
  va_list args;
  va_start(args, format);
  vsnprintf(tried, sizeof tried, format, args);
  va_end(args);
}
void tell_unasked() {
  if (tried[0]) say("%s; the program has not asked for the error", tried);
}
void refused_unseen() { unasked = checks_bounds(); }
void errors_asked() {
  unasked = false;
  tried[0] = 0;
}
bool refused_unasked() { return unasked; }

// --- the host's memory -------------------------------------------------------------------------------

bool is_pageable(const void* p) {
  if (!alone()) return false;  // there tensors on a GPU are the host's memory
  Guard guard;
  return !find_allocation(p) && !program_at((u64)p);
}

// ROCm looks at the pointers and not at the kind; by HIP's rules one that contradicts them may do anything. Memory that both
// sides reach may be called either.
bool has_right_kind(const void* to, const void* from, hipMemcpyKind kind) {
  if (kind > hipMemcpyDeviceToDevice || !checks_bounds() || !alone()) return true;
  const bool to_device = kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice;
  const bool from_device = kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice;
  auto contradicts = [](const void* p, bool device) {
    Guard guard;
    const Allocation* a = find_allocation(p);
    return device ? is_pageable(p) : a && a->type == hipMemoryTypeDevice;
  };
  static const char* const SIDES[] = {"the host's", "a device's"};
  for (bool source : {false, true}) {
    const bool device = source ? from_device : to_device;
    if (!contradicts(source ? from : to, device)) continue;
    say("bounds: by its kind a copy's %s is %s memory, and it is %s", source ? "source" : "destination", SIDES[device],
        SIDES[!device]);
    return !found_fault();
  }
  return true;
}

bool lies_apart(const CopyCall& c) {
  const size_t distance = (size_t)((const u8*)c.to - (const u8*)c.from);
  if (c.height != 1 || c.depth != 1 || !distance || distance + c.width - 1 >= 2 * c.width - 1 || !checks_bounds())
    return true;
  say("bounds: a call copies %zu bytes between places that overlap", c.width);
  return !found_fault();
}

struct Chunk {  // of glibc's heap, before the memory that malloc gives
  size_t before, size_and_flags;
  size_t size() const { return size_and_flags & ~(size_t)7; }
};
constexpr size_t IS_MAPPED = 2, LEAST = 32, ALIGNED = 16;

// Whether the program's malloc is glibc's: others have other chunks.
static bool has_glibcs_heap() {
  Dl_info info;
  return dladdr((const void*)malloc, &info) && info.dli_fname && strstr(info.dli_fname, "/libc.so");
}

// Where the program's heap begins; 0: nobody can tell.
static u64 heap_begins() {
  u64 begins = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  while (maps && !begins && fgets(line, sizeof line, maps))
    if (strstr(line, "[heap]")) begins = strtoull(line, nullptr, 16);
  if (maps) fclose(maps);
  return begins;
}

// Chunks lie side by side, from the heap's begin on.
static size_t room_in_heap(u64 at, u64 begin, u64 end) {
  constexpr u32 MOST = 1 << 20;
  u64 here = begin;
  for (u32 i = 0; i < MOST && here + LEAST <= end; i++) {
    const size_t size = ((const Chunk*)here)->size();
    if (size < LEAST || size % ALIGNED || size > end - here) break;
    const bool is_last = here + size + LEAST > end;  // what no block has been made of yet
    if (at < here + size) return is_last || at < here + sizeof(Chunk) ? SIZE_MAX : here + size + sizeof(size_t) - at;
    here += size;
  }
  return SIZE_MAX;
}

size_t host_block_after(const void* p) {
  if (!checks_bounds() || !alone()) return SIZE_MAX;
  static const bool known = has_glibcs_heap();
  if (!known) return SIZE_MAX;
  static const u64 begin = heap_begins();
  const u64 at = (u64)p, end = (u64)sbrk(0), page = (u64)sysconf(_SC_PAGESIZE);
  if (begin && at >= begin && at < end) return room_in_heap(at, begin, end);
  if (at % page != sizeof(Chunk)) return SIZE_MAX;
  const Chunk* own = (const Chunk*)p - 1;  // a large block has pages of its own
  const bool mapped = !own->before && (own->size_and_flags & 7) == IS_MAPPED && own->size() % page == 0 && own->size();
  return mapped ? own->size() - sizeof(Chunk) : SIZE_MAX;
}

// --- accesses of the host's own ------------------------------------------------------------------------

static struct sigaction before_segv;

// The host goes where nothing is any more, or nothing yet: what lies there is said, and the signal takes its course.
static void on_segv(int number, siginfo_t* info, void*) {
  if (opens_result((u64)info->si_addr)) return;
  char about[200];
  describe_address((u64)info->si_addr, about, sizeof about);
  if (about[0]) say("bounds: the host accesses memory that is not there: %s", about);
  sigaction(number, &before_segv, nullptr);
}
__attribute__((constructor)) static void watch_host() {
  if (!alone()) return;
  (void)cdna_host_apart(true);
  cdna_set_opens(opens_result);
  struct sigaction action;
  memset((void*)&action, 0, sizeof action);
  action.sa_sigaction = on_segv;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, &before_segv);
}
