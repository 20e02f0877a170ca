// The allocations that a runtime told of, and whose they are.
#include "peer_memory.h"
#include "isa/lock.h"
#include <stdlib.h>

namespace {
struct Owned {
  u64 base, end, owner;
};
List<Owned> owned;  // by base
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

u64 place_of(u64 base) {  // of the first that begins there or behind
  return upto(owned.items, owned.count, base, [](const Owned& o) { return o.base + 1; });
}
}  // namespace

extern "C" {
void cdna_owner_add(u64 base, u64 bytes, u64 owner) {
  const Lock locked(lock);
  owned.insert(place_of(base), {base, base + bytes, owner});
}

void cdna_owner_remove(u64 base) {
  const Lock locked(lock);
  const u64 at = place_of(base);
  if (at < owned.count && owned[at].base == base) owned.remove(at);
}
}

PeerRanges peers_of_launch(u32 device_number) {
  const Lock locked(lock);
  PeerRanges ranges = {(PeerRange*)calloc(owned.count + 1, sizeof(PeerRange)), 0};
  u64 owners[MOST_PEERS] = {};
  u32 n_owners = 0;
  for (const Owned& o : owned) {
    if (o.owner <= OWN_DEVICES && (!device_number || o.owner == device_number)) continue;
    u32 peer = 0;
    while (peer < n_owners && owners[peer] != o.owner) peer++;
    if (peer == n_owners && n_owners + 2 < MOST_PEERS) owners[n_owners++] = o.owner;
    ranges.at[ranges.n++] = {o.base, o.end, peer + 1};
  }
  return ranges;
}
