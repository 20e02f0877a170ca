// Where control flow leads in a program.
#pragma once
#include "program.h"
#include <stdlib.h>

static inline bool branches_to_label(const Inst& in) {  // its `offset`
  return op_facts(in.op).unit == BRANCH_UNIT && op_facts(in.op).has(IS_LABEL);
}

// Whether it leads from an instruction to one that `is` it, or is one itself.
template <class Is> bool flow_reaches(const Program& p, u32 from, Is is) {
  u8* seen = (u8*)calloc(p.n_inst + 1, 1);
  u32* pending = (u32*)malloc(4 * ((size_t)p.n_inst + 2));
  u32 n = 0;
  bool found = false;
  for (pending[n++] = from; n && !found;) {
    for (u32 i = pending[--n]; i < p.n_inst && !seen[i] && !found; i++) {
      seen[i] = 1;
      found = is(i);
      const Facts& f = op_facts(p.code[i].op);
      if (branches_to_label(p.code[i]) && !seen[p.code[i].offset]) pending[n++] = (u32)p.code[i].offset;
      if (f.unit == END_UNIT || f.does == DOES_JUMP) break;
    }
  }
  free(pending);
  free(seen);
  return found;
}
