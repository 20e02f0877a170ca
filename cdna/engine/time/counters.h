// What counters.cpp gives for a launch.
#pragma once
#include "recorded_groups.h"
#include "launch_time.h"
#include "observer.h"

struct InstructionCounters {
  u64 unit, unit_cycles;  // of one execution; memory and LDS: `cycles` instead
  u64 lanes;              // active lanes, summed
  u64 cycles;             // of the L1 or the LDS
  u64 conflict_cycles;    // of them, lost to LDS bank conflicts
  u64 bytes;              // lanes * element
  u64 segments, lines;    // 64- and 128-byte pieces of memory touched, per instruction
  u64 same_set_lines;     // of accesses of MANY_LINES or more whose lines all fall in one set of the L1
  u64 polls;              // executions that nothing else here counts, see counters.cpp
};

struct CounterTotals {
  u64 groups, run, observed;        // of the grid; of them run; of them with every instruction looked at
  u64 barriers;                     // of those that ran
  u64 vgprs, sgprs;                 // of a wave; vector registers of both files
  u64 scratch_bytes;                // of a lane
  u64 groups_per_cu, groups_on_cu;  // that fit at the same time; and as many as fit and as there are
  u64 l1_reads, l1_hits;            // lines
  u64 unrecorded;                   // line accesses that no memory was left to record
  u64 atomics_on_line;              // atomics, one after the other, on the line with most
  u64 sleeps;                       // instructions of the program that let a wave sleep
  Longest longest;
  double run_work, observed_work;  // of the grid, a workgroup, for those that ran and that were observed
  MemoryTraffic traffic;           // of the grid
  LaunchTime time[2];              // cold; as if the memory-side cache held everything
};

// What of a launch runs: see the head of counters.cpp. counters.py has the same.
enum SampleKind { NO_SAMPLE, SAMPLE_ROUNDS, SAMPLE_PRODUCTS };

extern "C" {
ObserverSource* cdna_counters_create(u32 sample);  // for one launch; a SampleKind
const CounterTotals* cdna_counters_totals(ObserverSource*);
const InstructionCounters* cdna_counters_instructions(ObserverSource*);  // [n_inst], null if it never started
const double* cdna_counters_stalls(ObserverSource*);                     // [n_inst][N_REASONS], see replay_cu
void cdna_counters_destroy(ObserverSource*);
// A launch's recorded steps stay until it is destroyed or forgotten: how many bytes they are; its time without something,
// false where they are gone; the spans of one CU's waves, kept by the source until the next call.
u64 cdna_replay_bytes(ObserverSource*);
void cdna_replay_forget(ObserverSource*);
bool cdna_replay_with(ObserverSource*, bool warm, const Change*, Left*);
const Span* cdna_replay_timeline(ObserverSource*, bool warm, const u32* line_of, u64* n);
}
