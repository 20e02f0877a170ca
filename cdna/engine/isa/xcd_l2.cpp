// The L2 caches of XCDs, as far as they differ from memory. An MI300X has one for each of its eight XCDs, and within a
// launch they are kept alike by instructions alone (LLVM AMDGPUUsage, "Memory Model GFX942"): buffer_wbl2 sc1 writes back
// what an L2 holds of its XCD's stores, buffer_inv sc1 drops what it has read. Loads and stores with sc1 go past it, and so
// do atomics; those with sc0 alone, of one workgroup, do not.
//
// The worst that the model allows happens here: what is stored stays in its XCD's L2 until it is written back, and what has
// been read stays until it is dropped. The host's memory has the newest of each byte; kept beside it is what it was for
// those who do not see that yet. Bytes that hosts and other processes write are seen at once. A line that has to make room
// is written back and dropped.
#include "xcd_l2.h"
#include <stdlib.h>

constexpr u32 LINE = 128, MOST_LINES = 1 << 16, MOST_XCDS = 8;

namespace {
struct Kept {       // of a line's bytes
  u8 owner[LINE];   // the XCD, plus 1, that has stored it and may not have written it back
  u8 memory[LINE];  // what memory holds then
  u64 stale[MOST_XCDS][LINE / 64];
  u8 copy[MOST_XCDS][LINE];  // what an XCD's L2 has of those
  u32 writer_group[LINE / 4], writer_pc[LINE / 4];
};
}  // namespace
struct Line {
  u64 address;                            // 0: none
  u32 read[MOST_XCDS], wrote[MOST_XCDS];  // kept_from and held_from, plus 1, at its XCDs' last accesses
  Kept* kept;                             // null: all see the same
};

XcdL2* l2_create(u32 xcds) {
  XcdL2* l2 = (XcdL2*)calloc(1, sizeof(XcdL2));
  l2->lines = (Line*)calloc(MOST_LINES, sizeof(Line));
  l2->xcds = xcds < MOST_XCDS ? xcds : MOST_XCDS;
  return l2;
}
void l2_destroy(XcdL2* l2) {
  if (!l2) return;
  for (u32 i = 0; i < MOST_LINES; i++) free(l2->lines[i].kept);
  free(l2->lines);
  free(l2);
}

static u32 xcd_of(const Wave& w) { return w.wg->linear_id % w.wg->l2->xcds; }
void l2_invalidate(Wave& w) { w.wg->l2->kept_from[xcd_of(w)]++; }
void l2_write_back(Wave& w) { w.wg->l2->held_from[xcd_of(w)]++; }

static Line& line_at(XcdL2& l2, u64 address) {
  Line& line = l2.lines[mixed(address / LINE) % MOST_LINES];
  if (line.address == address / LINE * LINE) return line;
  free(line.kept);
  line = {};
  line.address = address / LINE * LINE;
  return line;
}

static bool has_read(const XcdL2& l2, const Line& line, u32 xcd) { return line.read[xcd] == l2.kept_from[xcd] + 1; }
// The XCD, plus 1, whose L2 alone holds a byte's newest value; 0: memory has it.
static u32 holder(const XcdL2& l2, const Line& line, u32 byte) {
  const u32 owner = line.kept->owner[byte];
  return owner && line.wrote[owner - 1] == l2.held_from[owner - 1] + 1 ? owner : 0;
}
static bool is_stale(const Kept& k, u32 xcd, u32 byte) { return k.stale[xcd][byte / 64] >> (byte % 64) & 1; }
static void set_stale(Kept& k, u32 xcd, u32 byte, u8 value) {
  k.stale[xcd][byte / 64] |= 1ull << (byte % 64);
  k.copy[xcd][byte] = value;
}
static void set_fresh(Kept& k, u32 xcd, u32 byte) { k.stale[xcd][byte / 64] &= ~(1ull << (byte % 64)); }

// The line comes into an XCD's L2.
static void fetch(XcdL2& l2, Line& line, u32 xcd) {
  line.read[xcd] = l2.kept_from[xcd] + 1;
  if (!line.kept) return;
  memset(line.kept->stale[xcd], 0, sizeof line.kept->stale[xcd]);
  for (u32 b = 0; b < LINE; b++)
    if (const u32 of = holder(l2, line, b); of && of != xcd + 1) set_stale(*line.kept, xcd, b, line.kept->memory[b]);
}

// One byte for a load of an XCD. past: it goes past the L2.
static u8 byte_for(XcdL2& l2, Line& line, u32 xcd, u32 b, bool past, int lane) {
  const u8 newest = *(const u8*)(line.address + b);
  Kept& k = *line.kept;
  const u32 of = holder(l2, line, b);
  const bool unreleased = of && of != xcd + 1;
  if (past && !unreleased) set_fresh(k, xcd, b);
  if (past ? !unreleased : !is_stale(k, xcd, b)) return newest;
  const u8 older = past ? k.memory[b] : k.copy[xcd][b];
  const u32 group = k.writer_group[b / 4];
  if (older != newest && !l2.stale.found)
    l2.stale = {true, unreleased, lane, line.address + b, 0, group % l2.xcds, group, k.writer_pc[b / 4]};
  return older;
}

