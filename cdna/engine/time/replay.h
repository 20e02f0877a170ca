// How long a CU takes: a replay of what the waves of its workgroups executed, in the card's cycles.
#pragma once
#include "caches.h"
#include "memory/list.h"
#include "latencies.h"

// One executed instruction. amount: cycles of the L1 or the LDS (lower half; upper half: those that its bytes would need of
// the L1, those that bank conflicts took of the LDS), address of a scalar load's line. A memory instruction
// has a second one behind it, which says what it asked of the L2: first {first entry of the workgroup's trace, entries},
// and when the cache model has seen them what Asked unpacks.
struct Step {
  u32 pc, amount;
};
typedef List<Step> Steps;  // of one wave
void resolve_lines(Step&, const Trace&);

inline u32 cycles_of(u32 amount) { return amount & 0xffff; }
inline u32 beside(u32 amount) { return amount >> 16; }
inline u32 both(u32 cycles, u32 other) {
  return (cycles < 0xffff ? cycles : 0xffff) | (other < 0xffff ? other : 0xffff) << 16;
}

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
Asked without_waste(Asked, u32 amount);  // amount: of the instruction's first step
struct Change;
Asked changed(Asked, const Change&, bool wider, u32& cycles);  // cycles: of the L1
inline double lines_read(const Asked& a) { return a.lines; }
inline double over_links(const Asked& a) { return a.link_reads + a.link_writes; }
// Of what a workgroup's memory instructions ask.
double asked_by(const Steps* waves, u32 n_waves, const Timing*, double (*of)(const Asked&));

struct RecordedGroup {
  const Steps* waves;
};

// What a wave's time goes to at an instruction: it issues, or waits for
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

// What a replay leaves out at an instruction, to learn what it costs: bits by Reason, and
enum : u16 {
  WITHOUT_CONFLICTS = 1 << N_REASONS,    // of its LDS accesses
  WITHOUT_WASTE = 1 << (N_REASONS + 1),  // what its memory accesses touch beyond their bytes
  WITHOUT_IT = 1 << (N_REASONS + 2),     // all of it; not for waits, barriers, ends
  WIDER = 1 << (N_REASONS + 3)           // only each how manieth of it (Change), which asks for what all of these do
};

// What a launch would be: with things left out, or of other workgroups. Of no change all factors are 1.
struct Change {
  const u16* left_out;             // [n_inst], may be null
  double groups, steps;            // as many workgroups, of which each does such a share of its steps, or all so often
  double loads;                    // of the lines that an instruction loads
  u32 wider;                       // instructions that are WIDER stand for so many
  u32 more_groups_per_cu;          // than registers and LDS allow
  bool whole_rounds, alike, near;  // no round is half empty; all workgroups do as much; an L2 has what another one has
};

// Of a wave: what it did from `start` to `end`. cause: of a wait for memory, LDS or scalar loads the instruction that it
// waited for, else pc; level: where the farthest of its lines was, N_LEVELS for stores and what is no memory.
struct Span {
  double start, end;
  u32 wave, pc, cause;  // wave: its place on the CU
  u16 reason, level;
};

struct ReplayOptions {  // each may be null
  const Change* change;
  double* stalls;      // [n_inst][N_REASONS], cycles of waves by instruction and reason, added to
  const u32* line_of;  // [n_inst]; not null where spans is not: spans of the same lines and reason are joined
  List<Span>* spans;
};

// All times in cycles.
struct Machine {
  double latency[N_LEVELS], store_latency, lds_latency, scalar_cold, scalar_next, scalar_warm, barrier;
  double refill;                       // from a workgroup's end to the start of the next one in its place
  double group_start;                  // between workgroups that the dispatcher starts at the beginning
  double read_line[2];                 // a line's share of what is beyond the L1: while all CUs work, in the last round
  double write_half[2];                // and of half a line that is written
  double link_read[2], link_write[2];  // half a line on the links: a workgroup's share while as many as can cross them
  double most_crossing;                // halves, of the workgroup that has that share
  u32 in_flight_lines, l1_queue, lds_queue;
  u32 copies;               // workgroups that share the CU
  u32 rounds, last_groups;  // full rounds; workgroups of the last, if that is not full
};

struct Replayed {
  double full, marginal, all;  // cycles until the full rounds have ended; the last of them; until everything has
};

// The CU runs rounds * copies + last_groups workgroups: groups[i % n].
Replayed replay_cu(const Machine&, const Timing*, const RecordedGroup* groups, u32 n, u32 first, u32 n_waves,
                   const ReplayOptions&);
