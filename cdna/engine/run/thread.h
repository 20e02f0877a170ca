// A host thread that runs workgroups of a launch, and what the files of this room do with it.
#pragma once
#include "checks/live_launches.h"
#include "hostcall.h"
#include "isa/reach.h"
#include "seeded_order.h"
#include "time/device_clock.h"
#include "time/observer.h"
#include <setjmp.h>

struct Thread {
  pthread_t handle;
  const KernelInfo* kernel;
  u32 lds_bytes, scratch_bytes, max_live;
  const u8* packet;
  Program* program;
  const Inst *code, *skipping;  // see Wave
  Launch* launch;
  const u32* chosen;  // workgroups, null: all
  u32 total;          // of them
  volatile u32* next_group;
  pthread_mutex_t* fault_lock;
  u64* executed;
  char message[256];
  sigjmp_buf on_fault;
  Wave* running;
  u64 fault_address;
  LaunchClock* clock;
  Idle idle;
  Order order;
  Observer* observer;  // null: none
  XcdL2* l2;           // of the launch; null: none is followed
  Reach* reach;        // null: nobody asks
  Hostcall* hostcall;  // null: the kernel makes none
  LiveThread* live;
  volatile u32* n_live;  // workgroups of all threads
  u32 room;              // for so many
};

// wave_start.cpp
Workgroup* start_group(Thread& t, Workgroup* spare, u32 linear);  // spare: one that has ended, or null
void free_group(Workgroup* g);
// execute.cpp. How many instructions the wave has executed.
u32 run_wave(Wave& w, const Program& p, u32 quantum, Observer* observer);
// barrier.cpp. Whether all waves had arrived.
bool release_barrier(Thread& t, Workgroup& g);
// schedule.cpp
constexpr u32 QUANTUM = 20000;          // amortises a switch, and a spinning wave soon lets others run
constexpr u32 MAX_LIVE_GROUPS = 256;    // that a thread holds at once, unless the card's share of a thread is more
constexpr u32 POLL_INSTRUCTIONS = 512;  // fewer before a wave lets others run, and it polls
void* run_groups(void* thread);
// faults.cpp
void install_fault_handlers();
// Makes the thread, or none, the one whose waves this host thread runs. A fault of theirs goes to its `on_fault`.
void runs_waves_of(Thread* t);
void memory_fault(Wave& w, u64 address);  // in which a host access fault at that address has ended
void record_fault(Thread& t, Wave& w);
