// Races in global memory: see global_race.cpp.
#pragma once
#include "stores_in_flight.h"

constexpr u32 MAX_CLOCK = 0xfffff;  // of a launch, from which on no race is looked for
u64 now_of(const Wave& w);          // what is noted of an access of this wave
void free_cells(Range& r);
bool shadow(Checks& c, Range& r);  // whether accesses to the range are noted, from its first store on
// A read of what nobody has written yet, once it is noted; false: somebody has meanwhile.
bool note_early(Checks& c, Range& r, const u64* at, u64 lanes, u32 bytes, u64 now);
// Whether nobody has touched there what all lanes access, one behind the other: the access is noted then.
bool untouched(Wave& w, const Access& x, const u64* at, u64 lanes, Range& r, const u32* data, u64 now);
// The next ones look at one access, and note it; false: the wave has to stop. stored: null of a load.
bool check_races(Wave& w, const Access& x, int lane, Range& r, u64 address, const StoredLanes* stored, u64 now);
bool check_scalar_race(Wave& w, const Access& x, Range& r, u64 address);
// That a lane has changed these bytes at an address by an atomic, or by a store that may be a flag.
bool note_update(Wave& w, const Access& x, int lane, u64 address, u32 bytes);
// Of lanes of an atomic, those that leave the value that is there. data: what they bring, then what they compare with.
u64 kept_by(const Checks& c, const Access& x, const u64* address, u64 lanes, const u32* data);
