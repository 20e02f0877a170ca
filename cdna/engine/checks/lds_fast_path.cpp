// LDS accesses that cannot be wrong: inside the allocation, to bytes that have been written, and to dwords that no
// other wave has accessed since the last barrier, but for reads of what is only read.
//
// What waves have accessed is kept as bitmaps of dwords. At the first access that meets another wave's, or needs a
// closer look for another reason, all accesses since the barrier go to lds_race.cpp, which knows bytes, instructions
// and counters, and everything until the next barrier as well.
#include "lds_race.h"
#include <stdlib.h>

namespace {
struct Kept {
  u32 v[WAVE];
  u64 lanes;
  u32 offsets[2], n, pc, seq, wave;
  bool write;
};
}  // namespace
constexpr u32 MAX_KEPT = 1024;

struct LdsQuick {
  u32 n_words, n_waves;
  bool on, keeps;
  u32 first, last;  // words of the bitmaps that are not clear; first > last: none
  // Bitmaps, one behind the other:
  u64* access;                   // the one at hand; clear between accesses
  u64* whole;                    // of the workgroup: all four bytes written
  u64 *written, *read, *shared;  // since the last barrier, by any wave; shared: read by several
  u64* own;                      // the same by each wave, [wave][written, read][n_words]
  List<Kept> kept;
  u64* own_written(u32 wave) { return own + (size_t)wave * 2 * n_words; }
  u64* own_read(u32 wave) { return own_written(wave) + n_words; }
};

LdsQuick* quick_create(u32 lds_bytes, u32 n_waves) {
  LdsQuick* q = (LdsQuick*)calloc(1, sizeof(LdsQuick));
  q->n_words = lds_bytes / 256 + 2;  // an element may begin in the last one
  q->n_waves = n_waves;
  q->access = (u64*)calloc((size_t)q->n_words * (5 + 2 * n_waves), sizeof(u64));
  q->whole = q->access + q->n_words;
  q->written = q->whole + q->n_words;
  q->read = q->written + q->n_words;
  q->shared = q->read + q->n_words;
  q->own = q->shared + q->n_words;
  q->last = q->n_words - 1;
  return q;
}

void quick_destroy(LdsQuick* q) {
  if (!q) return;
  free(q->access);
  q->kept.release();
  free(q);
}

void quick_start(LdsQuick& q, bool keeps) {
  q.keeps = keeps;
  memset(q.whole, 0, sizeof(u64) * q.n_words);
  quick_barrier(q, true);
}

void quick_barrier(LdsQuick& q, bool quick) {
  q.on = quick;
  q.kept.clear();
  if (q.first <= q.last) {
    size_t bytes = sizeof(u64) * (q.last - q.first + 1);
    for (u32 i = 0; i < 3 + 2 * q.n_waves; i++) memset(q.written + (size_t)i * q.n_words + q.first, 0, bytes);
  }
  q.first = ~0u;
  q.last = 0;
}

bool quick_whole(const LdsQuick& q, u32 dword) { return q.whole[dword >> 6] >> (dword & 63) & 1; }
void quick_set_whole(LdsQuick& q, u32 dword, bool whole) {
  const u64 bit = 1ull << (dword & 63);
  q.whole[dword >> 6] = (q.whole[dword >> 6] & ~bit) | (whole ? bit : 0);
}

// The words of the bitmaps that the elements touch; false where one is outside or oddly aligned.
static bool extent(const LdsAccess& a, const u32* v, u64 exec, u32 offset, u32& first, u32& last) {
  u32 lowest, highest, bits;
  extent_of(v, exec, lowest, highest, bits);
  u32 bytes = a.x.bytes;
  if (highest > ~0u - offset || (u64)highest + offset + bytes > a.g.lds_bytes) return false;
  if ((bits | offset) & (bytes < 4 ? bytes - 1 : 3)) return false;
  first = (lowest + offset) >> 8;
  last = (highest + offset + bytes - 1) >> 8;
  return true;
}

static void mark(u64* map, const u32* v, u64 exec, u32 offset, u32 bytes) {
  u32 dwords = bytes < 4 ? 1 : bytes / 4;
  u64 span = (1ull << dwords) - 1;
  auto element = [&](int lane) {
    u32 d = (v[lane] + offset) >> 2, shift = d & 63;
    map[d >> 6] |= span << shift;
    if (shift + dwords > 64) map[(d >> 6) + 1] |= span >> (64 - shift);
  };
  if (exec == ~0ull)
    for (int i = 0; i < WAVE; i++) element(i);
  else
    for (u64 m = exec; m; m &= m - 1) element(__builtin_ctzll(m));
}

// Where elements of `bytes` bytes at all lanes' v lie, as a bitmap of dwords from word `first` on. Kernels come back to a
// few such places, with other offsets.
namespace {
constexpr u32 MOST_PLACED = 32;  // words
struct Places {
  u32 v[WAVE], bytes;
  u32 n, first, end;  // words, the first of them, end of the last element; n 0: they have no map
  bool apart;         // no two lanes begin at one place
  u64 map[MOST_PLACED + 1];
};
}  // namespace

