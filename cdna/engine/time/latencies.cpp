#include "latencies.h"
#include "costs.h"

// LLVM, GCNHazardRecognizer: a matrix instruction's result may be read three wait states after its last pass.
constexpr u32 BEHIND_LAST_PASS = 3 * ISSUE_CYCLES;
// An LDS write hands over its address in 4 cycles and each dword in 4 (thread traces of an MI350X: b32 8, b64 12, b128
// 20; ROCm/gfx950-gluon-tutorials has 4 + 16 on gfx942).
static u32 lds_issue(const Facts& f) {
  if (f.does == DOES_LOAD) return ISSUE_CYCLES;
  if (f.does == DOES_LANES) return 2 * ISSUE_CYCLES;
  return ISSUE_CYCLES * (1 + f.elements * ((f.bytes + 3) / 4));
}

static Registers vector_registers(const Operand& o, u32 dwords) {
  return o.kind == VGPR ? Registers{o.reg, (u16)dwords} : Registers{0, 0};
}

static bool has_eight_bits(const Inst& in, const Facts& f) {
  if (f.is(FACT_FORMATS)) return in.cbsz < 2 || in.blgp < 2;
  return f.is(FACT_EIGHT_BITS);
}

Timing timing_of(const Inst& in, u32 arch) {
  const Facts& f = op_facts(in.op);
  Cost cost = instruction_cost(in, arch);
  Timing t = {};
  t.unit = cost.unit;
  t.cycles = (u16)cost.cycles;
  t.latency = t.accumulates = t.cycles > ISSUE_CYCLES ? t.cycles : ISSUE_CYCLES;
  t.issue = (u8)(t.latency < 255 ? t.latency : 255);
  if (cost.unit == MATRIX_UNIT) {
    t.issue = f.is(FACT_SCALED) ? 2 * ISSUE_CYCLES : ISSUE_CYCLES;
    t.latency += BEHIND_LAST_PASS;
    t.eight_bits = has_eight_bits(in, f);
  }
  t.non_temporal = cost.unit == MEMORY_UNIT && in.flags & NT;
  if (cost.unit == LDS_UNIT) t.issue = (u8)lds_issue(f);
  if (cost.unit == MEMORY_UNIT || cost.unit == SCALAR_MEMORY_UNIT) t.issue = ISSUE_CYCLES;
  if (cost.unit != MATRIX_UNIT && cost.unit != VECTOR_UNIT) return t;
  for (int i = 0; i < 4; i++) t.reads[i] = vector_registers(in.src[i], in.src_dwords[i]);
  for (int i = 0; i < 2; i++) t.writes[i] = vector_registers(in.dst[i], i ? 1 : in.dst_dwords);
  if (cost.unit == MATRIX_UNIT) {
    int c = f.is(FACT_ACCUMULATES) ? -1 : 2;
    t.source_c = c < 0 ? t.writes[0] : t.reads[c];
    if (c >= 0) t.reads[c].count = 0;
  }
  return t;
}
