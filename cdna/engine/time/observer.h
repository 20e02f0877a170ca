// An observer: code that watches a launch without being part of it. counters.cpp has one.
//
// Handlers know nothing of it. Where a launch has an observer, waves run in a loop of their own (run_observed
// in launch.cpp) that calls it before each instruction; a launch without one runs the plain loop, at full
// speed. lane_accesses.h tells which addresses an instruction is about to access.
#pragma once
#include "isa/core.h"

struct Program;
struct KernelInfo;
struct Launch;

// Of one host thread of a launch.
struct Observer {
  void (*instruction)(Observer*, Wave&, const Inst&);  // before it executes; w.pc is already the next one's
  void (*group_started)(Observer*, Workgroup&);        // may keep what it knows in Workgroup::observed
  void (*barrier_released)(Observer*, Workgroup&);     // every wave that has not ended has arrived
  void (*group_ended)(Observer*, Workgroup&);          // not called where a fault or the host stops it
};

// What the caller of a launch gives: one observer for each thread, made before the first workgroup starts and
// taken back after the last has ended, both by the calling thread.
struct ObserverSource {
  Observer* (*attach)(ObserverSource*, Program*, const KernelInfo*, Launch*);
  void (*detach)(ObserverSource*, Observer*);
  // Set by the first attach.
  const u32* chosen;  // the workgroups that run, in order; null: all of the grid
  u32 n_chosen;
  bool in_order;     // one thread runs all: where workgroups learn who of them is last, it is the same one each time
  bool no_products;  // matrix instructions leave their results as they were: who chooses wants no results
};
