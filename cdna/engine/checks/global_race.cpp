// Races in global memory, between workgroups and between waves of one.
//
// A race is a plain store that changes a value which another workgroup, or another wave of the same one with no barrier
// in between, stores or reads too, where no flag orders the two (happens_before.cpp). Accesses with a scope (sc0, sc1) and
// atomics are synchronisation, not data: they do not race with each other. A plain load of what another workgroup changes
// by one does, unless it only polls, or looks before an atomic of its own.
#include "global_race.h"
#include "bounds.h"
#include "happens_before.h"
#include "readers.h"
#include "isa/xcd_l2.h"
#include "isa/lock.h"
#include <stdlib.h>

// A cell for each dword, one for writes and one for reads: bits 3:0 bytes, 4 changed, 5 of several waves, 9:6 wave, 21:10
// epoch, 43:22 workgroup + 1 (0: of several), 63:44 the launch's clock.
namespace {
struct Cell {
  u64 bits;
  u32 bytes() const { return bits & 15; }
  bool changed() const { return bits >> 4 & 1; }
  bool several() const { return bits & CELL_SEVERAL; }
  bool one_group() const { return bits >> 22 & 0x3fffff; }
  u32 wave() const { return bits >> 6 & 15; }
  u32 epoch() const { return bits >> 10 & 0xfff; }
  u32 group() const { return (bits >> 22 & 0x3fffff) - 1; }
  u32 clock() const { return bits >> 44; }
};
}  // namespace
constexpr u64 SHADOW_LIMIT = 2ull << 30;  // bytes of memory that the cells of a launch may take
constexpr u32 MAX_GROUPS = 0x3ffffe;
// Beside the instruction that wrote: its wave had read there since the barrier, or may have.
constexpr u32 HAS_READ = 1u << 31;

// A dword's readers, and one more.
static void note_read(Readers& all, u64& readers, u64 cell) {
  __atomic_store_n(&readers, readers_with(all, __atomic_load_n(&readers, __ATOMIC_RELAXED), cell), __ATOMIC_RELAXED);
}

// A range's three arrays are one block. That of a launch which has ended is kept for one to come: fresh memory takes its
// pages from the host again. Only what the launch has noted is cleared.
constexpr u64 NOTED = 1024, MOST_KEPT = 16 << 20;  // dwords; bytes
static struct {
  pthread_mutex_t lock;
  u64* block;
  u64 bytes;
} kept = {PTHREAD_MUTEX_INITIALIZER, nullptr, 0};

static u64 cells_of(const Range& r) { return (r.end - (r.base & ~3ull)) / 4 + 2; }
static u64 block_bytes(u64 dwords) { return 20 * dwords + dwords / NOTED + 1; }
static void note_at(const Range& r, u64 index) { r.noted[index / NOTED] = 1; }

static void make_cells(Range& r) {
  const u64 dwords = cells_of(r), bytes = block_bytes(dwords);
  u64* block = nullptr;
  if (const Lock locked(kept.lock); kept.bytes >= bytes) {
    block = kept.block;
    kept.block = nullptr;
    kept.bytes = 0;
  }
  r.writes = block ? block : (u64*)calloc(1, bytes);
  r.reads = r.writes + dwords;
  r.write_pc = (u32*)(r.reads + dwords);
  r.noted = (u8*)(r.write_pc + dwords);
}

void free_cells(Range& r) {
  const u64 dwords = cells_of(r), bytes = block_bytes(dwords);
  u64* block = r.writes;
  if (block && bytes <= MOST_KEPT && bytes > __atomic_load_n(&kept.bytes, __ATOMIC_RELAXED)) {
    for (u64 from = 0; from < dwords; from += NOTED) {
      const u64 n = dwords - from < NOTED ? dwords - from : NOTED;
      if (!r.noted[from / NOTED]) continue;
      memset(r.writes + from, 0, 8 * n);
      memset(r.reads + from, 0, 8 * n);
      memset(r.write_pc + from, 0, 4 * n);
      r.noted[from / NOTED] = 0;
    }
    const Lock locked(kept.lock);
    block = kept.block;
    kept.block = r.writes;
    kept.bytes = bytes;
  }
  free(block);
}

