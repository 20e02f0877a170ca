// What instructions touch: registers from the op's signature, the rest from its facts.
#include "check.h"
#include <stdlib.h>

// Registers of a destination type, as decode.py's TYPES has them.
static u32 type_dwords(const char* t) {
  static const struct {
    const char* name;
    u32 dwords;
  } WIDE[] = {
      {"b1024", 32}, {"b512", 16}, {"b256", 8}, {"b192", 6}, {"b128", 4}, {"b96", 3},
      {"f64x4", 8},  {"b64", 2},   {"i64", 2},  {"u64", 2},  {"f64", 2},  {"p32", 2},
  };
  for (auto& w : WIDE)
    if (!strncmp(t, w.name, strlen(w.name))) return w.dwords;
  return 1;
}

static void add(Access& x, const Operand& o, u32 count, u8 flags) {
  if ((o.kind != VGPR && o.kind != SGPR) || count == 0 || x.n == 8) return;
  x.touch[x.n++] = {o.reg, (u8)count, (u8)(flags | (o.kind == SGPR ? SCALAR : 0))};
}

// Registers of an operand of the block-scaled products, by its number format (0, 1: 8 bits; 2, 3: 6 bits; 4: 4 bits).
static u32 scaled_dwords(u32 format) { return format < 2 ? 8 : format < 4 ? 6 : 4; }

static void registers(Access& x, const Inst& in, const char* signature, const Facts& f) {
  u32 nd = 0, ns = 0;
  for (const char* s = signature; *s && *s != '+';) {
    if (*s == ' ') {
      s++;
      continue;
    }
    const char* colon = strchr(s, ':');
    if (*s == 'D' || *s == '?') {
      if (*s == 'D' || (in.flags & GLC)) add(x, in.dst[nd++], type_dwords(colon + 1), WRITES);
    } else if (*s == 'S' || *s == 'A' || *s == 'G' || *s == 'M') {
      u32 count = in.src_dwords[ns];
      if (f.is(FACT_FORMATS) && ns < 2) count = scaled_dwords(ns ? in.blgp : in.cbsz);
      bool address = *s != 'S' || x.kind == SMEM_LOAD || (x.kind == SMEM_STORE && ns) ||
                     (x.kind >= LDS_READ && x.kind <= LDS_ATOMIC && ns == 0) ||
                     (x.space == BUFFER_SPACE && *s == 'S' && ns);
      add(x, in.src[ns++], count, address ? ADDRESS : 0);
    }
    while (*s && *s != ' ') s++;
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
  x.reads_scc = f.is(FACT_SCC_IN);
  x.writes_scc = f.is(FACT_SCC_OUT);
  x.flow = in.flags & (DPP | SDWA | INDEXED) && f.unit == VECTOR_UNIT ? FLOW_DEFINES : f.flow;
  x.bits = f.bits;
}

// Registers whose undefined values are handed on.
static void mark_sources(Access& x) {
  if (x.flow == FLOW_DEFINES || x.flow == FLOW_SCRATCH) return;
  for (u32 k = 0; k < x.n; k++)
    if (!(x.touch[k].flags & WRITES)) x.touch[k].flags |= SOURCE;
}

static bool may_read_lds(const Access& x) { return x.kind == LDS_READ || (x.kind == VM_LOAD && x.space == FLAT_SPACE); }

// Whether a read of LDS only waits for another value: in a short loop without a write or barrier, at an address that stays,
// with a result that something in the loop looks at.
static bool polls(const Program& p, const Access* table, u32 at) {
  constexpr u32 LOOP = 64;
  if (!may_read_lds(table[at]) || table[at].n == 0) return false;
  for (u32 end = at + 1; end < p.n_inst && end < at + LOOP; end++) {
    const Facts& f = op_facts(p.code[end].op);
    if (f.unit != BRANCH_UNIT || !strchr(op_info(p.code[end].op).signature, 'L')) continue;
    u32 begin = (u32)p.code[end].offset;
    if (begin > at || at - begin > LOOP) continue;
    const Touch* result = nullptr;
    for (u32 k = 0; k < table[at].n; k++)
      if (table[at].touch[k].flags & WRITES) result = &table[at].touch[k];
    bool looked_at = false;
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
          if (address.flags & ADDRESS && vector && t.flags & WRITES && t.reg <= address.reg &&
              address.reg < t.reg + t.count)
            return false;
        }
      }
    }
    return looked_at;
  }
  return false;
}

// Whether a read is a loop's first, which compilers put before it: the next read of LDS is that of a polling loop, from the
// same address.
static bool peeled(const Program& p, const Access* table, u32 at) {
  constexpr u32 NEAR = 16;
  if (!may_read_lds(table[at])) return false;
  for (u32 i = at + 1; i < p.n_inst && i <= at + NEAR; i++) {
    if (table[i].kind == table[at].kind) {
      const Inst &a = p.code[at], &b = p.code[i];
      return table[i].polls && a.op == b.op && a.src[0].reg == b.src[0].reg && a.offset == b.offset;
    }
    if (table[i].kind != PLAIN && table[i].kind != WAITCNT) return false;
  }
  return false;
}

// s_getpc_b64, and behind it the additions of a distance: nothing else makes the address of a variable.
static u8 naming(const Program& p, u32 at) {
  const Inst& in = p.code[at];
  const char* name = op_info(in.op).name;
  if (!strcmp(name, "v_lshl_add_u64")) return in.src[2].kind == SGPR ? ADDS_TO_VARIABLE : NAMES_NOTHING;
  if (at < 2 || strcmp(name, "s_addc_u32") || !in.dst[0].reg) return NAMES_NOTHING;
  const Inst &low = p.code[at - 1], &pc = p.code[at - 2];
  bool made = !strcmp(op_info(low.op).name, "s_add_u32") && !strcmp(op_info(pc.op).name, "s_getpc_b64");
  return made && low.dst[0].reg + 1 == in.dst[0].reg && pc.dst[0].reg == low.dst[0].reg ? NAMES_VARIABLE
                                                                                        : NAMES_NOTHING;
}

Access* check_table(const Program& p) {
  Access* table = (Access*)calloc(p.n_inst + 1, sizeof(Access));
  for (u32 i = 0; i < p.n_inst; i++) {
    const Inst& in = p.code[i];
    classify(table[i], in, op_facts(in.op));
    registers(table[i], in, op_info(in.op).signature, op_facts(in.op));
    mark_sources(table[i]);
    table[i].naming = naming(p, i);
  }
  for (u32 i = 0; i < p.n_inst; i++) table[i].polls = polls(p, table, i);
  for (u32 i = p.n_inst; i-- > 0;) table[i].polls = table[i].polls || peeled(p, table, i);
  return table;
}
