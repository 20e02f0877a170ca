// A CU's share of the card, and what follows from replays of one CU for the whole launch.
#include "launch_time.h"

constexpr u32 MOST_ROUNDS =
    4;                  // replayed; the rest take as long as the last but one of them, which has another behind it
constexpr u32 CUS = 8;  // replayed, with different workgroups

static double larger(double a, double b) { return a > b ? a : b; }
static u32 least(u64 a, u64 b) { return (u32)(a < b ? a : b); }
static u64 sum(const u64* a, u32 n) {
  u64 all = 0;
  for (u32 i = 0; i < n; i++) all += a[i];
  return all;
}
static double ratio(u64 a, u64 b) { return b ? (double)a / (double)b : 0; }

// Cycles that one of `active` CUs, or workgroups, takes for a line, where all of them ask for lines at once.
struct Share {
  const Card& card;
  double mhz, active;
  double cycles(double gb_s, double lines) const { return lines * LINE_BYTES * active * mhz * 1e-3 / gb_s; }
};

// Counts that were scaled are rounded, each on its own: what is left at the end may be a few bytes more than all.
static u64 written_before_the_end(u64 bytes, const MemoryTraffic& t) {
  return bytes > t.left_dirty ? bytes - t.left_dirty : 0;
}

// Of what is read from HBM, the share that loads marked `nt` ask for.
static double non_temporal_share(const RecordedLaunch& l) {
  u64 all = 0, marked = 0;
  for (u32 i = 0; i < l.n_recorded * l.n_waves; i++) {
    const Steps& steps = l.groups[i / l.n_waves].waves[i % l.n_waves];
    for (u64 k = 0; k < steps.count; k++) {
      const Timing& t = l.timings[steps[k].pc];
      if (t.unit != MEMORY_UNIT) continue;
      const Asked asked(steps[++k]);
      if (asked.level != IN_MEMORY) continue;
      all += asked.lines;
      if (t.non_temporal) marked += asked.lines;
    }
  }
  return ratio(marked, all);
}

static void share_bandwidth(Machine& m, u32 which, const Card& card, double mhz, double active, const MemoryTraffic& t,
                            bool warm, double non_temporal) {
  u64 l2_read = sum(t.l2_read, 8), l2_write = sum(t.l2_write, 8);
  double fabric_read = ratio(sum(t.fabric_read, 8), l2_read);
  double fabric_write = ratio(written_before_the_end(sum(t.fabric_write, 8), t), l2_write);
  double hbm_read = warm ? 0 : ratio(t.hbm_read, l2_read);
  double hbm_write = warm ? 0 : ratio(written_before_the_end(t.hbm_write, t), l2_write);
  Share s = {card, mhz, active};
  double of_l2 = mhz / card.clock_mhz;  // whose bandwidth goes with the clock
  m.read_line[which] =
      larger(larger(s.cycles(card.l2_read_gb_s * of_l2, 1), s.cycles(card.fabric_read_gb_s, fabric_read)),
             s.cycles(card.hbm_read_gb_s, hbm_read * (1 - non_temporal)) +
                 s.cycles(card.hbm_nt_read_gb_s, hbm_read * non_temporal));
  m.write_half[which] =
      0.5 * larger(larger(s.cycles(card.l2_write_gb_s * of_l2, 1), s.cycles(card.fabric_write_gb_s, fabric_write)),
                   s.cycles(card.hbm_write_gb_s, hbm_write));
}

// Cycles for half a line on the links, one direction of them: all together, or the one that most crosses.
static double link_half(const Share& s, const u64* bytes, double together_gb_s) {
  double all = (double)sum(bytes, MOST_PEERS), most = 0;
  for (u32 i = 0; i < MOST_PEERS; i++) most = larger(most, (double)bytes[i]);
  if (!all) return 0;
  return 0.5 * larger(s.cycles(together_gb_s, 1), s.cycles(s.card.link_alone_gb_s, most / all));
}

// What the busiest of the workgroups recorded asks for. `of`: an instruction.
static double asked_by_busiest(const RecordedLaunch& l, bool of_longest, double (*of)(const Asked&)) {
  double busiest = of_longest ? asked_by(l.longest, l.n_waves, l.timings, of) : 0;
  for (u32 i = 0; i < l.n_recorded; i++)
    busiest = larger(busiest, asked_by(l.groups[i].waves, l.n_waves, l.timings, of));
  return busiest;
}

