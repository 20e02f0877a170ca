// LDS: accesses outside the allocation, reads of bytes that nobody wrote, races between waves, data used before the
// counter of the instruction that writes it has been waited for.
//
// Two accesses of different waves race if neither a barrier nor a flag lies between them and one of them is a write that
// changes what is there. A read that a wave has not waited for when it passes a barrier goes on behind it. A flag is a place that a wave polls, or that single lanes change by atomics: who reads it has seen
// what its writers did before. While no two waves' accesses since the last barrier meet, lds_fast_path.cpp knows that nothing is wrong. Where
// they do, who accessed what is kept here, per granule of 16 bytes as long as every access covers a whole one, else per
// dword.
#include "isa/memory.h"
#include "lds_race.h"
#include "happens_before.h"
#include <stdlib.h>

struct LdsCell {
  u32 epoch;             // of all that follows; other values are stale
  u16 writers, readers;  // masks of waves
  u32 write;             // instruction of the last write, bytes written << 25, flags
  u32 seq;               // of the last write in its wave's counter, bytes read << 27, VM_COUNTER
  u32 read_seq;          // of the last read
};
constexpr u32 SPLIT = 1u << 31;   // a granule whose dwords are kept one by one
constexpr u32 MIXED = 1u << 30;   // several waves have written different bytes
constexpr u32 ATOMIC = 1u << 29;  // all its writes are atomics
constexpr u32 PC_MASK = (1u << 25) - 1;
constexpr u32 VM_COUNTER = 1u << 31;  // written by a load straight to LDS
constexpr u32 SEQ_MASK = (1u << 27) - 1;
constexpr int FLAG_LANES = 4;  // by more lanes at once, an atomic counts or adds up

void check_lds_start(Workgroup& g, Checks* checks) {
  GroupCheck& c = *g.check;
  if (!c.written || c.lds_bytes != g.lds_bytes) {
    check_lds_free(c);
    c.lds_bytes = g.lds_bytes;
    c.granules = (LdsCell*)calloc(g.lds_bytes / 16 + 2, sizeof(LdsCell));
    c.dwords = (LdsCell*)calloc(g.lds_bytes / 4 + 8, sizeof(LdsCell));
    c.written = (u8*)malloc(g.lds_bytes / 4 + 8);
    c.quick = quick_create(g.lds_bytes, g.n_waves);
    c.epoch = 0;
  }
  c.first_epoch = ++c.epoch;
  c.unarrived = false;
  memset(c.written, 0, g.lds_bytes / 4 + 8);
  quick_start(*c.quick, g.n_waves > 1 && (checks->has(CHECK_RACE) || checks->has(CHECK_WAIT)));
}

void check_lds_free(GroupCheck& c) {
  quick_destroy(c.quick);
  free(c.granules);
  free(c.dwords);
  free(c.written);
}

void check_lds_barrier(Workgroup& g) {
  GroupCheck& c = *g.check;
  if (c.unarrived) quick_leave(g);  // who wrote what counts from now on
  c.epoch++;
  quick_barrier(*c.quick, !c.unarrived);
}

static const char* where(const LdsAccess& a, u32 pc) { return a.g.checks->program->where[pc & PC_MASK]; }

// Data that another wave wrote before the last barrier, or that this wave loads straight to LDS: had it arrived?
static bool arrived(const LdsAccess& a, const LdsCell& cell) {
  u32 writer = __builtin_ctz(cell.writers), seq = cell.seq & SEQ_MASK;
  const WaveCheck& other = a.g.waves[writer];
  bool vm = cell.seq & VM_COUNTER;
  if (a.me >> writer & 1) return !vm || seq <= other.vm.done;
  return seq <= (vm ? other.vm_at_barrier : other.lgkm_at_barrier);
}

static bool late(const LdsAccess& a, const LdsCell& cell, int lane, u32 at) {
  u32 writer = __builtin_ctz(cell.writers);
  return report(a.w, CHECK_WAIT, lane, at, nullptr, cell.write & PC_MASK,
                "reads LDS byte %u, which wave %u writes at %s without waiting for it (s_waitcnt %s) before %s", at,
                writer, where(a, cell.write), cell.seq & VM_COUNTER ? "vmcnt" : "lgkmcnt",
                a.me >> writer & 1 ? "the read" : "the barrier");
}

