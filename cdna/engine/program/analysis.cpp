#include "analysis.h"

constexpr u32 SHORT_LOOP = 64, NEAR = 32;

static bool overlap(const Touch& a, const Touch& b) {
  return !((a.flags ^ b.flags) & SCALAR) && a.reg < b.reg + b.count && b.reg < a.reg + a.count;
}

Loop Analysis::loop_around(u32 at) const {
  for (u32 end = at + 1; end < p.n_inst && end < at + SHORT_LOOP; end++)
    if (branches(end) && target(end) <= at && at - target(end) <= SHORT_LOOP) return {target(end), end};
  return {NOWHERE, NOWHERE};
}

u32 Analysis::definition(u32 begin, u32 at, u32 reg, bool scalar) const {
  const Touch wanted = {(u16)reg, 1, (u8)(scalar ? SCALAR : 0)};
  while (at-- > begin)
    for (const Touch& t : table[at])
      if (t.flags & WRITES && overlap(t, wanted)) return at;
  return NOWHERE;
}

const Operand* Analysis::moved_to(u32 begin, u32 at, u32 reg) const {
  const u32 from = definition(begin, at, reg, false);
  if (from == NOWHERE) return nullptr;
  const bool moves = facts(from).flow == FLOW_MOVES && p.code[from].dst_dwords == 1;
  return moves ? &p.code[from].src[0] : nullptr;
}

i64 Analysis::constant(u32 at, u32 reg) const {
  const Operand* from = moved_to(at > NEAR ? at - NEAR + 1 : 0, at, reg);
  return from && from->kind == CONST ? (i64)from->lo : -1;
}

bool Analysis::keeps_address(u32 load, u32 from, u32 to) const {
  for (u32 i = from; i < to; i++)
    for (const Touch& t : table[i])
      for (const Touch& of : table[load])
        if (t.flags & WRITES && (of.flags & (ADDRESS | WRITES)) == ADDRESS && overlap(t, of)) return false;
  return true;
}

bool Analysis::reads_result(u32 at, u32 load) const {
  for (const Touch& t : table[at])
    for (const Touch& result : table[load])
      if (~t.flags & result.flags & WRITES && overlap(t, {result.reg, 1, result.flags})) return true;
  return false;
}

bool Analysis::silent(u32 from, u32 to) const {
  for (u32 i = from; i < to; i++) {
    const u8 kind = table[i].kind;
    if (kind == LDS_WRITE || kind == LDS_ATOMIC || kind == VM_STORE || kind == VM_ATOMIC || kind == BARRIER)
      return false;
  }
  return true;
}
