// Addresses of buffer instructions: resource descriptor, offsets, range checks.
#pragma once
#include "facts.h"
#include "memory.h"

// What a typed buffer instruction accesses for a lane, as its descriptor or it itself says: typed_buffer.cpp.
struct TypedElement {
  u32 bytes, registers;  // 0: there is no such format, and the handler is about to say so
};
TypedElement typed_element(const Wave& w, const Inst& in, const Facts& facts);

// Which lanes of exec may access memory. A lane of `partly` may access its first dwords[lane] dwords only.
struct BufferAccess {
  u64 whole, partly, none;
  u8 dwords[WAVE];
};

// Fills w.address. operands: vector address (offset, index, or index and offset), descriptor, scalar offset.
// Descriptor: bits 47:0 base, 61:48 stride, 63 swizzle, 95:64 num_records, 119 add lane id to the index (CDNA3 ISA,
// "Buffer Resource Descriptor"). Without a stride or an index num_records counts bytes, otherwise records.
// Range checks are per element of `element_bytes` bytes (a dword, byte or short); see LLVM AMDGPUUsage, "Relaxed Buffer OOB Mode".
static inline BufferAccess buffer_addresses(Wave& w, const Inst& in, const Operand* operands, u32 element_bytes,
                                            u32 elements) {
  BufferAccess out;
  const u32* v = operands[0].kind == NONE ? nullptr : w.vreg(operands[0].reg);
  const u32* r = &w.s[operands[1].reg];
  u32 scalar = scalar32(w, operands[2]), records = r[2], stride = r[1] >> 16 & 0x3fff, immediate = (u32)in.offset;
  u64 base = ((r[0] | (u64)r[1] << 32) & 0xffffffffffffull) + scalar, exec = w.exec();
  bool idxen = in.flags & IDXEN, offen = in.flags & OFFEN, lane_index = r[3] >> 23 & 1;
  // Without an index there is nothing to swizzle by: public gfx950 kernels set the bit and count on linear offsets.
  if ((r[1] >> 31) && stride && (idxen || lane_index)) {
    fault(w, "buffer descriptor asks for swizzled records, which the emulated device does not have");
    return out;
  }
  out.partly = out.none = 0;
  if (!idxen && !lane_index) {  // the common case: a byte offset from the base
    alignas(64) u32 at[WAVE];
    u64 limit = records > scalar ? records - scalar : 0, bytes = (u64)element_bytes * elements;
    if (offen) {
      LANES {
        at[i] = v[i] + immediate;  // in 32 bits: LLVM leaves an offset below zero to the immediate
        w.address[i] = base + at[i];
      }
    } else {
      splat(at, immediate);
      LANES w.address[i] = base + immediate;
    }
    u64 in_range = limit >= bytes ? lanes_at_most(at, (u32)(limit - bytes)) : 0;
    out.whole = exec & in_range;
    if (__builtin_expect(out.whole == exec, 1)) return out;
    u64 first = limit >= element_bytes ? exec & lanes_at_most(at, (u32)(limit - element_bytes)) : 0;
    out.none = exec & ~first;
    out.partly = first & ~in_range;
    for (u64 m = out.partly; m; m &= m - 1) out.dwords[__builtin_ctzll(m)] = (limit - at[__builtin_ctzll(m)]) / 4;
    return out;
  }
  out.whole = 0;
  EACH_LANE(w, i) {
    u64 index = idxen ? v[i] : 0, offset = (u64)(offen ? v[i + (idxen ? WAVE : 0)] : 0) + immediate;
    if (lane_index) index += i;
    w.address[i] = base + offset + index * stride;
    if (stride && idxen ? index < records : index * stride + offset + scalar + element_bytes * elements <= records)
      out.whole |= 1ull << i;
  }
  out.none = exec & ~out.whole;
  return out;
}

// The same for a handler. What it may not access is a fault.
static inline BufferAccess buffer_access(Wave& w, const Inst& in, const Operand* operands, u32 element_bytes,
                                         u32 elements) {
  const BufferAccess b = buffer_addresses(w, in, operands, element_bytes, elements);
  if (w.stop != FAULTED) (void)reaches(w, b.whole | b.partly);
  return b;
}
