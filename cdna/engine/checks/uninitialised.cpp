// Registers, and words of scratch, that nothing has written, and what has been read of LDS, or of memory, where nothing had
// been written; and where they lead: to an address, to a condition, or through arithmetic to memory.
//
// Reading such a register is no fault by itself: compilers move undefined values about, store them as padding and let
// lanes compute on them whose results are masked. So what is undefined is followed lane by lane through moves,
// additions, conversions, comparisons, selections and matrix products, whose results are then certainly undefined too;
// whatever else an instruction writes counts as defined. Only where such a value decides what happens is there a
// finding. LDS holds what somebody meant to read: of that whatever an instruction makes is undefined, and what is stored
// to global memory is a finding though it was only moved; stored to LDS, nothing has been written there. What was read of
// memory may be anything's padding: it may be stored anywhere, and unwritten.cpp follows it. What has been read
// ahead and is then not chosen is no fault: merges, halos and scans are written so.
#include "isa/buffer.h"
#include "uninitialised.h"
#include <stdlib.h>

void define_lanes(WaveCheck& c, const Touch& t, u64 lanes) {
  for (u32 k = 0; k < t.count; k++) write_vector(c, t.reg + k, Flow{}, lanes);
}

void undefine_lane(WaveCheck& c, u32 reg, int lane, u32 lds_byte, bool moves) {
  const Undefined& cell = c.values.v[reg];
  const bool told =
      !bits_at(c.known_v, reg, 1) && is_of_lds(cell.origin) && cell.origin.pc == c.pc;  // of the first lane
  const u64 lanes = 1ull << lane;
  write_vector(c, reg, {lanes, moves ? 0 : lanes, told ? cell.origin : Origin{LDS_BYTE | lds_byte, c.pc}}, lanes);
  c.values.of_lds = true;
}
u64 lanes_of_unwritten_lds(const WaveCheck& c, u32 reg) {
  const Undefined& cell = c.values.v[reg];
  return !bits_at(c.known_v, reg, 1) && is_of_lds(cell.origin) ? ~cell.defined : 0;
}
static void define(WaveCheck& c, const Access& x, u64 lanes) {
  for (const Touch& t : x) {
    if (!(t.flags & WRITES)) continue;
    if (t.flags & SCALAR) set_bits(c.known_s, t.reg, t.count);
    else define_lanes(c, t, lanes);
  }
}

// Dword k of an operand, lane by lane.
static Flow operand(const WaveCheck& c, const Operand& o, u32 k) {
  if (o.kind == VGPR) return vector_register(c, o.reg + k);
  return o.kind == SGPR ? scalar_register(c, o.reg + k).everywhere() : Flow{};
}

// --- findings --------------------------------------------------------------------------------------------

static const char* describe_origin(const Origin& o, char* text, u32 size) {
  u32 which = o.what & ~WHAT;
  if ((o.what & WHAT) == SCRATCH_BYTE) {
    snprintf(text, size, "a local variable (scratch byte %u), which nothing has written", which);
  } else {
    char name[24];
    Touch t = {(u16)which, 1, (u8)((o.what & WHAT) == SCALAR_REGISTER ? SCALAR : 0)};
    snprintf(text, size, "%s, which no instruction has written", register_name(t, name));
  }
  return text;
}

static int first_lane(u64 lanes) { return __builtin_ctzll(lanes); }

bool unwritten_lds(Wave& w, int lane, u32 lds_byte, u32 pc) {
  WaveCheck& c = check_of(w);
  const u32 own = c.pc;
  c.pc = pc;
  const bool elsewhere = own != pc;
  const bool goes_on = report_later(
      w, CHECK_UNINITIALISED, lane, lds_byte, elsewhere ? own : ~0u, "reads LDS byte %u, which nothing has written%s%s",
      lds_byte, elsewhere ? ", for " : "", elsewhere ? w.wg->check->checks->program->where[own] : "");
  c.pc = own;
  return goes_on;
}

