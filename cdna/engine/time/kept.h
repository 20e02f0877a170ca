// The workgroups of a launch whose steps are kept, and which of them are replayed.
//
// Those chosen beforehand, and where others may have more to do than these (the last to arrive adds up what all have left)
// the first of each kind: workgroups that did about as much.
#pragma once
#include "growing.h"
#include "replay.h"

constexpr u32 MOST_TIMED = 8;  // workgroups

struct KeptGroups {
  static constexpr u32 MOST_KINDS = 32, ALIKE = 16;  // those of a kind differ by less than a 16th
  struct Kept {
    u32 group, kind;
    Steps* steps;  // [n_waves]
  };
  struct Kind {
    u64 n_steps;
    u32 groups;
  };
  Growing<Kept> all;
  Kind kinds[MOST_KINDS];
  u32 n_waves, n_kinds, n_groups;
  u32 n_replayed, replayed[MOST_TIMED];  // of those kept

  // A workgroup has ended. Whether its steps are kept and no more the caller's.
  bool keep(u32 group, Steps* steps, bool chosen);
  // Which of those kept are replayed: so many of each kind as there are. one_round: of a grid that fits on the card at once,
  // which takes as long as its slowest workgroup, one that did most is among them.
  void choose(bool one_round);
  void forget();

 private:
  u32 kind_of(u64 n_steps);
};
