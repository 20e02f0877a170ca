// The registry of allocations: what a runtime, or whoever hands out memory, tells of it; see registry.cpp.
#pragma once
#include "list.h"
#include "program/program.h"

struct MemoryRange {
  u64 base, end;
  char name[64];  // "`x` (fp32[1000])"
  bool freed;     // or out of the launch's reach
  bool variable;  // of the program; what is made from its address means it
  bool constant;  // that a kernel may only read
  bool shown;     // to the host, as pinned and managed memory
  bool internal;  // kernel arguments, constants: not the user's
  // Per dword: the work that wrote it, that changed it by an atomic or a volatile store, and one that read it, of an
  // allocation; see stream_work.h.
  u32 *owners, *updaters, *readers;
};
MemoryRange memory_range(u64 base, u64 bytes, const char* name);

// Of all allocations, in the order in which they were told. keeps_work: which streams' work touches them, from now on.
void each_allocation(bool keeps_work, void (*each)(const MemoryRange&, void*), void* with);
// Adds the variables of a section of the program, where its labels say how large each is; false: they do not.
bool variables_of(const Program&, u32 section, List<MemoryRange>&);
bool memory_is_lent();  // to other processes

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
