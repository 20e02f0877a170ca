// Checks of what hardware hides: a second way to run waves that looks at every instruction before it executes. Here is what
// the files of this room share: what has been found, the memory of a launch, the state of its waves and workgroups.
#pragma once
#include "isa/facts.h"
#include "memory/stream_work.h"
#include "memory/unwritten.h"
#include "program/access.h"
#include <pthread.h>
#include <stdio.h>

#define KIND(identifier, name) CHECK_##identifier,
enum CheckKind : u32 {
#include "checks/kinds.h"
  CHECK_KINDS
};
#undef KIND

// --- findings --------------------------------------------------------------------------------------

struct Finding {
  u32 kind, pc, group[3], wave;
  i32 lane;      // -1: none in particular
  u32 other_pc;  // the other instruction of a race, ~0: none
  u64 address, count;
  char tensor[64];
  char message[1200];
};

struct Range : MemoryRange {
  u64 pointer;               // what the kernel got as argument; 0 if it got none
  const char* barred;        // why the launch's device does not reach what is there; null: it does
  volatile u32 written;      // the kernel writes there: set by its first store
  u64* writes;               // per dword: who wrote, who read last; see global_race.cpp, whose block it is
  u64* reads;                // see readers.h
  struct EarlyReads* early;  // what was read before the first write; see readers.h
  bool reads_lost;           // not all of it
  u32* write_pc;             // and whether the writer has read there, HAS_READ
  u8* noted;                 // per NOTED dwords: whether anything is in those three
  struct ByteWrites* bytes;  // of dwords whose bytes several workgroups have stored: who stored each
  u64* updates;  // per dword: who changed it last by an atomic, or by a store that may be a flag; none until one does
  u32* update_pc;
};

// Unknown addresses are a finding; are none; only where they are the host's memory, which the card does not reach.
enum Openness : u32 { CLOSED, OPEN, OPEN_BUT_FOR_HOST };

struct Checks {
  u32 kinds;      // bit mask
  u32 raise;      // stop at the first finding
  u32 open;       // Openness: whether the kernel may follow pointers that no argument names
  Range* ranges;  // sorted by base while a launch runs
  u32 n_ranges, max_ranges;
  u64* asked;  // bases of allocations: 0 in the end where the launch has not written all of one
  u32 n_asked;
  u64* barred;  // bases of allocations that the launch's device has no access to
  u32 n_barred;
  Finding* findings;
  u32 n_findings;
  pthread_mutex_t lock;
  // of the running launch
  Program* program;
  Access* table;
  u16* hint;            // per instruction: the range of its last access
  bool part_atomics;    // the program may make 16-bit atomics of 32-bit ones
  bool has_spin_loads;  // waves may wait for each other's words in LDS: then turns are short
  u32 n_groups;
  struct Orders* orders;  // what happens before what by flags, see happens_before.h
  struct Readers* readers;
  struct Preempts* preempts;  // null: waves go on as they may, see preempt.h
  u32 clock;                  // synchronising accesses so far
  u64 shadow_bytes;
  volatile u64 progress;  // stores, atomics that changed something, waves that ended
  volatile u64 stuck_at;  // progress + 1 at which threads found all their waves spinning
  volatile u32 n_stuck, n_threads;
  pthread_t stuck[64];
  volatile u64 rests_at;      // progress + 1 at which all its threads had been stuck for a while
  volatile u64 suspected_at;  // progress + 1 at which no launch seemed able to go on
  u32 work;                   // of a stream, as which this launch runs; 0: not said
  volatile bool tells;        // it has written what may be a flag where the host may look
  volatile bool looks;  // the launch has looked at what may be a flag: others may have told it that they have ended
  const u64* known;     // per stream: up to which place its work has ended before
  const char* kernel;   // its name
  u64* unwritten;       // per instruction: where it has read first what nothing has written
  const char* (*work_name)(u32 work);
  const char* (*beside)(u32 work, u32 other);
  Checks* next_live;  // the list of launches under way
  bool has(CheckKind k) const { return kinds >> k & 1; }
  bool follows_values() const { return kinds & (1u << CHECK_UNINITIALISED | 1u << CHECK_UNWRITTEN); }
};
constexpr u32 MAX_FINDINGS = 64;
constexpr u32 PATIENCE_TURNS = 256;  // of a wave, without a change in memory, before it is suspected

// --- state of a checked wave and workgroup -----------------------------------------------------------