// Of those that read it before the last barrier, one whose read was still under way there: the read noted last is one
// of theirs, which, is not known.
static int still_reading(const LdsAccess& a, const LdsCell& cell) {
  u16 readers = cell.readers & ~a.me;
  if (!readers || cell.readers != readers || cell.epoch < a.g.first_epoch) return -1;
  for (u16 left = readers; left; left &= left - 1)
    if ((cell.read_seq & SEQ_MASK) <= a.g.waves[__builtin_ctz(left)].lgkm_at_barrier) return -1;
  return __builtin_ctz(readers);
}

static bool too_soon(const LdsAccess& a, int reader, int lane, u32 at) {
  u32 barrier = a.g.waves[reader].last_barrier;
  return report(
      a.w, CHECK_WAIT, lane, at, nullptr, barrier,
      "writes LDS byte %u, which wave %u reads without waiting for it (s_waitcnt lgkmcnt) before the barrier %s", at,
      reader, where(a, barrier));
}

static bool race(const LdsAccess& a, const LdsCell& cell, int lane, u32 at, u16 writers, u16 readers) {
  const char* what = a.write ? "writes" : "reads";
  if (writers)
    return report(a.w, CHECK_RACE, lane, at, nullptr, cell.write & PC_MASK,
                  "%s LDS byte %u, which wave %u writes at %s, with no barrier between the two", what, at,
                  __builtin_ctz(writers), where(a, cell.write));
  return report(a.w, CHECK_RACE, lane, at, nullptr, ~0u,
                "%s LDS byte %u, which wave %u has read, with no barrier between the two", what, at,
                __builtin_ctz(readers));
}

static bool single(u16 waves) { return !(waves & (waves - 1)); }

// Those of `waves` whose access no flag has told this wave of. seq: of the last of them; 0 where it is not known whose.
static u16 unseen(const LdsAccess& a, u16 waves, u32 seq) {
  for (u16 left = waves; left; left &= left - 1) {
    u32 wave = __builtin_ctz(left), seen = a.c.seen[wave];
    if (seen && seq <= seen) waves &= ~(1u << wave);
  }
  return waves;
}

// This wave has read what `writers` wrote at a flag.
static void see(const LdsAccess& a, u16 writers, u32 seq) {
  for (; writers; writers &= writers - 1) {
    u32 wave = __builtin_ctz(writers);
    const WaveCheck& other = a.g.waves[wave];
    u32 until = seq ? seq : other.lgkm.issued;
    if (a.c.seen[wave] >= until) continue;
    a.c.seen[wave] = until;
    for (u32 i = 0; i < 16; i++)
      if (i != a.w.id && other.seen[i] > a.c.seen[i]) a.c.seen[i] = other.seen[i];
    order_within_group(a.w, wave);
  }
}

