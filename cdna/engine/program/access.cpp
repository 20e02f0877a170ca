// What instructions touch: registers from the op's signature, the rest from its facts.
#include "access.h"
#include <stdlib.h>

static void add(Access& x, const Operand& o, u32 count, u8 flags) {
  if ((o.kind != VGPR && o.kind != SGPR) || count == 0 || x.n == 8) return;
  x.touch[x.n++] = {o.reg, (u8)count, (u8)(flags | (o.kind == SGPR ? SCALAR : 0))};
}

// Registers of an operand of the block-scaled products, by its number format (0, 1: 8 bits; 2, 3: 6 bits; 4: 4 bits).
static u32 scaled_dwords(u32 format) { return format < 2 ? 8 : format < 4 ? 6 : 4; }

static void registers(Access& x, const Inst& in, const Facts& f) {
  u32 nd = 0, ns = 0;
  for (const OperandSlot& slot : f.slots) {
    if (slot.kind == IS_DESTINATION || (slot.kind == IS_RETURNED && in.flags & GLC))
      add(x, in.dst[nd++], slot.dwords, WRITES);
    const bool source = slot.kind == IS_SOURCE;
    if (!source && slot.kind != IS_VECTOR_ADDRESS && slot.kind != IS_SCALAR_ADDRESS && slot.kind != IS_SCALAR_OFFSET)
      continue;
    u32 count = in.src_dwords[ns];
    if (f.is(FACT_FORMATS) && ns < 2) count = scaled_dwords(ns ? in.blgp : in.cbsz);
    bool address = !source || x.kind == SMEM_LOAD || (x.kind == SMEM_STORE && ns) ||
                   (x.kind >= LDS_READ && x.kind <= LDS_ATOMIC && ns == 0) || (x.space == BUFFER_SPACE && ns);
    add(x, in.src[ns++], count, address ? ADDRESS : 0);
  }
  Operand vcc = {SGPR, 0, VCC, 0, 0}, m0 = {SGPR, 0, M0, 0, 0};
  if (f.is(FACT_VCC_IN)) add(x, vcc, 2, 0);
  if (x.to_lds || f.is(FACT_LANE_ORDER)) add(x, m0, 1, ADDRESS);
  if (((x.space == BUFFER_SPACE && x.kind == VM_ATOMIC) || x.kind == SMEM_STORE) &&
      x.returns) {  // back into the data registers
    u32 count = in.src_dwords[0];
    add(x, in.src[0], f.is(FACT_SWAP) ? count / 2 : count, WRITES);
  }
}

static u8 kind_of(const Facts& f) {
  switch (f.unit) {
    case WAIT_UNIT: return WAITCNT;
    case BARRIER_UNIT: return BARRIER;
    case SCALAR_MEMORY_UNIT: return f.does == DOES_TIME ? SMEM_OTHER : f.does == DOES_LOAD ? SMEM_LOAD : SMEM_STORE;
    case MEMORY_UNIT:
      switch (f.does) {
        case DOES_RELEASE: return CACHE_RELEASE;
        case DOES_ACQUIRE: return CACHE_ACQUIRE;
        case DOES_LOAD: return VM_LOAD;
        default: return f.does == DOES_STORE ? VM_STORE : VM_ATOMIC;
      }
    default: break;
  }
  if (f.space != LDS_SPACE) return PLAIN;
  if (f.does == DOES_LANES || f.is(FACT_LANE_ORDER)) return LDS_LANES;
  return f.does == DOES_LOAD ? LDS_READ : f.does == DOES_STORE ? LDS_WRITE : LDS_ATOMIC;
}

constexpr u64 CROSSES_LANES = FACT_READS_LANE | FACT_SELECTS_LANE | FACT_SWAPS_LANES;

