// The loops that execute a wave's instructions: plain, with a clock that the program reads, with an observer, with checks.
#include "thread.h"
#include "checks/check.h"

static u32 run_plain(Wave& w, u32 quantum) {
  u64* executed = w.executed;
  u32 left = quantum;
  while (left) {
    left--;
    const Inst& in = w.code[w.pc];
    executed[w.pc]++;
    w.pc++;
    in.fn(w, in);
    if (__builtin_expect(w.stop, 0)) break;
  }
  w.clock += (u64)CYCLES_OF_MOST * (quantum - left);
  return quantum - left;
}

// The same loop with an observer, or for programs that read the clock, which tells cycles by instruction.
static u32 run_observed(Wave& w, const Program& p, u32 quantum, Observer* observer) {
  u32 left = quantum;
  while (left) {
    left--;
    const Inst& in = w.code[w.pc];
    w.executed[w.pc]++;
    w.clock += p.costs ? p.costs[w.pc] : CYCLES_OF_MOST;
    w.pc++;
    if (observer && in.fn != skipped) observer->instruction(observer, w, in);
    in.fn(w, in);
    if (w.stop == AT_CLOCK) clock_answer(w);
    if (__builtin_expect(w.stop, 0)) break;
  }
  return quantum - left;
}

u32 run_wave(Wave& w, const Program& p, u32 quantum, Observer* observer) {
  if (w.stop == YIELDED || w.since_yield >= POLL_INSTRUCTIONS) w.clock_reads = w.since_yield = 0;
  w.stop = RUNNING;
  if (w.mode != applied_mode) apply_mode(w.mode);
  if (w.wg->check) return run_checked(w, quantum, observer);
  return observer || p.costs ? run_observed(w, p, quantum, observer) : run_plain(w, quantum);
}
