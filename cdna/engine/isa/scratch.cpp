// Scratch loads and stores: each lane's own memory, where compilers spill registers and keep local arrays.
#include "memory.h"

// Offset of a lane = vector offset + scalar offset + immediate (CDNA3 ISA, "Scratch": ST, SS, SV and SVS modes).
struct ScratchOffsets {
  const u32* vector;  // null: the same for all lanes
  u32 base;
  u32 of(int lane) const { return vector ? vector[lane] + base : base; }
};

static bool scratch_offsets(Wave& w, const Inst& in, const Operand& vaddr, const Operand& saddr, u32 bytes,
                            ScratchOffsets& out) {
  out.base = (u32)in.offset + (saddr.kind == NONE ? 0 : scalar32(w, saddr));
  out.vector = vaddr.kind == NONE ? nullptr : w.vreg(vaddr.reg);
  EACH_LANE(w, i) {
    if ((u64)out.of(i) + bytes > w.scratch_bytes) {
      fault(w, "lane %d: scratch access of %u bytes at offset %d; the kernel reserves %u bytes a work-item", i, bytes,
            (i32)out.of(i), w.scratch_bytes);
      return false;
    }
    if (!out.vector) break;
  }
  return true;
}

template <Form F> static void load(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  ScratchOffsets offsets;
  if (!exec || !scratch_offsets(w, in, in.src[0], in.src[1], form_bytes(F), offsets)) return;
  u32* d = w.vreg(in.dst[0].reg);
  if (form_bytes(F) >= 4 && !offsets.vector && offsets.base % 4 == 0) {
    const u32* from = (const u32*)scratch_cell(w, 0, offsets.base);
    for (int k = 0; k < form_dwords(F); k++) blend(d + k * WAVE, from + k * WAVE, exec);
    return;
  }
  for (; exec; exec &= exec - 1) {
    int i = __builtin_ctzll(exec);
    u8 data[16];
    scratch_read(w, i, offsets.of(i), data, form_bytes(F));
    load_lane<F>(d + i, data);
  }
}

template <Form F> static void store(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  ScratchOffsets offsets;
  if (!exec || !scratch_offsets(w, in, in.src[0], in.src[2], form_bytes(F), offsets)) return;
  const u32* s = w.vreg(in.src[1].reg);
  if (form_bytes(F) >= 4 && !offsets.vector && offsets.base % 4 == 0) {
    u32* to = (u32*)scratch_cell(w, 0, offsets.base);
    for (int k = 0; k < form_dwords(F); k++) blend(to + k * WAVE, s + k * WAVE, exec);
    return;
  }
  for (; exec; exec &= exec - 1) {
    int i = __builtin_ctzll(exec);
    u8 data[16];
    store_lane<F>(s + i, data);
    scratch_write(w, i, offsets.of(i), data, form_bytes(F));
  }
}

// As a global load that goes straight to LDS: at M0 + immediate + lane * 4; the immediate counts in both addresses.
template <Form F> static void load_lds(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  ScratchOffsets offsets;
  if (!exec || !scratch_offsets(w, in, in.src[0], in.src[1], form_bytes(F), offsets)) return;
  alignas(16) u8 data[WAVE][4];
  for (u64 m = exec; m; m &= m - 1) {
    int i = __builtin_ctzll(m);
    scratch_read(w, i, offsets.of(i), data[i], form_bytes(F));
    w.address[i] = (u64)data[i];
  }
  load_to_lds<F>(w, w.address, w.s[M0] + (u32)in.offset, exec);
}

#define LOAD(NAME, FORM) {"scratch_load_" NAME, load<FORM>},
#define STORE(NAME, FORM) {"scratch_store_" NAME, store<FORM>},
// clang-format off
static const OpInfo OPS[] = {
  LOAD_FORMS(LOAD) STORE_FORMS(STORE) {"scratch_load_lds_ubyte", load_lds<U8>},
  {"scratch_load_lds_sbyte", load_lds<I8>}, {"scratch_load_lds_ushort", load_lds<U16>},
  {"scratch_load_lds_sshort", load_lds<I16>}, {"scratch_load_lds_dword", load_lds<B32>},
};
// clang-format on
extern const OpTable SCRATCH_OPS = {OPS, sizeof OPS / sizeof *OPS};
