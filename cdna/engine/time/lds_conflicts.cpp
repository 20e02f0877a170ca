#include "lds_conflicts.h"

// How a wave's lanes are served: in groups, one after the other, each in as many cycles as its fullest bank
// has different dwords. gfx950's groups were measured (HipKittens, analysis of LDS phases); it reads 64 banks
// at once and writes 32. gfx942 has 32 banks, so a group has at most 32 dwords. Its groups of 128 bits are published (AMD,
// CK-Tile blog: reads as quad_group below, writes eight lanes in order); narrower ones are taken to be lanes in order.
struct Phases {
  u8 group[WAVE];
  u32 banks;
};

// {0-3, 20-23}, {4-7, 16-19}, {8-11, 28-31}, {12-15, 24-27}, and the same 32 further.
static u8 quad_group(u32 lane) {
  static const u8 OF[8] = {0, 1, 2, 3, 1, 0, 3, 2};
  return OF[lane % 32 / 4] + lane / 32 * 4;
}
// {0-3, 12-15, 20-27}, {4-11, 16-19, 28-31}, and the same 32 further.
static u8 half_group(u32 lane) {
  static const u8 OF[8] = {0, 1, 1, 0, 1, 0, 0, 1};
  return OF[lane % 32 / 4] + lane / 32 * 2;
}

static Phases phases(u32 bytes, bool writes, bool wide) {
  Phases p;
  p.banks = wide ? 64 : 32;
  u32 at_once = p.banks / ((bytes + 3) / 4 == 3 ? 4 : (bytes + 3) / 4);
  for (u32 i = 0; i < WAVE; i++) p.group[i] = bytes < 12 || writes ? i / at_once : wide ? half_group(i) : quad_group(i);
  return p;
}

LdsCycles lds_cycles(const u64* address, u64 lanes, u32 bytes, bool writes, bool atomic, const Card& card) {
  static Phases table[2][2][17];
  static bool known[2][2][17];  // filled twice by two threads at worst, with the same values
  bool wide = (writes || bytes == 12 ? card.lds_write_banks : card.lds_read_banks) == 64;
  Phases& p = table[wide][writes][bytes];
  if (!__atomic_load_n(&known[wide][writes][bytes], __ATOMIC_ACQUIRE)) {
    p = phases(bytes, writes, wide);
    __atomic_store_n(&known[wide][writes][bytes], true, __ATOMIC_RELEASE);
  }
  // 128 bits that are not aligned to 16 bytes: a lane a cycle (ROCm/gfx950-gluon-tutorials, lds_throughput_validation:
  // ds_read_b128 64 cycles, 8 if aligned).
  if (bytes == 16)
    for (u64 m = lanes; m; m &= m - 1)
      if (address[__builtin_ctzll(m)] & 15) {
        u32 n = (u32)__builtin_popcountll(lanes);
        return {n, n - (4 * n + p.banks - 1) / p.banks};
      }
  // Per group and bank the dwords asked for. Lanes that ask for the same dword share it, but for atomics.
  u32 seen[8][64][4];
  u8 count[8][64] = {}, fullest[8] = {};
  u32 dwords = (bytes + 3) / 4;
  for (u64 m = lanes; m; m &= m - 1) {
    int i = __builtin_ctzll(m);
    u32 g = p.group[i], first = (u32)(address[i] >> 2);
    for (u32 d = first; d < first + dwords; d++) {
      u32 bank = d & (p.banks - 1);
      u8& n = count[g][bank];
      bool shared = false;
      for (u32 k = 0; k < n && k < 4 && !atomic; k++) shared |= seen[g][bank][k] == d;
      if (shared) continue;
      if (n < 4) seen[g][bank][n] = d;
      n++;
      if (n > fullest[g]) fullest[g] = n;
    }
  }
  LdsCycles c = {0, 0};
  for (int g = 0; g < 8; g++)
    if (fullest[g]) c.cycles += fullest[g], c.conflicts += fullest[g] - 1u;
  return c;
}
