// Caches behind the CUs: an L2 per XCD, and the memory-side cache ("Infinity Cache") that all XCDs share.
#pragma once
#include "isa/card.h"
#include "isa/core.h"
#include "memory/peer_memory.h"

constexpr u32 LINE_BYTES = 128;

// Set-associative, least recently used line out. Lines are numbered from 0.
struct Cache {
  u32 sets, ways, clock;
  u64* tags;  // line + 1; 0: empty
  u32* used;
  u32* filled;  // the turn in which the line came
  u8* dirty;    // bit 0, 1: a half of the line; from bit 2 on: the level that it came from

  void create(u64 bytes, u32 n_ways);
  void destroy();
  void clear();
  void drop(u64 line);  // if it is clean: another XCD has written it
  // Whether the line was there; it is now, at `way`. evicted: what went, with its dirty halves (0: nothing that
  // matters).
  bool touch(u64 line, u8 dirty_halves, u8* evicted_halves, u64* evicted_line, size_t* way);
};

// Where a line was.
enum Level : u8 { IN_L1, IN_L2, IN_MEMORY_SIDE, IN_MEMORY, IN_PEER, N_LEVELS };

struct MemoryTraffic {                  // bytes
  u64 l2_read[8], l2_write[8];          // asked of an XCD's L2 by its CUs
  u64 fabric_read[8], fabric_write[8];  // between an XCD's L2 and the memory side
  u64 hbm_read, hbm_write;
  u64 link_read[MOST_PEERS], link_write[MOST_PEERS];  // from and to each peer's memory
  u64 left_dirty;                                     // of what is written: behind the last wave
};

// One entry of what workgroups ask beyond their part of the L1: line << 3 | write << 2 | halves, ATOMIC_ACCESS, and AROUND
// where the L1 may not answer, of a peer's memory neither the L2; of that also the peer's number << PEER_BIT. The replay
// adds level << LEVEL_BIT, and ASKED_BEFORE where another workgroup of the CU has: nobody else is asked.
typedef u64 LineAccess;
constexpr u32 PEER_BIT = 48;
constexpr LineAccess AROUND = 1ull << 58, ATOMIC_ACCESS = 1ull << 59, ASKED_BEFORE = 1ull << 63;
constexpr u32 LEVEL_BIT = 60;
struct Trace {
  LineAccess* entries;
  u64 n, capacity;
  u32 group;
};

// Lines as if pages lay in the order in which they were first touched: where a host has put a buffer changes nothing.
struct Pages {
  u64* hosts;  // page + 1; 0: a free place
  u64* numbers;
  u64 n, capacity;

  u64 line_of(u64 host_line);
  void clear();
};

struct SharedL1;
struct Caches {
  u32 xcds;  // 0: there are none yet
  Pages pages;
  u32 turn;
  Cache l2[8], memory_side;
};

// A card's caches outlive a launch: what one leaves in them the next finds.
Caches* caches_of(const Card&);
extern "C" {
void cdna_caches_clear();  // of all cards: the next launch starts cold
void cdna_caches_free();
}
// Traces of workgroups that run at the same time, interleaved; workgroup n runs on XCD n mod xcds, trace i on CU i mod
// compute units. per_cu: of them. l1s: of the CUs, made where workgroups share one. How many lines these answered.
u64 replay(Caches& c, const Card&, const Trace* traces, u32 n, u32 per_cu, SharedL1*& l1s, MemoryTraffic& m);
// The end of a launch: the L2s write back what is dirty. They keep their lines: a load of a traced kernel on an MI350X is
// back after 250 cycles where the kernel before it read the same.
void write_back(Caches& c, MemoryTraffic& m);
