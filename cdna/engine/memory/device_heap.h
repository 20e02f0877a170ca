// Memory that device code has got from malloc.
#pragma once
#include "program/program.h"

// A block of device code's malloc, and how much from its base on nobody else has.
struct HeapBlock {
  u64 base, bytes, usable;
  bool freed;
};
bool heap_in_use();
bool heap_block(u64 address, HeapBlock& out);  // that the address lies in, or behind; false: in none
// malloc(bytes) where address is 0, else free(address). marks: as unwritten; error: set where there is no such
// block.
u64 heap_call(u64 address, u64 bytes, bool marks, const char** error);