// The share of a launch's workgroups that are at work while the busiest is, if all fit on the card at once.
// mean: what a workgroup of the grid asks for.
static double share_at_work(double mean, double busiest) { return mean < busiest ? mean / busiest : 1; }

// of_longest: a CU that has the workgroup with most to do, as it goes on while others have ended.
static Machine machine_of(const Card& card, const RecordedLaunch& l, const MemoryTraffic& t, double mhz, bool warm,
                          bool of_longest = false) {
  Machine m = {};
  double beyond_l2 = mhz / card.clock_mhz;  // what is not clocked with the CUs
  m.latency[IN_L1] = card.l1_cycles;
  m.latency[IN_L2] = card.l2_cycles;
  m.latency[IN_MEMORY_SIDE] = card.l2_cycles + (card.memory_side_cycles - card.l2_cycles) * beyond_l2;
  m.latency[IN_MEMORY] =
      warm ? m.latency[IN_MEMORY_SIDE] : card.l2_cycles + (card.memory_cycles - card.l2_cycles) * beyond_l2;
  m.latency[IN_PEER] = card.l2_cycles + (card.link_cycles - card.l2_cycles) * beyond_l2;
  m.store_latency = card.store_cycles;
  m.lds_latency = card.lds_cycles;
  m.scalar_cold = card.scalar_cold_cycles * beyond_l2;
  m.scalar_next = card.scalar_next_cycles * beyond_l2;
  m.scalar_warm = card.scalar_cycles;
  m.barrier = card.barrier_cycles;
  m.refill = l.leaves_whole ? card.refill_group_cycles : card.refill_wave_cycles;
  m.in_flight_lines = card.l1_in_flight_bytes / LINE_BYTES;
  m.l1_queue = card.l1_queue_entries;
  m.lds_queue = card.lds_queue_entries;
  // The dispatcher starts a wave in 4 cycles on each shader engine, and workgroups on its CUs in turn.
  m.group_start = 4.0 * l.n_waves * card.compute_units / (card.shader_engines_per_xcd * card.xcds);
  u32 share = (l.groups_in_all + card.compute_units - 1) / card.compute_units;
  m.copies = least(share, l.groups_per_cu);
  u64 round = (u64)card.compute_units * m.copies;
  m.rounds = (u32)(l.groups_in_all / round);
  u32 left = (u32)(l.groups_in_all % round);
  m.last_groups = (left + card.compute_units - 1) / card.compute_units;
  bool one_round = m.rounds + (m.last_groups > 0) == 1;
  double lines = (double)sum(t.l2_read, 8) / LINE_BYTES / l.groups_in_all;
  double crossing = (double)(sum(t.link_read, MOST_PEERS) + sum(t.link_write, MOST_PEERS)) * 2 / LINE_BYTES;
  double at_work = one_round ? share_at_work(lines, l.asks * asked_by_busiest(l, of_longest, lines_read)) : 1;
  m.most_crossing = crossing ? l.asks * asked_by_busiest(l, of_longest, over_links) : 0;
  double at_links = share_at_work(crossing / l.groups_in_all, m.most_crossing);
  double active[2] = {(double)least(l.groups_in_all, card.compute_units),
                      left ? (double)left / m.last_groups : 1};  // those with fewer workgroups leave their share
  for (u32 tail = 0; tail < 2; tail++) {
    share_bandwidth(m, tail, card, mhz, tail ? active[1] : at_work * active[0], t, warm, l.non_temporal);
    Share links = {card, mhz, larger(1, at_links * (double)(tail ? left : least(l.groups_in_all, round)))};
    m.link_read[tail] = link_half(links, t.link_read, card.links_read_gb_s);
    m.link_write[tail] = link_half(links, t.link_write, card.links_write_gb_s);
  }
  return m;
}

// A CU that has the workgroup with most to do beside others.
static double longest_cycles(Machine m, const RecordedLaunch& l, const ReplayOptions& options) {
  RecordedGroup groups[MOST_REPLAYED + 1] = {{l.longest}};
  for (u32 i = 0; i < l.n_recorded; i++) groups[i + 1] = l.groups[i];
  m.rounds = 1, m.last_groups = 0;
  return replay_cu(m, l.timings, groups, l.n_recorded + 1, 0, l.n_waves, options).all;
}