static void place(Places& p, const u32* v, u32 bytes) {
  u32 lowest, highest, bits;
  extent_of(v, ~0ull, lowest, highest, bits);
  memcpy(p.v, v, sizeof p.v);
  p.bytes = bytes;
  p.n = 0;
  p.apart = false;
  p.first = lowest >> 8;
  p.end = highest + bytes;
  if ((bits | bytes) & 3 || p.end < bytes || ((p.end - 1) >> 8) - p.first >= MOST_PLACED) return;
  p.n = ((p.end - 1) >> 8) - p.first + 1;
  u64 starts[MOST_PLACED + 1] = {};
  mark(starts, v, ~0ull, 0u - p.first * 256, 4);
  u32 places = 0;
  for (u32 i = 0; i < p.n; i++) places += __builtin_popcountll(starts[i]);
  p.apart = places == WAVE;
  memset(p.map, 0, sizeof p.map);
  mark(p.map, v, ~0ull, 0u - p.first * 256, bytes);
}

static const Places* places_of(const u32* v, u64 exec, u32 bytes) {  // null: they have no map
  constexpr u32 MOST = 256;  // of the waves of a product some 50 are in use: of 64 many took each other's
  static thread_local Places known[MOST];
  if (exec != ~0ull) return nullptr;
  Places& p = known[mixed((v[0] | (u64)v[63] << 32) ^ (u64)v[1] << 16 ^ bytes) % MOST];
  u32 differs = p.bytes ^ bytes;
  LANES differs |= p.v[i] ^ v[i];
  if (differs) place(p, v, bytes);
  return p.n ? &p : nullptr;
}

bool quick_apart(const LdsAccess& a, const u32* v) {
  const Places* p = places_of(v, a.w.exec(), a.x.bytes);
  return p && p->apart;
}

static bool elements(const LdsAccess& a, LdsQuick& q, const u32* v, u64 exec, u32 offset) {
  u32 first, last;
  if (const Places* p = offset & 3 ? nullptr : places_of(v, exec, a.x.bytes)) {
    if ((u64)p->end + offset > a.g.lds_bytes) return false;
    first = p->first + (offset >> 8);
    last = (p->end + offset - 1) >> 8;
    const u32 shift = offset >> 2 & 63;
    u64 below = 0;
    for (u32 i = 0; first + i <= last; i++) {
      q.access[first + i] = p->map[i] << shift | (shift ? below >> (64 - shift) : 0);
      below = p->map[i];
    }
  } else {
    if (!extent(a, v, exec, offset, first, last)) return false;
    mark(q.access, v, exec, offset, a.x.bytes);
  }
  u64 *own_written = q.own_written(a.w.id), *own_read = q.own_read(a.w.id), wrong = 0;
  bool unwritten = !a.write && a.g.checks->has(CHECK_UNINITIALISED);
  for (u32 i = first; i <= last; i++) {
    u64 x = q.access[i];
    if (unwritten) wrong |= x & ~q.whole[i];
    if (q.keeps) {
      wrong |= x & q.written[i] & ~own_written[i];
      if (a.write) wrong |= x & q.read[i] & (~own_read[i] | q.shared[i]);
    }
  }
  for (u32 i = first; i <= last && !wrong; i++) {
    u64 x = q.access[i];
    if (a.write) {
      if (a.x.bytes >= 4) q.whole[i] |= x;
      q.written[i] |= x;
      own_written[i] |= x;
    } else if (q.keeps) {
      q.shared[i] |= x & q.read[i] & ~own_read[i];
      q.read[i] |= x;
      own_read[i] |= x;
    }
  }
  memset(q.access + first, 0, sizeof(u64) * (last - first + 1));
  q.first = first < q.first ? first : q.first;
  q.last = last > q.last ? last : q.last;
  return !wrong;
}

static void bytes_written(const LdsAccess& a, const u32* v, u64 exec, u32 offset) {
  for (u64 m = exec; m; m &= m - 1) {
    u32 at = v[__builtin_ctzll(m)] + offset;
    lds_written(a.g, at / 4, (u8)(((1u << a.x.bytes) - 1) << (at & 3)));
  }
}

bool quick_access(const LdsAccess& a, const u32* v, const u32* offsets, u32 n) {
  LdsQuick& q = *a.g.quick;
  u64 exec = a.w.exec();
  if (!q.on || a.atomic) return false;
  if (!exec) return true;
  if (q.keeps && q.kept.count == MAX_KEPT) return false;
  for (u32 k = 0; k < n; k++)
    if (!elements(a, q, v, exec, offsets[k])) return false;
  if (a.write && a.x.bytes < 4)
    for (u32 k = 0; k < n; k++) bytes_written(a, v, exec, offsets[k]);
  if (!q.keeps) return true;
  Kept& kept = q.kept.add();
  memcpy(kept.v, v, sizeof kept.v);
  kept.lanes = exec;
  memcpy(kept.offsets, offsets, sizeof kept.offsets);
  kept.n = n;
  kept.pc = a.pc;
  kept.seq = a.seq;
  kept.wave = a.w.id;
  kept.write = a.write;
  return true;
}

void quick_leave(Workgroup& g) {
  GroupCheck& c = *g.check;
  LdsQuick& q = *c.quick;
  if (!q.on) return;
  q.on = false;
  for (const Kept& kept : q.kept) {
    const Access& x = c.checks->table[kept.pc];
    u16 me = (u16)(1u << kept.wave);
    LdsAccess a = {g.waves[kept.wave], c, c.waves[kept.wave], x, me, kept.pc, kept.seq, kept.write, false};
    for (u32 k = 0; k < kept.n; k++)
      for (u64 m = kept.lanes; m; m &= m - 1) {
        int lane = __builtin_ctzll(m);
        lds_element(a, lane, kept.v[lane] + kept.offsets[k], x.bytes, nullptr);
      }
  }
}