static bool found(Wave& w, int lane, const Flow& f, const char* what) {
  if (is_of_lds(f.origin)) return unwritten_lds(w, lane, f.origin.what & ~WHAT, f.origin.pc);
  if (is_of_memory(f.origin)) return unwritten_memory(w, lane, f.origin.pc);
  char from[120];
  const u32 pc = check_of(w).pc;
  if ((f.origin.what & WHAT) == INACTIVE_LANE)
    return report(w, CHECK_UNINITIALISED, lane, 0, nullptr, f.origin.pc,
                  "%s what %s takes from a lane that is not active", what,
                  w.wg->check->checks->program->where[f.origin.pc]);
  bool elsewhere = f.origin.pc != pc;
  return report(w, CHECK_UNINITIALISED, lane, 0, nullptr, elsewhere ? f.origin.pc : ~0u, "%s %s%s%s", what,
                describe_origin(f.origin, from, sizeof from), elsewhere ? " before it was read at " : "",
                elsewhere ? w.wg->check->checks->program->where[f.origin.pc] : "");
}

static bool address_found(Wave& w, const Touch& t, const Flow& f, u64 lanes) {
  char name[24], what[64];
  register_name(t, name);
  u32 own = (t.flags & SCALAR ? SCALAR_REGISTER : VECTOR_REGISTER);
  u32 which = f.origin.what - own;
  int lane = t.flags & SCALAR || lanes == w.exec() ? -1 : first_lane(lanes);
  if ((f.origin.what & WHAT) == own && which >= t.reg && which < t.reg + t.count)
    return report(w, CHECK_UNINITIALISED, lane, 0, nullptr, ~0u, "%s is an address, but no instruction has written it",
                  name);
  snprintf(what, sizeof what, "%s is an address made from", name);
  return found(w, lane, f, what);
}

static bool check_addresses(Wave& w, WaveCheck& c, const Access& x) {
  for (const Touch& t : x) {
    if (!(t.flags & ADDRESS)) continue;
    Flow f = {};
    bool scalar = t.flags & SCALAR;
    for (u32 r = 0; r < t.count; r++) f.add(scalar ? scalar_register(c, t.reg + r) : vector_register(c, t.reg + r));
    bool uniform = x.kind == SMEM_LOAD || x.kind == SMEM_STORE;
    u64 lanes = !scalar ? f.undefined & w.exec() : uniform || w.exec() ? f.undefined : 0;
    if (lanes && !address_found(w, t, f, lanes)) return false;
  }
  return true;
}

// Data of a store or an atomic whose `lanes` reach memory.
bool check_stored(Wave& w, const Inst& in, const Access& x, u64 lanes) {
  WaveCheck& c = check_of(w);
  const Operand& data = in.src[x.space == BUFFER_SPACE ? 0 : 1];
  u32 dwords = x.typed ? typed_element(w, in, op_facts(in.op)).registers : x.bytes < 4 ? 1 : x.bytes / 4;
  if (data.kind != VGPR || bits_at(c.known_v, data.reg, dwords) == span(dwords)) return true;
  for (u32 k = 0; k < dwords; k++) {
    Flow f = vector_register(c, data.reg + k);
    if (is_of_memory(f.origin)) continue;
    u64 computed = f.computed & lanes;
    const bool taken = (f.origin.what & WHAT) == INACTIVE_LANE;
    if (computed) return found(w, first_lane(computed), f, taken ? "stores" : "stores what was computed from");
  }
  return true;
}

// --- what instructions hand on -----------------------------------------------------------------------------

static bool lanes_depend(Wave& w, const Flow& f) {
  return !f.undefined || found(w, first_lane(f.undefined), f, "which lanes go on depends on");
}

// Bits of a & b (or a | b) that are undefined: a defined 0 (1) in either decides.
static u64 undefined_bits(bool is_or, u64 a, u64 ua, u64 b, u64 ub) {
  return is_or ? (ua | ub) & (~a | ua) & (~b | ub) : (ua | ub) & (a | ua) & (b | ub);
}