// Whether any of the bytes are other than memory's newest; these go to `to` then, all of them.
static bool older_bytes(XcdL2& l2, u32 xcd, u64 address, u32 bytes, bool past, int lane, u8* to) {
  bool any = false;
  for (u64 at = address; at < address + bytes;) {
    const u64 begin = at / LINE * LINE, end = begin + LINE < address + bytes ? begin + LINE : address + bytes;
    Line& line = line_at(l2, at);
    if (!past && !has_read(l2, line, xcd)) fetch(l2, line, xcd);
    memcpy(to + (at - address), (const void*)at, end - at);
    for (u64 b = at; line.kept && b < end; b++) {
      to[b - address] = byte_for(l2, line, xcd, (u32)(b - begin), past, lane);
      any |= to[b - address] != *(const u8*)b;
    }
    at = end;
  }
  return any;
}

static bool in_lds(const Wave& w, u64 address) { return address - (u64)w.wg->lds < w.wg->lds_bytes; }  // of flat ones

const u64* l2_load(Wave& w, const Inst& in, u32 bytes, u64 lanes) {
  static thread_local u64 from[WAVE];
  static thread_local u8 older[WAVE][16];
  XcdL2& l2 = *w.wg->l2;
  l2.stale.found = false;
  memcpy(from, w.address, sizeof from);
  for (u64 m = lanes; m; m &= m - 1) {
    const int i = __builtin_ctzll(m);
    if (in_lds(w, from[i])) continue;
    if (older_bytes(l2, xcd_of(w), from[i], bytes, in.flags & SC1, i, older[i])) from[i] = (u64)older[i];
  }
  return from;
}

void l2_scalar_load(Wave& w, u64 address, u32 dwords, u32* data) {
  w.wg->l2->stale.found = false;
  (void)older_bytes(*w.wg->l2, xcd_of(w), address, 4 * dwords, false, -1, (u8*)data);
  w.wg->l2->stale.from = address;
}

// Whoever has the line, or gets it from memory meanwhile, sees a byte as it is before an XCD's store. through: it goes to
// memory.
static void note_store(XcdL2& l2, Line& line, u32 xcd, u32 b, bool through) {
  Kept& k = *line.kept;
  const u32 of = holder(l2, line, b);
  const u8 newest = *(const u8*)(line.address + b);
  for (u32 y = 0; y < l2.xcds; y++)
    if (y != xcd && has_read(l2, line, y) && !is_stale(k, y, b))
      set_stale(k, y, b, of && of != y + 1 ? k.memory[b] : newest);
  set_fresh(k, xcd, b);
  if (!of) k.memory[b] = newest;
  k.owner[b] = through ? 0 : (u8)(xcd + 1);
}

static void store_bytes(Wave& w, u64 address, u32 bytes, bool through) {
  XcdL2& l2 = *w.wg->l2;
  const u32 xcd = xcd_of(w);
  for (u64 at = address, end; at < address + bytes; at = end) {
    Line& line = line_at(l2, at);
    end = line.address + LINE < address + bytes ? line.address + LINE : address + bytes;
    bool others = !through;
    for (u32 y = 0; y < l2.xcds; y++) others |= y != xcd && has_read(l2, line, y);
    if (!line.kept && !others) continue;
    if (!line.kept) line.kept = (Kept*)calloc(1, sizeof(Kept));
    if (line.wrote[xcd] != l2.held_from[xcd] + 1)  // what it stored before is written back
      for (u8& owner : line.kept->owner) owner = owner == xcd + 1 ? 0 : owner;
    line.wrote[xcd] = l2.held_from[xcd] + 1;
    for (u32 b = (u32)(at - line.address); b < end - line.address; b++) {
      note_store(l2, line, xcd, b, through);
      line.kept->writer_group[b / 4] = w.wg->linear_id;
      line.kept->writer_pc[b / 4] = w.pc - 1;
    }
  }
}

void l2_store(Wave& w, u32 bytes, u64 lanes, bool through) {
  for (; lanes; lanes &= lanes - 1)
    if (const u64 address = w.address[__builtin_ctzll(lanes)]; !in_lds(w, address))
      store_bytes(w, address, bytes, through);
}

// It finds what memory holds: what another XCD's L2 has of these bytes, and has not written back, is lost.
void l2_atomic(Wave& w, u32 bytes, u64 lanes) {
  XcdL2& l2 = *w.wg->l2;
  const u32 xcd = xcd_of(w);
  for (u64 m = lanes; m; m &= m - 1) {
    const u64 address = w.address[__builtin_ctzll(m)];
    if (in_lds(w, address)) continue;
    Line& line = line_at(l2, address);
    for (u32 b = (u32)(address - line.address); line.kept && b < address - line.address + bytes && b < LINE; b++)
      if (const u32 of = holder(l2, line, b); of && of != xcd + 1) {
        *(u8*)(line.address + b) = line.kept->memory[b];
        line.kept->owner[b] = 0;
      }
    store_bytes(w, address, bytes, true);
  }
}