// What was read before the first write, as if it had been read now.
static void note_early_reads(Checks& c, Range& r) {
  struct Noting {
    Checks& c;
    Range& r;
  } noting = {c, r};
  auto note = [](u64 address, u32 bytes, u64 cell, void* with) {
    const Noting& n = *(Noting*)with;
    const u64 base = n.r.base & ~3ull;
    for (u64 k = (address - base) >> 2; k <= (address + bytes - 1 - base) >> 2; k++) {
      const u64 at = base + 4 * k, from = at < address ? address - at : 0,
                to = at + 4 > address + bytes ? address + bytes - at : 4;
      note_at(n.r, k);
      note_read(*n.c.readers, n.r.reads[k], cell | ((1u << to) - (1u << from)));
    }
  };
  early_reads_each(r.early, note, &noting);
}

bool shadow(Checks& c, Range& r) {
  if (__atomic_load_n(&r.written, __ATOMIC_ACQUIRE)) return r.writes;
  const Lock locked(c.lock);
  if (!r.written) {
    const u64 bytes = block_bytes(cells_of(r));
    if (c.shadow_bytes + bytes <= SHADOW_LIMIT && c.n_groups <= MAX_GROUPS) {
      c.shadow_bytes += bytes;
      make_cells(r);
      note_early_reads(c, r);
    }
    __atomic_store_n(&r.written, 1u, __ATOMIC_RELEASE);
  }
  return r.writes;
}

// A read of what nobody has written yet, once it is noted; false: somebody has meanwhile.
bool note_early(Checks& c, Range& r, const u64* at, u64 lanes, u32 bytes, u64 now) {
  if (r.reads_lost) return !__atomic_load_n(&r.written, __ATOMIC_ACQUIRE);
  const Lock locked(c.lock);
  const bool early = !r.written;
  if (early) r.reads_lost = !early_reads_add(r.early, at, lanes, bytes, now);
  return early;
}

u64 now_of(const Wave& w) {  // of a cell, for an access of this wave
  const GroupCheck& g = *w.wg->check;
  return (u64)w.id << 6 | (u64)(g.epoch & 0xfff) << 10 | (u64)(w.wg->linear_id + 1) << 22 | (u64)g.checks->clock << 44;
}

// Whether nothing orders the access of a cell before this wave's.
static bool unordered(Wave& w, Cell x, u32 bytes) {
  if (!x.bits || !x.one_group() || !(x.bytes() & bytes)) return false;
  u32 other = x.group(), me = w.wg->linear_id;
  if (other == me) {
    if (x.several() || x.wave() == w.id || x.epoch() != (w.wg->check->epoch & 0xfff)) return false;
  }
  return !happened_before(w, other, x.wave(), x.epoch(), x.clock());
}

// Of a dword whose bytes are several workgroups' own.
struct ByteWrites {
  u64 cells[4];
  u32 pcs[4];
};

static ByteWrites* byte_writes(Checks& c, Range& r) {
  constexpr u64 MOST = 1ull << 25;  // dwords; of those that are not touched the host's memory is not taken
  ByteWrites* bytes = __atomic_load_n(&r.bytes, __ATOMIC_ACQUIRE);
  const u64 dwords = cells_of(r);
  if (bytes || dwords > MOST) return bytes;
  const Lock locked(c.lock);
  if (!r.bytes) __atomic_store_n(&r.bytes, (ByteWrites*)calloc(dwords, sizeof(ByteWrites)), __ATOMIC_RELEASE);
  return r.bytes;
}

// A store of bytes where another workgroup has stored too. wrote: what was known of the dword before. Stores of the value
// that is there leave it open who was last.
static void note_bytes(Checks& c, Range& r, u64 index, Cell wrote, u32 write_pc, u64 mine, u32 pc, bool changed) {
  ByteWrites* all = byte_writes(c, r);
  if (!all) return;
  ByteWrites& b = all[index];
  for (u32 k = 0; k < 4; k++) {
    if (wrote.one_group()) b.cells[k] = wrote.bytes() >> k & 1 ? wrote.bits : 0, b.pcs[k] = write_pc;
    if (!(mine >> k & 1)) continue;
    b.cells[k] = changed ? mine | 16 : 0;
    b.pcs[k] = pc;
  }
}

// The first of these bytes that another wave has stored, with nothing between that orders the two; -1: none.
static int unordered_byte(Wave& w, const Range& r, u64 index, u32 bytes) {
  for (u32 k = 0; k < 4 && r.bytes; k++)
    if (bytes >> k & 1 && unordered(w, {r.bytes[index].cells[k]}, 1u << k)) return (int)k;
  return -1;
}