static bool bitwise(Wave& w, WaveCheck& c, const Inst& in, const Access& x) {
  bool wide = in.src_dwords[0] == 2, to_exec = x.bits & BITS_TO_EXEC;
  auto value = [&](const Operand& o) { return wide ? scalar64(w, o) : scalar32(w, o); };
  auto undefined = [&](const Operand& o) {
    return o.kind != SGPR ? Flow{} : wide ? scalar_pair(c, o.reg) : scalar_register(c, o.reg);
  };
  u64 a = value(in.src[0]), b = to_exec ? w.exec() : in.src[1].kind == NONE ? 0 : value(in.src[1]);
  Flow f = undefined(in.src[0]), fb = to_exec || in.src[1].kind == NONE ? Flow{} : undefined(in.src[1]);
  u64 ua = f.undefined, ub = fb.undefined;
  f.add(fb);
  if (x.bits & BITS_NOT_A) a = ~a;
  if (x.bits & BITS_NOT_B) b = ~b;
  if (!(x.bits & BITS_XOR)) f = f.of(undefined_bits(x.bits & BITS_OR, a, ua, b, ub));
  u64 result = x.bits & BITS_XOR ? a ^ b : x.bits & BITS_OR ? a | b : a & b;
  if (x.bits & BITS_NOT_RESULT) result = ~result;
  if (!wide) result &= 0xffffffff;
  c.values.scc = f.undefined && !(result & ~f.undefined) ? f.origin : Origin{0, 0};
  u32 dst = in.dst[0].reg;
  if (to_exec || dst == EXEC) return lanes_depend(w, f) && (define(c, x, ALL), true);
  if (wide) write_pair(c, dst, f);
  else write_scalar(c, dst, f);
  return true;
}

// What is computed of an inactive lane's value counts as defined: the hardware says that it is 0, and sums, maxima and means
// over the active lanes of a wave come out right.
static Flow computable(const Flow& f) { return (f.origin.what & WHAT) == INACTIVE_LANE ? Flow{} : f; }

static Flow sources(const WaveCheck& c, const Access& x, bool low_only = false, bool carries = false) {
  Flow f = {};
  for (const Touch& t : x) {
    if (t.flags & WRITES) continue;
    if (t.flags & SCALAR && carries && t.count == 2) {
      f.add(scalar_pair(c, t.reg));
      continue;
    }
    for (u32 r = t.reg; r < t.reg + (low_only ? 1u : t.count); r++)
      f.add(computable(t.flags & SCALAR ? scalar_register(c, r).everywhere() : vector_register(c, r)));
  }
  return f;
}

static void computes(Wave& w, WaveCheck& c, const Inst& in, const Access& x) {
  u64 exec = w.exec();
  Flow all = sources(c, x, false, x.flow == FLOW_CARRIES);
  if (x.accumulates) all.add(computable(vector_register(c, in.dst[0].reg)));
  Flow low = x.flow == FLOW_LOW_FIRST ? sources(c, x, true) : all;
  for (const Touch& t : x) {
    if (!(t.flags & WRITES)) continue;
    if (t.flags & SCALAR) {  // carries, one bit a lane
      write_pair(c, t.reg, all.of(exec).calculated());
    } else {
      for (u32 r = 0; r < t.count; r++) write_vector(c, t.reg + r, (r ? all : low).calculated(), exec);
    }
  }
}

static void scalar_computes(WaveCheck& c, const Access& x) {
  Flow all = sources(c, x), low = x.flow == FLOW_SCALAR_LOW_FIRST ? sources(c, x, true) : all;
  if (x.reads_scc && c.values.scc.what) {
    Flow carry = {ALL, ALL, c.values.scc};
    all.add(carry);
    low.add(carry);
  }
  c.values.scc = all.undefined ? all.origin : Origin{0, 0};
  for (const Touch& t : x)
    if (t.flags & WRITES)
      for (u32 r = 0; r < t.count; r++) write_scalar(c, t.reg + r, (r ? all : low).calculated());
}

static bool moves(Wave& w, WaveCheck& c, const Inst& in) {
  if (in.dst[0].kind == SGPR && in.dst[0].reg == EXEC)
    return in.src[0].kind != SGPR || lanes_depend(w, scalar_pair(c, in.src[0].reg));
  u32 dwords = in.dst_dwords ? in.dst_dwords : 1;
  for (u32 k = 0; k < dwords; k++) {
    if (in.dst[0].kind == VGPR) write_vector(c, in.dst[0].reg + k, operand(c, in.src[0], k), w.exec());
    else if (in.src[0].kind == VGPR) {  // v_readfirstlane_b32
      Flow f = vector_register(c, in.src[0].reg);
      u64 lane = w.exec() ? 1ull << first_lane(w.exec()) : 1;
      write_scalar(c, in.dst[0].reg, f.of(lane).everywhere());
    } else write_scalar(c, in.dst[0].reg + k, in.src[0].kind == SGPR ? scalar_register(c, in.src[0].reg + k) : Flow{});
  }
  return true;
}

