// Which lines of memory an access asks for: of the L1, and of the L2 where that has not got them.
#include "counting.h"
#include <stdlib.h>

constexpr u64 MOST_ENTRIES = 64ull << 20;   // of traces at a time: 512 MiB
constexpr u64 SCRATCH_MEMORY = 1ull << 48;  // beyond a host's addresses
constexpr u32 MOST_LINES_OF_POLL = 4096;    // line accesses

constexpr bool same_l1() {
  for (const Card& card : CARDS)
    if (card.l1_sets != CARDS[0].l1_sets || card.l1_bytes != CARDS[0].l1_bytes) return false;
  return true;
}
static_assert(same_l1(), "the L1 is compiled in: all cards must have the same");

// Distinct lines of an access, each with the halves touched; returns how many and adds up the halves. l1_cycles: the L1
// takes as many lanes at a time as have 64 bytes, and a cycle for each half of a line that these ask for: lanes that are
// farther apart are not joined (ROCm Compute Profiler, vL1D: an instruction whose neighbours lie in different lines makes
// four times the requests).
static u32 lines_apart(Counting& c, const LaneAccess& a, u64* segments, u32* l1_cycles) {
  const u32 at_a_time = a.bytes <= 4 ? 16 : a.bytes <= 8 ? 8 : 4;
  u64 together[2 * 16];
  u32 n_together = 0, turn = ~0u;
  u64 key[256];
  u16 place[256];
  u64 occupied[4] = {};
  u32 n = 0;
  u64 last = ~0ull, *previous = nullptr;
  for (u64 m = a.lanes; m; m &= m - 1) {
    const u32 lane = (u32)__builtin_ctzll(m);
    u64 address = a.address[lane];
    if (lane / at_a_time != turn) turn = lane / at_a_time, n_together = 0;
    for (u64 s = address >> 6; s <= (address + a.bytes - 1) >> 6; s++) {
      u64 line = s >> 1;
      u32 known = n_together;
      while (known && together[known - 1] != s) known--;
      if (!known) together[n_together++] = s, ++*l1_cycles;
      if (line != last) {
        u32 h = (u32)(line * 0x9e3779b1u >> 7) & 255;
        while ((occupied[h >> 6] >> (h & 63) & 1) && key[h] != line) h = (h + 1) & 255;
        if (!(occupied[h >> 6] >> (h & 63) & 1)) {
          occupied[h >> 6] |= 1ull << (h & 63);
          key[h] = line;
          place[h] = n;
          c.lines[n++] = line << 2;
        }
        previous = &c.lines[place[h]];
        last = line;
      }
      *previous |= 1 << (s & 1);
    }
  }
  for (u32 i = 0; i < n; i++) *segments += __builtin_popcount(c.lines[i] & 3);
  return n;
}

static u32 distinct_lines(Counting& c, const LaneAccess& a, u64* segments, u32* l1_cycles) {
  if (!a.lanes) return 0;
  const u64 first = a.address[__builtin_ctzll(a.lanes)], first_line = first / LINE_BYTES;
  bool known = false;
  Lines* kept = c.in_memory.of(a.address, a.lanes, (u32)(first % LINE_BYTES) << 8 | a.bytes, known);
  if (known && kept->n) {
    for (u32 i = 0; i < kept->n; i++) c.lines[i] = (first_line + kept->behind[i]) << 2 | kept->halves[i];
    *segments += kept->segments;
    *l1_cycles += kept->l1_cycles;
    return kept->n;
  }
  const u64 segments_before = *segments;
  const u32 cycles_before = *l1_cycles, n = lines_apart(c, a, segments, l1_cycles);
  if (!kept) return n;
  *kept = {n <= Lines::MOST ? n : 0, (u32)(*segments - segments_before), *l1_cycles - cycles_before, {}, {}};
  for (u32 i = 0; i < kept->n; i++) {
    kept->behind[i] = (i32)((c.lines[i] >> 2) - first_line);
    kept->halves[i] = c.lines[i] & 3;
  }
  return n;
}

// Lanes that ask for different dwords of a line are served together, those that ask for the same one after the other:
// with each lane served on its own, AITER's split-K kernels on an MI355X would take 7.3 us where 5.3 are published.
static void count_atomics(Counting& c, const LaneAccess& a) {
  constexpr u32 PLACES = 2 * WAVE;
  u64 dword[PLACES], line[PLACES];
  u16 lanes[PLACES] = {}, most[PLACES] = {};
  auto place = [](const u64* keys, const u16* taken, u64 key) {
    u32 at = (u32)(key * 0x9e3779b97f4a7c15ull >> 57);
    while (taken[at] && keys[at] != key) at = (at + 1) % PLACES;
    return at;
  };
  for (u64 m = a.lanes; m; m &= m - 1) {
    u64 address = a.address[__builtin_ctzll(m)];
    u32 d = place(dword, lanes, address / 4), l = place(line, most, address / LINE_BYTES);
    dword[d] = address / 4;
    line[l] = address / LINE_BYTES;
    lanes[d]++;
    if (lanes[d] > most[l]) most[l] = lanes[d];
  }
  for (u32 i = 0; i < PLACES; i++)
    if (most[i]) c.atomics.add(line[i], most[i]);
}

