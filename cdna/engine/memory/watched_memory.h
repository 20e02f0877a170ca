// What another library's allocator hands out: see watched_memory.cpp.
#pragma once
#include "isa/core.h"

typedef void (*EachBlock)(u64 base, u64 bytes, void* with);

extern "C" {
// Watches what that library, loaded already, allocates from now on. Returns how many of its references were redirected.
int cdna_watch_allocator(const char* library);
int cdna_align_allocator(const char* library);  // the same, for blocks that begin where a GPU's would
bool cdna_watching();
// A block that the library had before it was watched, or that comes from elsewhere.
void cdna_know_block(u64 base, u64 bytes);
bool cdna_in_known_block(u64 address);
void cdna_known_blocks(EachBlock, void* with);
}
