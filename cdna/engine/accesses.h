// Which addresses an instruction is about to access, worked out from the registers as its handler will.
#pragma once
#include "core.h"

enum AccessSpace : u8 {
  NO_ACCESS,
  GLOBAL_ACCESS,
  FLAT_ACCESS,
  BUFFER_ACCESS,
  LDS_ACCESS,
  SCRATCH_ACCESS,
  SCALAR_ACCESS
};
enum AccessFlag : u8 { READS = 1, WRITES = 2, ATOMIC = 4, TO_LDS = 8, LANE_ORDER = 16 };

// What an instruction accesses; from its name.
struct MemoryOp {
  u8 space, flags;
  u8 bytes;     // of an element of a lane
  u8 elements;  // 2 for ds_read2 and its kin
  u16 stride;   // of their offsets, in elements
};
MemoryOp memory_op(const char* name);

// One element a lane. Addresses are host addresses in GLOBAL_ACCESS, offsets in LDS or in a lane's scratch
// otherwise. SCALAR_ACCESS has one address, in lane 0.
struct LaneAccess {
  u8 space, flags;  // space: GLOBAL, LDS, SCRATCH or SCALAR
  u32 bytes;
  u64 lanes;  // those that access memory: active and in the buffer's range
  u64 address[WAVE];
};
constexpr int MAX_ACCESSES = 4;

// Fills `out` and returns how many: flat instructions may reach three spaces, ds_read2 has two elements,
// loads to LDS write there too. Out-of-range lanes of LDS instructions are left in.
int observed_accesses(Wave& w, const Inst& in, const MemoryOp& kind, LaneAccess* out);