static void selects(Wave& w, WaveCheck& c, const Inst& in) {
  const Operand& condition = in.src[2];
  if (condition.kind != SGPR) {
    write_vector(c, in.dst[0].reg, Flow{}, w.exec());
    return;
  }
  u64 second = w.s64(condition.reg);
  Flow f = scalar_pair(c, condition.reg).calculated();
  f.add(operand(c, in.src[0], 0).of(~second));
  f.add(operand(c, in.src[1], 0).of(second));
  write_vector(c, in.dst[0].reg, f, w.exec());
}

static void scalar_selects(Wave& w, WaveCheck& c, const Inst& in) {
  const Operand& chosen = in.src[w.scc ? 0 : 1];
  for (u32 k = 0; k < in.dst_dwords; k++) {
    Flow f = chosen.kind == SGPR ? scalar_register(c, chosen.reg + k) : Flow{};
    if (c.values.scc.what) f = {ALL, ALL, c.values.scc};
    write_scalar(c, in.dst[0].reg + k, f);
  }
}

// A register of A or B that no lane has written spoils every element of D; one of C, that register of D.
static void multiplies(WaveCheck& c, const Inst& in, const Access& x) {
  Flow spoilt = {};
  u32 position = 0;
  for (const Touch& t : x) {
    if (t.flags & WRITES || position++ >= 2) continue;
    for (u32 r = 0; r < t.count; r++) {
      Flow f = vector_register(c, t.reg + r);
      if (f.undefined == ALL) spoilt.add(f);
    }
  }
  u32 registers = x.touch[0].count;
  for (u32 r = 0; r < registers; r++) {
    Flow f = spoilt;
    if (in.src[2].kind == VGPR) f.add(vector_register(c, in.src[2].reg + r));
    write_vector(c, in.dst[0].reg + r, f.calculated(), ALL);
  }
}

static bool compares(Wave& w, WaveCheck& c, const Inst& in, const Access& x) {
  Flow f = sources(c, x).of(w.exec()).calculated();
  if (x.flow == FLOW_COMPARES_TO_EXEC && !lanes_depend(w, f)) return false;
  if (in.dst[0].kind == SGPR) write_pair(c, in.dst[0].reg, f);
  return true;
}

static bool branches(Wave& w, WaveCheck& c, const Access& x) {
  if (x.flow == FLOW_BRANCH_SCC) {
    if (!c.values.scc.what) return true;
    Flow f = {1, 1, c.values.scc};
    return found(w, -1, f, "a branch depends on");
  }
  Flow f = scalar_pair(c, VCC);
  return !f.undefined || w.s64(VCC) & ~f.undefined || found(w, -1, f, "a branch depends on");
}

// --- what was read of LDS where nothing had been written ---------------------------------------------------

static Flow of_lds(const WaveCheck& c, const Touch& t) {
  Flow f = {};
  for (u32 r = 0; r < t.count; r++) {
    const Flow one = t.flags & SCALAR ? scalar_register(c, t.reg + r).everywhere() : vector_register(c, t.reg + r);
    if (is_of_lds(one.origin)) f.add(one);
  }
  return f;
}

// Lanes that get something of `undefined` ones.
static u64 reached(Wave& w, const Access& x, u64 undefined, u64 lanes) {
  if (!x.crosses) return undefined & lanes;
  return undefined & (w.exec() | (x.all_lanes ? ALL : 0)) ? lanes : 0;
}

// v_readlane_b32 and v_writelane_b32, with which compilers keep scalar registers in lanes of a vector register.
static bool is_one_lane(Wave& w, WaveCheck& c, const Inst& in) {
  const Facts& f = op_facts(in.op);
  const bool reads = f.is(FACT_READS_LANE);
  if (!f.is(FACT_SELECTS_LANE)) return false;
  const u64 lane = 1ull << (scalar32(w, in.src[1]) & (WAVE - 1));
  if (reads) write_scalar(c, in.dst[0].reg, vector_register(c, in.src[0].reg).of(lane).everywhere());
  else write_vector(c, in.dst[0].reg, operand(c, in.src[0], 0), lane);
  return true;
}

