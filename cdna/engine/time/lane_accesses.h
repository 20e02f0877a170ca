// Which addresses an instruction is about to access, worked out from the registers as its handler will.
#pragma once
#include "isa/facts.h"

enum AccessFlag : u8 { READS = 1, WRITES = 2, ATOMIC = 4, TO_LDS = 8 };

// One element a lane. Addresses are host addresses in GLOBAL_SPACE, offsets in LDS or in a lane's scratch otherwise. A
// scalar access has one address, in lane 0.
struct LaneAccess {
  u8 space, flags;  // space: global, LDS or scratch
  u32 bytes;
  u64 lanes;  // those that access memory: active and in the buffer's range
  u64 address[WAVE];
};
constexpr int MAX_ACCESSES = 4;

// Fills `out` and returns how many: flat instructions may reach three spaces, ds_read2 has two elements,
// loads to LDS write there too. Out-of-range lanes of LDS instructions are left in.
int observed_accesses(Wave& w, const Inst& in, const Facts& facts, LaneAccess* out);
u8 access_flags(const Facts& facts);
