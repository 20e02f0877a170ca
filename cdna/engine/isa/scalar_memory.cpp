// Scalar memory: loads, stores, atomics (CDNA3 ISA, "Scalar Memory Operations"). The two low address bits are ignored.
// Stores and atomics are in the encoding, and LLVM assembles them; its code generator emits none.
#include "atomics.h"

// An offset as written: a register, a constant, or both.
static u32 register_offset(Wave& w, const Operand& o) { return o.kind == NONE ? 0 : scalar32(w, o); }

// unit: of a register's offset, in bytes; 64 in scratch.
static u64 address_of(Wave& w, const Inst& in, int base, u32 unit = 1) {
  static thread_local u32 nowhere[16];  // for a wave that has no further instruction
  const u64 address =
      (w.s64(in.src[base].reg) + (u64)register_offset(w, in.src[base + 1]) * unit + (i64)in.offset) & ~3ull;
  return reaches_one(w, address) ? address : (u64)nowhere;
}

// Dwords of a buffer (descriptor: base, stride, number of bytes) from an offset on that lie within it.
struct Window {
  u64 address;
  int dwords;
};
static Window window_of(Wave& w, const Inst& in, int descriptor, int dwords) {
  u32 r = in.src[descriptor].reg, records = w.s[r + 2];
  u32 offset = (register_offset(w, in.src[descriptor + 1]) + (u32)in.offset) & ~3u;
  int inside = offset >= records ? 0 : (int)((records - offset) / 4);
  const u64 address = (w.s64(r) & 0xffffffffffffull) + offset;
  if (inside > 0 && !reaches_one(w, address)) inside = 0;
  return {address, inside < dwords ? inside : dwords};
}

template <int DWORDS> static void load(Wave& w, const Inst& in) {
  const u64 address = address_of(w, in, 0);
  if (__builtin_expect(!!w.wg->l2, 0)) l2_scalar_load(w, address, DWORDS, &w.s[in.dst[0].reg]);
  else memcpy(&w.s[in.dst[0].reg], (const void*)address, DWORDS * 4);
}
template <int DWORDS> static void store(Wave& w, const Inst& in) {
  memcpy((void*)address_of(w, in, 1), &w.s[in.src[0].reg], DWORDS * 4);
  order_store(in);
}
template <int DWORDS> static void scratch_load(Wave& w, const Inst& in) {
  memcpy(&w.s[in.dst[0].reg], (const void*)address_of(w, in, 0, 64), DWORDS * 4);
}
template <int DWORDS> static void scratch_store(Wave& w, const Inst& in) {
  memcpy((void*)address_of(w, in, 1, 64), &w.s[in.src[0].reg], DWORDS * 4);
}
// What lies outside of a buffer reads as 0 and is not written.
template <int DWORDS> static void buffer_load(Wave& w, const Inst& in) {
  Window inside = window_of(w, in, 0, DWORDS);
  u32 data[DWORDS] = {};
  memcpy(data, (const void*)inside.address, inside.dwords * 4);
  if (__builtin_expect(!!w.wg->l2, 0)) l2_scalar_load(w, inside.address, (u32)inside.dwords, data);
  memcpy(&w.s[in.dst[0].reg], data, sizeof data);
}
template <int DWORDS> static void buffer_store(Wave& w, const Inst& in) {
  Window inside = window_of(w, in, 1, DWORDS);
  memcpy((void*)inside.address, &w.s[in.src[0].reg], inside.dwords * 4);
  order_store(in);
}

// Atomics return the old value into their data registers, where glc says so; 0 where it lies outside of a buffer.
template <class T, bool BUFFER, class OPERATION> static void atomic(Wave& w, const Inst& in, OPERATION operation) {
  Window at = {0, sizeof(T) / 4};
  if (BUFFER) at = window_of(w, in, 1, sizeof(T) / 4);
  else at.address = address_of(w, in, 1);
  if (at.address & (sizeof(T) - 1)) {
    fault(w, "scalar atomic at misaligned address 0x%llx", (unsigned long long)at.address);
    return;
  }
  u32* data = &w.s[in.src[0].reg];
  T old = at.dwords == sizeof(T) / 4 ? operation(at.address, data) : (T)0;
  if (in.flags & GLC) memcpy(data, &old, sizeof old);
}
template <class T, T (*F)(T, T), bool BUFFER> static void update(Wave& w, const Inst& in) {
  atomic<T, BUFFER>(w, in, [](u64 address, const u32* data) { return atomic_apply<T, F>(address, peek<T>(data)); });
}
// data: the new value, then the value to compare with.
template <class T, bool BUFFER> static void cmpswap(Wave& w, const Inst& in) {
  atomic<T, BUFFER>(w, in, [](u64 address, const u32* data) {
    return atomic_cmpswap<T>(address, peek<T>(data), peek<T>(data + sizeof(T) / 4));
  });
}
static void probe(Wave&, const Inst&) {}  // fetches the translation of an address

#define SIZES(NAME, F) \
  {NAME "_dword", F<1>}, {NAME "_dwordx2", F<2>}, { NAME "_dwordx4", F<4> }
#define WIDE_SIZES(NAME, F) \
  SIZES(NAME, F), {NAME "_dwordx8", F<8>}, { NAME "_dwordx16", F<16> }
#define ATOMIC(NAME, ...) \
  {"s_atomic_" NAME, __VA_ARGS__, false > }, { "s_buffer_atomic_" NAME, __VA_ARGS__, true > }
#define INTEGER(NAME, F32, F64) ATOMIC(NAME, update < u32, F32), ATOMIC(NAME "_x2", update < u64, F64)
#define ANY_SIGN(NAME, F) INTEGER(NAME, Ops32::F, Ops64::F)

// clang-format off
static const OpInfo OPS[] = {
  WIDE_SIZES("s_load", load), WIDE_SIZES("s_buffer_load", buffer_load), SIZES("s_scratch_load", scratch_load),
  SIZES("s_scratch_store", scratch_store), SIZES("s_store", store), SIZES("s_buffer_store", buffer_store),
  ANY_SIGN("swap", swap), ANY_SIGN("add", add), ANY_SIGN("sub", sub), ANY_SIGN("umin", umin), ANY_SIGN("umax", umax),
  ANY_SIGN("and", band), ANY_SIGN("or", bor), ANY_SIGN("xor", bxor), ANY_SIGN("inc", inc), ANY_SIGN("dec", dec),
  INTEGER("smin", smin32, smin64), INTEGER("smax", smax32, smax64),
  ATOMIC("cmpswap", cmpswap<u32), ATOMIC("cmpswap_x2", cmpswap<u64),
  {"s_atc_probe", probe}, {"s_atc_probe_buffer", probe},
};
// clang-format on
extern const OpTable SCALAR_MEMORY_OPS = {OPS, sizeof OPS / sizeof *OPS};
