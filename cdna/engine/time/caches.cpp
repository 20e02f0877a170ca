// The cache model: 128-byte lines, L2 and memory-side cache 16 ways each with least-recently-used
// replacement, writes allocated in the L2 without a read and written back by halves of a line.
#include "caches.h"
#include "l1.h"
#include "isa/lock.h"
#include <stdlib.h>

constexpr u32 WAYS = 16;
constexpr u64 LINE_MASK = (1ull << (PEER_BIT - 3)) - 1;
// Entries of one workgroup before the next one's turn: about one load of a wave.
constexpr u32 TURN = 16;

void Cache::create(u64 bytes, u32 n_ways) {
  ways = n_ways;
  sets = (u32)(bytes / LINE_BYTES / ways);
  clock = 0;
  tags = (u64*)calloc((size_t)sets * ways, sizeof *tags);
  used = (u32*)calloc((size_t)sets * ways, sizeof *used);
  filled = (u32*)calloc((size_t)sets * ways, sizeof *filled);
  dirty = (u8*)calloc((size_t)sets * ways, sizeof *dirty);
}
void Cache::destroy() {
  free(tags);
  free(used);
  free(filled);
  free(dirty);
}
void Cache::clear() {
  memset(tags, 0, (size_t)sets * ways * sizeof *tags);
  memset(filled, 0, (size_t)sets * ways * sizeof *filled);  // turns begin anew
  memset(dirty, 0, (size_t)sets * ways * sizeof *dirty);
}

// Hardware hashes addresses over channels, so that strides of powers of two do not fall into one set.
static size_t first_way(const Cache& c, u64 line) {
  u64 h = (line ^ line >> 17) * 0x9e3779b97f4a7c15ull;
  return (size_t)((h >> 32) * c.sets >> 32) * c.ways;
}

void Cache::drop(u64 line) {
  size_t base = first_way(*this, line);
  for (u32 k = 0; k < ways; k++)
    if (tags[base + k] == line + 1 && !(dirty[base + k] & 3)) tags[base + k] = 0, dirty[base + k] = 0;
}

bool Cache::touch(u64 line, u8 dirty_halves, u8* evicted_halves, u64* evicted_line, size_t* way) {
  size_t base = first_way(*this, line);
  u32 oldest = 0;
  clock++;
  for (u32 k = 0; k < ways; k++) {
    if (tags[base + k] == line + 1) {
      used[base + k] = clock;
      dirty[base + k] |= dirty_halves;
      *evicted_halves = 0;
      *way = base + k;
      return true;
    }
    if (!tags[base + oldest]) continue;  // an empty way is taken first
    if (!tags[base + k] || used[base + k] < used[base + oldest]) oldest = k;
  }
  *way = base + oldest;
  *evicted_halves = tags[base + oldest] ? dirty[base + oldest] & 3 : 0;
  *evicted_line = tags[base + oldest] - 1;
  tags[base + oldest] = line + 1;
  used[base + oldest] = clock;
  dirty[base + oldest] = dirty_halves;
  return false;
}

// --- pages -----------------------------------------------------------------------------------------

constexpr u64 LINES_OF_PAGE = 4096 / LINE_BYTES;

static u64 place_of(const u64* hosts, u64 capacity, u64 page) {
  u64 at = (page * 0x9e3779b97f4a7c15ull >> 32) & (capacity - 1);
  while (hosts[at] && hosts[at] != page + 1) at = (at + 1) & (capacity - 1);
  return at;
}

u64 Pages::line_of(u64 host_line) {
  const u64 page = host_line / LINES_OF_PAGE;
  if (2 * n >= capacity) {
    const Pages old = *this;
    capacity = capacity ? 2 * capacity : 1024;
    hosts = (u64*)calloc(capacity, sizeof *hosts);
    numbers = (u64*)calloc(capacity, sizeof *numbers);
    for (u64 i = 0; i < old.capacity; i++) {
      if (!old.hosts[i]) continue;
      const u64 at = place_of(hosts, capacity, old.hosts[i] - 1);
      hosts[at] = old.hosts[i], numbers[at] = old.numbers[i];
    }
    free(old.hosts);
    free(old.numbers);
  }
  const u64 at = place_of(hosts, capacity, page);
  if (!hosts[at]) hosts[at] = page + 1, numbers[at] = n++;
  return numbers[at] * LINES_OF_PAGE + host_line % LINES_OF_PAGE;
}

