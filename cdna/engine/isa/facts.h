// What is known of each instruction beside how to execute it: cdna/isa, as build.py has written it down for C++.
#pragma once
#include "core.h"

#include "isa.h"

struct OperandSlot {
  u8 kind, dwords;  // SlotKind; registers of a destination or source, as its type says
};

struct Facts {  // the head of cdna/isa/instructions.txt says what each means
  const char* name;
  u8 unit, cycles[N_ARCHS];
  u16 flops;  // of a lane
  u8 space, does;
  u8 bytes, elements, stride;  // bytes: BY_FORMAT where the buffer's format says it
  u8 flow, bits;
  u8 shape[4];  // of a matrix instruction: rows, columns, depth, blocks
  u64 flags;
  OperandSlot slots[MOST_SLOTS];  // operands in the assembler's order; IS_NOTHING behind the last
  bool has(SlotKind kind) const {
    for (const OperandSlot& slot : slots)
      if (slot.kind == kind) return true;
    return false;
  }
  bool is(FactFlag flag) const { return flags & flag; }
};

u32 arch_number(const char* name);  // index into ARCHS; N_ARCHS: no such arch
const OpInfo& op_info(u32 op);
const Facts& op_facts(u32 op);

extern "C" {
int cdna_op_count();
const char* cdna_op_name(int op);
int cdna_op_has_facts(int op);
}
