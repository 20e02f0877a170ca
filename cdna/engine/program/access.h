// What each instruction of a program touches: registers, memory, wait counters; see access.cpp.
#pragma once
#include "program.h"

enum AccessKind : u8 {
  PLAIN,
  WAITCNT,
  BARRIER,
  VM_LOAD,
  VM_STORE,
  VM_ATOMIC,
  CACHE_RELEASE,
  CACHE_ACQUIRE,
  LDS_READ,
  LDS_WRITE,
  LDS_ATOMIC,
  LDS_LANES,
  SMEM_LOAD,
  SMEM_STORE,
  SMEM_OTHER
};
enum TouchFlag : u8 {
  WRITES = 1,
  SCALAR = 2,
  ADDRESS = 4,
  SOURCE = 8
};  // SOURCE: what is undefined there is handed on
struct Touch {
  u16 reg;
  u8 count, flags;
};

// When an atomic leaves the value that is there: where it is told by nothing here; its data are that value; it compares
// with another; its data are 0.
enum KeepingKind : u8 { KEEPS_UNKNOWN, KEEPS_EQUAL, KEEPS_UNLIKE, KEEPS_WITH_ZERO };

// An address of the program's own, made from the pc; a vector of addresses that begin at one.
enum NamingKind : u8 { NAMES_NOTHING, NAMES_VARIABLE, ADDS_TO_VARIABLE };

struct Access {
  u8 kind, space;
  u8 bytes;          // of one lane's element, or of a scalar load; BY_FORMAT until an execution says it
  u8 n;              // touches
  bool to_lds;       // a load that goes straight to LDS
  bool two;          // a second LDS element at offset1
  bool returns;      // registers
  bool ordered;      // sc0 or sc1: an atomic or volatile access
  bool swaps_dword;  // a 32-bit compare-and-swap
  bool upper;        // stores the upper half of its register
  bool all_lanes;    // writes its vector registers whatever exec says
  bool accumulates;  // reads its destination too
  bool crosses;      // what a lane gets another has had
  bool combines;     // bits of several registers side by side
  bool reads_scc, writes_scc;
  bool spin_load;  // a read of LDS in a loop that does nothing but wait for another value there, or its first round
  bool benign;     // a load of global memory that waits so, or before an atomic that looks again
  bool counts;     // an atomic that adds or subtracts
  bool typed;      // by a buffer's format: memory holds other bytes than registers
  u8 flow, bits;   // FlowKind, BitsFlag
  u8 naming;       // NamingKind
  u8 keeping;      // KeepingKind
  u16 stride;      // what the offsets of ds_read2 and its kin count, in bytes
  u64 blocks;      // of registers that it touches, see block_of
  Touch touch[8];

  const Touch* begin() const { return touch; }
  const Touch* end() const { return touch + n; }
};

// A bit for 16 vector registers, or 8 scalar ones: what an instruction touches mostly has nothing to do with what is pending.
static inline u64 block_of(const Touch& t) {
  const u32 first = t.flags & SCALAR ? 32 + t.reg / 8 : t.reg / 16, end = t.reg + t.count - 1;
  const u32 last = t.flags & SCALAR ? 32 + end / 8 : end / 16;
  return t.count ? (~0ull << first) & (~0ull >> (63 - last)) : 0;
}

// Of each instruction, and behind the last of all once more for waves that hold what was read of unwritten LDS or memory.
Access* check_table(const Program& p);
// Has each kernel take at least the vector registers that its code touches, whatever its metadata say.
void measure_registers(Program& p);

extern "C" {
// Whether all that its code touches, and all places that it goes to, are its own: of a program that a stranger has made.
bool cdna_is_sound(Program*);
}
