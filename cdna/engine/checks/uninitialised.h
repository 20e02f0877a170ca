// Registers of which some lanes, or bits, are undefined, for the files that follow them: uninitialised.cpp, and
// unwritten.cpp of what was read of memory.
#pragma once
#include "register_bits.h"
#include <string.h>

enum What : u32 {
  VECTOR_REGISTER = 1u << 28,
  SCALAR_REGISTER = 2u << 28,
  SCRATCH_BYTE = 3u << 28,
  LDS_BYTE = 4u << 28,
  INACTIVE_LANE = 5u << 28,
  MEMORY = 6u << 28,
  WHAT = 7u << 28
};
constexpr u64 ALL = ~0ull;

static inline bool is_of_lds(const Origin& o) { return (o.what & WHAT) == LDS_BYTE; }
static inline bool is_of_memory(const Origin& o) { return (o.what & WHAT) == MEMORY; }
// One origin stands for all undefined lanes of a register: where several meet, what LDS had not goes before what memory had
// not, and that before the rest.
static inline u32 rank_of(const Origin& o) { return is_of_lds(o) ? 2 : is_of_memory(o); }

// What an instruction hands on: undefined lanes (bits, of scalar registers), those that arithmetic made, and why.
struct Flow {
  u64 undefined, computed;
  Origin origin;
  void add(const Flow& f) {
    if (!f.undefined) return;
    if (undefined && rank_of(origin) > rank_of(f.origin)) return;
    if (!undefined || rank_of(f.origin) > rank_of(origin)) *this = f;
    undefined |= f.undefined;
    computed |= f.computed;
  }
  Flow of(u64 lanes) const { return {undefined & lanes, computed & lanes, origin}; }
  Flow calculated() const { return {undefined, undefined, origin}; }
  Flow everywhere() const { return undefined ? Flow{ALL, computed ? ALL : 0, origin} : Flow{}; }
};

// --- registers -------------------------------------------------------------------------------------------

static inline Flow of_cell(const Undefined& cell, u32 what, const WaveCheck& c) {
  return {~cell.defined, cell.computed, cell.origin.what ? cell.origin : Origin{what, c.pc}};
}
static inline Flow vector_register(const WaveCheck& c, u32 reg) {
  return bits_at(c.known_v, reg, 1) ? Flow{} : of_cell(c.values.v[reg], VECTOR_REGISTER | reg, c);
}
static inline Flow scalar_register(const WaveCheck& c, u32 reg) {
  return bits_at(c.known_s, reg, 1) ? Flow{} : of_cell(c.values.s[reg], SCALAR_REGISTER | reg, c).of(0xffffffff);
}
static inline Flow scalar_pair(const WaveCheck& c, u32 reg) {
  Flow f = scalar_register(c, reg), high = scalar_register(c, reg + 1);
  high.undefined <<= 32;
  high.computed <<= 32;
  f.add(high);
  return f;
}

static inline void put(Undefined& cell, const Flow& f, u64 lanes) {
  const bool others = ~cell.defined & ~lanes && cell.origin.what;
  const u32 held = others ? rank_of(cell.origin) : 0, added = f.undefined & lanes ? rank_of(f.origin) : held;
  if (added > held && others) cell.defined = ALL;
  const u64 undefined = added < held ? 0 : f.undefined & lanes;
  cell.defined = (cell.defined | lanes) & ~undefined;
  cell.computed = (cell.computed & ~lanes) | (undefined & f.computed);
  if (undefined) cell.origin = f.origin;
}
static inline void write_register(WaveCheck& c, u64* known, Undefined& cell, u32 reg, const Flow& f, u64 lanes,
                                  u64 all) {
  const bool was_known = bits_at(known, reg, 1);
  if (was_known || (lanes & all) == all) cell = {ALL, 0, {0, 0}};
  put(cell, f, lanes);
  if ((cell.defined & all) == all) {
    set_bits(known, reg, 1);
  } else if (was_known) {
    clear_bit(known, reg);
    memset(c.sound, 0, 8 * c.n_loads);
  }
}
static inline void write_vector(WaveCheck& c, u32 reg, const Flow& f, u64 lanes) {
  c.values.followed[reg >> 6] |= 1ull << (reg & 63);
  write_register(c, c.known_v, c.values.v[reg], reg, f, lanes, ALL);
}
static inline void write_scalar(WaveCheck& c, u32 reg, const Flow& f) {
  if (reg >= EXEC) return;
  c.values.followed[8 + (reg >> 6)] |= 1ull << (reg & 63);
  write_register(c, c.known_s, c.values.s[reg], reg, f, 0xffffffff, 0xffffffff);
}
static inline void write_pair(WaveCheck& c, u32 reg, const Flow& f) {
  write_scalar(c, reg, f.of(0xffffffff));
  write_scalar(c, reg + 1, {f.undefined >> 32, f.computed >> 32, f.origin});
}