static void classify(Access& x, const Inst& in, const Facts& f) {
  x.kind = kind_of(f);
  x.space = f.space;
  x.bytes = f.bytes;
  x.two = f.elements == 2;
  x.stride = x.two ? f.bytes * f.stride : 1;
  x.to_lds = f.is(FACT_TO_LDS);
  x.returns = x.kind == VM_LOAD ? !x.to_lds : f.does == DOES_ATOMIC && (in.flags & GLC);
  x.ordered = in.flags & (GLC | SC1);
  x.swaps_dword = x.kind == VM_ATOMIC && f.is(FACT_SWAP) && x.bytes == 4;
  x.upper = f.is(FACT_UPPER);
  x.all_lanes = f.is(FACT_ALL_LANES);
  x.accumulates = f.is(FACT_ACCUMULATES);
  x.crosses = x.kind == LDS_LANES || in.flags & DPP || f.flags & CROSSES_LANES;
  x.reads_scc = f.is(FACT_SCC_IN);
  x.writes_scc = f.is(FACT_SCC_OUT);
  x.flow = in.flags & (DPP | SDWA | INDEXED) && f.unit == VECTOR_UNIT ? FLOW_DEFINES : f.flow;
  x.bits = f.bits;
}

// Registers whose undefined values are handed on; all: those of every instruction.
static void mark_sources(Access& x, bool all) {
  if ((x.flow == FLOW_DEFINES && !all) || x.flow == FLOW_SCRATCH) return;
  for (u32 k = 0; k < x.n; k++)
    if (!(x.touch[k].flags & WRITES)) x.touch[k].flags |= SOURCE;
}

static bool may_read_lds(const Access& x) { return x.kind == LDS_READ || (x.kind == VM_LOAD && x.space == FLAT_SPACE); }

static bool writes(const Access& x, u32 reg, bool scalar) {
  for (u32 k = 0; k < x.n; k++) {
    const Touch& t = x.touch[k];
    if (t.flags & WRITES && !(t.flags & SCALAR) == !scalar && t.reg <= reg && reg < t.reg + (u32)t.count) return true;
  }
  return false;
}

// The last instruction before `at`, from `begin` on, that writes a register; ~0: none.
static u32 writer_of(const Access* table, u32 begin, u32 at, u32 reg, bool scalar) {
  while (at-- > begin)
    if (writes(table[at], reg, scalar)) return at;
  return ~0u;
}

static bool is_move(const Inst& in) {
  const Facts& f = op_facts(in.op);
  return f.unit == VECTOR_UNIT && f.flow == FLOW_MOVES && in.dst_dwords == 1;
}

// The scalar register that a vector register has been made of shortly before, by a move; null: none.
static const Operand* moved_from(const Program& p, const Access* table, u32 begin, u32 at, u32 reg) {
  const u32 from = writer_of(table, begin, at, reg, false);
  if (from == ~0u || !is_move(p.code[from])) return nullptr;
  return p.code[from].src[0].kind == SGPR ? &p.code[from].src[0] : nullptr;
}

// Whether a loop makes the address of a read in it anew each time, of a scalar register that stays.
static bool made_anew(const Program& p, const Access* table, u32 begin, u32 at, u32 end) {
  const Operand* from = moved_from(p, table, begin, at, p.code[at].src[0].reg);
  return from && writer_of(table, begin, end + 1, from->reg, true) == ~0u;
}

// Whether a read of LDS only waits for another value: in a short loop without a write or barrier, at an address that stays,
// with a result that something in the loop looks at.
static bool polls(const Program& p, const Access* table, u32 at) {
  constexpr u32 LOOP = 64;
  if (!may_read_lds(table[at]) || table[at].n == 0) return false;
  for (u32 end = at + 1; end < p.n_inst && end < at + LOOP; end++) {
    const Facts& f = op_facts(p.code[end].op);
    if (f.unit != BRANCH_UNIT || !f.has(IS_LABEL)) continue;
    u32 begin = (u32)p.code[end].offset;
    if (begin > at || at - begin > LOOP) continue;
    const Touch* result = nullptr;
    for (u32 k = 0; k < table[at].n; k++)
      if (table[at].touch[k].flags & WRITES) result = &table[at].touch[k];
    bool looked_at = false;
    const bool anew = made_anew(p, table, begin, at, end);
    for (u32 i = begin; i <= end; i++) {
      const Access& x = table[i];
      if (x.kind == LDS_WRITE || x.kind == LDS_ATOMIC || x.kind == VM_STORE || x.kind == VM_ATOMIC || x.kind == BARRIER)
        return false;
      for (u32 k = 0; k < x.n; k++) {
        const Touch& t = x.touch[k];
        bool vector = !(t.flags & SCALAR);
        looked_at |=
            i > at && vector && !(t.flags & WRITES) && result && t.reg <= result->reg && result->reg < t.reg + t.count;
        for (u32 q = 0; q < table[at].n; q++) {
          const Touch& address = table[at].touch[q];
          if (!anew && address.flags & ADDRESS && vector && t.flags & WRITES && t.reg <= address.reg &&
              address.reg < t.reg + t.count)
            return false;
        }
      }
    }
    return looked_at;
  }
  return false;
}

