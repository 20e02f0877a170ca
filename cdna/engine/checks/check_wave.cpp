// Runs waves with checks: wait counters, registers that nothing has written, and what the memory checks need.
//
// Counters (CDNA3 ISA, "Manually Inserted Wait States" and "Data dependency resolution"): vmcnt falls in the order of
// issue, loads and stores alike. lgkmcnt falls in order for LDS; scalar loads return in any order, so that only
// lgkmcnt(0) waits for one. Flat accesses count in both. What vmcnt could not count is issued when one has
// returned: with 63 loads behind it a load is back, and LLVM leaves its wait out (for LDS, with 15, it does not).
#include "register_bits.h"
#include "happens_before.h"
#include "preempt.h"
#include "stores_in_flight.h"
#include "time/device_clock.h"
#include "time/observer.h"
#include <stdlib.h>

static bool overlap(const Touch& a, const Touch& b) {
  return ((a.flags ^ b.flags) & SCALAR) == 0 && a.reg < b.reg + b.count && b.reg < a.reg + a.count;
}

// --- counters ----------------------------------------------------------------------------------------

static void remember(WaveCheck& c, const Counter& counter) {
  for (u32 i = 0; i < counter.n; i++) {
    const Touch& t = counter.ops[i].touch;
    if (!t.count) continue;
    set_bits(t.flags & SCALAR ? c.pending_s : c.pending_v, t.reg, t.count);
    c.pending_blocks |= block_of(t);
  }
}
static void update_pending(WaveCheck& c) {
  memset(c.pending_v, 0, sizeof c.pending_v);
  memset(c.pending_s, 0, sizeof c.pending_s);
  c.pending_blocks = 0;
  remember(c, c.vm);
  remember(c, c.lgkm);
}

static bool in_order(u8 kind) {
  return kind == LDS_READ || kind == LDS_WRITE || kind == LDS_ATOMIC || kind == LDS_LANES;
}

static void retire(Counter& counter, u32 keep, bool any_order_possible) {
  if (counter.n <= keep) return;
  u32 gone = counter.n - keep;
  if (keep && any_order_possible) {
    // Those that return in any order may be the ones that did; of the others the oldest have returned.
    u32 loose = 0, n = 0;
    for (u32 i = 0; i < counter.n; i++) loose += !in_order(counter.ops[i].kind);
    gone = gone > loose ? gone - loose : 0;
    for (u32 i = 0; i < counter.n; i++) {
      if (gone && in_order(counter.ops[i].kind)) gone--;
      else counter.ops[n++] = counter.ops[i];
    }
    counter.n = n;
  } else {
    memmove(counter.ops, counter.ops + gone, sizeof(Outstanding) * keep);
    counter.n = keep;
  }
  counter.done = counter.n ? counter.ops[0].seq - 1 : counter.issued;
}

static void issue(WaveCheck& c, Counter& counter, const Touch* t, u8 kind) {
  retire(counter, (&counter == &c.vm ? MOST_VMCNT : MAX_OUTSTANDING) - 1, false);  // the hardware waits
  Outstanding& o = counter.ops[counter.n++];
  o = {++counter.issued, c.pc, t ? *t : Touch{0, 0, 0}, kind};
  if (o.touch.count) {
    set_bits(o.touch.flags & SCALAR ? c.pending_s : c.pending_v, o.touch.reg, o.touch.count);
    c.pending_blocks |= block_of(o.touch);
  }
}

static void wait(WaveCheck& c, u32 immediate) {
  u32 vm = immediate & 255, lgkm = immediate >> 8 & 255;
  retire(c.vm, vm, false);
  retire(c.lgkm, lgkm, true);
  update_pending(c);
}

// --- registers ---------------------------------------------------------------------------------------

