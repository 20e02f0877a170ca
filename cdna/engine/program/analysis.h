// What a program's code says before it runs: where control leads, which instruction has given a register its value, and
// which of those are constants. The idioms of idioms.cpp are questions to it.
#pragma once
#include "access.h"
#include "flow.h"

constexpr u32 NOWHERE = ~0u;

struct Loop {
  u32 begin, end;  // the branch at its end leads back to its begin; NOWHERE: there is none
};

// Of a program and what its instructions touch.
struct Analysis {
  const Program& p;
  const Access* table;

  const Facts& facts(u32 at) const { return op_facts(p.code[at].op); }
  bool branches(u32 at) const { return branches_to_label(p.code[at]); }
  u32 target(u32 at) const { return (u32)p.code[at].offset; }
  // Whether control does not go on behind it.
  bool leaves(u32 at) const { return facts(at).unit == END_UNIT || (facts(at).does == DOES_JUMP && branches(at)); }
  // The innermost loop of few instructions, as they stand, around one.
  Loop loop_around(u32 at) const;

  // The last instruction before `at`, from `begin` on, that writes a register; NOWHERE: none.
  u32 definition(u32 begin, u32 at, u32 reg, bool scalar) const;
  // What a move has given a vector register; null: something else has.
  const Operand* moved_to(u32 begin, u32 at, u32 reg) const;
  // The constant that it has been given shortly before; -1: none.
  i64 constant(u32 at, u32 reg) const;
  // Whether registers hold at the second what they held at the first: those of a load's address; a scalar one.
  bool keeps_address(u32 load, u32 from, u32 to) const;
  bool keeps(u32 reg, u32 from, u32 to) const { return definition(from, to, reg, true) == NOWHERE; }
  // Whether an instruction reads a load's result.
  bool reads_result(u32 at, u32 load) const;
  // Whether no instruction of a range stores or waits for others.
  bool silent(u32 from, u32 to) const;
};

// Marks the loads for which a race is no fault, see Access.
void find_idioms(const Program& p, Access* table);
