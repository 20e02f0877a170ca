// Where the waves of the launches under way are, and what they wait for: see live_launches.cpp.
#pragma once
#include "check.h"

struct LiveThread {
  Workgroup** groups;
  volatile u32 n;
  const u64* executed;  // per instruction
};
struct LiveLaunch {
  Program* program;
  const KernelInfo* kernel;
  Launch* launch;
  LiveThread* threads;
  u32 n_threads, total;  // of workgroups
  u32 room;              // workgroups that the card holds at once
  volatile u32* next_group;
  LiveLaunch* next;
};

void live_begins(LiveLaunch*);
void live_ends(LiveLaunch*);
void live_thread_ends(LiveThread&);  // before its workgroups are freed
// A sentence for each place where waves are, with `before` before it; the number of characters, of which at most `size` are
// written.
u32 describe_waits(const LiveLaunch&, char* text, u32 size, const char* before);
const LiveLaunch* live_launch(const Launch*);
void waits_at_signals();  // tells of them on stderr when the process is asked to end, or aborts

extern "C" {
u32 cdna_waits(char* text, u32 size);  // of all launches of the process; 0: none is under way
u32 cdna_cancel();                     // ends all launches of the process; how many
void cdna_end_at_interrupt(u32 ends);  // whether SIGINT does
}