// Of an instruction that nothing else is known of: whatever it makes of such a value. Of bits that are put together those
// of one register may be defined, as of bytes in a dword: that counts for all.
static bool hands_on(Wave& w, WaveCheck& c, const Inst& in, const Access& x) {
  if (c.values.of_lds && x.crosses && is_one_lane(w, c, in)) return true;
  const u64 lanes = x.all_lanes ? ALL : w.exec();
  Flow f = {};
  const bool takes = x.kind == PLAIN || x.kind == LDS_LANES || x.kind == LDS_ATOMIC;  // stores look for themselves
  u64 all = ALL;
  bool of_lanes = false;
  for (u32 k = 0; takes && k < x.n; k++) {
    if (x.touch[k].flags & (WRITES | ADDRESS)) continue;
    const Flow one = of_lds(c, x.touch[k]);
    f.add(one);
    of_lanes |= !(x.touch[k].flags & SCALAR);
    if (x.combines && !(x.touch[k].flags & SCALAR)) all &= one.undefined;
  }
  f = f.of(all);
  if (x.kind == LDS_ATOMIC && f.undefined & lanes) return found(w, first_lane(f.undefined & lanes), f, "");
  define(c, x, lanes);
  if (x.writes_scc) c.values.scc = f.undefined ? f.origin : Origin{0, 0};
  if (!f.undefined) return true;
  const u64 to = reached(w, x, f.undefined, lanes);
  for (const Touch& t : x) {
    if (t.flags & WRITES && t.flags & SCALAR && t.count == 2 && of_lanes) {  // a bit a lane
      write_pair(c, t.reg, Flow{to, to, f.origin});
      continue;
    }
    for (u32 r = 0; r < t.count && t.flags & WRITES; r++) {
      if (!(t.flags & SCALAR)) write_vector(c, t.reg + r, Flow{to, to, f.origin}, lanes);
      else if (to) write_scalar(c, t.reg + r, Flow{ALL, ALL, f.origin});
    }
  }
  return true;
}

// A matrix product: a row of A spoils that row of D, a column of B that column. False: the wave has to stop.
static bool spoils(Wave& w, WaveCheck& c, const Inst& in, const Access& x) {
  Flow from[2] = {};
  u32 n = 0;
  for (u32 k = 0; k < x.n && n < 2; k++)
    if (!(x.touch[k].flags & WRITES)) from[n++] = of_lds(c, x.touch[k]);
  if (!(from[0].undefined | from[1].undefined)) {
    multiplies(c, in, x);
    return true;
  }
  const u32 registers = x.touch[0].count, rows = op_facts(in.op).shape[0];
  const u32 side = registers == rows * rows / WAVE && rows >= 16 ? rows : 0;
  const Flow& first = from[0].undefined ? from[0] : from[1];
  if (!side) return found(w, first_lane(first.undefined), first, "");  // several products, or of doubles
  u32 line[2] = {};
  for (u32 k = 0; k < 2; k++)
    for (u64 m = from[k].undefined; m; m &= m - 1) line[k] |= 1u << first_lane(m) % side;
  multiplies(c, in, x);
  for (u32 r = 0; r < registers; r++) {
    u64 lanes = 0;
    for (u32 i = 0; i < WAVE; i++) {
      const u32 row = side == 16 ? i / 16 * 4 + r : r / 4 * 8 + i / 32 * 4 + r % 4;
      if (line[0] >> row & 1 || line[1] >> i % side & 1) lanes |= 1ull << i;
    }
    write_vector(c, in.dst[0].reg + r, Flow{lanes, lanes, first.origin}, lanes);
  }
  return true;
}

// ds_bpermute_b32: who asks a lane that is not active gets 0.
static void pulls(Wave& w, WaveCheck& c, const Inst& in) {
  const u64 exec = w.exec();
  const u32* address = w.vreg(in.src[0].reg);
  const Flow held = vector_register(c, in.src[1].reg);
  u64 undefined = 0, computed = 0, inactive = 0;
  for (u64 m = exec; m; m &= m - 1) {
    const u64 lane = m & -m, from = 1ull << ((address[first_lane(m)] + (u32)in.offset) >> 2 & 63);
    if (!(exec & from)) inactive |= lane;
    if (exec & held.undefined & from) undefined |= lane;
    if (exec & held.computed & from) computed |= lane;
  }
  Flow f = {undefined, computed, held.origin};
  f.add({inactive, inactive, {INACTIVE_LANE, c.pc}});
  write_vector(c, in.dst[0].reg, f, exec);
}

// --- scratch -----------------------------------------------------------------------------------------------