static bool race(Wave& w, int lane, u64 address, u32 bytes, const Range& r, u32 other_pc, Cell other, const char* mine,
                 const char* theirs) {
  const int n = __builtin_popcount(bytes);
  const char* s = n == 1 ? "" : "s";
  const Checks& c = *w.wg->check->checks;
  u32 group = other.group();
  bool same = group == w.wg->linear_id;
  const char* where = other_pc == ~0u ? "" : c.program->where[other_pc];
  const char* at = other_pc == ~0u ? "" : " at ";
  if (same)
    return report(w, CHECK_RACE, lane, address, &r, other_pc,
                  "%s %d byte%s of %s at offset %llu, which wave %u of the same workgroup %s%s%s, with no barrier "
                  "between the two",
                  mine, n, s, r.name, (unsigned long long)(address - r.base), other.wave(), theirs, at, where);
  return report(w, CHECK_RACE, lane, address, &r, other_pc,
                "%s %d byte%s of %s at offset %llu, which workgroup %u (wave %u) %s%s%s in the same launch", mine, n, s,
                r.name, (unsigned long long)(address - r.base), group, other.wave(), theirs, at, where);
}

// Whether a cell is of this wave's workgroup, with no barrier since.
static bool is_near(const Wave& w, Cell x) {
  return x.bits && x.group() == w.wg->linear_id && x.epoch() == (w.wg->check->epoch & 0xfff);
}
static bool may_be_mine(const Wave& w, Cell x) { return is_near(w, x) && (x.several() || x.wave() == w.id); }

// Whether the wave may have read what it writes, since the barrier. before: who wrote there last, and with what beside.
static u32 has_read(const Wave& w, const Range& r, u64 index, Cell before, u32 beside) {
  const u64 readers = __atomic_load_n(&r.reads[index], __ATOMIC_RELAXED), *cells;
  bool found = r.reads_lost || (is_near(w, before) && beside & HAS_READ);
  for (u32 i = 0, n = readers_in(readers, cells); i < n && !found; i++) found = may_be_mine(w, {cells[i]});
  return found ? HAS_READ : 0;
}

// A read that nothing orders before this wave's write, or its atomic; 0: none. Where the wave has read there itself since
// the barrier, so may others of its workgroup.
static Cell unordered_reader(Wave& w, const Range& r, u64 index, u32 bytes) {
  const u64 readers = __atomic_load_n(&r.reads[index], __ATOMIC_RELAXED), *cells;
  if (Cell one = {readers}; one.bytes() && may_be_mine(w, one)) return {0};
  const u32 n = readers_in(readers, cells);
  bool mine = false;
  for (u32 i = 0; i < n; i++) mine |= may_be_mine(w, {cells[i]});
  for (u32 i = 0; i < n; i++)
    if (const Cell read = {cells[i]}; !(mine && read.group() == w.wg->linear_id) && unordered(w, read, bytes))
      return read;
  return {0};
}

// A load that the writing wave has executed too, of the same place, before its write in the code: Triton has every wave
// load what several need, and one of them store the result back.
static bool shared_load(const Wave& w, const Access& x, Cell wrote, u32 write_pc) {
  const u32 pc = w.wg->check->waves[w.id].pc;
  return wrote.group() == w.wg->linear_id && pc < (write_pc & ~HAS_READ) && (x.benign || write_pc & HAS_READ) &&
         w.wg->check->waves[wrote.wave()].loaded(pc);
}

// A plain access to what another wave's atomic has changed. Who has made an atomic access there since sees no older value
// behind it: a wave's own workgroup does, as another one sees it.
static bool check_updated(Wave& w, const Access& x, int lane, const Range& r, u64 index, u64 address, u32 bytes,
                          const char* mine) {
  const Cell update = {__atomic_load_n(&r.updates[index], __ATOMIC_RELAXED)};
  if (!update.bits || !unordered(w, update, bytes)) return true;
  const bool near = update.group() == w.wg->linear_id;
  const u32 update_pc = r.update_pc[index];
  if (order_looked(w, address & ~3ull, update.clock(), near)) return true;
  if (x.kind != VM_STORE && shared_load(w, x, update, update_pc)) return true;
  return race(w, lane, address, bytes, r, update_pc & ~HAS_READ, update, mine, "updates atomically");
}

