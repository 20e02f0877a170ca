// Calls that device code makes to the host: printf, what a failed assertion says, malloc and free.
#pragma once
#include "isa/program.h"

struct Hostcall;
// For a launch that may have so many waves at once; null if there is no memory.
Hostcall* hostcall_open(u32 waves);
u64 hostcall_buffer(const Hostcall*);  // the hidden argument
// Calls `each` for all memory that a wave with this argument reaches by it.
void hostcall_memory(u64 buffer, void (*each)(u64 base, u64 bytes, void*), void* with);
// Answers every call made so far; false if there was none. To be called where a wave sleeps: so it waits for
// answers.
bool hostcall_serve(Hostcall*, const char** error);
const char* hostcall_assertion(const Hostcall*);  // text of an assertion that failed; "" if none did
void hostcall_close(Hostcall*);