// Notes an access to `bytes` (a mask) of a cell; false stops the wave. `changed`: a write of another value than is there.
static bool touch(const LdsAccess& a, LdsCell& cell, int lane, u32 at, u32 bytes, bool changed) {
  bool waits = a.g.checks->has(CHECK_WAIT) && !a.write;
  bool one_writer = cell.writers && (cell.writers & (cell.writers - 1)) == 0;
  if (cell.epoch != a.g.epoch) {
    if (waits && one_writer && cell.epoch >= a.g.first_epoch && !arrived(a, cell) && !late(a, cell, lane, at))
      return false;
    int reader = changed && a.g.checks->has(CHECK_WAIT) ? still_reading(a, cell) : -1;
    if (reader >= 0 && !too_soon(a, reader, lane, at)) return false;
    cell.epoch = a.g.epoch;
    cell.writers = cell.readers = 0;
    cell.write &= SPLIT;
    cell.seq = 0;
  } else {
    if (waits && cell.writers == a.me && (cell.seq & VM_COUNTER) && !arrived(a, cell) && !late(a, cell, lane, at))
      return false;
    u16 writers = cell.write >> 25 & bytes ? cell.writers & ~a.me : 0,
        readers = cell.seq >> 27 & bytes ? cell.readers & ~a.me : 0;
    // Whose bytes they are is not known once several waves have written some; nor does it matter who reads its own.
    // Atomics of others change what its own have left.
    if ((cell.writers & a.me) && (!a.write || (cell.write & MIXED)) && !(cell.write & ATOMIC)) writers = 0;
    if ((cell.readers & a.me) && bytes != 15) readers = 0;  // nor which bytes each of several readers has read
    bool vm = cell.seq & VM_COUNTER;
    u32 write_seq = single(cell.writers) && !vm ? cell.seq & SEQ_MASK : 0;
    bool flag = a.atomic && (cell.write & ATOMIC) && __builtin_popcountll(a.w.exec()) <= FLAG_LANES;
    if (a.x.spin_load || (flag && a.x.touch[0].flags & WRITES)) see(a, cell.writers & ~a.me, write_seq);
    writers = unseen(a, writers, write_seq);
    readers = unseen(a, readers, single(cell.readers) ? cell.read_seq & SEQ_MASK : 0);
    if (a.atomic && (cell.write & ATOMIC)) writers = 0;
    bool found = a.write ? changed && (writers || readers) : writers != 0;
    if (found && a.g.checks->has(CHECK_RACE) && !race(a, cell, lane, at, writers, readers)) return false;
  }
  if (!a.write) {
    if (a.x.spin_load) return true;
    cell.readers |= a.me;
    cell.read_seq = a.seq;
    cell.seq |= bytes << 27;
    return true;
  }
  bool mixed = (cell.writers & ~a.me) && (cell.write >> 25 & 15) != bytes;
  bool all_atomic = a.atomic && (!cell.writers || (cell.write & ATOMIC));
  cell.write = (cell.write & (SPLIT | MIXED | 15u << 25)) | (mixed ? MIXED : 0) | (all_atomic ? ATOMIC : 0) |
               bytes << 25 | (a.pc & PC_MASK);
  cell.seq = (cell.seq & 15u << 27) | (a.seq & SEQ_MASK) | (a.seq & VM_COUNTER);
  cell.writers |= a.me;
  return true;
}

static void split(GroupCheck& g, u32 granule) {
  LdsCell& cell = g.granules[granule];
  if (cell.write & SPLIT) return;
  for (u32 k = 0; k < 4; k++) g.dwords[granule * 4 + k] = cell;
  cell.write |= SPLIT;
}

// Of the bytes of an element those in a dword.
static u8 mask_of(u32 at, u32 bytes, u32 dword) {
  const u32 from = dword * 4 < at ? at & 3 : 0, to = dword * 4 + 4 > at + bytes ? (at + bytes) & 3 : 4;
  return (u8)((1u << to) - (1u << from));
}

// Of a lane's element that lies across dwords, whether `n` bytes from its byte `first` on are others than there.
static bool differs(const Access& x, const u32* data, int lane, u32 first, u32 n, const u8* there) {
  for (u32 k = 0; k < n; k++) {
    const u32 value = data[(first + k) / 4 * WAVE + lane] >> (x.upper ? 16 : 0);
    if ((value >> 8 * ((first + k) % 4) & 0xff) != there[k]) return true;
  }
  return false;
}