// An instruction reads or overwrites what a load has yet to return. Loads of one kind may overwrite each other's
// results: they return in order.
static bool pending_touch(Wave& w, WaveCheck& c, const Access& x, const Touch& t, Counter& counter, bool vm) {
  for (u32 i = counter.n; i-- > 0;) {
    Outstanding& o = counter.ops[i];
    if (!o.touch.count || !overlap(o.touch, t)) continue;
    bool same_kind = vm ? x.kind == VM_LOAD || x.kind == VM_ATOMIC : in_order(x.kind) && in_order(o.kind);
    if ((t.flags & WRITES) && same_kind) continue;
    char name[24];
    u32 left = 0;
    for (u32 k = i + 1; k < counter.n; k++) left++;
    bool loose = !vm && !in_order(o.kind);
    report(w, CHECK_WAIT, -1, 0, nullptr, o.pc, "%s %s before the wait for it: %s loads it and needs s_waitcnt %s(%u)",
           register_name(t, name), t.flags & WRITES ? "is overwritten" : "is read",
           w.wg->check->checks->program->where[o.pc], vm ? "vmcnt" : "lgkmcnt", loose ? 0 : left);
    o.touch.count = 0;  // what comes of it is not another fault
    update_pending(c);
    return w.stop != FAULTED;
  }
  return true;
}

// Whether what an instruction hands on may be undefined though its registers are not.
static bool depends_on_more(const Wave& w, const Access& x) {
  return x.flow == FLOW_SCRATCH ? w.scratch_bytes : x.flow == FLOW_PULLS && w.exec() != ~0ull;
}

// Mostly everything is defined: then an instruction defines what it writes, and has no more to say in a loop's next round.
static bool check_definedness(Wave& w, WaveCheck& c, const Inst& in, const Access& x) {
  static_assert(FLOW_PULLS > FLOW_SCRATCH);  // the last ones depend on more than registers
  bool known = !c.values.scc.what && !(x.flow >= FLOW_SCRATCH && depends_on_more(w, x));
  u64& sound = c.sound[c.pc >> 6];
  const u64 here = 1ull << (c.pc & 63);
  if (known && (sound & here)) return true;
  for (const Touch& t : x)
    if (known && t.flags & (ADDRESS | SOURCE))
      known = bits_at(t.flags & SCALAR ? c.known_s : c.known_v, t.reg, t.count) == span(t.count);
  if (!known) return check_values(w, c, in, x);
  bool whole = x.all_lanes || w.exec() == ~0ull, defined = true;
  for (const Touch& t : x) {
    if (!(t.flags & WRITES)) continue;
    if (t.flags & SCALAR) {
      set_bits(c.known_s, t.reg, t.count);
    } else if (whole) {
      set_bits(c.known_v, t.reg, t.count);
    } else if (bits_at(c.known_v, t.reg, t.count) != span(t.count)) {
      define_lanes(c, t, w.exec());
      defined = false;
    }
  }
  if (defined) sound |= here;
  return true;
}

// Mostly what is loaded has been written.
static bool may_load_unwritten(Wave& w, const Inst& in, const Access& x) {
  if (x.kind == LDS_READ) return w.wg->check->unwritten;
  if (x.kind != VM_LOAD || x.bytes < 4 || x.to_lds) return x.returns || x.kind == SMEM_LOAD || x.to_lds;
  if (x.bytes == BY_FORMAT) return false;
  const u32* v = w.vreg(in.dst[0].reg);
  u32 any = 0;
  _Pragma("clang loop vectorize(assume_safety)") for (u32 i = 0; i < x.bytes / 4u * WAVE; i++) any |= v[i] == UNWRITTEN;
  return any;
}

static bool touches_pending(const WaveCheck& c, const Access& x) {
  u64 any = 0;
  for (const Touch& t : x) any |= bits_at(t.flags & SCALAR ? c.pending_s : c.pending_v, t.reg, t.count);
  return any;
}

