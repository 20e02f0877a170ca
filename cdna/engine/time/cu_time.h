// How long workgroups take on a CU that they have to themselves: a replay of what their waves executed.
#pragma once
#include "growing.h"

enum StepKind : u32 {
  ISSUE_STEP,   // amount: cycles until the wave's next instruction
  VECTOR_STEP,  // amount: cycles of the SIMD's lanes
  MATRIX_STEP,  // amount: cycles of the SIMD's matrix core
  LDS_STEP,     // amount: cycles of the LDS
  MEMORY_STEP,  // amount: cycles of the L1, and MISSED
  SCALAR_MEMORY_STEP,
  WAIT_STEP,  // amount: vmcnt | lgkmcnt << 8, 255 where not waited for
  BARRIER_STEP,
};
constexpr u32 MISSED = 1u << 27;  // of a MEMORY_STEP: the L1 did not have all of it
typedef u32 Step;                 // kind | amount << 4
static inline Step step(StepKind kind, u32 amount) { return kind | amount << 4; }

typedef Growing<Step> Steps;  // of one wave

struct Latencies {
  u32 l1, beyond_l1, lds, scalar;
};  // cycles

// Cycles from the first instruction to the last, of `copies` workgroups like this one that start together.
u64 cu_cycles(const Steps* waves, u32 n_waves, u32 copies, const Latencies& latencies);
