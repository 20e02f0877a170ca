// What nothing has written of memory, and who has stored what was made of it.
#pragma once
#include "program/program.h"

// What fresh memory is filled with, and registers and LDS at the start: equal halves, as a store of one leaves them; NaN as
// f16, bf16 and f32, which no arithmetic makes.
constexpr u32 UNWRITTEN = 0x7fc57fc5;
bool holds_unwritten(u64 address);  // its dword
// A store of what was made of it, for who reads it in the end. base: of the tensor; computed: not only moved.
void note_unwritten_store(u64 base, u64 low, u64 high, bool computed, const Program&, u32 pc, const char* kernel);
bool computed_of_unwritten(u64 address);

extern "C" {
void cdna_mark_unwritten(u8* at, u64 bytes);  // fills fresh memory; of more than 256 MB the first MB and the last
// Of bytes that the host reads, how many nothing has written; first: where.
u64 cdna_unwritten_bytes(u64 from, u64 bytes, u64* first);
// Who has stored there what nothing had written; 2: and computed it, 0: nobody is known.
int cdna_unwritten_store(u64 address, char* text, u32 size);
}
