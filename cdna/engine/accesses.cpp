// What memory instructions access, for observers.
#include "accesses.h"
#include "buffer.h"
#include "scalar_memory.h"

static bool skip(const char*& s, const char* prefix) {
  if (!starts(s, prefix)) return false;
  s += strlen(prefix);
  return true;
}

// The width that a name ends in: _dwordx4, _b64, _u16, ubyte, short, f64 ...
static u8 width(const char* s) {
  if (has(s, "dwordx4") || has(s, "b128")) return 16;
  if (has(s, "dwordx3") || has(s, "b96")) return 12;
  if (has(s, "x2") || has(s, "b64") || has(s, "f64") || has(s, "u64") || has(s, "i64")) return 8;
  if (has(s, "dword") || has(s, "b32") || has(s, "f32") || has(s, "u32") || has(s, "i32")) return 4;
  if (has(s, "byte") || has(s, "u8") || has(s, "i8") || has(s, "b8")) return 1;
  if (has(s, "short") || has(s, "u16") || has(s, "i16") || has(s, "b16")) return 2;
  return 4;
}

static MemoryOp vector_kind(u8 space, const char* s) {
  u8 flags = READS;
  if (has(s, " lds") || has(s, "load_lds")) flags = READS | TO_LDS;
  if (has(s, "atomic")) flags = READS | WRITES | ATOMIC;
  if (has(s, "store")) flags = WRITES;
  return {space, flags, width(s), 1, 0};
}

MemoryOp memory_op(const char* name) {
  const char* s = name;
  if (skip(s, "global_")) return vector_kind(GLOBAL_ACCESS, s);
  if (skip(s, "flat_")) return vector_kind(FLAT_ACCESS, s);
  if (skip(s, "scratch_")) return vector_kind(SCRATCH_ACCESS, s);
  if (skip(s, "buffer_") || skip(s, "tbuffer_")) {
    if (!has(s, "load") && !has(s, "store") && !has(s, "atomic")) return {};  // buffer_inv, buffer_wbl2
    return vector_kind(BUFFER_ACCESS, s);
  }
  if (scalar_memory(name)) {
    u8 flags = has(name, "_atomic_") ? READS | WRITES | ATOMIC : has(name, "_store_") ? WRITES : READS;
    return {SCALAR_ACCESS, flags, (u8)scalar_memory_bytes(name), 1, 0};
  }
  if (!skip(s, "ds_") || has(s, "permute") || has(s, "swizzle") || has(s, "nop") || has(s, "gws")) return {};
  MemoryOp k = {LDS_ACCESS, READS | WRITES | ATOMIC, width(s), 1, 0};
  if (!strncmp(s, "read", 4)) k.flags = READS;
  if (!strncmp(s, "write", 5)) k.flags = WRITES;
  if (has(s, "addtid") || !strncmp(s, "append", 6) || !strncmp(s, "consume", 7)) k.flags |= LANE_ORDER;
  if (!strncmp(s, "read2", 5) || !strncmp(s, "write2", 6) || !strncmp(s, "wrxchg2", 7)) {
    k.elements = 2;
    k.stride = has(s, "st64") ? 64 : 1;
  }
  return k;
}

static void lds_access(Wave& w, const Inst& in, const MemoryOp& k, u32 offset, LaneAccess& out) {
  out.space = LDS_ACCESS;
  out.flags = k.flags;
  out.bytes = k.bytes;
  out.lanes = w.exec();
  if (k.flags & LANE_ORDER) {  // M0 + offset, and 4 a lane; append and consume access one dword
    bool one = k.flags & ATOMIC;
    if (one && out.lanes) out.lanes &= -out.lanes;
    for (int i = 0; i < WAVE; i++) out.address[i] = w.s[M0] + offset + (one ? 0 : 4 * i);
    return;
  }
  const u32* v = w.vreg(in.src[0].reg);
  LANES out.address[i] = v[i] + offset;
}

