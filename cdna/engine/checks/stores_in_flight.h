// Accesses between their check and their end.
//
// Another worker thread's store of the same value, checked in that moment, finds the old value still there and so seems to
// change it: it waits here for those, or compares itself with them.
//
// Atomics and accesses with a scope take turns at their addresses, from their check to what is noted of them. So whoever
// sees what one has left finds noted what it was, and what it finds noted has been done.
#pragma once
#include "check.h"

struct StoredLanes {
  const Access* x;
  const u64* at;    // address of each lane
  const u32* data;  // the store's first data register
  u64 lanes;
};

void stores_of_thread_begin();  // of a worker thread, before its first
void stores_of_thread_end();
void store_begins();
void turn_begins(const u64* address, u64 lanes);
void access_ends();  // a store, a turn, or neither
// Whether bytes of a lane's element differ from what is there.
bool changes_bytes(const StoredLanes& mine, int lane, u32 first, u32 bytes);
// Whether they still do once the stores of others that were under way have ended. Those that wait here too have not:
// against them they are compared.
bool changes_after_others(const StoredLanes& mine, int lane, u32 first, u32 bytes);