// stored: null of a load. changed: whether the store changes what is there.
static bool check_cell(Wave& w, const Access& x, int lane, Range& r, u64 index, u64 address, u32 bytes,
                       const StoredLanes* stored, bool changed, u64 now) {
  Cell wrote = {__atomic_load_n(&r.writes[index], __ATOMIC_RELAXED)};
  u64 mine = now | bytes;
  u32 pc = check_of(w).pc;
  note_at(r, index);
  bool hit = unordered(w, wrote, bytes);
  u32 before = r.write_pc[index], write_pc = before & ~HAS_READ;
  const Cell whole = wrote;
  if (const int k = wrote.bits && !wrote.one_group() ? unordered_byte(w, r, index, bytes) : -1; k >= 0) {
    wrote = {r.bytes[index].cells[k]};
    write_pc = r.bytes[index].pcs[k];
    hit = true;
  }
  if (!stored) {
    if (!x.benign) {
      if (r.updates && !check_updated(w, x, lane, r, index, address, bytes, "reads")) return false;
      note_read(*w.wg->check->checks->readers, r.reads[index], mine);
    }
    if (hit && wrote.changed() && !shared_load(w, x, wrote, before))
      return race(w, lane, address, bytes, r, write_pc, wrote, "reads", "writes");
    return true;
  }
  if (hit && changed)
    changed = changes_after_others(*stored, lane, (u32)(address - stored->at[lane]), (u32)__builtin_popcount(bytes));
  // Several may store the same value, or bytes of their own: who did is then known of waves of one workgroup, and of bytes.
  bool near = whole.bits && whole.one_group() && whole.group() == w.wg->linear_id;
  bool others = whole.bits && !near && !(changed && bytes == 15);
  u64 kept = whole.bytes() | (near && whole.changed() ? 16 : 0);
  if (near && (whole.several() || whole.wave() != w.id)) kept |= 32;
  if (others) note_bytes(*w.wg->check->checks, r, index, whole, before & ~HAS_READ, mine, pc, changed);
  if (others) mine &= ~((u64)0x3fffff << 22);
  __atomic_store_n(&r.writes[index], mine | kept | (changed ? 16 : 0), __ATOMIC_RELAXED);
  r.write_pc[index] = pc | has_read(w, r, index, whole, before);
  if (!changed) return true;
  if (hit) return race(w, lane, address, bytes, r, write_pc, wrote, "writes another value to", "writes");
  if (Cell read = unordered_reader(w, r, index, bytes); read.bits)
    return race(w, lane, address, bytes, r, ~0u, read, "writes", "has read");
  if (r.updates && !check_updated(w, x, lane, r, index, address, bytes, "writes over")) return false;
  if (bytes == 15) __atomic_store_n(&r.reads[index], 0, __ATOMIC_RELAXED);
  return true;
}

bool check_races(Wave& w, const Access& x, int lane, Range& r, u64 address, const StoredLanes* stored, u64 now) {
  u64 base = r.base & ~3ull, first = (address - base) >> 2, last = (address + x.bytes - 1 - base) >> 2;
  const bool whole = x.bytes < 4 || address % 4 == 0;
  for (u64 k = first; k <= last; k++) {
    u64 at = base + 4 * k, from = at < address ? address - at : 0,
        to = at + 4 > address + x.bytes ? address + x.bytes - at : 4;
    const u32 bytes = (u32)((1u << to) - (1u << from));
    at += from;
    const bool changed = stored && (whole ? changes(x, stored->data, lane, (u32)(k - first), (const u8*)at)
                                          : changes_bytes(*stored, lane, (u32)(at - address), (u32)(to - from)));
    if (!check_cell(w, x, lane, r, k, at, bytes, stored, changed, now)) return false;
  }
  return true;
}