struct Cycles {
  double all, others;  // for as much work as those recorded have; others: as if no workgroup did much more than they
};
static Cycles cycles_at(const Card& card, const RecordedLaunch& l, const MemoryTraffic& t, double mhz, bool warm,
                        const ReplayOptions& options) {
  const bool alike = options.change && options.change->alike;
  Machine m = machine_of(card, l, t, mhz, warm);
  u32 more = m.rounds > MOST_ROUNDS ? m.rounds - MOST_ROUNDS : 0, cus = least(CUS, l.n_recorded);
  m.rounds -= more;
  bool one_round = m.rounds + (m.last_groups > 0) == 1;
  double mean = 0, most = 0;
  for (u32 i = 0; i < cus; i++) {
    Replayed r = replay_cu(m, l.timings, l.groups, l.n_recorded, i * l.n_recorded / cus, l.n_waves, options);
    double cycles = r.all + more * r.marginal;
    mean += cycles / cus;
    most = larger(most, cycles);
  }
  // In one round all wait for the slowest CU; in several it gets fewer workgroups.
  const double others = one_round && !alike ? most : mean;
  if (!l.longest || alike) return {others, others};
  const double longest = longest_cycles(machine_of(card, l, t, mhz, warm, true), l, options);
  return {larger(others, longest / l.work), others};
}

// Cycles of a SIMD's matrix core, and of all units what they count where power is concerned, as cycles of it.
struct BusyCycles {
  double matrix, power;
};
static BusyCycles busy_cycles(const Card& card, const RecordedLaunch& l, const Change* change) {
  const u16* left_out = change ? change->left_out : nullptr;
  double matrix = 0, power = 0, lds = 0;
  for (u32 i = 0; i < l.n_recorded * l.n_waves; i++) {
    const Steps& steps = l.groups[i / l.n_waves].waves[i % l.n_waves];
    for (u64 k = 0; k < steps.count; k++) {
      const Step& step = steps[k];
      const Timing& t = l.timings[step.pc];
      if (t.unit == MEMORY_UNIT) k++;
      if (left_out && left_out[step.pc] & WITHOUT_IT) continue;
      if (t.unit == LDS_UNIT) lds += cycles_of(step.amount);
      if (t.unit == MATRIX_UNIT) matrix += t.cycles, power += t.cycles * (t.eight_bits ? card.eight_bit_power : 1);
    }
  }
  const double of_cu = (change ? change->steps : 1) * l.groups_in_all / l.n_recorded / card.compute_units;
  const double of_simd = of_cu / card.simds_per_cu;
  return {matrix * of_simd, power * of_simd + lds * of_cu * card.lds_power};
}

static double cube_root(double x) {  // no libm: HIP programs link the engine without it
  double root = 1;
  for (int i = 0; i < 60; i++) root -= (root - x / (root * root)) / 3;
  return root;
}

// Power holds the clock to card.sustained_mhz where the matrix cores alone are always busy. Else it is that at which
// power * mhz^3 is the same: power goes with the clock and the square of the voltage, and the voltage with the clock.
static double sustained_mhz(const Card& card, double power) {
  if (power <= 0) return card.clock_mhz;
  double mhz = card.sustained_mhz / cube_root(power);
  return mhz < card.clock_mhz ? mhz : card.clock_mhz;
}

LaunchTime launch_time(const Card& card, const RecordedLaunch& recorded, const MemoryTraffic& t, bool warm,
                       const ReplayOptions& options) {
  RecordedLaunch l = recorded;
  double mhz = card.clock_mhz, share = 0;
  Cycles cycles = {};
  if (!l.groups_in_all || !l.n_recorded) return {0, mhz, 0, 0, 0};
  l.non_temporal = non_temporal_share(l);
  const BusyCycles busy = busy_cycles(card, l, options.change);
  for (int i = 0; i < 3; i++) {
    ReplayOptions now = options;
    if (i) now.stalls = nullptr;
    cycles = cycles_at(card, l, t, mhz, warm, now);
    share = busy.matrix < cycles.all ? busy.matrix / cycles.all : 1;
    double held = sustained_mhz(card, busy.power / cycles.all);
    if (held > 0.99 * mhz && held < 1.01 * mhz) break;
    mhz = i ? (held + mhz) / 2 : held;
  }
  return {cycles.all * l.work, mhz, share, cycles.others * l.work, l.non_temporal};
}

