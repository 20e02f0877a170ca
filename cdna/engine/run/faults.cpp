// What ends a wave before its time: faults of its own, and the host's where it accesses memory that is not there.
#include "thread.h"
#include "checks/check.h"
#include "isa/host.h"
#include "launch.h"
#include <signal.h>
#include <stdio.h>

static thread_local Thread* current_thread;
void runs_waves_of(Thread* t) { current_thread = t; }

// Turns a host access fault into the wave's fault message, with the lane whose access it was. The host reports no
// address where the 64 bits are none that it could map; the lane's own address is named then.
void memory_fault(Wave& w, u64 address) {
  EACH_LANE(w, i) {
    u64 a = w.address[i];
    bool unmappable = a >> ADDRESS_BITS && ~a >> ADDRESS_BITS;
    if (address - a >= 16 && !(address == 0 && unmappable)) continue;
    fault(w, "memory access fault at address 0x%llx, lane %d", (unsigned long long)(unmappable ? a : address), i);
    return;
  }
  fault(w, "memory access fault at address 0x%llx", (unsigned long long)address);
}

void record_fault(Thread& t, Wave& w) {
  Launch& l = *t.launch;
  pthread_mutex_lock(t.fault_lock);
  if (l.status == 0) {
    l.status = 1;
    l.fault_pc = w.pc - 1;
    l.fault_wave = w.id;
    memcpy(l.fault_group, w.wg->id, sizeof l.fault_group);
    l.fault_address = t.fault_address;
    if (t.hostcall && hostcall_assertion(t.hostcall)[0])
      snprintf(l.message, sizeof l.message, "%s", hostcall_assertion(t.hostcall));
    else snprintf(l.message, sizeof l.message, "%s", w.fault);
  }
  pthread_mutex_unlock(t.fault_lock);
}

static struct sigaction previous_segv, previous_bus;

// A runtime's: whether it has opened what was closed there, for the access to happen again.
static bool (*opens)(u64 address);
extern "C" void cdna_set_opens(AddressTest f) { opens = f; }

static void on_signal(int number, siginfo_t* info, void* context) {
  if (opens && opens((u64)info->si_addr)) return;
  Thread* t = current_thread;
  if (t && t->running) {
    t->fault_address = (u64)info->si_addr;
    siglongjmp(t->on_fault, 1);
  }
  struct sigaction* previous = number == SIGSEGV ? &previous_segv : &previous_bus;
  sigaction(number, previous, nullptr);  // not ours: the instruction repeats under the earlier handler
}

// Launches nest over host threads and processes, so the handlers go in once and stay.
void install_fault_handlers() {
  static int done = 0;
  if (__atomic_exchange_n(&done, 1, __ATOMIC_SEQ_CST)) return;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &previous_segv);
  sigaction(SIGBUS, &action, &previous_bus);
  waits_at_signals();
}