// All lanes' elements one behind the other, in dwords that nobody has written, nor read before this wave writes: true,
// with the access noted. That is what most waves do.
bool untouched(Wave& w, const Access& x, const u64* at, u64 lanes, Range& r, const u32* data, u64 now) {
  u32 dwords = x.bytes / 4, n = WAVE * dwords;
  u64 first = at[0], apart = x.bytes % 4 | (first & 3) | ~lanes;
  LANES apart |= at[i] ^ (first + (u64)i * x.bytes);
  if (apart) return false;
  u64 index = (first - (r.base & ~3ull)) >> 2, seen = 0, mine = now | 15;
  u64 *writes = r.writes + index, *reads = r.reads + index;
  const u64* updates = r.updates ? r.updates + index : writes;
  for (u32 i = 0; i < n; i++) seen |= writes[i] | updates[i];
  for (u32 i = 0; i < n; i++) seen |= data ? reads[i] : reads[i] ^ reads[0];
  if (seen) return false;
  for (u32 i = 0; i < n; i += NOTED) note_at(r, index + i);
  note_at(r, index + n - 1);
  if (!data) {
    const u64 readers = x.benign ? reads[0] : readers_with(*w.wg->check->checks->readers, reads[0], mine);
    for (u32 i = 0; i < n; i++) reads[i] = readers;
    return true;
  }
  const u32* there = (const u32*)first;
  u32* pcs = r.write_pc + index;
  u32 pc = check_of(w).pc | (r.reads_lost ? HAS_READ : 0);
  for (u32 k = 0; k < dwords; k++)
    for (u32 i = 0; i < WAVE; i++)
      writes[i * dwords + k] = mine | (data[k * WAVE + i] != there[i * dwords + k] ? 16 : 0);
  for (u32 i = 0; i < n; i++) pcs[i] = pc;
  return true;
}

// A scalar load races as a lane's does, but only its first dword is known to be wanted.
bool check_scalar_race(Wave& w, const Access& x, Range& r, u64 address) {
  Checks& c = *w.wg->check->checks;
  if (x.kind != SMEM_LOAD || !c.has(CHECK_RACE) || c.clock >= MAX_CLOCK || r.internal) return true;
  address &= ~3ull;
  if ((!r.written && (x.benign || note_early(c, r, &address, 1, 4, now_of(w)))) || !shadow(c, r)) return true;
  return check_cell(w, x, -1, r, (address - (r.base & ~3ull)) >> 2, address, 15, nullptr, false, now_of(w));
}

// What the emulated L2s have made of a race: the load has got an older value.
bool check_stale(Wave& w, const Access& x) {
  Checks& c = *w.wg->check->checks;
  StaleRead& s = w.wg->l2->stale;
  const bool widened = s.lane < 0 && (s.address & ~3ull) != s.from;
  if (!s.found || x.benign || widened || !c.has(CHECK_RACE)) return true;
  s.found = false;
  char where[200];
  const Range* r = describe(c, s.address, 1, where, sizeof where);
  const char* text = c.program->where[s.writer_pc];
  return report(
      w, CHECK_RACE, s.lane, s.address, r, s.writer_pc,
      s.unreleased
          ? "reads an old value %s: workgroup %u has written another at %s, XCD %u's L2 holds that, and no release "
            "(buffer_wbl2 sc1) has written it back"
          : "reads an old value %s: workgroup %u has written another at %s on XCD %u, its own L2 has kept what it "
            "had read, and no acquire (buffer_inv sc1) has dropped that",
      where, s.writer_group, text, s.writer_xcd);
}

// --- atomics -------------------------------------------------------------------------------------------

void before_atomic(const Wave& w, const Access& x, u64 lanes, u64* held) {
  for (; lanes; lanes &= lanes - 1) {
    const int lane = __builtin_ctzll(lanes);
    held[lane] = 0;
    memcpy(&held[lane], (const void*)w.address[lane], x.bytes);
  }
}

static bool has_updates(Checks& c, Range& r) {
  if (__atomic_load_n(&r.updates, __ATOMIC_ACQUIRE)) return true;
  const u64 dwords = cells_of(r);
  const Lock locked(c.lock);
  if (!r.updates && c.shadow_bytes + 12 * dwords <= SHADOW_LIMIT) {
    c.shadow_bytes += 12 * dwords;
    r.update_pc = (u32*)calloc(dwords, 4);
    __atomic_store_n(&r.updates, (u64*)calloc(dwords, 8), __ATOMIC_RELEASE);
  }
  return r.updates;
}

// An atomic whose result nobody gets, to what another wave's plain store has changed: it cannot know that it comes behind
// it. Nor can one that counts.
static bool check_blind(Wave& w, const Access& x, int lane, const Range& r, u64 index, u64 address, u32 bytes) {
  const Cell wrote = {__atomic_load_n(&r.writes[index], __ATOMIC_RELAXED)};
  const bool near = wrote.group() == w.wg->linear_id;
  if (x.kind != VM_ATOMIC || (x.returns && !x.counts) || !wrote.changed()) return true;
  if (!unordered(w, wrote, bytes) || order_looked(w, address & ~3ull, wrote.clock(), near, x.returns)) return true;
  return race(w, lane, address, bytes, r, r.write_pc[index] & ~HAS_READ, wrote, "updates atomically", "writes");
}