// One lane's element of `bytes` bytes at `at`; data: its first data register, or null.
bool lds_element(const LdsAccess& a, int lane, u32 at, u32 bytes, const u32* data) {
  GroupCheck& g = a.g;
  if (g.checks->has(CHECK_UNINITIALISED)) {
    // What is there only in part may be a struct with padding, which is copied whole: the rest is nobody's value. So are
    // bytes beside others in a dword.
    bool partly = false;
    for (u32 d = at / 4; d <= (at + bytes - 1) / 4 && !a.write; d++)
      partly |= quick_whole(*g.quick, d) || g.written[d] & mask_of(at, bytes, d);
    for (u32 d = at / 4; d <= (at + bytes - 1) / 4; d++) {
      const u8 mask = mask_of(at, bytes, d);
      const u32 dword = d * 4 > at ? (d * 4 - at) / 4 : 0;
      if (a.write && !a.atomic) {
        if (a.from != NO_REGISTER && lanes_of_unwritten_lds(a.c, a.from + dword) >> lane & 1) lds_unwritten(g, d, mask);
        else lds_written(g, d, mask);
      } else if (!quick_whole(*g.quick, d) && (g.written[d] & mask) != mask) {
        const u32 missing = d * 4 > at ? d * 4 : at;
        if (a.to == NO_REGISTER) {
          if (!unwritten_lds(a.w, lane, missing, a.pc)) return false;
        } else if (!(g.written[d] & mask)) {
          undefine_lane(a.c, a.to + dword, lane, missing, partly);
        }
      }
    }
  }
  if (!g.checks->has(CHECK_RACE) && !g.checks->has(CHECK_WAIT)) return true;
  if (bytes == 16 && at % 16 == 0) {
    LdsCell& cell = g.granules[at / 16];
    if (!(cell.write & SPLIT)) {
      // Without another wave since the last barrier a change does not matter.
      u16 others = (cell.writers | cell.readers) & ~a.me;
      bool changed = a.write && (cell.epoch == g.epoch || g.unarrived) && others;
      if (changed && data) {
        changed = false;
        for (u32 k = 0; k < 4 && !changed; k++) changed = changes(a.x, data, lane, k, a.w.wg->lds + at + 4 * k);
      }
      return touch(a, cell, lane, at, 15, changed);
    }
  }
  for (u32 d = at / 4; d <= (at + bytes - 1) / 4; d++) {
    split(g, d / 4);
    u32 from = d * 4 < at ? at & 3 : 0, to = d * 4 + 4 > at + bytes ? (at + bytes) & 3 : 4;
    bool whole = at % 4 == 0 || at % 4 + bytes <= 4;  // the element's dwords are LDS's
    const u8* there = a.w.wg->lds + d * 4 + from;
    bool changed = a.write && (!data || (whole ? changes(a.x, data, lane, d - at / 4, there)
                                               : differs(a.x, data, lane, d * 4 + from - at, to - from, there)));
    if (!touch(a, g.dwords[d], lane, d * 4 + from, (1u << to) - (1u << from), changed)) return false;
  }
  return true;
}

// Two lanes of one write with different values for one place.
static bool disagreement(const LdsAccess& a, const u32* v, u32 offset, const u32* data) {
  if (quick_apart(a, v)) return true;
  u64 address[WAVE];
  int one, other;
  for (int i = 0; i < WAVE; i++) address[i] = v[i] + offset;
  if (!lanes_disagree(a.x, address, a.w.exec(), data, one, other)) return true;
  return report(a.w, CHECK_RACE, other, address[other], nullptr, ~0u,
                "lanes %d and %d write different values to LDS byte %llu: which one stays is not defined", one, other,
                (unsigned long long)address[other]);
}

static bool elements(const LdsAccess& a, const u32* v, u32 offset, const u32* data) {
  Wave& w = a.w;
  u32 size = w.wg->lds_bytes, bytes = a.x.bytes;
  for (u64 m = w.exec(); m; m &= m - 1) {
    int lane = __builtin_ctzll(m);
    u32 at = v[lane] + offset;
    if ((u64)at + bytes > size) {
      if (a.g.checks->has(CHECK_BOUNDS) &&
          !report(w, CHECK_BOUNDS, lane, at, nullptr, ~0u,
                  "LDS access of %u bytes at byte %u; the workgroup has %u bytes", bytes, at, size))
        return false;
      continue;
    }
    if (a.atomic) {
      w.address[lane] = (u64)w.wg->lds + at;
      a.c.lanes |= 1ull << lane;
      if (at % bytes && a.g.checks->has(CHECK_ALIGNMENT) &&
          !report(w, CHECK_ALIGNMENT, lane, at, nullptr, ~0u,
                  "LDS atomic of %u bytes at byte %u, which is not a multiple of %u", bytes, at, bytes))
        return false;
    }
    if (!lds_element(a, lane, at, bytes, data)) return false;
  }
  return true;
}

