// What happens before what across waves, by flags: see happens_before.cpp.
#pragma once
#include "check.h"

struct Orders;  // of a launch
Orders* orders_create(u32 n_groups);
void orders_destroy(Orders*);

struct GroupOrder;  // of a workgroup
GroupOrder* group_order_create();
void group_order_destroy(GroupOrder*);
void group_order_start(GroupOrder&);

// Of a wave's instructions, in the order in which they execute.
void order_releases(Wave& w);  // a fence that makes earlier writes visible to other workgroups
void order_acquires(Wave& w);  // a fence behind which other workgroups' writes are read anew
// An atomic or an access with a scope to `lanes` of `address`, whose turn it is (stores_in_flight.h). kept: those that leave the value that is there.
void order_flag(Wave& w, const Access& x, const u64* address, u64 lanes, u64 kept);
// That an atomic whose result nobody gets has been made: what it has found, only its wave's later reads follow.
void order_looks(Wave& w, const u64* address, u64 lanes);
void order_barrier(Workgroup& g, bool acquires);
void order_within_group(Wave& w, u32 other_wave);  // this wave has seen a flag of that one's in LDS

// Whether the wave's workgroup, or the wave itself, has made an access of that kind to this dword at that count of the
// clock or later. before: leaving out the last, which is under way.
bool order_looked(Wave& w, u64 address, u32 clock, bool itself, bool before = false);
constexpr u32 MOST_FLAG_LANES = 8;  // of an access that may be to a flag: more are data
// Whether an access of a workgroup's wave, so many barriers after its start, at that count of the launch's clock, happened
// before what the wave does now.
bool happened_before(Wave& w, u32 group, u32 wave, u32 epoch, u32 clock);
