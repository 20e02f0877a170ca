// What nobody has written of memory, followed with the value to where it decides something, or to the host.
//
// Fresh memory is filled with UNWRITTEN, and memory is its own shadow: whoever writes there, kernel, copy, torch or the
// host, need not be watched, and whoever copies it hands it on. A load that finds the word leaves its lane undefined.
// What an instruction makes of such a lane is asked of the instruction: it is executed with other numbers in the lane's
// place, and where the result is another one it is undefined. A store of an undefined lane leaves UNWRITTEN in memory
// again, and an atomic on it leaves it. Told is what decides an address, a branch or lanes (uninitialised.cpp), and what
// the host reads. Whole dwords count, and of dwords that are put together of several parts none of which is defined. Another
// value is taken for the word once in 2^32 random dwords, and never where they are numbers of f16, bf16 or f32.
#include "uninitialised.h"
#include "isa/memory.h"
#include <stdlib.h>

static u64 lanes_equal(const u32* v, u32 value) {
  u32 same[WAVE];
  LANES same[i] = v[i] == value;
  return gather_mask(same);
}

// --- loads and stores --------------------------------------------------------------------------------------

static void note_read(Wave& w, u64 address) {
  u64& at = w.wg->check->checks->unwritten[check_of(w).pc];
  if (!at) at = address;
  check_of(w).values.of_lds = true;
}

// Lanes of a load of bytes or halves, whose dword in memory nothing has written.
static u64 parts_unwritten(const Wave& w, const Access& x, const u32* v, const u64* at, u64 lanes) {
  constexpr u32 HALF = UNWRITTEN & 0xffff;
  const u32 mask = x.bytes == 1 ? 0xff : 0xffff;
  u32 any = 0;
  LANES any |= (v[i] & mask) == (HALF & mask) || (v[i] & mask) == HALF >> 8;
  u64 found = 0;
  for (u64 m = any ? lanes : 0; m; m &= m - 1) {
    const int i = __builtin_ctzll(m);
    const u32 value = v[i] & mask;
    if ((value == (HALF & mask) || value == HALF >> 8) && holds_unwritten(at[i])) found |= m & -m;
  }
  return found;
}

static void note_lanes(Wave& w, u32 reg, u64 lanes, u32 pc) {
  if (lanes) write_vector(check_of(w), reg, Flow{lanes, 0, {MEMORY, pc}}, lanes);
}

static void note_lds(Wave& w, const Inst& in, const Access& x) {
  GroupCheck& g = *w.wg->check;
  const u32 pc = g.unwritten - 1;
  for (const Touch& t : x) {
    if (!(t.flags & WRITES)) continue;
    u64 at[WAVE];
    LANES at[i] = (u64)w.wg->lds + w.vreg(in.src[0].reg)[i] + (u32)in.offset * x.stride;
    u64 any = 0;
    for (u32 r = 0; r < t.count; r++) {
      const u32* v = w.vreg(t.reg + r);
      const bool overwritten = t.reg <= in.src[0].reg && in.src[0].reg < t.reg + (u32)t.count;
      const u64 lanes = x.bytes >= 4  ? lanes_equal(v, UNWRITTEN) & w.exec()
                        : overwritten ? 0
                                      : parts_unwritten(w, x, v, at, w.exec());
      note_lanes(w, t.reg + r, lanes, pc);
      any |= lanes;
    }
    if (any) check_of(w).values.of_lds = true;
  }
}

// A load that went straight to LDS.
static void note_dma(Wave& w, const Inst& in, const Access& x) {
  const u32 base = w.s[M0] + (u32)in.offset, bytes = WAVE * lds_lane_stride(x.bytes);
  for (u32 at = base & ~3u; at + 4 <= base + bytes && at + 4 <= w.wg->lds_bytes; at += 4)
    if (holds_unwritten((u64)w.wg->lds + at)) {
      note_read(w, w.address[w.exec() ? __builtin_ctzll(w.exec()) : 0]);
      w.wg->check->unwritten = 1 + check_of(w).pc;
      return;
    }
}