static bool check_registers(Wave& w, WaveCheck& c, const Checks& checks, const Inst& in, const Access& x) {
  if ((c.pending_blocks & x.blocks) && checks.has(CHECK_WAIT) && touches_pending(c, x)) {
    for (u32 n = 0; n < 2 * x.n;
         n++) {  // what is read, then what is overwritten: of a register that is both, the cause
      const Touch& t = x.touch[n % x.n];
      if (!(t.flags & WRITES) == (n >= x.n)) continue;
      if (!bits_at(t.flags & SCALAR ? c.pending_s : c.pending_v, t.reg, t.count)) continue;
      if (!pending_touch(w, c, x, t, c.vm, true) || !pending_touch(w, c, x, t, c.lgkm, false)) return false;
    }
  }
  return !checks.follows_values() || check_definedness(w, c, in, x);
}

static const Touch* destination(const Access& x) {
  for (const Touch& t : x)
    if (t.flags & WRITES) return &t;
  return nullptr;
}

// --- instructions that need more than their registers looked at ----------------------------------------

static void note_arrival(WaveCheck& c) {
  c.vm_at_barrier = c.vm.done;
  c.lgkm_at_barrier = c.lgkm.issued;  // but for LDS's that are under way; scalar loads may be older
  for (u32 i = c.lgkm.n; i-- > 0;)
    if (in_order(c.lgkm.ops[i].kind)) c.lgkm_at_barrier = c.lgkm.ops[i].seq - 1;
}

static bool lds_accesses_outstanding(const WaveCheck& c, const Checks& checks) {
  for (u32 i = 0; i < c.lgkm.n; i++)
    if (in_order(c.lgkm.ops[i].kind) && c.lgkm.ops[i].kind != LDS_LANES) return true;
  for (u32 i = 0; i < c.vm.n; i++)
    if (checks.table[c.vm.ops[i].pc].to_lds) return true;
  return false;
}

static bool before(Wave& w, WaveCheck& c, Checks& checks, const Inst& in, const Access& x) {
  switch (x.kind) {
    case WAITCNT: wait(c, (u32)in.offset); return true;
    case BARRIER:
      c.last_barrier = c.pc;
      note_arrival(c);
      w.wg->check->unarrived |= lds_accesses_outstanding(c, checks);
      return true;
    case SMEM_LOAD:
      if (c.loads) c.loads[c.pc >> 6] |= 1ull << (c.pc & 63);
      [[fallthrough]];
    case SMEM_STORE:
      if (!check_scalar(w, in, x)) return false;
      if (x.kind == SMEM_STORE) progress(checks);
      issue(c, c.lgkm, destination(x), x.kind);
      return true;
    case SMEM_OTHER: issue(c, c.lgkm, destination(x), x.kind); return true;
    case LDS_READ:
    case LDS_WRITE:
    case LDS_ATOMIC:
    case LDS_LANES: issue(c, c.lgkm, destination(x), x.kind); return x.kind == LDS_LANES || check_lds(w, in, x);
    case VM_LOAD:
      if (c.loads) c.loads[c.pc >> 6] |= 1ull << (c.pc & 63);
      [[fallthrough]];
    case VM_STORE:
    case VM_ATOMIC:
      issue(c, c.vm, destination(x), x.kind);
      if (x.space == FLAT_SPACE) issue(c, c.lgkm, destination(x), x.kind);
      return check_global(w, in, x);
    case CACHE_RELEASE: order_releases(w); return true;
    case CACHE_ACQUIRE: order_acquires(w); return true;
    default: return true;
  }
}

// What an instruction has made of the addresses of variables: which registers hold one, or come of one.
static void note_naming(Wave& w, WaveCheck& c, const Inst& in, const Access& x) {
  if (x.naming == NAMES_VARIABLE) c.variable[in.dst[0].reg / 2] = w.s64(in.dst[0].reg - 1);
  for (const Touch& t : x)
    for (u32 i = c.n_derived; i-- > 0;) {
      const u32 reg = c.derived[i].reg;
      if ((t.flags & WRITES) && !(t.flags & SCALAR) && t.reg < reg + 2u && reg < t.reg + (u32)t.count)
        c.derived[i] = c.derived[--c.n_derived];
    }
  if (x.naming != ADDS_TO_VARIABLE) return;
  const u64 base = variable_in(w, c, in.src[2].reg);
  constexpr u32 MOST = sizeof c.derived / sizeof *c.derived;
  if (base && c.n_derived < MOST) c.derived[c.n_derived++] = {in.dst[0].reg, base};
}

