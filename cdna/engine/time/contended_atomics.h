// How often atomics ask for a line: those of one line are served one after the other, see counters.cpp.
#pragma once
#include "isa/core.h"
#include <stdlib.h>

struct ContendedLines {
  static constexpr u32 PLACES = 1 << 16;  // lines beyond so many are left out: there is little contention then
  struct Place {
    u64 line, lanes;
  };
  Place* places;  // null before the first atomic

  void add(u64 line, u64 lanes) {
    if (!places) places = (Place*)calloc(PLACES, sizeof(Place));
    u32 at = (u32)(line * 0x9e3779b97f4a7c15ull >> 48);
    for (u32 tries = 0; tries < 16; tries++, at = (at + 1) % PLACES) {
      if (places[at].lanes && places[at].line != line) continue;
      places[at] = {line, places[at].lanes + lanes};
      return;
    }
  }
  void add(const ContendedLines& other) {
    for (u32 i = 0; other.places && i < PLACES; i++)
      if (other.places[i].lanes) add(other.places[i].line, other.places[i].lanes);
  }
  u64 most() const {
    u64 most = 0;
    for (u32 i = 0; places && i < PLACES; i++) most = places[i].lanes > most ? places[i].lanes : most;
    return most;
  }
};
