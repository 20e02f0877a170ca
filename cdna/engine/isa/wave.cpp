// What waves have of the host: memory, its floating-point mode, a place for what went wrong.
#include "host.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void fault(Wave& w, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(w.fault, 256, format, args);
  va_end(args);
  w.stop = FAULTED;
}

u8* allocate(size_t bytes) {
  void* p = nullptr;
  return posix_memalign(&p, 64, bytes ? (bytes + 63) & ~63ull : 64) ? nullptr : (u8*)p;
}

__thread u32 applied_mode = ~0u;

void apply_mode(u32 mode) {
  applied_mode = mode;
  set_float_mode(float_mode_of(mode & 3, !(mode >> 4 & 1), !(mode >> 5 & 1)));  // of f32
}
