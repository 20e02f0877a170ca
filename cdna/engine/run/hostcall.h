// Calls that device code makes to the host: printf, what a failed assertion says, malloc and free.
#pragma once
#include "memory/registry.h"

struct Hostcall;
// For a launch that may have so many waves at once; null if there is no memory.
Hostcall* hostcall_open(u32 waves);
u64 hostcall_buffer(const Hostcall*);                       // the hidden argument
void hostcall_memory(const Hostcall*, List<MemoryRange>&);  // adds what a wave reaches by it
// Answers every call made so far; false if there was none. To be called where a wave sleeps: so it waits for
// answers. marks: whether memory that it gives is known as unwritten.
bool hostcall_serve(Hostcall*, bool marks, const char** error);
const char* hostcall_assertion(const Hostcall*);  // text of an assertion that failed; "" if none did
void hostcall_close(Hostcall*);