// Whether two reads of LDS, the second behind the first, are at one address: of scalar registers, one of which is the other
// and the distance of their offsets.
static bool same_scalar_address(const Program& p, const Access* table, u32 one, u32 other) {
  constexpr u32 NEAR = 16;
  const u32 begin = one > NEAR ? one - NEAR : 0;
  const Operand* from = moved_from(p, table, begin, one, p.code[one].src[0].reg);
  const Operand* to = moved_from(p, table, one + 1, other, p.code[other].src[0].reg);
  const u32 sum = from && to ? writer_of(table, begin, other, to->reg, true) : ~0u;
  if (sum == ~0u) return false;
  const Inst& in = p.code[sum];
  const Facts& f = op_facts(in.op);
  const i64 distance = (i64)p.code[one].offset - (i64)p.code[other].offset;
  if (f.is(FACT_SETS_BIT))
    return to->reg == from->reg && in.src[0].kind == CONST && distance == 1ll << (in.src[0].lo & 31);
  return f.is(FACT_ADDS) && !f.is(FACT_SCC_IN) && in.src[0].kind == SGPR && in.src[0].reg == from->reg &&
         in.src[1].kind == CONST && distance == (i64)in.src[1].lo;
}

// Whether a read is a loop's first, which compilers put before it: the next read of LDS is that of a polling loop, from the
// same address.
static bool peeled(const Program& p, const Access* table, u32 at) {
  constexpr u32 NEAR = 16;
  if (!may_read_lds(table[at])) return false;
  for (u32 i = at + 1; i < p.n_inst && i <= at + NEAR; i++) {
    if (table[i].kind == table[at].kind) {
      const Inst &a = p.code[at], &b = p.code[i];
      if (!table[i].polls || a.op != b.op) return false;
      return (a.src[0].reg == b.src[0].reg && a.offset == b.offset) || same_scalar_address(p, table, at, i);
    }
    if (table[i].kind != PLAIN && table[i].kind != WAITCNT) return false;
  }
  return false;
}

// The constant that a vector register has been given shortly before, as the program is written; -1: none.
static i64 constant_in(const Program& p, const Access* table, u32 at, u32 reg) {
  constexpr u32 NEAR = 32;
  for (u32 i = at; i-- > 0 && at - i < NEAR;)
    for (u32 k = 0; k < table[i].n; k++) {
      const Touch& t = table[i].touch[k];
      if (!(t.flags & WRITES) || t.flags & SCALAR || reg < t.reg || reg >= t.reg + (u32)t.count) continue;
      const bool moved = is_move(p.code[i]) && p.code[i].src[0].kind == CONST;
      return moved ? (i64)p.code[i].src[0].lo : -1;
    }
  return -1;
}

// Whether an atomic is at the very place of a load: same registers, or constants in them. stays: those still hold what they
// did at the load.
static bool looks_again(const Program& p, const Access* table, u32 at, u32 again, bool stays) {
  const Inst &load = p.code[at], &atomic = p.code[again];
  const Access &x = table[at], &y = table[again];
  if (y.kind != VM_ATOMIC || y.space == BUFFER_SPACE || x.space == BUFFER_SPACE) return false;
  const Operand &base = atomic.src[2], &from = x.kind == SMEM_LOAD ? load.src[0] : load.src[1];
  if (load.offset != atomic.offset || base.kind != from.kind || (base.kind == SGPR && base.reg != from.reg))
    return false;
  if (x.kind == SMEM_LOAD || (stays && load.src[0].reg == atomic.src[0].reg)) return true;
  const i64 offset = base.kind == SGPR ? constant_in(p, table, at, load.src[0].reg) : -1;
  return offset >= 0 && offset == constant_in(p, table, again, atomic.src[0].reg);
}

