// What the two files that look at LDS accesses share, see lds_race.cpp and lds_fast_path.cpp.
#pragma once
#include "check.h"

constexpr u32 NO_REGISTER = ~0u;
struct LdsAccess {
  Wave& w;
  GroupCheck& g;
  WaveCheck& c;
  const Access& x;
  u16 me;  // mask of one wave
  u32 pc;
  u32 seq;  // in the wave's counter
  bool write, atomic;
  u32 to = NO_REGISTER, from = NO_REGISTER;  // where a lane's element comes to; or from, if it may not be defined
};

// Notes and looks at one lane's element of `bytes` bytes at `at`; data: its first data register, or null. False stops
// the wave.
bool lds_element(const LdsAccess& a, int lane, u32 at, u32 bytes, const u32* data);

// --- lds_fast_path.cpp -----------------------------------------------------------------------------

struct LdsQuick;
LdsQuick* quick_create(u32 lds_bytes, u32 n_waves);
void quick_destroy(LdsQuick* q);
void quick_start(LdsQuick& q, bool keeps);  // of a workgroup; keeps: which waves' accesses meet matters
void quick_barrier(LdsQuick& q, bool quick);
// Whether nothing can be wrong with the elements at v + offsets of the active lanes. If not, quick_leave is next.
bool quick_access(const LdsAccess& a, const u32* v, const u32* offsets, u32 n);
bool quick_apart(const LdsAccess& a, const u32* v);  // no two lanes' elements begin at one place; false: not known
void quick_leave(Workgroup& g);  // until the next barrier accesses are kept by lds_element, those so far included
bool quick_whole(const LdsQuick& q, u32 dword);  // all its bytes have been written
void quick_set_whole(LdsQuick& q, u32 dword, bool whole);

static inline void lds_written(GroupCheck& g, u32 dword, u8 bytes) {
  g.written[dword] |= bytes;
  if (g.written[dword] == 15) quick_set_whole(*g.quick, dword, true);
}

// Written with what LDS had not: what comes there is no more than was there.
static inline void lds_unwritten(GroupCheck& g, u32 dword, u8 bytes) {
  g.written[dword] = (quick_whole(*g.quick, dword) ? 15 : g.written[dword]) & ~bytes;
  quick_set_whole(*g.quick, dword, false);
}