// An access of which some lanes are outside: theirs does not happen, and what they load is no value. Nor does an atomic
// where nothing has been written, in lanes of `unwritten`.
static void execute_inside(Wave& w, const Inst& in, const Access& x, u64 dropped, u64 unwritten) {
  constexpr u32 NO_VALUE = 0x7fc5a5a5;
  u64 exec = w.exec();
  const Touch* to = destination(x);
  if (x.kind == SMEM_LOAD || x.kind == SMEM_STORE) {
    for (u32 k = 0; to && k < to->count; k++) w.s[to->reg + k] = NO_VALUE;
    return;
  }
  w.set_exec(exec & ~(dropped | unwritten));
  in.fn(w, in);
  w.set_exec(exec);
  for (u32 k = 0; to && k < to->count; k++)
    for (u64 m = exec & (dropped | unwritten); m; m &= m - 1)
      w.vreg(to->reg + k)[__builtin_ctzll(m)] = dropped & m & -m ? NO_VALUE : UNWRITTEN;
}

// Checks an access, executes it, and notes what came of it. False: the wave has to stop.
static bool access(Wave& w, WaveCheck& c, Checks& checks, const Inst& in, const Access& x) {
  if (__builtin_expect(!before(w, c, checks, in, x), 0)) return false;
  const bool atomic = x.kind == VM_ATOMIC, follows = checks.has(CHECK_UNWRITTEN);
  const bool of_lds = x.kind == LDS_ATOMIC && follows && w.wg->check->unwritten;
  u64 held[WAVE];
  c.lanes &= ~c.dropped;
  if (atomic || of_lds) before_atomic(w, x, c.lanes, held);
  const u64 unwritten = (atomic && follows) || of_lds ? unwritten_lanes(w, x, c.lanes, held) : 0;
  if (__builtin_expect((c.dropped | unwritten) != 0, 0)) execute_inside(w, in, x, c.dropped, unwritten);
  else in.fn(w, in);
  if ((atomic || of_lds) && c.spoilt) spoil(w, x, c.spoilt);
  if (w.wg->l2 && (x.kind == VM_LOAD || x.kind == SMEM_LOAD) && !check_stale(w, x)) return false;
  return !atomic || w.stop == FAULTED || after_atomic(w, x, c.lanes, held);
}

// Scalar registers and the first lane of the vector registers: of a wave that reads the clock or counts its looks, they
// mostly differ already.
u64 light_hash(const Wave& w, u32 n_vgpr) {
  u64 h = w.scc + 0x9e3779b97f4a7c15ull * w.mode;
  for (u32 i = 0; i < 128; i++) h = (h ^ w.s[i]) * 0x100000001b3ull;
  for (u32 i = 0; i < n_vgpr; i++) h = (h ^ w.v[i * WAVE]) * 0x100000001b3ull;
  return h;
}

// Vector registers of the wave and LDS of its workgroup.
static u64 state_hash(const Wave& w, u32 n_vgpr) {
  constexpr u32 WIDE = 16;
  u64 part[WIDE] = {}, h = 0;
  auto add = [&](const void* p, size_t dwords) {
    const u32* x = (const u32*)p;
    for (size_t i = 0; i + WIDE <= dwords; i += WIDE, x += WIDE)
      for (u32 k = 0; k < WIDE; k++) part[k] = (part[k] ^ x[k]) * 0x100000001b3ull;
    for (size_t i = 0; i < dwords % WIDE; i++) part[i] = (part[i] ^ x[i]) * 0x100000001b3ull;
  };
  add(w.v, (size_t)n_vgpr * WAVE);
  add(w.wg->lds, w.wg->lds_bytes / 4);
  for (u32 k = 0; k < WIDE; k++) h = mixed(h ^ part[k]);
  return h;
}

