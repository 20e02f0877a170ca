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
constexpr u32 REGISTERS = 512, QUEUE = 16;
constexpr u32 MOST_WAVES = 64;           // of a CU
constexpr u32 KNOWN_LINES = 256;         // of scalar loads: 16 KiB
constexpr u32 INSTRUCTIONS_OF_LINE = 8;  // 64 bytes of code
constexpr u32 CODE_LINES = 1 << 16;
constexpr double NEVER = 1e300;
constexpr u64 MOST_SPANS = 1 << 20;

struct Cause {
  u32 pc, level;
};

struct WaveClock {
  double now;  // of its next instruction
  const Steps* steps;
  u64 at, end;
  u32 again;  // so often all steps from the beginning
  u32 group;  // the how manieth of the CU
  u32 slot, simd;
  double vm[VM_RING], lds[LDS_RING], scalar_done;
  Cause vm_cause[VM_RING], lds_cause[LDS_RING], scalar_cause;
  u32 vm_issued, lds_issued, code_line, wider;
  bool at_barrier, tail;
  double link_shares;             // that its CU has
  double ready[REGISTERS];        // when a register can be read
  double accumulates[REGISTERS];  // and when it can be added to
};

struct LdsQueue {         // of a pair of SIMDs
  double started[QUEUE];  // when the LDS took an instruction
  u32 n;
};

struct Slot {  // a workgroup's place on the CU
  u32 waiting, ended;
  double arrived;
};

double later(double a, double b) { return a > b ? a : b; }

struct Cu {
  const Machine& m;
  const Timing* timings;
  const ReplayOptions& o;
  u32 wave;  // that executes
  double vector[SIMDS], matrix[SIMDS], scalar[SIMDS], lds_free;
  MemoryPath memory;
  LdsQueue lds_queues[SIMDS / 2];
  struct {
    u32 line;  // + 1
    double there;
  } known[2 * KNOWN_LINES];  // of scalar loads, in any order
  u32 n_known;
  bool asked_scalar;          // any of them
  u8* code;                   // [CODE_LINES], those that were fetched
  u32 last_span[MOST_WAVES];  // of a wave
  bool has_span[MOST_WAVES];

  bool without(u32 pc, u32 what) const { return o.change && o.change->left_out && o.change->left_out[pc] & what; }
  void span(u32 pc, Reason why, double from, double to, Cause cause) {
    if (!o.spans || o.spans->count == MOST_SPANS) return;
    Span& last = o.spans->items[last_span[wave]];
    if (has_span[wave] && last.reason == why && last.level == cause.level && last.end == from &&
        o.line_of[last.pc] == o.line_of[pc] && o.line_of[last.cause] == o.line_of[cause.pc]) {
      last.end = to;
      return;
    }
    has_span[wave] = true;
    last_span[wave] = (u32)o.spans->count;
    o.spans->add() = {from, to, wave, pc, cause.pc, why, (u16)cause.level};
  }
  double waited(u32 pc, Reason why, double from, double to, Cause cause) {
    if (to <= from || without(pc, 1u << why)) return from;
    if (o.stalls) o.stalls[pc * N_REASONS + why] += to - from;
    span(pc, why, from, to, cause);
    return to;
  }
  double waited(u32 pc, Reason why, double from, double to) { return waited(pc, why, from, to, {pc, N_LEVELS}); }
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
    if (n_known == KNOWN_LINES) memset((void*)known, 0, sizeof known), n_known = 0;
    u32 at = line % (2 * KNOWN_LINES);
    while (known[at].line && known[at].line != line + 1) at = (at + 1) % (2 * KNOWN_LINES);
    auto& place = known[at];
    if (!place.line) n_known++;
    if (!place.line) place = {line + 1, now + (asked_scalar ? m.scalar_next : m.scalar_cold)};
    asked_scalar = true;
    return later(place.there, now + m.scalar_warm);
  }
  // The wave's next instruction comes after `cycles`.
  void goes_on(WaveClock& w, u32 pc, double now, double cycles) {
    if (o.stalls) o.stalls[pc * N_REASONS + ISSUE_REASON] += cycles;
    span(pc, ISSUE_REASON, now, now + cycles, {pc, N_LEVELS});
    w.now = now + cycles;
  }
  bool execute(WaveClock& w);
};

