// What counts a launch: an observer for each host thread, and what they add up to. See counters.cpp.
#pragma once
#include "lane_accesses.h"
#include "contended_atomics.h"
#include "costs.h"
#include "counters.h"
#include "sampled_grid.h"
#include "l1.h"
#include "lane_patterns.h"
#include "lds_conflicts.h"
#include <pthread.h>

// What a wave has executed since it slept, which may be a poll.
struct Held {
  bool on, reads;
  u32 sleep_pc;
  u64 l1_reads, l1_hits;
  struct Executed {
    Step taken;
    u32 lines;
    InstructionCounters adds;
  };
  List<Executed> executed;
  List<LineAccess> lines;
};

struct Source;
struct GroupCount {
  GroupCount* next;  // of all that this thread made
  u32 n_waves;
  Recorded timed;  // whether its steps are kept, and as which
  bool works;      // has asked for a line, recorded or not
  Steps* steps;    // of each wave
  u64 n_steps;     // of them all, also where they are not kept
  Held** held;     // of each wave, none before its first s_sleep
  Trace trace;
  L1 l1;
};

// Distinct lines of an access, each with the halves touched.
struct Lines {
  static constexpr u32 MOST = 2 * WAVE;  // that are kept
  u32 n, segments, l1_cycles;
  i32 behind[MOST];  // the first lane's
  u8 halves[MOST];
};

struct Counting : Observer {
  Source* source;
  const Cost* costs;
  const Facts** facts;
  InstructionCounters* counters;
  CounterTotals totals;
  GroupCount* all;
  Held* holding;  // of the wave whose instruction is counted, while that may be a poll
  const Card* card;
  ContendedLines atomics;
  LanePatterns<LdsCycles, 8> in_lds;
  LanePatterns<Lines, 7> in_memory;
  InstructionCounters unseen;  // where what is not looked at goes
  LaneAccess accesses[MAX_ACCESSES];
  u64 lines[4 * WAVE];  // of one access: line << 2 | halves
};

struct Source : ObserverSource {
  const Card* card;
  Caches* caches;
  SharedL1* l1s;  // of CUs
  Program* program;
  Cost* costs;
  const Facts** facts;  // [n_inst]
  InstructionCounters* counters;
  CounterTotals totals;
  pthread_mutex_t lock;
  u32 attached, next_batch;
  Grid grid;
  Trace* traces;    // of workgroups that ended, by number
  u32* ended;       // per batch
  Timing* timings;  // [n_inst]
  KeptGroups kept;
  u32 n_inst, n_waves, l1_ways;  // of a workgroup's part of the L1
  bool leaves_whole;
  double* stalls;  // [n_inst][N_REASONS], see replay_cu
  List<Span> spans;
  ContendedLines atomics;
  volatile u64 entries;  // alive in traces
  u32 sample;            // asked for
  bool light;            // only some workgroups have every instruction looked at
  PeerRanges peers;
};

// What an instruction's step says beside which it is: see replay.h.
u32 count_memory(Counting&, GroupCount&, Wave&, const Inst&, u32 pc, InstructionCounters&);  // line_accesses.cpp
u32 count_lds_access(Counting&, InstructionCounters&, const LaneAccess&);                    // cycles
void record_line(Counting&, GroupCount&, LineAccess);
void add_up(InstructionCounters& to, const InstructionCounters& from);
static inline u32 steps_of(const Counting& c, u32 pc) { return c.costs[pc].unit == MEMORY_UNIT ? 2 : 1; }
// lines: how many entries of the trace, from `first` on, are the instruction's.
static inline void add_step(const Counting& c, GroupCount& g, u32 wave, Step step, u64 first, u32 lines) {
  if (!g.timed) return;
  g.steps[wave].add() = step;
  if (c.costs[step.pc].unit == MEMORY_UNIT) g.steps[wave].add() = {(u32)first, lines};
}
// poll.cpp. The wave sleeps, which may end a poll and may begin one.
void sleep_again(Counting&, GroupCount&, u32 wave, u32 pc);
// Of a wave of which something is held: whether what it now executes may belong to the poll, too; if not, all of it counts.
bool may_poll(Counting&, GroupCount&, u32 wave, u32 pc);
// sample.cpp
void choose_sample(Source&, const Program&, const KernelInfo&);
void scale_to_grid(Source&);  // of the grid as many workgroups as work; of a sample what they all ask of memory
bool has_answers(const Source&, const Program&, const KernelInfo&);  // whether atomics tell workgroups of others
