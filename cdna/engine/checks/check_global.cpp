// Global memory: addresses outside every tensor of the launch, and races between workgroups.
//
// A race is a plain store that changes a value which another workgroup, or another wave of the same one with no barrier
// in between, stores or reads too, where no flag orders the two (check_order.cpp). Accesses with a scope (sc0, sc1) and
// atomics are synchronisation, not data: they do not race with each other. A plain load of what another workgroup changes
// by one does, unless it only polls, or looks before an atomic of its own.
#include "isa/buffer.h"
#include "memory/device_heap.h"
#include "check_bounds.h"
#include "check_order.h"
#include "check_readers.h"
#include "under_way.h"
#include <stdlib.h>

// --- which addresses -----------------------------------------------------------------------------------

namespace {
struct Lanes {
  u64 at[WAVE];
  u64 mask;
  u64 base;    // scalar base address, 0 if there is none
  bool named;  // that is a variable's, made by the wave
  u64 before;  // lanes that a buffer without a limit cuts off below its base
  u64 shared;  // lanes that mean LDS
};
}  // namespace

// A descriptor without a limit, as Triton makes them, cuts off only what lies 2 GiB and more beyond the base: offsets below
// zero. What Triton masks has the offset 2^31, and a small immediate.
constexpr u32 NO_LIMIT = 0x7fffff00;

static u64 negative(const Wave& w, const Inst& in, const Operand& descriptor, const u64* at, u64 lanes) {
  u64 base = (w.s[descriptor.reg] | (u64)w.s[descriptor.reg + 1] << 32) & 0xffffffffffffull, found = 0;
  if (in.flags & IDXEN) return 0;
  for (; lanes; lanes &= lanes - 1)
    if ((u32)(at[__builtin_ctzll(lanes)] - base) >= 0xc0000000) found |= lanes & -lanes;
  return found;
}

static bool lane_addresses(Wave& w, const Inst& in, const Access& x, Lanes& out) {
  u64 exec = w.exec();
  bool load = x.kind == VM_LOAD;
  out.mask = exec;
  out.base = out.before = out.shared = 0;
  out.named = false;
  const WaveCheck& wave = check_of(w);
  if (x.space == BUFFER_SPACE) {
    const Operand* operands = load ? in.src : in.src + 1;
    u32 element = x.typed || x.bytes < 4 ? x.bytes : 4;
    BufferAccess b = buffer_addresses(w, in, operands, element, x.bytes / element);
    if (w.stop == FAULTED) return false;
    memcpy(out.at, w.address, sizeof out.at);
    out.mask = b.whole;  // what the descriptor cuts off reaches no memory
    out.before = b.none && w.s[operands[1].reg + 2] >= NO_LIMIT ? negative(w, in, operands[1], out.at, b.none) : 0;
    const u32* r = &w.s[operands[1].reg];
    out.base = (r[0] | (u64)r[1] << 32) & 0xffffffffffffull;
    return true;
  }
  const u32* v = w.vreg(in.src[0].reg);
  const Operand& scalar = load ? in.src[1] : in.src[2];
  u64 offset = (u64)(i64)in.offset;
  if (scalar.kind != NONE && x.space == GLOBAL_SPACE) {
    out.base = scalar64(w, scalar);
    out.named = scalar.kind == SGPR && variable_in(w, wave, scalar.reg);
    u64 base = out.base + offset;
    LANES out.at[i] = base + v[i];
    return true;
  }
  for (u32 i = 0; i < wave.n_derived; i++)
    if (wave.derived[i].reg == in.src[0].reg) {
      out.base = wave.derived[i].base;
      out.named = true;
    }
  u64 top = 0;
  LANES {
    out.at[i] = (v[i] | (u64)v[WAVE + i] << 32) + offset;
    top |= out.at[i];
  }
  if (x.space == FLAT_SPACE && top >> 48)  // LDS or scratch, which have checks of their own
    for (u64 m = exec; m; m &= m - 1)
      if (u64 segment = out.at[__builtin_ctzll(m)] >> 32;
          segment == SHARED_APERTURE >> 32 || segment == PRIVATE_APERTURE >> 32) {
        out.mask &= ~(m & -m);
        if (segment == SHARED_APERTURE >> 32) out.shared |= m & -m;
      }
  return true;
}

