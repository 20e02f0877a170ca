// What instructions touch: registers from the op's signature, kind and size of memory accesses from its name.
#include "check.h"
#include "scalar_memory.h"
#include <stdlib.h>

extern const OpInfo* op_info(int index);

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
    if (starts(t, w.name)) return w.dwords;
  return 1;
}

static void add(Access& x, const Operand& o, u32 count, u8 flags) {
  if ((o.kind != VGPR && o.kind != SGPR) || count == 0 || x.n == 8) return;
  x.touch[x.n++] = {o.reg, (u8)count, (u8)(flags | (o.kind == SGPR ? SCALAR : 0))};
}

// Registers of an operand of the block-scaled products, by its number format (0, 1: 8 bits; 2, 3: 6 bits; 4: 4 bits).
static u32 scaled_dwords(u32 format) { return format < 2 ? 8 : format < 4 ? 6 : 4; }

static void registers(Access& x, const Inst& in, const OpInfo& op) {
  u32 nd = 0, ns = 0;
  for (const char* s = op.signature; *s && *s != '+';) {
    if (*s == ' ') {
      s++;
      continue;
    }
    const char* colon = strchr(s, ':');
    if (*s == 'D' || *s == '?') {
      if (*s == 'D' || (in.flags & GLC)) add(x, in.dst[nd++], type_dwords(colon + 1), WRITES);
    } else if (*s == 'S' || *s == 'A' || *s == 'G' || *s == 'M') {
      u32 count = in.src_dwords[ns];
      if (has(op.name, "f8f6f4") && ns < 2) count = scaled_dwords(ns ? in.blgp : in.cbsz);
      bool address = *s != 'S' || x.kind == SMEM_LOAD || (x.kind == SMEM_STORE && ns) ||
                     (x.kind >= LDS_READ && x.kind <= LDS_ATOMIC && ns == 0) ||
                     (x.space == SPACE_BUFFER && *s == 'S' && ns);
      add(x, in.src[ns++], count, address ? ADDRESS : 0);
    }
    while (*s && *s != ' ') s++;
  }
  Operand vcc = {SGPR, 0, VCC, 0, 0}, m0 = {SGPR, 0, M0, 0, 0};
  if (has(op.name, "div_fmas") || has(op.name, "cbranch_vcc")) add(x, vcc, 2, 0);
  if (x.to_lds || starts(op.name, "ds_append") || starts(op.name, "ds_consume")) add(x, m0, 1, ADDRESS);
  if (((x.space == SPACE_BUFFER && x.kind == VM_ATOMIC) || x.kind == SMEM_STORE) &&
      x.returns) {  // back into the data registers
    u32 count = in.src_dwords[0];
    add(x, in.src[0], has(op.name, "cmpswap") ? count / 2 : count, WRITES);
  }
}

static u32 memory_bytes(const char* n) {
  if (has(n, "_atomic_")) return has(n, "_x2") || has(n, "_f64") ? 8 : 4;
  if (has(n, "dwordx4")) return 16;
  if (has(n, "dwordx3")) return 12;
  if (has(n, "dwordx2")) return 8;
  if (has(n, "byte")) return 1;
  return has(n, "short") ? 2 : 4;
}

static u32 lds_element_bytes(const char* n) {
  if (has(n, "_tr_")) return has(n, "b96") ? 12 : 8;
  if (has(n, "_b128")) return 16;
  if (has(n, "_b96")) return 12;
  if (has(n, "_b64") || has(n, "_u64") || has(n, "_i64") || has(n, "_f64")) return 8;
  if (has(n, "_b8") || has(n, "_u8") || has(n, "_i8")) return 1;
  return has(n, "_b16") || has(n, "_u16") || has(n, "_i16") ? 2 : 4;
}

static void classify_lds(Access& x, const char* n) {
  x.kind = LDS_LANES;
  if (has(n, "permute") || has(n, "swizzle") || has(n, "nop") || has(n, "gws") || has(n, "addtid") ||
      starts(n, "ds_append") || starts(n, "ds_consume"))
    return;
  x.bytes = (u8)lds_element_bytes(n);
  x.kind = starts(n, "ds_read") ? LDS_READ : starts(n, "ds_write") ? LDS_WRITE : LDS_ATOMIC;
  x.two = starts(n, "ds_read2") || starts(n, "ds_write2") || starts(n, "ds_wrxchg2");
  x.stride = x.two ? x.bytes * (has(n, "st64") ? 64 : 1) : 1;
}

static void classify(Access& x, const Inst& in, const char* n) {
  x.ordered = in.flags & (GLC | SC1);
  x.upper = has(n, "_d16_hi");
  if (starts(n, "ds_")) {
    classify_lds(x, n);
    return;
  }
  if (starts(n, "buffer_wb")) {
    x.kind = CACHE_RELEASE;
    return;
  }
  if (starts(n, "buffer_inv")) {
    x.kind = CACHE_ACQUIRE;
    return;
  }
  bool global = starts(n, "global_"), flat = starts(n, "flat_"), buffer = starts(n, "buffer_") || starts(n, "tbuffer_"),
       scratch = starts(n, "scratch_");
  if (global || flat || buffer || scratch) {
    x.space = global ? SPACE_GLOBAL : flat ? SPACE_FLAT : buffer ? SPACE_BUFFER : SPACE_SCRATCH;
    x.bytes = has(n, "_format_") ? 1 : (u8)memory_bytes(n);  // the format may say more, at run time
    x.kind = has(n, "_atomic_") ? VM_ATOMIC : has(n, "_store_") ? VM_STORE : VM_LOAD;
    x.swaps_dword = has(n, "atomic_cmpswap") && x.bytes == 4;
    x.to_lds = has(n, "load_lds") || has(n, " lds");
    x.returns = x.kind == VM_LOAD ? !x.to_lds : x.kind == VM_ATOMIC && (in.flags & GLC);
  } else if (scalar_memory(n)) {
    x.kind = has(n, "_load_") ? SMEM_LOAD : SMEM_STORE;
    x.space = starts(n, "s_buffer") ? SPACE_BUFFER : starts(n, "s_scratch") ? SPACE_SCRATCH : SPACE_GLOBAL;
    x.bytes = (u8)scalar_memory_bytes(n);
    x.returns = has(n, "_atomic_") && (in.flags & GLC);
  } else if (starts(n, "s_memtime") || starts(n, "s_memrealtime")) {
    x.kind = SMEM_OTHER;
  } else if (starts(n, "s_waitcnt")) {
    x.kind = WAITCNT;
  } else if (starts(n, "s_barrier")) {
    x.kind = BARRIER;
  } else if (starts(n, "s_cbranch")) {
    x.kind = BRANCH;
  }
}

Access* check_table(const Program& p) {
  Access* table = (Access*)calloc(p.n_inst + 1, sizeof(Access));
  for (u32 i = 0; i < p.n_inst; i++) {
    const OpInfo& op = *op_info(p.code[i].op);
    classify(table[i], p.code[i], op.name);
    registers(table[i], p.code[i], op);
    classify_flow(table[i], p.code[i], op.name);
  }
  return table;
}
