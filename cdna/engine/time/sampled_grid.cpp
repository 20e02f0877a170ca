#include "sampled_grid.h"
#include <stdlib.h>

void Grid::whole(u32 n_workgroups, u32 of_batch) {
  total = n_in_batches = n_workgroups;
  batch = of_batch;
  n_batches = (total + batch - 1) / batch;
}

// Of more than half little is saved.
u32 Grid::pairs_in() const { return n_batches < 4 ? 0 : (n_batches * 11 / 20 - 1) / 2; }
bool Grid::is_worth_spreading() const { return pairs_in() >= FEWEST_PAIRS; }

void Grid::sample(bool spread) {
  const u32 all = n_batches, most = pairs_in();
  if (all <= SAMPLED_BATCHES) return;
  pairs = !spread ? 1 : most < MOST_PAIRS ? most : MOST_PAIRS;
  n_batches = 1 + 2 * pairs;
  groups = (u32*)calloc(n_batches * batch + PROBES, sizeof(u32));
  for (u32 i = 0; i < n_batches; i++) {
    batches[i] = i == 0 ? 0 : all * ((i - 1) / 2 * 2 + 1) / (2 * pairs) - i % 2;
    for (u32 k = 0; k < batch; k++) groups[n_groups++] = batches[i] * batch + k;
  }
  done = (u64*)calloc(n_batches * batch + PROBES, sizeof(u64));
  n_in_batches = n_groups;
  const u32 left = total - n_groups;
  n_probes = left < PROBES ? left : PROBES;
  for (u32 i = 0; i < n_probes; i++) {
    const u64 within = i * 40503u & 0xffff;  // of each part another place, by the golden ratio: work may repeat itself
    u32 group = (u32)(((u64)i << 16 | within) * left / ((u64)n_probes << 16));
    for (u32 k = 0; k < n_batches; k++) group += group >= batches[k] * batch ? batch : 0;
    groups[n_groups++] = group;
  }
}

u32 Grid::number_of(u32 group) const {
  if (!groups) return group;
  u32 place = 0;
  while (place < n_batches && batches[place] != group / batch) place++;
  return place * batch + group % batch;
}

u32 Grid::timed_number(u32 group) const {
  const u32 number = number_of(group);
  if (groups && (number >= n_in_batches || number / batch % 2)) return ~0u;
  return groups ? number - number / batch / 2 * batch : number;  // without those that only warm the caches
}

void Grid::ended(u32 number, bool works, u64 n_steps) {
  working_in[number < batch ? 0 : 2 - number / batch % 2] += works;
  if (groups) done[number] = works ? n_steps : 0;
  else if (works) all_steps += n_steps;
}

void Grid::probe_ended(bool works, u64 n_steps) {
  const u32 number = __atomic_fetch_add(&working_probes, works, __ATOMIC_RELAXED);
  if (works) done[n_in_batches + number] = n_steps;
}

static void add(MemoryTraffic& to, const MemoryTraffic& from, double weight) {
  for (u32 x = 0; x < 8; x++) {
    to.l2_read[x] += (u64)(weight * from.l2_read[x]);
    to.l2_write[x] += (u64)(weight * from.l2_write[x]);
    to.fabric_read[x] += (u64)(weight * from.fabric_read[x]);
    to.fabric_write[x] += (u64)(weight * from.fabric_write[x]);
  }
  to.hbm_read += (u64)(weight * from.hbm_read);
  to.hbm_write += (u64)(weight * from.hbm_write);
  for (u32 i = 0; i < MOST_PEERS; i++) {
    to.link_read[i] += (u64)(weight * from.link_read[i]);
    to.link_write[i] += (u64)(weight * from.link_write[i]);
  }
}

void Grid::asked(u32 of_batch, const MemoryTraffic& traffic, MemoryTraffic& all) {
  if (!groups || !of_batch) add(all, traffic, 1);
  else if (of_batch % 2 == 0) add(others, traffic, 1);
  for (u64 bytes : traffic.l2_write) stored += bytes;
  evicted += traffic.hbm_write;
}

u32 Grid::working() const {
  const u32 ran = working_in[0] + working_in[1] + working_in[2], left = total - n_in_batches;
  return ran + (u32)(n_probes ? (u64)left * working_probes / n_probes : 0);
}

void Grid::Work::add(u64 of_one) {
  const double x = (double)of_one;
  if (of_one) steps += x, squares += x * x, n++;
}

Grid::Work Grid::of_batches(u32 first, u32 every) const {
  Work w = {};
  for (u32 b = first; b < n_batches; b += every)
    for (u32 i = b * batch; i < (b + 1) * batch && i < n_in_batches; i++) w.add(done[i]);
  return w;
}

Grid::Work Grid::of_probes() const {
  Work w = {};
  for (u32 i = 0; i < n_probes; i++) w.add(done[n_in_batches + i]);
  return w;
}

// Whether those that stand for others have as much to do as the probes do, to a 16th, or as far as so few can tell.
bool Grid::is_alike() const {
  const Work probes = of_probes();
  const double stand = of_batches(2, 2).mean(), mean = probes.mean(),
               apart = mean > stand ? mean - stand : stand - mean;
  if (!by_work || !stand || probes.n < 2 || apart <= stand / KeptGroups::ALIKE) return true;
  constexpr double FAR = 2.5;  // standard errors of the mean
  const double variance = (probes.squares - probes.steps * mean) / (probes.n - 1);
  return apart * apart * probes.n <= FAR * FAR * variance;
}

double Grid::work_of_others() const { return is_alike() ? 1 : of_probes().mean() / of_batches(2, 2).mean(); }

double Grid::work_of(u64 steps, u32 n) const {
  const u32 all = working();
  if (!groups || is_alike() || !steps || !all) return 1;
  const double grid = of_batches(0, n_batches).steps + (all - working_in[0]) * of_probes().mean();
  return grid / all / ((double)steps / n);
}

double Grid::work_of_run() const {
  Work all = of_probes(), in_batches = groups ? of_batches(0, 1) : Work{};
  return work_of((u64)(all.steps + in_batches.steps), all.n + in_batches.n);
}

void Grid::scale(MemoryTraffic& m) const {
  const double all = working() - working_in[0];
  if (!groups) return;
  if (working_in[2]) {
    add(m, others, all / working_in[2] * work_of_others());
  } else if (working_in[0]) {
    const MemoryTraffic first = m;
    add(m, first, all / working_in[0]);
  }
}

// What the grid writes back. The L2s hold more of a sample's stores until the end than of the grid's: of these what room
// there is beside the lines that were read.
void Grid::scale_write_back(const Card& card, MemoryTraffic& m) const {
  double in_all = 0, read = 0, sampled = 0;
  for (u32 x = 0; x < 8; x++) in_all += m.l2_write[x], read += m.fabric_read[x], sampled += m.fabric_write[x];
  if (!groups || !stored || sampled <= 0) return;
  const double all = in_all * (evicted + m.left_dirty) / stored, room = (double)card.l2_bytes * card.xcds;
  for (u64& bytes : m.fabric_write) bytes = (u64)(bytes * all / sampled);
  m.hbm_write = (u64)all;
  m.left_dirty = (u64)(all + read < room ? all : all * room / (all + read));
}

void Grid::choose(KeptGroups& kept, u32 in_all) const {
  if (!groups) return kept.choose(in_all <= batch);
  const double of_probe = n_probes ? (double)(total - n_in_batches) / n_probes : 0;
  kept.choose_alike({done, n_in_batches}, {done + n_in_batches, n_probes}, of_probe, by_work);
}

void Grid::forget() {
  free(groups);
  free(done);
}