// Whether the wave goes round in a circle: it has come back to the same place with the same state, and nothing in memory
// has changed since. Asked whenever it gets its turn.
static void look_for_circle(Wave& w, WaveCheck& c, const Checks& checks) {
  if (c.stalled_at != checks.progress) {
    c.stalled_at = checks.progress;
    c.idle_turns = 0;
    c.spins = false;
  }
  if (++c.idle_turns < PATIENCE_TURNS || c.spins) return;
  bool snapshot = (c.idle_turns & (c.idle_turns - 1)) == 0;
  if (!snapshot && w.pc != c.snapshot_pc) return;
  const u32 n_vgpr = checks.program->n_vgpr;
  const u64 light = light_hash(w, n_vgpr);
  if (!snapshot && light != c.snapshot_light) return;
  u64 hash = state_hash(w, n_vgpr);
  c.spins = !snapshot && hash == c.snapshot_hash;
  if (snapshot) {
    c.snapshot_pc = w.pc;
    c.snapshot_light = light;
    c.snapshot_hash = hash;
  }
}

// Short enough that a wave seldom writes a flag twice before another has read it.
constexpr u32 SHORT_TURN = 12;
// Now and then a longer one: who fills a ring is to run ahead, until what frees its slots lets it no longer.
constexpr u32 LONGER_TURN = 16 * SHORT_TURN, TURNS_TO_A_LONGER = 8;

// Behind a flag or a lock others get their turn: who runs ahead of them would find all that they should have said. First
// those who wait for that flag: they may go on too soon. So does who has been told by one: it may come too late.
static bool hands_over(Wave& w, WaveCheck& c, const Checks& checks, const Access& x) {
  constexpr u32 GROUPS = 64, TIMES = 64;  // more would be live at once; cost more
  const bool says = x.kind == VM_ATOMIC || (x.kind == VM_STORE && x.ordered);
  if (!says && !c.told) return false;
  c.told = false;
  // One in four does not where it counts itself in: a counter that is not what it should be lets it pass too soon.
  if (says && x.keeping == KEEPS_WITH_ZERO && w.wg->linear_id % 4 == 1) return false;
  if (!checks.has(CHECK_RACE) || w.wg->linear_id >= GROUPS || c.handed_over >= TIMES) return false;
  if (says && __builtin_popcountll(w.exec()) > 8) return false;
  c.handed_over++;
  w.wg->says_at = says ? c.polled : 0;
  return w.wg->hands_over = true;
}

// Who only looks at what it has looked at before gives its turn up: of many workgroups that wait for each other in a row,
// most would spin for all of theirs. looked: `repeats` before this access.
static bool only_looks(Wave& w, const WaveCheck& c, u32 looked) {
  constexpr u32 LOOKS_A_TURN = 64;
  if (c.repeats == looked || c.repeats % LOOKS_A_TURN) return false;
  if (!w.wg->hands_over) w.wg->says_at = 0;
  return w.wg->hands_over = true;
}

bool check_looks_at(const Workgroup& g, u64 address) {
  for (u32 i = 0; i < g.n_waves; i++) {
    const WaveCheck& c = g.check->waves[i];
    const u32 stop = g.waves[i].stop;
    const bool loads = g.check->checks->table[c.polled_pc].kind == VM_LOAD;
    if (c.polled == address && (stop == YIELDED || (stop == RUNNING && loads))) return true;
  }
  return false;
}

