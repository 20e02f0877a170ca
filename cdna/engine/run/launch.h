// Launches, and what the host may ask of them.
#pragma once
#include "program/program.h"

extern "C" {
void cdna_launch(Program*, u32 kernel, Launch*);
u64 cdna_launches();        // that have ended well since the process began, noted by anybody or not
u32 cdna_worker_threads();  // started by the launches under way
// Whether a fault at an address is over: memory that opens when it is asked for.
void cdna_set_opens(AddressTest);
// One wave over registers and LDS that the caller holds, without a launch; its status, a message of 256 bytes.
u32 cdna_run_wave(Program* p, u32* v, u32* s, u32* scc, u8* lds, u32 lds_bytes, u32 scratch_bytes, u32 mode,
                  char* message);
}
