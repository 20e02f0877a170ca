// Whether a launch keeps to the card's memory, without checks; see host_reach.cpp.
#pragma once
#include "isa/reach.h"
#include "memory/registry.h"

struct LaunchReach;
// own: memory of the launch itself. null: nothing is to be looked at.
LaunchReach* reach_begins(const Program&, const Launch&, u32 n_threads, const List<MemoryRange>& own);
Reach* reach_of(LaunchReach*, u32 thread);
void reach_ends(LaunchReach*, Launch&);
