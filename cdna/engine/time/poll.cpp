// Polls. How often a wave asks whether something has come says how fast the emulation is, so it is left out: what a
// wave executes from an s_sleep to the same s_sleep again, if it reads memory and changes nothing, nor the LDS, is not counted.
// It is held back until that is clear.
#include "counting.h"
#include <stdlib.h>

constexpr u32 MOST_OF_POLL = 2048;  // instructions

static void count_held(Counting& c, GroupCount& g, u32 wave, Held& held) {
  held.on = false;
  u64 first = g.trace.n;
  for (u64 i = 0; i < held.executed.count; i++) {
    const Held::Executed& one = held.executed[i];
    add_up(c.counters[one.taken.pc], one.adds);
    add_step(c, g, wave, one.taken, first, one.lines);
    g.n_steps += steps_of(c, one.taken.pc);
    first += one.lines;
  }
  for (u64 i = 0; i < held.lines.count; i++) record_line(c, g, held.lines[i]);
  c.totals.l1_reads += held.l1_reads;
  c.totals.l1_hits += held.l1_hits;
}

void sleep_again(Counting& c, GroupCount& g, u32 wave, u32 pc) {
  Held*& held = g.held[wave];
  if (!held) held = (Held*)calloc(1, sizeof(Held));
  if (held->on && held->reads && held->sleep_pc == pc)
    for (u64 i = 0; i < held->executed.count; i++) c.counters[held->executed[i].taken.pc].polls++;
  else if (held->on) count_held(c, g, wave, *held);
  held->on = true;
  held->reads = false;
  held->sleep_pc = pc;
  held->executed.count = held->lines.count = 0;
  held->l1_reads = held->l1_hits = 0;
}

// Whether what follows it is no poll any more: it changes what others see, or is what the wave is there for.
static bool is_progress(const Counting& c, u32 pc) {
  const u32 unit = c.costs[pc].unit;
  return unit == MATRIX_UNIT || unit == BARRIER_UNIT || unit == END_UNIT ||
         ((unit == MEMORY_UNIT || unit == LDS_UNIT) && access_flags(*c.facts[pc]) & WRITES);
}

bool may_poll(Counting& c, GroupCount& g, u32 wave, u32 pc) {
  Held& held = *g.held[wave];
  if (held.executed.count == MOST_OF_POLL || is_progress(c, pc)) count_held(c, g, wave, held);
  return held.on;
}
