// What instructions touch: registers from the op's signature, the rest from its facts.
#include "analysis.h"
#include "flow.h"
#include "isa/lock.h"
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
  find_idioms(p, table);
  memcpy(table + n, table, n * sizeof(Access));
  for (u32 i = n; i < 2 * n; i++) mark_sources(table[i], true);
  return table;
}

static u32 touched_end(const Program& p, u32 at, bool scalar) {
  u32 end = 0;
  for (const Touch& t : p.accesses[at])
    if (!(t.flags & SCALAR) != scalar && t.reg + t.count > end) end = t.reg + t.count;
  return end;
}

// Of both files: accumulation registers follow the architectural ones of all kernels. Where it calls, those of all code.
static u32 registers_of(const Program& p, const KernelInfo& k) {
  u32 plain = 0, accumulation = 0;
  const bool calls = flow_reaches(p, k.entry, [&](u32 at) {
    for (const Touch& t : p.accesses[at]) {
      const u32 end = t.reg + t.count;
      if (t.flags & SCALAR) continue;
      u32& file = t.reg < p.first_accumulation ? plain : accumulation;
      const u32 taken = t.reg < p.first_accumulation ? end : end - p.first_accumulation;
      if (taken > file) file = taken;
    }
    const Facts& f = op_facts(p.code[at].op);
    return f.unit == BRANCH_UNIT && f.does == DOES_JUMP && !branches_to_label(p.code[at]);
  });
  return calls ? p.n_vgpr : plain + accumulation;
}

static pthread_mutex_t measuring = PTHREAD_MUTEX_INITIALIZER;

void measure_registers(Program& p) {
  const Lock locked(measuring);
  if (p.measured) return;
  if (!p.accesses) p.accesses = check_table(p);
  for (u32 i = 0; i < p.n_kernels; i++) {
    const u32 needed = registers_of(p, p.kernels[i]);
    if (p.kernels[i].vgprs < needed) p.kernels[i].vgprs = needed;
  }
  p.measured = true;
}

extern "C" bool cdna_is_sound(Program* p) {
  if (p->first_accumulation > p->n_vgpr || p->n_vgpr > 1024) return false;
  for (u32 i = 0; i < p->n_kernels; i++)
    if (p->kernels[i].entry >= p->n_inst) return false;
  for (u32 i = 0; i < p->n_inst; i++)
    if (branches_to_label(p->code[i]) && (u32)p->code[i].offset > p->n_inst) return false;
  if (!p->accesses) p->accesses = check_table(*p);
  for (u32 i = 0; i < p->n_inst; i++)
    if (touched_end(*p, i, false) > p->n_vgpr || touched_end(*p, i, true) > 128) return false;
  return true;
}