// Results of one counter come back in the order of issue.
void issue(double* ring, Cause* causes, u32 size, u32& issued, double done, Cause cause) {
  u32 at = issued % size, before = (issued - 1) % size;
  bool behind = issued && ring[before] > done;
  ring[at] = behind ? ring[before] : done;
  causes[at] = behind ? causes[before] : cause;
  issued++;
}
double awaited(const double* ring, u32 size, u32 issued, u32 left) {
  return left < size && left < issued ? ring[(issued - 1 - left) % size] : 0;
}
Cause cause_of(const Cause* causes, u32 size, u32 issued, u32 left) { return causes[(issued - 1 - left) % size]; }

// One instruction that is no barrier and not the wave's last. False where it has to ask again at w.now: the L1's queue is
// full, and whoever is oldest then has its next place.
bool Cu::execute(WaveClock& w) {
  const Step step = (*w.steps)[w.at++];
  const Timing& t = timings[step.pc];
  double now = w.now;
  if (without(step.pc, WITHOUT_IT) || (without(step.pc, WIDER) && w.wider++ % o.change->wider)) {
    if (t.unit == LDS_UNIT) issue(w.lds, w.lds_cause, LDS_RING, w.lds_issued, now, {step.pc, N_LEVELS});
    if (t.unit == MEMORY_UNIT) w.at++, issue(w.vm, w.vm_cause, VM_RING, w.vm_issued, now, {step.pc, N_LEVELS});
    return true;
  }
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
      vector[w.simd] = later(vector[w.simd], now + t.cycles);
      writes(w, t, now);
      break;
    }
    case MATRIX_UNIT: {
      now = waited(step.pc, OPERAND_REASON, now, operands(w, t));
      now = waited(step.pc, MATRIX_REASON, now, matrix[w.simd]);
      now = waited(step.pc, VECTOR_REASON, now, vector[w.simd]);
      vector[w.simd] = later(vector[w.simd], now + t.issue);
      matrix[w.simd] = later(matrix[w.simd], now + t.cycles);
      writes(w, t, now);
      break;
    }
    case LDS_UNIT: {
      LdsQueue& queue = lds_queues[w.simd / 2];
      if (queue.n >= m.lds_queue)
        now = waited(step.pc, LDS_REASON, now, queue.started[(queue.n - m.lds_queue) % QUEUE]);
      double start = later(lds_free, now);
      queue.started[queue.n++ % QUEUE] = start;
      u32 conflicts = without(step.pc, WITHOUT_CONFLICTS) ? beside(step.amount) : 0;
      lds_free = start + cycles_of(step.amount) - conflicts;
      issue(w.lds, w.lds_cause, LDS_RING, w.lds_issued, lds_free + m.lds_latency, {step.pc, N_LEVELS});
      break;
    }
    case MEMORY_UNIT: {
      if (double place = waited(step.pc, L1_REASON, now, memory.accepts(m)); place > now) {
        w.now = place;
        w.at--;
        return false;
      }
      const Asked asked((*w.steps)[w.at++]);
      const bool lean = without(step.pc, WITHOUT_WASTE);
      Asked a = lean ? without_waste(asked, step.amount) : asked;
      u32 cycles = lean ? beside(step.amount) : cycles_of(step.amount);
      if (o.change) a = changed(a, *o.change, without(step.pc, WIDER), cycles);
      double done = memory.take(m, now, cycles, a, w.tail, w.link_shares);
      Cause cause = {step.pc, a.halves && !a.lines ? N_LEVELS : a.level};
      issue(w.vm, w.vm_cause, VM_RING, w.vm_issued, done, cause);
      break;
    }
    case SCALAR_MEMORY_UNIT: {
      double there = scalar_load(step.amount, now);
      if (there >= w.scalar_done) w.scalar_done = there, w.scalar_cause = {step.pc, N_LEVELS};
      break;
    }
    case END_UNIT:
    case WAIT_UNIT: {
      u32 counts = t.unit == END_UNIT ? 0 : step.amount, vm = counts & 255, lgkm = counts >> 8 & 255;
      now = waited(step.pc, MEMORY_REASON, now, awaited(w.vm, VM_RING, w.vm_issued, vm),
                   cause_of(w.vm_cause, VM_RING, w.vm_issued, vm));
      now = waited(step.pc, LDS_REASON, now, awaited(w.lds, LDS_RING, w.lds_issued, lgkm),
                   cause_of(w.lds_cause, LDS_RING, w.lds_issued, lgkm));
      if (lgkm == 0) now = waited(step.pc, SCALAR_REASON, now, w.scalar_done, w.scalar_cause);
      break;
    }
    default: {  // scalar, branch, idle
      if (t.unit != IDLE_UNIT) {
        now = waited(step.pc, VECTOR_REASON, now, scalar[w.simd]);
        scalar[w.simd] = now + ISSUE_CYCLES;
      }
      goes_on(w, step.pc, now, t.cycles);
      return true;
    }
  }
  goes_on(w, step.pc, now, t.issue);
  return true;
}
}  // namespace

