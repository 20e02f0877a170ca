// Who wrote what. Of the memory that launches and a program's counted operations (torch's) have written it is known which
// bytes that is, and whether they still hold what was written: the host writes past all of this. Of what launches and
// operations read, how much neither of them had written.
//
// For who asks where a result came from. Off unless asked for; a launch then notes its stores and looks at its loads.
#pragma once
#include "program/program.h"

struct WrittenBytes {
  u64 now, before;  // by launches and operations since the last cdna_written_begin, and before
  u64 given;        // of the call's input, and zeros of fresh memory
  u64 nobody;       // by the host, or never; an autotuner's trials count as nobody
  // To launches and operations past memory: what is next, sizes, arguments, constants of code that is run for the first
  // time. A word's four bytes once, and one where it is another than the last time.
  u64 told;
  // In this call once more, as it was: what a case's first one has read and not made, what that has made, constants that
  // it was told.
  u64 again, made_again, told_again;
};

// A program's code, or its joined code, that notes what accesses memory; the program's own. null while this is off.
const Inst* written_code(Program&, const Inst* code);
void written_launch_begins(const void* kernel, const Launch&, u32 argument_bytes);  // around a launch
void written_launch_ends();
bool written_in_trial();

extern "C" {
void cdna_written_on(bool on);
void cdna_written_begin(bool first);           // a call begins, of a case the first
void cdna_written_known(u64 base, u64 bytes);  // its input, and what is as good
void cdna_written_fresh(u64 base, u64 bytes);  // memory that has just been allocated: what is left there says nothing
void cdna_written_trial(bool on);              // the launches to come are an autotuner's
void cdna_written_by_operation(u64 base, u64 bytes);
void cdna_written_told(u64 kind, const u32* words, u32 n);  // to an operation, one of this kind
void cdna_written_told_copy(u64 to, u64 from, u64 bytes);   // to one that moves memory
void cdna_written_told_fill(u64 to, u64 bytes, u64 value);
void cdna_written_read(u64 base, u64 bytes);                   // by an operation; of much, a sample stands for all
void cdna_written_of(u64 base, u64 bytes, WrittenBytes* out);  // adds to it
void cdna_written_reads(WrittenBytes* out);  // what launches and operations have read that none of this call's wrote
}
