// Which workgroups of a launch run: all of its grid, or a sample of a large one, and what these say of the others.
//
// Batches: workgroups that fit on the card at the same time. A sample has the first of them, which finds its caches cold, and
// pairs of which the former warms the caches and the latter stands for its part of the grid. Probes, spread over what does not
// run otherwise, tell how many workgroups find something to do, and how much. Workgroups are numbered as they run.
#pragma once
#include "caches.h"
#include "recorded_groups.h"

struct Grid {
  u32 total, batch, n_batches;  // workgroups; of a batch; batches that run
  u32* groups;                  // those of a sample: its batches, and behind these the probes; null: all run
  u32 n_groups, n_in_batches;   // of them; without the probes
  u64 all_steps;                // of workgroups that work, where all run
  bool by_work;                 // what workgroups execute says how much they have to do

  void whole(u32 n_workgroups, u32 of_batch);
  bool is_worth_spreading() const;  // a sample over the whole of it
  void sample(bool spread);
  u32 number_of(u32 group) const;
  bool is_probe(u32 group) const { return groups && number_of(group) >= n_in_batches; }
  // Its number among those of whom some are timed, the first of n_timed; one that none has if it is not among them.
  u32 timed_number(u32 group) const;
  u32 n_timed() const { return groups ? (pairs + 1) * batch : n_in_batches; }

  // Workgroups that have ended. works: it has asked for a line.
  void ended(u32 number, bool works, u64 n_steps);
  void probe_ended(bool works, u64 n_steps);
  // What a batch has asked for: to `all`, or kept to be scaled.
  void asked(u32 of_batch, const MemoryTraffic&, MemoryTraffic& all);

  u32 working() const;  // of the grid
  // How much more a workgroup of the grid has to do, at the mean, than n that executed so many steps; than those that ran.
  double work_of(u64 steps, u32 n) const;
  double work_of_run() const;
  void scale(MemoryTraffic&) const;  // a sample's to the grid's
  void scale_write_back(const Card&, MemoryTraffic&) const;
  void choose(KeptGroups&, u32 working) const;  // which are replayed
  void forget();

 private:
  static constexpr u32 SAMPLED_BATCHES = 3, FEWEST_PAIRS = 3, MOST_PAIRS = 4, PROBES = 32;
  struct Work {  // of workgroups that work
    double steps, squares;
    u32 n;
    void add(u64 of_one);
    double mean() const { return n ? steps / n : 0; }
  };
  u32 pairs, batches[1 + 2 * MOST_PAIRS], n_probes;
  u32 working_in[3], working_probes;  // of the first batch, of those that warm, of those that stand for others
  u64* done;             // steps of each that runs, of probes behind the others; 0 of those that do not work
  u64 stored, evicted;   // bytes that the sample has stored into the L2s, and that these have written back
  MemoryTraffic others;  // of those that stand for others

  u32 pairs_in() const;
  Work of_batches(u32 first, u32 every) const;
  Work of_probes() const;
  bool is_alike() const;
  double work_of_others() const;  // of what has not run, for what those that stand for it have
};
