// Waves issue in order, the one that is furthest behind first. An instruction waits for the registers that vector and
// matrix instructions before it write, and for its unit: a SIMD's lanes or its matrix core, the CU's LDS or L1.
// s_waitcnt waits for what memory has not yet answered, s_barrier for the last wave. Where a workgroup has ended the next
// takes its place.
#include "replay.h"
#include "memory_path.h"
#include "costs.h"
#include <stdlib.h>

namespace {
constexpr u32 SIMDS = 4, VM_RING = 64, LDS_RING = 16;  // what vmcnt and lgkmcnt can tell apart
constexpr u32 REGISTERS = 512;
constexpr u32 KNOWN_LINES = 256;         // of scalar loads
constexpr u32 INSTRUCTIONS_OF_LINE = 8;  // 64 bytes of code
constexpr u32 CODE_LINES = 1 << 16;
constexpr double NEVER = 1e300;

struct WaveClock {
  double now;  // of its next instruction
  const Steps* steps;
  u64 at;
  u32 group;  // the how manieth of the CU
  u32 slot, simd;
  double vm[VM_RING], lds[LDS_RING], scalar_done;
  u32 vm_issued, lds_issued, code_line;
  bool at_barrier, tail;
  double ready[REGISTERS];        // when a register can be read
  double accumulates[REGISTERS];  // and when it can be added to
};

struct Slot {  // a workgroup's place on the CU
  u32 waiting, ended;
  double arrived;
};

double later(double a, double b) { return a > b ? a : b; }

struct Cu {
  const Machine& m;
  const Timing* timings;
  double* stalls;
  double vector[SIMDS], matrix[SIMDS], scalar[SIMDS], lds_free;
  MemoryPath memory;
  struct {
    u32 line;  // + 1
    double there;
  } known[KNOWN_LINES];  // of scalar loads
  u8* code;              // [CODE_LINES], those that were fetched

  double waited(u32 pc, Reason why, double from, double to) {
    if (to <= from) return from;
    if (stalls) stalls[pc * N_REASONS + why] += to - from;
    return to;
  }
  double operands(const WaveClock& w, const Timing& t) const {
    double ready = 0;
    for (const Registers& r : t.reads)
      for (u32 i = 0; i < r.count; i++) ready = later(ready, w.ready[r.first + i]);
    for (u32 i = 0; i < t.source_c.count; i++) ready = later(ready, w.accumulates[t.source_c.first + i]);
    return ready;
  }
  static void writes(WaveClock& w, const Timing& t, double start) {
    for (const Registers& r : t.writes)
      for (u32 i = 0; i < r.count; i++) {
        w.ready[r.first + i] = start + t.latency;
        w.accumulates[r.first + i] = start + t.accumulates;
      }
  }
  double scalar_load(u32 line, double now) {  // when it is there
    auto& place = known[line % KNOWN_LINES];
    if (place.line != line + 1) place = {line + 1, now + m.scalar_cold};
    return later(place.there, now + m.scalar_warm);
  }
  // The wave's next instruction comes after `cycles`.
  void goes_on(WaveClock& w, u32 pc, double now, double cycles) {
    if (stalls) stalls[pc * N_REASONS + ISSUE_REASON] += cycles;
    w.now = now + cycles;
  }
  void execute(WaveClock& w);
};

// Results of one counter come back in the order of issue.
void issue(double* ring, u32 size, u32& issued, double done) {
  ring[issued % size] = issued ? later(done, ring[(issued - 1) % size]) : done;
  issued++;
}
double awaited(const double* ring, u32 size, u32 issued, u32 left) {
  return left < size && left < issued ? ring[(issued - 1 - left) % size] : 0;
}

// One instruction that is no barrier and not the wave's last.
void Cu::execute(WaveClock& w) {
  const Step step = w.steps->at[w.at++];
  const Timing& t = timings[step.pc];
  double now = w.now;
  u32 line = step.pc / INSTRUCTIONS_OF_LINE;
  if (line != w.code_line && !code[line % CODE_LINES]) {  // the next line is fetched ahead
    code[line % CODE_LINES] = 1;
    if (line != w.code_line + 1) now = waited(step.pc, CODE_REASON, now, now + m.latency[IN_L2]);
  }
  w.code_line = line;
  switch (t.unit) {
    case VECTOR_UNIT: {
      now = waited(step.pc, OPERAND_REASON, now, operands(w, t));
      now = waited(step.pc, VECTOR_REASON, now, vector[w.simd]);
      vector[w.simd] = now + t.cycles;
      writes(w, t, now);
      break;
    }
    case MATRIX_UNIT: {
      now = waited(step.pc, OPERAND_REASON, now, operands(w, t));
      now = waited(step.pc, MATRIX_REASON, now, matrix[w.simd]);
      now = waited(step.pc, VECTOR_REASON, now, vector[w.simd]);
      vector[w.simd] = now + t.issue;
      matrix[w.simd] = now + t.cycles;
      writes(w, t, now);
      break;
    }
    case LDS_UNIT: {
      double start = later(lds_free, now);
      lds_free = start + step.amount;
      issue(w.lds, LDS_RING, w.lds_issued, lds_free + m.lds_latency);
      break;
    }
    case MEMORY_UNIT: {
      const Asked asked(w.steps->at[w.at++]);
      now = waited(step.pc, L1_REASON, now, memory.accepts(m));
      double done = memory.take(m, now, step.amount, asked, w.tail);
      issue(w.vm, VM_RING, w.vm_issued, done);
      break;
    }
    case SCALAR_MEMORY_UNIT: {
      w.scalar_done = later(w.scalar_done, scalar_load(step.amount, now));
      break;
    }
    case END_UNIT:
    case WAIT_UNIT: {
      u32 counts = t.unit == END_UNIT ? 0 : step.amount, vm = counts & 255, lgkm = counts >> 8 & 255;
      now = waited(step.pc, MEMORY_REASON, now, awaited(w.vm, VM_RING, w.vm_issued, vm));
      now = waited(step.pc, LDS_REASON, now, awaited(w.lds, LDS_RING, w.lds_issued, lgkm));
      if (lgkm == 0) now = waited(step.pc, SCALAR_REASON, now, w.scalar_done);
      break;
    }
    default: {  // scalar, branch, idle
      if (t.unit != IDLE_UNIT) {
        now = waited(step.pc, VECTOR_REASON, now, scalar[w.simd]);
        scalar[w.simd] = now + ISSUE_CYCLES;
      }
      goes_on(w, step.pc, now, t.cycles);
      return;
    }
  }
  goes_on(w, step.pc, now, t.issue);
}
}  // namespace

