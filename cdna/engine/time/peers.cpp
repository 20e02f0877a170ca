// The allocations that a runtime told of, and whose they are.
#include "peers.h"
#include <pthread.h>
#include <stdlib.h>

namespace {
struct Owned {
  u64 base, end, owner;
};
Owned* owned;  // by base
u32 n_owned, capacity;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

u32 place_of(u64 base) {
  u32 at = n_owned;
  while (at && owned[at - 1].base >= base) at--;
  return at;
}
}  // namespace

extern "C" {
void cdna_owner_add(u64 base, u64 bytes, u64 owner) {
  pthread_mutex_lock(&lock);
  if (n_owned == capacity) {
    capacity = capacity ? 2 * capacity : 64;
    owned = (Owned*)realloc(owned, capacity * sizeof *owned);
  }
  u32 at = place_of(base);
  memmove(owned + at + 1, owned + at, (n_owned++ - at) * sizeof *owned);
  owned[at] = {base, base + bytes, owner};
  pthread_mutex_unlock(&lock);
}

void cdna_owner_remove(u64 base) {
  pthread_mutex_lock(&lock);
  u32 at = place_of(base);
  if (at < n_owned && owned[at].base == base) memmove(owned + at, owned + at + 1, (--n_owned - at) * sizeof *owned);
  pthread_mutex_unlock(&lock);
}
}

PeerRanges peers_of_launch(u32 device_number) {
  pthread_mutex_lock(&lock);
  PeerRanges ranges = {(PeerRange*)calloc(n_owned + 1, sizeof(PeerRange)), 0};
  u64 owners[MOST_PEERS] = {};
  u32 n_owners = 0;
  for (u32 i = 0; i < n_owned; i++) {
    const Owned& o = owned[i];
    if (o.owner <= OWN_DEVICES && (!device_number || o.owner == device_number)) continue;
    u32 peer = 0;
    while (peer < n_owners && owners[peer] != o.owner) peer++;
    if (peer == n_owners && n_owners + 2 < MOST_PEERS) owners[n_owners++] = o.owner;
    ranges.at[ranges.n++] = {o.base, o.end, peer + 1};
  }
  pthread_mutex_unlock(&lock);
  return ranges;
}