struct Outstanding {
  u32 seq, pc;
  Touch touch;  // destination; count 0: none
  u8 kind;
};
constexpr u32 MAX_OUTSTANDING = 64, MOST_VMCNT = 63;  // the latter: what vmcnt holds
constexpr u32 VGPR_WORDS = 9;                         // 512 registers, and one word to read past the end

struct Counter {     // vmcnt or lgkmcnt
  u32 issued, done;  // operations; those numbered up to `done` have been waited for
  u32 n;
  Outstanding ops[MAX_OUTSTANDING];
};

struct Origin {
  u32 what, pc;
};  // what has not been written, and the instruction that read it first
struct Undefined {        // a register or a word of scratch, lane by lane; a scalar register, bit by bit
  u64 defined, computed;  // computed: undefined, and the result of arithmetic
  Origin origin;          // what: 0 if nothing has come there from elsewhere
};
struct Values {  // of uninitialised.cpp; registers that known_v and known_s do not have
  Undefined v[512], s[128];
  u64 followed[10];    // registers of v, then of s, whose state the wave has ever noted
  Undefined* scratch;  // per dword
  u32 n_scratch;
  Origin scc;   // what: 0 if it is defined
  bool of_lds;  // some may have been read of LDS, or of memory, where nothing had been written
};

struct WaveCheck {
  u32 pc;    // of the instruction under check
  u32 smem;  // scalar operations among lgkm's outstanding ones, or flat ones: they return in any order
  u64 pending_v[VGPR_WORDS], pending_s[3];
  u64 pending_blocks;                   // see block_of; 0: nothing is pending
  u64 known_v[VGPR_WORDS], known_s[3];  // registers that are defined in all lanes
  u32 vm_at_barrier, lgkm_at_barrier;   // `done` at the last barrier
  u64 lanes;                            // that an atomic acts on
  u64 kept;                             // of those, what seemed to leave the value that is there
  u64 dropped;                          // lanes whose access is outside, of a launch that goes on: it does not happen
  u64 spoilt;                           // lanes of an atomic that bring what nothing has written
  // deadlock.cpp
  u64 stalled_at;  // progress when the wave last got its turn
  u32 idle_turns, snapshot_pc, polled_pc;
  u64 snapshot_light, snapshot_hash;
  u64 polled;
  u64 recent[16];         // its last accesses to memory, each instruction and address once
  u32 n_recent, repeats;  // those since the last that was none of them: a wave that polls has no other
  bool spins;
  bool apart_known;
  u32 seen[16];      // LDS accesses of each other wave, by lgkm's count, that a flag has told of
  u32 last_access;   // instruction of its last memory access
  u64 quiet;         // instructions since that, or a barrier
  u32 last_barrier;  // instruction of its last barrier
  u32 turns;
  u32 handed_over;  // turns that it has ended early, see check_wave.cpp
  bool told;        // by a flag, of what another workgroup has done
  bool loaded(u32 at) const { return loads && loads[at >> 6] >> (at & 63) & 1; }
  u32 barriers;         // passed
  u32 held, visits[8];  // at which of its launch's holds, plus 1, and how often it has come to each
  u64 variable[64];     // per pair of scalar registers: the variable's address that was made there
  struct {
    u16 reg;
    u64 base;
  } derived[4];  // pairs of vector registers with addresses made of those
  u32 n_derived;
  Values values;
  // What the counters, and the distances, hold counts only where the wave has put it there.
  Counter vm, lgkm;
  u64 apart[WAVE];  // lanes' distances from the first one's address in a store, in which no two were at one place
  // A bit an instruction: loads of global memory that it has executed; those that have found all defined that they read
  // and left all defined that they write, and nothing has become undefined since.
  u64 *loads, *sound;
  u32 n_loads;
};

struct LdsCell;
struct GroupCheck {
  Checks* checks;
  struct GroupOrder* order;
  WaveCheck* waves;
  u32 epoch;        // barriers passed; never starts over while the memory is reused
  u32 first_epoch;  // of this workgroup
  LdsCell *granules, *dwords;
  u8* written;  // per dword: bytes written by this workgroup
  u32 lds_bytes;
  u32 unwritten;           // 1 + the instruction that has read of memory, where nothing had, what was written here last
  bool unarrived;          // a wave has passed a barrier before its accesses to LDS had ended
  struct LdsQuick* quick;  // see lds_race.h
  u64 moved_at;            // progress when the last barrier let waves go
  u32 still_epoch;         // of deadlock.cpp: how many barriers had been passed when it last looked,
  double still_since;      // and since when
  bool apart;              // two waves have waited at different barriers at once, the first such two:
  u32 apart_wave[2], apart_pc[2];
  bool missed;    // a wave has ended without a barrier that it should have reached
  Wave* stopped;  // by that finding, or by one that was held back
  bool holds;     // a finding back, until the next barrier; see report_later
  Wave* held_wave;
  Finding held;
};