void Pages::clear() {
  free(hosts);
  free(numbers);
  *this = {};
}

static Caches of_card[sizeof CARDS / sizeof *CARDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

Caches* caches_of(const Card& card) {
  u32 i = 0;
  while (strcmp(CARDS[i].model, card.model)) i++;  // not by address: another library has a table of its own
  Caches* c = &of_card[i];
  const Lock locked(lock);
  if (!c->xcds) {
    for (u32 x = 0; x < card.xcds; x++) c->l2[x].create(card.l2_bytes, WAYS);
    c->memory_side.create(card.memory_side_bytes, WAYS);
    c->xcds = card.xcds;
  }
  return c;
}
void cdna_caches_free() {
  for (Caches& c : of_card) {
    for (u32 x = 0; x < c.xcds; x++) c.l2[x].destroy();
    if (c.xcds) c.memory_side.destroy();
    c.pages.clear();
    c.xcds = c.turn = 0;
  }
}
void cdna_caches_clear() {
  for (Caches& c : of_card) {
    for (u32 x = 0; x < c.xcds; x++) c.l2[x].clear();
    if (c.xcds) c.memory_side.clear();
    c.pages.clear();
    c.turn = 0;  // who asks first follows from it: what ran before changes no time
  }
}

// Writes go through the memory-side cache to memory in the end: they count as HBM traffic at once.
static void store_halves(Caches& c, u32 xcd, u64 line, u8 halves, MemoryTraffic& m) {
  u8 dropped;
  u64 which;
  size_t way;
  u64 bytes = __builtin_popcount(halves) * (LINE_BYTES / 2);
  m.fabric_write[xcd] += bytes;
  m.hbm_write += bytes;
  c.memory_side.touch(line, 0, &dropped, &which, &way);
  for (u32 x = 0; x < c.xcds; x++)
    if (x != xcd) c.l2[x].drop(line);
}

// A peer's memory: no memory-side cache of this card has it, and stores go there at once. Its lines are not coherent in
// the L2 (Linux, amdgpu_gmc: MTYPE_NC of another GPU's memory on gfx942), which answers loads that may be old.
static Level access_peer(Caches& c, u32 xcd, LineAccess a, u64 line, u32 peer, MemoryTraffic& m) {
  const u64 bytes = __builtin_popcount(a & 3) * (LINE_BYTES / 2);
  if (a >> 2 & 1) {
    m.l2_write[xcd] += bytes;
    m.link_write[peer] += bytes;
    return IN_PEER;
  }
  m.l2_read[xcd] += LINE_BYTES;
  if (a & AROUND) {
    m.link_read[peer] += bytes;
    return IN_PEER;
  }
  u8 evicted;
  u64 evicted_line;
  size_t way;
  bool hit = c.l2[xcd].touch(line, 0, &evicted, &evicted_line, &way);
  if (evicted) store_halves(c, xcd, evicted_line, evicted, m);
  if (hit) return IN_L2;
  m.link_read[peer] += LINE_BYTES;
  return IN_PEER;
}

// Where the line was. One that came less than `under_way` turns ago is not there yet: it is where it comes from.
static Level access(Caches& c, u32 xcd, LineAccess a, u32 under_way, MemoryTraffic& m) {
  u64 line = c.pages.line_of(a >> 3 & LINE_MASK), evicted_line;
  if (u32 peer = a >> PEER_BIT & (MOST_PEERS - 1)) return access_peer(c, xcd, a, line, peer, m);
  bool write = a >> 2 & 1;
  u8 halves = a & 3, evicted;
  u64 bytes = write ? __builtin_popcount(halves) * (LINE_BYTES / 2) : LINE_BYTES;
  (write ? m.l2_write : m.l2_read)[xcd] += bytes;
  Cache& l2 = c.l2[xcd];
  size_t way, memory_way;
  bool hit = l2.touch(line, write ? halves : 0, &evicted, &evicted_line, &way);
  if (evicted) store_halves(c, xcd, evicted_line, evicted, m);
  if (hit) return c.turn - l2.filled[way] < under_way && l2.dirty[way] >> 2 ? (Level)(l2.dirty[way] >> 2) : IN_L2;
  if (write) return IN_L2;
  m.fabric_read[xcd] += LINE_BYTES;
  Cache& side = c.memory_side;
  Level level = IN_MEMORY_SIDE;
  if (!side.touch(line, 0, &evicted, &evicted_line, &memory_way)) {
    m.hbm_read += LINE_BYTES;
    side.filled[memory_way] = c.turn;
    level = IN_MEMORY;
  } else if (c.turn - side.filled[memory_way] < under_way) {
    level = IN_MEMORY;
  }
  l2.filled[way] = c.turn;
  l2.dirty[way] |= level << 2;
  return level;
}

// An atomic is answered by what all XCDs share (infervisor/plow, MI300X: 333 to 392 ns, a dependent load 53 to 56).
static LineAccess at_level(LineAccess a, Level level) {
  return a | (u64)(a & ATOMIC_ACCESS ? IN_MEMORY : level) << LEVEL_BIT;
}

// Whether another workgroup of the CU has asked for the line; then `a` says where it is. If not, the L1 has it from now on, at
// `way`.
static bool asked_before(SharedL1& l1, LineAccess& a, u32 turn, u32 under_way, u32& way) {
  if (!l1.l1.load(a >> 3 & LINE_MASK, L1::WAYS, &way)) {
    l1.filled[way] = turn;
    return false;
  }
  a |= ASKED_BEFORE | (u64)(turn - l1.filled[way] < under_way ? l1.from[way] : IN_L1) << LEVEL_BIT;
  return true;
}

u64 replay(Caches& c, const Card& card, const Trace* traces, u32 n, u32 per_cu, SharedL1*& l1s, MemoryTraffic& m) {
  pthread_mutex_lock(&lock);  // of launches of other threads
  u64 answered = 0;
  u64* at = (u64*)calloc(n, sizeof(u64));
  const u32 under_way = card.l1_in_flight_bytes / LINE_BYTES / (TURN * per_cu), cus = card.compute_units;
  const u32 rows = (n + cus - 1) / cus;  // of a workgroup for each CU
  if (rows > 1 && !l1s) l1s = (SharedL1*)calloc(cus, sizeof(SharedL1));
  for (bool more = true; more; c.turn++) {
    more = false;
    const u32 first = c.turn % rows * cus;  // of those that share a CU each is the first to ask in turn
    for (u32 k = 0; k < n; k++) {
      const u32 i = (first + k) % n;
      const Trace& t = traces[i];
      u64 end = at[i] + TURN < t.n ? at[i] + TURN : t.n;
      for (; at[i] < end; at[i]++) {
        LineAccess& a = t.entries[at[i]];
        u32 way = 0;
        SharedL1* l1 = rows > 1 && !(a & (AROUND | 4)) ? l1s + i % cus : nullptr;
        if (l1 && asked_before(*l1, a, c.turn, under_way, way)) {
          answered++;
          continue;
        }
        const Level level = access(c, t.group % c.xcds, a, under_way, m);
        if (l1) l1->from[way] = level;
        a = at_level(a, level);
      }
      more |= at[i] < t.n;
    }
  }
  c.turn += under_way;
  free(at);
  pthread_mutex_unlock(&lock);
  return answered;
}

void write_back(Caches& c, MemoryTraffic& m) {
  const u64 before = m.hbm_write;
  for (u32 x = 0; x < c.xcds; x++) {
    Cache& l2 = c.l2[x];
    for (size_t i = 0; i < (size_t)l2.sets * l2.ways; i++) {
      if (l2.tags[i] && l2.dirty[i] & 3) store_halves(c, x, l2.tags[i] - 1, l2.dirty[i] & 3, m);
      l2.dirty[i] &= (u8)~3;
    }
  }
  m.left_dirty += m.hbm_write - before;
}
