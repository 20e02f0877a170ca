// Loads that race by design: they wait for another value (a spin load), or what they find is looked at again by an atomic.
#include "analysis.h"

constexpr u32 FAR = 64, FIRST_ROUND = 16;

static bool may_read_lds(const Access& x) { return x.kind == LDS_READ || (x.kind == VM_LOAD && x.space == FLAT_SPACE); }

// A read of LDS in a short loop without a write or barrier, at an address that stays or is made anew of a scalar register
// that does, with a result that something in the loop reads.
static bool is_spin_load(const Analysis& a, u32 at) {
  if (!may_read_lds(a.table[at]) || a.table[at].n == 0) return false;
  const Loop loop = a.loop_around(at);
  if (loop.end == NOWHERE || !a.silent(loop.begin, loop.end)) return false;
  const Operand* from = a.moved_to(loop.begin, at, a.p.code[at].src[0].reg);
  const bool anew = from && from->kind == SGPR && a.keeps(from->reg, loop.begin, loop.end + 1);
  if (!anew && !a.keeps_address(at, loop.begin, loop.end + 1)) return false;
  for (u32 i = at + 1; i <= loop.end; i++)
    if (a.reads_result(i, at)) return true;
  return false;
}

// Whether two reads, the second behind the first, are at one address: of scalar registers, one of which is the other and
// the distance of their offsets.
static bool same_scalar_address(const Analysis& a, u32 one, u32 other) {
  const u32 begin = one > FIRST_ROUND ? one - FIRST_ROUND : 0;
  const Operand* from = a.moved_to(begin, one, a.p.code[one].src[0].reg);
  const Operand* to = a.moved_to(one + 1, other, a.p.code[other].src[0].reg);
  if (!from || !to || from->kind != SGPR || to->kind != SGPR) return false;
  const u32 sum = a.definition(begin, other, to->reg, true);
  if (sum == NOWHERE) return false;
  const Operand* terms = a.p.code[sum].src;
  const i64 distance = (i64)a.p.code[one].offset - (i64)a.p.code[other].offset;
  if (a.facts(sum).is(FACT_SETS_BIT))
    return to->reg == from->reg && terms[0].kind == CONST && distance == 1ll << (terms[0].lo & 31);
  return a.facts(sum).is(FACT_ADDS) && !a.facts(sum).is(FACT_SCC_IN) && terms[0].kind == SGPR &&
         terms[0].reg == from->reg && terms[1].kind == CONST && distance == (i64)terms[1].lo;
}

// A spinning loop's first read, which compilers put before it: the next read of LDS is the loop's, from the same address.
static bool is_first_round(const Analysis& a, u32 at) {
  if (!may_read_lds(a.table[at])) return false;
  for (u32 i = at + 1; i < a.p.n_inst && i <= at + FIRST_ROUND; i++) {
    const u8 kind = a.table[i].kind;
    if (kind == a.table[at].kind) {
      const Inst &one = a.p.code[at], &other = a.p.code[i];
      if (!a.table[i].spin_load || one.op != other.op) return false;
      return (one.src[0].reg == other.src[0].reg && one.offset == other.offset) || same_scalar_address(a, at, i);
    }
    if (kind != PLAIN && kind != WAITCNT) return false;
  }
  return false;
}

// The scalar base of a load's or an atomic's address.
static const Operand& base_of(const Analysis& a, u32 at) {
  const u8 kind = a.table[at].kind;
  return a.p.code[at].src[kind == SMEM_LOAD ? 0 : kind == VM_ATOMIC ? 2 : 1];
}

// Whether an atomic is at the very place of a load: same registers, or constants in them. stays: those still hold what they
// did at the load.
static bool at_the_place_of(const Analysis& a, u32 load, u32 atomic, bool stays) {
  const Inst &one = a.p.code[load], &other = a.p.code[atomic];
  const Operand &from = base_of(a, load), &base = base_of(a, atomic);
  if (one.offset != other.offset || base.kind != from.kind || (base.kind == SGPR && base.reg != from.reg)) return false;
  if (a.table[load].kind == SMEM_LOAD || (stays && one.src[0].reg == other.src[0].reg)) return true;
  const i64 offset = base.kind == SGPR ? a.constant(load, one.src[0].reg) : -1;
  return offset >= 0 && offset == a.constant(atomic, other.src[0].reg);
}

