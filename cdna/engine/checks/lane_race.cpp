// Lanes of one store that leave different values at one place: which of them stays is not defined.
#include "check.h"

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
