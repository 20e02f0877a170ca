// The time of a launch: replays of a CU, at the card's clock and at the one that power leaves it.
#pragma once
#include "caches.h"
#include "replay.h"

struct LaunchTime {                  // in the order of counters.py's _Time
  double cycles, mhz, matrix_share;  // share of the time that the matrix cores are busy
};

struct RecordedLaunch {
  const RecordedGroup* groups;  // some of them, spread over the grid
  const Timing* timings;
  u32 n_recorded, n_waves;
  u32 groups_in_all, groups_per_cu;
  bool leaves_whole;  // a workgroup's place is free only when all of its waves have ended
};

// warm: as if the memory-side cache held everything. stalls: cycles by instruction and reason, of the busiest CU; or null.
LaunchTime launch_time(const Card&, const RecordedLaunch&, const MemoryTraffic&, bool warm, double* stalls);
