// The emulated device's clock: it ticks with what is executed, not with the host.
//
// A wave's time is its workgroup's start and the cycles of what it has executed since. It moves on to another's where
// it has waited for it: at a barrier to the last wave that arrives, at a poll to the latest that any wave has reached.
// While all waves of a process poll and have nobody to wait for here, host time moves the clock instead, slower.
#pragma once
#include "isa/core.h"

struct Program;
struct KernelInfo;
struct Launch;

u64 clock_now();
void clock_advance(u64 cycles);  // to there

u32 resident_groups(const KernelInfo&, const Launch&);  // that a compute unit holds at once; at least one

struct LaunchClock;
LaunchClock* clock_begin(const KernelInfo&, const Launch&, u32 groups);
void clock_end(LaunchClock*);
u64 clock_group_starts(LaunchClock*);  // when a compute unit has room for the next workgroup
void clock_group_ended(LaunchClock*, u64 cycles);
u64 clock_latest(const LaunchClock*);  // the latest time that a wave of the launch has worked until
void clock_worked(LaunchClock*, u64 cycles);

extern "C" u64 cdna_idle_ns();  // how long all waves have only polled

// Of one host thread: how long its waves have only polled.
struct Idle {
  bool idle;
  bool sleeps;  // its waves poll with s_sleep between
  u64 since;    // host ns
  u64 used_ns;  // of its core, when it last went to look at all of them
};
void clock_thread_starts();
void clock_thread_works(Idle&);
void clock_thread_idles(Idle&, const LaunchClock*);  // lets other threads and processes run
void clock_thread_ends(Idle&);

// Processes that may wait for each other: those with the same $CDNA_PEERS, else of one session. Each counts what it
// does in a page that all of a user's share, /dev/shm/cdna-peers-UID.
struct Beat {
  u64 group, count, polls;  // turns of its workgroups that did more than poll, and looks of all that did not
  u32 owner;                // its process, which may have ended
  u32 unused[9];            // two of them in a cache line would slow each other
};
constexpr u32 BEATS = 256;

// What s_memtime and s_memrealtime return to a wave, after the loop that runs it has added up its cycles.
void clock_answer(Wave&);
// Cycles of each instruction of a program that reads the clock; null for others, whose instructions count as 4 each.
const u16* clock_costs(Program&, const Card&);
constexpr u32 CYCLES_OF_MOST = 4;
