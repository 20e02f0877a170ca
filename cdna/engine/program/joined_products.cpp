// Which matrix products follow each other so that their sums, which are read and written by each, can stay in the host's
// registers from the first to the last: in a row of instructions that is executed from its begin to its end, with nothing
// between that touches the sums, or writes what the later ones multiply.
#include "joined_products.h"
#include "access.h"
#include "flow.h"
#include "isa/facts.h"
#include "isa/mfma_joined.h"
#include <stdlib.h>

namespace {
struct Registers {  // vector registers, one bit each
  u64 word[8] = {};
  void add(u32 reg, u32 count) {
    for (u32 r = reg; r < reg + count && r < 512; r++) word[r / 64] |= 1ull << r % 64;
  }
  bool has(u32 reg, u32 count) const {
    for (u32 r = reg; r < reg + count; r++)
      if (r >= 512 || word[r / 64] >> r % 64 & 1) return true;
    return false;
  }
};
}  // namespace

constexpr u32 REACH = 512;  // instructions from the first to the last
constexpr u32 MOST_TOUCHES = sizeof Access::touch / sizeof(Touch);

// A call leads to a function's begin, before which there is an end or a jump, and a return behind a call; LLVM's functions
// return by s[30:31]. Other jumps to an address may lead anywhere.
static bool is_call(const Inst& in) { return op_facts(in.op).has(IS_DESTINATION); }
static bool is_return(const Inst& in) { return !is_call(in) && in.src[0].reg == 30; }

static bool multiplies_in_place(const Inst& in) {
  return joined_product(in.fn, true) && in.src[2].kind == VGPR && in.src[2].reg == in.dst[0].reg && !in.cbsz &&
         !in.blgp;
}

// Whether an instruction may stand between two products: it goes on with the next one, and its registers are known.
static bool passes(const Inst& in, const Access& x) {
  const Facts& f = op_facts(in.op);
  if (f.unit == BRANCH_UNIT || f.unit == END_UNIT || x.n == MOST_TOUCHES || (in.flags & INDEXED)) return false;
  return !f.is(FACT_SETREG) && !f.is(FACT_INDEXING);
}

static const Touch* touching(const Access& x, const Touch& d) {
  for (const Touch& t : x)
    if (!(t.flags & SCALAR) && t.reg < d.reg + d.count && d.reg < t.reg + t.count) return &t;
  return nullptr;
}

static const Touch& sums(const Access& x) {
  for (const Touch& t : x)
    if (t.flags & WRITES) return t;
  return x.touch[0];
}

// Joins the product at `first` with those behind it. code: the copy in which that is noted, made where there is something.
static void join_from(const Program& p, const u8* entered, u32 first, Inst*& code) {
  const Access* table = p.accesses;
  const Inst& head = p.code[first];
  const Touch d = sums(table[first]);
  Registers written;
  u32 last = first, n = 1;
  for (u32 i = first + 1; i < p.n_inst && i < first + REACH && n < MOST_JOINED && !entered[i]; i++) {
    const Inst& in = p.code[i];
    if (!passes(in, table[i])) return;
    if (!touching(table[i], d)) {
      for (const Touch& t : table[i])
        if ((t.flags & WRITES) && !(t.flags & SCALAR)) written.add(t.reg, t.count);
      continue;
    }
    const bool same = in.fn == head.fn && multiplies_in_place(in) && in.dst[0].reg == head.dst[0].reg;
    if (!same || written.has(in.src[0].reg, in.src_dwords[0]) || written.has(in.src[1].reg, in.src_dwords[1])) return;
    if (!code) {
      code = (Inst*)malloc(sizeof(Inst) * (p.n_inst + 1));
      memcpy((void*)code, (const void*)p.code, sizeof(Inst) * (p.n_inst + 1));
    }
    code[last].offset1 = (i32)(i - last);
    code[first].fn = joined_product(head.fn, true);
    code[i].fn = joined_product(head.fn, false);
    last = i;
    n++;
  }
}

Inst* joined_code(Program& p) {
  if (p.skips) return nullptr;
  u8* entered = (u8*)calloc(p.n_inst + 1, 1);  // by a jump, or by a launch
  u32 products = 0;
  bool known = true;
  for (u32 i = 0; i < p.n_inst; i++) {
    const Inst& in = p.code[i];
    products += multiplies_in_place(in);
    if (op_facts(in.op).unit != BRANCH_UNIT) continue;
    if (branches_to_label(in)) entered[(u32)in.offset < p.n_inst ? (u32)in.offset : p.n_inst] = 1;
    else known = known && (is_call(in) || is_return(in));
  }
  for (u32 i = 0; i < p.n_kernels; i++)
    if (p.kernels[i].entry < p.n_inst) entered[p.kernels[i].entry] = 1;
  Inst* code = nullptr;
  if (known && products > 1) {
    p.accesses = check_table(p);
    for (u32 first = 0; first < p.n_inst; first++)
      if (multiplies_in_place(p.code[first]) && !(code && code[first].fn != p.code[first].fn))
        join_from(p, entered, first, code);
  }
  free(entered);
  return code;
}