// Whether an atomic goes out from another pointer than a load: from other scalar registers, which were loaded too, and hold
// at the atomic what they held at the load.
static bool elsewhere(const Program& p, const Access* table, u32 at, u32 atomic) {
  const Access& x = table[at];
  if (x.space == BUFFER_SPACE || table[atomic].space == BUFFER_SPACE) return false;
  const Operand &base = p.code[atomic].src[2], &from = p.code[at].src[x.kind == SMEM_LOAD ? 0 : 1];
  if (base.kind != SGPR || from.kind != SGPR || base.reg == from.reg) return false;
  auto stays = [&](u32 reg) { return writer_of(table, at, atomic, reg, true) == ~0u; };
  auto given = [&](u32 reg) {
    const u32 loaded = writer_of(table, 0, at, reg, true);
    return loaded != ~0u && table[loaded].kind == SMEM_LOAD && stays(reg) && stays(reg + 1);
  };
  return given(base.reg) && given(from.reg);
}

// Whether an instruction writes a register that a load's address is made of; whether it reads the load's result.
static bool moves(const Access& y, const Access& load) {
  for (u32 k = 0; k < y.n; k++)
    for (u32 q = 0; q < load.n && y.touch[k].flags & WRITES; q++) {
      const Touch &a = y.touch[k], &b = load.touch[q];
      const bool address = b.flags & ADDRESS && !(b.flags & WRITES) && !((a.flags ^ b.flags) & SCALAR);
      if (address && a.reg < b.reg + b.count && b.reg < a.reg + a.count) return true;
    }
  return false;
}
static bool reads_result(const Access& y, const Access& load) {
  for (u32 k = 0; k < y.n; k++)
    for (u32 q = 0; q < load.n && !(y.touch[k].flags & WRITES); q++) {
      const Touch &a = y.touch[k], &b = load.touch[q];
      if (b.flags & WRITES && !((a.flags ^ b.flags) & SCALAR) && a.reg <= b.reg && b.reg < a.reg + a.count) return true;
    }
  return false;
}

namespace {
struct Carried {  // registers that a load's result has come to
  bool vector[512], scalar[128];
  bool& at(const Touch& t, u32 k) { return t.flags & SCALAR ? scalar[(t.reg + k) & 127] : vector[(t.reg + k) & 511]; }
  void add(const Access& y) {
    for (u32 i = 0; i < y.n; i++)
      for (u32 k = 0; k < y.touch[i].count && y.touch[i].flags & WRITES; k++) at(y.touch[i], k) = true;
  }
  bool in_data_of(const Access& y) {
    for (u32 i = 0; i < y.n; i++)
      for (u32 k = 0; k < y.touch[i].count && !(y.touch[i].flags & (WRITES | ADDRESS)); k++)
        if (at(y.touch[i], k)) return true;
    return false;
  }
};
}  // namespace

// Whether an instruction that reads a value compares it, or brings it to the scalar unit, which will.
static bool looks_at(const Facts& f) {
  return f.is(FACT_COMPARES) || f.is(FACT_SWAP) || (f.is(FACT_READS_LANE) && !f.is(FACT_SELECTS_LANE));
}