// --- between the parts -----------------------------------------------------------------------------

// Notes a finding; false if the wave has to stop.
bool report(Wave& w, CheckKind kind, int lane, u64 address, const Range* range, u32 other_pc, const char* format, ...);
// The same of LDS that nothing has written yet. Where another wave writes it before the next barrier, the missing barrier is
// the fault, and is told first.
bool report_later(Wave& w, CheckKind kind, int lane, u32 at, u32 other_pc, const char* format, ...);
// At a barrier, or the workgroup's end: what was held back is a finding then.
void report_held(Workgroup& g);
// "8 bytes past the end of `x` (fp32[1000])", or "at offset 8 of" one that holds all bytes: of the nearest range, or the
// one meant.
constexpr u64 FAR = 1ull << 32;             // bytes: what lies further away has nothing to do with a range
u64 distance(const Range& r, u64 address);  // in bytes; 0 inside
const Range* describe(const Checks& c, u64 address, u32 bytes, char* text, u32 size, const Range* meant = nullptr);

bool check_global(Wave& w, const Inst& in, const Access& x);
// An atomic: what its lanes' memory holds before it, and what came of it. False: the wave has to stop.
void before_atomic(const Wave& w, const Access& x, u64 lanes, u64* held);
bool after_atomic(Wave& w, const Access& x, u64 lanes, const u64* held);
bool check_stale(Wave& w, const Access& x);  // a load that has been executed, of what another XCD has written
bool check_scalar(Wave& w, const Inst& in, const Access& x);
// stream_race.cpp
bool check_streams(Wave& w, const Access& x, const u64* at, u64 lanes, const u32* data, const Range& r);
bool check_stream_update(Wave& w, int lane, u64 from, u64 to, const Range& r);
// unwritten.cpp. What an access has loaded: lanes that hold what nothing has written.
void note_loaded(Wave& w, const Inst& in, const Access& x);
// Lanes of an atomic whose memory nothing has written. held: see before_atomic.
u64 unwritten_lanes(const Wave& w, const Access& x, u64 lanes, const u64* held);
void spoil(const Wave& w, const Access& x, u64 lanes);
// Data registers of a store, from `reg` on: lanes that hold what nothing has written get UNWRITTEN. at: lanes' addresses.
// Before races are looked for: of what is undefined lanes and waves may make different values.
void mark_stored(Wave& w, const Access& x, u32 reg, u64 lanes, const u64* at);
bool unwritten_memory(Wave& w, int lane, u32 pc);  // it matters what is there; pc: of the read
bool follow_unwritten(Wave& w, const Inst& in, const Access& x);
bool check_values(Wave& w, WaveCheck& c, const Inst& in, const Access& x);
bool check_stored(Wave& w, const Inst& in, const Access& x, u64 lanes);
void define_lanes(WaveCheck& c, const Touch& t, u64 lanes);
// A lane's register holds what has been read of LDS where nothing had been written; moves: to move it is no fault.
void undefine_lane(WaveCheck& c, u32 reg, int lane, u32 lds_byte, bool moves);
u64 lanes_of_unwritten_lds(const WaveCheck& c, u32 reg);
// That it matters what is there; pc: of the read. False: the wave has to stop.
bool unwritten_lds(Wave& w, int lane, u32 lds_byte, u32 pc);
void forget_values(WaveCheck& c);
bool check_lds(Wave& w, const Inst& in, const Access& x);
bool check_lds_flat(Wave& w, const Inst& in, const Access& x, const u64* address, u64 lanes);  // lanes that mean LDS
bool check_lds_dma(Wave& w, const Access& x, u32 base, u32 width, u64 lanes);
void check_lds_start(Workgroup& g, Checks* checks);
void check_lds_free(GroupCheck& c);
void check_lds_barrier(Workgroup& g);
void check_start_waves(Workgroup& g, const KernelInfo& k);
static inline void progress(Checks& c) { __atomic_fetch_add(&c.progress, 1, __ATOMIC_RELAXED); }
// What lanes of a store write over: whether that changes anything. data: the store's first data register.
static inline bool changes(const Access& x, const u32* data, int lane, u32 dword, const u8* at) {
  u32 bytes = x.bytes < 4 ? x.bytes : 4, old = 0, value = data[dword * WAVE + lane];
  memcpy(&old, at, bytes);
  if (x.typed) return true;
  if (x.upper) value >>= 16;
  if (value == UNWRITTEN) return false;
  return bytes == 4 ? old != value : old != (value & ((1u << 8 * bytes) - 1));
}
// Two lanes of one store that leave different values at one place: their order is not defined. address: of each lane;
// one, other: where it is false, too, two that meet, or -1.
bool lanes_disagree(const Access& x, const u64* address, u64 lanes, const u32* data, int& one, int& other);
// The least and the greatest of lanes' addresses; bits: that any of them has.
template <class T> static inline void extent_of(const T* at, u64 lanes, T& lowest, T& highest, T& bits) {
  lowest = ~(T)0, highest = bits = 0;
  const auto add = [&](T x) {
    lowest = x < lowest ? x : lowest;
    highest = x > highest ? x : highest;
    bits |= x;
  };
  if (lanes == ~0ull) LANES add(at[i]);
  else
    for (u64 m = lanes; m; m &= m - 1) add(at[__builtin_ctzll(m)]);
}
// The variable's address that a pair of scalar registers was given, while it holds it still; else 0.
static inline u64 variable_in(const Wave& w, const WaveCheck& c, u32 reg) {
  const u64 held = w.s64(reg);
  return reg < 128 && c.variable[reg / 2] == held ? held : 0;
}
static inline void note_access(WaveCheck& c, u64 address) {
  c.polled = address;
  c.polled_pc = c.pc;
  const u64 key = mixed(address) + c.pc;
  constexpr u32 MOST = sizeof c.recent / sizeof *c.recent;
  for (u32 i = 0; i < MOST; i++)
    if (c.recent[i] == key) {
      c.repeats++;
      return;
    }
  c.recent[c.n_recent++ % MOST] = key;
  c.repeats = 0;
}
static inline WaveCheck& check_of(Wave& w) { return w.wg->check->waves[w.id]; }