void note_loaded(Wave& w, const Inst& in, const Access& x) {
  WaveCheck& c = check_of(w);
  if (x.kind == LDS_READ) return note_lds(w, in, x);
  if (x.kind == VM_LOAD && x.to_lds) return note_dma(w, in, x);
  // What scratch holds is known.
  if (x.space == SCRATCH_SPACE || (x.kind == SMEM_LOAD && !c.polled))
    return;  // polled: 0 of the kernel's own arguments
  for (const Touch& t : x) {
    if (!(t.flags & WRITES)) continue;
    for (u32 r = 0; r < t.count; r++) {
      if (t.flags & SCALAR) {
        if (w.s[t.reg + r] != UNWRITTEN || t.reg + r >= VCC) continue;
        note_read(w, (c.polled & ~3ull) + 4 * r);
        write_scalar(c, t.reg + r, Flow{0xffffffff, 0, {MEMORY, c.pc}});
        continue;
      }
      const u32* v = w.vreg(t.reg + r);
      // Of a register of which only a half is loaded, the other one may be defined.
      const bool part = x.bytes < 4, half = part && (x.upper || op_facts(in.op).flags & (FACT_LOWER | FACT_PACKED));
      const u64 own = w.exec() & ~c.dropped, lanes = half   ? 0
                                                     : part ? parts_unwritten(w, x, v, w.address, own)
                                                            : lanes_equal(v, UNWRITTEN) & own;
      if (!lanes) continue;
      note_read(w, w.address[__builtin_ctzll(lanes)] + 4 * r);
      note_lanes(w, t.reg + r, lanes, c.pc);
    }
  }
}

void spoil(const Wave& w, const Access& x, u64 lanes) {
  if (x.keeping == KEEPS_EQUAL || x.keeping == KEEPS_UNLIKE) return;  // which store what they bring
  for (; lanes; lanes &= lanes - 1)
    for (u32 b = 0; b < x.bytes; b += 4)
      __atomic_store_n((u32*)(w.address[__builtin_ctzll(lanes)] + b), UNWRITTEN, __ATOMIC_RELAXED);
}

// --- who has stored it ---------------------------------------------------------------------------------------

static const Range* range_at(const Checks& c, u64 address) {
  for (u32 i = 0; i < c.n_ranges; i++)
    if (address >= c.ranges[i].base && address < c.ranges[i].end) return &c.ranges[i];
  return nullptr;
}

static void note_store(const Wave& w, u64 low, u64 high, bool computed) {
  const Checks& c = *w.wg->check->checks;
  const u32 pc = w.wg->check->waves[w.id].pc;
  const Range* r = range_at(c, low);
  const u64 base = r ? r->base : 0;
  note_unwritten_store(base, low, high, computed, *c.program, pc, c.kernel);
}

u64 unwritten_lanes(const Wave& w, const Access& x, u64 lanes, const u64* held) {
  u64 found = 0;
  if (x.keeping == KEEPS_EQUAL || x.keeping == KEEPS_UNLIKE) return 0;  // those write, or compare
  const u64 whole = x.bytes == 8 ? UNWRITTEN * 0x100000001ull : UNWRITTEN;
  for (; lanes; lanes &= lanes - 1) {
    const int i = __builtin_ctzll(lanes);
    if (held[i] != whole) continue;
    found |= lanes & -lanes;
    if (x.kind == VM_ATOMIC) note_store(w, w.address[i], w.address[i] + x.bytes, true);
  }
  return found;
}

void mark_stored(Wave& w, const Access& x, u32 reg, u64 lanes, const u64* at) {
  WaveCheck& c = check_of(w);
  const bool to_lds = x.kind == LDS_WRITE || x.kind == LDS_ATOMIC;
  for (u32 k = 0; k < (x.bytes + 3u) / 4; k++) {
    const Flow f = vector_register(c, reg + k).of(lanes);
    if (!f.undefined || !is_of_memory(f.origin)) continue;
    u64 low = ~0ull, high = 0;
    for (u64 m = f.undefined; m; m &= m - 1) {
      const int i = __builtin_ctzll(m);
      const bool odd = x.bytes == 1 && at[i] & 1;
      w.vreg(reg + k)[i] = odd ? UNWRITTEN >> 8 | UNWRITTEN << 24 : UNWRITTEN;
      low = at[i] < low ? at[i] : low;
      high = at[i] + x.bytes > high ? at[i] + x.bytes : high;
    }
    if (to_lds) w.wg->check->unwritten = 1 + f.origin.pc;
    else note_store(w, low, high, f.computed || computed_of_unwritten(w.wg->check->checks->unwritten[f.origin.pc]));
    c.spoilt |= f.undefined;  // of atomics
  }
}

// --- what instructions make of it ------------------------------------------------------------------------------

