// Samples (sampled_grid.h). Of a grid of many rounds (a round, here a batch: the workgroups that fit on the card at the same time) three
// run: the first, which finds its caches cold, and two in the middle, of which the former warms the caches and the
// latter stands for all but the first. In those only the workgroups whose time is taken have every instruction looked
// at, of the others the lines that they ask of the L2. No matrix instruction computes, so what the kernel leaves in
// memory is of no use, and whatever decides by it goes astray. What is counted is scaled to the grid.
// A grid may be an upper bound, whose last workgroups find nothing to do. Those that ask for no line count as none (recorded_groups.h), so
// some of all that do not run otherwise do: what is counted is scaled to those that work, and where they show that
// others have more or less to do than those that stand for them, by that too.
// Not of kernels whose workgroups learn from an atomic what to do (the last of a tile adds up what all have left): of those
// every workgroup runs, and where one has done more or less than those before it, its steps are kept too.
// SAMPLE_PRODUCTS: only of kernels with matrix instructions and only of a grid of 13 rounds or more, as a router's is not.
// Rounds may be unlike there: three or four pairs of them are spread over the grid, each for its part.
#include "counting.h"

template <class Is> static bool has(const Program& p, const KernelInfo& k, Is is) {  // such an instruction
  u32 end = p.n_inst;
  for (u32 i = 0; i < p.n_kernels; i++)
    if (p.kernels[i].entry > k.entry && p.kernels[i].entry < end) end = p.kernels[i].entry;
  for (u32 i = k.entry; i < end; i++)
    if (is(i)) return true;
  return false;
}
static bool has_products(const Source& s, const Program& p, const KernelInfo& k) {
  return has(p, k, [&](u32 pc) { return s.costs[pc].unit == MATRIX_UNIT; });
}
// They answer, and are not in the LDS.
bool has_answers(const Source& s, const Program& p, const KernelInfo& k) {
  return has(p, k, [&](u32 pc) {
    return s.facts[pc]->does == DOES_ATOMIC && s.costs[pc].unit == MEMORY_UNIT && p.code[pc].dst[0].kind == VGPR;
  });
}

void choose_sample(Source& s, const Program& p, const KernelInfo& k) {
  const bool spread = s.sample == SAMPLE_PRODUCTS;
  if (spread && (!s.grid.is_worth_spreading() || !has_products(s, p, k))) return;
  s.no_products = true;
  if (s.kept.all_come) return;
  s.light = true;
  for (u32 i = 0; i < p.n_inst; i++)
    if (s.facts[i]->does == DOES_SLEEP) s.light = false;  // polls are told apart by looking at every instruction
  s.grid.sample(spread);
  s.chosen = s.grid.groups;
  s.n_chosen = s.grid.n_groups;
}

void scale_to_grid(Source& s) {
  CounterTotals& t = s.totals;
  if (const u32 working = s.grid.working()) t.groups = working;
  else t.run = s.grid.groups ? s.n_chosen : s.grid.total, t.observed = s.light ? s.kept.all.count : t.run;
  u64 steps = 0;
  u32 observed = 0;
  for (u64 i = 0; i < s.kept.all.count; i++)
    if (s.kept.all[i].as == CHOSEN) steps += s.kept.all[i].n_steps, observed += s.kept.all[i].n_steps > 0;
  t.run_work = s.grid.work_of_run();
  t.observed_work = s.light ? s.grid.work_of(steps, observed) : t.run_work;
  s.grid.scale(t.traffic);
}
