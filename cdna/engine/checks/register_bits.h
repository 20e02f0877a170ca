// Bitmaps of registers, and their names, for the checks.
#pragma once
#include "check.h"

static inline u64 span(u32 count) { return count >= 64 ? ~0ull : (1ull << count) - 1; }

// Bits of registers reg, reg+1, ... of a bitmap with a spare word at its end.
static inline u64 bits_at(const u64* map, u32 reg, u32 count) {
  u32 word = reg >> 6, shift = reg & 63;
  u64 x = map[word] >> shift;
  if (shift && shift + count > 64) x |= map[word + 1] << (64 - shift);
  return x & span(count);
}
static inline void set_bits(u64* map, u32 reg, u32 count) {
  u32 word = reg >> 6, shift = reg & 63;
  u64 x = span(count);
  map[word] |= x << shift;
  if (shift && shift + count > 64) map[word + 1] |= x >> (64 - shift);
}
static inline void clear_bit(u64* map, u32 reg) { map[reg >> 6] &= ~(1ull << (reg & 63)); }

static inline const char* register_name(const Touch& t, char* text) {  // text: 24 bytes
  const char* file = t.flags & SCALAR ? "s" : "v";
  const char* special = t.reg < TTMP0 ? "vcc" : t.reg == M0 ? "m0" : t.reg >= EXEC ? "exec" : "ttmp";
  if (t.flags & SCALAR && t.reg >= VCC) snprintf(text, 24, "%s", special);
  else if (t.count > 1) snprintf(text, 24, "%s[%u:%u]", file, t.reg, t.reg + t.count - 1);
  else snprintf(text, 24, "%s%u", file, t.reg);
  return text;
}