u32 run_checked(Wave& w, u32 quantum, Observer* observer) {
  GroupCheck& g = *w.wg->check;
  Checks& checks = *g.checks;
  WaveCheck& c = g.waves[w.id];
  const Program& p = *checks.program;
  const Access *tables[] = {checks.table, checks.table + p.n_inst + 1}, *table = tables[c.values.of_lds];
  const u32 turn = ++c.turns % TURNS_TO_A_LONGER ? SHORT_TURN : LONGER_TURN;
  if (checks.has_spin_loads && quantum > turn) quantum = turn;
  if (__builtin_expect(g.stopped == &w, 0)) {  // by a finding that was held back until the barrier
    w.stop = FAULTED;
    return 0;
  }
  const bool registers = checks.has(CHECK_WAIT) || checks.has(CHECK_UNINITIALISED);
  u32 left = quantum;
  if (checks.has(CHECK_DEADLOCK)) look_for_circle(w, c, checks);
  u32 quiet_from = left;
  const bool follows = checks.has(CHECK_UNWRITTEN);
  while (left) {
    left--;
    const u32 pc = w.pc;
    const Inst& in = w.code[pc];
    const Access& x = table[pc];
    c.pc = pc;
    if (__builtin_expect(checks.preempts && preempted(w, c, pc), 0)) {
      w.stop = YIELDED;
      break;
    }
    w.executed[pc]++;
    w.clock += p.costs ? p.costs[pc] : CYCLES_OF_MOST;
    w.pc++;
    if (in.fn == skipped) {
      skipped(w, in);
      continue;
    }
    if (observer) observer->instruction(observer, w, in);
    if (registers && __builtin_expect(!check_registers(w, c, checks, in, x), 0)) break;
    if (x.kind != PLAIN) {
      c.dropped = 0;
      if (x.kind >= VM_LOAD) c.last_access = pc;
      if (x.kind != WAITCNT) c.quiet = 0, quiet_from = left;
      const u32 looked = c.repeats;
      if (x.kind == VM_STORE && checks.has(CHECK_RACE)) store_begins();
      const bool goes_on = access(w, c, checks, in, x);
      access_ends();
      if (__builtin_expect(!goes_on, 0)) break;
      if (follows && may_load_unwritten(w, in, x)) note_loaded(w, in, x);
      table = tables[c.values.of_lds];
      if (!w.stop && (hands_over(w, c, checks, x) || only_looks(w, c, looked))) break;
    } else {
      in.fn(w, in);
    }
    if (x.naming || c.n_derived) note_naming(w, c, in, x);
    if (w.stop == AT_CLOCK) clock_answer(w);
    if (__builtin_expect(w.stop, 0)) break;
  }
  c.quiet += quiet_from - left;
  if (w.stop == ENDED) {
    progress(checks);
    note_arrival(c);  // at the barriers that others will reach
  } else if (c.quiet > 0xfffff && w.stop != FAULTED && checks.has(CHECK_DEADLOCK)) check_endless(w);
  return quantum - left;
}

// --- workgroups ----------------------------------------------------------------------------------------

static void start_wave_check(WaveCheck& c, const KernelInfo& k) {
  memset((void*)&c, 0, __builtin_offsetof(WaveCheck, values));
  c.vm.issued = c.vm.done = c.vm.n = 0;
  c.lgkm.issued = c.lgkm.done = c.lgkm.n = 0;
  forget_values(c);
  if (c.loads) memset(c.loads, 0, 16 * c.n_loads);  // and c.sound
  c.stalled_at = ~0ull;
  u32 given =
      k.user_sgprs + __builtin_popcount(k.workgroup_id_mask) + 2;  // and private segment offset, work group info
  for (u32 i = 0; i < given && i < 102; i++) set_bits(c.known_s, i, 1);
  for (u32 i = 102; i < 128; i++) set_bits(c.known_s, i, 1);
  set_bits(c.known_v, 0, 3);
}

void check_start_waves(Workgroup& g, const KernelInfo& k) {
  for (u32 i = 0; i < g.n_waves; i++) start_wave_check(g.check->waves[i], k);
}