u64 light_hash(const Wave& w, u32 n_vgpr);

// --- hooks of launch.cpp -----------------------------------------------------------------------------

// internal: memory that it may reach, and is not the user's.
void checks_begin(Checks* c, Program* p, const KernelInfo& k, const Launch& l, u32 n_threads,
                  const List<MemoryRange>& internal);
void checks_end(Checks* c);
void check_start_group(Workgroup& g, Checks* c, const KernelInfo& k);
void check_free_group(Workgroup& g);
bool check_looks_at(const Workgroup& g, u64 address);  // whether a wave that goes on has last looked there
void check_barrier(Workgroup& g);
Wave* check_group_ended(Workgroup& g);  // a wave that a finding stops, or null
struct Observer;
u32 run_checked(Wave& w, u32 quantum, Observer* observer);  // instructions executed
void check_thread_done(Checks* c);                          // a host thread has no workgroups left
void check_launch_begins(Checks* c);
void check_launch_ends(Checks* c);
// After a pass over a thread's workgroups in which none ended: true where the launch cannot end any more.
bool check_stalled(Checks* c, Workgroup** live, u32 n_live, Wave** culprit);
bool check_endless(Wave& w);             // false: it goes round without an end, and has been stopped
void check_fault(Wave& w, u64 address);  // adds the nearest tensor to the message of a host access fault

// --- for hosts ---------------------------------------------------------------------------------------

extern "C" {
Checks* cdna_checks_new(u32 kinds, u32 raise, u32 open);
// A tensor of the launch to come; `pointer` is what the kernel gets.
void cdna_checks_range(Checks*, u64 base, u64 bytes, u64 pointer, const char* name);
void cdna_checks_claimed(
    Checks*);  // all tensors of the GPU, for one that follows pointers: what else it reaches is the host's
const Finding* cdna_checks_findings(Checks*, u32* n);
void cdna_checks_free(Checks*);
bool cdna_shared_with_processes(u64 address);
// Who but the launches under way may write what a wave polls. A HIP runtime knows more than what is shared: what it has
// lent to other processes, and whether the program's threads all wait for it.
void cdna_set_may_be_written(AddressTest);
}