// Whether an atomic goes out from another pointer than a load: from other scalar registers, which were loaded too, and hold
// at the atomic what they held at the load.
static bool elsewhere(const Analysis& a, u32 load, u32 atomic) {
  const Operand &from = base_of(a, load), &base = base_of(a, atomic);
  if (base.kind != SGPR || from.kind != SGPR || base.reg == from.reg) return false;
  auto given = [&](u32 reg) {
    const u32 loaded = a.definition(0, load, reg, true);
    return loaded != NOWHERE && a.table[loaded].kind == SMEM_LOAD && a.keeps(reg, load, atomic) &&
           a.keeps(reg + 1, load, atomic);
  };
  return given(base.reg) && given(from.reg);
}

namespace {
struct Carried {  // registers that a load's result has come to
  bool vector[512], scalar[128];
  bool& at(const Touch& t, u32 k) { return t.flags & SCALAR ? scalar[(t.reg + k) & 127] : vector[(t.reg + k) & 511]; }
  void add(const Access& y) {
    for (const Touch& t : y)
      for (u32 k = 0; k < t.count && t.flags & WRITES; k++) at(t, k) = true;
  }
  bool in_data_of(const Access& y) {
    for (const Touch& t : y)
      for (u32 k = 0; k < t.count && !(t.flags & (WRITES | ADDRESS)); k++)
        if (at(t, k)) return true;
    return false;
  }
};
}  // namespace

// Whether an instruction that reads a value compares it, or brings it to the scalar unit, which will.
static bool looks_at(const Facts& f) {
  return f.is(FACT_COMPARES) || f.is(FACT_SWAP) || (f.is(FACT_READS_LANE) && !f.is(FACT_SELECTS_LANE));
}

// A plain load of global memory of which an atomic looks again (compare-and-swap loops begin with what they read, and who
// needs a larger maximum looks whether it is one), or a spin load: in a short loop that writes nothing, at an address that
// stays. A compare-and-swap of something else, as of a lock, looks at nothing again.
static bool is_looked_at_again(const Analysis& a, u32 at) {
  const Access& x = a.table[at];
  if ((x.kind != VM_LOAD && x.kind != SMEM_LOAD) || x.ordered) return false;
  bool stays = true, read = false, compared = false;
  Carried carried = {};
  carried.add(x);
  u32 silent_from = at + 1;
  bool silent = true;
  for (u32 i = at + 1; i < a.p.n_inst && i < at + FAR; i++) {
    const Access& y = a.table[i];
    if (y.kind == VM_ATOMIC) {
      const bool plain = x.space != BUFFER_SPACE && y.space != BUFFER_SPACE;
      const bool swaps = a.facts(i).is(FACT_SWAP) && !(plain && elsewhere(a, at, i));
      if (swaps && (compared || carried.in_data_of(y))) return true;
      if (compared && plain && at_the_place_of(a, at, i, stays)) return true;
    }
    if (y.kind == PLAIN && carried.in_data_of(y)) carried.add(y);
    stays = stays && a.keeps_address(at, i, i + 1) && y.kind != BARRIER;
    const bool reads = a.reads_result(i, at);
    read = read || reads;
    compared = compared || (reads && looks_at(a.facts(i)));
    silent = silent && a.silent(i, i + 1);
    if (a.facts(i).does == DOES_JUMP && a.branches(i) &&
        a.target(i) > i) {  // into a loop, past its other rounds' begin
      i = a.target(i) - 1;
      continue;
    }
    if (a.branches(i) && a.target(i) <= at && at - a.target(i) < FAR) {
      bool goes_round = silent && a.silent(a.target(i), at) && a.keeps_address(at, a.target(i), at);
      for (u32 k = a.target(i); k < at; k++) goes_round = goes_round && !a.leaves(k);
      if (goes_round && stays && read) return true;
      if (!a.facts(i).is(FACT_EXECZ)) return false;  // that one only passes over what no lane does
    }
    if (a.leaves(i)) return false;
  }
  return false;
}

void find_idioms(const Program& p, Access* table) {
  const Analysis a = {p, table};
  for (u32 i = 0; i < p.n_inst; i++) table[i].spin_load = is_spin_load(a, i);
  for (u32 i = 0; i < p.n_inst; i++) table[i].benign = is_looked_at_again(a, i);
  for (u32 i = p.n_inst; i-- > 0;) table[i].spin_load = table[i].spin_load || is_first_round(a, i);
}
