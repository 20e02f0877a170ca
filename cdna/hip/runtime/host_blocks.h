// Blocks of an allocator that is watched (cdna_watch_allocator): memory that kernels reach though HIP has not given it.
#pragma once
#include "checks/check.h"
#include "runtime.h"

extern "C" void cdna_checks_range(Checks*, u64 base, u64 bytes, u64 pointer, const char* name);  // the engine's

void tell_host_blocks(Checks*, const KernelCall&, const KernelInfo&);  // the launch's checks know them then
bool in_host_block(u64 address);