// That a lane has changed these bytes at an address by an atomic, or by a store that may be a flag.
bool note_update(Wave& w, const Access& x, int lane, u64 address, u32 bytes) {
  Checks& c = *w.wg->check->checks;
  const u32 pc = check_of(w).pc;
  u32 at = c.hint[pc];
  auto holds = [&](const Range& r) { return !r.freed && address >= r.base && address + x.bytes <= r.end; };
  if (at >= c.n_ranges || !holds(c.ranges[at]))
    for (at = 0; at < c.n_ranges && !holds(c.ranges[at]);) at++;
  if (at == c.n_ranges || c.ranges[at].internal || address & 3 || c.clock >= MAX_CLOCK) return true;
  Range& r = c.ranges[at];
  if (x.kind == VM_ATOMIC && r.owners && c.work && !check_stream_update(w, lane, address, address + x.bytes, r))
    return false;
  if (!shadow(c, r) || !has_updates(c, r)) return true;
  for (u64 k = (address - (r.base & ~3ull)) >> 2; bytes; k++, bytes >>= 4, address += 4) {
    const u32 mine = bytes & 15;
    if (!mine) continue;
    const Cell read = unordered_reader(w, r, k, mine);
    r.update_pc[k] = pc | has_read(w, r, k, {r.updates[k]}, r.update_pc[k]);
    __atomic_store_n(&r.updates[k], now_of(w) | mine, __ATOMIC_RELAXED);
    if (read.bits) return race(w, lane, address, mine, r, ~0u, read, "updates atomically", "has read");
    if (!check_blind(w, x, lane, r, k, address, mine)) return false;
    if (Cell{r.reads[k]}.bytes() && Cell{r.reads[k]}.group() == w.wg->linear_id) r.reads[k] = 0;
  }
  return true;
}

bool after_atomic(Wave& w, const Access& x, u64 lanes, const u64* held) {
  Checks& c = *w.wg->check->checks;
  u64 changed = 0;
  for (u64 m = lanes; m; m &= m - 1) {
    const int lane = __builtin_ctzll(m);
    u64 now = 0;
    memcpy(&now, (const void*)w.address[lane], x.bytes);
    now ^= held[lane];
    if (!now) continue;
    changed |= m & -m;
    u32 bytes = 0;
    for (u32 i = 0; i < 8; i++) bytes |= (u32)((now >> 8 * i & 255) != 0) << i;
    if (c.has(CHECK_RACE) && !note_update(w, x, lane, w.address[lane], bytes)) return false;
  }
  if (changed) progress(c);
  if (!c.has(CHECK_RACE)) return true;
  if (!x.returns) order_looks(w, w.address, lanes);
  if (const u64 late = changed & check_of(w).kept) order_flag(w, x, w.address, late, 0);  // the host has come between
  return true;
}

// Of lanes of an atomic, those that leave the value that is there. data: what they bring, then what they compare with.
u64 kept_by(const Checks& c, const Access& x, const u64* address, u64 lanes, const u32* data) {
  u64 kept = 0;
  const u32 dwords = x.bytes / 4;
  if (!x.keeping || !dwords || __builtin_popcountll(lanes) > MOST_FLAG_LANES) return 0;
  for (; lanes; lanes &= lanes - 1) {
    const int lane = __builtin_ctzll(lanes);
    if (!readable(c, address[lane])) continue;
    u32 held[2];
    memcpy(held, (const void*)address[lane], x.bytes);
    bool equal = true, zero = true, like = true;
    for (u32 k = 0; k < dwords; k++) {
      equal = equal && held[k] == data[k * WAVE + lane];
      zero = zero && !data[k * WAVE + lane];
      like = like && (x.keeping != KEEPS_UNLIKE || held[k] == data[(dwords + k) * WAVE + lane]);
    }
    if (x.keeping == KEEPS_WITH_ZERO ? zero : x.keeping == KEEPS_EQUAL ? equal : equal || !like) kept |= lanes & -lanes;
  }
  return kept;
}