static bool check_elements(const LdsAccess& a, const u32* v, const u32* offsets, const u32* const* data, u32 n) {
  for (u32 k = 0; k < n; k++)
    if (data[k] && a.g.checks->has(CHECK_RACE) && !disagreement(a, v, offsets[k], data[k])) return false;
  const u32 dwords = (a.x.bytes + 3) / 4;
  u32 from[2] = {NO_REGISTER, NO_REGISTER};
  for (u32 k = 0; k < n && a.c.values.of_lds; k++) {
    const u32 reg = data[k] ? (u32)((data[k] - a.w.v) / WAVE) : NO_REGISTER;
    for (u32 d = 0; d < dwords && reg != NO_REGISTER; d++)
      if (lanes_of_unwritten_lds(a.c, reg + d) & a.w.exec()) from[k] = reg;
  }
  if (from[0] == NO_REGISTER && from[1] == NO_REGISTER && quick_access(a, v, offsets, n)) return true;
  quick_leave(*a.w.wg);
  LdsAccess element = a;
  for (u32 k = 0; k < n; k++) {
    element.from = from[k];
    if (!elements(element, v, offsets[k], data[k])) return false;
    if (a.to != NO_REGISTER) element.to += dwords;
  }
  return true;
}

constexpr u32 LOOKED_AT =
    1u << CHECK_BOUNDS | 1u << CHECK_WAIT | 1u << CHECK_RACE | 1u << CHECK_UNINITIALISED | 1u << CHECK_ALIGNMENT;

bool check_lds(Wave& w, const Inst& in, const Access& x) {
  WaveCheck& c = check_of(w);
  LdsAccess a = {
      w, *w.wg->check, c, x, (u16)(1u << w.id), c.pc, c.lgkm.issued, x.kind != LDS_READ, x.kind == LDS_ATOMIC};
  c.lanes = c.spoilt = 0;
  if (!(a.g.checks->kinds & LOOKED_AT)) return true;
  u32 offsets[2] = {(u32)in.offset * x.stride, (u32)in.offset1 * x.stride};
  const u32* data[2] = {};
  for (u32 k = 0; x.kind == LDS_WRITE && k <= x.two; k++) data[k] = w.vreg(in.src[1 + k].reg);
  for (u32 k = 0; c.values.of_lds && a.write && in.src[1].kind == VGPR && k <= x.two; k++) {
    u64 at[WAVE];
    LANES at[i] = w.vreg(in.src[0].reg)[i] + offsets[k];
    mark_stored(w, x, in.src[1 + k].reg, w.exec(), at);
  }
  if (x.kind == LDS_READ) a.to = in.dst[0].reg;
  return check_elements(a, w.vreg(in.src[0].reg), offsets, data, x.two ? 2 : 1);
}

// Of a flat access, which compilers make of `volatile __shared__` and of pointers of which they do not know where they lead.
bool check_lds_flat(Wave& w, const Inst& in, const Access& x, const u64* address, u64 lanes) {
  WaveCheck& c = check_of(w);
  LdsAccess a = {w, *w.wg->check, c, x, (u16)(1u << w.id), c.pc, c.lgkm.issued, x.kind != VM_LOAD, x.kind == VM_ATOMIC};
  if (!(a.g.checks->kinds & LOOKED_AT)) return true;
  if (x.kind == VM_LOAD) a.to = in.dst[0].reg;
  u32 v[WAVE];
  LANES v[i] = (u32)address[i];
  const u32 offsets[2] = {};
  const u32* data = x.kind == VM_STORE ? w.vreg(in.src[1].reg) : nullptr;
  const u64 exec = w.exec();
  w.set_exec(lanes);
  const bool goes_on = check_elements(a, v, offsets, &data, 1);
  w.set_exec(exec);
  return goes_on;
}

// A load straight to LDS writes `width` bytes a lane at base + lane * lds_lane_stride.
bool check_lds_dma(Wave& w, const Access& x, u32 base, u32 width, u64 lanes) {
  WaveCheck& c = check_of(w);
  LdsAccess a = {w, *w.wg->check, c, x, (u16)(1u << w.id), c.pc, c.vm.issued | VM_COUNTER, true, false};
  quick_leave(*w.wg);
  for (; lanes; lanes &= lanes - 1) {
    int lane = __builtin_ctzll(lanes);
    u64 at = (u64)base + lane * lds_lane_stride(width);
    if (at + width > w.wg->lds_bytes) {
      if (a.g.checks->has(CHECK_BOUNDS) &&
          !report(w, CHECK_BOUNDS, lane, at, nullptr, ~0u,
                  "load of %u bytes straight to LDS byte %llu; the workgroup has %u bytes", width,
                  (unsigned long long)at, w.wg->lds_bytes))
        return false;
      continue;
    }
    if (!lds_element(a, lane, (u32)at, width, nullptr)) return false;
  }
  return true;
}
