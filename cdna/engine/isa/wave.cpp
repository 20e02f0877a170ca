// What waves have of the host: memory, its floating-point mode, a place for what went wrong.
#include "core.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <xmmintrin.h>

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
  // MXCSR: flush-to-zero and denormals-are-zero where the kernel flushes f32 denormals; round as MODE says.
  applied_mode = mode;
  static const u32 rounding[4] = {0, 2, 1, 3};  // nearest, +inf, -inf, zero -> MXCSR RC
  u32 csr = 0x1f80 | rounding[mode & 3] << 13;
  if (!(mode >> 4 & 1)) csr |= 0x40;    // input denormals are zero
  if (!(mode >> 5 & 1)) csr |= 0x8000;  // output denormals are zero
  _mm_setcsr(csr);
}