namespace {
struct Vectors {
  static constexpr u32 MOST = 80;
  u32 n = 0, reg[MOST];
  u64 undefined[MOST];
  alignas(64) u32 value[MOST][WAVE];
  void add(Wave& w, u32 r, u64 lanes) {
    if (n == MOST) return;
    reg[n] = r;
    undefined[n] = lanes;
    memcpy(value[n++], w.vreg(r), sizeof value[0]);
  }
  bool has(u32 r) const {
    bool found = false;
    for (u32 k = 0; k < n; k++) found |= reg[k] == r;
    return found;
  }
  void restore(Wave& w) const {
    for (u32 k = 0; k < n; k++) memcpy(w.vreg(reg[k]), value[k], sizeof value[0]);
  }
};

// What an instruction makes of a register, and which bits of that are others in a trial.
struct Made {
  alignas(64) u32 own[WAVE], differs[WAVE];
};

// An instruction that is executed for what it would do. Nothing of it stays.
struct Trial {
  Wave& w;
  const Inst& in;
  Vectors sources, results;
  u32 scalars[128], scc, pair_reg = 0;
  u64 undefined_scalars[2] = {}, pair = 0;

  Trial(Wave& w, const Inst& in) : w(w), in(in), scc(w.scc) { memcpy(scalars, w.s, sizeof scalars); }
  // note: what it has made of a result, and what is known of that.
  template <class Note> void run(Made* made, Note note) {
    in.fn(w, in);
    for (u32 k = 0; k < results.n; k++) note(made[k], w.vreg(results.reg[k]));
    if (pair_reg) pair = w.s64(pair_reg);
    results.restore(w);
    sources.restore(w);
    memcpy(w.s, scalars, sizeof scalars);
    w.scc = scc;
  }
  void put(u32 value) {
    u32 values[WAVE];
    LANES values[i] = value;
    for (u32 k = 0; k < sources.n; k++) blend(w.vreg(sources.reg[k]), values, sources.undefined[k]);
    for (u32 word = 0; word < 2; word++)
      for (u64 m = undefined_scalars[word]; m; m &= m - 1) w.s[64 * word + __builtin_ctzll(m)] = value;
  }
  // What is defined gets other values.
  void change_defined() {
    u32 values[WAVE];
    for (u32 k = 0; k < sources.n; k++) {
      LANES values[i] = sources.value[k][i] ^ 0x5a5a5a5a;
      blend(w.vreg(sources.reg[k]), values, ~sources.undefined[k]);
    }
  }
};
}  // namespace

static bool may_follow(const Inst& in, const Access& x) {
  if (in.flags & INDEXED || (x.kind != PLAIN && (x.kind != LDS_LANES || op_facts(in.op).does != DOES_LANES)))
    return false;
  switch (x.flow) {
    case FLOW_DEFINES:
    case FLOW_COMPUTES:
    case FLOW_LOW_FIRST:
    case FLOW_CARRIES:
    case FLOW_MULTIPLIES: break;
    default: return false;  // what they hand on is known to the lane, or to the bit
  }
  bool makes_vectors = false;
  for (const Touch& t : x) makes_vectors |= (t.flags & (WRITES | SCALAR)) == WRITES;
  return makes_vectors;
}

// Sources; false: none is undefined for want of written memory, or one for another reason.
static bool take_sources(const WaveCheck& c, const Access& x, Trial& t, Origin& origin) {
  const u64 lanes = x.crosses || x.all_lanes ? ALL : t.w.exec();
  bool found = false;
  auto add = [&](const Touch& s) {
    for (u32 r = s.reg; r < s.reg + (u32)s.count; r++) {
      const bool scalar = s.flags & SCALAR;
      const Flow f = scalar ? scalar_register(c, r) : vector_register(c, r).of(lanes);
      if (f.undefined && !is_of_memory(f.origin)) return false;
      if (f.undefined) origin = f.origin;
      found |= f.undefined != 0;
      if (!scalar && !t.sources.has(r)) t.sources.add(t.w, r, f.undefined);
      if (scalar && f.undefined && r < VCC) t.undefined_scalars[r >> 6] |= 1ull << (r & 63);
    }
    return true;
  };
  for (const Touch& s : x)
    if ((!(s.flags & WRITES) || x.accumulates) && !add(s)) return false;
  // Some leave a part of their results' registers as it was.
  for (u32 k = 0; k < t.results.n; k++) {
    const Flow f = vector_register(c, t.results.reg[k]).of(lanes);
    if (!t.sources.has(t.results.reg[k]))
      t.sources.add(t.w, t.results.reg[k], is_of_memory(f.origin) ? f.undefined : 0);
  }
  return found && t.sources.n < Vectors::MOST;
}

