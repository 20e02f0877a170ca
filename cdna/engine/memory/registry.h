// The registry of allocations: what a runtime, or whoever hands out memory, tells the checks of it.
#pragma once
#include "isa/program.h"

extern "C" {
void cdna_memory_register(u64 base, u64 bytes, const char* name, bool shown);  // shown: the host looks there, too
void cdna_memory_unregister(u64 base);                                         // known as freed from now on
// Freed ranges are not known any more: anybody may get these addresses, without telling us.
void cdna_memory_forget(u64 base, u64 bytes);
void cdna_memory_is_lent();  // to another process, whose accesses nobody here sees
// A program's variables, as memory of all launches: who has written them is known from one to the next.
void cdna_variables_register(Program*);
void cdna_variables_forget(Program*);
// A copy or a fill, from and to; either may be nothing. Returns the work that has touched the same, with nothing between
// that orders the two, and what each does (0: it reads what was written; it writes over what was, 1: written, 2: read);
// 0: none has.
u32 cdna_stream_moves(u64 from, u64 to, u64 bytes, u32 work, const u64* known, bool changes, u32* clash);
// Whether any of n values lies in a mapping. bounds: begin and end of each, ascending.
bool cdna_holds_addresses(const u64* values, u64 n, const u64* bounds, u32 n_bounds);
}