int observed_accesses(Wave& w, const Inst& in, const MemoryOp& k, LaneAccess* out) {
  if (k.space == SCALAR_ACCESS) {
    const Operand* base_and_offset = in.src + ((k.flags & WRITES) != 0);  // stores and atomics have their data before
    const Operand& offset = base_and_offset[1];
    out->space = SCALAR_ACCESS;
    out->flags = k.flags;
    out->bytes = k.bytes;
    out->lanes = 1;
    // A buffer descriptor has the base in the same place, with the stride above it.
    u64 base = w.s64(base_and_offset[0].reg) & 0xffffffffffffull;
    out->address[0] = (base + (offset.kind == NONE ? 0 : scalar32(w, offset)) + (i64)in.offset) & ~3ull;
    return 1;
  }
  u64 exec = w.exec();
  if (!exec) return 0;
  if (k.space == LDS_ACCESS) {
    u32 unit = k.elements == 2 ? k.stride * k.bytes : 1;
    lds_access(w, in, k, (u32)in.offset * unit, out[0]);
    if (k.elements == 2) lds_access(w, in, k, (u32)in.offset1 * unit, out[1]);
    return k.elements;
  }
  out->flags = k.flags & ~TO_LDS;
  out->bytes = k.bytes;
  out->lanes = exec;
  int n = 1;
  bool data_between = k.flags & WRITES;  // stores and atomics: address, data, base
  if (k.space == SCRATCH_ACCESS) {
    const Operand &vaddr = in.src[0], &saddr = in.src[data_between ? 2 : 1];
    u32 base = (u32)in.offset + (saddr.kind == NONE ? 0 : scalar32(w, saddr));
    const u32* v = vaddr.kind == NONE ? nullptr : w.vreg(vaddr.reg);
    for (int i = 0; i < WAVE; i++) out->address[i] = base + (v ? v[i] : 0);
    out->space = SCRATCH_ACCESS;
    return 1;
  }
  out->space = GLOBAL_ACCESS;
  if (k.space == BUFFER_ACCESS) {
    u32 element = k.bytes < 4 ? k.bytes : 4;
    BufferAccess b = buffer_addresses(w, in, in.src + data_between, element, k.bytes / element);
    if (w.stop == FAULTED) {
      w.stop = RUNNING;
      return 0;
    }  // the handler is about to say so itself
    out->lanes = b.whole | b.partly;
    memcpy(out->address, w.address, sizeof out->address);
  } else {
    const Operand &vaddr = in.src[0], &saddr = in.src[data_between ? 2 : 1];
    const u32* v = w.vreg(vaddr.reg);
    u64 offset = (u64)(i64)in.offset;
    if (k.space == GLOBAL_ACCESS && saddr.kind != NONE) {
      u64 base = scalar64(w, saddr) + offset;
      LANES out->address[i] = base + v[i];
    } else {
      LANES out->address[i] = (v[i] | (u64)v[WAVE + i] << 32) + offset;
    }
    if (k.space == FLAT_ACCESS) {  // lanes of the LDS and scratch apertures become accesses of their own
      u64 shared = 0, scratch = 0;
      for (int i = 0; i < WAVE; i++) {
        shared |= (u64)(out->address[i] >> 32 == SHARED_APERTURE >> 32) << i;
        scratch |= (u64)(out->address[i] >> 32 == PRIVATE_APERTURE >> 32) << i;
      }
      out->lanes &= ~(shared | scratch);
      const u64 masks[2] = {shared & exec, scratch & exec};
      for (int space = 0; space < 2; space++) {
        if (!masks[space]) continue;
        out[n] = out[0];
        out[n].space = space ? SCRATCH_ACCESS : LDS_ACCESS;
        out[n].lanes = masks[space];
        LANES out[n].address[i] = (u32)out[0].address[i];
        n++;
      }
    }
  }
  if (k.flags & TO_LDS) {
    u32 lane_bytes = k.bytes < 4 ? 4 : k.bytes;
    out[n].space = LDS_ACCESS;
    out[n].flags = WRITES | TO_LDS;
    out[n].bytes = lane_bytes;
    out[n].lanes = exec;
    for (int i = 0; i < WAVE; i++) out[n].address[i] = w.s[M0] + (u32)in.offset + i * lane_bytes;
    n++;
  }
  return n;
}