Asked without_waste(Asked asked, u32 amount) {
  const u32 cycles = cycles_of(amount), ideal = beside(amount);
  u32* const counts[] = {&asked.lines, &asked.halves, &asked.link_reads, &asked.link_writes};
  for (u32* n : counts)
    if (ideal < cycles) *n = (*n * ideal + cycles - 1) / cycles;
  return asked;
}

Asked changed(Asked asked, const Change& c, bool wider, u32& cycles) {
  const double times = wider ? c.wider : 1, loads = times * (asked.lines ? c.loads : 1);
  if (!wider) cycles = (u32)(cycles * loads + 0.5);
  asked.lines = (u32)(asked.lines * loads + 0.5), asked.halves = (u32)(asked.halves * times + 0.5);
  asked.link_reads = (u32)(asked.link_reads * loads + 0.5), asked.link_writes = (u32)(asked.link_writes * times + 0.5);
  if (c.near && asked.level == IN_MEMORY_SIDE) asked.level = IN_L2;
  return asked;
}

void resolve_lines(Step& step, const Trace& t) {
  u32 reads = 0, writes = 0, level = IN_L1, link_reads = 0, link_writes = 0;
  for (u64 i = step.pc; i < (u64)step.pc + step.amount && i < t.n; i++) {
    u32 of_line = (u32)(t.entries[i] >> LEVEL_BIT & 7), asked_before = t.entries[i] & ASKED_BEFORE ? 1 : 0;
    u32 halves = __builtin_popcount(t.entries[i] & 3), write = t.entries[i] >> 2 & 1;
    if (write) writes += halves;
    else reads += !asked_before, level = of_line > level ? of_line : level;
    if (asked_before) continue;
    if (of_line == IN_PEER) (write ? link_writes : link_reads) += write || t.entries[i] & AROUND ? halves : 2;
  }
  step = {reads | link_reads << Asked::BITS | level << 2 * Asked::BITS, writes | link_writes << Asked::BITS};
}

double asked_by(const Steps* waves, u32 n_waves, const Timing* timings, double (*of)(const Asked&)) {
  double asked = 0;
  for (u32 w = 0; w < n_waves; w++)
    for (u64 k = 0; k < waves[w].count; k++)
      if (timings[waves[w][k].pc].unit == MEMORY_UNIT) asked += of(Asked(waves[w][++k]));
  return asked;
}

static void start_group(WaveClock* w, u32 n_waves, const RecordedGroup& recorded, u32 group, u32 slot, bool tail,
                        double link_shares, double now, const Change* change) {
  for (u32 i = 0; i < n_waves; i++) {
    u32 simd = w[i].simd;
    memset((void*)&w[i], 0, sizeof w[i]);
    w[i].now = now;
    w[i].steps = &recorded.waves[i];
    w[i].end = w[i].steps->count;
    if (change && change->steps < 1) w[i].end = (u64)(w[i].end * change->steps);
    if (change && change->steps > 1) w[i].again = (u32)change->steps - 1;
    w[i].group = group;
    w[i].slot = slot;
    w[i].tail = tail;
    w[i].link_shares = link_shares;
    w[i].simd = simd;
    w[i].code_line = ~1u;  // the first line has to be fetched
  }
}

