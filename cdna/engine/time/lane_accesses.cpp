// What memory instructions access, for observers.
#include "lane_accesses.h"
#include "isa/buffer.h"

u8 access_flags(const Facts& f) {
  u8 flags = f.does == DOES_LOAD     ? READS
             : f.does == DOES_STORE  ? WRITES
             : f.does == DOES_ATOMIC ? READS | WRITES | ATOMIC
                                     : 0;
  return f.is(FACT_TO_LDS) ? flags | TO_LDS : flags;
}

static void lds_access(Wave& w, const Inst& in, const Facts& f, u32 offset, LaneAccess& out) {
  out.space = LDS_SPACE;
  out.flags = access_flags(f);
  out.bytes = f.bytes;
  out.lanes = w.exec();
  if (f.is(FACT_LANE_ORDER)) {  // M0 + offset, and 4 a lane; append and consume access one dword
    bool one = f.does == DOES_ATOMIC;
    if (one && out.lanes) out.lanes &= -out.lanes;
    for (int i = 0; i < WAVE; i++) out.address[i] = w.s[M0] + offset + (one ? 0 : 4 * i);
    return;
  }
  const u32* v = w.vreg(in.src[0].reg);
  LANES out.address[i] = v[i] + offset;
}

int observed_accesses(Wave& w, const Inst& in, const Facts& f, LaneAccess* out) {
  bool data_first =
      f.does != DOES_LOAD;  // stores and atomics have their data before: of buffers and scalars at the start
  if (f.unit == SCALAR_MEMORY_UNIT) {
    const Operand* base_and_offset = in.src + data_first;
    const Operand& offset = base_and_offset[1];
    out->space = GLOBAL_SPACE;
    out->flags = access_flags(f);
    out->bytes = f.bytes;
    out->lanes = 1;
    // A buffer descriptor has the base in the same place, with the stride above it.
    u64 base = w.s64(base_and_offset[0].reg) & 0xffffffffffffull;
    out->address[0] = (base + (offset.kind == NONE ? 0 : scalar32(w, offset)) + (i64)in.offset) & ~3ull;
    return 1;
  }
  u64 exec = w.exec();
  if (!exec) return 0;
  if (f.space == LDS_SPACE) {
    u32 unit = f.elements == 2 ? f.stride * f.bytes : 1;
    lds_access(w, in, f, (u32)in.offset * unit, out[0]);
    if (f.elements == 2) lds_access(w, in, f, (u32)in.offset1 * unit, out[1]);
    return f.elements;
  }
  out->flags = access_flags(f) & ~TO_LDS;
  out->bytes = f.bytes;
  out->lanes = exec;
  int n = 1;
  const Operand &vaddr = in.src[0], &saddr = in.src[data_first ? 2 : 1];  // between them the data
  if (f.space == SCRATCH_SPACE) {
    u32 base = (u32)in.offset + (saddr.kind == NONE ? 0 : scalar32(w, saddr));
    const u32* v = vaddr.kind == NONE ? nullptr : w.vreg(vaddr.reg);
    for (int i = 0; i < WAVE; i++) out->address[i] = base + (v ? v[i] : 0);
    out->space = SCRATCH_SPACE;
    return 1;
  }
  out->space = GLOBAL_SPACE;
  if (f.space == BUFFER_SPACE) {
    u32 element = f.bytes < 4 ? f.bytes : 4, count = f.bytes / element;
    if (f.bytes == BY_FORMAT) {
      out->bytes = element = typed_element(w, in, f).bytes, count = 1;
      if (!element) return 0;
    }
    BufferAccess b = buffer_addresses(w, in, in.src + data_first, element, count);
    if (w.stop == FAULTED) {
      w.stop = RUNNING;
      return 0;
    }  // the handler is about to say so itself
    out->lanes = b.whole | b.partly;
    memcpy(out->address, w.address, sizeof out->address);
  } else {
    const u32* v = w.vreg(vaddr.reg);
    u64 offset = (u64)(i64)in.offset;
    if (f.space == GLOBAL_SPACE && saddr.kind != NONE) {
      u64 base = scalar64(w, saddr) + offset;
      LANES out->address[i] = base + v[i];
    } else {
      LANES out->address[i] = (v[i] | (u64)v[WAVE + i] << 32) + offset;
    }
    if (f.space == FLAT_SPACE) {  // lanes of the LDS and scratch apertures become accesses of their own
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
        out[n].space = space ? SCRATCH_SPACE : LDS_SPACE;
        out[n].lanes = masks[space];
        LANES out[n].address[i] = (u32)out[0].address[i];
        n++;
      }
    }
  }
  if (f.is(FACT_TO_LDS)) {
    u32 lane_bytes = f.bytes < 4 ? 4 : f.bytes;
    out[n].space = LDS_SPACE;
    out[n].flags = WRITES | TO_LDS;
    out[n].bytes = lane_bytes;
    out[n].lanes = exec;
    for (int i = 0; i < WAVE; i++) out[n].address[i] = w.s[M0] + (u32)in.offset + i * lane_bytes;
    n++;
  }
  return n;
}
