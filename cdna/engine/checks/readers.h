// Who has read a dword since it was last written: nobody (0), one wave's access, or a set of several waves' that many dwords
// share. An access is a cell of global_race.cpp; of a workgroup its last one is kept, and of the workgroup that has read
// last that of each wave since its barrier.
#pragma once
#include "isa/core.h"

constexpr u64 CELL_SEVERAL = 1 << 5;  // of a reader's cell: others of its workgroup's waves have read, too

struct Readers;  // of a launch
Readers* readers_create();
void readers_destroy(Readers*);
u64 readers_with(Readers&, u64 readers, u64 cell);  // them, and one more
u32 readers_in(const u64& readers, const u64*& cells);

// What a launch reads of a tensor that it has not written yet, so that the first write there can be held to it.
struct EarlyReads;
// A wave's, of some lanes; false: it is one more than are kept.
bool early_reads_add(EarlyReads*&, const u64* at, u64 lanes, u32 bytes, u64 cell);
void early_reads_each(const EarlyReads*, void (*each)(u64 address, u32 bytes, u64 cell, void*),
                      void* with);  // lane by lane
void early_reads_free(EarlyReads*);
