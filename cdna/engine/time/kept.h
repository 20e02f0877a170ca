// The workgroups of a launch whose steps are kept, and which of them are replayed.
//
// Those chosen beforehand, and where others may have more to do than these (the last to arrive adds up what all have left)
// the first of each kind: workgroups that did about as much. One that has nothing to do (the grid is an upper bound) stands
// for none that has, and counts for nothing, unless no workgroup has.
#pragma once
#include "growing.h"
#include "replay.h"

constexpr u32 MOST_TIMED = 8, MOST_REPLAYED = 16;  // workgroups

struct WorkOf {
  const u64* of;  // steps of each workgroup, 0: has nothing to do
  u32 n;
};

struct KeptGroups {
  static constexpr u32 MOST_KINDS = 32, ALIKE = 16;  // those of a kind differ by less than a 16th
  struct Kept {
    u32 group, kind;
    u64 n_steps;   // 0: has nothing to do
    Steps* steps;  // [n_waves]
    bool spare;    // replayed only where none of the others works
  };
  struct Kind {
    u64 n_steps;
    u32 groups;
  };
  Growing<Kept> all;
  Kind kinds[MOST_KINDS];
  u32 n_waves, n_kinds, n_groups;
  u32 n_replayed, replayed[MOST_REPLAYED];  // of those kept
  bool all_come;                            // to `keep`, not only those chosen and the spare one

  // Which are chosen of so many: spread over them, and by an odd step, so that they are not all of one slice of k or of one
  // XCD where there is a power of two of these.
  void spread_over(u32 among);
  bool is_chosen(u32 number) const;
  // Of a grid of which few work these are among its first.
  bool is_spare(u32 number) const { return !number && !all_come && !is_chosen(number); }
  bool may_keep(u32 number) const { return all_come || is_chosen(number) || is_spare(number); }
  // A workgroup has ended. number: among those of whom some are chosen. works: it has asked for a line. Whether its steps are kept and no more the caller's.
  bool keep(u32 group, Steps* steps, u32 number, bool works);
  // Which of those kept are replayed: so many of each kind as there are. one_round: of a grid that fits on the card at once,
  // which takes as long as its slowest workgroup, one that did most is among them.
  void choose(bool one_round);
  // Of a sample: tiles of two sizes are unlike, so each is replayed as often as others are like it: those of `whole`, and of
  // `probes`, each of which stands for many. by_work: false where what they execute says nothing of work.
  void choose_alike(WorkOf whole, WorkOf probes, double of_probe, bool by_work);
  void forget();

 private:
  u32 every, first;  // of those chosen
  u32 kind_of(u64 n_steps);
  void forget(const Kept&);
  void leave_the_working();  // by number: they ended in any order
};