static void scale(u64* bytes, u32 n, double by) {
  for (u32 i = 0; i < n; i++) bytes[i] = (u64)((double)bytes[i] * by);
}

// The workgroups that a changed launch has.
static RecordedLaunch changed(const Card& card, RecordedLaunch l, const Change& c) {
  l.groups_in_all = (u32)larger(1, l.groups_in_all * c.groups + 0.5);
  l.groups_per_cu += c.more_groups_per_cu;
  l.asks = c.steps * c.loads;
  if (!c.whole_rounds) return l;
  const u32 share = (l.groups_in_all + card.compute_units - 1) / card.compute_units;
  const u32 round = card.compute_units * least(share, l.groups_per_cu), all = l.groups_in_all;
  if (all > round) l.groups_in_all = all / round * round, l.work *= (double)all / l.groups_in_all;
  return l;
}

Left launch_time_with(const Card& card, const RecordedLaunch& as_it_is, const MemoryTraffic& t, bool warm,
                      const Change& c) {
  const RecordedLaunch l = changed(card, as_it_is, c);
  // Lines read that were at a level or farther, and written: of all, and of those that are left.
  double all[N_LEVELS + 1] = {}, left[N_LEVELS + 1] = {}, links_before = 0, links_after = 0;
  auto leaves = [&](u32 pc, u32 what) { return c.left_out && c.left_out[pc] & what; };
  for (u32 i = 0; i < l.n_recorded * l.n_waves; i++) {
    const Steps& steps = l.groups[i / l.n_waves].waves[i % l.n_waves];
    for (u64 k = 0; k < steps.count; k++) {
      const Step& step = steps[k];
      if (l.timings[step.pc].unit != MEMORY_UNIT) continue;
      const Asked before(steps[++k]);
      Asked after = leaves(step.pc, WITHOUT_WASTE) ? without_waste(before, step.amount) : before;
      if (leaves(step.pc, WITHOUT_IT)) after.lines = after.halves = after.link_reads = after.link_writes = 0;
      for (u32 level = IN_L1; level <= before.level; level++) all[level] += before.lines, left[level] += after.lines;
      all[N_LEVELS] += before.halves, left[N_LEVELS] += after.halves;
      links_before += before.link_reads + before.link_writes;
      links_after += after.link_reads + after.link_writes;
    }
  }
  const double in_all = c.groups * c.steps, loads = in_all * c.loads;
  auto share = [&](u32 level) { return all[level] > 0 ? loads * left[level] / all[level] : 1; };
  Left r = {{},
            share(IN_L1),
            share(IN_MEMORY_SIDE),
            // What is read more or less often is read from the caches.
            share(IN_MEMORY) / (c.loads * in_all),
            all[N_LEVELS] > 0 ? left[N_LEVELS] / all[N_LEVELS] : 1,
            links_before > 0 ? loads * links_after / links_before : 1};
  if (c.near) {  // each XCD reads what no other one does
    const double fabric = (double)sum(t.fabric_read, 8), least = larger((double)t.hbm_read, fabric / card.xcds);
    if (least < fabric) r.fabric_read *= least / fabric;
  }
  MemoryTraffic less = t;
  scale(less.l2_read, 8, r.l2_read);
  scale(less.fabric_read, 8, r.fabric_read);
  scale(&less.hbm_read, 1, r.hbm_read);
  scale(less.l2_write, 8, r.write);
  scale(less.fabric_write, 8, r.write);
  scale(&less.hbm_write, 1, r.write);
  scale(&less.left_dirty, 1, r.write);
  scale(less.link_read, MOST_PEERS, r.links);
  scale(less.link_write, MOST_PEERS, r.links);
  r.time = launch_time(card, l, less, warm, {&c, nullptr, nullptr, nullptr});
  return r;
}

void launch_timeline(const Card& card, const RecordedLaunch& l, const MemoryTraffic& t, bool warm, double mhz,
                     const ReplayOptions& options) {
  Machine m = machine_of(card, l, t, mhz, warm, l.longest);
  m.rounds = least(m.rounds, MOST_ROUNDS);
  if (l.longest) longest_cycles(m, l, options);
  else replay_cu(m, l.timings, l.groups, l.n_recorded, 0, l.n_waves, options);
}
