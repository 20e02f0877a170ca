// Which streams' work has written and read each dword of an allocation last; see stream_work.cpp.
#pragma once
#include "registry.h"

// Work: the number of its stream above, its place there below. 0: not said.
constexpr u32 STREAM_BITS = 6, MOST_STREAMS = 1u << STREAM_BITS, WORK_PLACE_BITS = 32 - STREAM_BITS;
// known: per stream, up to which place its work has ended before what comes now.
static inline bool has_ended(u32 work, const u64* known) {
  return known[work >> WORK_PLACE_BITS] >= (work & ((1u << WORK_PLACE_BITS) - 1));
}
void keep_owners(MemoryRange& r);
void drop_owners(MemoryRange& r);
void note_writer(const MemoryRange& r, u64 from, u64 to, u32 work, const u64* known);  // it has written from..to
void note_work(u32* works, const MemoryRange& r, u64 from, u64 to, u32 work);
// One of `works` that nothing orders before this work; 0: none.
u32 unordered(const u32* works, const MemoryRange& r, u64 from, u64 to, u32 work, const u64* known);