// Offsets of the lanes whose access is to scratch.
static u64 scratch_lanes(Wave& w, const Inst& in, const Access& x, u32* offset) {
  u64 exec = w.exec(), lanes = 0;
  if (x.space == SCRATCH_SPACE) {
    const Operand& scalar = in.src[x.kind == VM_STORE ? 2 : 1];
    u32 base = (u32)in.offset + (scalar.kind == NONE ? 0 : scalar32(w, scalar));
    const u32* v = in.src[0].kind == VGPR ? w.vreg(in.src[0].reg) : nullptr;
    for (int i = 0; i < WAVE; i++) offset[i] = base + (v ? v[i] : 0);
    return exec;
  }
  const u32* v = w.vreg(in.src[0].reg);
  for (u64 m = exec; m; m &= m - 1) {
    int i = first_lane(m);
    u64 address = (v[i] | (u64)v[WAVE + i] << 32) + (u64)(i64)in.offset;
    offset[i] = (u32)address;
    if (address >> 32 == PRIVATE_APERTURE >> 32) lanes |= m & -m;
  }
  return lanes;
}

static Undefined* scratch_cells(Wave& w, WaveCheck& c) {
  u32 n = w.scratch_bytes / 4 + 5;
  if (c.values.n_scratch < n) {
    free(c.values.scratch);
    c.values.scratch = (Undefined*)calloc(n, sizeof(Undefined));
    c.values.n_scratch = n;
  }
  return c.values.scratch;
}

static void accesses_scratch(Wave& w, WaveCheck& c, const Inst& in, const Access& x) {
  u32 offset[WAVE], dwords = x.bytes < 4 ? 1 : x.bytes / 4;
  bool load = x.kind == VM_LOAD;
  if (load) define(c, x, w.exec());
  u64 lanes = scratch_lanes(w, in, x, offset);
  if (!lanes) return;
  Undefined* cells = scratch_cells(w, c);
  for (u64 left = lanes; left;) {  // lanes with the same offset at once: mostly all
    u32 at = offset[first_lane(left)];
    u64 same = 0;
    for (u64 m = left; m; m &= m - 1)
      if (offset[first_lane(m)] == at) same |= m & -m;
    left &= ~same;
    if ((u64)at + x.bytes > w.scratch_bytes) continue;  // the handler says so
    bool whole = at % 4 == 0 && x.bytes >= 4;
    for (u32 k = 0; k < (at % 4 + x.bytes + 3) / 4; k++) {
      Undefined& cell = cells[at / 4 + k];
      Flow held = of_cell(cell, SCRATCH_BYTE | (at + 4 * k), c);
      if (load && at % 4 == 0) write_vector(c, in.dst[0].reg + k, held, same);
      if (!load) put(cell, whole && k < dwords ? vector_register(c, in.src[1].reg + k) : Flow{}, same);
    }
  }
}

// --- one instruction -----------------------------------------------------------------------------------------

bool check_values(Wave& w, WaveCheck& c, const Inst& in, const Access& x) {
  if (!check_addresses(w, c, x)) return false;
  if (c.values.of_lds && follow_unwritten(w, in, x)) return true;
  switch (x.flow) {
    case FLOW_MOVES: return moves(w, c, in);
    case FLOW_COMPUTES:
    case FLOW_LOW_FIRST:
    case FLOW_CARRIES: computes(w, c, in, x); return true;
    case FLOW_COMPARES:
    case FLOW_COMPARES_TO_EXEC: return compares(w, c, in, x);
    case FLOW_SELECTS: selects(w, c, in); return true;
    case FLOW_MULTIPLIES: return spoils(w, c, in, x);
    case FLOW_SCALAR:
    case FLOW_SCALAR_LOW_FIRST: scalar_computes(c, x); return true;
    case FLOW_SCALAR_SELECTS: scalar_selects(w, c, in); return true;
    case FLOW_BITS: return bitwise(w, c, in, x);
    case FLOW_BRANCH_SCC:
    case FLOW_BRANCH_VCC: return branches(w, c, x);
    case FLOW_SCRATCH: accesses_scratch(w, c, in, x); return true;
    case FLOW_PULLS: pulls(w, c, in); return true;
    default: return hands_on(w, c, in, x);
  }
}

void forget_values(WaveCheck& c) {
  for (u32 i = 0; i < 10; i++) {
    for (u64 m = c.values.followed[i]; m; m &= m - 1)
      (i < 8 ? c.values.v + 64 * i : c.values.s + 64 * (i - 8))[__builtin_ctzll(m)] = {};
    c.values.followed[i] = 0;
  }
  memset(c.values.scratch, 0, sizeof(Undefined) * c.values.n_scratch);
  c.values.scc = {0, 0};
  c.values.of_lds = false;
}