// Bytes of which some bit is set.
static u32 bytes_of(u32 x) {
  const u32 highest = (((x & 0x7f7f7f7f) + 0x7f7f7f7f) | x) & 0x80808080;
  return highest | (highest - (highest >> 7));
}

// Lanes in which trials have changed each byte of all results: no other one can say more.
static u64 lanes_changed(const Made* made, u32 n) {
  u64 lanes = ALL;
  u32 all[WAVE];
  for (u32 k = 0; k < n; k++) {
    LANES all[i] = bytes_of(made[k].differs[i]) == ~0u;
    lanes &= gather_mask(all);
  }
  return lanes;
}

// True: what the instruction makes is known to be defined or not.
bool follow_unwritten(Wave& w, const Inst& in, const Access& x) {
  // Small numbers as f16, bf16 and f32; of each bit one differs from UNWRITTEN's.
  constexpr u32 OTHER[] = {0x3f9d3f9d, 0xc03ac03a};
  static_assert(((OTHER[0] ^ UNWRITTEN) | (OTHER[1] ^ UNWRITTEN)) == ~0u);
  WaveCheck& c = check_of(w);
  if (!may_follow(in, x)) return false;
  Trial t(w, in);
  Origin origin = {};
  for (const Touch& s : x) {
    if (!(s.flags & WRITES)) continue;
    if (s.flags & SCALAR) t.pair_reg = s.reg;
    for (u32 r = 0; r < s.count && !(s.flags & SCALAR); r++) t.results.add(w, s.reg + r, 0);
  }
  if (!take_sources(c, x, t, origin)) return false;
  static thread_local Made made[Vectors::MOST];
  const u32 n = t.results.n;
  const u64 lanes = x.all_lanes ? ALL : w.exec();
  u64 open = lanes, differs = 0;  // open: lanes that may depend on what is undefined; differs: of the pair
  if (x.kind == PLAIN && !x.crosses && !x.all_lanes && !(t.undefined_scalars[0] | t.undefined_scalars[1])) {
    open = 0;
    for (u32 k = 0; k < t.sources.n; k++) open |= t.sources.undefined[k] & lanes;
  }
  t.run(made, [](Made& m, const u32* v) {
    memcpy(m.own, v, sizeof m.own);
    memset(m.differs, 0, sizeof m.differs);
  });
  const u64 own = t.pair;
  for (u32 k = 0; k < 2 && (open || t.pair_reg); k++) {
    t.put(OTHER[k]);
    t.run(made, [](Made& m, const u32* v) { LANES m.differs[i] |= m.own[i] ^ v[i]; });
    differs |= own ^ t.pair;
    open &= ~lanes_changed(made, n);
  }
  u64 changed = 0;
  for (u32 k = 0; k < n; k++) changed |= gather_mask(made[k].differs);
  if (open & changed) {
    // What is defined there in other bytes would be lost: then all of it counts as defined.
    t.change_defined();
    t.run(made, [](Made& m, const u32* v) {
      LANES m.differs[i] = (m.own[i] ^ v[i]) & ~bytes_of(m.differs[i]) ? 0 : m.differs[i];
    });
  }
  for (u32 k = 0; k < n; k++) {
    const u64 undefined = gather_mask(made[k].differs) & lanes;
    write_vector(c, t.results.reg[k], Flow{undefined, undefined, origin}, lanes);
  }
  if (t.pair_reg) write_pair(c, t.pair_reg, Flow{differs, differs, origin});
  return true;
}

// --- findings --------------------------------------------------------------------------------------------------

bool unwritten_memory(Wave& w, int lane, u32 pc) {
  WaveCheck& c = check_of(w);
  Checks& checks = *w.wg->check->checks;
  const u64 address = checks.unwritten[pc];
  const Range* r = range_at(checks, address);
  char place[120], store[500];
  if (r) snprintf(place, sizeof place, "offset %llu of %s", (unsigned long long)(address - r->base), r->name);
  else snprintf(place, sizeof place, "0x%llx", (unsigned long long)address);
  const bool stored = cdna_unwritten_store(address, store, sizeof store);
  const u32 own = c.pc;
  c.pc = pc;
  const Access& x = checks.table[pc];
  const bool goes_on =
      report(w, CHECK_UNWRITTEN, lane, address, r, own, "reads %u bytes at %s, %s%s, and it decides %s",
             x.bytes && x.bytes < 4 ? x.bytes : 4, place,
             stored ? "where what nothing had written was stored by " : "which nothing has written",
             stored ? store : "", checks.program->where[own]);
  c.pc = own;
  return goes_on;
}
