// The time of a launch: replays of a CU, at the card's clock and at the one that power leaves it.
#pragma once
#include "caches.h"
#include "replay.h"

struct LaunchTime {
  double cycles, mhz, matrix_share;  // share of the time that the matrix cores are busy
  double others_cycles;              // as if no workgroup did much more than the others
  double non_temporal;               // share of what is read from HBM
};

constexpr u32 MOST_REPLAYED = 16;  // workgroups of a launch
struct RecordedLaunch {
  const RecordedGroup* groups;  // some of them, spread over the grid
  const Timing* timings;
  u32 n_recorded, n_waves;
  u32 groups_in_all, groups_per_cu;
  bool leaves_whole;        // a workgroup's place is free only when all of its waves have ended
  const Steps* longest;     // of the workgroup that does much more than others, where there is one
  double work;              // of the grid, of what those recorded have: see counters.cpp
  double asks = 1;          // of the lines that those recorded ask for
  double non_temporal = 0;  // share of what is read from HBM
};

// warm: as if the memory-side cache held everything.
LaunchTime launch_time(const Card&, const RecordedLaunch&, const MemoryTraffic&, bool warm, const ReplayOptions&);

// What is left of each of the launch's costs where something is changed.
struct Left {
  LaunchTime time;
  double l2_read, fabric_read, hbm_read, write, links;  // of the lines
};
Left launch_time_with(const Card&, const RecordedLaunch&, const MemoryTraffic&, bool warm, const Change&);
// The waves of one CU, at a clock.
void launch_timeline(const Card&, const RecordedLaunch&, const MemoryTraffic&, bool warm, double mhz,
                     const ReplayOptions&);