Replayed replay_cu(const Machine& m, const Timing* timings, const RecordedGroup* groups, u32 n_groups, u32 first,
                   u32 n_waves, const ReplayOptions& options) {
  u32 n = n_waves * m.copies, total = m.rounds * m.copies + m.last_groups, full = m.rounds * m.copies, started = 0;
  WaveClock* waves = (WaveClock*)calloc(n, sizeof(WaveClock));
  double* now = (double*)calloc(n, sizeof(double));
  Slot* slots = (Slot*)calloc(m.copies, sizeof(Slot));
  double* round_end = (double*)calloc(m.rounds + 1, sizeof(double));
  u8* code = (u8*)calloc(CODE_LINES, 1);
  Cu cu = {m, timings, options, 0, {}, {}, {}, 0, {}, {}, {}, 0, false, code, {}, {}};
  for (u32 i = 0; i < n; i++) waves[i].simd = i % SIMDS, now[i] = NEVER;
  // Of the links a CU has a share for each workgroup that crosses them. While one does, it has those of the whole round.
  double* crossing = (double*)calloc(n_groups, sizeof(double));
  for (u32 i = 0; m.most_crossing && i < n_groups; i++)
    crossing[i] = asked_by(groups[i].waves, n_waves, timings, over_links) / m.most_crossing;
  auto link_shares = [&](u32 round) {
    double shares = 0;
    for (u32 i = round * m.copies; i < (round + 1) * m.copies && i < total; i++)
      shares += crossing[(first + i) % n_groups];
    return later(shares, 1);
  };
  auto start = [&](u32 slot, double at) {
    u32 group = started++;
    start_group(waves + slot * n_waves, n_waves, groups[(first + group) % n_groups], group, slot, group >= full,
                link_shares(group / m.copies), at, options.change);
    for (u32 i = slot * n_waves; i < (slot + 1) * n_waves; i++) now[i] = at;
    slots[slot] = {};
  };
  for (u32 slot = 0; slot < m.copies && started < total; slot++) start(slot, slot * m.group_start);
  while (true) {
    u32 next = 0;
    double other = NEVER;  // the clock of the wave that is furthest behind apart from it
    for (u32 i = 1; i < n; i++) {
      if (now[i] < now[next] || (now[i] == now[next] && waves[i].group < waves[next].group))
        other = now[next], next = i;
      else if (now[i] < other) other = now[i];
    }
    if (now[next] == NEVER) break;
    WaveClock& w = waves[next];
    Slot& slot = slots[w.slot];
    bool stops = false, served = true;
    cu.wave = next;
    do {
      if (w.at >= w.end && w.again) w.again--, w.at = 0;
      if (w.at >= w.end) {
        slot.ended++;
        stops = true;
      } else if (u32 pc = (*w.steps)[w.at].pc;
                 timings[pc].unit == BARRIER_UNIT && !cu.without(pc, 1 << BARRIER_REASON)) {
        slot.waiting++;
        stops = w.at_barrier = true;
      } else {
        served = cu.execute(w);
      }
    } while (!stops && served && w.now <= other);
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
      u32 pc = (*waves[i].steps)[waves[i].at++].pc;
      cu.wave = i;
      now[i] = waves[i].now = cu.waited(pc, BARRIER_REASON, waves[i].now, slot.arrived + m.barrier);
    }
    slot.waiting = 0;
    slot.arrived = 0;
  }
  Replayed r = {0, 0, 0};
  for (u32 i = 0; i <= m.rounds; i++) {
    double end = later(r.all, round_end[i]);
    if (i < m.rounds) r.full = end;
    if (i + 1 < m.rounds || i == 0) r.marginal = end - r.all;
    r.all = end;
  }
  free(waves);
  free(now);
  free(slots);
  free(round_end);
  free(code);
  free(crossing);
  return r;
}