// Whether a plain load of global memory only looks at what an atomic will look at again (compare-and-swap loops begin with
// what they read, and who needs a larger maximum looks whether it is one), or polls: in a short loop that writes nothing,
// at an address that stays. A compare-and-swap of something else, as of a lock, looks at nothing again.
static bool glances(const Program& p, const Access* table, u32 at) {
  constexpr u32 LOOP = 64;
  const Access& x = table[at];
  if ((x.kind != VM_LOAD && x.kind != SMEM_LOAD) || x.ordered) return false;
  auto leaves = [&](u32 i) {
    const Facts& f = op_facts(p.code[i].op);
    return f.unit == END_UNIT || (f.does == DOES_JUMP && !table[i].n);
  };
  bool stays = true, used = false, compared = false, plain = true;
  Carried carried = {};
  carried.add(x);
  for (u32 i = at + 1; i < p.n_inst && i < at + LOOP; i++) {
    const Access& y = table[i];
    const bool compares = y.kind == VM_ATOMIC && op_facts(p.code[i].op).is(FACT_SWAP) && !elsewhere(p, table, at, i);
    if (compares && (compared || carried.in_data_of(y))) return true;
    if (compared && looks_again(p, table, at, i, stays)) return true;
    if (y.kind == PLAIN && carried.in_data_of(y)) carried.add(y);
    stays = stays && !moves(y, x) && y.kind != BARRIER;
    const Facts& f = op_facts(p.code[i].op);
    const bool reads = reads_result(y, x);
    used = used || reads;
    compared = compared || (reads && looks_at(f));
    plain = plain && y.kind != VM_STORE && y.kind != VM_ATOMIC && y.kind != LDS_WRITE && y.kind != BARRIER;
    const u32 begin = (u32)p.code[i].offset;
    if (f.does == DOES_JUMP && !y.n && begin > i) {  // into a loop, past what its other rounds begin with
      i = begin - 1;
      continue;
    }
    if (f.unit == BRANCH_UNIT && f.has(IS_LABEL) && begin <= at && at - begin < LOOP) {
      for (u32 k = begin; k < at; k++) {
        const Access& z = table[k];
        plain = plain && !leaves(k) && !moves(z, x) && z.kind != VM_STORE && z.kind != VM_ATOMIC &&
                z.kind != LDS_WRITE && z.kind != BARRIER;
      }
      if (plain && stays && used) return true;
      if (!f.is(FACT_EXECZ)) return false;  // that one only passes over what no lane does
    }
    if (leaves(i)) return false;
  }
  return false;
}

// s_getpc_b64, and behind it the additions of a distance: nothing else makes the address of a variable.
static u8 naming(const Program& p, u32 at) {
  const Inst& in = p.code[at];
  const Facts& f = op_facts(in.op);
  if (!f.is(FACT_ADDS)) return NAMES_NOTHING;
  if (f.unit == VECTOR_UNIT) return in.src[2].kind == SGPR ? ADDS_TO_VARIABLE : NAMES_NOTHING;
  if (at < 2 || !f.is(FACT_SCC_IN) || !in.dst[0].reg) return NAMES_NOTHING;
  const Inst &low = p.code[at - 1], &pc = p.code[at - 2];
  const bool made = op_facts(low.op).is(FACT_ADDS) && op_facts(pc.op).is(FACT_PC);
  return made && low.dst[0].reg + 1 == in.dst[0].reg && pc.dst[0].reg == low.dst[0].reg ? NAMES_VARIABLE
                                                                                        : NAMES_NOTHING;
}

static u8 keeping(const Access& x, const Facts& f) {
  if (x.kind != LDS_ATOMIC && x.kind != VM_ATOMIC) return KEEPS_UNKNOWN;
  if (f.is(FACT_EXCHANGES)) return KEEPS_EQUAL;
  if (f.is(FACT_SWAP) || f.is(FACT_COMPARES)) return KEEPS_UNLIKE;
  return x.kind == VM_ATOMIC && f.is(FACT_ZERO_KEEPS) ? KEEPS_WITH_ZERO : KEEPS_UNKNOWN;
}

Access* check_table(const Program& p) {
  const u32 n = p.n_inst + 1;
  Access* table = (Access*)calloc(2 * n, sizeof(Access));
  for (u32 i = 0; i < p.n_inst; i++) {
    const Inst& in = p.code[i];
    classify(table[i], in, op_facts(in.op));
    registers(table[i], in, op_facts(in.op));
    table[i].combines = op_facts(in.op).is(FACT_COMBINES) || in.flags & SDWA;
    mark_sources(table[i], false);
    for (u32 k = 0; k < table[i].n; k++) table[i].blocks |= block_of(table[i].touch[k]);
    table[i].naming = naming(p, i);
    table[i].keeping = keeping(table[i], op_facts(in.op));
    table[i].counts = table[i].kind == VM_ATOMIC && op_facts(in.op).is(FACT_COUNTS);
  }
  for (u32 i = 0; i < p.n_inst; i++) table[i].polls = polls(p, table, i);
  for (u32 i = 0; i < p.n_inst; i++) table[i].glances = glances(p, table, i);
  for (u32 i = p.n_inst; i-- > 0;) table[i].polls = table[i].polls || peeled(p, table, i);
  memcpy(table + n, table, n * sizeof(Access));
  for (u32 i = n; i < 2 * n; i++) mark_sources(table[i], true);
  return table;
}
