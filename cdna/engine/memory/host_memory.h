// The host's own memory: what this process has mapped that is no allocation of the card's.
#pragma once
#include "isa/core.h"

struct Mapping {
  u64 from, to;
  bool readable;
  char name[200];  // of its file, or the system's; "": none
};
bool mapping_at(u64 address, Mapping& out);  // false: in none
// Whether nobody but the host has memory there, no program of the card's either. what: how to call it.
bool is_host_memory(u64 address, char* what, u32 size);
// Whether the host's memory is told from the card's: by a program of HIP's, or by whoever tells whose torch's tensors are.
bool host_is_apart();

extern "C" {
bool cdna_host_apart(bool);  // whether it was
}
