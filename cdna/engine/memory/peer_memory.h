// Which memory belongs to another GPU: what the runtime says of allocations. An access to it goes over a link.
#pragma once
#include "list.h"

constexpr u32 MOST_PEERS = 16;  // numbered from 1; more share the last number

// What one launch may reach of peers' memory, by address.
struct PeerRange {
  u64 base, end;
  u32 peer;
};
struct PeerRanges {
  PeerRange* at;
  u32 n;

  u32 peer_of(u64 address) const {  // 0: nobody's
    const PeerRange* found = last_from(at, n, address);
    return found && address < found->end ? found->peer : 0;
  }
};
// Of a launch on `device` of this process; to be freed. device_number: 0 where the launch does not say: then all memory
// of this process is its own.
PeerRanges peers_of_launch(u32 device_number);

extern "C" {
// owner: of memory of this process the number of its device, from 1 on; of another process's something above
// OWN_DEVICES that tells the GPUs apart.
void cdna_owner_add(u64 base, u64 bytes, u64 owner);
void cdna_owner_remove(u64 base);
}
constexpr u64 OWN_DEVICES = 255;