void resolve_lines(Step& step, const Trace& t) {
  u32 reads = 0, writes = 0, level = IN_L1, link_reads = 0, link_writes = 0;
  for (u64 i = step.pc; i < (u64)step.pc + step.amount && i < t.n; i++) {
    u32 of_line = (u32)(t.entries[i] >> LEVEL_BIT);
    u32 halves = __builtin_popcount(t.entries[i] & 3), write = t.entries[i] >> 2 & 1;
    if (write) writes += halves;
    else reads++, level = of_line > level ? of_line : level;
    if (of_line == IN_PEER) (write ? link_writes : link_reads) += write || t.entries[i] & AROUND_L2 ? halves : 2;
  }
  step = {reads | link_reads << Asked::BITS | level << 2 * Asked::BITS, writes | link_writes << Asked::BITS};
}

static void start_group(WaveClock* w, u32 n_waves, const RecordedGroup& recorded, u32 group, u32 slot, bool tail,
                        double now) {
  for (u32 i = 0; i < n_waves; i++) {
    u32 simd = w[i].simd;
    memset((void*)&w[i], 0, sizeof w[i]);
    w[i].now = now;
    w[i].steps = &recorded.waves[i];
    w[i].group = group;
    w[i].slot = slot;
    w[i].tail = tail;
    w[i].simd = simd;
    w[i].code_line = ~1u;  // the first line has to be fetched
  }
}

Replayed replay_cu(const Machine& m, const Timing* timings, const RecordedGroup* groups, u32 n_groups, u32 first,
                   u32 n_waves, double* stalls) {
  u32 n = n_waves * m.copies, total = m.rounds * m.copies + m.last_groups, full = m.rounds * m.copies, started = 0;
  WaveClock* waves = (WaveClock*)calloc(n, sizeof(WaveClock));
  double* now = (double*)calloc(n, sizeof(double));
  Slot* slots = (Slot*)calloc(m.copies, sizeof(Slot));
  double* round_end = (double*)calloc(m.rounds + 1, sizeof(double));
  u8* code = (u8*)calloc(CODE_LINES, 1);
  Cu cu = {m, timings, stalls, {}, {}, {}, 0, {}, {}, code};
  for (u32 i = 0; i < n; i++) waves[i].simd = i % SIMDS, now[i] = NEVER;
  auto start = [&](u32 slot, double at) {
    u32 group = started++;
    start_group(waves + slot * n_waves, n_waves, groups[(first + group) % n_groups], group, slot, group >= full, at);
    for (u32 i = slot * n_waves; i < (slot + 1) * n_waves; i++) now[i] = at;
    slots[slot] = {};
  };
  for (u32 slot = 0; slot < m.copies && started < total; slot++) start(slot, slot * m.group_start);
  while (true) {
    u32 next = 0;
    double other = NEVER;  // the clock of the wave that is furthest behind apart from it
    for (u32 i = 1; i < n; i++) {
      if (now[i] < now[next]) other = now[next], next = i;
      else if (now[i] < other) other = now[i];
    }
    if (now[next] == NEVER) break;
    WaveClock& w = waves[next];
    Slot& slot = slots[w.slot];
    bool stops = false;
    do {
      if (w.at == w.steps->n) {
        slot.ended++;
        stops = true;
      } else if (timings[w.steps->at[w.at].pc].unit == BARRIER_UNIT) {
        slot.waiting++;
        stops = w.at_barrier = true;
      } else {
        cu.execute(w);
      }
    } while (!stops && w.now <= other);
    now[next] = w.now;
    if (!stops) continue;
    now[next] = NEVER;
    slot.arrived = later(slot.arrived, w.now);
    if (slot.waiting + slot.ended < n_waves) continue;
    u32 at = w.slot;
    if (slot.ended == n_waves) {
      u32 round = w.group / m.copies;
      round_end[round] = later(round_end[round], slot.arrived);
      if (started < total) start(at, slot.arrived + m.refill);
      continue;
    }
    for (u32 i = at * n_waves; i < (at + 1) * n_waves; i++) {
      if (!waves[i].at_barrier) continue;
      waves[i].at_barrier = false;
      u32 pc = waves[i].steps->at[waves[i].at++].pc;
      now[i] = waves[i].now = cu.waited(pc, BARRIER_REASON, waves[i].now, slot.arrived + m.barrier);
    }
    slot.waiting = 0;
    slot.arrived = 0;
  }
  Replayed r = {0, 0, 0};
  for (u32 i = 0; i <= m.rounds; i++) {
    double end = later(r.all, round_end[i]);
    if (i < m.rounds) r.marginal = end - r.all, r.full = end;
    r.all = end;
  }
  free(waves);
  free(now);
  free(slots);
  free(round_end);
  free(code);
  return r;
}
