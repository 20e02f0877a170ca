// The workgroups of a launch whose steps are kept, and which of them are replayed.
//
// Those chosen beforehand, and where others may have more to do than these (the last to arrive adds up what all have left)
// the first of each kind: workgroups that did about as much. One that has nothing to do (the grid is an upper bound) stands
// for none that has, and counts for nothing, unless no workgroup has.
//
// Who has most to do is not known beforehand. What a workgroup does beyond what the first one did (its number is 0) is kept
// of the longest so far, which costs nothing where they are alike; the first one's steps stand for what went before.
#pragma once
#include "memory/list.h"
#include "launch_time.h"

constexpr u32 MOST_TIMED = 8;  // workgroups

struct WorkOf {
  const u64* of;  // steps of each workgroup, 0: has nothing to do
  u32 n;
};

struct Longest {        // the workgroup that executes more than any of those chosen by a quarter
  u64 group, n_steps;   // 0 steps: there is none
  u64 of_others, mean;  // the most of those chosen; of the whole grid, 0: of a sample, or where others are waited for
};

// Who may be the longest is recorded, too: LATE, from where it has done more than the first workgroup, or WHOLE, as it began
// before that had ended.
enum Recorded : u8 { NOT_RECORDED, CHOSEN, WHOLE, LATE };

struct KeptGroups {
  static constexpr u32 MOST_KINDS = 32, ALIKE = 16;  // those of a kind differ by less than a 16th
  struct Kept {
    u32 group, kind;
    u64 n_steps;   // 0: has nothing to do
    Steps* steps;  // [n_waves]
    Recorded as;
    bool spare;  // replayed only where none of the others works
  };
  struct Kind {
    u64 n_steps;
    u32 groups;
  };
  List<Kept> all;
  Kind kinds[MOST_KINDS];
  u32 n_waves, n_kinds, n_groups;
  u32 n_replayed, replayed[MOST_REPLAYED];  // of those kept
  bool all_come;                            // to `keep`, not only those chosen and the spare one
  bool seeks_longest;
  static constexpr u64 NEVER_LONG = ~0ull;  // while the first workgroup has not ended
  volatile u64 long_from;                   // steps of the first workgroup: from there on others are recorded
  Longest longest;
  Steps* longest_at;  // [n_waves], its steps; null where there is none

  // Which are chosen of so many: spread over them, and by an odd step, so that they are not all of one slice of k or of one
  // XCD where there is a power of two of these. and_longest: who does most is sought, too.
  void spread_over(u32 among, bool and_longest);
  bool is_chosen(u32 number) const;
  // Of a grid of which few work these are among its first.
  bool is_spare(u32 number) const { return !number && !all_come && !is_chosen(number); }
  Recorded records(u32 number) const {  // from its beginning
    if (all_come || is_chosen(number) || is_spare(number)) return CHOSEN;
    return seeks_longest && long_from == NEVER_LONG ? WHOLE : NOT_RECORDED;
  }
  // A workgroup has ended. number: among those of whom some are chosen. works: it has asked for a line. n_steps: in all.
  // Whether its steps are kept and no more the caller's.
  bool keep(u32 group, Steps* steps, u32 number, bool works, u64 n_steps, Recorded as);
  // Which of those kept are replayed: so many of each kind as there are. one_round: of a grid that fits on the card at once,
  // which takes as long as its slowest workgroup, one that did most is among them.
  void choose(bool one_round);
  // Of a sample: tiles of two sizes are unlike, so each is replayed as often as others are like it: those of `whole`, and of
  // `probes`, each of which stands for many. by_work: false where what they execute says nothing of work.
  void choose_alike(WorkOf whole, WorkOf probes, double of_probe, bool by_work);
  Longest longest_of(u64 mean) const;  // of the whole grid, 0: it is not known
  void forget();

 private:
  u32 every, first;  // of those chosen
  u32 kind_of(u64 n_steps);
  void forget(const Kept&);
  bool keep_longest(const Kept&);
  void take_longest();
  void leave_the_working();  // by number: they ended in any order
};