// --- bounds --------------------------------------------------------------------------------------------

// What a kernel stores to a __constant__ variable: loads may be answered by caches that stores do not change.
static bool writes_constant(Wave& w, const Access& x, const Lanes& l, const Range& r) {
  int lane = __builtin_ctzll(l.mask);
  return report(w, CHECK_BOUNDS, lane, l.at[lane], &r, ~0u,
                "writes %u bytes of %s, which is __constant__: kernels may only read it", x.bytes, r.name);
}

// --- lanes of one store --------------------------------------------------------------------------------

static bool same_value(const Access& x, const u32* data, int a, int b) {
  for (u32 k = 0; k < (x.bytes + 3u) / 4; k++) {
    const u32 one = data[k * WAVE + a], other = data[k * WAVE + b];
    if (one == UNWRITTEN || other == UNWRITTEN) continue;
    u32 differs = one ^ other;
    if (x.bytes < 4) differs = (x.upper ? differs >> 16 : differs) & ((1u << 8 * x.bytes) - 1);
    if (differs) return false;
  }
  return true;
}

bool lanes_disagree(const Access& x, const u64* address, u64 lanes, const u32* data, int& one, int& other) {
  one = other = -1;
  if (x.typed) return false;
  if (lanes == ~0ull) {  // mostly they lie in ascending order
    u64 apart = 0;
    for (int i = 1; i < WAVE; i++) apart |= (u64)(address[i] <= address[i - 1]);
    if (!apart) return false;
  }
  constexpr u32 SLOTS = 128;
  i8 slot[SLOTS];
  memset(slot, -1, sizeof slot);
  for (u64 m = lanes; m; m &= m - 1) {
    int lane = __builtin_ctzll(m);
    u32 at = (u32)(address[lane] * 0x9e3779b97f4a7c15ull >> 57);
    while (slot[at] >= 0 && address[(int)slot[at]] != address[lane]) at = (at + 1) % SLOTS;
    if (slot[at] < 0) {
      slot[at] = (i8)lane;
      continue;
    }
    one = slot[at];
    other = lane;
    if (!same_value(x, data, one, other)) return true;
  }
  return false;
}

// Whether the lanes are as far from each other as in a store of which it is known that no two were at one place: the stores
// behind a matrix product are alike. learn: they are at places of their own.
static bool known_apart(WaveCheck& c, const u64* address, u64 lanes, bool learn) {
  if (lanes != ~0ull) return false;
  u64 differs = !c.apart_known;
  LANES differs |= (address[i] - address[0]) ^ c.apart[i];
  if (!learn) return !differs;
  LANES c.apart[i] = address[i] - address[0];
  return c.apart_known = true;
}

// --- races ---------------------------------------------------------------------------------------------

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
constexpr u32 MAX_GROUPS = 0x3ffffe, MAX_CLOCK = 0xfffff;
// Beside the instruction that wrote: its wave had read there since the barrier, or may have.
constexpr u32 HAS_READ = 1u << 31;

// A dword's readers, and one more.
static void note_read(Readers& all, u64& readers, u64 cell) {
  __atomic_store_n(&readers, readers_with(all, __atomic_load_n(&readers, __ATOMIC_RELAXED), cell), __ATOMIC_RELAXED);
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
      note_read(*n.c.readers, n.r.reads[k], cell | ((1u << to) - (1u << from)));
    }
  };
  early_reads_each(r.early, note, &noting);
}

