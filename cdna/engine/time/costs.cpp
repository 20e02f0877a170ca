#include "costs.h"

// A SIMD issues two waves' fp32 instructions at once where their operands differ (SC25 artifact of hibagus, MI300X: an
// addition of different registers takes 4.01 cycles with one wave and with two, of the same register 4.01 and 8.0).
static bool same_register_twice(const Inst& in) {
  for (int i = 0; i < 2; i++)
    for (int k = i + 1; k < 3; k++)
      if (in.src[i].kind == VGPR && in.src[k].kind == VGPR && in.src[i].reg == in.src[k].reg) return true;
  return false;
}

Cost instruction_cost(const Inst& in, u32 arch) {
  const Facts& f = op_facts(in.op);
  u32 cycles = f.cycles[arch];
  if (f.unit == IDLE_UNIT) cycles *= (u32)in.offset + 1;                // s_nop
  if (f.is(FACT_FORMATS) && (in.cbsz < 2 || in.blgp < 2)) cycles *= 2;  // either operand has 8 bits
  if (f.unit == VECTOR_UNIT && cycles < ISSUE_CYCLES && same_register_twice(in)) cycles = ISSUE_CYCLES;
  return {f.unit, cycles};
}

// The L1 moves 64 bytes a cycle; the LDS a dword a bank.
static u32 cycles_side_by_side(const Inst& in, const Card& card) {
  const Facts& f = op_facts(in.op);
  Cost cost = instruction_cost(in, arch_number(card.name));
  u32 bytes = WAVE * (f.bytes == BY_FORMAT ? 16 : f.bytes ? f.bytes : 4) * f.elements;
  if (f.unit == MEMORY_UNIT) return bytes / 64 > ISSUE_CYCLES ? bytes / 64 : ISSUE_CYCLES;
  if (f.unit == LDS_UNIT) return bytes / (4 * (f.does == DOES_STORE ? card.lds_write_banks : card.lds_read_banks));
  return cost.cycles;
}

extern "C" void cdna_executed(const Program* p, const char* model, const u64* executed, Executed* out) {
  memset(out, 0, sizeof *out);
  const Card& card = *cdna_card(model);
  for (u32 i = 0; i < p->n_inst; i++) {
    out->by_unit[op_facts(p->code[i].op).unit] += executed[i];
    out->cycles += executed[i] * cycles_side_by_side(p->code[i], card);
    out->flops += executed[i] * WAVE * op_facts(p->code[i].op).flops;
  }
}
