#include "kept.h"
#include <stdlib.h>

u32 KeptGroups::kind_of(u64 n_steps) {
  u32 nearest = 0;
  u64 least = ~0ull;
  for (u32 i = 0; i < n_kinds; i++) {
    u64 of = kinds[i].n_steps, apart = of > n_steps ? of - n_steps : n_steps - of;
    if (apart < least) least = apart, nearest = i;
  }
  if (n_kinds && (least <= kinds[nearest].n_steps / ALIKE || n_kinds == MOST_KINDS)) return nearest;
  u32 at = n_kinds++;
  kinds[at] = {n_steps, 0};
  return at;
}

bool KeptGroups::keep(u32 group, Steps* steps, bool chosen) {
  u64 n_steps = 0;
  for (u32 i = 0; i < n_waves; i++) n_steps += steps[i].n;
  const u32 known = n_kinds, kind = kind_of(n_steps);
  kinds[kind].groups++;
  n_groups++;
  if (!chosen && n_kinds == known) return false;
  all.add() = {group, kind, steps};
  return true;
}

void KeptGroups::choose(bool one_round) {
  for (u64 i = 1; i < all.n; i++)  // they ended in any order
    for (u64 k = i; k && all.at[k - 1].group > all.at[k].group; k--) {
      const Kept later = all.at[k - 1];
      all.at[k - 1] = all.at[k], all.at[k] = later;
    }
  if (all.n <= MOST_TIMED && all.n == n_groups) {
    for (; n_replayed < all.n; n_replayed++) replayed[n_replayed] = n_replayed;
    return;
  }
  u32 order[MOST_KINDS], used[MOST_KINDS] = {};  // by what they did
  for (u32 i = 0; i < n_kinds; i++) {
    u32 at = i;
    for (; at && kinds[order[at - 1]].n_steps > kinds[i].n_steps; at--) order[at] = order[at - 1];
    order[at] = i;
  }
  for (u32 i = 0; i < MOST_TIMED; i++) {
    u32 at = 0;
    u64 before = kinds[order[0]].groups;
    while (before * 2 * MOST_TIMED <= (u64)n_groups * (2 * i + 1)) before += kinds[order[++at]].groups;
    const u32 kind = order[one_round && i == MOST_TIMED - 1 ? n_kinds - 1 : at];
    u32 of_kind = 0, seen = 0;
    for (u64 k = 0; k < all.n; k++) of_kind += all.at[k].kind == kind;
    const u32 nth = used[kind]++ % of_kind;
    for (u64 k = 0; k < all.n; k++)
      if (all.at[k].kind == kind && seen++ == nth) replayed[n_replayed++] = (u32)k;
  }
}

void KeptGroups::forget() {
  for (u64 i = 0; i < all.n; i++) {
    for (u32 k = 0; k < n_waves; k++) free(all.at[i].steps[k].at);
    free(all.at[i].steps);
  }
  free(all.at);
  all = {};
  n_replayed = 0;
}