static bool shadow(Checks& c, Range& r) {
  if (__atomic_load_n(&r.written, __ATOMIC_ACQUIRE)) return r.writes;
  pthread_mutex_lock(&c.lock);
  if (!r.written) {
    u64 dwords = (r.end - (r.base & ~3ull)) / 4 + 2, bytes = dwords * 20;
    if (c.shadow_bytes + bytes <= SHADOW_LIMIT && c.n_groups <= MAX_GROUPS) {
      c.shadow_bytes += bytes;
      r.reads = (u64*)calloc(dwords, 8);
      r.write_pc = (u32*)calloc(dwords, 4);
      r.writes = (u64*)calloc(dwords, 8);
      note_early_reads(c, r);
    }
    __atomic_store_n(&r.written, 1u, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&c.lock);
  return r.writes;
}

// A read of what nobody has written yet, once it is noted; false: somebody has meanwhile.
static bool note_early(Checks& c, Range& r, const u64* at, u64 lanes, u32 bytes, u64 now) {
  if (r.reads_lost) return !__atomic_load_n(&r.written, __ATOMIC_ACQUIRE);
  pthread_mutex_lock(&c.lock);
  const bool early = !r.written;
  if (early) r.reads_lost = !early_reads_add(r.early, at, lanes, bytes, now);
  pthread_mutex_unlock(&c.lock);
  return early;
}

static u64 now_of(const Wave& w) {  // of a cell, for an access of this wave
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
  const u64 dwords = (r.end - (r.base & ~3ull)) / 4 + 2;
  if (bytes || dwords > MOST) return bytes;
  pthread_mutex_lock(&c.lock);
  if (!r.bytes) __atomic_store_n(&r.bytes, (ByteWrites*)calloc(dwords, sizeof(ByteWrites)), __ATOMIC_RELEASE);
  pthread_mutex_unlock(&c.lock);
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
  return wrote.group() == w.wg->linear_id && pc < (write_pc & ~HAS_READ) && (x.glances || write_pc & HAS_READ) &&
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
  bool hit = unordered(w, wrote, bytes);
  u32 before = r.write_pc[index], write_pc = before & ~HAS_READ;
  const Cell whole = wrote;
  if (const int k = wrote.bits && !wrote.one_group() ? unordered_byte(w, r, index, bytes) : -1; k >= 0) {
    wrote = {r.bytes[index].cells[k]};
    write_pc = r.bytes[index].pcs[k];
    hit = true;
  }
  if (!stored) {
    if (!x.glances) {
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

static bool check_races(Wave& w, const Access& x, int lane, Range& r, u64 address, const StoredLanes* stored, u64 now) {
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
static bool untouched(Wave& w, const Access& x, const Lanes& l, Range& r, const u32* data, u64 now) {
  u32 dwords = x.bytes / 4, n = WAVE * dwords;
  u64 first = l.at[0], apart = x.bytes % 4 | (first & 3) | ~l.mask;
  LANES apart |= l.at[i] ^ (first + (u64)i * x.bytes);
  if (apart) return false;
  u64 at = (first - (r.base & ~3ull)) >> 2, seen = 0, mine = now | 15;
  u64 *writes = r.writes + at, *reads = r.reads + at;
  const u64* updates = r.updates ? r.updates + at : writes;
  for (u32 i = 0; i < n; i++) seen |= writes[i] | updates[i];
  for (u32 i = 0; i < n; i++) seen |= data ? reads[i] : reads[i] ^ reads[0];
  if (seen) return false;
  if (!data) {
    const u64 readers = x.glances ? reads[0] : readers_with(*w.wg->check->checks->readers, reads[0], mine);
    for (u32 i = 0; i < n; i++) reads[i] = readers;
    return true;
  }
  const u32* there = (const u32*)first;
  u32* pcs = r.write_pc + at;
  u32 pc = check_of(w).pc | (r.reads_lost ? HAS_READ : 0);
  for (u32 k = 0; k < dwords; k++)
    for (u32 i = 0; i < WAVE; i++)
      writes[i * dwords + k] = mine | (data[k * WAVE + i] != there[i * dwords + k] ? 16 : 0);
  for (u32 i = 0; i < n; i++) pcs[i] = pc;
  return true;
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
  const u64 dwords = (r.end - (r.base & ~3ull)) / 4 + 2;
  pthread_mutex_lock(&c.lock);
  if (!r.updates && c.shadow_bytes + 12 * dwords <= SHADOW_LIMIT) {
    c.shadow_bytes += 12 * dwords;
    r.update_pc = (u32*)calloc(dwords, 4);
    __atomic_store_n(&r.updates, (u64*)calloc(dwords, 8), __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&c.lock);
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
static bool note_update(Wave& w, const Access& x, int lane, u64 address, u32 bytes) {
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
  if (const u64 late = changed & check_of(w).kept) {  // another thread has come between
    order_flag(w, x, w.address, late, 0);
    check_of(w).asked = 0;
  }
  return true;
}

// Of lanes of an atomic, those that leave the value that is there. data: what they bring, then what they compare with.
static u64 kept_by(const Checks& c, const Access& x, const u64* address, u64 lanes, const u32* data) {
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

// --- one instruction -------------------------------------------------------------------------------------

static bool check_extents(Wave& w, const Inst& in, const Access& x, Lanes& l) {
  GroupCheck& g = *w.wg->check;
  Checks& c = *g.checks;
  WaveCheck& wave = check_of(w);
  wave.lanes = wave.spoilt = 0;
  if (x.kind == VM_STORE) progress(c);
  if (!w.exec()) return true;
  if (x.space == SCRATCH_SPACE) return !x.to_lds || check_lds_dma(w, x, w.s[M0] + (u32)in.offset, 4, w.exec());
  if (!lane_addresses(w, in, x, l)) return false;
  if (wave.values.of_lds && x.kind != VM_LOAD && !x.typed)
    mark_stored(w, x, in.src[x.space == BUFFER_SPACE ? 0 : 1].reg, l.mask, l.at);
  if (l.before && c.has(CHECK_BOUNDS)) {
    int lane = __builtin_ctzll(l.before);
    u64 distance = l.base - (l.base + (i64)(i32)(l.at[lane] - l.base));
    const Range* meant = meant_by(c, l.base, false);
    if (!report(w, CHECK_BOUNDS, lane, l.base - distance, meant, ~0u,
                "%s %u bytes %llu bytes before the address in its descriptor%s%s: the card drops it, or reads 0",
                x.kind == VM_LOAD ? "reads" : "writes", x.bytes, (unsigned long long)distance,
                meant ? ", the start of " : "", meant ? meant->name : ""))
      return false;
  }
  if (x.kind == VM_ATOMIC) {
    wave.lanes = l.mask;
    memcpy(w.address, l.at, sizeof l.at);
  }
  if (l.shared && !check_lds_flat(w, in, x, l.at, l.shared)) return false;
  if (l.mask) note_access(wave, l.at[__builtin_ctzll(l.mask)]);
  if (x.to_lds) {
    u32 base = w.s[M0] + (u32)in.offset, width = x.bytes < 4 ? 4 : x.bytes;
    if (base % 4 && c.has(CHECK_ALIGNMENT) &&
        !report(w, CHECK_ALIGNMENT, -1, base, nullptr, ~0u,
                "loads straight to LDS byte %u (m0 + offset), which is not a multiple of 4", base))
      return false;
    if (!check_lds_dma(w, x, base, width, w.exec())) return false;
  }
  const u32* data = x.kind == VM_STORE ? w.vreg(in.src[x.space == BUFFER_SPACE ? 0 : 1].reg) : nullptr;
  if (int one, other; data && c.has(CHECK_RACE) && !known_apart(wave, l.at, l.mask, false)) {
    if (lanes_disagree(x, l.at, l.mask, data, one, other)) {
      char where[200];
      const Range* r = describe(c, l.at[other], 1, where, sizeof where);
      if (!report(w, CHECK_RACE, other, l.at[other], r, ~0u,
                  "lanes %d and %d store different values to the same %u bytes, %s: which one stays is not defined",
                  one, other, x.bytes, where))
        return false;
    } else if (one < 0 && !x.typed) known_apart(wave, l.at, l.mask, true);
  }
  bool sync = x.kind == VM_ATOMIC || x.ordered;
  if (x.kind == VM_LOAD ? x.ordered || x.glances : x.returns) c.looks = true;
  if (sync && c.has(CHECK_RACE)) {
    u64 lanes = l.mask;
    for (u64 m = data ? lanes : 0; m; m &= m - 1) {  // a flag that keeps its value tells nobody anything
      int i = __builtin_ctzll(m);
      if (readable(c, l.at[i]) && !changes(x, data, i, 0, (const u8*)l.at[i]) && x.bytes <= 4) lanes &= ~(m & -m);
    }
    const u32* brought = x.kind == VM_ATOMIC ? w.vreg(in.src[x.space == BUFFER_SPACE ? 0 : 1].reg) : nullptr;
    wave.kept = brought ? kept_by(c, x, l.at, lanes, brought) : 0;
    order_flag(w, x, l.at, lanes, wave.kept);
    if (data && __builtin_popcountll(lanes) <= MOST_FLAG_LANES && x.bytes >= 4)
      for (u64 m = lanes; m; m &= m - 1)
        if (!note_update(w, x, __builtin_ctzll(m), l.at[__builtin_ctzll(m)], (1u << x.bytes) - 1)) return false;
  }
  bool races = c.has(CHECK_RACE) && !sync && c.clock < MAX_CLOCK;
  if ((!c.has(CHECK_RACE) && !c.has(CHECK_BOUNDS)) || !l.mask) return true;

  // Mostly all lanes lie in one range, that of the instruction's last execution, or in none: a peer's memory.
  u64 low = ~0ull, high = 0;
  if (l.mask == ~0ull) {
    LANES {
      low = l.at[i] < low ? l.at[i] : low;
      high = l.at[i] > high ? l.at[i] : high;
    }
  } else {
    for (u64 m = l.mask; m; m &= m - 1) {
      u64 a = l.at[__builtin_ctzll(m)];
      low = a < low ? a : low;
      high = a > high ? a : high;
    }
  }
  u32 hint = c.hint[wave.pc];
  Range* one = hint < c.n_ranges ? &c.ranges[hint] : nullptr;
  if (!one || one->freed || !contains(c, *one, x, low, high + x.bytes)) {
    bool known = false;
    one = range_around(c, x, low, high + x.bytes, known);
    if (one) c.hint[wave.pc] = (u16)(one - c.ranges);
    if (!known && c.open == OPEN && !heap_in_use() && !meant_by(c, l.base, l.named)) return true;
  }
  if (one && !meant_by(*one, l.base, l.named) && meant_by(c, l.base, l.named)) one = nullptr;
  if (one && one->constant && x.kind != VM_LOAD && !writes_constant(w, x, l, *one)) return false;
  const bool says = sync && x.kind != VM_LOAD;
  if (says && one && one->shown) c.tells = true;
  const bool streams = c.work && c.has(CHECK_RACE) && (data || !sync);
  if (one && one->owners && streams && !check_streams(w, x, l.at, l.mask, data, *one)) return false;
  const u64 now = now_of(w);
  const StoredLanes stored = {&x, l.at, data, l.mask};
  const auto early = [&](Range& r, u64 lanes) {
    return !data && !r.written && (x.glances || r.internal || note_early(c, r, l.at, lanes, x.bytes, now));
  };
  if (one && (!races || early(*one, l.mask) || !shadow(c, *one))) return true;
  if (one && !one->internal && untouched(w, x, l, *one, data, now)) return true;
  for (u64 m = l.mask; m; m &= m - 1) {
    int lane = __builtin_ctzll(m);
    bool stop = false;
    Range* r = one ? one : range_of(w, x, lane, l.at[lane], l.base, l.named, stop);
    if (stop) return false;
    if (!r) continue;
    if (!one) c.hint[wave.pc] = (u16)(r - c.ranges);
    if (says && r->shown) c.tells = true;
    if (!one && r->owners && streams && !check_streams(w, x, l.at, m & -m, data, *r)) return false;
    if (!races || r->internal || early(*r, m & -m) || !shadow(c, *r)) continue;
    if (!check_races(w, x, lane, *r, l.at[lane], data ? &stored : nullptr, now)) return false;
  }
  return true;
}

bool check_global(Wave& w, const Inst& in, const Access& x) {
  if (x.bytes == BY_FORMAT) {
    Access typed = x;
    typed.typed = true;
    typed.bytes = typed_element(w, in, op_facts(in.op)).bytes;
    return !typed.bytes || check_global(w, in, typed);
  }
  Lanes l;
  l.mask = 0;
  if (!check_extents(w, in, x, l)) return false;
  const Checks& c = *w.wg->check->checks;
  return x.kind == VM_LOAD || !c.follows_values() || check_stored(w, in, x, l.mask);
}

// A scalar load races as a lane's does, but only its first dword is known to be wanted.
static bool check_scalar_race(Wave& w, const Access& x, Range& r, u64 address) {
  Checks& c = *w.wg->check->checks;
  if (x.kind != SMEM_LOAD || !c.has(CHECK_RACE) || c.clock >= MAX_CLOCK || r.internal) return true;
  address &= ~3ull;
  if ((!r.written && (x.glances || note_early(c, r, &address, 1, 4, now_of(w)))) || !shadow(c, r)) return true;
  return check_cell(w, x, -1, r, (address - (r.base & ~3ull)) >> 2, address, 15, nullptr, false, now_of(w));
}

constexpr u32 IMPLICIT_BYTES = 256;  // of hidden arguments behind the kernel's own

// Scalar accesses: dword aligned; compilers widen loads within 16 aligned bytes.
bool check_scalar(Wave& w, const Inst& in, const Access& x) {
  Checks& c = *w.wg->check->checks;
  WaveCheck& wave = check_of(w);
  const Operand &from = in.src[x.kind == SMEM_STORE], &index = in.src[1 + (x.kind == SMEM_STORE)];
  u64 unit = x.space == SCRATCH_SPACE ? 64 : 1, within = x.kind == SMEM_LOAD ? 15 : 0;
  u64 offset = (index.kind == NONE ? 0 : scalar32(w, index)) * unit + (i64)in.offset, base = w.s64(from.reg),
      address = base + offset;
  if (x.space == BUFFER_SPACE) {
    if ((u32)offset + x.bytes > w.s[from.reg + 2]) return true;  // reads zeros, writes nothing
    base &= 0xffffffffffffull;
    address = base + (u32)offset;
  }
  wave.polled = 0;
  const Launch& launch = *w.wg->launch;  // whose arguments nobody changes: they are read, not polled
  if (address - (u64)launch.kernarg >= launch.kernarg_bytes + IMPLICIT_BYTES) note_access(wave, address);
  if (address & 3 && c.has(CHECK_ALIGNMENT) &&
      !report(w, CHECK_ALIGNMENT, -1, address, nullptr, ~0u, "scalar access to 0x%llx, whose two low bits are ignored",
              (unsigned long long)address))
    return false;
  auto holds = [&](const Range& r) {
    return !r.freed && address >= r.base && address + x.bytes <= ((r.end + within) & ~within);
  };
  // Only its first dword is known to be wanted.
  const bool named = x.space != BUFFER_SPACE && variable_in(w, wave, from.reg);
  const Range* meant = named ? meant_by(c, base, named) : nullptr;
  u32 at = c.hint[wave.pc];
  if (at >= c.n_ranges || !holds(c.ranges[at]))
    for (at = 0; at < c.n_ranges && !holds(c.ranges[at]);) at++;
  if (at < c.n_ranges && (!meant || address - meant->base < meant->end - meant->base)) {
    c.hint[wave.pc] = (u16)at;
    const Range& r = c.ranges[at];
    const u64 from = address & ~3ull;  // of which the first dword is known to be wanted
    Access first = x;
    first.bytes = 4;
    if (r.owners && c.work && c.has(CHECK_RACE) && from >= r.base) {
      if (x.kind == SMEM_STORE) own(r, address, address + x.bytes, c.work, c.known);
      else if (!check_streams(w, first, &from, 1, nullptr, r)) return false;
    }
    return check_scalar_race(w, x, c.ranges[at], address);
  }
  if (!c.has(CHECK_BOUNDS)) return true;
  bool stop = false;
  range_of(w, x, -1, address, x.space == BUFFER_SPACE || named ? base : 0, named, stop);
  return !stop;
}
