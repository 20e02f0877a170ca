// Global, flat and scratch loads and stores, and loads that go straight to LDS.
#include "memory.h"

// A flat address may lie in LDS or in the lane's scratch: those apertures become host addresses here.
bool flat_apertures(Wave& w, int bytes) {
  EACH_LANE(w, i) {
    u64& a = w.address[i];
    u64 offset = (u32)a, size;
    if (a >> 32 == SHARED_APERTURE >> 32) { size = w.wg->lds_bytes; a = (u64)w.wg->lds + offset; }
    else if (a >> 32 == PRIVATE_APERTURE >> 32) { size = w.scratch_bytes; a = (u64)w.scratch + (u64)i * w.scratch_bytes + offset; }
    else continue;
    if (offset + bytes > size) {
      fault(w, "lane %d: flat access of %d bytes at offset %llu of a segment of %llu bytes", i, bytes, (unsigned long long)offset,
            (unsigned long long)size);
      return false;
    }
  }
  return true;
}

// Scratch offset = vector offset + scalar offset + immediate (CDNA3 ISA, "Scratch": ST, SS, SV and SVS modes).
bool scratch_addresses(Wave& w, const Inst& in, const Operand& vaddr, const Operand& saddr, int bytes) {
  u32 offset = (u32)in.offset + (saddr.kind == NONE ? 0 : scalar32(w, saddr));
  const u32* v = vaddr.kind == NONE ? nullptr : w.vreg(vaddr.reg);
  u64 base = (u64)w.scratch;
  u32 highest = 0;
  if (v) {
    EACH_LANE(w, i) highest = v[i] + offset > highest ? v[i] + offset : highest;
    LANES w.address[i] = base + (u64)i * w.scratch_bytes + (u32)(v[i] + offset);
  } else {
    highest = offset;
    LANES w.address[i] = base + (u64)i * w.scratch_bytes + offset;
  }
  if ((u64)highest + bytes <= w.scratch_bytes) return true;
  fault(w, "scratch access of %d bytes at offset %d; the kernel reserves %u bytes a work-item", bytes, (i32)highest, w.scratch_bytes);
  return false;
}

template <Space S, Form F> static void load(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  if (exec && addresses<S>(w, in, in.src[0], in.src[1], form_bytes(F))) load_form<F>(w.vreg(in.dst[0].reg), w.address, exec);
}
template <Space S, Form F> static void store(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  if (exec && addresses<S>(w, in, in.src[0], in.src[2], form_bytes(F))) store_form<F>(w.vreg(in.src[1].reg), w.address, exec);
}

// LDS address = M0 + immediate + lane * width; the immediate counts in the global address too (LLVM
// IntrinsicsAMDGPU.td, global_load_lds).
template <Space S, Form F> static void load_lds(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  if (exec && addresses<S>(w, in, in.src[0], in.src[1], form_bytes(F))) load_to_lds<F>(w, w.s[M0] + (u32)in.offset, exec);
}

#define LOADS(NAME, SPACE, TAIL) \
  {NAME "_load_ubyte", "D:b32 A" TAIL, load<SPACE, U8>}, {NAME "_load_sbyte", "D:b32 A" TAIL, load<SPACE, I8>}, \
  {NAME "_load_ushort", "D:b32 A" TAIL, load<SPACE, U16>}, {NAME "_load_sshort", "D:b32 A" TAIL, load<SPACE, I16>}, \
  {NAME "_load_ubyte_d16", "D:b32 A" TAIL, load<SPACE, U8_LO>}, {NAME "_load_ubyte_d16_hi", "D:b32 A" TAIL, load<SPACE, U8_HI>}, \
  {NAME "_load_sbyte_d16", "D:b32 A" TAIL, load<SPACE, I8_LO>}, {NAME "_load_sbyte_d16_hi", "D:b32 A" TAIL, load<SPACE, I8_HI>}, \
  {NAME "_load_short_d16", "D:b32 A" TAIL, load<SPACE, U16_LO>}, {NAME "_load_short_d16_hi", "D:b32 A" TAIL, load<SPACE, U16_HI>}, \
  {NAME "_load_dword", "D:b32 A" TAIL, load<SPACE, B32>}, {NAME "_load_dwordx2", "D:b64 A" TAIL, load<SPACE, B64>}, \
  {NAME "_load_dwordx3", "D:b96 A" TAIL, load<SPACE, B96>}, {NAME "_load_dwordx4", "D:b128 A" TAIL, load<SPACE, B128>}
#define STORES(NAME, SPACE, TAIL) \
  {NAME "_store_byte", "A S:b32" TAIL, store<SPACE, U8>}, {NAME "_store_byte_d16_hi", "A S:b32" TAIL, store<SPACE, U8_HI>}, \
  {NAME "_store_short", "A S:b32" TAIL, store<SPACE, U16>}, {NAME "_store_short_d16_hi", "A S:b32" TAIL, store<SPACE, U16_HI>}, \
  {NAME "_store_dword", "A S:b32" TAIL, store<SPACE, B32>}, {NAME "_store_dwordx2", "A S:b64" TAIL, store<SPACE, B64>}, \
  {NAME "_store_dwordx3", "A S:b96" TAIL, store<SPACE, B96>}, {NAME "_store_dwordx4", "A S:b128" TAIL, store<SPACE, B128>}
#define LDS_LOADS(NAME, SPACE) \
  {NAME "_load_lds_ubyte", "A G" MEMORY_MODS, load_lds<SPACE, U8>}, {NAME "_load_lds_sbyte", "A G" MEMORY_MODS, load_lds<SPACE, I8>}, \
  {NAME "_load_lds_ushort", "A G" MEMORY_MODS, load_lds<SPACE, U16>}, {NAME "_load_lds_sshort", "A G" MEMORY_MODS, load_lds<SPACE, I16>}, \
  {NAME "_load_lds_dword", "A G" MEMORY_MODS, load_lds<SPACE, B32>}

static const OpInfo OPS[] = {
  LOADS("global", GLOBAL, " G" MEMORY_MODS), LOADS("flat", FLAT, MEMORY_MODS), LOADS("scratch", SCRATCH, " G" MEMORY_MODS),
  STORES("global", GLOBAL, " G" MEMORY_MODS), STORES("flat", FLAT, MEMORY_MODS), STORES("scratch", SCRATCH, " G" MEMORY_MODS),
  LDS_LOADS("global", GLOBAL), LDS_LOADS("scratch", SCRATCH),
  {"global_load_lds_dwordx3@gfx950", "A G" MEMORY_MODS, load_lds<GLOBAL, B96>}, {"global_load_lds_dwordx4@gfx950", "A G" MEMORY_MODS, load_lds<GLOBAL, B128>},
};
extern const OpTable GLOBAL_OPS = {OPS, sizeof OPS / sizeof *OPS};
