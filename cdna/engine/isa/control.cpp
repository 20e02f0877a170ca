// Program flow, waits, messages and hardware registers.
#include "card.h"
#include "xcd_l2.h"

static void branch(Wave& w, const Inst& in) { w.pc = in.offset; }
enum Condition { SCC0, SCC1, VCC_ZERO, VCC_SET, EXEC_ZERO, EXEC_SET };
template <Condition C> static void cbranch(Wave& w, const Inst& in) {
  bool set = C <= SCC1 ? w.scc != 0 : C <= VCC_SET ? w.s64(VCC) != 0 : w.exec() != 0;
  if (set == (C == SCC1 || C == VCC_SET || C == EXEC_SET)) w.pc = in.offset;
}
static void endpgm(Wave& w, const Inst&) { w.stop = ENDED; }
static void barrier(Wave& w, const Inst&) { w.stop = AT_BARRIER; }
static void sleep_(Wave& w, const Inst& in) {
  w.clock += 64 * (in.offset & 127);
  w.stop = YIELDED;
}
static void nop(Wave&, const Inst&) {}
// Within a workgroup's scope, sc0 alone, the L2 is not touched.
static void write_back(Wave& w, const Inst& in) {
  if (w.wg->l2 && in.flags & SC1) l2_write_back(w);
}
static void invalidate(Wave& w, const Inst& in) {
  if (w.wg->l2 && in.flags & SC1) l2_invalidate(w);
}
static void trap(Wave& w, const Inst& in) {
  fault(w, "s_trap %d: the kernel trapped (an assertion or unreachable code)", in.offset);
}

static u64 program_address(u32 index) { return CODE_BASE + 8ull * index; }
static void jump(Wave& w, u64 address) {
  if (address < CODE_BASE || (address - CODE_BASE) & 7) {
    fault(w, "jump to 0x%llx, which is not code", (unsigned long long)address);
    return;
  }
  w.pc = (address - CODE_BASE) / 8;
}
static void getpc(Wave& w, const Inst& in) { w.set_s64(in.dst[0].reg, program_address(w.pc)); }
static void setpc(Wave& w, const Inst& in) { jump(w, w.s64(in.src[0].reg)); }
static void swappc(Wave& w, const Inst& in) {
  u64 target = w.s64(in.src[0].reg);
  w.set_s64(in.dst[0].reg, program_address(w.pc));
  jump(w, target);
}
static void call(Wave& w, const Inst& in) {
  w.set_s64(in.dst[0].reg, program_address(w.pc));
  w.pc = in.offset;
}

// The loop that runs the wave knows how many cycles it has taken, and answers: clock_answer.
template <ClockRead READ> static void read_clock(Wave& w, const Inst&) {
  w.clock_read = READ;
  w.stop = AT_CLOCK;
}

// Hardware registers by id, of CDNA3 ISA section "Hardware register values"; the immediate is id | offset<<6
// | (width-1)<<11.
enum HwReg { HW_MODE = 1, HW_STATUS = 2, HW_HW_ID = 4, HW_XCC_ID = 20 };
static u32 hwreg(Wave& w, u32 id) {
  switch (id) {
    case HW_MODE: return w.mode;
    case HW_HW_ID: return w.id & 15;
    case HW_XCC_ID: return w.wg->linear_id % w.wg->card->xcds;  // workgroups go to the XCDs in turn
    default: return 0;
  }
}
static void getreg(Wave& w, const Inst& in) {
  u32 imm = in.offset, width = (imm >> 11 & 31) + 1, value = hwreg(w, imm & 63) >> (imm >> 6 & 31);
  w.s[in.dst[0].reg] = width == 32 ? value : value & ((1u << width) - 1);
}
static void setreg(Wave& w, const Inst& in) {
  u32 imm = in.offset, offset = imm >> 6 & 31, width = (imm >> 11 & 31) + 1;
  if ((imm & 63) != HW_MODE) return;
  u32 field = (width == 32 ? ~0u : (1u << width) - 1) << offset;
  w.mode = (w.mode & ~field) | (scalar32(w, in.src[0]) << offset & field);
  apply_mode(w.mode);
}

// clang-format off
static const OpInfo OPS[] = {
  {"s_branch", branch}, {"s_cbranch_scc0", cbranch<SCC0>}, {"s_cbranch_scc1", cbranch<SCC1>},
  {"s_cbranch_vccz", cbranch<VCC_ZERO>}, {"s_cbranch_vccnz", cbranch<VCC_SET>}, {"s_cbranch_execz", cbranch<EXEC_ZERO>},
  {"s_cbranch_execnz", cbranch<EXEC_SET>}, {"s_cbranch_cdbgsys", nop},
  {"s_cbranch_cdbguser", nop},  // conditions that a debugger sets
  {"s_cbranch_cdbgsys_or_user", nop}, {"s_cbranch_cdbgsys_and_user", nop}, {"s_endpgm", endpgm},
  {"s_endpgm_saved", endpgm}, {"s_barrier", barrier}, {"s_sleep", sleep_}, {"s_nop", nop}, {"s_waitcnt", nop},
  {"s_setprio", nop}, {"s_sethalt", nop}, {"s_icache_inv", nop}, {"s_dcache_wb", nop}, {"s_dcache_inv_vol", nop},
  {"s_dcache_wb_vol", nop}, {"s_dcache_discard", nop}, {"s_dcache_discard_x2", nop}, {"s_incperflevel", nop},
  {"s_decperflevel", nop}, {"v_clrexcp", nop}, {"s_dcache_inv", nop}, {"s_ttracedata", nop}, {"s_sendmsg", nop},
  {"s_trap", trap}, {"s_wakeup", nop}, {"s_getpc_b64", getpc}, {"s_setpc_b64", setpc}, {"s_swappc_b64", swappc},
  {"s_call_b64", call}, {"s_memtime", read_clock<READS_CYCLES>}, {"s_memrealtime", read_clock<READS_TIME>},
  {"s_getreg_b32", getreg}, {"s_setreg_b32", setreg}, {"s_setreg_imm32_b32", setreg}, {"buffer_wbl2", write_back},
  {"buffer_inv", invalidate},
};
// clang-format on
extern const OpTable CONTROL_OPS = {OPS, sizeof OPS / sizeof *OPS};