void record_line(Counting& c, GroupCount& g, LineAccess entry) {
  Held* held = c.holding;
  if (held && held->lines.count < MOST_LINES_OF_POLL) {
    held->lines.add() = entry;
    return;
  }
  Trace& t = g.trace;
  g.works = true;
  if (t.n == t.capacity) {
    u64 more = 1024 + t.capacity / 8;  // twice as much is room for half of a batch
    if (__atomic_add_fetch(&c.source->entries, more, __ATOMIC_RELAXED) > MOST_ENTRIES) {
      __atomic_sub_fetch(&c.source->entries, more, __ATOMIC_RELAXED);
      c.totals.unrecorded++;
      return;
    }
    t.capacity += more;
    t.entries = (LineAccess*)realloc(t.entries, t.capacity * sizeof *t.entries);
  }
  t.entries[t.n++] = entry;
}

constexpr u32 MANY_LINES = 16;
static bool in_one_set(const u64* lines, u32 n) {  // line << 2
  for (u32 i = 1; i < n; i++)
    if ((lines[i] >> 2) % L1::SETS != (lines[0] >> 2) % L1::SETS) return false;
  return true;
}

// The lines of an access: asked of the L1, and of the L2 where that has not got them.
static void touch_lines(Counting& c, GroupCount& g, const LaneAccess& a, const Inst& in, InstructionCounters& n,
                        u64* segments, u32* l1_cycles) {
  bool around_l1 = a.flags & (WRITES | ATOMIC) || in.flags & SC1;
  u32 lines = distinct_lines(c, a, segments, l1_cycles);
  for (u32 k = 0; k < lines; k++) {
    u64 line = c.lines[k] >> 2, halves = c.lines[k] & 3, where = around_l1 ? AROUND : 0;
    if (u64 peer = c.source->peers.n ? c.source->peers.peer_of(line * LINE_BYTES) : 0)
      where |= peer << PEER_BIT | halves;
    if (a.flags & READS) {
      (c.holding ? c.holding->l1_reads : c.totals.l1_reads)++;
      if (!around_l1 && g.l1.load(line, c.source->l1_ways)) {
        (c.holding ? c.holding->l1_hits : c.totals.l1_hits)++;
        continue;
      }
      record_line(c, g, line << 3 | where | (a.flags & ATOMIC ? ATOMIC_ACCESS : 0));
    }
    if (a.flags & WRITES) record_line(c, g, line << 3 | where | 4 | halves);
  }
  n.lines += lines;
  if (lines >= MANY_LINES && in_one_set(c.lines, lines)) n.same_set_lines += lines;
}

// Dword k of each lane of an access to scratch, where the memory behind it has it: interleaved by lanes, each wave's behind
// the one's before it, and a workgroup's where another one's was that has left the card.
static LaneAccess scratch_dword(const Source& s, const Wave& w, const LaneAccess& a, u32 k) {
  u64 wave = (u64)(w.wg->linear_id % s.grid.batch) * s.n_waves + w.id;
  u64 base = SCRATCH_MEMORY + wave * s.totals.scratch_bytes * WAVE;
  LaneAccess dword = a;
  dword.bytes = 4;
  for (u64 i = 0; i < WAVE; i++) dword.address[i] = base + (a.address[i] / 4 + k) * 4 * WAVE + 4 * i;
  return dword;
}

u32 count_memory(Counting& c, GroupCount& g, Wave& w, const Inst& in, u32 pc, InstructionCounters& n) {
  const Facts& facts = *c.facts[pc];
  u32 l1_cycles = 0, ideal = 0;
  u32 parts = facts.space == NONE_SPACE ? 0 : observed_accesses(w, in, facts, c.accesses);
  for (u32 i = 0; i < parts; i++) {
    LaneAccess& a = c.accesses[i];
    if (a.space == LDS_SPACE) {
      if (&n == &c.unseen) continue;
      u64 before = n.bytes;
      count_lds_access(c, n, a);
      if (facts.is(FACT_TO_LDS)) n.bytes = before;  // the same bytes that memory sends
      continue;
    }
    u32 turns = 0;
    u64 segments = 0, bytes = (u64)__builtin_popcountll(a.lanes) * a.bytes, least = (bytes + 63) / 64;
    if (a.space == SCRATCH_SPACE) {
      for (u32 k = 0; k < (a.bytes + 3) / 4; k++)
        touch_lines(c, g, scratch_dword(*c.source, w, a, k), in, n, &segments, &turns);
    } else {
      if (a.flags & ATOMIC) count_atomics(c, a);
      touch_lines(c, g, a, in, n, &segments, &turns);
    }
    if (least > segments || a.space == SCRATCH_SPACE) least = segments;
    l1_cycles += turns > 4 ? turns : 4;
    ideal += least > 4 ? (u32)least : 4;
    n.segments += segments;
    n.bytes += bytes;
  }
  n.cycles += l1_cycles;
  return both(l1_cycles, ideal);
}
