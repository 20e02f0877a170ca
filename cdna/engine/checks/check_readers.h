// Who has read a dword since it was last written: nobody (0), one wave's access, or a set of several workgroups' that many
// dwords share. An access is a cell of check_global.cpp; of a workgroup its last one is kept.
#pragma once
#include "isa/core.h"

struct Readers;  // of a launch
Readers* readers_create();
void readers_destroy(Readers*);
u64 readers_with(Readers&, u64 readers, u64 cell);  // them, and one more
u32 readers_in(const u64& readers, const u64*& cells);
