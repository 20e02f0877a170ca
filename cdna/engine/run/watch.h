// Who looks on while waves run: Python's watches, its debugger and traces (watching.py).
//
// A watched launch runs on the calling thread alone: what is called may be Python, whose lock the caller may hold.
#pragma once
#include "program/program.h"
#include "time/observer.h"

constexpr u32 MAX_WATCHES = 32, ANY_ONE = ~0u, NO_PC = ~0u;

struct WatchedLaunch {
  Program* program;
  const char *kernel, *arch;
  const char** where;  // per instruction: "`text` (file:line)"
  const u8* kernarg;   // the explicit arguments, and where they lie:
  const KernelArgument* arguments;
  u32 n_arguments, kernarg_bytes;
  u32 n_inst, entry, first_accumulation;
  u32 groups[3];
  u32* marks;                                       // [n_inst]: bit i: watch i wants to know, of these waves:
  u32 group_of[MAX_WATCHES], wave_of[MAX_WATCHES];  // linear id; ANY_ONE
};

struct WatchedWave {
  const WatchedLaunch* launch;
  u32 *s, *v;
  u8* lds;
  u64 exec;
  u32 pc, now;           // the instruction that comes, and the watches that marked it
  u32 previous, before;  // the one that has just executed, NO_PC where no watch marked it, and those that did
  u32 group[3], linear_id, wave, n_vgpr, scc, mode, lds_bytes;
};

// Marks a launch's instructions.
typedef void (*WatchBegins)(WatchedLaunch*);
typedef void (*WatchEnds)(WatchedLaunch*);
// Before a marked instruction, and behind one; false: the launch ends.
typedef u32 (*WatchComes)(const WatchedWave*);

struct Watch : Observer {
  Observer* inner;  // that the launch has beside; null: none
  WatchedLaunch launch;
  WatchEnds ends;
};

Watch* watch_begins(Program*, const KernelInfo&, const Launch&);  // null: nobody watches
Observer* watch_around(Watch*, Observer* inner);
void watch_ends(Watch*);

struct Touch;
extern "C" {
void cdna_watch(WatchBegins, WatchComes, WatchEnds);   // null: none any more
u32 cdna_written(Program*, u32 pc, Touch* registers);  // what an instruction writes, at most 8; how many
}
