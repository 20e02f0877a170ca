// The journal of a call: its launches, and what these and operations read that none of the call's had written. Another
// process, which holds none of the program that made them, makes the result anew of it: forge/judge/replay.py.
#pragma once
#include "program/program.h"

// Each is followed by its payload's bytes, and by the payload.
// MEMORY_KNOWN: base, bytes, what the kernel gets as pointer, whether it is freed; before these 0, 0, whether those without
// a pointer follow, or are as before, and the launch's Openness.
enum JournalEntry : u32 {
  CELL_READ,
  PROGRAM_KNOWN,
  MEMORY_KNOWN,
  KERNEL_LAUNCHED,
  OPERATION_NOTED,
  MEMORY_COPIED,
  MEMORY_FILLED
};
constexpr u64 JOURNAL_CELL_BYTES = 64;

bool journal_is_kept();
void journal_cell(u64 at, u64 but);         // as it is, without the bytes that this mask has
void journal_memory(const struct Checks&);  // of the launch to come, and whether it may go elsewhere
void journal_launch(Program&, u32 kernel, const Launch&);
void journal_copy(u64 to, u64 from, u64 bytes);
void journal_fill(u64 to, u64 bytes, u64 value, u64 value_bytes);
// In a process that replays: whether a kernel may go there. Its own memory it may not write to.
bool replay_lets(u64 address, u64 bytes, bool writes);

extern "C" {
// A call's begins, first: of a case, with its programs. It has at most so many bytes; 0: none is kept.
void cdna_journal_begin(bool first, u64 most_bytes);
void cdna_journal_note(u32 number);              // of an operation, which has ended
const u8* cdna_journal_taken(u64* bytes);        // null: it was too long
void cdna_replay_begin();                        // of a call, with memory that is all zeros
bool cdna_replay_opens(u64 address, u64 bytes);  // has memory there; false: this process has other memory there
u32 cdna_kernels_of(const Program*);             // how many it has
}
