// Which instructions access memory with scalar registers.
#pragma once
#include "core.h"
#include "names.h"

// Scalar loads, stores and atomics, by name, and how many bytes one moves.
static inline bool scalar_memory(const char* n) {
  static const char* const STARTS[] = {"s_load", "s_store", "s_buffer_", "s_scratch_", "s_atomic_"};
  for (const char* start : STARTS)
    if (starts(n, start)) return true;
  return false;
}
static inline u32 scalar_memory_bytes(const char* n) {
  return has(n, "x16") ? 64 : has(n, "x8") ? 32 : has(n, "x4") ? 16 : has(n, "x2") ? 8 : 4;
}
