#include "recorded_groups.h"
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

void KeptGroups::spread_over(u32 among, bool and_longest) {
  seeks_longest = and_longest;
  long_from = NEVER_LONG;
  every = (among + MOST_TIMED - 1) / MOST_TIMED;
  if (every % 2 == 0) every += (MOST_TIMED - 1) * (every + 1) < among ? 1 : -1;
  const u32 most = (among - 1) / every, steps = most < MOST_TIMED ? most : MOST_TIMED - 1;
  first = (among - 1 - steps * every) / 2;
}

bool KeptGroups::is_chosen(u32 number) const {
  const u32 behind = number - first;
  return number >= first && behind % every == 0 && behind / every < MOST_TIMED;
}

bool KeptGroups::keep(u32 group, Steps* steps, u32 number, bool works, u64 n_steps, Recorded as) {
  if (as != CHOSEN) return works && keep_longest({group, 0, n_steps, steps, as});
  if (!number && seeks_longest) long_from = n_steps;
  const bool chosen = is_chosen(number);
  if (!works) n_steps = 0;
  u32 kind = 0, known = n_kinds;
  if (works) {
    kind = kind_of(n_steps);
    kinds[kind].groups++;
    n_groups++;
  }
  const bool of_use = chosen || (all_come && n_kinds > known), spare = !of_use && works && is_spare(number);
  if (of_use || spare) all.add() = {group, kind, n_steps, steps, CHOSEN, spare};
  return of_use || spare;
}

bool KeptGroups::keep_longest(const Kept& longer) {
  Kept* one = nullptr;
  for (u64 i = 0; i < all.count; i++)
    if (all[i].as != CHOSEN) one = &all[i];
  if (one && one->n_steps >= longer.n_steps) return false;
  if (one) forget(*one);
  else one = &all.add();
  *one = longer;
  return true;
}

// It counts where it did more than the others by a quarter. The first workgroup may be it.
void KeptGroups::take_longest() {
  const Kept *most = nullptr, *first = nullptr;
  u64 beside = all.count;
  for (u64 i = 0; i < all.count; i++) {
    const Kept& one = all[i];
    const bool chosen = one.as == CHOSEN && !one.spare;
    if (one.as != CHOSEN) beside = i;
    else if (!one.group) first = &one;
    if (chosen && seeks_longest && one.n_steps > longest.of_others) longest.of_others = one.n_steps;
    if (!chosen && (!most || one.n_steps > most->n_steps)) most = &one;
  }
  if (most && longest.of_others && most->n_steps * 4 > longest.of_others * 5) {
    longest.group = most->group, longest.n_steps = most->n_steps;
    longest_at = (Steps*)calloc(n_waves, sizeof(Steps));
    const Kept* parts[] = {most->as == LATE ? first : nullptr, most};
    for (u32 i = 0; i < 2 * n_waves; i++)
      if (const Kept* part = parts[i / n_waves])
        for (u64 k = 0; k < part->steps[i % n_waves].count; k++)
          longest_at[i % n_waves].add() = part->steps[i % n_waves][k];
  }
  if (beside == all.count) return;
  forget(all[beside]);
  all[beside] = all[--all.count];
}

void KeptGroups::forget(const Kept& kept) {
  for (u32 k = 0; k < n_waves; k++) kept.steps[k].release();
  free(kept.steps);
}

void KeptGroups::leave_the_working() {
  take_longest();
  u64 working = 0, spares = 0;
  for (u64 i = 0; i < all.count; i++) (all[i].spare ? spares : working) += all[i].n_steps > 0;
  if (!working && !spares) kinds[0] = {0, (u32)all.count}, n_kinds = 1, n_groups = (u32)all.count;
  const u64 before = all.count;
  all.count = 0;
  for (u64 i = 0; i < before; i++) {
    const Kept one = all[i];
    if (working ? one.n_steps && !one.spare : !spares || one.spare) all[all.count++] = one;
    else forget(one);
  }
  for (u64 i = 1; i < all.count; i++)  // they ended in any order
    for (u64 k = i; k && all[k - 1].group > all[k].group; k--) {
      const Kept later = all[k - 1];
      all[k - 1] = all[k], all[k] = later;
    }
}

void KeptGroups::choose(bool one_round) {
  leave_the_working();
  if (!all_come || (all.count <= MOST_TIMED && all.count == n_groups)) {
    for (; n_replayed < all.count; n_replayed++) replayed[n_replayed] = n_replayed;
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
    for (u64 k = 0; k < all.count; k++) of_kind += all[k].kind == kind;
    const u32 nth = used[kind]++ % of_kind;
    for (u64 k = 0; k < all.count; k++)
      if (all[k].kind == kind && seen++ == nth) replayed[n_replayed++] = (u32)k;
  }
}

void KeptGroups::choose_alike(WorkOf whole, WorkOf probes, double of_probe, bool by_work) {
  leave_the_working();
  const u32 n = (u32)all.count;
  double like[MOST_TIMED] = {}, owed[MOST_TIMED] = {}, in_all = 0, fewest = 1e300, most = 0;
  auto add = [&](u64 n_steps, double stands_for) {
    u64 nearest = ~0ull, apart[MOST_TIMED];
    u32 n_nearest = 0;
    for (u32 k = 0; k < n; k++) {
      const u64 of = all[k].n_steps;
      apart[k] = of > n_steps ? of - n_steps : n_steps - of;
      if (apart[k] < nearest) nearest = apart[k], n_nearest = 0;
      n_nearest += apart[k] == nearest;
    }
    for (u32 k = 0; k < n; k++) like[k] += apart[k] == nearest ? stands_for / n_nearest : 0;
    in_all += stands_for;
  };
  for (u32 i = 0; i < whole.n; i++)
    if (whole.of[i]) add(whole.of[i], 1);
  for (u32 i = 0; i < probes.n; i++)
    if (probes.of[i]) add(probes.of[i], of_probe);
  for (u32 k = 0; k < n; k++) fewest = like[k] < fewest ? like[k] : fewest, most = like[k] > most ? like[k] : most;
  if (!by_work || most <= 1.01 * fewest) {  // all alike
    for (; n_replayed < n; n_replayed++) replayed[n_replayed] = n_replayed;
    return;
  }
  for (; n_replayed < MOST_REPLAYED; n_replayed++) {
    u32 next = 0;
    for (u32 k = 0; k < n; k++) owed[k] += like[k] / in_all, next = owed[k] > owed[next] ? k : next;
    owed[next]--;
    replayed[n_replayed] = next;
  }
}

Longest KeptGroups::longest_of(u64 mean) const {
  Longest of = longest;
  of.mean = seeks_longest ? mean : 0;
  return of;
}

void KeptGroups::forget() {
  for (u64 i = 0; i < all.count; i++) forget(all[i]);
  all.release();
  all = {};
  for (u32 w = 0; longest_at && w < n_waves; w++) longest_at[w].release();
  free(longest_at);
  longest_at = nullptr;
  n_replayed = 0;
}
