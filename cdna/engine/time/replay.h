// How long a CU takes: a replay of what the waves of its workgroups executed, in the card's cycles.
#pragma once
#include "caches.h"
#include "growing.h"
#include "timing.h"

// One executed instruction. amount: cycles of the L1 or the LDS, address of a scalar load's line. A memory instruction
// has a second one behind it, which says what it asked of the L2: first {first entry of the workgroup's trace, entries},
// and when the cache model has seen them what Asked unpacks.
struct Step {
  u32 pc, amount;
};
typedef Growing<Step> Steps;  // of one wave
void resolve_lines(Step&, const Trace&);

struct Asked {
  u32 lines, level;                // read; the farthest
  u32 halves;                      // of lines, written
  u32 link_reads, link_writes;     // halves of lines that cross a link
  static constexpr u32 BITS = 12;  // an instruction has at most 4 accesses of 256 lines
  explicit Asked(Step s)
      : lines(s.pc & 4095),
        level(s.pc >> 2 * BITS),
        halves(s.amount & 4095),
        link_reads(s.pc >> BITS & 4095),
        link_writes(s.amount >> BITS & 4095) {}
};

struct RecordedGroup {
  const Steps* waves;
};

// What a wave's time goes to at an instruction, in the order of counters.py's REASONS: it issues, or waits for
enum Reason : u8 {
  ISSUE_REASON,
  OPERAND_REASON,  // the result of a vector or matrix instruction
  VECTOR_REASON,   // units that other instructions had
  MATRIX_REASON,
  L1_REASON,      // the L1's queue
  MEMORY_REASON,  // s_waitcnt: loads and stores
  LDS_REASON,     // s_waitcnt: LDS
  SCALAR_REASON,  // s_waitcnt: scalar loads
  BARRIER_REASON,
  CODE_REASON,  // instructions
  N_REASONS
};

// All times in cycles.
struct Machine {
  double latency[N_LEVELS], store_latency, lds_latency, scalar_cold, scalar_warm, barrier;
  double refill;                       // from a workgroup's end to the start of the next one in its place
  double group_start;                  // between workgroups that the dispatcher starts at the beginning
  double read_line[2];                 // a line's share of what is beyond the L1: while all CUs work, in the last round
  double write_half[2];                // and of half a line that is written
  double link_read[2], link_write[2];  // and of half a line on the links
  u32 in_flight_lines, l1_queue;
  u32 copies;               // workgroups that share the CU
  u32 rounds, last_groups;  // full rounds; workgroups of the last, if that is not full
};

struct Replayed {
  double full, marginal, all;  // cycles until the full rounds have ended; the last of them; until everything has
};

// The CU runs rounds * copies + last_groups workgroups: groups[i % n]. stalls: cycles of its waves by instruction and
// Reason, [n_inst][N_REASONS], added to; or null.
Replayed replay_cu(const Machine&, const Timing*, const RecordedGroup* groups, u32 n, u32 first, u32 n_waves,
                   double* stalls);
