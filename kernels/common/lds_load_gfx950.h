// Loads from memory straight to LDS, 16 bytes a lane, on gfx950.
#pragma once

#include "cdna_gpu.h"

// 16 bytes from base + offset of each lane go to lds + 16 * lane; base and lds are the same for all lanes. Counted by
// vmcnt; a lane that is switched off leaves its place as it is.
__device__ inline void load_to_lds(const void* base, u32 offset, void* lds) {
    using Global = __attribute__((address_space(1))) void*;
    using Local = __attribute__((address_space(3))) void*;
    char* from = const_cast<char*>(static_cast<const char*>(base)) + offset;
    __builtin_amdgcn_global_load_lds((Global)from, (Local)lds, 16, 0, 0);
}
